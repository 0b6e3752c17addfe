//! What the whole packet path costs: null device, parse, hash, a discipline without a rate, null device.
//!
//! `cargo run --release -p engine --example null_path -- --qdisc fq_codel --seconds 3` (or cake:
//! diffserv4, triple-isolate) runs the worker's own loop, waiting times recorded, on one lcore and
//! prints the speed as its last line, in JSON. net_null hands out mbufs with the bytes that the pool
//! left in them, so that every mbuf is stamped once with a UDP/IPv4 frame of 64 bytes of one of 64
//! flows between two hosts, all of best effort.
//!
//! Nothing makes a queue in front of a device that takes everything. Here the link is down until there is
//! one; then each turn receives a full burst, and so sends one. So the backlog filled at the start stands.
//!
//! `--gate submit` puts the governor's gate in front of the device as weir does: net_null copies, so that a
//! completion means nothing and nothing is held back. Without, there is no gate.
//!
//! `--telemetry on` prints instead what all histograms and the sample of who sends most cost together, in percent of
//! the CPU time, `--telemetry talkers` that sample alone: the same loop behind the gate with and without them, in turns of 20 ms; of each the tenth that was least disturbed.
//! Histograms are exchanged every 40 ms, more often than for ten who look once a second.
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
use engine::delays::{ByKind, Recorder, Totals, tins};
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::gate::{self, Gate};
use engine::mailbox::{self, Command, Control};
use engine::page::{DirectionPage, Page};
use engine::plan::GovernorPlan;
use engine::pool;
use engine::talkers::{Sample, Talkers};
use engine::worker::Worker;
use nix::time::{ClockId, clock_gettime};
use shaper::flow::dissect::dissect;
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::{Params, Qdisc, cake, fq_codel};
use shaper::rate::Overhead;
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};
use std::collections::HashSet;

fn main() {
    let Arguments { params, gate, seconds, telemetry } = arguments();
    let eal = Eal::init(&eal_config()).expect("the EAL starts");
    let frames = frames();
    if let Some((what, without)) = telemetry {
        println!("cost of {what}  {:.1}", telemetry_cost(&eal, &frames, params, without, seconds));
        return;
    }
    let pool = stamped(&eal, "stamped", &frames);
    let mut left = Null::open(&eal, "net_null0,size=64", &pool);
    let mut right = Null::open(&eal, "net_null1,size=64", &pool);
    let (rx, tx) = (left.rx.take().unwrap(), right.tx.take().unwrap());
    let mut bench = Bench::new((rx, tx), &eal, &pool, params, gate, ALL);

    bench.fill();
    bench.run(WARM_UP);
    let (before, start, on_cpu) = (bench.page(), std::time::Instant::now(), nanos_on_cpu());
    bench.run(Duration::from_millis(seconds * 1_000));
    let (after, elapsed, on_cpu) = (bench.page(), start.elapsed(), nanos_on_cpu() - on_cpu);

    let sent = after.counters.sent.packets - before.counters.sent.packets;
    bench.check_flows();
    bench.check_books();
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

/// What recording [`ALL`] costs in percent of the time with no more than `less`. Of two benches in one process the one
/// that was made first may be slower by as much as is to be measured, for where its memory lies: each has its turn as
/// the one that records all, and what is theirs alone cancels out.
fn telemetry_cost(eal: &Eal, frames: &[[u8; FRAME]], params: Params, less: Records, seconds: u64) -> f64 {
    let rounds = seconds * 1_000 / (2 * 2 * SLICE_MS);
    let [with_as_second, with_as_first] =
        [[less, ALL], [ALL, less]].map(|records| second_to_first(eal, frames, params, records, rounds));
    ((with_as_second / with_as_first).sqrt() - 1.0) * 100.0
}

/// Time of the bench that is made second to that of the first, which record this.
fn second_to_first(
    eal: &Eal,
    frames: &[[u8; FRAME]],
    params: Params,
    records: [Records; 2],
    rounds: u64,
) -> f64 {
    let mut number = 10 * u8::from(records[0].is_all());
    let mut ports = Vec::new();
    let [mut first, mut second] = records.map(|records| {
        number += 1;
        let pool = stamped(eal, &format!("stamped{number}"), frames);
        let open = |end: u8| Null::open(eal, &format!("net_null{number}{end},size=64"), &pool);
        let (mut left, mut right) = (open(0), open(1));
        let queues = (left.rx.take().unwrap(), right.tx.take().unwrap());
        ports.extend([left, right]);
        let mut bench = Bench::new(queues, eal, &pool, params, Some(Source::Submit), records);
        bench.fill();
        bench.run(WARM_UP);
        bench
    });
    let mut spent = [const { Vec::new() }; 2];
    for round in 0..rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            spent[which].push([&mut first, &mut second][which].slice());
        }
    }
    for (bench, records) in [&first, &second].into_iter().zip(records) {
        // Not the flows: one may have grown too old while the other had its turn.
        bench.check_books();
        let (recorded, sent) = (bench.recorded.total.of_all().packets, bench.page().counters.sent.packets);
        let has_all = recorded > 0 && sent - recorded < sent / 2;
        assert!(has_all || !records.is_all(), "{recorded} of {sent} packets are in the histograms");
    }
    let [first, second] = spent.map(|mut spent| {
        spent.sort_by(f64::total_cmp);
        spent[spent.len() / 10]
    });
    second / first
}

/// What is recorded of each packet.
#[derive(Clone, Copy)]
struct Records {
    delays: bool,
    talkers: bool,
}

const ALL: Records = Records { delays: true, talkers: true };

impl Records {
    const fn is_all(self) -> bool {
        self.delays && self.talkers
    }
}

/// The worker under test and the control side that takes its link down and up.
struct Bench {
    worker: Worker,
    control: Control,
    clock: Clock,
    empty: Page,
    recorded: ByKind<Totals>,
}

impl Bench {
    fn new(
        (rx, tx): (RxQueue, TxQueue),
        eal: &Eal,
        pool: &Mempool,
        params: Params,
        source: Option<Source>,
        records: Records,
    ) -> Self {
        let (ring, tins) = (tx.ring(), if records.delays { tins(&params) } else { 0 });
        let qdisc = Qdisc::new(&params, pool::slots(&params) as usize).unwrap();
        let egress =
            Egress::new(qdisc, None, Overhead::default(), SplitMix::new(1, 2)).recording(Recorder::new(tins));
        let classifier = Classifier::new(FlowHasher::new(SECRET), Wants::of(&params), &[]);
        let settings = Settings { link_down_hold: Duration::from_millis(60_000), ..Settings::default() };
        let mut direction = Direction::new(rx, tx, classifier, egress, settings, pool);
        if records.talkers {
            direction = direction.sampled(Talkers::new(FlowHasher::new(SECRET), 3));
        }
        if let Some(source) = source {
            let gate = Gate::new(gate::Settings {
                plan: GovernorPlan::default(),
                source,
                nudge: Nudge::None,
                ring,
                framing: 0,
                heads: None,
                wire: None,
            });
            direction = direction.governed(if records.delays { gate.recording(tins) } else { gate });
        }
        let (control, mailbox) = mailbox::pair();
        let delays = records.delays.then(|| ByKind::<Recorder>::new(tins)).into_iter().collect();
        let talkers = vec![if records.talkers { Sample::new() } else { Sample::default() }];
        let worker = Worker::new(vec![direction], mailbox);
        let empty = Page { delays, talkers, ..Page::new(1) };
        Self { worker, control, clock: Clock::start(eal), empty, recorded: ByKind::default() }
    }

    /// Receives the backlog while the link is down.
    fn fill(&mut self) {
        self.link(false);
        self.turn();
        while self.page().waiting.packets < BACKLOG as u64 {
            self.turn();
        }
        self.link(true);
        self.turn();
    }

    fn run(&mut self, span: Duration) {
        let end = self.clock.now() + span;
        while self.turn() < end {}
    }

    /// CPU time for each of as many packets as go in [`SLICE_MS`], with one exchange of histograms.
    fn slice(&mut self) -> f64 {
        // What became too old while the other one had its turn is replaced.
        self.fill();
        let (before, start) = (self.page().counters.sent.packets, cpu_time());
        self.run(HALF_SLICE);
        self.worker.exchange_histograms(&mut self.empty);
        self.run(HALF_SLICE);
        let spent = cpu_time() - start;
        // Control's part, on another CPU.
        self.empty.delays.iter_mut().for_each(|delays| self.recorded.take(delays));
        self.empty.talkers.iter_mut().for_each(Sample::clear);
        spent / (self.page().counters.sent.packets - before) as f64
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
    fn check_books(&self) {
        let page = self.page();
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

/// A pool of mbufs with the frames in them.
fn stamped(eal: &Eal, name: &str, frames: &[[u8; FRAME]]) -> Mempool {
    let pool = Mempool::create(eal, &MempoolConfig::new(name, MBUFS)).unwrap();
    stamp(&pool, frames);
    pool
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

/// Seconds that this thread has had a CPU, to the nanosecond.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
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
    seconds: u64,
    /// What is measured, and what is recorded without it.
    telemetry: Option<(&'static str, Records)>,
}

fn arguments() -> Arguments {
    let mut args = std::env::args().skip(1);
    let (mut params, mut gate, mut seconds, mut telemetry) = (Some(fq_codel()), None, Some(3), None);
    while let Some(arg) = args.next() {
        let value = args.next();
        match (arg.as_str(), value.as_deref()) {
            ("--qdisc", Some("fq_codel")) => params = Some(fq_codel()),
            ("--qdisc", Some("cake")) => params = Some(cake()),
            ("--telemetry", Some("on")) => {
                telemetry = Some(("all histograms and talkers", Records { delays: false, talkers: false }));
            }
            ("--telemetry", Some("talkers")) => {
                telemetry = Some(("talkers", Records { talkers: false, ..ALL }))
            }
            ("--gate", Some("submit")) => gate = Some(Source::Submit),
            ("--seconds", Some(value)) => seconds = value.parse().ok(),
            _ => seconds = None,
        }
    }
    let Some((params, seconds)) = params.zip(seconds) else {
        eprintln!(
            "usage: null_path [--qdisc fq_codel|cake] [--gate submit] [--telemetry on|talkers] [--seconds N]"
        );
        std::process::exit(2)
    };
    Arguments { params, gate, seconds, telemetry }
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
const SLICE_MS: u64 = 20;
const HALF_SLICE: Duration = Duration::from_millis(SLICE_MS / 2);
const WARM_UP: Duration = Duration::from_millis(200);
const SECRET: [u8; 16] = *b"known, as nobody";
