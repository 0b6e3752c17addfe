//! What the whole packet path costs: null device, parse, hash, a discipline without a rate, null device.
//!
//! `cargo run --release -p engine --example null_path -- --qdisc fq_codel --seconds 3` (or cake:
//! diffserv4, triple-isolate) runs the worker's own loop, waiting times recorded, on one lcore and
//! prints the speed as its last line, in JSON. net_null hands out mbufs with the bytes that the pool
//! left in them, so that every mbuf is stamped once with a UDP/IPv4 frame of 64 bytes of one of 64
//! flows between two hosts, all of best effort.
//!
//! Nothing makes a queue in front of a device that takes everything. Here the link is down in every
//! other turn, in which the worker receives one burst and sends none; in the next it sends the two
//! bursts that a turn may send and receives one. So the backlog filled at the start stands.
//!
//! `--gate submit` puts the governor's gate in front of the device as weir does: net_null copies, so that a
//! completion means nothing and nothing is held back. Without, there is no gate.
//!
//! `--talkers off` leaves out the sample of who sends most, whose cost is the difference.
//!
//! `mpps` is packets over the time that passed, `mpps_on_cpu` over the time that the lcore had a CPU.
//!
//! The figure counts only if the run was what it claims to be, and is checked: every flow is queued
//! in a queue of its own and in none else, nothing was lost, the driver sent what the worker says,
//! and all bytes in the pool are still those that were stamped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark may panic, and reads its own clock"
)]

use dpdk::{Burst, Eal, EalConfig, Mempool, MempoolConfig, Port, PortConfig, RxQueue, TxQueue};
use engine::classify::{Classifier, Wants};
use engine::clock::Clock;
use engine::completion::source::{Nudge, Source};
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::gate::{self, Gate};
use engine::mailbox::{self, Command, Control};
use engine::page::{DirectionPage, Page};
use engine::plan::GovernorPlan;
use engine::pool;
use engine::sojourn::Sojourn;
use engine::talkers::Talkers;
use engine::worker::Worker;
use shaper::flow::dissect::dissect;
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::{Params, Qdisc, cake, fq_codel};
use shaper::rate::Overhead;
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};
use std::collections::HashSet;

fn main() {
    let Arguments { params, gate, talkers, seconds } = arguments();
    let eal = Eal::init(&eal_config()).expect("the EAL starts");
    let pool = Mempool::create(&eal, &MempoolConfig::new("stamped", MBUFS)).unwrap();
    let frames = frames();
    stamp(&pool, &frames);
    let mut left = Null::open(&eal, "net_null0,size=64", &pool);
    let mut right = Null::open(&eal, "net_null1,size=64", &pool);
    let queues = (left.rx.take().unwrap(), right.tx.take().unwrap());
    let mut bench = Bench::new(queues, &eal, &pool, params, (gate, talkers));

    bench.fill();
    bench.run(WARM_UP);
    let (before, start, on_cpu) = (bench.page(), std::time::Instant::now(), nanos_on_cpu());
    bench.run(Duration::from_millis(seconds * 1_000));
    let (after, elapsed, on_cpu) = (bench.page(), start.elapsed(), nanos_on_cpu() - on_cpu);

    let sent = after.counters.sent.packets - before.counters.sent.packets;
    bench.check();
    drop(bench);
    assert_eq!(right.port.stats().unwrap().opackets, after.counters.sent.packets, "the driver's count");
    assert_eq!(count_stamped(&pool, &frames), MBUFS as usize, "mbufs with the bytes they were stamped with");

    let nanos = elapsed.as_nanos() as f64;
    println!(
        r#"{{"mpps": {:.2}, "ns_per_packet": {:.1}, "mpps_on_cpu": {:.2}, "packets": {sent}, "seconds": {:.2}, "flows": {FLOWS}, "backlog": {}, "frame": {FRAME}, "burst": {}, "drops": {}}}"#,
        sent as f64 * 1e3 / nanos,
        nanos / sent as f64,
        sent as f64 * 1e3 / on_cpu as f64,
        nanos / 1e9,
        after.waiting.packets,
        Burst::CAPACITY,
        after.counters.losses.total().packets,
    );
}

/// The worker under test and the control side that takes its link down and up.
struct Bench {
    worker: Worker,
    control: Control,
    clock: Clock,
}

impl Bench {
    fn new(
        (rx, tx): (RxQueue, TxQueue),
        eal: &Eal,
        pool: &Mempool,
        params: Params,
        (source, talkers): (Option<Source>, bool),
    ) -> Self {
        let ring = tx.ring();
        let qdisc = Qdisc::new(&params, pool::slots(&params) as usize).unwrap();
        let egress = Egress::new(qdisc, None, Overhead::default(), SplitMix::new(1, 2))
            .recording(Sojourn::new(&params));
        let classifier = Classifier::new(FlowHasher::new(SECRET), Wants::of(&params), &[]);
        let settings = Settings { link_down_hold: Duration::from_millis(1_000), ..Settings::default() };
        let mut direction = Direction::new(rx, tx, classifier, egress, settings, pool);
        if talkers {
            direction = direction.sampled(Talkers::new(FlowHasher::new(SECRET), 3));
        }
        if let Some(source) = source {
            direction = direction.governed(Gate::new(gate::Settings {
                plan: GovernorPlan::default(),
                source,
                nudge: Nudge::None,
                ring,
                framing: 0,
                heads: None,
                wire: None,
            }));
        }
        let (control, mailbox) = mailbox::pair();
        Self { worker: Worker::new(vec![direction], mailbox), control, clock: Clock::start(eal) }
    }

    /// Receives the backlog while the link is down.
    fn fill(&mut self) {
        self.link(false);
        for _ in 0..=BACKLOG / Burst::CAPACITY {
            self.turn();
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.clock.now() + span;
        while self.turn() < end {
            self.link(true);
            self.turn();
            self.link(false);
        }
    }

    /// One turn; a command sent before it is obeyed at its end.
    fn turn(&mut self) -> Instant {
        let now = self.clock.now();
        self.worker.turn(now);
        now
    }

    fn link(&self, up: bool) {
        self.control.send(Command::Link { direction: 0, up }).unwrap();
    }

    fn page(&self) -> DirectionPage {
        let mut page = Page::new(1);
        self.worker.report(&mut page);
        page.directions[0]
    }

    /// Flows that are queued, each with what a turn takes of it.
    fn check_flows(&self) {
        match self.worker.directions()[0].egress().qdisc() {
            Qdisc::FqCodel(fq_codel) => {
                let queued: Vec<_> = fq_codel.flows(Instant::ZERO).map(|flow| flow.qlen).collect();
                assert_eq!(queued.len(), FLOWS, "flows queued");
                assert!(queued.iter().all(|packets| *packets >= 4), "backlog of each flow: {queued:?}");
            }
            Qdisc::Cake(cake) => {
                let stats = cake.stats();
                let flows: u16 = stats.tins().iter().map(|tin| tin.sparse_flows + tin.bulk_flows).sum();
                let shared: u64 = stats.tins().iter().map(|tin| tin.way_collisions).sum();
                assert_eq!((usize::from(flows), shared, stats.tins().len()), (FLOWS, 0, 4), "flows queued");
            }
            Qdisc::Fifo(_) => unreachable!("a discipline of the arguments"),
        }
    }

    /// Panics unless the run was what the bench says it is.
    fn check(&self) {
        let page = self.page();
        self.check_flows();
        let (received, sent) = (page.counters.received, page.counters.sent);
        assert_eq!(
            received.packets,
            sent.packets + page.counters.losses.total().packets + page.waiting.packets
        );
        assert_eq!(sent.bytes, sent.packets * FRAME as u64);
        assert_eq!(page.control.sent.packets, 0);
    }
}

/// A started null device.
struct Null {
    port: Port,
    rx: Option<RxQueue>,
    tx: Option<TxQueue>,
}

impl Null {
    fn open(eal: &Eal, devargs: &str, pool: &Mempool) -> Self {
        let name = eal.attach(devargs).unwrap();
        let mut port = Port::open(eal, &name).unwrap();
        port.configure(&PortConfig::default(), pool).unwrap();
        let mut started = port.start().unwrap();
        Self { port, rx: started.rx.pop(), tx: started.tx.pop() }
    }
}

/// One frame for each flow, chosen so that each has a queue of its own: what is measured is
/// [`FLOWS`] flows, not as many as happen not to collide.
fn frames() -> Vec<[u8; FRAME]> {
    let hasher = FlowHasher::new(SECRET);
    let queues = u64::from(fq_codel::Params::default().flows);
    let mut taken = HashSet::new();
    (1024..=u16::MAX)
        .map(frame)
        .filter(|frame| {
            let hash = hasher.flow(&dissect(frame, FRAME).key);
            taken.insert((u64::from(hash) * queues) >> 32)
        })
        .take(FLOWS)
        .collect()
}

/// A UDP datagram from 192.0.2.1 to 198.51.100.1.
fn frame(source_port: u16) -> [u8; FRAME] {
    let mut frame = [0x5a; FRAME];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..34]
        .copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17, 0x4e, 0x85, 192, 0, 2, 1, 198, 51, 100, 1]);
    frame[34..36].copy_from_slice(&source_port.to_be_bytes());
    frame[36..42].copy_from_slice(&[0x13, 0x89, 0, 30, 0, 0]);
    frame
}

/// Writes the frames into all mbufs of the pool in turn.
fn stamp(pool: &Mempool, frames: &[[u8; FRAME]]) {
    let mut frames = frames.iter().cycle();
    for mut mbuf in every(pool) {
        mbuf.append(FRAME).unwrap().copy_from_slice(frames.next().unwrap());
    }
}

/// Mbufs of the pool that still hold one of the frames, every byte of it.
fn count_stamped(pool: &Mempool, frames: &[[u8; FRAME]]) -> usize {
    let frames: HashSet<&[u8]> = frames.iter().map(<[u8; FRAME]>::as_slice).collect();
    let is_stamped = |mut mbuf: dpdk::Mbuf| frames.contains(&*mbuf.append(FRAME).unwrap());
    every(pool).into_iter().map(is_stamped).filter(|stamped| *stamped).count()
}

fn every(pool: &Mempool) -> Vec<dpdk::Mbuf> {
    std::iter::from_fn(|| pool.alloc().ok()).collect()
}

/// Nanoseconds that this thread has had a CPU: on a shared machine the difference to the time that has
/// passed is what other work took.
fn nanos_on_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn eal_config() -> EalConfig {
    EalConfig::new(format!("null-path-{}", std::process::id()))
        .arg("--no-huge")
        .arg("-m")
        .arg("256")
        .arg("--no-shconf")
        .arg("--no-pci")
        .arg("-l")
        .arg("0")
}

struct Arguments {
    params: Params,
    gate: Option<Source>,
    talkers: bool,
    seconds: u64,
}

fn arguments() -> Arguments {
    let mut args = std::env::args().skip(1);
    let (mut params, mut gate, mut talkers, mut seconds) = (Some(fq_codel()), None, true, Some(3));
    while let Some(arg) = args.next() {
        let value = args.next();
        match (arg.as_str(), value.as_deref()) {
            ("--qdisc", Some("fq_codel")) => params = Some(fq_codel()),
            ("--qdisc", Some("cake")) => params = Some(cake()),
            ("--gate", Some("submit")) => gate = Some(Source::Submit),
            ("--talkers", Some("off")) => talkers = false,
            ("--seconds", Some(value)) => seconds = value.parse().ok(),
            _ => seconds = None,
        }
    }
    let Some((params, seconds)) = params.zip(seconds) else {
        eprintln!("usage: null_path [--qdisc fq_codel|cake] [--gate submit] [--talkers off] [--seconds N]");
        std::process::exit(2)
    };
    Arguments { params, gate, talkers, seconds }
}

fn fq_codel() -> Params {
    Params::FqCodel(fq_codel::Params::default())
}

fn cake() -> Params {
    let (diffserv, flow_mode) = (cake::Diffserv::Diffserv4, cake::FlowMode::TripleIsolate);
    Params::Cake(cake::Params { diffserv, flow_mode, ..cake::Params::default() })
}

const FLOWS: usize = 64;
const FRAME: usize = 64;
/// Packets that wait while it runs: 32 of each flow, of which a quantum of 1514 bytes takes 24 at a
/// time, so that no flow runs empty.
const BACKLOG: usize = 32 * FLOWS;
/// Some times the backlog, so that mbufs come from the pool's ring as well as from its cache.
const MBUFS: u32 = 8_191;
const WARM_UP: Duration = Duration::from_millis(200);
const SECRET: [u8; 16] = *b"known, as nobody";
