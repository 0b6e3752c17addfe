//! Pieces of several segments on their way out: left to the port, or cut here.
//!
//! A piece is left to the port if the port cuts such frames and the piece takes no more than twice the
//! budget at the rate of now, and, into a ring that a governor keeps short, no more than a grain
//! ([`Split::grain`](shaper::gso::Split::grain)). Else it is cut, as far as the out-box has room and the
//! governor lets it; what remains waits here, and nothing overtakes it. There is never more than one piece
//! under way.
//!
//! What the driver's `tx_prepare` refuses is cut here too, and the port is asked for nothing like it
//! again.

use crate::counters::{Counters, Loss, Losses, Supers, Tally};
use crate::frame::{self, Segments};
use crate::gate::Budget;
use crate::outbox::{Outbox, Stamp};
use crate::split::offload::Offload;
use crate::split::{Pieces, Policy, gathered, head_of, wire_bytes};
use dpdk::{Mbuf, MbufError, TxQueue};
use shaper::gso::{Ids, Line, Plan, Request};
use shaper::units::Rate;
use std::num::NonZeroU16;

/// Decides what becomes of marked packets, and cuts.
#[derive(Debug)]
pub(crate) struct LateCut {
    pieces: Pieces,
    offload: Offload,
    policy: Policy,
    /// What the ring drains at, if a governor keeps it short.
    ring: Option<Rate>,
    /// The egress port's MTU in bytes.
    mtu: u32,
    cutting: Option<Cutting>,
    /// Packets that stood behind a frame that `tx_prepare` refused.
    held: Outbox,
    /// Packets at the front of the out-box that `tx_prepare` has let pass.
    prepared: usize,
}

/// A piece that is being cut.
#[derive(Debug)]
struct Cutting {
    packet: Mbuf,
    stamp: Stamp,
    request: Request,
    per_piece: NonZeroU16,
    next: u16,
    /// What of it has not gone to the out-box.
    left: Tally,
}

/// Room on the way out.
struct Room<'a> {
    outbox: &'a mut Outbox,
    bytes: u64,
    budget: Budget,
}

impl Room<'_> {
    /// Whether one more frame may go.
    #[inline]
    fn admits(&self) -> bool {
        let frames = self.outbox.len();
        self.outbox.room() > 0 && self.budget.admits(self.bytes, frames)
    }

    /// Puts it into the out-box; returns its bytes on the wire.
    #[inline]
    fn put(&mut self, packet: Mbuf, stamp: Stamp) -> u32 {
        let len = frame::wire_len(&packet);
        self.bytes += u64::from(len);
        // There is room: a packet handed back would be freed here, uncounted.
        let _ = self.outbox.push(packet, stamp);
        len
    }
}

impl LateCut {
    pub(crate) const fn new(pieces: Pieces, mtu: u16, offload: Offload, policy: Policy) -> Self {
        let held = Outbox::new();
        Self { pieces, offload, policy, ring: None, mtu: mtu as u32, cutting: None, held, prepared: 0 }
    }

    /// What holds for this turn.
    #[inline]
    pub(crate) fn refresh(&mut self, policy: Policy, ring: Option<Rate>) {
        self.policy = policy;
        self.ring = ring;
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
        while let Some((packet, _)) = self.held.pop() {
            losses.add(loss, frame::wire_len(&packet));
        }
        self.prepared = 0;
        self.pieces.release();
    }

    /// Passes a piece of several segments that may leave as it is, and keeps one that has to be cut.
    #[inline(never)]
    pub(crate) fn pass(&mut self, packet: Mbuf, stamp: Stamp, counters: &mut Counters) -> Option<Mbuf> {
        let Some(segments) = frame::segments(&packet) else { return Some(packet) };
        let does = self.offload.does(packet.ol_flags());
        let Policy { split, line, limits } = self.policy;
        let wire_len = frame::wire_len(&packet);
        let fits = u32::from(segments.segs) <= u32::from(limits.max_segs.get())
            && packet.pkt_len() <= limits.max_len
            && u32::from(packet.nb_segs()) <= u32::from(self.offload.max_segs.get()) + 1;
        let at_once = self.at_once(&segments);
        let small = segments.segs <= at_once.get() && !split.must_recut(&line, segments.segs, wire_len);
        if does && fits && small {
            counters.supers.tso.add(wire_len);
            return Some(packet);
        }
        let per_piece = match does {
            true => split.segs_per_piece(&line, segments.gso_size, segments.header_len, &limits).min(at_once),
            false => NonZeroU16::MIN,
        };
        counters.supers.late_cuts += 1;
        self.cut(packet, stamp, per_piece, counters);
        None
    }

    /// Most segments of a piece like this that the ring is given in one frame.
    #[inline]
    fn at_once(&self, piece: &Segments) -> NonZeroU16 {
        if self.ring.is_none() {
            return NonZeroU16::MAX;
        }
        let Policy { split, line, limits } = self.policy;
        let ring = Line { rate: self.ring, ..line };
        split.grain(&ring, piece.gso_size, piece.header_len, &limits)
    }

    /// Starts to cut a packet.
    fn cut(&mut self, packet: Mbuf, stamp: Stamp, per_piece: NonZeroU16, counters: &mut Counters) {
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
        self.cutting = Some(Cutting { packet, stamp, request, per_piece, next: 0, left });
    }

    /// Goes on with what waits here, as far as the out-box has room and the gate lets frames pass.
    /// `bytes` are those in the out-box; returns how many there are now.
    #[inline(never)]
    pub(crate) fn emit(
        &mut self,
        outbox: &mut Outbox,
        bytes: u64,
        budget: Budget,
        counters: &mut Counters,
    ) -> u64 {
        let mut room = Room { outbox, bytes, budget };
        while room.admits() {
            if let Some(cutting) = self.cutting.take() {
                self.go_on(cutting, &mut room, counters);
                if self.cutting.is_some() {
                    break;
                }
            } else if let Some((packet, stamp)) = self.held.pop() {
                if let Some(packet) = self.pass(packet, stamp, counters) {
                    room.put(packet, stamp);
                }
            } else {
                break;
            }
        }
        room.bytes
    }

    /// Builds pieces of what is being cut.
    fn go_on(&mut self, mut cutting: Cutting, room: &mut Room<'_>, counters: &mut Counters) {
        let loss = match self.build(&mut cutting, room, &mut counters.supers) {
            Ok(()) if cutting.left.packets == 0 => return,
            // The out-box is full, or empties and gives buffers back.
            Ok(()) => return self.cutting = Some(cutting),
            Err(MbufError::Exhausted) if !room.outbox.is_empty() => return self.cutting = Some(cutting),
            Err(MbufError::Exhausted) => Loss::NoBuffer,
            Err(_) => Loss::Segments,
        };
        counters.losses.add_all(loss, cutting.left);
    }

    fn build(
        &mut self,
        cutting: &mut Cutting,
        room: &mut Room<'_>,
        supers: &mut Supers,
    ) -> Result<(), MbufError> {
        let mut copy = head_of();
        let head = gathered(&cutting.packet, &mut copy);
        let plan =
            Plan::new(head, cutting.packet.pkt_len(), &cutting.request).map_err(|_| MbufError::NoRoom)?;
        let plan = plan.with_segs_per_piece(cutting.per_piece);
        let frame = plan.offload();
        let Some(next) = plan.cut(cutting.next) else { return Ok(()) };
        let mut cursor = cutting.packet.cursor(next.payload.start);
        while cutting.left.packets > 0 && room.admits() {
            let (built, _) =
                self.pieces.build(&plan, frame.as_ref(), &self.offload, cutting.next, &mut cursor)?;
            if frame::is_segmented(&built.packet) {
                supers.tso.add(frame::wire_len(&built.packet));
            }
            cutting.next += 1;
            cutting.left.packets -= 1;
            cutting.left.bytes -= u64::from(room.put(built.packet, cutting.stamp));
        }
        Ok(())
    }

    /// Shows what is new in the out-box to the driver where something is asked of it. Takes the frame
    /// that is refused, and what stands behind it, back out; returns their bytes.
    #[inline]
    pub(crate) fn prepare(&mut self, tx: &mut TxQueue, outbox: &mut Outbox, counters: &mut Counters) -> u64 {
        let new = outbox.burst().as_mut_slice().get_mut(self.prepared..).unwrap_or_default();
        if !new.iter().any(frame::asks_the_driver) {
            self.prepared = outbox.len();
            return 0;
        }
        self.show(tx, outbox, counters)
    }

    #[inline(never)]
    fn show(&mut self, tx: &mut TxQueue, outbox: &mut Outbox, counters: &mut Counters) -> u64 {
        let new = outbox.burst().as_mut_slice().get_mut(self.prepared..).unwrap_or_default();
        // What was queued before the port was given up.
        let end = new.iter().position(|packet| !self.offload.does(packet.ol_flags())).unwrap_or(new.len());
        let (asked, rest) = new.split_at_mut(end);
        let found = tx.prepare(asked);
        let ready = asked.get(..found.ready).unwrap_or_default();
        let completes = |packet: &&Mbuf| frame::asks_the_driver(packet) && !frame::is_segmented(packet);
        counters.supers.checksum_offload += ready.iter().filter(completes).count() as u64;
        self.prepared += found.ready;
        if found.refused.is_none() && rest.is_empty() {
            return 0;
        }
        if let Some(refused) = asked.get(found.ready) {
            counters.supers.prepare_refused += 1;
            self.offload.give_up(refused.ol_flags());
        }
        self.take_back(outbox, counters)
    }

    /// Takes the first frame that must not be sent as it is out of the out-box, to be cut, and all that
    /// stand behind it. If there is something here already, which they stand before, that one frame is
    /// given up instead: there are never two being cut, and nothing is overtaken.
    #[cold]
    fn take_back(&mut self, outbox: &mut Outbox, counters: &mut Counters) -> u64 {
        let (keep, all, is_busy) = (self.prepared, outbox.len(), self.is_busy());
        let mut bytes = 0;
        // Once around: what stays goes to the back, in order.
        for index in 0..all {
            let Some((packet, stamp)) = outbox.pop() else { break };
            if index < keep || index > keep && is_busy {
                let _ = outbox.push(packet, stamp);
                continue;
            }
            let len = frame::wire_len(&packet);
            bytes += u64::from(len);
            if index > keep {
                // There is room: an out-box full at most, while nothing is held.
                let _ = self.held.push(packet, stamp);
            } else if is_busy || !frame::asks_the_driver(&packet) {
                counters.losses.add(Loss::Refused, len);
            } else {
                counters.supers.late_cuts += u64::from(frame::is_segmented(&packet));
                self.cut(packet, stamp, NonZeroU16::MIN, counters);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PieceSum;
    use crate::split::offload::Sample;
    use dpdk::testing::eal;
    use dpdk::{Mempool, MempoolConfig};
    use shaper::gso::Split;
    use shaper::time::Instant;

    /// Of five frames the driver passes two and refuses the third, which is to be cut.
    #[test]
    fn a_refused_frame_is_cut_and_nothing_overtakes_it() {
        let eal = eal();
        let pool = |name: &str, data_room| {
            let config = MempoolConfig { cache: 0, data_room, ..MempoolConfig::new(name, 255) };
            Mempool::create(&eal, &config).unwrap()
        };
        let (data, pieces) = (pool("refused", 2_176), pool("refused-pieces", PieceSum::data_room(true)));
        let offload = Offload { tso_v4: true, tcp_checksum: true, ..Offload::NONE };
        let policy = Policy::new(Split::Never, None, &offload);
        let mut late = LateCut::new(Pieces::new(pieces.clone(), true), 1_500, offload, policy);
        let (mut outbox, mut counters) = (Outbox::new(), Counters::default());
        let samples = [Sample::TCP, Sample::TSO_V4, Sample::TSO_V4, Sample::TCP, Sample::TSO_V4];
        let stamp = |number| Stamp::new(Instant::from_nanos(number), 0);
        for (number, sample) in samples.into_iter().enumerate() {
            let stamp = stamp(number as u64);
            let packet = late.pass(sample.packet(&data).unwrap(), stamp, &mut counters).unwrap();
            outbox.push(packet, stamp).unwrap();
        }
        let len = |packet: &Mbuf| u64::from(frame::wire_len(packet));
        let all: u64 = outbox.as_slice().iter().map(len).sum();
        late.prepared = 2;
        late.offload.give_up(outbox.as_slice()[2].ol_flags());
        let taken_back = late.take_back(&mut outbox, &mut counters);
        assert_eq!((outbox.len(), late.waiting().packets), (2, 2 + 2), "two segments, and two behind");
        assert_eq!(late.waiting().bytes, taken_back);
        assert_eq!((counters.supers.late_cuts, counters.added.packets), (1, 1));
        assert!(!late.offload().segments() && late.offload().tcp_checksum);

        let bytes = late.emit(&mut outbox, all - taken_back, Budget::ALL, &mut counters);
        assert!(!late.is_busy());
        assert_eq!(bytes, all, "cut, the frames have the bytes that the piece was counted with");
        let lens: Vec<_> = outbox.as_slice().iter().map(Mbuf::pkt_len).collect();
        assert_eq!(lens, [154, 2_054, 1_054, 1_054, 154, 1_054, 1_054], "the last one is cut as well now");

        let stamps: Vec<_> = (0..outbox.len()).map(|index| outbox.stamp(index)).collect();
        assert_eq!(stamps, [0, 1, 2, 2, 3, 4, 4].map(stamp), "pieces have the stamp of what they were");

        // While something is cut, a frame that is refused is given up, and the others stay.
        late.cut(Sample::TSO_V4.packet(&data).unwrap(), Stamp::NONE, NonZeroU16::MIN, &mut counters);
        late.prepared = 6;
        assert_eq!(late.take_back(&mut outbox, &mut counters), 1_054);
        assert_eq!((outbox.len(), counters.losses.of(Loss::Refused).packets), (6, 1));
        outbox.burst().clear();
        late.flush(Loss::Stop, &mut counters.losses);
        assert_eq!((data.in_use(), pieces.in_use(), counters.losses.of(Loss::Stop).packets), (0, 0, 2));
    }
}
