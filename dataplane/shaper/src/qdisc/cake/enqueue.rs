//! The way in: tin, queue, ACK filter, autorate, lists, overflow.

use super::ack_filter::Segment;
use super::overflow::QueueId;
use super::tin::Hashes;
use super::{Cake, Shared, Tin};
use crate::conformance::Conformance;
use crate::flow::slots::Waiting;
use crate::packet::{Arrival, DropReason, DsField, Enqueued, Piece, Verdict};
use crate::rate::Overhead;
use crate::rng::Rng;
use crate::time::Instant;

/// Lengths seen at enqueue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub(super) min_net: u32,
    pub(super) max_net: u32,
    pub(super) min_adjusted: u32,
    pub(super) max_adjusted: u32,
    /// Average offset of the network header, bytes * 2^16.
    offset: u32,
}

/// What an arrival is to all its pieces.
#[derive(Clone, Copy)]
struct Place {
    id: QueueId,
    ds: DsField,
    rewrite: bool,
    network_offset: u16,
}

/// What was queued so far and is not yet in the accounts.
#[derive(Clone, Copy, Default)]
struct Sum {
    pieces: u32,
    bytes: u32,
    adjusted: u32,
}

/// What overflow took.
#[derive(Clone, Copy, Default)]
pub(super) struct Losses {
    pub(super) packets: u32,
    pub(super) bytes: u32,
    /// A victim was the queue of the arriving packet.
    own: bool,
}

impl<P, C: Conformance> Cake<P, C> {
    /// Queues all `pieces` of one arrival in the same flow.
    ///
    /// No piece at all means a super-packet that could not be cut: it stays with the caller, who
    /// drops it, and counts as dropped here.
    #[inline(always)] // or arrival and piece are stored for the call and read back: 3 ns (Zen 4)
    pub fn enqueue(
        &mut self,
        now: Instant,
        rng: &mut impl Rng,
        arrival: &Arrival<'_>,
        pieces: impl Iterator<Item = Piece<P>>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Enqueued {
        self.shared.spend_wakeup(now);
        if self.old.is_some() {
            return self.enqueue_while_moving(now, rng, arrival, pieces, doomed);
        }
        self.enqueue_settled(now, rng, arrival, pieces, doomed)
    }

    /// The same, where nothing waits in tins that go away.
    #[inline(always)] // see above
    pub(super) fn enqueue_settled(
        &mut self,
        now: Instant,
        rng: &mut impl Rng,
        arrival: &Arrival<'_>,
        mut pieces: impl Iterator<Item = Piece<P>>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Enqueued {
        let Some(first) = pieces.next() else { return self.refuse_uncut(now, arrival) };
        let place = self.choose_place(now, arrival, first.len());
        let id = place.id;
        let mut losses = Losses::default();
        if self.shared.slots.is_full() {
            self.lose_one(now, Some(id), &mut losses, doomed);
        }
        let queued = match pieces.next() {
            None => {
                let tin = &mut self.tins[id.tin()];
                self.shared.enqueue_whole(tin, now, &place, arrival.network, first, doomed)
            }
            Some(second) => {
                let pieces = [first, second].into_iter().chain(pieces);
                self.enqueue_cut(now, &place, arrival.network, pieces, &mut losses, doomed)
            }
        };
        self.follow_rate(now, doomed);
        if queued.pieces != 0 {
            self.tins[id.tin()].wake(id.queue(), rng);
        }
        let shared = &mut self.shared;
        shared.counters.memory_max = shared.counters.memory_max.max(shared.memory);
        while self.shared.is_over_memory() && self.lose_one(now, Some(id), &mut losses, doomed) {}
        place.result(self.shared.report(losses, queued))
    }

    /// A super-packet that could not be cut. (Fault 36: it has chosen a flow before.)
    #[cold]
    fn refuse_uncut(&mut self, now: Instant, arrival: &Arrival<'_>) -> Enqueued {
        self.shared.counters.drops += 1;
        if !C::CAKE_UNCUTTABLE_LATE {
            return Enqueued { verdict: Verdict::Dropped, tin: 0, queue: 0 };
        }
        self.choose_place(now, arrival, 0).result(Verdict::Dropped)
    }

    /// Tin, queue, and the DS field to leave with. The tin is told of the arrival, whose first piece
    /// has `len` bytes.
    #[inline]
    fn choose_place(&mut self, now: Instant, arrival: &Arrival<'_>, len: u32) -> Place {
        let (ds, rewrite) = self.shared.leaves_with(arrival.ds);
        let number = self.shared.mode.tin_of(&self.shared.params, arrival);
        let tin = &mut self.tins[number];
        let queue = tin.choose_queue(Hashes::of(arrival));
        self.shared.refresh_clocks(tin, now);
        tin.stats.max_pkt_len = tin.stats.max_pkt_len.max(arrival.len).max(len);
        Place { id: QueueId::new(number, queue), ds, rewrite, network_offset: arrival.network_offset }
    }

    /// The pieces of a super-packet: they follow each other into the same queue.
    #[inline(never)] // a single packet would pay for its registers
    fn enqueue_cut(
        &mut self,
        now: Instant,
        place: &Place,
        network: &[u8],
        pieces: impl Iterator<Item = Piece<P>>,
        losses: &mut Losses,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Sum {
        let id = place.id;
        let segment = if self.shared.acks.is_some() { Segment::parse(network) } else { None };
        let (mut sum, mut entered) = (Sum::default(), Sum::default());
        for (nth, piece) in pieces.enumerate() {
            if self.shared.slots.is_full() {
                self.shared.account(&mut self.tins[id.tin()], id, sum, 0);
                entered.add(core::mem::take(&mut sum));
                self.lose_one(now, Some(id), losses, doomed);
            }
            let (tin, shared) = (&mut self.tins[id.tin()], &mut self.shared);
            let Some(slot) = shared.append(tin, now, place, piece, &mut sum, doomed) else { continue };
            if let (Some(acks), Some(segment)) = (&mut shared.acks, segment) {
                acks.noted(id, slot, &segment.piece(nth == 0));
            }
        }
        let tin = &mut self.tins[id.tin()];
        self.shared.account(tin, id, sum, 0);
        entered.add(sum);
        self.shared.tell_parent(1 - i64::from(entered.pieces), 0);
        tin.stats.max_pkt_len = tin.stats.max_pkt_len.max(entered.bytes);
        entered
    }

    /// `autorate-ingress`.
    #[inline]
    pub(super) fn follow_rate(&mut self, now: Instant, doomed: &mut impl FnMut(P, DropReason)) {
        let shared = &mut self.shared;
        if !shared.params.autorate_ingress {
            if C::CAKE_AUTORATE_STALE {
                shared.autorate.pass(now);
            }
        } else if let Some(rate) = shared.autorate.arrived::<C>(now) {
            self.set_rate(now, rate, doomed);
        }
    }

    /// One packet of the longest queue is lost, as memory is short since one has `arrived`, or since less is
    /// allowed. False when there is none.
    pub(super) fn lose_one(
        &mut self,
        now: Instant,
        arrived: Option<QueueId>,
        losses: &mut Losses,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> bool {
        let Some(victim) = self.longest(arrived, losses) else { return false };
        let (tin, shared) = (&mut self.tins[victim.tin()], &mut self.shared);
        let Some((packet, waiting)) = shared.take(tin, victim) else { return false };
        let flow = &mut tin.flows[victim.queue()];
        let turn = flow.aqm.on_overflow(&tin.aqm, now);
        flow.dropped = flow.dropped.wrapping_add(1);
        tin.stats.drops += 1;
        tin.note(turn);
        shared.counters.drops += 1;
        if shared.params.ingress {
            shared.charge_drop(tin, victim, waiting.adjusted, now);
        }
        if let Some(arrived) = arrived {
            let charged = if C::CAKE_OVERFLOW_CHARGES_ARRIVAL { arrived } else { victim };
            self.tins[charged.tin()].stats.drop_overlimit += 1;
        }
        losses.packets += 1;
        losses.bytes = losses.bytes.wrapping_add(waiting.len);
        doomed(packet, if arrived.is_some() { DropReason::Overflow } else { DropReason::Change });
        true
    }

    /// The queue to lose a packet; an empty one means that the heap was out of order.
    #[inline]
    fn longest(&mut self, arrived: Option<QueueId>, losses: &mut Losses) -> Option<QueueId> {
        for _ in 0..2 {
            let victim = self.shared.backlogs.longest()?;
            losses.own |= arrived == Some(victim);
            if !self.tins[victim.tin()].flows[victim.queue()].queue.is_empty() {
                return Some(victim);
            }
            self.shared.backlogs.disappointed();
        }
        None
    }
}

impl<P, C: Conformance> Shared<P, C> {
    /// One packet, cut or not by someone else: the ACK filter looks at it.
    #[inline]
    fn enqueue_whole(
        &mut self,
        tin: &mut Tin<C>,
        now: Instant,
        place: &Place,
        network: &[u8],
        piece: Piece<P>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Sum {
        let mut sum = Sum::default();
        let Some(slot) = self.append(tin, now, place, piece, &mut sum, doomed) else {
            return sum;
        };
        let removed = match self.acks {
            Some(_) => self.filter_acks(tin, now, place.id, slot, network, doomed),
            None => 0,
        };
        self.account(tin, place.id, sum, removed);
        sum
    }

    /// The DS field that a packet with `ds` leaves with, and whether it is another.
    #[inline]
    pub(super) fn leaves_with(&self, ds: DsField) -> (DsField, bool) {
        let is_washed = self.params.wash && ds.is_ip() && ds.dscp() != 0;
        (if is_washed { ds.washed() } else { ds }, is_washed)
    }

    /// Clocks stand still while nothing waits; late ones are brought up to `now`.
    #[inline]
    fn refresh_clocks(&mut self, tin: &mut Tin<C>, now: Instant) {
        if tin.stats.backlog_bytes != 0 {
            return;
        }
        tin.clock = tin.clock.max(now);
        if !self.is_empty() {
            return;
        }
        if self.clocks.next < now {
            self.clocks.next = now;
            self.clocks.failsafe = now;
        } else if self.clocks.is_blocked(now) {
            self.refuse();
        }
    }

    /// Puts one piece at the tail of its queue, and names its slot. The pool must have one: where it
    /// has none at all, the piece is lost.
    #[inline]
    fn append(
        &mut self,
        tin: &mut Tin<C>,
        now: Instant,
        place: &Place,
        mut piece: Piece<P>,
        sum: &mut Sum,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Option<u32> {
        let id = place.id;
        piece.adjusted = self.lengths.note::<P, C>(&self.params.overhead, &piece, place.network_offset);
        let waiting = Waiting::new(now, &piece, place.ds, place.rewrite);
        let queue = &mut tin.flows[id.queue()].queue;
        let slot = match self.slots.push(queue, piece.packet, waiting) {
            Ok(slot) => slot,
            Err(packet) => {
                self.counters.drops += 1;
                tin.stats.drops += 1;
                doomed(packet, DropReason::Overflow);
                return None;
            }
        };
        tin.stats.sent_packets += 1;
        sum.pieces += 1;
        sum.bytes = sum.bytes.wrapping_add(waiting.len);
        sum.adjusted = sum.adjusted.wrapping_add(waiting.adjusted);
        self.memory = self.memory.wrapping_add(waiting.truesize.into());
        Some(slot)
    }

    /// Enters what was queued, less the `removed` bytes of an ACK that gave way, into the accounts.
    #[inline]
    fn account(&mut self, tin: &mut Tin<C>, id: QueueId, sum: Sum, removed: u32) {
        let stats = &mut tin.stats;
        stats.sent_bytes += u64::from(sum.bytes);
        stats.backlog_bytes = stats.backlog_bytes.wrapping_add(sum.bytes).wrapping_sub(removed);
        if C::CAKE_AUTORATE_STALE || self.params.autorate_ingress {
            self.autorate.count(if C::CAKE_CAPACITY_UNADJUSTED { sum.bytes } else { sum.adjusted });
        }
        self.backlogs.arrived(id, sum.bytes, removed);
    }

    /// Lets the packet in `slot` push out an ACK before it. Returns the bytes of that.
    #[inline(never)] // without the filter, a packet would pay for its registers
    fn filter_acks(
        &mut self,
        tin: &mut Tin<C>,
        now: Instant,
        id: QueueId,
        slot: u32,
        network: &[u8],
        doomed: &mut impl FnMut(P, DropReason),
    ) -> u32 {
        let segment = Segment::parse(network);
        // Borrowed, not moved: a copy waits until all that was parsed has left the core (5 ns, Zen 4).
        let (Some(acks), Some(segment)) = (&mut self.acks, &segment) else { return 0 };
        let queue = &mut tin.flows[id.queue()].queue;
        let ahead = self.slots.ahead(queue, slot);
        let Some(old) = acks.arrived(self.params.ack_filter, id, slot, ahead, segment) else { return 0 };
        acks.left(old);
        let Some((packet, waiting)) = self.slots.remove(queue, old) else { return 0 };
        tin.stats.ack_drops += 1;
        self.counters.drops += 1;
        self.memory = self.memory.wrapping_sub(waiting.truesize.into());
        let counted = if C::CAKE_CAPACITY_UNADJUSTED { waiting.len } else { waiting.adjusted };
        self.autorate.uncount(counted);
        if self.params.ingress {
            self.charge_drop(tin, id, waiting.adjusted, now);
        }
        self.tell_parent(1, waiting.len.into());
        doomed(packet, DropReason::AckFilter);
        waiting.len
    }

    #[inline]
    fn is_over_memory(&self) -> bool {
        self.memory > self.memory_limit.into()
    }

    /// The verdict, and what the parent is told with it.
    #[inline]
    fn report(&mut self, losses: Losses, queued: Sum) -> Verdict {
        if queued.pieces == 0 {
            return Verdict::Dropped;
        }
        if losses.packets == 0 {
            return Verdict::Ok;
        }
        let (packets, bytes) = (i64::from(losses.packets), i64::from(losses.bytes));
        if losses.own {
            self.tell_parent(packets - 1, bytes - i64::from(queued.bytes));
            return Verdict::Congested;
        }
        self.tell_parent(packets, bytes);
        Verdict::Ok
    }
}

impl Place {
    #[inline]
    fn result(&self, verdict: Verdict) -> Enqueued {
        Enqueued { verdict, tin: self.id.tin() as u8, queue: self.id.queue() as u32 }
    }
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.pieces += other.pieces;
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.adjusted = self.adjusted.wrapping_add(other.adjusted);
    }
}

impl Lengths {
    pub(super) fn new<C: Conformance>() -> Self {
        let longest = if C::CAKE_LENGTHS_16 { u16::MAX.into() } else { u32::MAX };
        Self { min_net: longest, max_net: 0, min_adjusted: longest, max_adjusted: 0, offset: 0 }
    }

    /// Forgets the shortest and the longest.
    pub(super) fn restart<C: Conformance>(&mut self) {
        *self = Self { offset: self.offset, ..Self::new::<C>() };
    }

    /// The average offset of the network header, bytes.
    pub(super) fn network_offset(&self) -> u32 {
        self.offset.wrapping_add(1 << 15) >> 16
    }

    /// The length of `piece` as charged.
    #[inline]
    pub(super) fn note<P, C: Conformance>(
        &mut self,
        overhead: &Overhead,
        piece: &Piece<P>,
        offset: u16,
    ) -> u32 {
        let scaled = u32::from(offset) << 16;
        if self.offset == 0 && !C::CAKE_AVERAGES_FROM_ZERO {
            self.offset = scaled;
        } else if self.offset != scaled {
            self.offset = self.offset - (self.offset >> 8) + (scaled >> 8);
        }
        let width = if C::CAKE_LENGTHS_16 { u16::MAX.into() } else { u32::MAX };
        overhead.adjust(piece, offset, |net, adjusted| {
            self.min_net = self.min_net.min(net & width);
            self.max_net = self.max_net.max(net & width);
            self.min_adjusted = self.min_adjusted.min(adjusted & width);
            self.max_adjusted = self.max_adjusted.max(adjusted & width);
        })
    }
}
