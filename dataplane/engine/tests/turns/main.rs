//! The real loop, turned by hand: real workers, mbufs and ports of rings, in virtual time. The test
//! says what time it is; nothing sleeps and nothing reads a clock.
//!
//! [`rig`] is what a test turns: workers' directions between rings that it fills and drains, with
//! the books checked after every turn. [`frames`] makes the frames. Each further module is a promise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, and helpers of tests")]

mod allocation;
mod cake;
mod conservation;
mod control;
mod delays;
mod ecn;
mod fairness;
mod frames;
mod governor;
mod link;
mod mailbox;
mod merging;
mod rate;
mod reload;
mod rig;
mod supers;
mod transparency;
mod virtio;
