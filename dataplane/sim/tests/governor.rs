//! The governor and stock byte queue limits in front of the modelled card, always backlogged.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use shaper::dql;
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use sim::net::rig::limiter::{Limit, Limiter};
use sim::nic::{Config, Frame, Nic};

/// What one run came to.
struct Outcome {
    /// Share of the wire's time that was used.
    share: f64,
    /// The most bytes that might be, and were, in flight.
    limit: u64,
    in_flight: u64,
    /// From submission to the last bit on the wire: 99th percentile in nanoseconds.
    residence: u64,
}

/// The bounds that must hold.
struct Bars {
    bytes: f64,
    residence: f64,
}

/// A backlog, a limiter, a card, and an owner that polls every 2 to 8 us.
struct Bench {
    config: Config,
    nic: Nic,
    limiter: Limiter,
    rng: SplitMix,
    now: Instant,
    /// Frame sizes in turn.
    sizes: &'static [u32],
    next_size: usize,
    /// Whether there is anything to send.
    backlog: bool,
    in_flight: u64,
    next_gap: Instant,
    /// Whether others want the CPU too.
    is_shared: bool,
}

impl Bench {
    fn new(config: Config, limit: Limit) -> Self {
        Self {
            config,
            nic: Nic::new(config),
            limiter: Limiter::new(limit, config.ring),
            rng: SplitMix::new(7, 11),
            now: Instant::ZERO,
            sizes: FULL,
            next_size: 0,
            backlog: true,
            in_flight: 0,
            next_gap: Instant::MAX,
            is_shared: false,
        }
    }

    fn stats(&self) -> dql::Stats {
        match &self.limiter {
            Limiter::Governed(governor) => *governor.stats(),
            _ => panic!("not governed"),
        }
    }

    /// The card and its wire become others.
    fn become_like(&mut self, config: Config) {
        self.config = config;
        self.nic.become_like(self.now, config);
    }

    /// Runs for `millis` and measures.
    fn run(&mut self, millis: u64) -> Outcome {
        let (start, end) = (self.now, self.now + Duration::from_millis(millis));
        let (mut sent, mut residence) = (0, Vec::new());
        let mut outcome = Outcome { share: 0.0, limit: 0, in_flight: 0, residence: 0 };
        while self.now < end {
            self.turn();
            outcome.limit = outcome.limit.max(self.limiter.limit().unwrap().into());
            outcome.in_flight = outcome.in_flight.max(self.in_flight);
            for left in self.nic.left().filter(|left| left.left >= start) {
                sent += u64::from(left.frame.bytes);
                // How long it took is a matter of the time before when it was submitted there.
                if left.submitted >= start {
                    residence.push(left.left.since(left.submitted).as_nanos());
                }
            }
            let interval = self.interval();
            self.now += interval;
        }
        residence.sort_unstable();
        outcome.residence = residence.get(residence.len() * 99 / 100).copied().unwrap_or(0);
        outcome.share = sent as f64 / (self.now.since(start).as_nanos() as f64 * bytes_per_nano(self.config));
        outcome
    }

    fn turn(&mut self) {
        let reaped = self.nic.reap(self.now);
        self.in_flight -= u64::from(reaped.bytes);
        self.limiter.completed(self.now, reaped);
        if self.backlog {
            self.send();
            self.limiter.held();
        }
    }

    fn send(&mut self) {
        while self.limiter.ready() {
            let frame = Frame { bytes: self.sizes[self.next_size], descriptors: 1 };
            if self.nic.submit(self.now, frame).is_err() {
                return;
            }
            self.limiter.queued(self.now, frame.bytes);
            self.in_flight += u64::from(frame.bytes);
            self.next_size = (self.next_size + 1) % self.sizes.len();
        }
    }

    /// Until the next poll: now and then a gap of 1 to 30 ms, if there are any; on a shared CPU one poll in 100 is 20
    /// to 40 us late, and three in 10,000 are 50 to 350 us.
    fn interval(&mut self) -> Duration {
        if self.now >= self.next_gap {
            self.gaps();
            return Duration::from_micros(1_000 + u64::from(self.rng.next_u32() % 29_000));
        }
        if self.is_shared {
            match self.rng.next_u32() % 10_000 {
                0..100 => return Duration::from_nanos(20_000 + u64::from(self.rng.next_u16() % 20_000)),
                100..103 => return Duration::from_nanos(50_000 + u64::from(self.rng.next_u32() % 300_000)),
                _ => {}
            }
        }
        Duration::from_nanos(2_000 + u64::from(self.rng.next_u16() % 6_000))
    }

    /// The next gap comes within 20 to 200 ms.
    fn gaps(&mut self) {
        self.next_gap = self.now + Duration::from_micros(20_000 + u64::from(self.rng.next_u32() % 180_000));
    }
}

fn governed(config: Config) -> Bench {
    Bench::new(config, Limit::Governed)
}

fn bytes_per_nano(config: Config) -> f64 {
    config.rate.bits_per_sec() as f64 / 8e9
}

fn bars(config: Config, sizes: &[u32]) -> Bars {
    let rate = bytes_per_nano(config);
    let frame = mean(sizes) / rate;
    let largest = f64::from(*sizes.iter().max().unwrap()) / rate;
    let delay = config.delay.as_nanos() as f64;
    let batch = (config.tx_usecs.as_nanos() as f64).min(config.tx_frames as f64 * frame);
    let window = 100e3_f64.min(f64::from(config.ring) / 4.0 * frame);
    Bars {
        bytes: rate * (1.5 * delay + 2.0 * batch + 2.0 * window) + 3.0 * rate * largest,
        residence: 0.5 * delay + 2.0 * batch + 2.0 * window + 4.0 * largest,
    }
}

/// What a full ring can do when the delay is longer than it: its part of the wire.
fn ring_share(config: Config, sizes: &[u32]) -> f64 {
    let ring = f64::from(config.ring) * mean(sizes);
    let needed = bytes_per_nano(config) * config.delay.as_nanos() as f64;
    (ring / needed).min(1.0)
}

fn mean(sizes: &[u32]) -> f64 {
    f64::from(sizes.iter().sum::<u32>()) / sizes.len() as f64
}

#[track_caller]
fn check(config: Config, sizes: &[u32], outcome: &Outcome) {
    let Bars { bytes, residence } = bars(config, sizes);
    let possible = ring_share(config, sizes);
    let context = format!("{config:?}");
    assert!(outcome.share >= 0.99 * possible, "{} of {possible}: {context}", outcome.share);
    if possible == 1.0 {
        assert!(outcome.limit as f64 <= bytes, "limit {} > {bytes}: {context}", outcome.limit);
        assert!(outcome.in_flight as f64 <= bytes, "{} in flight > {bytes}: {context}", outcome.in_flight);
        assert!(outcome.residence as f64 <= residence, "{} ns > {residence}: {context}", outcome.residence);
    }
}

fn card(rate: u64, delay: u64, tx_usecs: u64, tx_frames: usize) -> Config {
    Config {
        rate: Rate::from_bits_per_sec(rate),
        ring: 4096,
        delay: Duration::from_micros(delay),
        tx_usecs: Duration::from_micros(tx_usecs),
        tx_frames,
        ..Config::default()
    }
}

/// Every wire with every kind of completion, and stock limits beside it.
#[test]
fn the_wire_is_full_and_the_ring_is_short() {
    let mut table = String::from(HEAD);
    for rate in [100_000_000, 650_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000] {
        for (delay, tx_usecs, tx_frames) in COMPLETIONS {
            let config = card(rate, delay, tx_usecs, tx_frames);
            let mut bench = governed(config);
            bench.run(1_200);
            let outcome = bench.run(1_000);
            let mut stock = Bench::new(config, Limit::Stock(0));
            stock.run(300);
            table += &row(config, &outcome, &stock.run(300));
            check(config, FULL, &outcome);
        }
    }
    compare(&table);
}

fn row(config: Config, outcome: &Outcome, stock: &Outcome) -> String {
    let Bars { bytes, residence } = bars(config, FULL);
    let micros = |nanos: f64| nanos / 1e3;
    format!(
        "{:>6} {:>6} {:>5}/{:<2} | {:>6.2} {:>9} {:>9} {:>9.0} {:>7.1} {:>7.1} | {:>6.2} {:>9} {:>7.1}\n",
        config.rate.bits_per_sec() / 1_000_000,
        config.delay.as_micros(),
        config.tx_usecs.as_micros(),
        config.tx_frames,
        outcome.share * 100.0,
        outcome.limit,
        outcome.in_flight,
        bytes,
        micros(outcome.residence as f64),
        micros(residence),
        stock.share * 100.0,
        stock.limit,
        micros(stock.residence as f64),
    )
}

/// The committed table is what comes out; `UPDATE_SNAPSHOTS=1` writes it anew.
fn compare(table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/governor.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, table).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == table, "{path} differs from what comes out:\n{table}");
}

/// A wire or a delay that changes: within two hold times the bounds hold again, whenever it happens.
#[test]
fn a_step_is_followed_within_two_hold_times() {
    let (fast, fast_late) = (card(1_000_000_000, 50, 0, 1), card(1_000_000_000, 10_000, 0, 1));
    let (slow, slow_late) = (card(100_000_000, 50, 0, 1), card(100_000_000, 10_000, 0, 1));
    let instant = card(10_000_000_000, 0, 0, 1);
    let steps = [
        (fast, slow),
        (slow, fast),
        (fast, fast_late),
        (fast_late, fast),
        (slow, slow_late),
        (slow_late, slow),
        (fast_late, slow_late),
        (fast_late, instant),
    ];
    for phase in 0..3 {
        for (before, after) in steps {
            let mut bench = governed(before);
            bench.run(1_000 + 170 * phase);
            bench.become_like(after);
            bench.run(2_000);
            check(after, FULL, &bench.run(1_000));
        }
    }
}

/// Gaps in the owner's polling: the limit is that of the device all the same, the gaps are counted.
#[test]
fn a_late_lcore_is_not_taken_for_a_late_device() {
    for (delay, tx_usecs, tx_frames) in COMPLETIONS {
        for rate in [100_000_000, 1_000_000_000] {
            let config = card(rate, delay, tx_usecs, tx_frames);
            let mut bench = governed(config);
            bench.run(1_000);
            let quiet = bench.stats().late_polls;
            bench.gaps();
            let outcome = bench.run(4_000);
            let Bars { bytes, .. } = bars(config, FULL);
            assert!(outcome.limit as f64 <= bytes * 1.1, "{} > {bytes}: {config:?}", outcome.limit);
            let stats = bench.stats();
            assert!(quiet < 10 && stats.late_polls > quiet + 10, "{stats:?}");
            assert!(stats.late_time > Duration::from_millis(100), "{stats:?}");
        }
    }
}

/// Late polls one after the other, one in a millisecond: what the limit is learned from has some of them in it always.
#[test]
fn a_shared_lcore_is_not_taken_for_a_late_device() {
    for (delay, tx_usecs, tx_frames) in COMPLETIONS {
        for rate in [100_000_000, 1_000_000_000] {
            let config = card(rate, delay, tx_usecs, tx_frames);
            let mut bench = governed(config);
            bench.is_shared = true;
            bench.run(1_200);
            let before = bench.stats().late_polls;
            let outcome = bench.run(10_000);
            let Bars { bytes, .. } = bars(config, FULL);
            assert!(outcome.limit as f64 <= bytes * 1.1, "{} > {bytes}: {config:?}", outcome.limit);
            assert!(bench.stats().late_polls > before + 5_000, "{:?}", bench.stats());
        }
    }
}

/// Silence is no reason to forget: the first tenth of a second after it is as good as any.
#[test]
fn an_idle_time_changes_nothing() {
    let config = card(1_000_000_000, 1_500, 0, 1);
    let mut bench = governed(config);
    bench.run(1_200);
    bench.backlog = false;
    bench.run(3_000);
    bench.backlog = true;
    check(config, FULL, &bench.run(100));
}

/// Small frames, mixed ones, and 64 KB to be cut by the card.
#[test]
fn frames_of_any_size() {
    for sizes in [&[84_u32][..], &[84, 300, 1_538], &[68_000, 84, 1_538]] {
        for (delay, tx_usecs, tx_frames) in COMPLETIONS {
            let config = card(1_000_000_000, delay, tx_usecs, tx_frames);
            let mut bench = governed(config);
            bench.sizes = sizes;
            bench.run(1_200);
            check(config, sizes, &bench.run(1_000));
        }
    }
}

/// Bytes of a full-sized frame with preamble, FCS and gap.
const FULL: &[u32] = &[1_538];

/// Delay in us, tx-usecs, tx-frames.
const COMPLETIONS: [(u64, u64, usize); 6] =
    [(0, 0, 1), (50, 0, 1), (1_500, 0, 1), (10_000, 0, 1), (0, 1_024, 64), (1_500, 1_024, 64)];

const HEAD: &str = "\
The governor on its defaults in front of the modelled card, ring 4096, always backlogged, polled every 2 to 8 us.
Shares of the wire's time in percent, bytes, microseconds; residence (submitted to left the wire) is the 99th percentile.
In the rows whose bound is more than the ring, 4096 frames of 1538 bytes, the ring is the limit.

                         governor                                                 | stock limits
  Mbit  delay usecs/fr |  share     limit in flight     bound residnc   bound |  share     limit residnc
";
