//! Datagrams by the clock.

use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

/// A sender that no loss and no mark impresses.
#[derive(Debug)]
pub struct Source {
    frame: u32,
    gap: Duration,
    /// Draws gaps from half of `gap` to one and a half.
    jitter: Option<SplitMix>,
    next: Instant,
    shifts: Option<Shifts>,
}

/// Times of work and of rest.
#[derive(Clone, Copy, Debug)]
struct Shifts {
    on: Duration,
    off: Duration,
    ends: Instant,
}

impl Source {
    /// A frame of `frame` bytes every `gap`.
    pub fn every(frame: u32, gap: Duration) -> Self {
        Self { frame, gap, jitter: None, next: Instant::ZERO, shifts: None }
    }

    /// Frames of `frame` bytes, paced to `rate`.
    pub fn paced(frame: u32, rate: Rate) -> Self {
        Self::every(frame, Duration::from_nanos(u64::from(frame) * 8_000_000_000 / rate.bits_per_sec()))
    }

    /// Uneven gaps: from half to one and a half, evenly spread, the same for the same `seed`.
    #[must_use]
    pub fn jittered(mut self, seed: u64) -> Self {
        self.jitter = Some(SplitMix::new(seed, !seed));
        self
    }

    /// Works for `on`, rests for `off`, and so on.
    #[must_use]
    pub fn in_shifts(mut self, on: Duration, off: Duration) -> Self {
        self.shifts = Some(Shifts { on, off, ends: Instant::ZERO + on });
        self
    }

    /// Starts at `at`.
    #[must_use]
    pub(in crate::net) fn starting(mut self, at: Instant) -> Self {
        self.next = at;
        if let Some(shifts) = &mut self.shifts {
            shifts.ends = at + shifts.on;
        }
        self
    }

    pub(in crate::net) fn next(&self) -> Instant {
        self.next
    }

    pub(in crate::net) fn poll(&mut self, now: Instant) -> Option<u32> {
        if now < self.next {
            return None;
        }
        let gap = self.draw_gap();
        self.next += gap;
        if let Some(shifts) = &mut self.shifts
            && self.next >= shifts.ends
        {
            self.next = self.next.max(shifts.ends + shifts.off);
            shifts.ends = self.next + shifts.on;
        }
        Some(self.frame)
    }

    fn draw_gap(&mut self) -> Duration {
        let gap = self.gap.as_nanos();
        let Some(dice) = &mut self.jitter else { return self.gap };
        Duration::from_nanos(gap / 2 + ((u64::from(dice.next_u32()) * gap) >> 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(mut source: Source, millis: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while source.next() < Instant::ZERO + Duration::from_millis(millis) {
            let now = source.next();
            assert_eq!(source.poll(now), Some(100));
            assert_eq!(source.poll(now), None);
            times.push(now.as_nanos() / 1_000);
        }
        times
    }

    #[test]
    fn keeps_the_pace_with_and_without_jitter() {
        let paced = Source::paced(100, Rate::from_bits_per_sec(800_000));
        assert_eq!(sent(paced, 4), [0, 1_000, 2_000, 3_000]);
        let times = sent(Source::every(100, Duration::from_millis(1)).jittered(5), 10_000);
        assert!((9_900..10_100).contains(&times.len()), "{}", times.len());
        assert!(times.windows(2).all(|pair| (499..=1_501).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn rests_between_shifts() {
        let ms = Duration::from_millis;
        let source =
            Source::every(100, ms(1)).in_shifts(ms(2), ms(10)).starting(Instant::from_nanos(5_000_000));
        assert_eq!(sent(source, 32), [5_000, 6_000, 17_000, 18_000, 29_000, 30_000]);
    }
}
