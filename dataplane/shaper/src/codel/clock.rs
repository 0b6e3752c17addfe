//! How CoDel reckons with time: in wrapping 32-bit ticks or in 64-bit nanoseconds.

use crate::time::{Duration, Instant};
use core::fmt::Debug;

/// CoDel's arithmetic of time.
pub trait Clock: Copy + Debug + 'static {
    /// A point in time. The default is where a flow that never signalled stands.
    type Time: Copy + Debug + Default;
    /// A span of time.
    type Span: Copy + Debug + Default;
    /// A point in time or "unset", which is the default.
    type Timer: Copy + Debug + Default;
    /// A span of time or "off".
    type Threshold: Copy + Debug;

    /// The point `now`.
    fn time(now: Instant) -> Self::Time;
    /// The span `span`.
    fn span(span: Duration) -> Self::Span;
    /// The threshold, `None` for off.
    fn threshold(span: Option<Duration>) -> Self::Threshold;
    /// A span in whole microseconds, rounded down.
    fn micros(span: Self::Span) -> u64;
    /// From `now` to `at` in whole microseconds, rounded towards zero; negative when `at` is past.
    fn micros_until(at: Self::Time, now: Self::Time) -> i64;

    /// How long a packet enqueued at `enqueued` has waited.
    fn sojourn(now: Self::Time, enqueued: Instant) -> Self::Span;
    /// Whether `sojourn` is shorter than `target`; equal is not.
    fn is_below(sojourn: Self::Span, target: Self::Span) -> bool;
    /// Whether `sojourn` is longer than `threshold`; equal is not.
    fn exceeds(sojourn: Self::Span, threshold: Self::Threshold) -> bool;

    /// A timer that ends one `interval` from `now`.
    fn start(now: Self::Time, interval: Self::Span) -> Self::Timer;
    /// Whether the timer was started.
    fn is_set(timer: Self::Timer) -> bool;
    /// Whether a timer that was started lies before `now`; equal does not.
    fn is_over(timer: Self::Timer, now: Self::Time) -> bool;

    /// Whether `at` is `now` or earlier.
    fn is_due(at: Self::Time, now: Self::Time) -> bool;
    /// Whether less than sixteen intervals have gone by since `at`.
    fn is_recent(at: Self::Time, now: Self::Time, interval: Self::Span) -> bool;
    /// `at + interval * fraction / 2^31`.
    fn advance(at: Self::Time, interval: Self::Span, fraction: u32) -> Self::Time;
}

/// Ticks of 1024 ns in 32 bits that wrap after 4398 s and are compared as serial numbers
/// (RFC 1982); an unset timer is the number 0, a threshold that is off the number 2^31 - 1
/// (faults 3 to 6).
#[derive(Clone, Copy, Debug)]
pub struct Ticks;

/// Nanoseconds in 64 bits, which do not wrap; "never" is [`Instant::MAX`].
#[derive(Clone, Copy, Debug)]
pub struct Nanos;

/// [`Nanos`]' timer: `MAX` cannot be reached, so it needs no room for a discriminant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Instant);

impl Default for Deadline {
    #[inline]
    fn default() -> Self {
        Self(Instant::MAX)
    }
}

impl Clock for Ticks {
    type Time = u32;
    type Span = u32;
    type Timer = u32;
    type Threshold = u32;

    #[inline]
    fn time(now: Instant) -> u32 {
        (now.as_nanos() >> TICK_SHIFT) as u32
    }

    #[inline]
    fn span(span: Duration) -> u32 {
        (span.as_nanos() >> TICK_SHIFT) as u32
    }

    #[inline]
    fn threshold(span: Option<Duration>) -> u32 {
        span.map_or(TICKS_OFF, Self::span)
    }

    #[inline]
    fn micros(span: u32) -> u64 {
        (u64::from(span) << TICK_SHIFT) / 1_000
    }

    #[inline]
    fn micros_until(at: u32, now: u32) -> i64 {
        (i64::from(serial(at, now)) << TICK_SHIFT) / 1_000
    }

    #[inline]
    fn sojourn(now: u32, enqueued: Instant) -> u32 {
        now.wrapping_sub(Self::time(enqueued))
    }

    #[inline]
    fn is_below(sojourn: u32, target: u32) -> bool {
        serial(sojourn, target) < 0
    }

    #[inline]
    fn exceeds(sojourn: u32, threshold: u32) -> bool {
        serial(sojourn, threshold) > 0
    }

    #[inline]
    fn start(now: u32, interval: u32) -> u32 {
        now.wrapping_add(interval)
    }

    #[inline]
    fn is_set(timer: u32) -> bool {
        timer != 0
    }

    #[inline]
    fn is_over(timer: u32, now: u32) -> bool {
        serial(now, timer) > 0
    }

    #[inline]
    fn is_due(at: u32, now: u32) -> bool {
        serial(now, at) >= 0
    }

    #[inline]
    fn is_recent(at: u32, now: u32, interval: u32) -> bool {
        serial(now.wrapping_sub(at), interval.wrapping_mul(16)) < 0
    }

    #[inline]
    fn advance(at: u32, interval: u32, fraction: u32) -> u32 {
        at.wrapping_add(((u64::from(interval) * u64::from(fraction)) >> 31) as u32)
    }
}

impl Clock for Nanos {
    type Time = Instant;
    type Span = Duration;
    type Timer = Deadline;
    type Threshold = Option<Duration>;

    #[inline]
    fn time(now: Instant) -> Instant {
        now
    }

    #[inline]
    fn span(span: Duration) -> Duration {
        span
    }

    #[inline]
    fn threshold(span: Option<Duration>) -> Option<Duration> {
        span
    }

    #[inline]
    fn micros(span: Duration) -> u64 {
        span.as_micros()
    }

    #[inline]
    fn micros_until(at: Instant, now: Instant) -> i64 {
        at.as_nanos().wrapping_sub(now.as_nanos()) as i64 / 1_000
    }

    #[inline]
    fn sojourn(now: Instant, enqueued: Instant) -> Duration {
        now.since(enqueued)
    }

    #[inline]
    fn is_below(sojourn: Duration, target: Duration) -> bool {
        sojourn < target
    }

    #[inline]
    fn exceeds(sojourn: Duration, threshold: Option<Duration>) -> bool {
        threshold.is_some_and(|threshold| sojourn > threshold)
    }

    #[inline]
    fn start(now: Instant, interval: Duration) -> Deadline {
        Deadline(now + interval)
    }

    #[inline]
    fn is_set(timer: Deadline) -> bool {
        timer != Deadline::default()
    }

    #[inline]
    fn is_over(timer: Deadline, now: Instant) -> bool {
        now > timer.0
    }

    #[inline]
    fn is_due(at: Instant, now: Instant) -> bool {
        now >= at
    }

    #[inline]
    fn is_recent(at: Instant, now: Instant, interval: Duration) -> bool {
        now.since(at).as_nanos() < interval.as_nanos().saturating_mul(16)
    }

    #[inline]
    fn advance(at: Instant, interval: Duration, fraction: u32) -> Instant {
        let gap = (u128::from(interval.as_nanos()) * u128::from(fraction)) >> 31;
        at + Duration::from_nanos(gap as u64)
    }
}

/// `a - b` of two serial numbers.
#[inline]
fn serial(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// A tick is 2^10 ns: the nearest power of two to a microsecond.
const TICK_SHIFT: u32 = 10;

/// "No threshold" in ticks, compared like any other number.
const TICKS_OFF: u32 = i32::MAX as u32;
