//! Which packets are looked at: one in `step` bytes, at a place that nobody can foretell.
//!
//! The bytes of the traffic are divided into strata of `step` bytes, with one point at random in each. A packet
//! is seen if a point lies in it, and stands for `step` bytes a point; one of `step` bytes or more is always
//! seen, stands for itself, and leaves the strata alone. So what a flow is estimated to have sent is right on
//! average, and its variance is at most `step` times its bytes.

use crate::talkers::RATE;
use shaper::rng::{Rng, SplitMix};
use shaper::time::Instant;

/// Chooses packets. The default chooses none.
#[derive(Debug)]
pub struct Sampler {
    /// A power of two, or `u32::MAX`: none.
    step: u32,
    /// Bytes to the next point.
    left: i64,
    /// Where in its stratum that point lies.
    phase: u32,
    rng: SplitMix,
    /// Since when, and how many packets were looked at since.
    since: Instant,
    spent: u64,
    /// When the period began, and its traffic so far.
    began: Instant,
    bytes: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            step: u32::MAX,
            left: i64::MAX,
            phase: 0,
            rng: SplitMix::new(0, 0),
            since: Instant::ZERO,
            spent: 0,
            began: Instant::ZERO,
            bytes: 0,
        }
    }
}

impl Sampler {
    /// A sampler that sees everything until it knows the traffic.
    pub fn new(seed: u64) -> Self {
        let mut sampler = Self { rng: SplitMix::new(seed, seed.rotate_left(32)), ..Self::default() };
        sampler.start(FINEST);
        sampler
    }

    /// The bytes that a packet of `len` bytes stands for, if it is seen.
    #[inline]
    pub fn weigh(&mut self, len: u32) -> Option<u32> {
        if len >= self.step {
            return Some(len);
        }
        self.left -= i64::from(len);
        if self.left >= 0 { None } else { Some(self.cross()) }
    }

    /// Bytes that a packet stands for at least.
    pub const fn step(&self) -> u32 {
        self.step
    }

    /// A packet was looked at `now`: the step doubles once they are more than [`RATE`] allows.
    pub fn spent(&mut self, now: Instant) {
        self.spent += 1;
        let allowed = now.since(self.since).as_micros().saturating_mul(RATE) / 1_000_000 + AT_ONCE;
        if self.spent > allowed && self.step < COARSEST {
            self.since = now;
            self.spent = 0;
            self.start(self.step * 2);
        }
    }

    /// `bytes` more have passed by `now`. Once a period is long enough to tell their rate, the step follows it.
    pub fn passed(&mut self, now: Instant, bytes: u64) {
        let period = now.since(self.began).as_micros();
        self.bytes += bytes;
        if self.step == u32::MAX || period < PERIOD_US {
            return;
        }
        let wanted = u128::from(self.bytes) * 1_000_000 / u128::from(period) / u128::from(RATE);
        let wanted = u32::try_from(wanted).unwrap_or(COARSEST).clamp(FINEST, COARSEST);
        (self.since, self.spent, self.began, self.bytes) = (now, 0, now, 0);
        let step = wanted.next_power_of_two();
        if step != self.step {
            self.start(step);
        }
    }

    /// A point was reached.
    #[cold]
    fn cross(&mut self) -> u32 {
        let mut points = 0;
        // The packet is shorter than a stratum: it holds two points at most.
        while self.left < 0 {
            points += 1;
            let rest = self.step - self.phase;
            self.phase = self.place();
            self.left += i64::from(rest) + i64::from(self.phase);
        }
        points * self.step
    }

    /// Begins with a stratum of `step` bytes here.
    fn start(&mut self, step: u32) {
        self.step = step;
        self.phase = self.place();
        self.left = self.phase.into();
    }

    fn place(&mut self) -> u32 {
        self.rng.next_u32() & (self.step - 1)
    }
}

/// The step at the start, and on a slow link: any packet of that length is seen.
const FINEST: u32 = 64;
/// At 100 Gbit/s [`RATE`] asks for 1.25 MB.
const COARSEST: u32 = 1 << 21;
/// Packets beyond [`RATE`] that may be looked at in a row, some 100 us of time.
const AT_ONCE: u64 = 500;
/// Shortest period whose traffic tells a rate, in microseconds.
const PERIOD_US: u64 = 100_000;
