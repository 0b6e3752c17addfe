//! What has happened to an instance since its start: who changed what, what was refused, links that went
//! down and up, workers that are late.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The last [`KEPT`] changes and refusals, and as many of the rest, which a noisy machine may have many of;
/// oldest first.
#[derive(Debug, Default)]
pub struct Events {
    kept: Arc<VecDeque<Event>>,
    last: u64,
}

/// Something that has happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 1, rising.
    pub id: u64,
    /// When, UTC.
    pub at: String,
    /// What sort of thing.
    pub kind: Kind,
    /// The generation that runs since then.
    pub generation: u64,
    /// Who asked for it, and how; empty if nobody did.
    pub by: String,
    /// What happened, for people.
    pub text: String,
    /// Each key that was changed, with its old and new value.
    pub changes: Vec<String>,
}

/// What sort of thing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Packets began to flow.
    Start,
    /// Settings were changed.
    Change,
    /// They were not.
    Refused,
    /// A link went down or up, or a port did not do with it what it was told.
    Link,
    /// Something that a port does without.
    Port,
    /// A worker is late, or is there again.
    Worker,
}

impl Events {
    /// Notes what has happened now, which nobody asked for.
    pub fn note(&mut self, kind: Kind, generation: u64, text: &str) {
        self.push(kind, generation, "", text, Vec::new());
    }

    /// Notes a change.
    pub fn changed(&mut self, generation: u64, by: &str, changes: Vec<String>) {
        self.push(Kind::Change, generation, by, &format!("generation {generation}"), changes);
    }

    /// Notes a change that was not done.
    pub fn refused(&mut self, generation: u64, by: &str, why: &str) {
        self.push(Kind::Refused, generation, by, why, Vec::new());
    }

    /// The events, oldest first.
    pub fn kept(&self) -> Arc<VecDeque<Event>> {
        self.kept.clone()
    }

    fn push(&mut self, kind: Kind, generation: u64, by: &str, text: &str, changes: Vec<String>) {
        self.last += 1;
        // Copied only if somebody still reads the last ones.
        let kept = Arc::make_mut(&mut self.kept);
        let mut alike = (0..kept.len()).filter(|at| kept[*at].kind.is_asked_for() == kind.is_asked_for());
        let oldest = alike.next();
        if let Some(oldest) = oldest.filter(|_| alike.count() + 1 == KEPT) {
            kept.remove(oldest);
        }
        let (by, text) = (clipped(by), clipped(text));
        kept.push_back(Event { id: self.last, at: utc(now() as u64), kind, generation, by, text, changes });
    }
}

impl Kind {
    fn is_asked_for(self) -> bool {
        matches!(self, Self::Change | Self::Refused)
    }
}

/// A change whole; of a refusal, which may tell every mistake of a file, the first line.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, kind, by, text, changes, .. } = self;
        match kind {
            Kind::Change => write!(f, "{text}  {at}  {by}")?,
            _ => write!(f, "refused       {at}  {by}")?,
        }
        changes.iter().try_for_each(|line| write!(f, "\n    {line}"))?;
        if *kind == Kind::Change {
            return Ok(());
        }
        let mut lines = text.lines();
        lines.next().map_or(Ok(()), |first| write!(f, "\n    {first}"))?;
        match lines.count() {
            0 => Ok(()),
            more => write!(f, "\n    ({more} more line{}: --json)", if more == 1 { "" } else { "s" }),
        }
    }
}

/// Seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "the time of day is told to people, no algorithm sees it")]
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// As much of what somebody sent as is kept.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{} …", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Seconds since 1970 as RFC 3339 has it: the proleptic Gregorian calendar, counted from a 1st of March, so
/// that a leap day is the last of its year.
fn utc(seconds: u64) -> String {
    let (day, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Events kept of either sort: memory stays flat however often a program changes a rate.
const KEPT: usize = 256;

/// Characters kept of a text that others may have made long.
const TEXT: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }

    #[test]
    fn the_last_ones_are_kept_and_news_do_not_drive_out_changes() {
        let mut events = Events::default();
        events.note(Kind::Start, 0, "start");
        let first = events.kept();
        (1..=1_000).for_each(|generation| events.changed(generation, "root", Vec::new()));
        (0..1_000).for_each(|_| events.note(Kind::Worker, 1_000, "late"));
        let kept = events.kept();
        let ids: Vec<_> = kept.iter().map(|event| event.id).collect();
        let last = |end: u64| end + 1 - KEPT as u64..=end;
        assert_eq!(ids, last(1_001).chain(last(2_001)).collect::<Vec<_>>());
        assert_eq!((first.len(), first[0].kind), (1, Kind::Start), "who reads is not disturbed");
    }

    #[test]
    fn of_a_refusal_the_first_line_is_shown() {
        let mut events = Events::default();
        for why in ["one", "one\n  two", "one\n  two\n  three"] {
            events.refused(0, "root", why);
        }
        let kept = events.kept();
        let lines = |event: &Event| -> Vec<String> {
            event.to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect()
        };
        let shown: Vec<_> = kept.iter().map(lines).collect();
        let expected: [&[&str]; 3] =
            [&["one"], &["one", "(1 more line: --json)"], &["one", "(2 more lines: --json)"]];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut events = Events::default();
        events.refused(0, &"é".repeat(TEXT), &"é".repeat(TEXT + 1));
        let kept = events.kept();
        assert_eq!(kept[0].by.chars().count(), TEXT);
        assert!(kept[0].text.ends_with("é …") && kept[0].text.chars().count() == TEXT + 2);
    }
}
