//! Gaps in our own polling: how long the worker was away from its ports.
//!
//! On a shared machine a thread is descheduled for milliseconds now and then. Whoever reads a
//! latency must be able to tell a late queue from a late lcore.

use shaper::time::{Duration, Instant};

/// Counts of gaps between two turns. Intended sleeps are not gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Gaps longer than 50 µs.
    pub over_50us: u64,
    /// Gaps longer than 1 ms.
    pub over_1ms: u64,
    /// The longest gap.
    pub max: Duration,
    /// All gaps longer than 50 µs together.
    pub total: Duration,
}

/// Watches the turns go by.
#[derive(Debug, Default)]
pub struct GapWatch {
    expected: Option<Instant>,
    gaps: Gaps,
}

impl GapWatch {
    /// A turn begins `now`.
    #[inline]
    pub fn turn(&mut self, now: Instant) {
        if let Some(expected) = self.expected {
            let gap = now.since(expected);
            if gap > NOTICED {
                self.note(gap);
            }
        }
        self.expected = Some(now);
    }

    /// The worker means to be away until `wake`.
    pub fn sleep_until(&mut self, wake: Instant) {
        self.expected = Some(wake);
    }

    /// The gaps so far.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    #[cold]
    fn note(&mut self, gap: Duration) {
        self.gaps.over_50us += 1;
        self.gaps.over_1ms += u64::from(gap > LONG);
        self.gaps.max = self.gaps.max.max(gap);
        self.gaps.total += gap;
    }
}

/// A busy turn of 32 packets each way takes some 10 µs; a timer tick on a shared core up to 50.
pub(crate) const NOTICED: Duration = Duration::from_micros(50);
const LONG: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_no_gap_but_oversleeping_is() {
        let at = |micros: u64| Instant::ZERO + Duration::from_micros(micros);
        let mut watch = GapWatch::default();
        for micros in [0, 10, 60, 111] {
            watch.turn(at(micros));
        }
        assert_eq!(watch.gaps().over_50us, 1, "51 µs is, 50 µs is not");
        watch.sleep_until(at(1_000));
        watch.turn(at(1_020));
        assert_eq!(watch.gaps().over_50us, 1);
        watch.sleep_until(at(2_000));
        watch.turn(at(5_000));
        assert_eq!((watch.gaps().over_50us, watch.gaps().over_1ms), (2, 1));
        assert_eq!(watch.gaps().max, Duration::from_millis(3));
    }
}
