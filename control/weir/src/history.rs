//! What was changed while an instance ran: generation by generation, when, by whom, what.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// The last [`KEPT`] changes and refusals, oldest first.
#[derive(Debug, Default)]
pub struct History {
    entries: VecDeque<Entry>,
}

/// One change, or one that was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The generation that runs since then.
    pub generation: u64,
    /// When, UTC.
    pub at: String,
    /// Who asked for it, and how.
    pub by: String,
    /// Each key with its old and new value.
    pub changes: Vec<String>,
    /// Why it was not done.
    pub refused: Option<String>,
}

impl History {
    /// Notes what has happened now.
    pub fn note(&mut self, generation: u64, by: &str, changes: Vec<String>, refused: Option<String>) {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { generation, at: now(), by: by.to_owned(), changes, refused });
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, at, by, changes, refused } = self;
        match refused {
            None => write!(f, "generation {generation}  {at}  {by}")?,
            Some(_) => write!(f, "refused       {at}  {by}")?,
        }
        let lines = changes.iter().map(String::as_str).chain(refused.iter().flat_map(|why| why.lines()));
        lines.into_iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

#[allow(clippy::disallowed_methods, reason = "the time of day is told to people, no algorithm sees it")]
fn now() -> String {
    utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
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

/// Entries kept: memory stays flat however often a program changes a rate.
pub const KEPT: usize = 256;

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
    fn the_last_ones_are_kept() {
        let mut history = History::default();
        (0..1_000).for_each(|generation| history.note(generation, "root", Vec::new(), None));
        let entries = history.entries();
        assert_eq!((entries.len(), entries[0].generation), (KEPT, 1_000 - KEPT as u64));
    }
}
