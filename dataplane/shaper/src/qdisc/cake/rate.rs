//! Durations of lengths at a rate, and the clocks of the shaper.
//!
//! cake shapes without a token bucket: each charge moves a clock forward by the time the bytes take
//! on the wire, and nothing is sent while the clock is ahead of time. The clock is not brought up to
//! `now` while packets wait, so lateness is made up; it is when a packet arrives at an empty queue.

use crate::conformance::Conformance;
use crate::time::{Duration, Instant};

/// A rate as nanoseconds per byte: `nanos / 2^shift`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByteTime {
    /// 0 for unlimited.
    pub(super) nanos: u64,
    pub(super) shift: u8,
}

/// The global clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    /// When the next packet may leave.
    pub(super) next: Instant,
    /// The failsafe: the same, but not moved by drops and half as fast again, so that drops charged
    /// in ingress mode take no more than a third of the rate.
    pub(super) failsafe: Instant,
    /// What `next` lacks, in parts of a nanosecond as [`ByteTime`] counts them.
    pub(super) rest: u64,
}

impl ByteTime {
    /// `rate` in bytes per second; 0 for unlimited.
    pub(super) fn new(rate: u64) -> Self {
        if rate == 0 {
            return Self::default();
        }
        let mut this = Self { nanos: (NANOS_PER_SEC << MANTISSA_BITS) / rate.max(LOWEST_RATE), shift: 34 };
        while this.nanos >> MANTISSA_BITS != 0 {
            this.nanos >>= 1;
            this.shift -= 1;
        }
        this
    }

    #[inline]
    pub(super) fn is_unlimited(self) -> bool {
        self.nanos == 0
    }

    /// The time `len` bytes take, rounded down.
    #[inline]
    pub(super) fn of(self, len: u32) -> Duration {
        Duration::from_nanos(u64::from(len).wrapping_mul(self.nanos) >> (self.shift & 63))
    }

    /// The time `len` bytes take, with what was left of a nanosecond before and is left now.
    #[inline]
    pub(super) fn charge<C: Conformance>(self, len: u32, rest: &mut u64) -> Duration {
        if C::CAKE_CHARGES_ROUND_DOWN {
            return self.of(len);
        }
        let shift = self.shift & 63;
        let parts = u64::from(len).wrapping_mul(self.nanos).wrapping_add(*rest);
        let whole = parts >> shift;
        *rest = parts - (whole << shift);
        Duration::from_nanos(whole)
    }

    /// A wait booked at `old` as the same number of bytes takes at this rate.
    pub(super) fn rescale(self, old: Self, clock: Instant, now: Instant) -> Instant {
        let wait = u128::from(clock.since(now).as_nanos().min(LONGEST_WAIT));
        if wait == 0 || old.is_unlimited() {
            return clock;
        }
        let scaled = ((wait * u128::from(self.nanos)) << old.shift) / u128::from(old.nanos);
        now + Duration::from_nanos(u64::try_from(scaled >> self.shift).unwrap_or(u64::MAX))
    }
}

impl Clocks {
    /// When sending is next allowed.
    #[inline]
    pub(super) fn due(&self) -> Instant {
        self.next.min(self.failsafe)
    }

    #[inline]
    pub(super) fn is_blocked(&self, now: Instant) -> bool {
        self.due() > now
    }

    /// Brings late clocks up to `now`: nothing waited, so that no lateness is made up.
    #[inline]
    pub(super) fn start(&mut self, now: Instant) {
        if self.next < now {
            self.next = now;
            self.failsafe = now;
        }
    }

    /// Charges `len` bytes; a drop spares the failsafe.
    #[inline]
    pub(super) fn charge<C: Conformance>(&mut self, rate: ByteTime, len: u32, is_drop: bool) {
        let span = rate.charge::<C>(len, &mut self.rest);
        self.next += span;
        if !is_drop {
            self.failsafe += span + Duration::from_nanos(span.as_nanos() >> 1);
        }
    }
}

const NANOS_PER_SEC: u64 = 1_000_000_000;
/// Some eighteen years: times `nanos` and its shift it fits 128 bits.
const LONGEST_WAIT: u64 = 1 << 59;
/// `nanos` keeps 34 bits, so that times a 30-bit length it fits 64.
const MANTISSA_BITS: u32 = 34;
/// Bytes per second; below, one packet would take minutes.
pub(super) const LOWEST_RATE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Linux, Weir};

    #[test]
    fn a_byte_takes_what_the_rate_says() {
        let rate = ByteTime::new(1_250_000);
        assert_eq!((rate.nanos, rate.shift), (13_421_772_800, 24));
        assert_eq!(rate.of(1514), Duration::from_nanos(1514 * 800));
        assert_eq!(ByteTime::new(0).of(u32::MAX), Duration::ZERO);
        assert_eq!(ByteTime::new(1).of(64), Duration::from_millis(1000), "shaped as 64 bytes/s");
    }

    /// From 128 kbit/s to 40 Gbit/s, within a nanosecond per packet and 1 in 10^9 of the rate.
    #[test]
    fn durations_follow_the_rate() {
        for rate in [16_000, 62_500, 1_250_000, 125_000_000, 1_234_567_891, 5_000_000_000_u64] {
            for len in [1_u32, 60, 1514, 65_536, 1 << 24] {
                let exact = f64::from(len) * 1e9 / rate as f64;
                let got = ByteTime::new(rate).of(len).as_nanos() as f64;
                assert!(got <= exact && exact - got <= 1.0 + exact * 1e-9, "{rate} {len}: {got} for {exact}");
            }
        }
    }

    /// Nothing is lost of any packet, however short its time.
    #[test]
    fn charges_add_up() {
        fn sum<C: Conformance>(rate: u64, len: u32, packets: u32) -> f64 {
            let (rate, mut rest) = (ByteTime::new(rate), 0);
            (0..packets).map(|_| rate.charge::<C>(len, &mut rest).as_nanos()).sum::<u64>() as f64
        }
        for rate in [1_234_567, 125_000_000, 5_000_000_000] {
            let exact = 90.0 * 1e6 * 1e9 / rate as f64;
            let got = sum::<Weir>(rate, 90, 1_000_000);
            assert!((got - exact).abs() <= 1.0 + exact * 1e-9, "{rate}: {got} of {exact}");
        }
        assert_eq!(sum::<Linux>(5_000_000_000, 90, 1_000_000), 17e6, "18 ns each");
    }

    #[test]
    fn a_booked_wait_keeps_its_bytes() {
        let now = Instant::from_nanos(5_000);
        let (slow, fast) = (ByteTime::new(1_000_000), ByteTime::new(4_000_000));
        let booked = now + slow.of(1_000);
        assert_eq!(fast.rescale(slow, booked, now), now + fast.of(1_000));
        assert_eq!(slow.rescale(fast, now + fast.of(1_000), now), now + slow.of(1_000));
        assert_eq!(fast.rescale(slow, Instant::ZERO, now), Instant::ZERO, "a late clock stays late");
        assert_eq!(ByteTime::new(0).rescale(slow, booked, now), now);
    }
}
