//! The way down: split, discipline, limiter, card. One [`Port::turn`] is a turn of the loop.

use super::limiter::{Limit, Limiter};
use crate::net::packet::{FRAME, HEADERS, MSS};
use crate::net::sender::Train;
use crate::net::world::mix;
use crate::nic::{self, Frame, Left, Nic};
use shaper::gso::{Limits, Line, Split};
use shaper::packet::{Arrival, DropReason, DsField, Piece};
use shaper::qdisc::{self, ParamError, Qdisc};
use shaper::rng::SplitMix;
use shaper::time::Instant;
use shaper::units::Rate;
use std::collections::VecDeque;
use std::num::NonZeroU16;

/// What a port is made of.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The card and its wire.
    pub card: nic::Config,
    /// The discipline, unshaped.
    pub qdisc: qdisc::Params,
    /// What becomes of super-packets on their way in.
    pub split: Split,
    /// Who cuts what then still is larger than a segment.
    pub cutter: Cutter,
    /// What the card is given.
    pub limit: Limit,
    /// When a packet no longer counts as lying below its sender.
    pub release: Release,
}

/// Who cuts a piece of several segments that leaves the discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cutter {
    /// The card (TSO): it is given the whole piece.
    Card,
    /// The card: it is given as many segments as the limit has room for, and the rest later.
    CardByRoom,
    /// The loop: the card is given segment after segment.
    Loop,
}

/// `complete-on`: when who sent a packet is told that it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// When the card has told that it is complete.
    Completion,
    /// When the card was given it.
    Submit,
}

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

/// A frame that left the wire.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The truth about it.
    pub left: Left,
    /// What it was: of a train one segment.
    pub cargo: Cargo,
}

/// What went into the discipline and on to the card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Pieces.
    pub pieces: u64,
    /// Segments that they were or will be.
    pub segments: u64,
    /// Segments lost there.
    pub lost: u64,
    /// Frames that the card was given.
    pub frames: u64,
}

/// A port.
#[derive(Debug)]
pub struct Port {
    setup: Setup,
    qdisc: Qdisc<Cargo>,
    limiter: Limiter,
    nic: Nic,
    dice: SplitMix,
    inbox: VecDeque<Cargo>,
    /// The ring, or the limit, had no room for it.
    outbox: Option<Cargo>,
    /// In the ring, not on the wire yet; what has left of the first one, in segments.
    waiting: VecDeque<Cargo>,
    begun: u16,
    /// In the ring, not reaped yet, with their bytes on the wire.
    unreaped: VecDeque<(Cargo, u32)>,
    in_flight: u32,
    moved: Moved,
    /// No longer below its sender: see [`Release`]; or lost in the discipline.
    released: Vec<Cargo>,
    departures: Vec<Departure>,
}

impl Port {
    /// An idle port.
    ///
    /// # Errors
    /// Parameters of the discipline out of range.
    pub fn new(setup: Setup) -> Result<Self, ParamError> {
        Ok(Self {
            setup,
            qdisc: Qdisc::new(&setup.qdisc, SLOTS)?,
            limiter: Limiter::new(setup.limit, setup.card.ring),
            nic: Nic::new(setup.card),
            dice: SplitMix::new(1, 2),
            inbox: VecDeque::new(),
            outbox: None,
            waiting: VecDeque::new(),
            begun: 0,
            unreaped: VecDeque::new(),
            in_flight: 0,
            moved: Moved::default(),
            released: Vec::new(),
            departures: Vec::new(),
        })
    }

    /// Something is there to be taken in.
    pub fn arrive(&mut self, cargo: Cargo) {
        self.inbox.push_back(cargo);
    }

    /// One turn of the loop: reap, send what may be sent, take in what has come, send again.
    pub fn turn(&mut self, now: Instant) {
        self.reap(now);
        self.send(now);
        if !self.inbox.is_empty() {
            self.take_in(now);
            self.send(now);
        }
        if self.outbox.is_some() || !self.qdisc.is_empty() {
            self.limiter.held();
        }
    }

    /// The card becomes another.
    pub fn become_like(&mut self, now: Instant, card: nic::Config) {
        self.nic.become_like(now, card);
        self.setup.card = card;
    }

    /// What left the wire since the last call.
    pub fn departures(&mut self) -> std::vec::Drain<'_, Departure> {
        self.departures.drain(..)
    }

    /// What no longer lies below its sender since the last call.
    pub fn released(&mut self) -> std::vec::Drain<'_, Cargo> {
        self.released.drain(..)
    }

    /// Bytes that the card was given and has not told to be complete.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// What may be in flight.
    pub fn limit(&self) -> Option<u32> {
        self.limiter.limit()
    }

    /// What went through since the last call.
    pub fn moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// The card.
    pub fn card(&self) -> &nic::Config {
        &self.setup.card
    }

    fn reap(&mut self, now: Instant) {
        let reaped = self.nic.reap(now);
        self.limiter.completed(now, reaped);
        self.in_flight -= reaped.bytes;
        let mut bytes = reaped.bytes;
        while bytes > 0
            && let Some((cargo, len)) = self.unreaped.pop_front()
        {
            bytes -= len;
            if self.setup.release == Release::Completion {
                self.released.push(cargo);
            }
        }
        for left in self.nic.left() {
            let Some(cargo) = self.waiting.front().copied() else { break };
            let segments = cargo.segments();
            self.departures.push(Departure { left, cargo: cargo.segment(self.begun) });
            self.begun += 1;
            if self.begun >= segments {
                self.begun = 0;
                self.waiting.pop_front();
            }
        }
    }

    fn send(&mut self, now: Instant) {
        while self.limiter.ready() {
            let Some(cargo) = self.outbox.take().or_else(|| self.dequeue(now)) else { return };
            let (cargo, rest) = cargo.split_at(self.segments_at_once());
            let frame = Frame { bytes: cargo.wire_bytes(), descriptors: cargo.descriptors() };
            if self.nic.submit_train(now, frame, FRAME + GAP).is_err() {
                self.outbox = Some(cargo.joined_with(rest));
                return;
            }
            self.outbox = rest;
            self.limiter.queued(now, frame.bytes);
            self.in_flight += frame.bytes;
            self.moved.frames += 1;
            self.waiting.push_back(cargo);
            self.unreaped.push_back((cargo, frame.bytes));
            if self.setup.release == Release::Submit {
                self.released.push(cargo);
            }
        }
    }

    fn segments_at_once(&self) -> u16 {
        match self.setup.cutter {
            Cutter::Card => u16::MAX,
            Cutter::CardByRoom => (self.limiter.room() / (FRAME + GAP) + 1).min(u16::MAX.into()) as u16,
            Cutter::Loop => 1,
        }
    }

    fn dequeue(&mut self, now: Instant) -> Option<Cargo> {
        let (released, lost) = (&mut self.released, &mut self.moved.lost);
        let next = self.qdisc.dequeue(now, &mut self.dice, &mut |cargo, _| {
            *lost += u64::from(cargo.segments());
            released.push(cargo);
        })?;
        Some(Cargo { ds: next.ds, ..next.packet })
    }

    fn take_in(&mut self, now: Instant) {
        let rate = self.limiter.drain_rate().unwrap_or(self.setup.card.rate);
        let each = self.segments_per_piece(rate);
        while let Some(cargo) = self.inbox.pop_front() {
            let arrival = Arrival {
                flow_hash: mix(cargo.flow as u64),
                src_hash: mix(1 << 40),
                dst_hash: mix(1 << 41),
                ds: cargo.ds,
                network_offset: 14,
                len: cargo.frame_len(),
                ..Arrival::default()
            };
            self.moved.pieces += u64::from(cargo.segments().div_ceil(each));
            self.moved.segments += u64::from(cargo.segments());
            let (released, lost) = (&mut self.released, &mut self.moved.lost);
            let mut doomed = |cargo: Cargo, _: DropReason| {
                *lost += u64::from(cargo.segments());
                released.push(cargo);
            };
            self.qdisc.enqueue(now, &mut self.dice, &arrival, cargo.pieces(each), &mut doomed);
        }
    }

    fn segments_per_piece(&self, rate: Rate) -> u16 {
        let line = Line { rate: Some(rate), overhead: GAP as u16 };
        self.setup.split.segs_per_piece(&line, MSS as u16, HEADERS as u16, &LIMITS).get()
    }
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
    fn segment(self, begun: u16) -> Self {
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
    fn split_at(self, count: u16) -> (Self, Option<Self>) {
        let all = self.segments();
        if count >= all {
            return (self, None);
        }
        (self.part(0, count), Some(self.part(count, all - count)))
    }

    /// Undoes [`Cargo::split_at`].
    fn joined_with(self, rest: Option<Self>) -> Self {
        self.part(0, self.segments() + rest.map_or(0, |rest| rest.segments()))
    }

    /// Cut into pieces of `each` segments.
    fn pieces(self, each: u16) -> impl Iterator<Item = Piece<Self>> {
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
    fn frame_len(&self) -> u32 {
        match self.load {
            Load::Train(train) => HEADERS + u32::from(train.segments) * MSS,
            Load::Probe(len) => len,
        }
    }

    /// Bytes of the frames that it becomes, with preamble, FCS and gap.
    fn wire_bytes(&self) -> u32 {
        match self.load {
            Load::Train(train) => u32::from(train.segments) * (FRAME + GAP),
            Load::Probe(len) => (len + GAP).max(LEAST),
        }
    }

    /// One for each mbuf.
    fn descriptors(&self) -> u32 {
        self.frame_len().div_ceil(ROOM)
    }
}

/// What the card cuts: 64 KB, of any number of segments.
const LIMITS: Limits = Limits { max_segs: NonZeroU16::MAX, max_len: 65_549 };
/// Preamble, FCS and gap.
const GAP: u32 = 24;
/// A frame of 60 bytes on the wire.
const LEAST: u32 = 84;
/// Data room of an mbuf in bytes, and with its header.
const ROOM: u32 = 2_048;
const MBUF: u32 = 2_304;
/// More than a discipline holds by its own limits.
const SLOTS: usize = 12_000;
