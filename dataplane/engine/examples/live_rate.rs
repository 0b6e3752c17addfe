//! How exactly the loop keeps a rate in real time, over ports of rings.
//!
//! `cargo run --release -p engine --example live_rate` shapes full frames to 1 Mbit/s … 10 Gbit/s,
//! one rate after the other, and prints how far each was off, in percent.
//!
//! One thread feeds the ring, turns the worker and empties the other ring, so that every frame's
//! departure is known. What is measured is bytes over time between two instants at which no lateness
//! is outstanding: the frame that left was due less than 50 µs ago and the next one is not due yet.
//! Of all such spans in which the queue never ran empty (that would be idle time, which earns no
//! credit) and nothing was given up, the longest counts; it is printed. A thread that is descheduled
//! is late, makes up for it, and is on schedule again: such gaps are printed, and cost nothing. A rate
//! that the machine cannot carry has no such span, and the run says so and fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark may panic, and reads its own clock"
)]

use dpdk::{Burst, Eal, EalConfig, Mbuf, Mempool, MempoolConfig, Port, PortConfig, Ring};
use engine::classify::{Classifier, Wants};
use engine::clock::Clock;
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::mailbox;
use engine::page::Page;
use engine::pool;
use engine::worker::Worker;
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::{Params, Qdisc, fifo};
use shaper::rate::{Limiter, Overhead};
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

fn main() {
    let eal = Eal::init(&eal_config()).expect("the EAL starts");
    let pool = Mempool::create(&eal, &MempoolConfig::new("live", MBUFS)).unwrap();
    println!(
        "{:<16}{:>12}{:>12}{:>12}{:>16}{:>12}",
        "rate", "% off", "span ms", "frames", "gaps > 50 us", "longest us"
    );
    for (name, bits_per_sec) in RATES {
        let mut rig = Rig::new(&eal, &pool, name, bits_per_sec);
        rig.run();
        let gaps = rig.page().gaps;
        let (span, measured) = rig.on_schedule.longest();
        assert!(span > ENOUGH, "{name}: on schedule for {span:?} at most: this machine cannot carry it now");
        println!(
            "{name:<16}{:>12.4}{:>12}{:>12}{:>16}{:>12}",
            (measured / bits_per_sec as f64 - 1.0).abs() * 100.0,
            span.as_micros() / 1_000,
            rig.page().directions[0].counters.sent.packets,
            gaps.over_50us,
            gaps.max.as_micros(),
        );
    }
    assert_eq!(pool.in_use(), 0, "every mbuf is back");
}

/// A worker between two rings.
struct Rig<'a> {
    pool: &'a Mempool,
    worker: Worker,
    clock: Clock,
    inlet: Ring,
    outlet: Ring,
    on_schedule: OnSchedule,
    losses: u64,
    // After the worker, which holds their queues.
    _ports: [Port; 2],
}

/// Instants without lateness, with the bytes sent by then.
#[derive(Default)]
struct OnSchedule {
    first: Option<(Instant, u64)>,
    last: Option<(Instant, u64)>,
    /// The longest span so far and its bits per second.
    longest: (Duration, f64),
}

impl<'a> Rig<'a> {
    fn new(eal: &Eal, pool: &'a Mempool, name: &str, bits_per_sec: u64) -> Self {
        let ring = |end: &str| Ring::create(eal, &format!("{end}{name}"), 1024).unwrap();
        let (inlet, outlet) = (ring("i"), ring("o"));
        let port = |end: &str| {
            let mut port = Ring::port(eal, &format!("{end}{name}"), &inlet, &outlet).unwrap();
            port.configure(&PortConfig::default(), pool).unwrap();
            let mut started = port.start().unwrap();
            (port, started.rx.pop().unwrap(), started.tx.pop().unwrap())
        };
        let (a, rx, _) = port("a");
        let (b, _, tx) = port("b");
        // Its drops would be none of this measurement's business.
        let params = Params::Fifo(fifo::Params { limit: BACKLOG as u32, ..fifo::Params::default() });
        let qdisc = Qdisc::new(&params, pool::slots(&params) as usize).unwrap();
        let limiter = Limiter::new(Rate::from_bits_per_sec(bits_per_sec), CATCH_UP).unwrap();
        let egress = Egress::new(qdisc, Some(limiter), Overhead::default(), SplitMix::new(1, 2));
        let settings = Settings { link_down_hold: Duration::from_millis(100), ..Settings::default() };
        let classifier = Classifier::new(FlowHasher::new(*b"known, as nobody"), Wants::default(), &[]);
        let direction = Direction::new(rx, tx, classifier, egress, settings, pool);
        let worker = Worker::new(vec![direction], mailbox::pair().1);
        let clock = Clock::start(eal);
        let on_schedule = OnSchedule::default();
        Self { pool, worker, clock, inlet, outlet, on_schedule, losses: 0, _ports: [a, b] }
    }

    fn run(&mut self) {
        let end = self.clock.now() + SPAN;
        loop {
            self.feed();
            let due = self.worker.directions()[0].next_wakeup();
            let now = self.clock.now();
            if now > end {
                break;
            }
            let before = self.sent();
            let waited = self.worker.directions()[0].waiting().packets;
            self.worker.turn(now);
            let sent = self.sent();
            if self.lost() || waited < MOVED_AT_ONCE {
                self.on_schedule.interrupt();
            }
            let next = self.worker.directions()[0].next_wakeup();
            let punctual = due.is_some_and(|due| due <= now && now.since(due) < PUNCTUAL);
            if sent > before && punctual && next.is_some_and(|next| next > now) {
                self.on_schedule.note(now, sent);
            }
            let mut gone = Burst::new();
            while self.outlet.dequeue(&mut gone) > 0 {
                gone.clear();
            }
        }
        self.worker.flush();
        let mut rest = Burst::new();
        while self.inlet.dequeue(&mut rest) > 0 {
            rest.clear();
        }
    }

    /// Keeps as many packets waiting as the longest gap that is to be made up needs.
    fn feed(&mut self) {
        let waiting = self.worker.directions()[0].waiting().packets + u64::from(self.inlet.len());
        let mut burst = Burst::new();
        while waiting + (burst.len() as u64) < BACKLOG && burst.room() > 0 {
            let Ok(packet) = Mbuf::from_bytes(self.pool, &FRAME) else { break };
            let _ = burst.push(packet);
        }
        self.inlet.enqueue(&mut burst);
    }

    /// Whether time was given up since the last call.
    fn lost(&mut self) -> bool {
        let losses =
            self.worker.directions()[0].egress().limiter().map_or(0, |limiter| limiter.stats().losses);
        std::mem::replace(&mut self.losses, losses) != losses
    }

    fn sent(&self) -> u64 {
        self.worker.directions()[0].counters().sent.bytes
    }

    fn page(&self) -> Page {
        let mut page = Page::new(1);
        self.worker.report(&mut page);
        page
    }
}

impl OnSchedule {
    fn note(&mut self, now: Instant, sent: u64) {
        self.first.get_or_insert((now, sent));
        self.last = Some((now, sent));
    }

    /// From here on a new span begins.
    fn interrupt(&mut self) {
        let (Some((from, before)), Some((until, after))) = (self.first.take(), self.last.take()) else {
            return;
        };
        let span = until.since(from);
        if span > self.longest.0 {
            self.longest = (span, (after - before) as f64 * 8e9 / span.as_nanos() as f64);
        }
    }

    fn longest(&mut self) -> (Duration, f64) {
        self.interrupt();
        self.longest
    }
}

fn eal_config() -> EalConfig {
    let config = EalConfig::new(format!("live-rate-{}", std::process::id()));
    ["--no-huge", "-m", "256", "--no-shconf", "--no-pci", "-l", "0"].into_iter().fold(config, EalConfig::arg)
}

const RATES: [(&str, u64); 5] = [
    ("1mbit", 1_000_000),
    ("10mbit", 10_000_000),
    ("100mbit", 100_000_000),
    ("1gbit", 1_000_000_000),
    ("10gbit", 10_000_000_000),
];
/// 160 frames at 1 Mbit/s: 50 µs at either end are 0.005 % of it.
const SPAN: Duration = Duration::from_millis(2_000);
const PUNCTUAL: Duration = Duration::from_micros(50);
/// Far above the gaps of a shared machine, so that nothing is given up.
const CATCH_UP: Duration = Duration::from_millis(500);
/// At 10 Gbit/s worth 12 ms.
const BACKLOG: u64 = 10_240;
/// More than one turn can send: with less than this the queue may have run empty within it.
const MOVED_AT_ONCE: u64 = 4 * Burst::CAPACITY as u64;
const MBUFS: u32 = 16_383;
/// A span in which 50 µs at either end are 0.05 %.
const ENOUGH: Duration = Duration::from_millis(200);
/// A full frame: Ethernet, IPv4, UDP, and nothing in it.
const FRAME: [u8; 1514] = {
    let mut frame = [0; 1514];
    let head: [u8; 24] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 17];
    let mut at = 0;
    while at < head.len() {
        frame[at] = head[at];
        at += 1;
    }
    frame
};
