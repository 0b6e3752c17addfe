//! What really happened on a wire.

use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use sim::nic::Left;

/// A time from one instant to another.
pub type Span = std::ops::Range<Instant>;

/// The record of a wire from some time on.
#[derive(Clone, Debug)]
pub struct Truth {
    since: Instant,
    /// When the wire was last busy.
    busy_until: Instant,
    bytes: u64,
    frames: u64,
    unsent: u64,
    residence: Vec<u64>,
    idle: Vec<Span>,
}

impl Truth {
    pub(super) const fn new(since: Instant) -> Self {
        Self {
            since,
            busy_until: since,
            bytes: 0,
            frames: 0,
            unsent: 0,
            residence: Vec::new(),
            idle: Vec::new(),
        }
    }

    /// Bytes that have left, preamble, FCS and gap included.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Frames that have left whole.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames that a link that was down swallowed.
    pub const fn unsent(&self) -> u64 {
        self.unsent
    }

    /// The share of its time until `now` that a wire of `rate` was busy, 0 to 1.
    pub fn share(&self, now: Instant, rate: Rate) -> f64 {
        self.bytes as f64 * 8e9 / (rate.bits_per_sec() as f64 * now.since(self.since).as_nanos() as f64)
    }

    /// From submission to the last bit on the wire: the shortest time that is at least as long as `percent` of all.
    /// Zero if no frame was submitted and has left.
    pub fn residence(&self, percent: f64) -> Duration {
        let mut sorted = self.residence.clone();
        sorted.sort_unstable();
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        Duration::from_nanos(sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0))
    }

    /// How long the wire was idle between frames, without the times that overlap one of `gaps`, which are in order and
    /// apart.
    pub fn idle_outside(&self, gaps: &[Span]) -> Duration {
        let overlaps = |span: &Span| {
            let next = gaps.partition_point(|gap| gap.end < span.start);
            gaps.get(next).is_some_and(|gap| gap.start <= span.end)
        };
        let idle = self.idle.iter().filter(|span| !overlaps(span));
        idle.fold(Duration::ZERO, |sum, span| sum + span.end.since(span.start))
    }

    pub(super) fn record(&mut self, submitted: Instant, left: &Left, rate: Rate) {
        if !left.sent {
            self.unsent += u64::from(left.frame.descriptors > 0);
            return;
        }
        if left.left < self.since {
            return;
        }
        self.bytes += u64::from(left.frame.bytes);
        let took = u64::from(left.frame.bytes) * 8_000_000_000 / rate.bits_per_sec().max(1);
        let began = left.left - Duration::from_nanos(took + ROUNDED);
        if began > self.busy_until {
            self.idle.push(self.busy_until..began);
        }
        self.busy_until = left.left;
        if left.frame.descriptors > 0 {
            self.frames += 1;
            // Where it was submitted before, how long it took is a matter of that time.
            if submitted >= self.since {
                self.residence.push(left.left.since(submitted).as_nanos());
            }
        }
    }
}

/// Nanoseconds that may be lost between two frames because each ends on a whole one.
const ROUNDED: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use sim::nic::Frame;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    /// Frames of 10 us on a wire of 1 Gbit/s, submitted 30 us before they have left.
    fn truth(left: &[u64]) -> Truth {
        let mut truth = Truth::new(at(100));
        for micros in left {
            let frame = Frame { bytes: 1_250, descriptors: 1 };
            let left = Left { submitted: at(micros - 30), left: at(*micros), frame, sent: true };
            truth.record(left.submitted, &left, Rate::from_bits_per_sec(1_000_000_000));
        }
        truth
    }

    #[test]
    fn idle_times_that_overlap_a_gap_do_not_count() {
        let truth = truth(&[110, 120, 150, 160, 200]);
        let idle = |gaps: &[Span]| truth.idle_outside(gaps).as_nanos().div_ceil(1_000);
        assert_eq!(idle(&[]), 50, "20 to 30 us after the second and the fourth");
        assert_eq!(idle(&[at(115)..at(118)]), 50);
        assert_eq!(idle(&[at(115)..at(118), at(119)..at(130), at(300)..at(400)]), 30);
        assert_eq!(idle(&[at(130)..at(131), at(170)..at(171)]), 0);
    }

    #[test]
    fn what_was_submitted_before_has_no_residence() {
        let truth = truth(&[110, 120, 135, 150]);
        assert_eq!((truth.frames(), truth.bytes()), (4, 5_000));
        assert_eq!(truth.residence(99.0), Duration::from_micros(30));
        assert_eq!(truth.residence.len(), 2);
        assert_eq!(truth.share(at(200), Rate::from_bits_per_sec(1_000_000_000)), 0.4);
    }
}
