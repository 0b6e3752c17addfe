//! Changes while packets fly: a sequence-numbered stream through a thousand of them, of anything that
//! can change, with thousands of packets queued.

use crate::frames::{self, udp};
use crate::rig::{HOLD, Plan, Rig, ms};
use allocation_counter::measure;
use dpdk::Burst;
use dpdk::testing::eal;
use engine::change::{Change, DirectionChange, MOVES, Target, Unchangeable};
use engine::counters::Loss;
use engine::mailbox::Command;
use engine::plan::{DirectionPlan, GovernorPlan};
use engine::worker::Poll;
use shaper::flow::rules::Rule;
use shaper::gso::Split;
use shaper::packet::DropReason;
use shaper::qdisc::cake::{AckFilter, Diffserv, FlowMode};
use shaper::qdisc::{ParamError, Params, cake, fifo, fq_codel};
use shaper::rate::{Limiter, Overhead};
use shaper::rng::{Rng, SplitMix};
use shaper::time::Duration;
use shaper::units::Rate;
use std::collections::BTreeMap;

/// What a lane runs by, and what it had room for at start.
struct Settings {
    plan: DirectionPlan,
    governor: Option<GovernorPlan>,
    slots: u32,
}

impl Settings {
    fn new(qdisc: Params, governor: Option<GovernorPlan>) -> Self {
        let (bandwidth, overhead) = match qdisc {
            Params::Cake(cake) => (cake.bandwidth, cake.overhead),
            _ => (Some(mbit(1_600)), Overhead::default()),
        };
        let plan = DirectionPlan {
            qdisc,
            bandwidth,
            overhead,
            catch_up: Limiter::CATCH_UP,
            rules: Vec::new(),
            split: Split::AUTO,
            gro: false,
        };
        let slots = Target { plan: &plan, governor, link_down_hold: HOLD }.slots();
        Self { plan, governor, slots }
    }

    /// The change to `plan` of lane number `direction`.
    fn change(&mut self, direction: usize, plan: DirectionPlan) -> Result<DirectionChange, Unchangeable> {
        let old = Target { plan: &self.plan, governor: self.governor, link_down_hold: HOLD };
        let new = Target { plan: &plan, ..old };
        let change = DirectionChange::between(direction, &old, &new, self.slots)?;
        self.plan = plan;
        Ok(change)
    }
}

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_sec(mbit * 1_000_000)
}

fn change(generation: u64, directions: Vec<DirectionChange>) -> Command {
    Command::Apply(Box::new(Change { generation, poll: Poll::Busy, directions, refused: None }))
}

/// cake that drops nothing by itself: no delay is too long, and memory is enough.
fn patient_cake() -> cake::Params {
    let rtt = Duration::from_millis(3_600_000);
    let target = cake::Params::target_of(rtt);
    cake::Params { bandwidth: Some(mbit(1_600)), rtt, target, memlimit: Some(32 << 20), ..Default::default() }
}

fn patient_fq_codel() -> fq_codel::Params {
    let mut params = fq_codel::Params::default();
    params.codel.target = Duration::from_millis(10_000);
    params.codel.interval = Duration::from_millis(20_000);
    params
}

/// Something else of everything that a direction can be told.
fn vary(plan: &DirectionPlan, dice: &mut SplitMix) -> DirectionPlan {
    let mut plan = plan.clone();
    let mut below = |bound: u32| (dice.next_u32() % bound) as usize;
    let bandwidth = Some(mbit([800, 1_600, 3_200][below(3)]));
    let overhead: Overhead =
        ["raw", "ethernet", "pppoe-ptm", "pppoa-vcmux mpu 96"][below(4)].parse().unwrap();
    let modes = [FlowMode::FlowBlind, FlowMode::SrcHost, FlowMode::Flows, FlowMode::TripleIsolate];
    let classes = [Diffserv::BestEffort, Diffserv::Diffserv3, Diffserv::Diffserv4, Diffserv::Diffserv8];
    match &mut plan.qdisc {
        Params::Cake(cake) => match below(9) {
            0 => (cake.diffserv, cake.flow_mode) = (classes[below(4)], modes[below(4)]),
            1 => cake.diffserv = classes[below(4)],
            2 => cake.flow_mode = modes[below(4)],
            3 => cake.ack_filter = [AckFilter::Off, AckFilter::Aggressive][below(2)],
            4 => cake.fwmark = [0, 0xf][below(2)],
            5 => (cake.wash, cake.ingress) = (below(2) == 0, below(2) == 0),
            6 => {
                // Long enough that no delay counts.
                cake.rtt = Duration::from_millis([1_000_000, 3_600_000][below(2)]);
                cake.target = cake::Params::target_of(cake.rtt);
            }
            7 => cake.memlimit = Some([20, 32][below(2)] << 20),
            _ => (cake.bandwidth, cake.overhead) = (bandwidth, overhead),
        },
        Params::FqCodel(fq_codel) => match below(4) {
            0 => fq_codel.quantum = [300, 1_514][below(2)],
            1 => {
                (fq_codel.limit, fq_codel.memory_limit) =
                    ([6_000, 10_240][below(2)], [20, 32][below(2)] << 20)
            }
            2 => (fq_codel.codel.ecn, fq_codel.drop_batch) = (below(2) == 0, [1, 64][below(2)]),
            _ => {
                fq_codel.codel.target = Duration::from_millis([10_000, 15_000][below(2)]);
                fq_codel.codel.interval = Duration::from_millis([20_000, 30_000][below(2)]);
            }
        },
        Params::Fifo(_) => unreachable!("no lane has one"),
    }
    plan.catch_up = [Limiter::CATCH_UP, Duration::from_millis(2)][below(2)];
    match below(4) {
        0 => plan.gro = !plan.gro,
        1 => plan.split = [Split::AUTO, Split::Always][below(2)],
        2 => plan.rules = rules(below(3)),
        _ => {}
    }
    (plan.bandwidth, plan.overhead) = match plan.qdisc {
        Params::Cake(cake) => (cake.bandwidth, cake.overhead),
        _ => (bandwidth, overhead),
    };
    plan
}

/// Rules that put some flows elsewhere: by DSCP into another tin, by mark into that which it counts.
fn rules(which: usize) -> Vec<Rule> {
    let to = |dscp, mark, set_dscp| Rule { dscp: Some(dscp), mark, set_dscp, ..Rule::default() };
    match which {
        0 => Vec::new(),
        1 => vec![to(46, 1, None), to(0, 2, None)],
        _ => vec![to(8, 0, Some(46)), to(0, 0, Some(8))],
    }
}

/// The streams of a lane: what was fed, and that it comes in order.
#[derive(Default)]
struct Streams {
    fed: BTreeMap<u16, u32>,
    seen: BTreeMap<u16, u32>,
    inside: usize,
}

impl Streams {
    fn frame(&mut self, dice: &mut SplitMix) -> Vec<u8> {
        let flow = dice.next_u16() % 60;
        let next = self.fed.entry(flow).or_default();
        *next += 1;
        self.inside += 1;
        udp(flow, *next, 200, [0, 46 << 2, 8 << 2][usize::from(flow % 3)])
    }

    fn came(&mut self, frame: &[u8]) {
        let (flow, seq) = (frames::flow(frame), frames::seq(frame));
        let last = self.seen.insert(flow, seq).unwrap_or(0);
        assert_eq!(seq, last + 1, "flow {flow}: lost or overtaken");
        self.inside -= 1;
    }
}

#[test]
fn a_thousand_changes_lose_and_reorder_nothing() {
    let eal = eal();
    let governor = GovernorPlan { complete_on: engine::plan::CompleteOn::Submit, ..GovernorPlan::default() };
    let qdiscs = [Params::Cake(patient_cake()), Params::FqCodel(patient_fq_codel())];
    let lane = |qdisc, rate| Plan { qdisc, mbufs: 8_191, bits_per_sec: rate, ..Plan::default() };
    let cake = Plan { governor: Some(governor), ..lane(qdiscs[0], None) };
    let mut rig = Rig::new(&eal, &[cake, lane(qdiscs[1], Some(1_600_000_000))]);
    let mut settings = [Settings::new(qdiscs[0], Some(governor)), Settings::new(qdiscs[1], None)];
    let mut streams = [Streams::default(), Streams::default()];
    let mut dice = SplitMix::new(5, 6);
    let (mut generation, mut under_way, mut now) = (0, false, ms(1));
    let (mut turns_with_moves, mut least, mut pages) = (0_u32, usize::MAX, 0);
    while generation < CHANGES || under_way {
        if !under_way && streams.iter().all(|stream| stream.inside >= QUEUED) {
            generation += 1;
            if let Some(bounds) = &mut settings[0].governor {
                bounds.limit_min = dice.next_u32() % 10_000;
                bounds.limit_max = 100_000 + dice.next_u32() % 100_000;
            }
            let mut directions = Vec::new();
            for (lane, settings) in settings.iter_mut().enumerate() {
                let plan = vary(&settings.plan, &mut dice);
                directions.push(settings.change(lane, plan).unwrap());
            }
            rig.control.send(change(generation, directions)).unwrap();
            // What comes next waits, and is not forgotten.
            rig.control.send(Command::Report(Box::new(rig.page().successor()))).unwrap();
            under_way = true;
            least = streams.iter().map(|stream| stream.inside).min().unwrap().min(least);
        }
        let allocated = measure(|| {
            rig.worker.turn(now);
        });
        assert_eq!((allocated.count_total, allocated.bytes_total), (0, 0), "{allocated:?}");
        rig.check();
        turns_with_moves += u32::from(rig.worker.directions()[0].egress().qdisc().is_changing());
        if let Some(back) = rig.control.changed() {
            assert_eq!((back.generation, back.refused, under_way), (generation, None, true));
            assert_eq!(rig.page().generation, generation);
            under_way = false;
        }
        pages += u64::from(rig.control.page().is_some());
        for (lane, stream) in rig.lanes.iter_mut().zip(&mut streams) {
            lane.each_sent(|mbuf| stream.came(mbuf.head()));
            while stream.inside < QUEUED + 32 && lane.inlet.len() < 32 {
                assert!(lane.feed(&stream.frame(&mut dice)));
            }
        }
        now += Duration::from_micros(10);
    }
    for (lane, stream) in streams.iter().enumerate() {
        assert_eq!(rig.counters(lane).losses.total().packets, 0);
        let sent: u32 = stream.seen.values().sum();
        assert!(sent > 100_000, "{sent} packets have passed lane {lane} meanwhile");
    }
    assert!(pages >= CHANGES - 1, "{pages} statistics were sent meanwhile");
    assert!(least >= QUEUED && turns_with_moves > 10_000, "{least} {turns_with_moves}");
    rig.finish();
}

/// What is there already when the flow's packets move is behind, not ahead of them.
#[test]
fn a_flow_that_is_not_moved_yet_is_not_overtaken_by_what_arrives() {
    let eal = eal();
    let slow = cake::Params { bandwidth: Some(mbit(1)), ..patient_cake() };
    let mut rig = Rig::one(&eal, Plan { qdisc: Params::Cake(slow), mbufs: 2_047, ..Plan::default() });
    let mut settings = Settings::new(Params::Cake(slow), None);
    for seq in 0..400 {
        assert!(rig.lanes[0].feed(&udp((seq % 4) as u16, seq / 4, 200, 0)));
    }
    rig.settle(ms(1));
    let fast = cake::Params { bandwidth: None, diffserv: Diffserv::BestEffort, ..slow };
    let plan = DirectionPlan { qdisc: Params::Cake(fast), bandwidth: None, ..settings.plan.clone() };
    rig.control.send(change(1, vec![settings.change(0, plan).unwrap()])).unwrap();
    let mut seen = BTreeMap::new();
    for turn in 0..100 {
        for flow in 0..4 {
            assert!(rig.lanes[0].feed(&udp(flow, 100 + turn, 200, 0)));
        }
        rig.turn(ms(2));
        rig.lanes[0].each_sent(|mbuf| {
            let (flow, seq) = (frames::flow(mbuf.head()), frames::seq(mbuf.head()));
            let last = seen.insert(flow, seq).map_or(0, |last| last + 1);
            assert!(seq == last, "flow {flow}: {seq} after {last}");
        });
    }
    assert_eq!(seen.len(), 4);
    rig.finish();
}

/// A worker with full bursts to receive and to send has no time to move packets. They leave, in their order.
#[test]
fn what_has_not_moved_is_sent_from_where_it_is() {
    let eal = eal();
    let slow = cake::Params { bandwidth: Some(mbit(1)), ..patient_cake() };
    let mut rig = Rig::one(&eal, Plan { qdisc: Params::Cake(slow), mbufs: 8_191, ..Plan::default() });
    let mut settings = Settings::new(Params::Cake(slow), None);
    let (mut fed, mut seen) = ([0; 8], BTreeMap::new());
    let mut feed = |rig: &mut Rig<'_>| {
        for packet in 0..Burst::CAPACITY {
            let flow = packet % fed.len();
            fed[flow] += 1;
            assert!(rig.lanes[0].feed(&udp(flow as u16, fed[flow], 200, [0, 46 << 2][flow % 2])));
        }
    };
    while rig.waiting(0) < 4_000 {
        feed(&mut rig);
        rig.turn(ms(1));
    }
    let fast = cake::Params { bandwidth: None, diffserv: Diffserv::Diffserv8, ..slow };
    let plan = DirectionPlan { qdisc: Params::Cake(fast), bandwidth: None, ..settings.plan.clone() };
    rig.control.send(change(1, vec![settings.change(0, plan).unwrap()])).unwrap();
    feed(&mut rig);
    rig.turn(ms(1));
    let (mut turns, mut least) = (0, usize::MAX);
    while rig.control.changed().is_none() {
        feed(&mut rig);
        rig.turn(ms(2));
        rig.check();
        let mut sent = 0;
        rig.lanes[0].each_sent(|mbuf| {
            let (flow, seq) = (frames::flow(mbuf.head()), frames::seq(mbuf.head()));
            assert_eq!(seq, seen.insert(flow, seq).unwrap_or(0) + 1, "flow {flow}");
            sent += 1;
        });
        (turns, least) = (turns + 1, sent.min(least));
    }
    assert_eq!((least, rig.counters(0).losses.total().packets), (Burst::CAPACITY, 0));
    assert!((50..1_000).contains(&turns), "{turns} turns for 4000 packets: they were sent, not moved");
    rig.finish();
}

#[test]
fn what_the_discipline_cannot_take_is_refused_whole() {
    let eal = eal();
    let params = Params::FqCodel(fq_codel::Params::default());
    let mut rig = Rig::one(&eal, Plan { qdisc: params, ..Plan::default() });
    let mut settings = Settings::new(params, None);
    let more = fq_codel::Params { flows: 2_048, ..fq_codel::Params::default() };
    let asked = |qdisc| DirectionPlan { qdisc, ..Settings::new(params, None).plan };
    let fixed = ParamError::FlowsFixed { now: 1_024, asked: 2_048 };
    let refused = settings.change(0, asked(Params::FqCodel(more)));
    assert_eq!(refused.unwrap_err(), Unchangeable::Qdisc(fixed), "before anything is sent");
    let refused = settings.change(0, asked(Params::Cake(cake::Params::default())));
    assert_eq!(refused.unwrap_err(), Unchangeable::Qdisc(ParamError::OtherDiscipline));
    let slow = DirectionPlan { bandwidth: Some(Rate::from_bits_per_sec(1)), ..settings.plan.clone() };
    assert!(matches!(settings.change(0, slow), Err(Unchangeable::Rate(_))));

    // Should control have been mistaken about what runs, the worker finds out and changes nothing.
    let mut mistaken = Settings::new(Params::FqCodel(more), None);
    let plan = asked(Params::FqCodel(more));
    rig.control.send(change(7, vec![mistaken.change(0, plan).unwrap()])).unwrap();
    rig.turn(ms(1));
    assert_eq!(rig.control.changed().unwrap().refused, Some(fixed));
    assert_eq!(rig.page().generation, 0);
    rig.finish();
}

/// Sixty-four packets arrive in each turn, all of them behind those that are to move: they move on too.
#[test]
fn a_change_ends_though_its_busiest_flow_does_not() {
    let eal = eal();
    let slow = cake::Params { bandwidth: Some(mbit(1)), ..patient_cake() };
    let mut rig = Rig::one(&eal, Plan { qdisc: Params::Cake(slow), mbufs: 16_383, ..Plan::default() });
    let mut settings = Settings::new(Params::Cake(slow), None);
    let mut seq = 0;
    let mut feed = |rig: &mut Rig<'_>| {
        for _ in 0..Burst::CAPACITY {
            seq += 1;
            assert!(rig.lanes[0].feed(&udp(1, seq, 200, 0)));
        }
    };
    while rig.waiting(0) < 400 {
        feed(&mut rig);
        rig.turn(ms(1));
    }
    let best_effort = cake::Params { diffserv: Diffserv::BestEffort, ..slow };
    let plan = DirectionPlan { qdisc: Params::Cake(best_effort), ..settings.plan.clone() };
    rig.control.send(change(1, vec![settings.change(0, plan).unwrap()])).unwrap();
    for _ in 0..2 * 400 / MOVES {
        feed(&mut rig);
        rig.turn(ms(1));
    }
    assert_eq!(rig.page().generation, 1);
    assert!(!rig.worker.directions()[0].egress().qdisc().is_changing());
    assert_eq!(rig.counters(0).losses.total().packets, 0);
    rig.control.send(Command::Stop).unwrap();
    rig.turn(ms(1));
    assert!(rig.lanes[0].feed(&udp(1, 0, 200, 0)));
    rig.turn(ms(1));
    assert_eq!(rig.lanes[0].inlet.len(), 1, "other commands are taken again: it receives no more");
    rig.finish();
}

/// The one change that costs packets says so, and takes no turn longer than another.
#[test]
fn a_lower_limit_drops_what_exceeds_it_some_at_a_time_and_counts_it() {
    let eal = eal();
    let memory = ROOM * engine::pool::TRUESIZE;
    let fifo = |limit| Params::Fifo(fifo::Params { limit, ..fifo::Params::default() });
    let packets = |limit| Params::FqCodel(fq_codel::Params { limit, ..patient_fq_codel() });
    let bytes = |memory_limit| Params::FqCodel(fq_codel::Params { memory_limit, ..patient_fq_codel() });
    let slow = cake::Params { bandwidth: Some(mbit(1)), ..patient_cake() };
    let memlimit = |memlimit| Params::Cake(cake::Params { memlimit: Some(memlimit), ..slow });
    for (high, low) in [
        (fifo(10_000), fifo(ROOM)),
        (packets(10_000), packets(ROOM)),
        (bytes(32 << 20), bytes(memory)),
        (memlimit(32 << 20), memlimit(memory)),
    ] {
        let rate = (!matches!(high, Params::Cake(_))).then_some(1_000_000);
        let mut rig =
            Rig::one(&eal, Plan { qdisc: high, mbufs: 8_191, bits_per_sec: rate, ..Plan::default() });
        let mut settings = Settings::new(high, None);
        settings.plan.bandwidth = Some(mbit(1));
        for flow in 0..QUEUED as u32 {
            assert!(rig.lanes[0].feed(&udp(flow as u16 % 50, flow, 200, 0)));
            if flow % 32 == 0 {
                rig.turn(ms(1));
            }
        }
        rig.settle(ms(1));
        let before = rig.waiting(0);
        let plan = DirectionPlan { qdisc: low, ..settings.plan.clone() };
        rig.control.send(change(1, vec![settings.change(0, plan).unwrap()])).unwrap();
        let lost = |rig: &Rig<'_>| rig.lost(0, Loss::Qdisc(DropReason::Change));
        let mut turns = 0;
        while rig.page().generation == 0 {
            let so_far = lost(&rig);
            let allocated = measure(|| {
                rig.worker.turn(ms(1));
            });
            rig.check();
            assert_eq!((allocated.count_total, allocated.bytes_total), (0, 0), "{allocated:?}");
            assert!(lost(&rig) - so_far <= MOVES as u64);
            turns += 1;
        }
        assert!(turns >= (QUEUED - ROOM as usize) / MOVES, "{turns} {low:?}");
        assert_eq!(rig.waiting(0), before - lost(&rig), "{low:?}");
        // What waits for the ring already is not in the discipline any more.
        let inside = rig.worker.directions()[0].egress().queued().packets;
        assert_eq!(inside, u64::from(ROOM), "{low:?}");
        // And the limit holds.
        (0..50).for_each(|seq| assert!(rig.lanes[0].feed(&udp(60, seq, 200, 0))));
        rig.settle(ms(1));
        assert!(rig.worker.directions()[0].egress().queued().packets <= u64::from(ROOM), "{low:?}");
        rig.finish();
    }
}

/// Changes in the storm.
const CHANGES: u64 = 1_000;
/// Packets inside each lane when a change comes.
const QUEUED: usize = 4_000;
/// Packets that a lower limit leaves room for.
const ROOM: u32 = 100;
