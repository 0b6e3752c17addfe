//! What waits and travels: super-packets that can be cut, and probes.

use crate::net::packet::{FRAME, GAP, HEADERS, MSS};
use crate::net::sender::Train;
use shaper::packet::{DsField, Piece};
use shaper::time::Instant;

/// What waits and travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cargo {
    /// Number of the flow.
    pub flow: usize,
    /// DS field.
    pub ds: DsField,
    /// When it was sent.
    pub sent: Instant,
    /// What it is.
    pub load: Load,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Segments of a stream.
    Train(Train),
    /// A probe: a frame of so many bytes that is answered at once.
    Probe(u32),
}

impl Cargo {
    /// Frames that it becomes on the wire.
    pub fn segments(&self) -> u16 {
        match self.load {
            Load::Train(train) => train.segments,
            Load::Probe(_) => 1,
        }
    }

    /// The segment after `begun` others.
    pub(super) fn segment(self, begun: u16) -> Self {
        self.part(begun, 1)
    }

    /// `count` segments after `begun` others.
    fn part(self, begun: u16, count: u16) -> Self {
        let load = match self.load {
            Load::Train(train) => Load::Train(Train {
                first: train.first + u64::from(begun),
                segments: count,
                cwr: train.cwr && begun == 0,
            }),
            probe => probe,
        };
        Self { load, ..self }
    }

    /// The first `count` segments, and the others.
    pub(super) fn split_at(self, count: u16) -> (Self, Option<Self>) {
        let all = self.segments();
        if count >= all {
            return (self, None);
        }
        (self.part(0, count), Some(self.part(count, all - count)))
    }

    /// Undoes [`Cargo::split_at`].
    pub(super) fn joined_with(self, rest: Option<Self>) -> Self {
        self.part(0, self.segments() + rest.map_or(0, |rest| rest.segments()))
    }

    /// Cut into pieces of `each` segments.
    pub(super) fn pieces(self, each: u16) -> impl Iterator<Item = Piece<Self>> {
        let all = self.segments();
        (0..all).step_by(each.into()).map(move |begun| self.part(begun, each.min(all - begun)).piece())
    }

    fn piece(self) -> Piece<Self> {
        let segs = self.segments();
        let len = self.frame_len();
        let piece = Piece::single(self, len, len.div_ceil(ROOM) * MBUF);
        if segs == 1 {
            return piece;
        }
        let adjusted = len + u32::from(segs - 1) * HEADERS;
        Piece { segs, gso_size: MSS as u16, header_len: HEADERS as u16, adjusted, ..piece }
    }

    /// Bytes of the frame as it is.
    pub(super) fn frame_len(&self) -> u32 {
        match self.load {
            Load::Train(train) => HEADERS + u32::from(train.segments) * MSS,
            Load::Probe(len) => len,
        }
    }

    /// Bytes of the frames that it becomes, with preamble, FCS and gap.
    pub(super) fn wire_bytes(&self) -> u32 {
        match self.load {
            Load::Train(train) => u32::from(train.segments) * (FRAME + GAP),
            Load::Probe(len) => (len + GAP).max(LEAST),
        }
    }

    /// One for each mbuf.
    pub(super) fn descriptors(&self) -> u32 {
        self.frame_len().div_ceil(ROOM)
    }
}

/// A frame of 60 bytes on the wire.
const LEAST: u32 = 84;
/// Data room of an mbuf in bytes, and with its header.
const ROOM: u32 = 2_048;
const MBUF: u32 = 2_304;

#[cfg(test)]
mod tests {
    use super::*;

    fn train(first: u64, segments: u16, cwr: bool) -> Cargo {
        let load = Load::Train(Train { first, segments, cwr });
        Cargo { flow: 1, ds: DsField::ip(2), sent: Instant::ZERO, load }
    }

    #[test]
    fn pieces_are_the_whole() {
        let pieces: Vec<_> = train(7, 45, true).pieces(8).collect();
        let loads: Vec<_> = pieces.iter().map(|piece| piece.packet).collect();
        let (full, last) = (train(15, 8, false), train(47, 5, false));
        assert_eq!((loads.len(), loads[0], loads[1], loads[5]), (6, train(7, 8, true), full, last));
        let wire: u32 = loads.iter().map(Cargo::wire_bytes).sum();
        assert_eq!(wire, train(7, 45, true).wire_bytes());
        assert_eq!(pieces[0].len(), 8 * FRAME, "a discipline counts the headers of each segment");
        let (first, rest) = train(7, 8, true).split_at(3);
        assert_eq!((first, rest), (train(7, 3, true), Some(train(10, 5, false))));
        assert_eq!(first.joined_with(rest), train(7, 8, true));
        assert_eq!(first.split_at(3), (first, None));
    }
}
