//! `weir reload`, `weir set` and `weir history`: asked of a running instance.

use crate::command::{self, Request};
use crate::say::{complain, say};
use anyhow::{Result, bail};
use std::process::ExitCode;

/// Has an instance take up its changed file.
///
/// # Errors
/// No instance answers.
pub fn reload(name: Option<&str>, dry_run: bool) -> Result<ExitCode> {
    carry_out(name, &Request::Reload { dry_run })
}

/// Changes one value of an instance.
///
/// # Errors
/// No instance answers, or the time makes no sense.
pub fn set(
    name: Option<&str>,
    path: String,
    value: String,
    span: Option<&str>,
    dry_run: bool,
) -> Result<ExitCode> {
    let for_s = span.map(seconds).transpose()?;
    carry_out(name, &Request::Set { path, value, for_s, dry_run })
}

/// Prints what was changed in an instance.
///
/// # Errors
/// No instance answers.
pub fn history(name: Option<&str>, json: bool) -> Result<ExitCode> {
    let answer = command::ask(name, &Request::History)?;
    if json {
        say(&format!("{}\n", serde_json::to_string_pretty(&answer.history)?))?;
    } else if answer.history.is_empty() {
        say("nothing was changed since the start\n")?;
    } else {
        for entry in &answer.history {
            say(&format!("{entry}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn carry_out(name: Option<&str>, request: &Request) -> Result<ExitCode> {
    let answer = command::ask(name, request)?;
    if answer.ok {
        say(&format!("{}\n", answer.text))?;
        return Ok(ExitCode::SUCCESS);
    }
    complain(&format!("weir: {}", answer.text));
    Ok(ExitCode::FAILURE)
}

/// A time for people: seconds, minutes, hours.
fn seconds(text: &str) -> Result<u64> {
    let factor = |unit: &str| match unit {
        "s" => Some(1),
        "m" | "min" => Some(60),
        "h" => Some(3_600),
        _ => None,
    };
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    match number.parse::<u64>().ok().zip(factor(unit)).and_then(|(n, factor)| n.checked_mul(factor)) {
        Some(seconds @ 1..=LONGEST) => Ok(seconds),
        _ => bail!("--for {text}: write a time from 1s to 720h, such as 90s, 10m or 2h"),
    }
}

/// 30 days.
const LONGEST: u64 = 720 * 3_600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(seconds("90s").unwrap(), 90);
        assert_eq!(seconds("10m").unwrap(), 600);
        assert_eq!(seconds("2h").unwrap(), 7_200);
        for wrong in ["", "10", "m", "0s", "-1s", "1d", "721h", "99999999999999999999s", "1.5h"] {
            assert!(seconds(wrong).unwrap_err().to_string().contains("720h"), "{wrong}");
        }
    }
}
