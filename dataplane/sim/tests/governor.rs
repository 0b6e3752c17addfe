//! The governor and stock byte queue limits in front of the modelled card, always backlogged.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use shaper::conformance::Linux;
use shaper::dql::{Dql, Governor, Params};
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use sim::nic::{Config, Frame, Nic, Reaped};

/// What stands between a backlog and the ring.
trait Limiter {
    fn completed(&mut self, now: Instant, reaped: Reaped);
    fn ready(&self) -> bool;
    fn queued(&mut self, now: Instant, frame: Frame);
    fn held(&mut self) {}
    fn limit(&self) -> u64;
}

struct Governed(Governor);

impl Limiter for Governed {
    fn completed(&mut self, now: Instant, reaped: Reaped) {
        if reaped.bytes > 0 {
            self.0.completed(now, 0, reaped.bytes, reaped.descriptors);
        }
        self.0.turn(now);
    }
    fn ready(&self) -> bool {
        self.0.ready()
    }
    fn queued(&mut self, now: Instant, frame: Frame) {
        self.0.queued(now, 0, frame.bytes);
    }
    fn held(&mut self) {
        self.0.held();
    }
    fn limit(&self) -> u64 {
        self.0.limit().into()
    }
}

/// As a Linux driver uses it: one decision per reap; jiffies at HZ 250.
struct Stock(Dql<Linux>);

impl Limiter for Stock {
    fn completed(&mut self, now: Instant, reaped: Reaped) {
        self.0.completed(now.as_nanos() / 4_000_000, reaped.bytes).unwrap();
    }
    fn ready(&self) -> bool {
        self.0.available() >= 0
    }
    fn queued(&mut self, now: Instant, frame: Frame) {
        self.0.queued(now.as_nanos() / 4_000_000, frame.bytes).unwrap();
    }
    fn limit(&self) -> u64 {
        self.0.limit().into()
    }
}

/// A run and what is to come of it.
#[derive(Clone, Copy)]
struct Case {
    nic: Config,
    /// The owner's own lateness: gaps of 1 to 30 ms at random.
    gaps: bool,
}

#[derive(Debug, Default)]
struct Outcome {
    /// Share of the wire's time that was used.
    throughput: f64,
    limit: u64,
    in_flight: u64,
    residence_p50: u64,
    residence_p99: u64,
}

struct Bench<L> {
    nic: Nic,
    limiter: L,
    rng: SplitMix,
    now: Instant,
    frame: Frame,
    in_flight: u64,
    gaps: bool,
    next_gap: Instant,
}

impl<L: Limiter> Bench<L> {
    fn new(case: Case, limiter: L) -> Self {
        Self {
            nic: Nic::new(case.nic),
            limiter,
            rng: SplitMix::new(7, 11),
            now: Instant::ZERO,
            frame: Frame { bytes: 1_538, descriptors: 1 },
            in_flight: 0,
            gaps: case.gaps,
            next_gap: Instant::from_nanos(50_000_000),
        }
    }

    fn turn(&mut self) {
        let reaped = self.nic.reap(self.now);
        self.in_flight -= u64::from(reaped.bytes);
        self.limiter.completed(self.now, reaped);
        while self.limiter.ready() && self.nic.submit(self.now, self.frame).is_ok() {
            self.limiter.queued(self.now, self.frame);
            self.in_flight += u64::from(self.frame.bytes);
        }
        self.limiter.held();
    }

    fn run(&mut self, until: Instant) -> Outcome {
        let start = self.now;
        let (mut sent, mut residence) = (0, Vec::new());
        let mut outcome = Outcome::default();
        self.nic.left().for_each(drop);
        while self.now < until {
            self.turn();
            outcome.limit = outcome.limit.max(self.limiter.limit());
            outcome.in_flight = outcome.in_flight.max(self.in_flight);
            for left in self.nic.left() {
                sent += u64::from(left.frame.bytes);
                residence.push(left.left.since(left.submitted).as_nanos());
            }
            let interval = self.interval();
            self.now += interval;
        }
        residence.sort_unstable();
        outcome.residence_p50 = residence[residence.len() / 2];
        outcome.residence_p99 = residence[residence.len() * 99 / 100];
        outcome.throughput = sent as f64 / self.now.since(start).as_nanos() as f64;
        outcome
    }

    fn interval(&mut self) -> Duration {
        if self.gaps && self.now >= self.next_gap {
            self.next_gap = self.now + Duration::from_micros(20_000 + u64::from(self.rng.next_u32() % 180_000));
            return Duration::from_micros(1_000 + u64::from(self.rng.next_u32() % 29_000));
        }
        Duration::from_nanos(2_000 + u64::from(self.rng.next_u16() % 6_000))
    }
}

#[test]
fn table() {
    let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    println!("{:>6} {:>6} {:>5} {:>3} | {:>7} {:>9} {:>9} {:>9} | {:>7} {:>7} {:>7} | stock {:>7} {:>9} {:>7}", "Mbit", "delay", "usecs", "fr", "share", "limit", "inflight", "bar", "p50", "p99", "bar", "share", "limit", "p99");
    for rate in [100_000_000_u64, 650_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000] {
        for (delay, usecs, frames, gaps) in [(0, 0, 1, false), (50, 0, 1, false), (1_500, 0, 1, false), (10_000, 0, 1, false), (0, 1_024, 64, false), (1500, 1024, 64, false), (150,0,1,false), (50,0,1,true), (0,1024,64,true)] {
            let nic = Config { rate: Rate::from_bits_per_sec(rate), ring: 4096, delay: Duration::from_micros(delay), tx_usecs: Duration::from_micros(usecs), tx_frames: frames };
            let case = Case { nic, gaps };
            let params = Params { ring: 4096, ..Params::default() };
            let mut bench = Bench::new(case, Governed(Governor::new(params, 1, Instant::ZERO)));
            bench.run(ms(1_500));
            let o = bench.run(ms(3_500));
            let g = &bench.limiter.0;
            let (gr, gd, st) = (g.rate(), g.delay(), *g.stats());
            let mut bench = Bench::new(case, Stock(Dql::new(0, 250)));
            bench.run(ms(1_500));
            let s = bench.run(ms(2_500));
            let r = rate as f64 / 8e9;
            let ft = 1_538.0 / r;
            let b = (usecs as f64 * 1e3).min(frames as f64 * ft);
            let d = delay as f64 * 1e3;
            let w = 100e3f64.min(4096.0 * ft / 4.0);
            let b = if usecs == 0 { 0.0 } else { b };
            let bar = r * (1.5 * d + 2.0 * b + 2.0 * w) + 3.0 * 1_538.0;
            let rbar = 0.5 * d + 2.0 * b + 2.0 * w + 4.0 * ft;
            let bad = |b: bool| if b { '!' } else { ' ' };
            println!("{:>6} {delay:>6} {usecs:>5} {frames:>3} {}| {:>6.2}%{} {:>9}{} {:>9}{} {:>9.0} | {:>7.1} {:>7.1}{} {:>7.1} | stock {:>6.2}% {:>9} {:>7.1}  r={gr} d={gd:?} {st:?}", rate / 1_000_000, if gaps {'g'} else {' '},
                o.throughput / r * 100.0, bad(o.throughput / r < 0.99), o.limit, bad(o.limit as f64 > bar), o.in_flight, bad(o.in_flight as f64 > bar), bar, o.residence_p50 as f64 / 1e3, o.residence_p99 as f64 / 1e3, bad(o.residence_p99 as f64 > rbar), rbar / 1e3,
                s.throughput / r * 100.0, s.limit, s.residence_p99 as f64 / 1e3);
        }
    }
}
