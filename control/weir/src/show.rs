//! `weir show`.

use crate::report::Report;
use crate::say::say;
use crate::socket;
use anyhow::{Context, Result};
use std::process::ExitCode;

/// Prints the statistics of a running instance.
///
/// # Errors
/// No instance answers, or it speaks another version.
pub fn show(name: Option<&str>, json: bool) -> Result<ExitCode> {
    let document = socket::ask(name)?;
    if json {
        say(&format!("{document}\n"))?;
    } else {
        let report: Report = serde_json::from_str(&document)
            .context("the instance's answer cannot be read: is it another version of weir?")?;
        say(&report.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
