//! The receiving half of a direction: from the receive queue into an [`Egress`].
//!
//! An ordinary packet is queued, or lost and counted, in the turn in which it is received. A
//! super-packet is taken apart first; if that takes more than a turn's share of pieces, the rest of the
//! burst waits here, and nothing is received meanwhile.

use crate::change::DirectionChange;
use crate::classify::{self, Classifier, ETHERNET, Headers};
use crate::counters::{Counters, Loss, Losses, Tally};
use crate::egress::Egress;
use crate::frame;
use crate::split::offload::Offload;
use crate::split::{Build, MAX_PIECES, Merger, Outcome, PIECES_PER_TURN, Pieces, Policy};
use dpdk::mbuf::flags;
use dpdk::{Burst, Mbuf, MbufError, RxQueue};
use shaper::gso::{Ids, Refusal, Request};
use shaper::packet::Piece;
use shaper::time::Instant;

/// Takes packets in.
#[derive(Debug)]
pub(crate) struct Receiver {
    rx: RxQueue,
    inbox: Burst,
    /// Packets at the front of the in-box that have been counted as received.
    counted: usize,
    /// Which packets of the in-box, bit 0 the first, are to be cut with the same identification in all.
    fixed_ids: u64,
    classifier: Classifier,
    /// The egress port's MTU in bytes.
    mtu: u32,
    /// The egress port sends packets of several segments.
    multi_segs: bool,
    merger: Option<Box<Merger>>,
    pieces: Pieces,
    /// What may be left to the egress port, and how large pieces may be, in this turn.
    offload: Offload,
    policy: Policy,
    /// The super-packet that the turn's share of pieces did not suffice for.
    build: Option<Build>,
    /// Its pieces so far. Has room for [`MAX_PIECES`].
    built: Vec<Piece<Mbuf>>,
}

/// What a receiver is told once.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The egress port's MTU in bytes.
    pub(crate) mtu: u16,
    /// The egress port sends packets of several segments.
    pub(crate) multi_segs: bool,
    /// Merge what can be merged in each burst.
    pub(crate) gro: bool,
    /// Builds the pieces.
    pub(crate) pieces: Pieces,
    pub(crate) offload: Offload,
    pub(crate) policy: Policy,
}

/// What a turn works on.
struct Turn<'a> {
    now: Instant,
    egress: &'a mut Egress<Mbuf>,
    counters: &'a mut Counters,
    /// Pieces that may still be built.
    budget: usize,
}

impl Receiver {
    pub(crate) fn new(rx: RxQueue, classifier: Classifier, setup: Setup) -> Self {
        let Setup { mtu, multi_segs, gro, pieces, offload, policy } = setup;
        Self {
            rx,
            inbox: Burst::new(),
            counted: 0,
            fixed_ids: 0,
            classifier,
            mtu: mtu.into(),
            multi_segs,
            merger: gro.then(|| Box::new(Merger::new())),
            pieces,
            offload,
            policy,
            build: None,
            built: Vec::with_capacity(MAX_PIECES),
        }
    }

    pub(crate) fn into_queue(self) -> RxQueue {
        self.rx
    }

    /// What holds for this turn.
    #[inline]
    pub(crate) fn refresh(&mut self, policy: Policy, offload: Offload) {
        (self.policy, self.offload) = (policy, offload);
    }

    /// What reads frames.
    pub(crate) const fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// Reads and merges another way from now on. Until [`Receiver::finish`] what was read before is
    /// read too: packets that wait are found by it.
    pub(crate) fn begin(&mut self, change: &mut DirectionChange) {
        self.classifier.begin(change);
        if let Some(merger) = &mut change.merger {
            core::mem::swap(&mut self.merger, merger);
        }
    }

    /// Nothing waits any more that was read as before.
    pub(crate) fn finish(&mut self, change: &DirectionChange) {
        self.classifier.finish(change);
    }

    /// Whether nothing waits here.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.inbox.is_empty() && self.build.is_none()
    }

    /// What waits here.
    pub(crate) fn waiting(&self) -> Tally {
        let mut waiting = Tally::default();
        self.inbox.as_slice().iter().for_each(|packet| waiting.add(packet.pkt_len()));
        self.build.iter().for_each(|build| waiting.add(build.packet_len()));
        waiting
    }

    /// Gives up what waits here, and the buffers in reserve.
    pub(crate) fn flush(&mut self, loss: Loss, losses: &mut Losses) {
        self.built.clear();
        if let Some(build) = self.build.take() {
            losses.add(loss, build.packet_len());
        }
        self.inbox.drain().for_each(|packet| losses.add(loss, packet.pkt_len()));
        (self.counted, self.fixed_ids) = (0, 0);
        self.pieces.release();
    }

    /// Takes in one burst, or what was left of the last; returns how many packets were taken from the
    /// receive queue.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        egress: &mut Egress<Mbuf>,
        counters: &mut Counters,
    ) -> usize {
        let mut received = 0;
        if self.is_empty() {
            received = self.rx.burst(&mut self.inbox);
            if let Some(merger) = &mut self.merger {
                self.fixed_ids = merger.merge(&mut self.inbox, counters);
                self.counted = self.inbox.len();
            }
        }
        received + self.go_on(now, egress, counters)
    }

    /// Queues what was received before; returns how many super-packets it went on with.
    #[inline]
    pub(crate) fn go_on(
        &mut self,
        now: Instant,
        egress: &mut Egress<Mbuf>,
        counters: &mut Counters,
    ) -> usize {
        let mut turn = Turn { now, egress, counters, budget: PIECES_PER_TURN };
        let resumed = self.build.take();
        let went_on = usize::from(resumed.is_some());
        if let Some(build) = resumed {
            self.advance(build, &mut turn);
        }
        while turn.budget > 0
            && let Some(packet) = self.inbox.pop()
        {
            self.inbox.prefetch_header(2 * PREFETCH_AHEAD);
            self.inbox.prefetch(PREFETCH_AHEAD);
            self.admit(packet, &mut turn);
        }
        if !self.is_empty() {
            self.defer(turn.counters);
        }
        went_on
    }

    /// What is left waits for the next turn.
    #[cold]
    fn defer(&mut self, counters: &mut Counters) {
        counters.supers.deferred += 1;
        for packet in self.inbox.as_slice().iter().skip(self.counted) {
            counters.received.add(packet.pkt_len());
        }
        self.counted = self.inbox.len();
    }

    #[inline]
    fn admit(&mut self, mut packet: Mbuf, turn: &mut Turn<'_>) {
        let len = packet.pkt_len();
        let has_fixed_ids = self.fixed_ids & 1 != 0;
        self.fixed_ids >>= 1;
        match self.counted.checked_sub(1) {
            Some(left) => self.counted = left,
            None => turn.counters.received.add(len),
        }
        let ol_flags = packet.ol_flags();
        if ol_flags & (flags::RX_LRO | flags::TX_OFFLOADS) != 0
            || ol_flags & flags::RX_L4_CKSUM_NONE == flags::RX_L4_CKSUM_NONE
            || len > self.mtu + ETHERNET
        {
            let ids = if has_fixed_ids { Ids::Fixed } else { Ids::Increment };
            self.take_apart(packet, ids, turn);
        } else if self.multi_segs || packet.linearize().is_ok() {
            self.queue(packet, turn);
        } else {
            turn.counters.losses.add(Loss::Segments, len);
        }
    }

    #[inline(always)] // or every ordinary packet pays for the way of the others: 10 ns (Zen 4)
    fn queue(&self, packet: Mbuf, turn: &mut Turn<'_>) {
        let headers;
        let mut seen = self.classifier.classify(&packet);
        if seen.wants_headers {
            headers = Headers::read(&packet, seen.arrival.network_offset);
            seen.arrival.network = headers.as_slice();
        }
        let losses = &mut turn.counters.losses;
        let len = packet.pkt_len();
        let piece = Piece::single(packet, len, seen.truesize);
        let doomed = &mut |packet: Mbuf, reason| losses.add(Loss::Qdisc(reason), frame::wire_len(&packet));
        turn.egress.enqueue(turn.now, &seen.arrival, seen.is_control, piece, doomed);
    }

    /// A packet that is marked, or larger than the egress MTU, or without its checksum.
    #[inline(never)]
    fn take_apart(&mut self, mut packet: Mbuf, ids: Ids, turn: &mut Turn<'_>) {
        let ol_flags = packet.ol_flags();
        let is_marked = ol_flags & (flags::RX_LRO | flags::TX_TCP_SEG | flags::TX_UDP_SEG) != 0;
        let gso_size = if is_marked { packet.tx_offload().tso_segsz } else { 0 };
        let is_partial = ol_flags & flags::RX_L4_CKSUM_NONE == flags::RX_L4_CKSUM_NONE
            || ol_flags & flags::TX_L4_MASK != 0;
        // What the sender asked of a port is not asked of the next one.
        packet.set_ol_flags(ol_flags & !(flags::TX_OFFLOADS | flags::RX_LRO));
        let is_oversize = classify::mtu_len(&packet) > self.mtu;
        if gso_size == 0 && !is_partial && !is_oversize {
            return self.queue_as_it_is(packet, turn);
        }
        let mtu = self.mtu.min(self.pieces.max_len().saturating_sub(ETHERNET + TAGS));
        let request = Request { mtu, gso_size, ids };
        match Build::new(packet, request, &self.policy, &self.pieces) {
            Ok(build) => {
                if build.segs > 1 {
                    turn.counters.supers.received.add(build.packet_len());
                } else {
                    turn.counters.supers.completed += u64::from(is_partial);
                }
                self.advance(build, turn);
            }
            Err((packet, _)) if !is_oversize => self.queue_as_it_is(packet, turn),
            Err((packet, Refusal::Protocol)) => turn.counters.losses.add(Loss::Oversize, packet.pkt_len()),
            Err((packet, refusal)) => turn.counters.losses.add(Loss::Uncut(refusal), packet.pkt_len()),
        }
    }

    /// A packet of the slow way that takes no cutting.
    #[inline(never)]
    fn queue_as_it_is(&mut self, mut packet: Mbuf, turn: &mut Turn<'_>) {
        if self.multi_segs || packet.linearize().is_ok() {
            self.queue(packet, turn);
        } else {
            turn.counters.losses.add(Loss::Segments, packet.pkt_len());
        }
    }

    /// Builds pieces; queues them once all are there.
    #[inline(never)]
    fn advance(&mut self, build: Build, turn: &mut Turn<'_>) {
        let (len, pieces, wire, is_super) = (build.packet_len(), build.pieces, build.wire, build.segs > 1);
        match build.advance(&mut self.pieces, &self.offload, &mut turn.budget, &mut self.built) {
            Outcome::More(build) => self.build = Some(build),
            Outcome::Failed(error) => {
                self.built.clear();
                let loss = if error == MbufError::Exhausted { Loss::NoBuffer } else { Loss::Segments };
                turn.counters.losses.add(loss, len);
            }
            Outcome::Done => {
                turn.counters.added.packets += u64::from(pieces) - 1;
                turn.counters.added.bytes += u64::from(wire.saturating_sub(len));
                turn.counters.removed.bytes += u64::from(len.saturating_sub(wire));
                if is_super {
                    self.built.iter().for_each(|piece| turn.counters.supers.piece(piece.segs));
                }
                self.queue_pieces(turn);
            }
        }
    }

    fn queue_pieces(&mut self, turn: &mut Turn<'_>) {
        let Some(first) = self.built.first() else { return };
        let headers;
        let mut seen = self.classifier.classify(&first.packet);
        if seen.wants_headers {
            headers = Headers::read(&first.packet, seen.arrival.network_offset);
            seen.arrival.network = headers.as_slice();
        }
        let losses = &mut turn.counters.losses;
        let doomed = &mut |packet: Mbuf, reason| losses.add(Loss::Qdisc(reason), frame::wire_len(&packet));
        turn.egress.enqueue_cut(turn.now, &seen.arrival, self.built.drain(..), doomed);
    }
}

/// Frames between the one whose headers are being fetched and the one being classified: four
/// times some 30 ns of work hide one memory access.
const PREFETCH_AHEAD: usize = 4;

/// Bytes of two VLAN tags, which an MTU does not count.
const TAGS: u32 = 8;
