//! Completions of every software driver: what the probe finds out about them, and the governor at work
//! where they need care.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, and helpers of tests")]

mod ports;
mod probe;
mod virtio;
