//! What files do to the configuration reader, and what it tells about them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
mod files;
mod messages;
mod tc;
