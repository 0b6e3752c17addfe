//! Pieces of several segments on their way out: left to the port, or cut here.
//!
//! A piece is left to the port if the port cuts such frames and the piece takes no more than twice the
//! budget at the rate of now. Else it is cut, as far as the out-box has room; what remains waits here,
//! and nothing overtakes it. There is never more than one piece under way.
//!
//! What the driver's `tx_prepare` refuses is cut here too, and the port is asked for nothing like it
//! again.

use crate::counters::{Counters, Loss, Losses, Supers, Tally};
use crate::frame;
use crate::split::offload::Offload;
use crate::split::{Pieces, Policy, gathered, head_of, wire_bytes};
use dpdk::mbuf::flags;
use dpdk::{Burst, Mbuf, MbufError, TxQueue};
use shaper::gso::{Ids, Plan, Request};
use std::num::NonZeroU16;

/// Decides what becomes of marked packets, and cuts.
#[derive(Debug)]
pub(crate) struct LateCut {
    pieces: Pieces,
    offload: Offload,
    policy: Policy,
    /// The egress port's MTU in bytes.
    mtu: u32,
    cutting: Option<Cutting>,
    /// Packets that stood behind a frame that `tx_prepare` refused.
    held: Burst,
    /// Packets at the front of the out-box that `tx_prepare` has let pass.
    prepared: usize,
}

/// A piece that is being cut.
#[derive(Debug)]
struct Cutting {
    packet: Mbuf,
    request: Request,
    per_piece: NonZeroU16,
    next: u16,
    /// What of it has not gone to the out-box.
    left: Tally,
}

impl LateCut {
    pub(crate) const fn new(pieces: Pieces, mtu: u16, offload: Offload, policy: Policy) -> Self {
        let held = Burst::new();
        Self { pieces, offload, policy, mtu: mtu as u32, cutting: None, held, prepared: 0 }
    }

    /// What holds for this turn.
    #[inline]
    pub(crate) fn refresh(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// What is left to the port.
    #[inline]
    pub(crate) fn offload(&self) -> &Offload {
        &self.offload
    }

    /// Whether something waits here, which has to leave before anything else does.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.cutting.is_some() || !self.held.is_empty()
    }

    /// What waits here.
    pub(crate) fn waiting(&self) -> Tally {
        let mut waiting = self.cutting.as_ref().map_or_else(Tally::default, |cutting| cutting.left);
        self.held.as_slice().iter().for_each(|packet| waiting.add(frame::wire_len(packet)));
        waiting
    }

    /// Gives up what waits here, and the buffers in reserve.
    pub(crate) fn flush(&mut self, loss: Loss, losses: &mut Losses) {
        if let Some(cutting) = self.cutting.take() {
            losses.add_all(loss, cutting.left);
        }
        self.held.drain().for_each(|packet| losses.add(loss, frame::wire_len(&packet)));
        self.prepared = 0;
        self.pieces.release();
    }

    /// Passes a packet that may leave as it is, and keeps one that has to be cut.
    #[inline]
    pub(crate) fn pass(&mut self, packet: Mbuf, counters: &mut Counters) -> Option<Mbuf> {
        if !frame::asks_the_driver(&packet) { Some(packet) } else { self.judge(packet, counters) }
    }

    fn judge(&mut self, packet: Mbuf, counters: &mut Counters) -> Option<Mbuf> {
        let does = self.offload.does(packet.ol_flags());
        let Some(segments) = frame::segments(&packet) else {
            if does {
                counters.supers.checksum_offload += 1;
                return Some(packet);
            }
            self.cut(packet, NonZeroU16::MIN, counters);
            return None;
        };
        let Policy { split, line, limits } = self.policy;
        let wire_len = frame::wire_len(&packet);
        let fits = u32::from(segments.segs) <= u32::from(limits.max_segs.get())
            && packet.pkt_len() <= limits.max_len
            && u32::from(packet.nb_segs()) <= u32::from(self.offload.max_segs.get()) + 1;
        if does && fits && !split.must_recut(&line, segments.segs, wire_len) {
            counters.supers.tso.add(wire_len);
            return Some(packet);
        }
        let per_piece = match does {
            true => split.segs_per_piece(&line, segments.gso_size, segments.header_len, &limits),
            false => NonZeroU16::MIN,
        };
        counters.supers.late_cuts += 1;
        self.cut(packet, per_piece, counters);
        None
    }

    /// Starts to cut a packet.
    fn cut(&mut self, packet: Mbuf, per_piece: NonZeroU16, counters: &mut Counters) {
        let before = frame::wire_len(&packet);
        let gso_size = frame::segments(&packet).map_or(0, |segments| segments.gso_size);
        let request = Request { mtu: self.mtu, gso_size, ids: Ids::Increment };
        let mut copy = head_of();
        let plan = Plan::new(gathered(&packet, &mut copy), packet.pkt_len(), &request)
            .map(|plan| plan.with_segs_per_piece(per_piece));
        let left = match &plan {
            Ok(plan) => Tally { packets: plan.pieces().into(), bytes: wire_bytes(plan).into() },
            // It was planned once, and only its DS field has been written to since.
            Err(refusal) => return counters.losses.add(Loss::Uncut(*refusal), before),
        };
        counters.added.packets += left.packets - 1;
        counters.added.bytes += left.bytes.saturating_sub(before.into());
        counters.removed.bytes += u64::from(before).saturating_sub(left.bytes);
        self.cutting = Some(Cutting { packet, request, per_piece, next: 0, left });
    }

    /// Goes on with what waits here, as far as the out-box has room. Returns the bytes put there.
    pub(crate) fn emit(&mut self, outbox: &mut Burst, counters: &mut Counters) -> u64 {
        let mut bytes = 0;
        while outbox.room() > 0 {
            if let Some(cutting) = self.cutting.take() {
                let (left, done) = (cutting.left, self.go_on(cutting, outbox, counters));
                bytes += left.bytes - done.bytes;
                if self.cutting.is_some() {
                    break;
                }
            } else if let Some(packet) = self.held.pop() {
                if let Some(packet) = self.pass(packet, counters) {
                    bytes += u64::from(frame::wire_len(&packet));
                    // There is room: a packet handed back would be freed here, uncounted.
                    let _ = outbox.push(packet);
                }
            } else {
                break;
            }
        }
        bytes
    }

    /// Builds pieces of what is being cut, and returns what of it was not put into the out-box.
    fn go_on(&mut self, mut cutting: Cutting, outbox: &mut Burst, counters: &mut Counters) -> Tally {
        let error = self.build(&mut cutting, outbox, &mut counters.supers);
        let left = cutting.left;
        match error {
            None if left.packets == 0 => {}
            // The out-box is full, or empties and gives buffers back.
            None => self.cutting = Some(cutting),
            Some(MbufError::Exhausted) if !outbox.is_empty() => self.cutting = Some(cutting),
            Some(MbufError::Exhausted) => {
                counters.losses.add_all(Loss::NoBuffer, left);
                return left;
            }
            Some(_) => {
                counters.losses.add_all(Loss::Segments, left);
                return left;
            }
        }
        left
    }

    fn build(&mut self, cutting: &mut Cutting, outbox: &mut Burst, supers: &mut Supers) -> Option<MbufError> {
        let mut copy = head_of();
        let head = gathered(&cutting.packet, &mut copy);
        let Ok(plan) = Plan::new(head, cutting.packet.pkt_len(), &cutting.request) else {
            return Some(MbufError::NoRoom);
        };
        let plan = plan.with_segs_per_piece(cutting.per_piece);
        let frame = plan.offload();
        let start = plan.cut(cutting.next)?.payload.start;
        let mut cursor = cutting.packet.cursor(start);
        while outbox.room() > 0 && cutting.left.packets > 0 {
            match self.pieces.build(&plan, frame.as_ref(), &self.offload, cutting.next, &mut cursor) {
                Ok((built, _)) => {
                    cutting.next += 1;
                    cutting.left.packets -= 1;
                    let len = frame::wire_len(&built.packet);
                    cutting.left.bytes -= u64::from(len);
                    if frame::is_segmented(&built.packet) {
                        supers.tso.add(len);
                    } else {
                        supers.checksum_offload += u64::from(frame::asks_the_driver(&built.packet));
                    }
                    // There is room.
                    let _ = outbox.push(built.packet);
                }
                Err(error) => return Some(error),
            }
        }
        None
    }

    /// Shows what is new in the out-box to the driver where something is asked of it. Takes the frame
    /// that is refused, and what stands behind it, back out; returns their bytes.
    #[inline]
    pub(crate) fn prepare(&mut self, tx: &mut TxQueue, outbox: &mut Burst, counters: &mut Counters) -> u64 {
        let new = outbox.as_mut_slice().get_mut(self.prepared..).unwrap_or_default();
        if !new.iter().any(frame::asks_the_driver) {
            self.prepared = outbox.len();
            return 0;
        }
        let found = tx.prepare(new);
        if found.refused.is_none() {
            self.prepared = outbox.len();
            return 0;
        }
        self.prepared += found.ready;
        self.take_back(outbox, counters)
    }

    #[cold]
    fn take_back(&mut self, outbox: &mut Burst, counters: &mut Counters) -> u64 {
        let (keep, all) = (self.prepared, outbox.len());
        let mut bytes = 0;
        // Once around: what may be sent goes to the back, in order.
        for index in 0..all {
            let Some(packet) = outbox.pop() else { break };
            if index < keep {
                let _ = outbox.push(packet);
                continue;
            }
            bytes += u64::from(frame::wire_len(&packet));
            if index > keep {
                // There is room: the out-box is filled only while nothing is held.
                let _ = self.held.push(packet);
                continue;
            }
            counters.supers.prepare_refused += 1;
            if frame::asks_the_driver(&packet) {
                self.offload.give_up(packet.ol_flags());
                counters.supers.late_cuts += u64::from(packet.ol_flags() & flags::TX_TCP_SEG != 0);
                self.cut(packet, NonZeroU16::MIN, counters);
            } else {
                counters.losses.add(Loss::Refused, packet.pkt_len());
            }
        }
        bytes
    }

    /// The driver took, or gave up, this many packets from the front of the out-box.
    #[inline]
    pub(crate) fn gone(&mut self, packets: usize) {
        self.prepared = self.prepared.saturating_sub(packets);
    }
}
