//! The way down: split, discipline, limiter, card. One [`Port::turn`] is a turn of the loop.

use super::cargo::Cargo;
use super::limiter::{Limit, Limiter};
use crate::net::packet::{FRAME, GAP, HEADERS, MSS};
use crate::net::world::mix;
use crate::nic::{self, Frame, Left, Nic};
use shaper::gso::{Limits, Line, Split};
use shaper::packet::{Arrival, DropReason};
use shaper::qdisc::{self, ParamError, Qdisc};
use shaper::rng::SplitMix;
use shaper::time::Instant;
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
    /// The card: it is given grain after grain ([`Split::grain`]).
    CardByGrain,
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

/// A frame that left the wire.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The truth about it.
    pub left: Left,
    /// What it was: of a train one segment.
    pub cargo: Cargo,
}

/// What went through since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Pieces that came to the discipline, that left it, and that it lost.
    pub pieces: u64,
    /// See `pieces`.
    pub left: u64,
    /// See `pieces`.
    pub doomed: u64,
    /// Segments of the pieces that were lost.
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

    /// What went through since the beginning.
    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// Pieces that came to the discipline and are neither there, nor left it, nor were lost: always 0.
    pub fn unaccounted(&self) -> i64 {
        let Moved { pieces, left, doomed, .. } = self.moved;
        pieces as i64 - left as i64 - doomed as i64 - self.qdisc.len() as i64
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
            if self.nic.submit_tso(now, frame, FRAME + GAP).is_err() {
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
            Cutter::CardByGrain => {
                self.setup.split.grain(&self.line(), MSS as u16, HEADERS as u16, &LIMITS).get()
            }
            Cutter::Loop => 1,
        }
    }

    fn dequeue(&mut self, now: Instant) -> Option<Cargo> {
        let mut doomed = doom(&mut self.released, &mut self.moved);
        let next = self.qdisc.dequeue(now, &mut self.dice, &mut doomed)?;
        drop(doomed);
        self.moved.left += 1;
        Some(Cargo { ds: next.ds, ..next.packet })
    }

    fn take_in(&mut self, now: Instant) {
        let line = self.line();
        let each = self.setup.split.segs_per_piece(&line, MSS as u16, HEADERS as u16, &LIMITS).get();
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
            let mut doomed = doom(&mut self.released, &mut self.moved);
            self.qdisc.enqueue(now, &mut self.dice, &arrival, cargo.pieces(each), &mut doomed);
        }
    }

    fn line(&self) -> Line {
        let rate = self.limiter.drain_rate().unwrap_or(self.setup.card.rate);
        Line { rate: Some(rate), overhead: GAP as u16 }
    }
}

impl Moved {
    /// What went through since it was `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            pieces: self.pieces - earlier.pieces,
            left: self.left - earlier.left,
            doomed: self.doomed - earlier.doomed,
            lost: self.lost - earlier.lost,
            frames: self.frames - earlier.frames,
        }
    }
}

/// Who is told of losses: what is lost lies below nobody.
fn doom<'a>(released: &'a mut Vec<Cargo>, moved: &'a mut Moved) -> impl FnMut(Cargo, DropReason) + 'a {
    |cargo, _| {
        moved.doomed += 1;
        moved.lost += u64::from(cargo.segments());
        released.push(cargo);
    }
}

/// What the card cuts: 64 KB, of any number of segments.
const LIMITS: Limits = Limits { max_segs: NonZeroU16::MAX, max_len: 65_549 };
/// More than a discipline holds by its own limits.
const SLOTS: usize = 12_000;
