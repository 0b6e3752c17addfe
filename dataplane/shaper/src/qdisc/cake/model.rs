//! Random sequences over combinations of options, with what must hold after every step: each
//! packet is somewhere, each flow is on the list its set says, and every account adds up.

use super::flow::{List, Set};
use super::tests::{Line, Packet, ack, ms};
use super::*;
use crate::conformance::Linux;
use crate::packet::{Piece, Verdict};
use crate::rng::{Rng, SplitMix};
use crate::time::Duration;
use crate::units::Rate;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

/// Choices of each option: its number of levels.
const LEVELS: [usize; AXES] = [5, 8, 3, 4, 3, 2, 2, 2, 4, 3];
const AXES: usize = 10;
type Choice = [usize; AXES];

fn params(choice: Choice) -> Params {
    let [diffserv, flow_mode, filter, rate, memory, wash, ingress, autorate, overhead, rtt] = choice;
    let bits = [None, Some(128_000), Some(10_000_000), Some(10_000_000_000)][rate];
    Params {
        diffserv: [
            Diffserv::BestEffort,
            Diffserv::Precedence,
            Diffserv::Diffserv3,
            Diffserv::Diffserv4,
            Diffserv::Diffserv8,
        ][diffserv],
        flow_mode: [
            FlowMode::FlowBlind,
            FlowMode::SrcHost,
            FlowMode::DstHost,
            FlowMode::Hosts,
            FlowMode::Flows,
            FlowMode::DualSrcHost,
            FlowMode::DualDstHost,
            FlowMode::TripleIsolate,
        ][flow_mode],
        ack_filter: [AckFilter::Off, AckFilter::Conservative, AckFilter::Aggressive][filter],
        bandwidth: bits.map(Rate::from_bits_per_sec),
        memlimit: [None, Some(20_000), Some(200_000)][memory],
        wash: wash == 1,
        ingress: ingress == 1,
        autorate_ingress: autorate == 1,
        overhead: ["", "ethernet", "conservative", "pppoe-ptm"][overhead].parse().unwrap(),
        rtt: [ms(1), ms(100), ms(1_000)][rtt],
        target: [Duration::from_micros(50), ms(5), ms(50)][rtt],
        fwmark: 0xf0,
        ..Params::default()
    }
}

/// A line with an account of its own.
struct Model<C: Conformance> {
    line: Line<C>,
    dice: SplitMix,
    choice: Choice,
    /// One tin, queues by flow, and that stays so: the order of a flow's packets is looked at.
    is_ordered: bool,
    waiting: BTreeSet<u32>,
    next: u32,
    /// The last packet delivered of each flow.
    last: BTreeMap<u32, u32>,
    flow_of: BTreeMap<u32, u32>,
}

impl<C: Conformance> Model<C> {
    fn new(seed: u64, choice: Choice, slots: usize) -> Self {
        Self {
            line: Line::with_slots(params(choice), slots),
            dice: SplitMix::new(seed, !seed),
            choice,
            is_ordered: !C::CAKE_COLLISION_MOVES_TAG && (choice[0], choice[1]) == (0, 4),
            waiting: BTreeSet::new(),
            next: 0,
            last: BTreeMap::new(),
            flow_of: BTreeMap::new(),
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.dice.next_u32() % bound
    }

    fn step(&mut self) {
        match self.below(100) {
            0..45 => self.enqueue(1),
            45..50 => {
                let pieces = 2 + self.below(10);
                self.enqueue(pieces);
            }
            50..51 => self.enqueue(0),
            51..80 => self.dequeue(),
            80..96 => {
                let exponent = self.below(26);
                let nanos = u64::from(self.below(1 << exponent));
                self.line.pass(Duration::from_nanos(nanos));
            }
            96..98 => self.change(),
            98..99 => {
                self.line.pass(ms(5_000));
                for _ in 0..20 {
                    self.dequeue();
                }
            }
            _ if self.below(10) == 0 => {
                self.line.flush();
                self.settle_doomed(|reason| reason == DropReason::Flush);
            }
            _ => (),
        }
    }

    fn enqueue(&mut self, pieces: u32) {
        let first = self.next;
        self.next += pieces;
        self.waiting.extend(first..self.next);
        let flow = self.below(30);
        // Twelve flows share a set of the table, the rest do not.
        let hash = if flow < 12 { 8 + 1024 * flow } else { flow.wrapping_mul(0x9E37_79B9) };
        self.flow_of.extend((first..self.next).map(|id| (id, flow)));
        let network = ack(1_000 * (1 + self.next / 40), &[]);
        let len = [60, 66, 600, 1_514][self.below(4) as usize];
        let packet = Packet {
            flow: hash,
            src: flow % 7,
            dst: flow % 5 * 1_024,
            len,
            ds: [0, 2, 1, 3, 46 << 2, 8 << 2 | 2, 56 << 2][self.below(7) as usize],
            network: if flow.is_multiple_of(2) { &network } else { &[] },
            ..Packet::default()
        };
        let truesize = 768 + self.below(2) * 1_536;
        let parts = (first..first + pieces).map(|id| Piece::single(id, len, truesize));
        let result = self.line.put_pieces(packet, parts);
        assert_eq!(result.verdict == Verdict::Dropped, pieces == 0);
        self.settle_doomed(|reason| matches!(reason, DropReason::Overflow | DropReason::AckFilter));
    }

    fn dequeue(&mut self) {
        let delivery = self.line.get();
        self.settle_doomed(|reason| matches!(reason, DropReason::Codel | DropReason::Blue));
        let Some(delivery) = delivery else {
            let wakeup = self.line.cake.next_wakeup();
            assert!(self.waiting.is_empty() || wakeup.is_some_and(|at| at > self.line.now), "{wakeup:?}");
            return;
        };
        assert!(self.waiting.remove(&delivery.packet), "{} was not waiting", delivery.packet);
        let flow = self.flow_of[&delivery.packet];
        let last = self.last.insert(flow, delivery.packet);
        let is_in_order = last < Some(delivery.packet);
        assert!(!self.is_ordered || is_in_order, "flow {flow}: {last:?}, {delivery:?}");
    }

    fn change(&mut self) {
        let axis = self.below(AXES as u32) as usize;
        if axis >= 2 || !self.is_ordered {
            self.choice[axis] = self.below(LEVELS[axis] as u32) as usize;
        }
        let new = params(self.choice);
        self.line.change(|params| *params = new);
        let discards = C::CAKE_CHANGE_IN_PLACE;
        self.settle_doomed(|reason| discards && reason == DropReason::Change);
    }

    fn settle_doomed(&mut self, expected: impl Fn(DropReason) -> bool) {
        for (id, reason) in core::mem::take(&mut self.line.doomed) {
            assert!(expected(reason), "{reason:?}");
            assert!(self.waiting.remove(&id), "{id} was not waiting");
        }
    }

    fn check(&self) {
        let Cake { tins, shared, old } = &self.line.cake;
        assert!(old.is_none());
        let (mut packets, mut bytes, mut memory) = (0, 0, 0);
        for (number, tin) in tins.iter().enumerate() {
            let mut tin_bytes = 0;
            for (queue, flow) in tin.flows.iter().enumerate() {
                let mut held = 0;
                for slot in shared.slots.iter(&flow.queue) {
                    packets += 1;
                    held += slot.len;
                    memory += u64::from(slot.truesize);
                }
                assert_eq!(shared.backlogs.get(QueueId::new(number, queue)), held);
                assert_eq!(flow.queue.is_empty(), held == 0);
                assert!(held == 0 || matches!(flow.set, Set::Sparse | Set::Bulk), "{flow:?}");
                tin_bytes += held;
            }
            assert_eq!(tin.stats.backlog_bytes, tin_bytes);
            bytes += u64::from(tin_bytes);
            check_sets(tin);
            if !C::CAKE_CHANGE_IN_PLACE {
                tin.check_hosts();
            }
        }
        assert_eq!((packets, bytes, memory), (self.waiting.len(), self.line.cake.backlog(), shared.memory));
        assert_eq!(packets, shared.slots.used());
        assert_eq!(packets, self.line.cake.len());
        shared.backlogs.check();
        if let Some(acks) = &shared.acks {
            acks.check(|slot| shared.slots.is_used(slot));
        }
    }
}

/// Each flow is on the list its set says, once, and the counts are those of the sets.
fn check_sets<C: Conformance>(tin: &Tin<C>) {
    let mut on = [0_u8; QUEUES];
    for (list, sets) in [
        (List::New, &[Set::Sparse][..]),
        (List::Old, &[Set::SparseWait, Set::Bulk, Set::Decaying]),
        (List::Decaying, &[Set::Decaying]),
    ] {
        for queue in tin.lists.iter(list) {
            on[queue] += 1;
            assert!(sets.contains(&tin.flows[queue].set), "{list:?} {queue} {:?}", tin.flows[queue].set);
        }
    }
    let mut counts = [0_u16; 3];
    for (flow, &lists) in tin.flows.iter().zip(&on) {
        assert_eq!(lists, u8::from(flow.set != Set::None), "{flow:?}");
        match flow.set {
            Set::None => continue,
            Set::Sparse | Set::SparseWait => counts[0] += 1,
            Set::Bulk => counts[1] += 1,
            Set::Decaying => counts[2] += 1,
        }
    }
    let stats = &tin.stats;
    assert_eq!(counts, [stats.sparse_flows, stats.bulk_flows, stats.decaying_flows]);
    let unresponsive = tin.flows.iter().filter(|flow| flow.aqm.is_unresponsive()).count();
    assert_eq!(usize::from(stats.unresponsive_flows), unresponsive);
}

fn run<C: Conformance>(seed: u64, choice: Choice, slots: usize) {
    let mut model = Model::<C>::new(seed, choice, slots);
    for step in 0..STEPS {
        model.step();
        if step % CHECK_EVERY == 0 {
            model.check();
        }
    }
    model.check();
    model.line.flush();
    model.settle_doomed(|reason| reason == DropReason::Flush);
    assert!(model.waiting.is_empty());
    model.check();
}

/// Random choices that, together, have every pair of levels of every two options.
fn choices() -> Vec<Choice> {
    let mut dice = SplitMix::new(3, 4);
    let mut missing: BTreeSet<(usize, usize, usize, usize)> = (0..AXES)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .flat_map(|(a, b)| (0..LEVELS[a]).map(move |x| (a, b, x)))
        .flat_map(|(a, b, x)| (0..LEVELS[b]).map(move |y| (a, b, x, y)))
        .collect();
    let mut choices = Vec::new();
    while !missing.is_empty() {
        let mut choice = LEVELS.map(|levels| dice.next_u32() as usize % levels);
        if let Some(&(a, b, x, y)) = missing.first() {
            (choice[a], choice[b]) = (x, y);
        }
        missing.retain(|&(a, b, x, y)| (choice[a], choice[b]) != (x, y));
        choices.push(choice);
    }
    choices
}

#[test]
fn what_must_hold_holds_over_all_pairs_of_options() {
    let choices = choices();
    assert!(choices.len() >= 40);
    for (seed, &choice) in choices.iter().enumerate() {
        let slots = [30, 4_096][seed % 2];
        run::<Weir>(seed as u64, choice, slots);
        run::<Linux>(seed as u64, choice, slots);
    }
}

/// Order inside flows, be it that they share queues.
#[test]
fn flows_keep_their_order() {
    for seed in 0..40 * super::super::soak() {
        let mut dice = SplitMix::new(seed, seed);
        let mut choice = LEVELS.map(|levels| dice.next_u32() as usize % levels);
        (choice[0], choice[1]) = (0, 4);
        run::<Weir>(seed, choice, 4_096);
    }
}

const STEPS: usize = 800;
/// A check looks at every queue of every tin.
const CHECK_EVERY: usize = 50;
