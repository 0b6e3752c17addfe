//! A worker between two rings, and the changes it is sent.

use crate::stream::{FRAME, Stream};
use crate::timing::{Stopwatch, Times};
use dpdk::{Burst, Eal, Mempool, MempoolConfig, Port, PortConfig, Ring};
use engine::change::{Change, DirectionChange, Target};
use engine::classify::{Classifier, Wants};
use engine::completion::source::{Nudge, Source};
use engine::delays::{ByKind, Recorder, Totals, tins};
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::gate::{self, Gate};
use engine::mailbox::{self, Command, Control};
use engine::page::Page;
use engine::plan::{CompleteOn, DirectionPlan, GovernorPlan};
use engine::pool::{self, PieceSum};
use engine::worker::{Poll, Worker};
use shaper::flow::hash::FlowHasher;
use shaper::flow::rules::Rule;
use shaper::gso::Split;
use shaper::qdisc::cake::{AckFilter, Diffserv, FlowMode};
use shaper::qdisc::{Params, Qdisc, cake};
use shaper::rate::{Limiter, Overhead};
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::sync::atomic::{AtomicU32, Ordering};

/// The worker under test, its surroundings, and the control side.
pub struct Bench {
    worker: Worker,
    control: Control,
    stream: Stream,
    watch: Stopwatch,
    dice: SplitMix,
    plan: DirectionPlan,
    governor: GovernorPlan,
    slots: u32,
    generation: u64,
    load: Load,
    /// What is kept fair, now this, now that.
    modes: [FlowMode; 4],
    /// Frames per second that arrive, and may leave.
    rate: f64,
    /// What it carried before the last stretches.
    carried: [f64; 3],
    /// The worker's time, and frames that are due by it, in nanoseconds and parts of frames.
    now: Instant,
    due: f64,
    // After the worker, which holds their queues.
    _ports: [Port; 2],
}

/// How many frames arrive.
#[derive(Clone, Copy)]
pub enum Load {
    /// A second.
    Rate(f64),
    /// Of what the worker carries, which is found out anew before each stretch: on a shared machine it is now
    /// this, now that.
    Share(f64),
}

/// Flows apart, and lumped together.
pub const ANY: [FlowMode; 4] =
    [FlowMode::FlowBlind, FlowMode::SrcHost, FlowMode::Flows, FlowMode::TripleIsolate];
/// Flows apart.
pub const APART: [FlowMode; 4] =
    [FlowMode::Flows, FlowMode::DualSrcHost, FlowMode::DualDstHost, FlowMode::TripleIsolate];

/// What a storm did.
pub struct Outcome {
    pub reloads: u64,
    /// Frames that arrived a second, in each stretch.
    pub rates: Vec<f64>,
    pub sent: u64,
    /// In stretches with changes, and without.
    pub lost: u64,
    pub lost_without: u64,
    pub overtaken: u64,
    pub least_waiting: u64,
    /// Turns that begin a change or go on with one; other turns meanwhile; turns of stretches without.
    pub changing: Times,
    pub between: Times,
    pub control: Times,
    /// From the turn that takes a change to that which has finished it.
    pub whole: Times,
    /// How long packets waited with changes, and without.
    pub waits: [Totals; 2],
    /// Bytes; and KiB over the second half of all changes.
    pub heap_growth: i64,
    pub resident_growth: i64,
}

impl Bench {
    /// A worker with [`QUEUED`] packets waiting.
    pub fn new(eal: &Eal, load: Load, modes: [FlowMode; 4]) -> Self {
        let rate = if let Load::Rate(rate) = load { rate } else { 1e6 };
        let id = BENCHES.fetch_add(1, Ordering::Relaxed);
        let ring = |end: &str, size| Ring::create(eal, &format!("{end}{id}"), size).unwrap();
        let (inlet, outlet) = (ring("in", 1_024), ring("out", 4_096));
        let pool = Mempool::create(eal, &MempoolConfig::new(format!("storm{id}"), MBUFS)).unwrap();
        let port = |end: &str| {
            let mut port = Ring::port(eal, &format!("{end}{id}"), &inlet, &outlet).unwrap();
            port.configure(&PortConfig::default(), &pool).unwrap();
            let mut started = port.start().unwrap();
            (port, started.rx.pop().unwrap(), started.tx.pop().unwrap())
        };
        let (a, rx, _) = port("a");
        let (b, _, tx) = port("b");
        let rtt = Duration::from_millis(3_600_000);
        let cake = cake::Params {
            bandwidth: Some(bandwidth(rate)),
            rtt,
            target: cake::Params::target_of(rtt),
            memlimit: Some(32 << 20),
            ..cake::Params::default()
        };
        let params = Params::Cake(cake);
        let slots = pool::slots(&params);
        let qdisc = Qdisc::new(&params, slots as usize).unwrap();
        let egress = Egress::new(qdisc, None, cake.overhead, SplitMix::new(1, 2))
            .recording(Recorder::new(tins(&params)));
        let classifier = Classifier::new(FlowHasher::new(*b"known, as nobody"), Wants::of(&params), &[]);
        let pieces = MempoolConfig {
            data_room: PieceSum::data_room(tx.multi_segs()),
            ..MempoolConfig::new(format!("pieces{id}"), 1_023)
        };
        let pieces = Mempool::create(eal, &pieces).unwrap();
        let governor = GovernorPlan { complete_on: CompleteOn::Submit, ..GovernorPlan::default() };
        let gate = Gate::new(gate::Settings {
            plan: governor,
            source: Source::Submit,
            nudge: Nudge::None,
            ring: tx.ring(),
            framing: 0,
            heads: None,
            wire: None,
        });
        let settings = Settings { link_down_hold: HOLD, ..Settings::default() };
        let direction = Direction::new(rx, tx, classifier, egress, settings, &pieces)
            .governed(gate.recording(tins(&params)));
        let (control, mailbox) = mailbox::pair();
        let plan = DirectionPlan {
            qdisc: params,
            bandwidth: cake.bandwidth,
            overhead: cake.overhead,
            catch_up: Limiter::CATCH_UP,
            rules: Vec::new(),
            split: Split::AUTO,
            gro: false,
        };
        let mut bench = Self {
            worker: Worker::new(vec![direction], mailbox),
            control,
            stream: Stream::new(pool, inlet, outlet),
            watch: Stopwatch::new(eal),
            dice: SplitMix::new(3, 4),
            plan,
            governor,
            slots,
            generation: 0,
            load,
            modes,
            rate,
            carried: [f64::MAX; 3],
            now: Instant::ZERO + Duration::from_millis(1),
            due: 0.0,
            _ports: [a, b],
        };
        bench.fill();
        bench
    }

    /// As many come to wait as shall.
    fn fill(&mut self) {
        while self.waiting() < QUEUED + QUEUED / 10 {
            self.stream.feed(Burst::CAPACITY);
            self.worker.turn(self.now);
            self.stream.drain();
        }
    }

    /// Frames per second that the worker carries just now with thousands waiting: the highest rate of arrival
    /// and departure at which no more come to wait, to a fiftieth or so.
    fn carries(&mut self) -> f64 {
        let (mut least, mut most) = (self.rate / 2.0, 2.0 * self.rate);
        while most > 1.02 * least {
            self.rate = (least * most).sqrt();
            self.keep_rate(&mut Outcome::new(0));
            let (before, lost) = (self.inside(), self.lost());
            self.run_for(PROBED, &mut Times::new());
            let is_carried = self.inside() + self.lost() < before + lost + TOLERATED;
            *(if is_carried { &mut least } else { &mut most }) = self.rate;
            while self.inside() > before {
                self.turn_worker();
            }
        }
        least
    }

    /// What arrives leaves, so that the queue stands.
    fn keep_rate(&mut self, outcome: &mut Outcome) {
        let Params::Cake(mut cake) = self.plan.qdisc else { unreachable!("it is cake") };
        cake.bandwidth = Some(bandwidth(self.rate));
        let plan =
            DirectionPlan { qdisc: Params::Cake(cake), bandwidth: cake.bandwidth, ..self.plan.clone() };
        self.change_to((plan, self.governor), outcome);
    }

    /// Changes it so many times, with and without changes by turns.
    pub fn storm(mut self, reloads: u64) -> Outcome {
        let mut outcome = Outcome::new(reloads);
        let start = (self.plan.clone(), self.governor);
        (0..WARM_UP).for_each(|_| self.stretch(2, &mut outcome));
        self.change_to(start.clone(), &mut outcome);
        outcome = Outcome::new(reloads);
        // Takes memory of its own the first time.
        (0..2).for_each(|which| self.waited(&mut outcome.waits[which]));
        let mut resident = None;
        let heap = allocation_counter::measure(|| {
            while outcome.reloads < reloads {
                self.stretch(10, &mut outcome);
                if outcome.reloads >= reloads / 2 {
                    resident.get_or_insert_with(resident_kib);
                }
            }
            // Other settings take other memory.
            self.change_to(start, &mut outcome);
        });
        outcome.heap_growth = heap.bytes_current;
        outcome.resident_growth = resident_kib() - resident.unwrap_or_default();
        // What still waits leaves now: none is lost in silence.
        for _ in 0..1_000_000 {
            if self.stream.inside() == 0 {
                break;
            }
            self.now += Duration::from_micros(100);
            self.worker.turn(self.now);
            self.stream.drain();
        }
        let losses = self.worker.directions()[0].counters().losses.total().packets;
        outcome.sent = self.stream.sent;
        assert_eq!(self.stream.inside(), losses, "what does not come out is counted");
        outcome.overtaken = self.stream.overtaken;
        outcome
    }

    /// So many changes with pauses, then as much time without.
    fn stretch(&mut self, changes: u64, outcome: &mut Outcome) {
        if let Load::Share(share) = self.load {
            let heaviest = self.heaviest();
            self.change_to(heaviest, outcome);
            self.fill();
            self.carried.rotate_right(1);
            self.carried[0] = self.carries();
            self.rate = share * self.carried.into_iter().fold(f64::MAX, f64::min);
        }
        self.keep_rate(&mut Outcome::new(0));
        self.fill();
        outcome.rates.push(self.rate);
        let (start, lost) = (self.now, self.lost());
        for _ in 0..changes {
            outcome.least_waiting = outcome.least_waiting.min(self.waiting());
            let to = self.vary();
            let span = self.change_to(to, outcome);
            outcome.whole.note(Some(span));
            self.run_for(PAUSE, &mut outcome.between);
            // The next comes once all is as it was, or would be if it could.
            for _ in 0..MOST_PAUSES {
                if self.stream.arriving() > Burst::CAPACITY as u64 {
                    self.run_for(PAUSE, &mut outcome.between);
                }
            }
        }
        self.waited(&mut outcome.waits[0]);
        outcome.lost += self.lost() - lost;
        self.keep_rate(outcome);
        let (span, lost) = (self.now.since(start), self.lost());
        self.run_for(span, &mut outcome.control);
        outcome.lost_without += self.lost() - lost;
        self.waited(&mut outcome.waits[1]);
    }

    fn run_for(&mut self, span: Duration, times: &mut Times) {
        let end = self.now + span;
        while self.now < end {
            let time = self.turn();
            times.note(time);
        }
    }

    /// One turn, and what arrives meanwhile.
    fn turn(&mut self) -> Option<u64> {
        let (nanos, time) = self.turn_worker();
        self.due += nanos as f64 * self.rate / 1e9;
        let whole = self.due as usize;
        self.due -= whole as f64;
        self.stream.feed(whole);
        time
    }

    /// One turn: nanoseconds by the worker's clock, and what it took unless that was a gap.
    fn turn_worker(&mut self) -> (u64, Option<u64>) {
        let (worker, now) = (&mut self.worker, self.now);
        let time = self.watch.time(|| {
            worker.turn(now);
        });
        let nanos = time.unwrap_or(0).max(1);
        self.now += Duration::from_nanos(nanos);
        self.stream.drain();
        (nanos, time)
    }

    /// Frames that wait before or in the worker.
    fn inside(&self) -> u64 {
        self.stream.arriving() + self.waiting()
    }

    /// Frames that found no room before the worker, or that it has dropped.
    fn lost(&self) -> u64 {
        self.stream.missed + self.worker.directions()[0].counters().losses.total().packets
    }

    fn waiting(&self) -> u64 {
        self.worker.directions()[0].waiting().packets
    }

    /// Adds how long packets have waited since the last time.
    fn waited(&mut self, waits: &mut Totals) {
        let direction = &self.worker.directions()[0];
        let tins = direction.egress().sojourn().tins();
        let mut page = Page { delays: vec![ByKind::<Recorder>::new(tins)], ..Page::new(1) };
        self.worker.exchange_histograms(&mut page);
        waits.take(&mut page.delays[0].sojourn);
    }

    /// Sends a change, and turns until it has been carried out: in how many nanoseconds, gaps left out.
    fn change_to(&mut self, (plan, governor): (DirectionPlan, GovernorPlan), outcome: &mut Outcome) -> u64 {
        let old = Target { plan: &self.plan, governor: Some(self.governor), link_down_hold: HOLD };
        let new = Target { plan: &plan, governor: Some(governor), link_down_hold: HOLD };
        let direction = DirectionChange::between(0, &old, &new, self.slots).unwrap();
        (self.plan, self.governor) = (plan, governor);
        self.generation += 1;
        let (generation, directions) = (self.generation, vec![direction]);
        let change = Change { generation, poll: Poll::Busy, directions, refused: None };
        self.control.send(Command::Apply(Box::new(change))).unwrap();
        let began = self.now;
        while self.control.changed().is_none() {
            let time = self.turn();
            outcome.changing.note(time);
        }
        outcome.reloads += 1;
        self.now.since(began).as_nanos()
    }

    /// What costs most of all that [`Bench::vary`] chooses from.
    fn heaviest(&self) -> (DirectionPlan, GovernorPlan) {
        let Params::Cake(cake) = self.plan.qdisc else { unreachable!("it is cake") };
        let cake = cake::Params {
            diffserv: Diffserv::Diffserv8,
            flow_mode: FlowMode::TripleIsolate,
            ack_filter: AckFilter::Aggressive,
            wash: true,
            ..cake
        };
        let plan = DirectionPlan {
            qdisc: Params::Cake(cake),
            bandwidth: cake.bandwidth,
            rules: rules(2),
            gro: true,
            ..self.plan.clone()
        };
        (plan, self.governor)
    }

    /// Something else of everything.
    fn vary(&mut self) -> (DirectionPlan, GovernorPlan) {
        // Faster while many wait, slower while few do.
        let modes = self.modes;
        let excess = self.waiting() as f64 / (1.1 * QUEUED as f64) - 1.0;
        let share = 1.0 + (excess / 4.0).clamp(-0.1, 0.1);
        let dice = &mut self.dice;
        let mut one_of = |bound: usize| dice.next_u32() as usize % bound;
        let Params::Cake(mut cake) = self.plan.qdisc else { unreachable!("it is cake") };
        let classes = [Diffserv::BestEffort, Diffserv::Diffserv3, Diffserv::Diffserv4, Diffserv::Diffserv8];
        cake.bandwidth = Some(bandwidth(self.rate * share));
        cake.rtt = Duration::from_millis([1_000_000, 3_600_000][one_of(2)]);
        cake.target = cake::Params::target_of(cake.rtt);
        (cake.diffserv, cake.flow_mode) = (classes[one_of(4)], modes[one_of(4)]);
        cake.ack_filter = [AckFilter::Off, AckFilter::Aggressive][one_of(2)];
        cake.fwmark = [0, 0xf][one_of(2)];
        (cake.wash, cake.ingress) = (one_of(2) == 0, one_of(2) == 0);
        cake.memlimit = Some([28, 32][one_of(2)] << 20);
        cake.overhead = Overhead { mpu: [0, 84][one_of(2)], ..cake.overhead };
        let rules = rules(one_of(3));
        let plan = DirectionPlan {
            qdisc: Params::Cake(cake),
            bandwidth: cake.bandwidth,
            overhead: cake.overhead,
            rules,
            split: [Split::AUTO, Split::Always][one_of(2)],
            gro: one_of(2) == 0,
            ..self.plan.clone()
        };
        let limit_min = one_of(10_000) as u32;
        (plan, GovernorPlan { limit_min, limit_max: 1 << 20, ..self.governor })
    }
}

impl Outcome {
    fn new(reloads: u64) -> Self {
        Self {
            reloads: 0,
            rates: Vec::with_capacity(reloads as usize),
            sent: 0,
            lost: 0,
            lost_without: 0,
            overtaken: 0,
            least_waiting: u64::MAX,
            changing: Times::new(),
            between: Times::new(),
            control: Times::new(),
            whole: Times::new(),
            waits: Default::default(),
            heap_growth: 0,
            resident_growth: 0,
        }
    }
}

fn rules(choice: usize) -> Vec<Rule> {
    let rule = |dscp, mark, set_dscp| Rule { dscp: Some(dscp), mark, set_dscp, ..Rule::default() };
    match choice {
        0 => Vec::new(),
        1 => vec![rule(46, 1, None), rule(0, 2, None)],
        _ => vec![rule(8, 0, Some(46)), rule(0, 0, Some(8))],
    }
}

/// The rate at which so many frames leave in a second.
fn bandwidth(frames: f64) -> Rate {
    Rate::from_bits_per_sec((frames * 8.0 * FRAME as f64) as u64)
}

fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// For names that are unique in the process.
static BENCHES: AtomicU32 = AtomicU32::new(0);

/// Packets that wait when a change comes.
const QUEUED: u64 = 4_000;
/// The worker's time between two changes.
const PAUSE: Duration = Duration::from_millis(1);
/// Stretches before any count: the rate finds its place.
const WARM_UP: usize = 12;
const MOST_PAUSES: usize = 20;
/// The worker's time for finding out whether it carries a rate, and what more may be inside afterwards.
const PROBED: Duration = Duration::from_millis(2);
const TOLERATED: u64 = 128;
const HOLD: Duration = Duration::from_millis(100);
const MBUFS: u32 = 32_767;
