//! The limiter against an ideal wire, both in virtual time.

use super::*;
use crate::rng::{Rng, SplitMix};
use std::format;
use std::string::ToString;

/// Bits per second, round and odd.
const RATES: [u64; 15] = [
    64_000,
    100_003,
    1_000_000,
    9_999_991,
    10_000_000,
    100_000_000,
    650_000_000,
    999_999_937,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
    25_000_000_000,
    40_000_000_000,
    99_999_999_977,
    100_000_000_000,
];

const CATCH_UP: Duration = Limiter::CATCH_UP;

fn limiter(rate: u64) -> Limiter {
    Limiter::new(Rate::from_bits_per_sec(rate), CATCH_UP).unwrap()
}

/// The account of an ideal wire, in units of bits * 1e9, exact: what was charged less what it has
/// served. Negative: it had time to spare.
struct Ideal {
    rate: i128,
    now: u64,
    owed: i128,
    lost: u64,
}

impl Ideal {
    fn new(rate: u64, now: u64) -> Self {
        Self { rate: rate.into(), now, owed: 0, lost: 0 }
    }

    fn advance(&mut self, now: u64) {
        self.owed -= self.rate * i128::from(now - self.now);
        self.now = now;
    }

    fn idle(&mut self) {
        self.owed = self.owed.max(0);
    }

    fn charge(&mut self, bytes: u32) {
        self.give_up(CATCH_UP.as_nanos().into());
        self.owed += i128::from(bytes) * 8_000_000_000;
    }

    fn change(&mut self, rate: u64) {
        let new = i128::from(rate);
        self.give_up(i128::from(CATCH_UP.as_nanos()) * new.min(self.rate) / self.rate);
        self.rate = new;
    }

    /// Lateness in whole nanoseconds begun, beyond `bound`, is lost.
    fn give_up(&mut self, bound: i128) {
        let late = -self.owed.div_euclid(self.rate);
        let beyond = (late - bound).max(0);
        self.owed += beyond * self.rate;
        self.lost += u64::try_from(beyond).unwrap();
    }

    fn next(&self) -> i128 {
        i128::from(self.now) - (-self.owed).div_euclid(self.rate)
    }
}

fn below(rng: &mut SplitMix, bound: u64) -> u64 {
    (u64::from(rng.next_u32()) * bound) >> 32
}

/// Nanoseconds below 2^`bits`, of every order of magnitude alike.
fn span(rng: &mut SplitMix, bits: u64) -> u64 {
    let order = below(rng, bits);
    below(rng, 1 << order)
}

fn frame(rng: &mut SplitMix) -> u32 {
    64 + below(rng, 65_536 - 63) as u32
}

/// Always backlogged, polled at random: after each poll all that the ideal wire has served is sent,
/// and at no time more than one frame beyond it.
#[test]
fn within_one_frame_of_the_ideal_at_every_rate() {
    for rate in RATES {
        let mut rng = SplitMix::new(1, rate);
        let start = 1_000_000_007;
        let mut limiter = limiter(rate);
        limiter.idle_until(Instant::from_nanos(start));
        let (mut now, mut sent) = (start, 0_u128);
        for _ in 0..20_000 {
            let gap = span(&mut rng, 24).min(CATCH_UP.as_nanos());
            now = now.max(limiter.next().as_nanos()) + gap;
            let served = u128::from(rate) * u128::from(now - start);
            while limiter.ready(Instant::from_nanos(now)) {
                assert!(sent * 8_000_000_000 <= served, "ahead at {rate} bit/s, {now}");
                let len = frame(&mut rng);
                limiter.charge(Instant::from_nanos(now), len);
                sent += u128::from(len);
            }
            assert!(sent * 8_000_000_000 > served, "behind at {rate} bit/s, {now}");
        }
        assert_eq!(limiter.stats().lost, Duration::ZERO, "{rate}");
    }
}

/// Sent as soon as allowed, ten million frames leave in their exact time, rounded up once.
#[test]
fn no_drift_over_ten_million_frames() {
    for rate in [999_999_937, 99_999_999_977] {
        let mut rng = SplitMix::new(3, rate);
        let mut limiter = limiter(rate);
        let mut sent = 0_u128;
        for _ in 0..10_000_000 {
            let len = 64 + below(&mut rng, 1_455) as u32;
            limiter.charge(limiter.next(), len);
            sent += u128::from(len);
        }
        let exact = (sent * 8_000_000_000).div_ceil(rate.into());
        let late = u128::from(limiter.next().as_nanos()) - exact;
        // Each frame waited for a whole nanosecond, and that was made up.
        assert_eq!(late, 0, "{rate}");
        assert_eq!(limiter.stats().lost, Duration::ZERO);
    }
}

/// Every operation in random order, gaps on both sides of the catch-up: the same to the nanosecond
/// as the ideal account.
#[test]
fn the_same_as_the_ideal_account_whatever_happens() {
    for seed in 0..200 {
        let mut rng = SplitMix::new(seed, seed);
        let mut rate = RATES[seed as usize % RATES.len()];
        let mut now = 10_000_000_000;
        let mut limiter = limiter(rate);
        limiter.idle_until(Instant::from_nanos(now));
        let mut ideal = Ideal::new(rate, now);
        for step in 0..2_000 {
            now += span(&mut rng, 26);
            ideal.advance(now);
            let at = Instant::from_nanos(now);
            match rng.next_u16() % 16 {
                0 => {
                    limiter.idle_until(at);
                    ideal.idle();
                }
                1 => {
                    rate = RATES[usize::from(rng.next_u16()) % RATES.len()];
                    limiter.set_rate(at, Rate::from_bits_per_sec(rate)).unwrap();
                    ideal.change(rate);
                }
                _ => {
                    let mut polls = 4;
                    while limiter.ready(at) && polls > 0 {
                        let len = frame(&mut rng);
                        limiter.charge(at, len);
                        ideal.charge(len);
                        polls -= 1;
                    }
                }
            }
            let context = format!("seed {seed} step {step} rate {rate}");
            assert_eq!(limiter.ready(at), ideal.owed <= 0, "{context}");
            assert_eq!(i128::from(limiter.next().as_nanos()), ideal.next(), "{context}");
            assert_eq!(limiter.stats().lost.as_nanos(), ideal.lost, "{context}");
        }
    }
}

#[test]
fn lateness_is_made_up_to_the_catch_up_and_lost_beyond() {
    let mut limiter = limiter(1_000_000_000);
    let send = |limiter: &mut Limiter, nanos| {
        let now = Instant::from_nanos(nanos);
        let mut sent = 0;
        while limiter.ready(now) {
            limiter.charge(now, 1_250);
            sent += 1;
        }
        sent
    };
    assert_eq!(send(&mut limiter, 0), 1, "a frame of 10 us");
    assert_eq!(send(&mut limiter, 9_999), 0);
    assert_eq!(send(&mut limiter, 10_000), 1);
    assert_eq!(send(&mut limiter, 10_000_000), 999, "9.98 ms late: all of it, and the frame that is due");
    assert_eq!(limiter.stats().losses, 0);
    assert_eq!(
        send(&mut limiter, 35_000_000),
        1_001,
        "24.99 ms late: 10 ms of it, and the frame that is due"
    );
    let stats =
        Stats { lost: Duration::from_micros(14_990), losses: 1, late_max: Duration::from_micros(24_990) };
    assert_eq!(*limiter.stats(), stats);
    assert_eq!(limiter.burst(), 1_250_000);
    limiter.set_catch_up(Duration::ZERO);
    assert_eq!(send(&mut limiter, 40_000_000), 1, "nothing is made up");
    assert_eq!(limiter.burst(), 0);
}

#[test]
fn no_more_leaves_in_an_instant_than_the_bound_says() {
    for rate in RATES {
        let mut rng = SplitMix::new(5, rate);
        let mut limiter = limiter(rate);
        let now = Instant::from_nanos(3_600_000_000_000);
        let (mut sent, mut last) = (0, 0);
        while limiter.ready(now) {
            last = u64::from(frame(&mut rng));
            limiter.charge(now, last as u32);
            sent += last;
        }
        assert!(sent - last <= limiter.burst(), "{rate}: {sent} - {last} > {}", limiter.burst());
        assert!(sent > limiter.burst(), "{rate}");
    }
}

#[test]
fn idle_time_is_neither_credit_nor_lost() {
    let mut limiter = limiter(8_000_000);
    let at = Instant::from_nanos;
    limiter.charge(at(0), 1_000);
    limiter.idle_until(at(500_000));
    assert_eq!(limiter.next(), at(1_000_000), "what is booked stays booked");
    assert!(limiter.ready(at(2_000_000)), "and a dequeue that yields nothing changes nothing");
    limiter.idle_until(at(3_600_000_000_000));
    limiter.charge(at(3_600_000_000_000), 1_000);
    assert!(!limiter.ready(at(3_600_000_999_999)));
    assert_eq!(*limiter.stats(), Stats::default());
}

#[test]
fn a_change_of_rate_rescales_what_is_booked_and_what_is_late() {
    let at = Instant::from_nanos;
    let mut limiter = limiter(1_000_000);
    limiter.charge(at(0), 1_500);
    assert_eq!(limiter.next(), at(12_000_000));
    limiter.set_rate(at(2_000_000), Rate::from_bits_per_sec(1_000_000_000)).unwrap();
    assert_eq!(limiter.next(), at(2_010_000), "10 ms at 1 Mbit/s are 10 us at 1 Gbit/s");
    limiter.set_rate(at(2_000_000), Rate::from_bits_per_sec(1_000_000)).unwrap();
    assert_eq!(limiter.next(), at(12_000_000), "and back");
    limiter.set_rate(at(16_000_000), Rate::from_bits_per_sec(2_000_000)).unwrap();
    assert_eq!(limiter.next(), at(14_000_000), "4 ms late at 1 Mbit/s are 2 ms at 2 Mbit/s");
    limiter.set_rate(at(18_000_000), Rate::from_bits_per_sec(500_000)).unwrap();
    assert_eq!(limiter.next(), at(8_000_000), "4 ms late become 16 ms, of which the catch-up stays");
    assert_eq!(
        limiter.stats().lost.as_nanos(),
        1_500_000,
        "6 ms at 0.5 Mbit/s fell due in 1.5 ms at 2 Mbit/s"
    );
    let before = limiter.clone();
    assert!(limiter.set_rate(at(20_000_000), Rate::from_bits_per_sec(0)).is_err());
    assert_eq!((limiter.next(), limiter.rate()), (before.next(), before.rate()));
}

#[test]
fn any_length_is_booked_exactly() {
    for rate in RATES {
        for bytes in [0, 1, BOOKED_AT_ONCE - 1, BOOKED_AT_ONCE, BOOKED_AT_ONCE + 1, u32::MAX] {
            let mut limiter = limiter(rate);
            limiter.charge(Instant::ZERO, bytes);
            let exact = (u128::from(bytes) * 8_000_000_000).div_ceil(rate.into());
            assert_eq!(u128::from(limiter.next().as_nanos()), exact, "{bytes} at {rate}");
        }
    }
}

#[test]
fn a_clock_that_steps_back_or_ends_is_survived() {
    let mut limiter = limiter(64_000);
    limiter.charge(Instant::MAX, 1_500);
    assert!(limiter.ready(Instant::MAX));
    limiter.idle_until(Instant::ZERO);
    limiter.charge(Instant::ZERO, 1_500);
    limiter.set_rate(Instant::ZERO, Limiter::MAX).unwrap();
}

#[test]
fn rates_out_of_range_are_refused_with_the_range() {
    let refused = |rate| Limiter::new(Rate::from_bits_per_sec(rate), CATCH_UP).unwrap_err().to_string();
    for rate in [0, 1, 63_999, 1_000_000_000_001, u64::MAX] {
        let expected = format!("a rate of {rate} bit/s is outside the accepted 64000..=1000000000000 bit/s");
        assert_eq!(refused(rate), expected);
    }
    assert!(Limiter::new(Limiter::MIN, CATCH_UP).is_ok() && Limiter::new(Limiter::MAX, CATCH_UP).is_ok());
}
