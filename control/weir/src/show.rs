//! `weir show`.

use crate::api::client::Client;
use crate::report::Report;
use crate::say::{say, wrapped};
use anyhow::Result;
use std::process::ExitCode;

/// Prints the statistics of a running instance.
///
/// # Errors
/// No instance answers, or it speaks another version.
pub fn show(name: Option<&str>, json: bool) -> Result<ExitCode> {
    let client = Client::find(name)?;
    if json {
        say(&client.text("/v1/stats")?)?;
    } else {
        let report: Report = client.get("/v1/stats")?;
        say(&wrapped(&report.to_string()))?;
    }
    Ok(ExitCode::SUCCESS)
}
