//! Late lcore? What is usual between two polls, and which poll was late.

use crate::time::{Duration, Instant};

/// The rhythm of the owner's polling.
#[derive(Clone, Debug)]
pub(super) struct Polls {
    last: Instant,
    /// The longest interval that is usual: rises by at most a grain a poll, so that one gap is not
    /// taken for a habit, and falls by a 64th, so that a habit is noticed within a few polls.
    usual: Duration,
    grain: Duration,
    late_until: Instant,
    /// Whether the latest poll came later than expected, if not so late as to be a gap.
    is_overdue: bool,
}

impl Polls {
    /// Intervals up to `grain` are never late.
    pub(super) const fn new(now: Instant, grain: Duration) -> Self {
        Self { last: now, usual: Duration::ZERO, grain, late_until: now, is_overdue: false }
    }

    /// A poll at `now`, which may be told more than once. The interval before it, when it was late.
    #[inline]
    pub(super) fn at(&mut self, now: Instant) -> Option<Duration> {
        let interval = now.since(self.last);
        if interval == Duration::ZERO {
            return None;
        }
        self.last = now;
        self.is_overdue = interval > self.usual + self.grain;
        let late = interval > self.grain && interval > self.usual + self.usual;
        self.usual = if interval > self.usual {
            interval.min(self.usual + self.grain)
        } else {
            self.usual - Duration::from_nanos((self.usual - interval).as_nanos() / 64)
        };
        if late {
            self.late_until = now;
        }
        late.then_some(interval)
    }

    /// When the next poll is to be expected.
    #[inline]
    pub(super) fn next(&self) -> Instant {
        self.last + self.usual
    }

    /// Whether the latest poll came more than a grain after it was to be expected.
    #[inline]
    pub(super) const fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// End of the latest gap: what was submitted before it was seen to complete too late.
    #[inline]
    pub(super) const fn late_until(&self) -> Instant {
        self.late_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(intervals: &[u64]) -> std::vec::Vec<usize> {
        let mut polls = Polls::new(Instant::ZERO, Duration::from_micros(12));
        let mut now = Instant::ZERO;
        let mut late = std::vec::Vec::new();
        for (index, micros) in intervals.iter().enumerate() {
            now += Duration::from_micros(*micros);
            if polls.at(now).is_some() {
                late.push(index);
            }
        }
        late
    }

    #[test]
    fn a_gap_is_late_and_does_not_become_usual() {
        assert_eq!(late(&[5, 5, 5, 5_000, 5, 5, 5, 5_000, 5]), [3, 7]);
        assert_eq!(late(&[5, 12, 12, 1, 1]), [], "no longer than the grain");
    }

    #[test]
    fn slow_polling_becomes_usual() {
        assert_eq!(late(&[50; 100]), [0, 1, 2], "until half of it is usual");
        let mut now_and_then = [5; 400];
        now_and_then.iter_mut().skip(3).step_by(4).for_each(|interval| *interval = 60);
        let late = late(&now_and_then);
        assert!(late.len() < 8 && late.iter().all(|poll| *poll < 40), "{late:?}");
    }
}
