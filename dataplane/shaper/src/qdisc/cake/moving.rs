//! Packets on their way from old tins to new ones, some at a time.
//!
//! A change of tins, of what is kept fair, or of the rules that choose a tin gives waiting packets
//! another place. They move in the order in which they wait, each to where a packet like it would be
//! put if it arrived now, so that it is in order with those that do arrive. Until a queue has been
//! moved, arrivals that belong behind what it holds are put there, and move with it: all at once where
//! they belong together, so that a change comes to an end whatever arrives.
//!
//! What has not moved is sent from where it is once nothing else waits: a worker that has no time to move
//! packets goes on sending, past the AQM and the order of tins for as long as that takes.
//!
//! Contract: nothing is allocated or freed between [`Cake::begin`] and [`Cake::finish`]; what waits
//! in old tins is counted as waiting.

use super::ack_filter::Acks;
use super::change::Even;
use super::flow::List;
use super::overflow::{Backlogs, QueueId};
use super::tin::{Hashes, Tin};
use super::{Cake, Diffserv, Params, QUEUES, Shared};
use crate::conformance::{Conformance, Weir};
use crate::flow::slots::{Slots, Waiting};
use crate::packet::{Arrival, DropReason, Enqueued, Piece, Verdict};
use crate::rng::Rng;
use crate::time::Instant;
use alloc::boxed::Box;

/// What a change needs beside the new parameters, and afterwards what it does not need any more:
/// memory, allocated and freed by whoever has the time.
#[derive(Debug)]
pub struct Tables<C: Conformance = Weir> {
    pub(super) tins: Option<TinsAndBacklogs<C>>,
    pub(super) acks: Option<Acks<C>>,
    /// One for each queue that goes away.
    tails: Box<[Tail]>,
}

type TinsAndBacklogs<C> = (Box<[Tin<C>]>, Backlogs<C>);

/// Tins that go away.
#[derive(Debug)]
pub(super) struct Old<C> {
    pub(super) tins: Box<[Tin<C>]>,
    pub(super) backlogs: Backlogs<C>,
    pub(super) diffserv: Diffserv,
    tails: Box<[Tail]>,
    /// Tins that may hold packets still: the last, the most urgent, goes first.
    left: usize,
    /// Packets queued here one by one since the last were moved, less those sent from here.
    arrived: usize,
}

/// What has come to wait in a queue since it began to go away.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    kind: Kind,
    /// The slot of the first.
    first: u32,
    /// Of all, and where they belong, if that is one queue.
    bytes: u32,
    place: Place,
}

/// Where a packet belongs, as read when it arrived: what a slot's note holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    tin: usize,
    hashes: Hashes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Empty,
    /// All belong into one queue.
    Alike,
    Mixed,
    /// Mixed, and all that came before has moved.
    Alone,
}

/// What was done with a packet that had not moved.
pub(super) enum Unmoved<P> {
    Moved,
    /// From the tin, as far as it is one still.
    Sent(u8, P, Waiting),
}

/// What is next to move from a queue, and where it belongs.
#[derive(Clone, Copy)]
struct Move {
    place: Place,
    bytes: u32,
    /// It is all that is left there, not the head alone.
    is_row: bool,
}

impl<C: Conformance> Tables<C> {
    /// For a change that needs none.
    pub fn none() -> Self {
        Self { tins: None, acks: None, tails: Box::default() }
    }

    /// For a change from `old` to `new` of a discipline with room for `slots` packets. `re_sort`: what
    /// [`Arrival::mark`] and [`Arrival::dscp`] say of a packet changes too.
    pub fn between(old: &Params, new: &Params, re_sort: bool, slots: usize) -> Self {
        let by = |params: &Params| (params.diffserv, params.flow_mode);
        let is_sorted_anew = re_sort || by(old) != by(new);
        let count = Cake::<(), C>::tins_needed(new);
        let tins = (is_sorted_anew && !C::CAKE_CHANGE_IN_PLACE)
            .then(|| ((0..count).map(|_| Tin::new(new.flow_mode)).collect(), Backlogs::new(count)));
        let filters = |params: &Params| params.ack_filter != super::AckFilter::Off;
        let needs_acks = !C::CAKE_CHANGE_IN_PLACE && filters(new) && (tins.is_some() || !filters(old));
        let old_queues = if tins.is_some() { Cake::<(), C>::tins_needed(old) * QUEUES } else { 0 };
        let tails = core::iter::repeat_n(Tail::default(), old_queues).collect();
        Self { tins, acks: needs_acks.then(|| Acks::new(slots)), tails }
    }
}

impl<C: Conformance> Old<C> {
    pub(super) fn new(
        tins: Box<[Tin<C>]>,
        backlogs: Backlogs<C>,
        diffserv: Diffserv,
        tables: &mut Tables<C>,
    ) -> Self {
        let left = tins.len();
        Self { tins, backlogs, diffserv, tails: core::mem::take(&mut tables.tails), left, arrived: 0 }
    }

    /// A packet in slot `slot` came to wait in the queue `id`, and belongs to `place`.
    fn note(&mut self, id: QueueId, slot: u32, bytes: u32, place: Place) {
        let Some(tail) = self.tails.get_mut(id.number() as usize) else {
            self.arrived += 1;
            return;
        };
        match tail.kind {
            Kind::Empty => *tail = Tail { kind: Kind::Alike, first: slot, bytes, place },
            Kind::Alike if tail.place == place => tail.bytes += bytes,
            Kind::Alike => (tail.kind, self.arrived) = (Kind::Mixed, self.arrived + 1),
            Kind::Mixed | Kind::Alone => self.arrived += 1,
        }
    }

    /// Where the head of the queue `id` belongs; `None` if it came before the change, so that only the packet
    /// itself says.
    fn known<P>(&mut self, slots: &Slots<P>, id: QueueId) -> Option<Move> {
        let tail = self.tails.get_mut(id.number() as usize)?;
        let queue = &self.tins[id.tin()].flows[id.queue()].queue;
        let is_reached = queue.head() == Some(tail.first);
        match tail.kind {
            Kind::Alike if is_reached => {
                let Tail { place, bytes, .. } = core::mem::take(tail);
                return Some(Move { place, bytes, is_row: true });
            }
            Kind::Mixed if is_reached => tail.kind = Kind::Alone,
            Kind::Alone => (),
            Kind::Empty | Kind::Alike | Kind::Mixed => return None,
        }
        let place = Place::of(slots.noted(queue)?);
        Some(Move { place, bytes: slots.head(queue)?.len, is_row: false })
    }

    fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The next queue that holds packets, unless the search takes too long for one call. Queues that held
    /// none since the change are on no list, or in the way but once.
    fn next(&mut self, patience: &mut usize) -> Option<QueueId> {
        while *patience > 0 {
            let number = self.left.checked_sub(1)?;
            let tin = &mut self.tins[number];
            let Some(queue) = tin.lists.first(List::New).or_else(|| tin.lists.first(List::Old)) else {
                self.left = number;
                continue;
            };
            if !tin.flows[queue].queue.is_empty() {
                return Some(QueueId::new(number, queue));
            }
            tin.lists.remove(queue);
            *patience -= 1;
        }
        None
    }

    /// The queue that an arrival must stay behind: of those that may hold packets of its flow, whatever tin
    /// they were sorted into, the one that moves last.
    fn holding(&self, arrival: &Arrival<'_>) -> Option<QueueId> {
        let hashes = Hashes::of(arrival);
        let mut tins = self.tins.iter().enumerate().filter(|(_, tin)| tin.stats.backlog_bytes != 0);
        tins.find_map(|(number, tin)| Some(QueueId::new(number, tin.holding(hashes)?)))
    }

    /// Removes the head of a queue from all accounts.
    fn take<P>(&mut self, shared: &mut Shared<P, C>, id: QueueId) -> Option<(P, Waiting)> {
        let (packet, waiting) = shared.slots.pop(&mut self.tins[id.tin()].flows[id.queue()].queue)?;
        shared.memory = shared.memory.wrapping_sub(waiting.truesize.into());
        self.taken(id, waiting.len);
        Some((packet, waiting))
    }

    /// So many bytes left the queue.
    fn taken(&mut self, id: QueueId, bytes: u32) {
        let stats = &mut self.tins[id.tin()].stats;
        stats.backlog_bytes = stats.backlog_bytes.wrapping_sub(bytes);
        self.backlogs.taken(id, bytes);
    }
}

impl Place {
    fn note(self) -> [u32; 4] {
        [self.tin as u32, self.hashes.flow, self.hashes.src, self.hashes.dst]
    }

    fn of([tin, flow, src, dst]: [u32; 4]) -> Self {
        Self { tin: tin as usize, hashes: Hashes { flow, src, dst } }
    }
}

impl<P, C: Conformance> Cake<P, C> {
    /// Whether packets wait where they do not belong any more, or more than the memory limit allows: call
    /// [`Cake::proceed`].
    #[inline]
    pub fn is_changing(&self) -> bool {
        self.is_moving() || self.shared.memory_limit != self.shared.memory_asked()
    }

    fn is_moving(&self) -> bool {
        self.old.as_ref().is_some_and(|old| !old.is_empty())
    }

    /// Moves packets to where they belong now: at most `most` that have to be read again, or for each of
    /// them [`NOTED`] that came after the change, or rows of such that belong together; and as many more as
    /// have come to wait behind such ones since the last call and belong with none, so that it comes to an
    /// end whatever arrives. It looks at some hundreds of queues at most. Once all have moved, drops at most
    /// `most` that exceed the memory limit. Says how many it moved or dropped. `read` reads a packet again as
    /// if it arrived now.
    pub fn proceed<'a>(
        &mut self,
        now: Instant,
        most: usize,
        read: &mut impl FnMut(&P) -> Arrival<'a>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> usize {
        let Some(mut old) = self.old.take_if(|old| !old.is_empty()) else {
            return self.trim(now, most, doomed);
        };
        let mut budget = most.saturating_mul(NOTED).saturating_add(core::mem::take(&mut old.arrived));
        let (mut moved, mut patience) = (0, LOOKED_AT);
        while budget > 0
            && let Some(id) = old.next(&mut patience)
        {
            let is_read = self.shift(now, &mut old, id, read);
            budget = budget.saturating_sub(if is_read { NOTED } else { 1 });
            moved += 1;
        }
        self.old = Some(old);
        moved
    }

    /// Hands what the change has replaced to `tables`, once it is done; `false` before.
    pub fn finish(&mut self, tables: &mut Tables<C>) -> bool {
        if self.is_changing() {
            return false;
        }
        if let Some(old) = self.old.take() {
            tables.tins = Some((old.tins, old.backlogs));
            tables.tails = old.tails;
        }
        true
    }

    /// Moves the packet at the head of an old queue, or all that is left there if it belongs together. Says
    /// whether a packet was read for it.
    fn shift<'a>(
        &mut self,
        now: Instant,
        old: &mut Old<C>,
        id: QueueId,
        read: &mut impl FnMut(&P) -> Arrival<'a>,
    ) -> bool {
        if let Some(known) = old.known(&self.shared.slots, id) {
            self.carry_out(now, old, id, known);
            return false;
        }
        let queue = &old.tins[id.tin()].flows[id.queue()].queue;
        if let Some((packet, waiting)) = self.shared.slots.peek(queue) {
            let arrival = read(packet);
            let tin = self.shared.mode.tin_of(&self.shared.params, &arrival);
            let place = Place { tin, hashes: Hashes::of(&arrival) };
            self.carry_out(now, old, id, Move { place, bytes: waiting.len, is_row: false });
        }
        true
    }

    fn carry_out(&mut self, now: Instant, old: &mut Old<C>, id: QueueId, to: Move) {
        let Move { place: Place { tin: number, hashes }, bytes, is_row } = to;
        let flow = &mut old.tins[id.tin()].flows[id.queue()];
        let tin = &mut self.tins[number];
        let queue = tin.choose_queue(hashes);
        if tin.stats.backlog_bytes == 0 {
            // It was idle, which is no debt of the shaper's.
            tin.clock = tin.clock.max(now);
        }
        tin.adopt(queue, flow);
        let to = &mut tin.flows[queue].queue;
        if is_row {
            self.shared.slots.splice(to, core::mem::take(&mut flow.queue));
        } else {
            self.shared.slots.shift(&mut flow.queue, to);
        }
        tin.stats.backlog_bytes = tin.stats.backlog_bytes.wrapping_add(bytes);
        tin.wake(queue, &mut Even);
        self.shared.backlogs.arrived(QueueId::new(number, queue), bytes, 0);
        old.taken(id, bytes);
    }

    /// Nothing but what has not moved yet waits: takes the next of that to be sent, or moves it if it is known
    /// where to. `None` if the search takes too long for one call.
    #[cold]
    #[inline(never)]
    pub(super) fn go_on_unmoved(&mut self, now: Instant) -> Option<Unmoved<P>> {
        let mut old = self.old.take_if(|old| !old.is_empty())?;
        let done = old.next(&mut { LOOKED_AT }).and_then(|id| {
            if let Some(known) = old.known(&self.shared.slots, id) {
                self.carry_out(now, &mut old, id, known);
                return Some(Unmoved::Moved);
            }
            self.send_unmoved(now, &mut old, id)
        });
        self.old = Some(old);
        done
    }

    /// Takes the head of an old queue. It is charged to the shaper; the turns of its tin and its flow are over.
    fn send_unmoved(&mut self, now: Instant, old: &mut Old<C>, id: QueueId) -> Option<Unmoved<P>> {
        let (packet, waiting) = old.take(&mut self.shared, id)?;
        old.arrived = old.arrived.saturating_sub(1);
        self.shared.deliver(&mut old.tins[id.tin()], id, &waiting, now);
        if self.shared.is_empty() {
            self.shared.wake_for_rest(&self.tins, now);
        }
        Some(Unmoved::Sent(id.tin().min(self.tins.len() - 1) as u8, packet, waiting))
    }

    /// Queues an arrival behind what an old queue holds of its flow, if one does.
    #[cold]
    #[inline(never)]
    pub(super) fn enqueue_while_moving(
        &mut self,
        now: Instant,
        rng: &mut impl Rng,
        arrival: &Arrival<'_>,
        pieces: impl Iterator<Item = Piece<P>>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Enqueued {
        let mut pieces = pieces.peekable();
        let behind = self.old.as_ref().and_then(|old| old.holding(arrival));
        match behind.filter(|_| pieces.peek().is_some()) {
            Some(id) => self.enqueue_behind(now, id, arrival, pieces, doomed),
            None => self.enqueue_settled(now, rng, arrival, pieces, doomed),
        }
    }

    /// Queues an arrival in an old queue. Where memory is short it is the one to be lost: the longest
    /// queue may be an old one.
    fn enqueue_behind(
        &mut self,
        now: Instant,
        id: QueueId,
        arrival: &Arrival<'_>,
        pieces: impl Iterator<Item = Piece<P>>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Enqueued {
        let number = self.shared.mode.tin_of(&self.shared.params, arrival);
        let (ds, rewrite) = self.shared.leaves_with(arrival.ds);
        let mut queued = 0_i64;
        for mut piece in pieces {
            let Some(old) = &mut self.old else { break };
            let shared = &mut self.shared;
            let stats = &mut self.tins[number].stats;
            stats.max_pkt_len = stats.max_pkt_len.max(arrival.len).max(piece.len());
            piece.adjusted =
                shared.lengths.note::<P, C>(&shared.params.overhead, &piece, arrival.network_offset);
            let waiting = Waiting::new(now, &piece, ds, rewrite);
            let is_over = shared.memory + u64::from(waiting.truesize) > shared.memory_limit.into();
            let tin = &mut old.tins[id.tin()];
            let pushed = match is_over {
                true => Err(piece.packet),
                false => shared.slots.push(&mut tin.flows[id.queue()].queue, piece.packet, waiting),
            };
            let Ok(slot) = pushed.map_err(|packet| {
                (shared.counters.drops, stats.drops) = (shared.counters.drops + 1, stats.drops + 1);
                stats.drop_overlimit += 1;
                doomed(packet, DropReason::Overflow);
            }) else {
                continue;
            };
            queued += 1;
            (stats.sent_packets, stats.sent_bytes) =
                (stats.sent_packets + 1, stats.sent_bytes + u64::from(waiting.len));
            tin.stats.backlog_bytes = tin.stats.backlog_bytes.wrapping_add(waiting.len);
            old.backlogs.arrived(id, waiting.len, 0);
            let place = Place { tin: number, hashes: Hashes::of(arrival) };
            shared.slots.note(slot, place.note());
            old.note(id, slot, waiting.len, place);
            shared.memory += u64::from(waiting.truesize);
            shared.counters.memory_max = shared.counters.memory_max.max(shared.memory);
            if shared.params.autorate_ingress {
                shared.autorate.count(waiting.adjusted);
            }
        }
        if queued != 0 {
            self.shared.tell_parent(1 - queued, 0);
        }
        self.follow_rate(now, doomed);
        let verdict = if queued == 0 { Verdict::Dropped } else { Verdict::Ok };
        Enqueued { verdict, tin: number as u8, queue: id.queue() as u32 }
    }

    /// Empties the old tins.
    pub(super) fn flush_old(&mut self, doomed: &mut impl FnMut(P, DropReason)) {
        let Some(mut old) = self.old.take() else { return };
        let mut patience = usize::MAX;
        while let Some(id) = old.next(&mut patience) {
            let Some((packet, _)) = old.take(&mut self.shared, id) else { break };
            self.shared.counters.flushed += 1;
            doomed(packet, DropReason::Flush);
        }
        self.old = Some(old);
    }
}

/// Queues that one call of [`Cake::proceed`] looks at: a cache line each, some microseconds.
const LOOKED_AT: usize = 512;
/// Packets that are moved by their note in the time in which one is read that is not in the cache.
const NOTED: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::{AckFilter, FlowMode};
    use super::*;
    use crate::packet::DsField;
    use crate::rng::{Rng, SplitMix};
    use crate::time::Duration;
    use crate::units::Rate;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// cake, and what arrived by number.
    struct Bench {
        cake: Cake<u32>,
        dice: SplitMix,
        now: Instant,
        arrivals: Vec<Arrival<'static>>,
        doomed: Vec<u32>,
        /// The last number delivered of each flow and DSCP.
        last: BTreeMap<(u32, u8), u32>,
        delivered: usize,
    }

    impl Bench {
        fn new(seed: u64, params: &Params) -> Self {
            Self {
                cake: Cake::new(params, 512),
                dice: SplitMix::new(seed, !seed),
                now: Instant::from_nanos(1_000_000_000),
                arrivals: Vec::new(),
                doomed: Vec::new(),
                last: BTreeMap::new(),
                delivered: 0,
            }
        }

        fn below(&mut self, bound: u32) -> u32 {
            self.dice.next_u32() % bound
        }

        fn put(&mut self) {
            let flow = self.below(40);
            let dscp = [0, 46, 8, 56][(flow % 4) as usize];
            let arrival = Arrival {
                // Some share a set of the table.
                flow_hash: if flow < 14 { 8 + 1024 * flow } else { flow.wrapping_mul(0x9E37_79B9) },
                src_hash: flow % 7,
                dst_hash: flow % 5 * 1_024,
                ds: DsField::ip(dscp << 2),
                mark: flow % 4,
                network_offset: 14,
                ..Arrival::default()
            };
            for piece in 0..1 + u32::from(flow == 3) {
                let id = self.arrivals.len() as u32;
                self.arrivals.extend(std::iter::repeat_n(arrival, 1 + piece as usize));
                let pieces = (id..=id + piece).map(|id| Piece::single(id, 1_000, 2_304));
                let doomed = &mut self.doomed;
                self.cake.enqueue(self.now, &mut self.dice, &arrival, pieces, &mut |id, _| doomed.push(id));
            }
        }

        fn get(&mut self) {
            let doomed = &mut self.doomed;
            let Some(sent) = self.cake.dequeue(self.now, &mut self.dice, &mut |id, _| doomed.push(id)) else {
                return;
            };
            self.delivered += 1;
            let arrival = &self.arrivals[sent.packet as usize];
            let last = self.last.insert((arrival.flow_hash, arrival.ds.dscp()), sent.packet);
            assert!(last < Some(sent.packet), "{} after {last:?}", sent.packet);
        }

        fn proceed(&mut self, most: usize) -> usize {
            let arrivals = &self.arrivals;
            let doomed = &mut self.doomed;
            let read = &mut |id: &u32| arrivals[*id as usize];
            let moved = self.cake.proceed(self.now, most, read, &mut |id, _| doomed.push(id));
            self.check();
            moved
        }

        fn check(&self) {
            let waiting = self.arrivals.len() - self.delivered - self.doomed.len();
            assert_eq!((self.cake.len(), self.cake.backlog()), (waiting, 1_000 * waiting as u64));
            assert_eq!(self.cake.shared.memory, 2_304 * waiting as u64);
        }

        /// A change of anything, as control prepares it, carried out while packets come and go.
        fn change(&mut self) {
            let mut params = *self.cake.params();
            match self.below(5) {
                0 => params.flow_mode = MODES[self.below(8) as usize],
                1 => params.fwmark = [0, 3][self.below(2) as usize],
                2 => params.ack_filter = [AckFilter::Off, AckFilter::Conservative][self.below(2) as usize],
                3 => params.bandwidth = Some(Rate::from_bits_per_sec(1_000_000 << self.below(10))),
                _ => params.diffserv = CLASSES[self.below(5) as usize],
            }
            let old = *self.cake.params();
            let mut tables = Tables::between(&old, &params, old.fwmark != params.fwmark, 512);
            self.cake.begin(self.now, &params, &mut tables);
            while !self.cake.finish(&mut tables) {
                self.proceed(8);
                let (arriving, leaving) = (self.below(6), self.below(4));
                for _ in 0..arriving {
                    self.put();
                }
                for _ in 0..leaving {
                    self.get();
                }
                let micros = self.below(200);
                self.now += Duration::from_micros(micros.into());
            }
            assert_eq!(self.cake.params().diffserv.mode().tins, self.cake.tins.len());
        }
    }

    /// Each flow in its order, each packet somewhere, whatever changes while it waits.
    #[test]
    fn nothing_is_lost_or_overtaken_in_a_change() {
        let (mut moved_through, mut delivered) = (0, 0);
        for seed in 0..30 * super::super::super::soak() {
            let bandwidth = Some(Rate::from_bits_per_sec(20_000_000));
            let mut bench = Bench::new(seed, &Params { bandwidth, ..Params::default() });
            for _ in 0..60 {
                let (arriving, leaving) = (bench.below(40), bench.below(30));
                for _ in 0..arriving {
                    bench.put();
                }
                for _ in 0..leaving {
                    bench.get();
                    let micros = bench.below(400);
                    bench.now += Duration::from_micros(micros.into());
                }
                let waiting = bench.cake.len();
                bench.change();
                moved_through += waiting;
                bench.check();
            }
            let doomed = &mut bench.doomed;
            bench.cake.flush(&mut |id, _| doomed.push(id));
            bench.check();
            assert!(bench.cake.is_empty());
            delivered += bench.delivered;
        }
        assert!(moved_through > 30_000 && delivered > 10_000, "{moved_through} {delivered}");
    }

    #[test]
    fn a_flush_finds_what_has_not_moved_yet() {
        let mut bench = Bench::new(1, &Params::default());
        (0..100).for_each(|_| bench.put());
        let new = Params { diffserv: Diffserv::BestEffort, ..Params::default() };
        let mut tables = Tables::between(&Params::default(), &new, false, 512);
        bench.cake.begin(bench.now, &new, &mut tables);
        assert!((1..=10).contains(&bench.proceed(10)));
        assert!(bench.cake.is_changing() && !bench.cake.finish(&mut tables));
        let doomed = &mut bench.doomed;
        bench.cake.flush(&mut |id, _| doomed.push(id));
        bench.check();
        assert!(bench.cake.finish(&mut tables) && tables.tins.is_some(), "the old tins go back");
    }

    const MODES: [FlowMode; 8] = [
        FlowMode::FlowBlind,
        FlowMode::SrcHost,
        FlowMode::DstHost,
        FlowMode::Hosts,
        FlowMode::Flows,
        FlowMode::DualSrcHost,
        FlowMode::DualDstHost,
        FlowMode::TripleIsolate,
    ];
    const CLASSES: [Diffserv; 5] = [
        Diffserv::BestEffort,
        Diffserv::Precedence,
        Diffserv::Diffserv3,
        Diffserv::Diffserv4,
        Diffserv::Diffserv8,
    ];
}
