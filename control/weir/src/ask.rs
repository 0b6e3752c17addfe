//! `weir reload`, `weir set` and `weir history`: asked of a running instance.

use crate::api::client::Client;
use crate::api::route::{Changed, Events};
use crate::events::Kind;
use crate::say::say;
use anyhow::{Context, Result, bail};
use hyper::Method;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Has an instance take up its changed file.
///
/// # Errors
/// No instance answers, or it does not take it up.
pub fn reload(name: Option<&str>, dry_run: bool) -> Result<ExitCode> {
    let changed: Changed =
        Client::find(name)?.send(Method::POST, &format!("/v1/reload?dry-run={dry_run}"), None)?;
    say(&format!("{}\n", changed.text))?;
    Ok(ExitCode::SUCCESS)
}

/// Changes one value of an instance.
///
/// # Errors
/// No instance answers, the time makes no sense, or the value was refused.
pub fn set(
    name: Option<&str>,
    path: &str,
    value: &str,
    span: Option<&str>,
    dry_run: bool,
) -> Result<ExitCode> {
    let span = span.map(|text| seconds(text).with_context(|| format!("--for {text}"))).transpose()?;
    let span = span.map(|seconds| format!("&for={seconds}s")).unwrap_or_default();
    let body = json!({ path: literal(value)? });
    let at = format!("/v1/config?dry-run={dry_run}{span}");
    let changed: Changed = Client::find(name)?.send(Method::PATCH, &at, Some(&body))?;
    say(&format!("{}\n", changed.text))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what was changed in an instance; as JSON, all that has happened to it.
///
/// # Errors
/// No instance answers.
pub fn history(name: Option<&str>, json: bool) -> Result<ExitCode> {
    let Events { events } = Client::find(name)?.get("/v1/events")?;
    if json {
        say(&format!("{}\n", serde_json::to_string_pretty(&events)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut changes =
        events.iter().filter(|event| matches!(event.kind, Kind::Change | Kind::Refused)).peekable();
    if changes.peek().is_none() {
        say("nothing was changed since the start\n")?;
    }
    changes.try_for_each(|event| say(&format!("{event}\n")))?;
    Ok(ExitCode::SUCCESS)
}

/// A value as in the file; what is none there is a string without its quotes.
fn literal(text: &str) -> Result<Value> {
    let parsed = format!("value = {text}").parse::<toml::Table>().ok();
    let value = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    Ok(value.map_or_else(|| Ok(Value::String(text.to_owned())), serde_json::to_value)?)
}

/// A time for people: seconds, minutes, hours.
///
/// # Errors
/// It is none, or too short or long.
pub fn seconds(text: &str) -> Result<u64> {
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
        _ => bail!("{text:?}: write a time from 1s to 720h, such as 90s, 10m or 2h"),
    }
}

/// 30 days.
const LONGEST: u64 = 720 * 3_600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_needs_no_quotes() {
        for (text, value) in [
            ("500Mbit", json!("500Mbit")),
            ("\"500Mbit\"", json!("500Mbit")),
            ("false", json!(false)),
            ("1000", json!(1000)),
            ("a\nb = 1", json!("a\nb = 1")),
            ("[{ dscp = 46 }]", json!([{ "dscp": 46 }])),
        ] {
            assert_eq!(literal(text).unwrap(), value, "{text}");
        }
    }

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
