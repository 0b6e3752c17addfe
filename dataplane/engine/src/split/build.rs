//! All pieces of one super-packet, before any of them is queued.

use crate::split::offload::Offload;
use crate::split::pieces::{Built, Pieces, gathered, head_of, wire_bytes};
use crate::split::{MAX_PIECES, Policy};
use dpdk::mbuf::flags;
use dpdk::{Burst, Mbuf, MbufError};
use shaper::gso::{Checksums, Plan, Refusal, Request};
use shaper::packet::Piece;
use shaper::wire::checksum::Sum;
use std::num::NonZeroU16;

/// A super-packet of which some pieces may be built.
#[derive(Debug)]
pub struct Build {
    packet: Mbuf,
    request: Request,
    per_piece: NonZeroU16,
    next: u16,
    /// Memory of all of it in bytes.
    truesize: u32,
    /// Segments it holds.
    pub segs: u16,
    /// Pieces it becomes.
    pub pieces: u16,
    /// Bytes of all its segments on the wire.
    pub wire: u32,
}

/// What became of an attempt to go on.
#[derive(Debug)]
pub enum Outcome {
    /// All pieces are built.
    Done,
    /// The turn's share is used up.
    More(Build),
    /// Buffers were short, or would have to be too many.
    Failed(MbufError),
}

impl Build {
    /// Plans the cuts.
    ///
    /// # Errors
    /// Why it cannot be cut, and the packet.
    pub fn new(
        packet: Mbuf,
        request: Request,
        policy: &Policy,
        pieces: &Pieces,
    ) -> Result<Self, (Mbuf, Refusal)> {
        let mut copy = head_of();
        let head = gathered(&packet, &mut copy);
        let plan = match Plan::new(head, packet.pkt_len(), &request) {
            Ok(plan) => plan,
            Err(refusal) => return Err((packet, refusal)),
        };
        let per_piece = match pieces.by_reference() && packet.nb_segs() <= MAX_BUFFERS {
            true => policy.segs_per_piece(&plan, request.ids),
            false => NonZeroU16::MIN,
        };
        let cut = plan.with_segs_per_piece(per_piece);
        let (segs, count, wire) = (plan.segs(), cut.pieces(), wire_bytes(&plan));
        if usize::from(count) > MAX_PIECES {
            return Err((packet, Refusal::TooManySegments));
        }
        if request.gso_size == 0 && segs > 1 && !is_intact(&packet, head, &plan) {
            return Err((packet, Refusal::Malformed));
        }
        let truesize = packet.truesize();
        Ok(Self { packet, request, per_piece, next: 0, truesize, segs, pieces: count, wire })
    }

    /// Bytes of the packet as it came.
    pub fn packet_len(&self) -> u32 {
        self.packet.pkt_len()
    }

    /// Builds as many pieces as `budget` allows, and takes them off it.
    pub fn advance(
        mut self,
        pieces: &mut Pieces,
        port: &Offload,
        budget: &mut usize,
        built: &mut Vec<Piece<Mbuf>>,
    ) -> Outcome {
        if self.pieces == 1 {
            match self.in_place(pieces, port) {
                Ok(piece) => {
                    built.push(piece);
                    *budget = budget.saturating_sub(1);
                    return Outcome::Done;
                }
                Err(build) => self = build,
            }
        }
        match self.some(pieces, port, budget, built) {
            Ok(next) if next == self.pieces => Outcome::Done,
            Ok(next) => Outcome::More(Self { next, ..self }),
            Err(error) => Outcome::Failed(error),
        }
    }

    fn some(
        &self,
        pieces: &mut Pieces,
        port: &Offload,
        budget: &mut usize,
        built: &mut Vec<Piece<Mbuf>>,
    ) -> Result<u16, MbufError> {
        let mut copy = head_of();
        let plan = self.plan(gathered(&self.packet, &mut copy)).ok_or(MbufError::NoRoom)?;
        let frame = plan.offload();
        let mut next = self.next;
        let Some(first) = plan.cut(next) else { return Ok(next) };
        let mut cursor = self.packet.cursor(first.payload.start);
        let share = u64::from(self.truesize) << 32;
        let per_byte = share / u64::from(plan.payload_len().max(1));
        while *budget > 0 && next < self.pieces {
            let (Built { packet, truesize }, cut) =
                pieces.build(&plan, frame.as_ref(), port, next, &mut cursor)?;
            let payload = u64::from(cut.payload.end - cut.payload.start);
            let shared = if pieces.by_reference() { ((payload * per_byte) >> 32) as u32 } else { 0 };
            built.push(cut.piece(packet, truesize + shared));
            next += 1;
            *budget -= 1;
        }
        Ok(next)
    }

    /// Makes the packet its own only piece, where its headers can be written as they lie.
    fn in_place(mut self, pieces: &Pieces, port: &Offload) -> Result<Piece<Mbuf>, Self> {
        let mut headers = head_of();
        let (cut, frame, len) = {
            let Some(plan) = self.plan(self.packet.head()) else { return Err(self) };
            let Some(cut) = plan.cut(0) else { return Err(self) };
            let frame = plan.offload().filter(|frame| cut.segs > 1 || port.completes(frame));
            let checksums = match frame {
                Some(_) => Checksums::Offload,
                None => Checksums::Software(sum_from(&self.packet, cut.payload.start)),
            };
            let Some(len) = plan.write(0, checksums, &mut headers) else { return Err(self) };
            (cut, frame, usize::from(len))
        };
        let fits =
            self.packet.pkt_len() == cut.frame_len && (self.packet.nb_segs() == 1 || pieces.by_reference());
        let place = self.packet.head_mut().filter(|_| fits).and_then(|head| head.get_mut(..len));
        let Some(place) = place else { return Err(self) };
        place.copy_from_slice(headers.get(..len).unwrap_or_default());
        match &frame {
            Some(frame) => port.mark(&mut self.packet, &cut, frame),
            None => self.packet.set_ol_flags(0),
        }
        Ok(cut.piece(self.packet, self.truesize))
    }

    fn plan<'a>(&self, head: &'a [u8]) -> Option<Plan<'a>> {
        let plan = Plan::new(head, self.packet.pkt_len(), &self.request).ok()?;
        Some(plan.with_segs_per_piece(self.per_piece))
    }
}

/// Most buffers of a packet of which pieces of several segments are made: with one for the headers they
/// are no more than are taken from the pool at once. 64 KiB take 33 of 2 KiB.
const MAX_BUFFERS: u16 = Burst::CAPACITY as u16 - 1;

/// Whether the checksums of an unmarked super-packet are right. Those of the pieces are new: without
/// this, what was damaged on the way here would leave as good. A frame with right checksums is its own
/// only piece, byte for byte.
fn is_intact(packet: &Mbuf, head: &[u8], plan: &Plan<'_>) -> bool {
    match packet.ol_flags() & flags::RX_L4_CKSUM_NONE {
        flags::RX_L4_CKSUM_GOOD | flags::RX_L4_CKSUM_NONE => return true,
        flags::RX_L4_CKSUM_BAD => return false,
        _ => {}
    }
    let whole = plan.with_segs_per_piece(NonZeroU16::MAX);
    let mut headers = head_of();
    let sum = Checksums::Software(sum_from(packet, u32::from(plan.header_len())));
    let written = whole.write(0, sum, &mut headers).map(usize::from);
    let written = written.and_then(|len| headers.get(..len).zip(head.get(..len)));
    whole.pieces() == 1 && written.is_some_and(|(written, read)| are_alike(written, read))
}

/// Whether headers are the same, where a checksum of 0 may also be written as 0xffff (RFC 1624): hosts
/// differ in that, once in 65536 packets.
fn are_alike(a: &[u8], b: &[u8]) -> bool {
    let is_zero = |word: &[u8]| matches!(word, [0, 0] | [0xff, 0xff]);
    let words = a.chunks(2).zip(b.chunks(2));
    a.len() == b.len() && words.into_iter().all(|(a, b)| a == b || (is_zero(a) && is_zero(b)))
}

/// Sum over the packet from an offset on.
fn sum_from(packet: &Mbuf, offset: u32) -> Sum {
    let (mut sum, mut at) = (Sum::default(), 0);
    let mut cursor = packet.cursor(offset);
    while let Some(chunk) = cursor.chunk(u32::MAX) {
        sum = sum.at(at, chunk);
        at += chunk.len();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::are_alike;

    #[test]
    fn either_zero_is_zero() {
        assert!(are_alike(&[1, 2, 0, 0, 5, 6], &[1, 2, 0xff, 0xff, 5, 6]));
        assert!(!are_alike(&[1, 2, 0, 0], &[1, 2, 0, 1]));
        assert!(!are_alike(&[1, 0, 0, 4], &[1, 0xff, 0xff, 4]), "not across words");
        assert!(!are_alike(&[1, 2], &[1, 2, 0, 0]));
    }
}
