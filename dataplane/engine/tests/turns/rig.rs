//! Directions between rings, and the books of every one of them.

use dpdk::testing::TestEal;
use dpdk::{Burst, Mbuf, Mempool, MempoolConfig, Port, PortConfig, Ring, TxOffloads};
use engine::classify::{Classifier, Wants};
use engine::completion::source::{Nudge, Source};
use engine::counters::{Counters, Loss, Tally};
use engine::delays::{ByKind, Recorder, Totals, tins};
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::frame;
use engine::gate::{self, Gate};
use engine::mailbox::{self, Command, Control};
use engine::page::Page;
use engine::plan::GovernorPlan;
use engine::pool::{self, PieceSum};
use engine::split::offload::Offload;
use engine::talkers::Talkers;
use engine::worker::Worker;
use shaper::flow::hash::FlowHasher;
use shaper::flow::rules::Rule;
use shaper::gso::Split;
use shaper::qdisc::{Params, Qdisc, cake, fifo, fq_codel};
use shaper::rate::{Limiter, Overhead};
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::sync::atomic::{AtomicU32, Ordering};

/// One worker and its lanes.
pub struct Rig<'a> {
    eal: &'a TestEal,
    pub worker: Worker,
    pub control: Control,
    pub lanes: Vec<Lane>,
}

/// One direction: what goes into `inlet` comes out of `outlet`.
pub struct Lane {
    pub inlet: Ring,
    pub outlet: Ring,
    /// Where its packets come from, as a NIC would take them.
    pub pool: Mempool,
    /// What pieces of super-packets are made of.
    pub pieces: Mempool,
    /// Where frames of others get a first segment from.
    pub heads: Mempool,
    /// Put into the inlet so far, and taken from the outlet.
    pub fed: Tally,
    pub taken: Tally,
    /// Refused because the pool was exhausted or the inlet full.
    pub missed: u64,
    ports: Vec<Port>,
}

/// How a lane shall be.
#[derive(Clone, Copy)]
pub struct Plan {
    pub qdisc: Params,
    pub bits_per_sec: Option<u64>,
    pub catch_up: Duration,
    pub mbufs: u32,
    /// Slots of the outlet; it holds one packet less.
    pub outlet: u32,
    /// Sends into net_null, which takes packets of one segment only and has no outlet to look into.
    pub into_null: bool,
    /// The outlet's port is told to send packets of one buffer only.
    pub single_buffer: bool,
    pub rules: &'static [Rule],
    pub split: Split,
    pub gro: bool,
    /// What the outlet's port is taken to do; net_ring passes everything on as it is.
    pub offload: Offload,
    /// Buffers for pieces of super-packets.
    pub piece_buffers: u32,
    /// Keeps the outlet short, with completions from `source`.
    pub governor: Option<GovernorPlan>,
    pub source: Source,
    /// Rate of the wire, as far as the gate is told.
    pub wire: Option<u64>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            qdisc: Params::FqCodel(fq_codel::Params::default()),
            bits_per_sec: None,
            catch_up: Limiter::CATCH_UP,
            mbufs: 2047,
            outlet: 2048,
            into_null: false,
            single_buffer: false,
            rules: &[],
            split: Split::AUTO,
            gro: false,
            offload: Offload::NONE,
            piece_buffers: 4095,
            governor: None,
            source: Source::Held,
            wire: None,
        }
    }
}

impl Plan {
    pub fn fifo(limit: u32) -> Self {
        let fifo = fifo::Params { limit, ..fifo::Params::default() };
        Self { qdisc: Params::Fifo(fifo), ..Self::default() }
    }

    pub fn cake(params: cake::Params) -> Self {
        Self { qdisc: Params::Cake(params), ..Self::default() }
    }

    pub fn at(self, bits_per_sec: u64) -> Self {
        Self { bits_per_sec: Some(bits_per_sec), ..self }
    }
}

pub const MTU: u16 = 1500;
pub const HOLD: Duration = Duration::from_millis(100);

impl<'a> Rig<'a> {
    pub fn new(eal: &'a TestEal, plans: &[Plan]) -> Self {
        let (lanes, directions) = plans.iter().map(|plan| Lane::new(eal, plan)).unzip();
        let (control, mailbox) = mailbox::pair();
        Self { eal, worker: Worker::new(directions, mailbox), control, lanes }
    }

    pub fn one(eal: &'a TestEal, plan: Plan) -> Self {
        Self::new(eal, &[plan])
    }

    /// One turn, and the books.
    pub fn turn(&mut self, now: Instant) -> usize {
        let moved = self.worker.turn(now);
        self.check();
        moved
    }

    /// Turns until nothing moves any more.
    pub fn settle(&mut self, now: Instant) {
        for _ in 0..1_000 {
            if self.turn(now) == 0 {
                return;
            }
        }
        panic!("still moving after 1000 turns");
    }

    /// Turns every `step` from `from` until `until`, and `each` time calls for traffic.
    pub fn run(
        &mut self,
        from: Instant,
        until: Instant,
        step: Duration,
        mut each: impl FnMut(&mut Self, Instant),
    ) {
        let mut now = from;
        while now < until {
            each(self, now);
            self.turn(now);
            now += step;
        }
    }

    /// Lets the worker go to where it is consumed, and come back.
    pub fn map_worker(self, map: impl FnOnce(Worker) -> Worker) -> Self {
        Self { worker: map(self.worker), ..self }
    }

    /// Asserts that each packet is where the counters say.
    pub fn check(&self) {
        for (lane, direction) in self.lanes.iter().zip(self.worker.directions()) {
            let counters = direction.counters();
            let accounted = counters.sent.plus(counters.losses.total()).plus(direction.waiting());
            assert_eq!(
                counters.received.plus(counters.added),
                accounted.plus(counters.removed),
                "received + added - removed = sent + lost + waiting: {counters:?}"
            );
            let inside = u64::from(lane.inlet.len());
            assert_eq!(lane.fed.packets, counters.received.packets + inside, "fed = received + in the inlet");
            assert!(lane.fed.bytes >= counters.received.bytes);
            if inside == 0 {
                assert_eq!(lane.fed, counters.received);
            }
            let outside = u64::from(lane.outlet.len());
            assert_eq!(counters.sent.packets, lane.taken.packets + outside, "sent = taken + in the outlet");
            if outside == 0 {
                assert_eq!(counters.sent, lane.taken);
            }
        }
    }

    pub fn set_link(&mut self, lane: usize, up: bool) {
        self.control.send(Command::Link { direction: lane, up }).unwrap();
    }

    pub fn counters(&self, lane: usize) -> Counters {
        *self.worker.directions()[lane].counters()
    }

    pub fn lost(&self, lane: usize, loss: Loss) -> u64 {
        self.counters(lane).losses.of(loss).packets
    }

    pub fn waiting(&self, lane: usize) -> u64 {
        self.worker.directions()[lane].waiting().packets
    }

    pub fn page(&self) -> Page {
        let mut page = Page::new(self.lanes.len());
        self.worker.report(&mut page);
        page
    }

    /// How long packets of a lane took since this was asked last.
    pub fn delays(&mut self, lane: usize) -> ByKind<Totals> {
        let mut page = Page::new(self.lanes.len());
        let all = self.worker.directions().iter().map(|direction| direction.egress().sojourn().tins());
        page.delays = all.map(ByKind::<Recorder>::new).collect();
        self.worker.exchange_histograms(&mut page);
        let mut totals = ByKind::<Totals>::default();
        totals.take(&mut page.delays[lane]);
        totals
    }

    pub fn fq_codel(&self, lane: usize) -> fq_codel::Stats {
        let Qdisc::FqCodel(fq_codel) = self.worker.directions()[lane].egress().qdisc() else {
            panic!("not fq_codel")
        };
        fq_codel.stats()
    }

    pub fn cake(&self, lane: usize) -> cake::Stats {
        let Qdisc::Cake(cake) = self.worker.directions()[lane].egress().qdisc() else { panic!("not cake") };
        cake.stats()
    }

    /// Gives up what waits, closes the ports, and asserts that every mbuf is back in its pool.
    pub fn finish(mut self) {
        self.worker.flush();
        for lane in &mut self.lanes {
            lane.drain();
        }
        self.check();
        drop(self.worker);
        for lane in &mut self.lanes {
            discard(&lane.inlet);
            for pool in [&lane.pool, &lane.heads, &lane.pieces] {
                assert_eq!(pool.in_use(), 0, "mbufs are missing from the pool");
                assert_eq!(pool.available(), pool.size());
            }
        }
        for port in self.lanes.iter_mut().flat_map(|lane| &mut lane.ports) {
            port.close().unwrap();
            self.eal.detach(port.name()).unwrap();
        }
    }
}

impl Lane {
    fn new(eal: &TestEal, plan: &Plan) -> (Self, Direction) {
        let id = LANES.fetch_add(1, Ordering::Relaxed);
        let config = MempoolConfig {
            cache: 0,
            data_room: pool::BUFFER as u16,
            ..MempoolConfig::new(format!("lane{id}"), plan.mbufs)
        };
        let pool = Mempool::create(eal, &config).unwrap();
        let heads = MempoolConfig { cache: 0, ..MempoolConfig::new(format!("lane{id}-heads"), 255) };
        let heads = Mempool::create(eal, &heads).unwrap();
        let inlet = Ring::create(eal, &format!("lane{id}-in"), INLET).unwrap();
        let outlet = Ring::create(eal, &format!("lane{id}-out"), plan.outlet).unwrap();
        let mut ports = vec![Ring::port(eal, &format!("lane{id}"), &inlet, &outlet).unwrap()];
        if plan.into_null {
            let null = eal.attach(&format!("net_null{id}")).unwrap();
            ports.push(Port::open(eal, &null).unwrap());
        }
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for port in &mut ports {
            let mut config = PortConfig::default();
            if plan.single_buffer {
                config.tx_offloads = TxOffloads::NONE;
            }
            port.configure(&config, &pool).unwrap();
            let started = port.start().unwrap();
            rx.extend(started.rx);
            tx.extend(started.tx);
        }
        let slots = pool::slots(&plan.qdisc) as usize;
        let qdisc = Qdisc::new(&plan.qdisc, slots).unwrap();
        let overhead = match plan.qdisc {
            Params::Cake(cake) => cake.overhead,
            Params::Fifo(_) | Params::FqCodel(_) => Overhead::default(),
        };
        let limiter =
            plan.bits_per_sec.map(|bits| Limiter::new(Rate::from_bits_per_sec(bits), plan.catch_up).unwrap());
        let egress = Egress::new(qdisc, limiter, overhead, SplitMix::new(1, 2))
            .recording(Recorder::new(tins(&plan.qdisc)));
        let classifier = Classifier::new(FlowHasher::new([7; 16]), Wants::of(&plan.qdisc), plan.rules);
        let tx = tx.pop().unwrap();
        let config = MempoolConfig {
            cache: 0,
            data_room: PieceSum::data_room(tx.multi_segs()),
            ..MempoolConfig::new(format!("lane{id}-pieces"), plan.piece_buffers)
        };
        let pieces = Mempool::create(eal, &config).unwrap();
        let settings = Settings {
            mtu: MTU,
            link_down_hold: HOLD,
            split: plan.split,
            gro: plan.gro,
            link_speed: None,
            offload: plan.offload,
        };
        let talkers = Talkers::new(FlowHasher::new([7; 16]), 5);
        let mut direction =
            Direction::new(rx.swap_remove(0), tx, classifier, egress, settings, &pieces).sampled(talkers);
        if let Some(governor) = plan.governor {
            let gate = Gate::new(gate::Settings {
                plan: governor,
                source: plan.source,
                nudge: Nudge::None,
                // The ring does not always take what its descriptors promise.
                ring: u16::try_from(plan.outlet).unwrap(),
                framing: 0,
                heads: Some(heads.clone()),
                wire: plan.wire.map(Rate::from_bits_per_sec),
            });
            direction = direction.governed(gate.recording(tins(&plan.qdisc)));
        }
        let (fed, taken) = (Tally::default(), Tally::default());
        let lane = Self { inlet, outlet, pool, pieces, heads, fed, taken, missed: 0, ports };
        (lane, direction)
    }

    /// Lets a frame arrive; `false`, counted, if the pool or the inlet has no room for it.
    pub fn feed(&mut self, frame: &[u8]) -> bool {
        let fed = Mbuf::from_bytes(&self.pool, frame).is_ok_and(|mbuf| self.feed_mbuf(mbuf));
        self.missed += u64::from(!fed);
        fed
    }

    pub fn feed_mbuf(&mut self, mbuf: Mbuf) -> bool {
        let mut burst = Burst::new();
        let len = mbuf.pkt_len();
        burst.push(mbuf).unwrap();
        let fed = self.inlet.enqueue(&mut burst) == 1;
        if fed {
            self.fed.add(len);
        }
        fed
    }

    /// A frame in one mbuf per part.
    pub fn chain(&self, parts: &[&[u8]]) -> Mbuf {
        let mut parts = parts.iter().map(|part| Mbuf::from_bytes(&self.pool, part).unwrap());
        let mut head = parts.next().unwrap();
        parts.for_each(|part| head.chain(part).unwrap());
        head
    }

    /// Takes all frames that were sent.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        self.each_sent(|mbuf| frames.push(mbuf.segments().flatten().copied().collect()));
        frames
    }

    /// Frees all frames that were sent; returns how many.
    pub fn drain(&mut self) -> Tally {
        let before = self.taken;
        self.each_sent(|_| ());
        Tally { packets: self.taken.packets - before.packets, bytes: self.taken.bytes - before.bytes }
    }

    /// Takes one frame that was sent, to be freed later.
    pub fn take_one(&mut self) -> Option<Mbuf> {
        let mut burst = Burst::new();
        self.outlet.dequeue_up_to(&mut burst, 1);
        let mbuf = burst.pop()?;
        self.taken.add(frame::wire_len(&mbuf));
        Some(mbuf)
    }

    /// Shows every frame that was sent, then frees it.
    pub fn each_sent(&mut self, mut each: impl FnMut(&Mbuf)) {
        while self.each_sent_up_to(Burst::CAPACITY, &mut each) > 0 {}
    }

    /// Shows up to `limit` frames that were sent, one burst at most, then frees them.
    pub fn each_sent_up_to(&mut self, limit: usize, mut each: impl FnMut(&Mbuf)) -> usize {
        let mut burst = Burst::new();
        let count = self.outlet.dequeue_up_to(&mut burst, limit);
        for mbuf in burst.drain() {
            self.taken.add(frame::wire_len(&mbuf));
            each(&mbuf);
        }
        count
    }
}

fn discard(ring: &Ring) {
    let mut burst = Burst::new();
    while ring.dequeue(&mut burst) > 0 {
        burst.clear();
    }
}

/// Milliseconds after the start.
pub fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// For names that are unique in the process.
static LANES: AtomicU32 = AtomicU32::new(0);

/// Slots of an inlet.
const INLET: u32 = 1024;
