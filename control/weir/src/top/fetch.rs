//! Reading an instance, in a thread of its own: one that does not answer holds up no key.

use crate::report::Report;
use crate::socket;
use crate::top::delays::Delays;
use anyhow::{Context, Result};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// What an instance says at one time.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Its counters.
    pub report: Report,
    /// Its waiting times since the start.
    pub delays: Delays,
}

/// Reads an instance once.
///
/// # Errors
/// It does not run, does not answer, or is of another version.
pub fn read(name: Option<&str>) -> Result<Reading> {
    let report = serde_json::from_str(&socket::ask(name)?)
        .context("the instance's answer cannot be read: is it another version of weir?")?;
    Ok(Reading { report, delays: Delays::default() })
}

/// Reads instance `name` again and again, `interval` after the last answer, until nobody listens.
///
/// # Errors
/// No thread can be started.
pub fn start(name: String, interval: Duration) -> Result<Receiver<Result<Reading>>> {
    let (sender, receiver) = sync_channel(1);
    let readings = move || {
        loop {
            pause(interval);
            if sender.send(read(Some(&name))).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("weir-top-reader".to_owned())
        .spawn(readings)
        .context("cannot start the thread that reads the instance")?;
    Ok(receiver)
}

/// Lets time pass.
#[allow(clippy::disallowed_methods, reason = "two readings are apart by a time that people have asked for")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}
