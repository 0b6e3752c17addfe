//! `weir` as its users run it: real files, real ports, real packets, real signals. Needs root (taps, namespaces).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod bench;
mod changes;
mod governor;
#[path = "../instance/mod.rs"]
mod instance;
mod instances;
mod links;
mod refusals;
mod traffic;
