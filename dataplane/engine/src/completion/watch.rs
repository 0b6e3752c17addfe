//! Whether a source of completions keeps its word.
//!
//! Two things show that it does not. **Never**: frames have waited for a completion for
//! [`GIVE_UP`], although [`EXTRA`] frames more than the limit allows were let through meanwhile: for
//! some drivers report a batch, and some look only when something is sent. **At once**: whatever is
//! sent counts as complete when the burst returns. What is slow, or held up by pause frames, is
//! neither.

use shaper::time::{Duration, Instant};
use std::fmt;

/// Watches one transmit queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Since when frames have waited without a completion.
    since: Option<Instant>,
    /// Frames that were let through beyond the limit since then, and that may still be.
    given: u32,
    allowance: u32,
    steps: u32,
    /// Bursts in a row that were complete when they returned; a burst that was not has ended the
    /// question.
    at_once: u32,
    is_proven: bool,
    stats: Stats,
}

/// How a source has contradicted itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// It reports nothing.
    Never,
    /// It reports everything before it can have left.
    AtOnce,
}

/// What has happened since creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames that were let through beyond the limit, because nothing was reported.
    pub extra: u64,
    /// Times that the source was given up.
    pub given_up: u32,
    /// Why, the last time.
    pub last: Option<Contradiction>,
}

/// How long frames wait for a completion before more of them are let through, at least: longer than
/// a frame of 1514 bytes takes at 10 Mbit/s, or an interrupt that is moderated.
pub const PATIENCE: Duration = Duration::from_millis(10);

/// How long they wait before the source is given up. Pause frames hold a transmitter of 100 Mbit/s
/// for 336 ms.
pub const GIVE_UP: Duration = Duration::from_millis(1_000);

/// Frames that are let through beyond the limit meanwhile: twice the batch of 32 that Intel's drivers
/// and mlx5 report.
pub const EXTRA: u32 = 64;

/// Bursts that must be complete at once to draw the conclusion.
pub const AT_ONCE: u32 = 64;

impl Watch {
    /// Something completed, or nothing is in flight.
    #[inline]
    pub fn progress(&mut self) {
        if self.since.is_some() {
            (self.since, self.given, self.allowance, self.steps) = (None, 0, 0, 0);
        }
    }

    /// Frames wait for a completion, which is expected within `patience`.
    #[inline]
    pub fn waiting(&mut self, now: Instant, patience: impl FnOnce() -> Duration) -> Option<Contradiction> {
        let waited = now.since(*self.since.get_or_insert(now));
        if waited < PATIENCE {
            return None;
        }
        let patience = patience().max(PATIENCE);
        if waited < patience { None } else { self.overdue(waited, patience) }
    }

    /// More and more frames, [`EXTRA`] in all.
    #[cold]
    fn overdue(&mut self, waited: Duration, patience: Duration) -> Option<Contradiction> {
        let due = patience.as_nanos().saturating_mul(u64::from(self.steps) + 1);
        if waited.as_nanos() >= due && self.given < EXTRA {
            let more = (1 << self.steps.min(5)).min(EXTRA - self.given);
            self.given += more;
            self.allowance += more;
            self.steps += 1;
        }
        let bound = GIVE_UP.as_nanos().max(due);
        (waited.as_nanos() > bound && self.given == EXTRA).then(|| self.give_up(Contradiction::Never))
    }

    /// Frames that may go although the limit says no.
    #[inline]
    pub const fn allowance(&self) -> u32 {
        self.allowance
    }

    /// Whether frames were let through since the last completion.
    #[inline]
    pub const fn has_helped(&self) -> bool {
        self.given > 0
    }

    /// Frames went that the limit would have kept.
    #[inline]
    pub fn spend(&mut self, frames: u32) {
        let spent = frames.min(self.allowance);
        self.allowance -= spent;
        self.stats.extra += u64::from(spent);
    }

    /// Whether it is worth asking if a burst was complete at once.
    #[inline]
    pub const fn asks(&self) -> bool {
        !self.is_proven
    }

    /// A burst was complete when it returned, or was not.
    pub fn returned(&mut self, complete: bool) -> Option<Contradiction> {
        self.is_proven |= !complete;
        self.at_once += 1;
        let always = !self.is_proven && self.at_once >= AT_ONCE;
        always.then(|| self.give_up(Contradiction::AtOnce))
    }

    /// The counters.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    fn give_up(&mut self, why: Contradiction) -> Contradiction {
        let stats = Stats { given_up: self.stats.given_up + 1, last: Some(why), ..self.stats };
        *self = Self { stats, is_proven: why == Contradiction::AtOnce, ..Self::default() };
        why
    }
}

impl Contradiction {
    /// Its name, as in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::AtOnce => "at-once",
        }
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "it reported nothing for a second while frames waited, and more were sent",
            Self::AtOnce => "it reported every burst complete before it can have left",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn more_is_let_through_before_it_is_given_up() {
        let mut watch = Watch::default();
        let mut let_through = Vec::new();
        for now in 0..=1_001 {
            let given_up = watch.waiting(ms(now), || Duration::ZERO);
            assert_eq!(given_up, (now == 1_001).then_some(Contradiction::Never), "at {now} ms");
            if watch.allowance() > 0 {
                let_through.push((now, watch.allowance));
                watch.spend(u32::MAX);
            }
        }
        assert_eq!(let_through, [(10, 1), (20, 2), (30, 4), (40, 8), (50, 16), (60, 32), (70, 1)]);
        let last = Some(Contradiction::Never);
        assert_eq!(watch.stats(), Stats { extra: 64, given_up: 1, last });
    }

    #[test]
    fn whoever_makes_progress_is_given_time_again() {
        let mut watch = Watch::default();
        for now in 0..100_000 {
            if now % 900 == 0 {
                watch.progress();
            }
            assert_eq!(watch.waiting(ms(now), || Duration::ZERO), None);
        }
        watch.progress();
        assert_eq!(watch.allowance(), 0);
        assert_eq!(watch.waiting(ms(200_000), || Duration::from_millis(300)), None);
        assert_eq!(
            watch.waiting(ms(201_500), || Duration::from_millis(300)),
            None,
            "not before it had its chances"
        );
    }

    #[test]
    fn at_once_must_be_always() {
        let mut watch = Watch::default();
        for _ in 1..AT_ONCE {
            assert_eq!(watch.returned(true), None);
        }
        assert_eq!(watch.returned(true), Some(Contradiction::AtOnce));
        let mut watch = Watch::default();
        assert_eq!(watch.returned(false), None);
        assert!(!watch.asks(), "one burst that was not is proof");
    }
}
