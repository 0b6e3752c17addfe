//! The HTTP server of a running instance, asked as clients of all kinds would. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]
#![allow(clippy::disallowed_methods, reason = "waits for a process have an end")]

mod access;
mod bench;
#[path = "../ending/mod.rs"]
mod ending;
mod hostile;
mod openapi;
mod recorded;
