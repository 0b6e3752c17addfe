//! The model rig: kernel TCP with super-packets, weir, and the modelled card, in one process under the real clock.
//!
//! ```text
//! host's TAP (IFF_VNET_HDR) - ring - weir's worker - the card's ring - its wire - far TAP
//! ```
//!
//! One thread on a CPU of its own moves all of it in turns, so that two cores suffice: the others are the traffic's, and
//! what the kernel does with a frame that a TAP is handed is theirs too, or a turn would last as long as the TCP of both
//! hosts. While the thread is away the card's wire goes on from what lies in its ring, as a real one would;
//! weir fills it again late. So a lost CPU costs throughput at a short limit: every record holds how long and how often.
//!
//! Without weir ("bare") the host's frames go straight to the card, which cuts super-packets itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use dpdk::port::PortConfig;
use dpdk::{Burst, Eal, Mempool, MempoolConfig, Port, Ring, RxQueue, TxQueue};
use engine::clock::Clock;
use engine::delays::{ByKind, Recorder, Totals, tins};
use engine::flight::{Flight, Kind, Total};
use engine::mailbox;
use engine::page::{DirectionPage, Page};
use engine::plan::{CompleteOn, GovernorPlan};
use engine::split::offload::Offload;
use engine::worker::Worker;
use serde::{Deserialize, Serialize};
use shaper::gso::Split;
use shaper::qdisc::Params;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use signal_hook::consts::SIGUSR1;
use sim::nic::Config;

use crate::clock::{Interrupt, unix_seconds};
use crate::dataplane::{self, Way};
use crate::host::Host;
use crate::nic::live::Gaps;
use crate::nic::{Card, Far};
use crate::tap::Tap;

/// What to build.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Spec {
    /// Interfaces of the host's and of the far TAP.
    pub interfaces: [String; 2],
    /// Where the record goes.
    pub record: PathBuf,
    /// CPU of the thread.
    pub cpu: usize,
    /// What is between them.
    pub plan: Plan,
}

/// weir and the card.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// weir, or nothing between the host and the card.
    pub weir: Option<Weir>,
    /// Rate of the wire, Mbit/s.
    pub rate_mbit: u32,
    /// Descriptors of the card's ring.
    pub ring: u32,
    /// From a frame's end on the wire to its completion, µs.
    pub delay_us: u64,
    /// `tx-usecs` of the card.
    pub tx_usecs: u64,
    /// `tx-frames` of the card.
    pub tx_frames: usize,
}

/// weir between the two.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Weir {
    /// Keys of the direction towards the card.
    pub keys: String,
    /// What becomes of super-packets.
    pub split: SplitGso,
    /// What keeps the card's ring short.
    pub governor: Governor,
}

/// `split-gso`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitGso {
    /// To single segments.
    True,
    /// Not at all.
    False,
    /// To what the wire sends in 100 µs.
    Auto,
}

/// What keeps a ring short.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Governor {
    /// Nothing.
    Off,
    /// Completions.
    On,
    /// A limit in bytes that never moves.
    Fixed(u32),
    /// Dynamic queue limits as Linux has them, in the card's driver.
    Stock,
    /// The driver's word that it has taken a frame.
    Submit,
}

/// What happened from the first SIGUSR1 to the second.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Record {
    /// When it was begun, seconds since 1970.
    pub from: f64,
    /// Seconds that it holds.
    pub seconds: f64,
    /// Share of that time that the wire was busy.
    pub wire_share: f64,
    /// Share of the time that the wire was idle although the thread was not away.
    pub idle_share: f64,
    /// From weir's hand to the last bit on the wire, µs: half, 99 % of the frames.
    pub residence_us: [f64; 2],
    /// Bytes on the wire, and frames.
    pub wire: [u64; 2],
    /// Share of the time that the thread was away, the times, and the longest, µs.
    pub away: (f64, u64, f64),
    /// Bytes on the wire of each flow, by source port, in tenths of a second.
    pub flows: BTreeMap<u16, Vec<u64>>,
    /// Second, limit (0: none), bytes in the card: every 10 ms.
    pub samples: Vec<(f64, u32, u64)>,
    /// Limit and bytes in flight as weir has them: half, 99 %, most.
    pub limit: [u64; 3],
    /// The same of bytes in flight.
    pub in_flight: [u64; 3],
    /// Frames from the kernel, super-packets among them, their bytes.
    pub host: (u64, u64, u64),
    /// What weir says of itself.
    pub own: Own,
    /// Pieces that weir made.
    pub pieces: u64,
    /// Packets that weir lost or dropped.
    pub dropped: u64,
    /// Packets that waited at the end.
    pub waiting: u64,
    /// Frames that the rig lost: that the far end, the host or the card's receiving side did not take.
    pub undelivered: u64,
}

/// What weir says of itself; nothing without weir.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Own {
    /// From arrival to the transmit ring, µs: half, 99 % of the packets.
    pub sojourn_us: [f64; 2],
    /// From there to the completion as weir saw it.
    pub residence_us: [f64; 2],
    /// Bytes that the transmit queue took, without preamble, FCS and gap, and frames as they are on the wire.
    pub sent: [u64; 2],
    /// Windows by which the governor judged the limit, and those by which it did not: a late poll, or a probe.
    pub windows: [u64; 2],
    /// Polls that it took for late.
    pub late_polls: u64,
}

/// Builds it, says `ready`, writes the record when it is whole, and runs until SIGINT or SIGTERM.
///
/// # Errors
/// What cannot be built; a TAP that is gone.
pub fn run(spec: &Spec, interrupt: &Interrupt) -> Result<()> {
    let mark = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&mark)).context("cannot handle SIGUSR1")?;
    let _runtime = dataplane::runtime_folder();
    let eal = dataplane::eal(&format!("0@{}", spec.cpu))?;
    let mut rig = Rig::build(&eal, &spec.interfaces, &spec.plan)?;
    println!("ready");
    let ended = rig.turn_until(interrupt, &mark);
    let record = rig.record.take();
    rig.close(&eal)?;
    if let Some(record) = record {
        let text = serde_json::to_string(&record)?;
        fs::write(&spec.record, text).with_context(|| format!("cannot write {}", spec.record.display()))?;
    }
    ended
}

impl Spec {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no spec.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no spec", path.display()))
    }
}

/// What lies between the host's rings and the card's port.
enum Between {
    Weir(Box<Worker>),
    Nothing { inlet: Ring, outlet: Ring, rx: RxQueue, tx: TxQueue, stuck: Box<Burst> },
}

struct Rig {
    between: Between,
    host: Host,
    card: Card,
    clock: Clock,
    ports: Vec<Port>,
    gaps: Gaps,
    from: Instant,
    from_unix: f64,
    now: Instant,
    samples: Vec<(f64, u32, u64)>,
    is_measuring: bool,
    /// Counters when the record was begun.
    before: Record,
    record: Option<Record>,
}

impl Rig {
    fn build(eal: &Eal, interfaces: &[String; 2], spec: &Plan) -> Result<Self> {
        let (host_tap, _) = Tap::with_vnet_header(&interfaces[0])?;
        let far_tap = Tap::new(&interfaces[1])?;
        let pool = Mempool::create(eal, &MempoolConfig { cache: 0, ..MempoolConfig::new("host", MBUFS) })?;
        let inlet = Ring::create(eal, "host-in", RING)?;
        let outlet = Ring::create(eal, "host-out", RING)?;
        let far = Far::Tap(far_tap.into_file());
        let (mut card, mut after) = Card::behind_ring(eal, "card", spec.card(), far)?;
        let governor = spec.weir.as_ref().map(|weir| weir.governor);
        if matches!(governor, Some(Governor::Stock)) {
            card = card.with_stock_limit();
        }
        let config = PortConfig { tx_desc: spec.ring as u16, ..PortConfig::default() };
        let (rx, tx) = start(&mut after, &config, &pool)?;
        let mut ports = vec![after];
        let between = match &spec.weir {
            None => {
                let (inlet, outlet) = (inlet.clone(), outlet.clone());
                Between::Nothing { inlet, outlet, rx, tx, stuck: Box::new(Burst::new()) }
            }
            Some(weir) => {
                let mut before = Ring::port(eal, "host", &inlet, &outlet)?;
                let (host_rx, host_tx) = start(&mut before, &PortConfig::default(), &pool)?;
                ports.push(before);
                Between::Weir(Box::new(worker(eal, spec, weir, [(host_rx, tx), (rx, host_tx)])?))
            }
        };
        let mut clock = Clock::start(eal);
        let now = clock.now();
        Ok(Self {
            between,
            host: Host::new(host_tap.into_file(), inlet, outlet, pool),
            card,
            clock,
            ports,
            gaps: Gaps::default(),
            from: now,
            from_unix: unix_seconds(),
            now,
            samples: Vec::new(),
            is_measuring: false,
            before: Record::default(),
            record: None,
        })
    }

    fn turn_until(&mut self, interrupt: &Interrupt, mark: &AtomicBool) -> Result<()> {
        let mut sample = self.now;
        while interrupt.check().is_ok() {
            self.now = self.clock.now();
            if mark.swap(false, Ordering::Relaxed) {
                if self.is_measuring { self.end_record() } else { self.begin_record() }
            }
            self.gaps.poll(self.now);
            self.host.step()?;
            self.between.turn(self.now)?;
            self.card.step(self.now)?;
            if let Some(limit) = self.card.stock_limit() {
                self.between.bound(limit);
            }
            if self.now >= sample {
                sample = self.now + SAMPLE;
                let at = self.now.since(self.from).as_nanos() as f64 * 1e-9;
                self.samples.push((at, self.between.limit(), self.card.bytes_in_card()));
            }
        }
        Ok(())
    }

    fn begin_record(&mut self) {
        self.card.measure(self.now);
        self.gaps.clear();
        self.samples.clear();
        self.between.exchange(&mut Histograms::default());
        self.before = Record { undelivered: self.undelivered(), host: self.taken(), ..Record::default() };
        self.between.count(&mut self.before);
        (self.from, self.from_unix, self.is_measuring) = (self.now, unix_seconds(), true);
    }

    fn end_record(&mut self) {
        let truth = self.card.truth();
        let span = self.now.since(self.from).as_nanos() as f64;
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        let away: Vec<_> = self.gaps.spans().iter().map(|gap| gap.end.since(gap.start)).collect();
        let mut record = Record {
            from: self.from_unix,
            seconds: span * 1e-9,
            wire_share: truth.share(self.now, self.card.rate()),
            wire: [truth.bytes(), truth.frames()],
            idle_share: truth.idle_outside(self.gaps.spans()).as_nanos() as f64 / span,
            residence_us: [50.0, 99.0].map(|percent| micros(truth.residence(percent))),
            away: (
                self.gaps.total().as_nanos() as f64 / span,
                away.len() as u64,
                away.iter().max().map_or(0.0, |longest| micros(*longest)),
            ),
            flows: self.card.flows().slices().clone(),
            samples: std::mem::take(&mut self.samples),
            undelivered: self.undelivered(),
            host: self.taken(),
            ..Record::default()
        };
        let mut seen = Histograms::default();
        self.between.exchange(&mut seen);
        let of = |kind| {
            let quantiles = seen.flight.of(kind);
            [quantiles.p50, quantiles.p99, quantiles.max]
        };
        (record.limit, record.in_flight) = (of(Kind::Limit), of(Kind::InFlight));
        self.between.count(&mut record);
        record.less(&self.before);
        let [half, most, _] = of(Kind::Residence);
        record.own.residence_us = [half, most].map(|nanos| nanos as f64 / 1e3);
        let sojourn = seen.sojourn.of_all();
        record.own.sojourn_us = [sojourn.p50, sojourn.p99].map(micros);
        (self.is_measuring, self.record) = (false, Some(record));
    }

    fn undelivered(&self) -> u64 {
        let arrivals = self.card.arrivals();
        arrivals.undelivered() + arrivals.missed() + self.host.counts().refused
    }

    fn taken(&self) -> (u64, u64, u64) {
        let counts = self.host.counts();
        (counts.frames, counts.supers, counts.super_bytes)
    }

    fn close(self, eal: &Eal) -> Result<()> {
        let Self { between, host, card, ports, .. } = self;
        drop((between, host));
        for mut port in ports {
            port.close()?;
            eal.detach(port.name())?;
        }
        card.close(eal)
    }
}

impl Between {
    fn turn(&mut self, now: Instant) -> Result<()> {
        match self {
            Self::Weir(worker) => {
                worker.turn(now);
            }
            Self::Nothing { inlet, outlet, rx, tx, stuck } => {
                if stuck.is_empty() {
                    inlet.dequeue(stuck);
                }
                tx.burst(stuck);
                let mut back = Burst::new();
                rx.burst(&mut back);
                // What has no room is lost, as in any port.
                outlet.enqueue(&mut back);
            }
        }
        Ok(())
    }

    /// No more than `limit` bytes in the card from now on.
    fn bound(&mut self, limit: u32) {
        let Self::Weir(worker) = self else { return };
        let plan = GovernorPlan { limit_min: limit, limit_max: limit, ..GovernorPlan::default() };
        if let Some(up) = worker.directions_mut().first_mut() {
            up.set_governor(plan);
        }
    }

    fn limit(&self) -> u32 {
        let Self::Weir(worker) = self else { return 0 };
        let mut page = DirectionPage::default();
        worker.directions()[0].report(&mut page);
        page.gate.filter(|gate| gate.binds).map_or(0, |gate| gate.limit)
    }

    /// Adds what waited and what was in flight since the last time to `seen`.
    fn exchange(&mut self, seen: &mut Histograms) {
        let Self::Weir(worker) = self else { return };
        let directions = worker.directions().len();
        let mut page = Page::new(directions);
        page.flight = vec![Flight::new(); directions];
        page.delays = vec![ByKind::<Recorder>::new(tins(&most_tins())); directions];
        worker.exchange_histograms(&mut page);
        seen.flight.take(&mut page.flight[0]);
        seen.sojourn.take(&mut page.delays[0].sojourn);
    }

    fn count(&self, record: &mut Record) {
        let Self::Weir(worker) = self else { return };
        let mut page = Page::new(worker.directions().len());
        worker.report(&mut page);
        let up = &page.directions[0];
        record.pieces = up.counters.supers.pieces.iter().sum();
        record.dropped = up.counters.losses.total().packets;
        record.waiting = up.waiting.packets;
        record.own.sent = [up.counters.sent.bytes, up.counters.sent.packets];
        let governor = up.gate.map(|gate| gate.governor).unwrap_or_default();
        record.own.windows = [governor.judged, governor.unjudged];
        record.own.late_polls = governor.late_polls;
    }
}

/// What weir recorded.
#[derive(Debug, Default)]
struct Histograms {
    flight: Total,
    sojourn: Totals,
}

impl Record {
    /// Leaves of the counters what they counted since `before`.
    fn less(&mut self, before: &Self) {
        let (frames, supers, bytes) = before.host;
        self.host = (self.host.0 - frames, self.host.1 - supers, self.host.2 - bytes);
        self.undelivered -= before.undelivered;
        self.pieces -= before.pieces;
        self.dropped -= before.dropped;
        for at in 0..2 {
            self.own.sent[at] -= before.own.sent[at];
            self.own.windows[at] -= before.own.windows[at];
        }
        self.own.late_polls -= before.own.late_polls;
    }
}

/// Room for every discipline's histograms.
fn most_tins() -> Params {
    Params::Cake(Default::default())
}

impl Plan {
    fn card(&self) -> Config {
        Config {
            rate: self.rate(),
            ring: self.ring,
            delay: Duration::from_micros(self.delay_us),
            tx_usecs: Duration::from_micros(self.tx_usecs),
            tx_frames: self.tx_frames,
            ..Config::default()
        }
    }

    fn rate(&self) -> Rate {
        Rate::from_bits_per_sec(u64::from(self.rate_mbit) * 1_000_000)
    }
}

fn worker(eal: &Eal, spec: &Plan, weir: &Weir, queues: [(RxQueue, TxQueue); 2]) -> Result<Worker> {
    let [up, down] = queues;
    let split = match weir.split {
        SplitGso::True => Split::Always,
        SplitGso::False => Split::Never,
        SplitGso::Auto => Split::AUTO,
    };
    let on = GovernorPlan::default();
    let governor = match weir.governor {
        Governor::Off => None,
        Governor::On => Some(on),
        // The card's driver moves it.
        Governor::Stock => Some(GovernorPlan { limit_min: 0, limit_max: 0, ..on }),
        Governor::Fixed(limit) => Some(GovernorPlan { limit_min: limit, limit_max: limit, ..on }),
        Governor::Submit => Some(GovernorPlan { complete_on: CompleteOn::Submit, ..on }),
    };
    let towards_card =
        Way { name: "up", mtu: MTU, split, offload: CARD_CUTS, wire: Some(spec.rate()), governor };
    let towards_host =
        Way { name: "down", split: Split::AUTO, offload: Offload::NONE, governor: None, ..towards_card };
    // Nothing waits on the way back.
    let plain = dataplane::parse("qdisc = \"fifo\", limit = 10000")?;
    let up = towards_card.direction(eal, up.0, up.1, &dataplane::parse(&weir.keys)?)?;
    let down = towards_host.direction(eal, down.0, down.1, &plain)?;
    let (_, mailbox) = mailbox::pair();
    Ok(Worker::new(vec![up, down], mailbox))
}

fn start(port: &mut Port, config: &PortConfig, pool: &Mempool) -> Result<(RxQueue, TxQueue)> {
    port.configure(config, pool)?;
    let mut started = port.start()?;
    started.rx.pop().zip(started.tx.pop()).context("a port without queues")
}

/// The card's engine, which net_ring does not know of.
const CARD_CUTS: Offload = Offload {
    tso_v4: true,
    tso_v6: true,
    tcp_checksum: true,
    udp_checksum: true,
    ipv4_checksum: true,
    ..Offload::NONE
};
const MTU: u16 = 1500;
/// Super-packets of 64 KB take 32 each: some 30 MB, more than TCP has in flight here.
const MBUFS: u32 = 32_767;
const RING: u32 = 1_024;
const SAMPLE: Duration = Duration::from_millis(10);
