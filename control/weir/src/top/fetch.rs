//! Reading an instance, in a thread of its own: one that does not answer holds up no key.

use crate::api::client::Client;
use crate::report::{FlowsReport, Report};
use crate::telemetry::delays::Delays;
use anyhow::{Context, Result};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// What an instance says at one time.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Its counters.
    pub report: Report,
    /// How long packets took since the start.
    pub delays: Delays,
    /// Who sent most of late.
    pub flows: FlowsReport,
}

/// Reads an instance once.
///
/// # Errors
/// It does not run, does not answer, or is of another version.
pub fn read(name: Option<&str>) -> Result<Reading> {
    let client = Client::find(name)?;
    Ok(Reading {
        report: client.get("/v1/stats")?,
        delays: client.get("/v1/histograms")?,
        flows: client.get("/v1/flows")?,
    })
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
