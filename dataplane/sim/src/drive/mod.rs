//! Any bytes as a configuration and a sequence of events for fq_codel or cake, with what must hold
//! after each of them. For fuzzing (`dataplane/sim/fuzz`), and for a smoke run in the tests.
//!
//! What must hold, whatever the configuration and the order of events:
//! * a packet is delivered, or doomed with a reason that its moment allows, once, or waits;
//! * packets and bytes in are those out, doomed, and waiting; the statistics say the same, and so
//!   does the count of a parent discipline that believes verdicts and corrections;
//! * what leaves is what came: length, charge, time of arrival, and a DS field that only a mark or a
//!   wash has changed;
//! * a discipline that holds packets and sends none says when it will, and then does;
//! * limits hold after each enqueue, and flows keep their order (where that is promised).
//!
//! Breaches panic.

mod books;
mod bytes;
mod cake;
mod fq_codel;

use crate::net::packet::{Ack, Body, Packet};
use books::{Books, Token};
use bytes::Bytes;
use shaper::conformance::{Linux, Weir};
use shaper::packet::{Arrival, Delivery, DropReason, DsField, Enqueued, Piece, Verdict};
use shaper::time::{Duration, Instant};
use std::collections::HashMap;

/// What an input came to.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// Packets delivered, counted per segment.
    pub sent: u64,
    /// Packets that left with a mark they did not come with.
    pub marked: u64,
    /// Packets lost, by reason.
    pub lost: HashMap<DropReason, u64>,
}

/// Runs what `input` says; the first byte chooses discipline and conformance.
///
/// # Panics
/// When something does not hold that must.
pub fn run(input: &[u8]) -> Reached {
    let mut bytes = Bytes::new(input);
    match bytes.below(4) {
        0 => Drive::new(cake::Subject::<Weir>::new(&mut bytes), bytes).run(),
        1 => Drive::new(cake::Subject::<Linux>::new(&mut bytes), bytes).run(),
        2 => Drive::new(fq_codel::Subject::<Weir>::new(&mut bytes), bytes).run(),
        _ => Drive::new(fq_codel::Subject::<Linux>::new(&mut bytes), bytes).run(),
    }
}

/// A discipline under test.
trait Subject {
    fn enqueue(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        pieces: Vec<Piece<Token>>,
        doomed: &mut dyn FnMut(Token, DropReason),
    ) -> Enqueued;
    fn dequeue(&mut self, now: Instant, doomed: &mut dyn FnMut(Token, DropReason))
    -> Option<Delivery<Token>>;
    /// Sets parameters that `bytes` choose.
    fn change(&mut self, now: Instant, bytes: &mut Bytes<'_>, doomed: &mut dyn FnMut(Token, DropReason));
    fn flush(&mut self, doomed: &mut dyn FnMut(Token, DropReason));
    fn next_wakeup(&self) -> Option<Instant>;
    fn len(&self) -> usize;
    fn backlog(&self) -> u64;
    /// What a piece is charged.
    fn charge(&self, piece: &Piece<u32>, network_offset: u16) -> u32;
    /// Whether the DSCP is cleared on the way out.
    fn washes(&self) -> bool;
    /// Whether packets of a flow leave in order, as long as there are no more than eight flows.
    fn keeps_order(&self) -> bool;
    /// Whether a packet may be lost for this reason in this call.
    fn may_lose(&self, call: Call, reason: DropReason) -> bool;
    /// How many packets a parent discipline counts for `pieces` that were queued.
    fn parent_counts(&self, pieces: u32) -> i64;
    /// Whether it is told of packets lost for this reason.
    fn tells_parent(&self, reason: DropReason) -> bool;
    /// How many of them it was told to subtract since.
    fn told_parent(&self) -> i64;
    /// What the statistics must say; looked at now and then.
    fn check_stats(&self, books: &Books);
    /// Limits, after an enqueue.
    fn check_limits(&self, books: &Books);
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Enqueue,
    Dequeue,
    Change,
    Flush,
}

struct Drive<'a, S> {
    subject: S,
    bytes: Bytes<'a>,
    books: Books,
    now: Instant,
    flows: u32,
    /// What a parent discipline counts as queued before corrections.
    parent: i64,
    /// Calls at the time that was asked for, since anything left or was lost: a change may have moved
    /// it once.
    disappointments: u32,
}

impl<'a, S: Subject> Drive<'a, S> {
    fn new(subject: S, mut bytes: Bytes<'a>) -> Self {
        let flows = [1, 2, 8, 40, 2_000][bytes.below(5) as usize];
        let now = Instant::from_nanos(bytes.span());
        Self { subject, bytes, books: Books::default(), now, flows, parent: 0, disappointments: 0 }
    }

    fn run(mut self) -> Reached {
        for step in 0..MOST_STEPS {
            if self.bytes.is_empty() {
                break;
            }
            self.step();
            self.check_counts();
            if step % 16 == 0 {
                self.subject.check_stats(&self.books);
            }
        }
        self.flush();
        self.check_counts();
        self.subject.check_stats(&self.books);
        assert_eq!(self.books.waiting(), 0, "a flush leaves nothing");
        self.books.reached()
    }

    fn step(&mut self) {
        match self.bytes.below(16) {
            0..6 => self.enqueue(1),
            6 => {
                let pieces = 2 + self.bytes.below(8);
                self.enqueue(pieces);
            }
            7 if self.bytes.below(4) == 0 => self.enqueue(0),
            8..12 => (0..=self.bytes.below(6)).for_each(|_| self.dequeue()),
            12 | 13 => self.now += Duration::from_nanos(self.bytes.span()),
            14 => self.wait_and_dequeue(),
            15 => match self.bytes.below(8) {
                0 => self.flush(),
                1..6 => self.change(),
                _ => (),
            },
            _ => (),
        }
    }

    fn enqueue(&mut self, count: u32) {
        let flow = self.bytes.wide() % self.flows;
        // Flows 0 to 9 share a set of the flow table when there are as many.
        let hash = if flow < 10 { flow * 1_024 } else { flow.wrapping_mul(0x9E37_79B9) };
        let ds = self.draw_ds();
        let network = self.draw_network(flow, ds);
        let offset = [14, 18, 0, 26][self.bytes.below(4) as usize];
        let arrival = Arrival {
            flow_hash: hash,
            src_hash: flow % 5 * 1_024,
            dst_hash: flow % 3,
            ds,
            dscp: None,
            is_arp: self.bytes.below(32) == 0,
            network_offset: offset,
            len: 1_514,
            mark: self.bytes.below(16),
            priority: [0, 0x8001_0001, 3][self.bytes.below(3) as usize],
            network: &network,
        };
        let mut pieces = Vec::new();
        for _ in 0..count {
            let piece = self.draw_piece();
            let charge = self.subject.charge(&piece, offset);
            let token = self.books.enter(&piece, charge, self.now, ds, self.subject.washes());
            pieces.push(piece_of(token, &piece));
        }
        let first = self.books.next_id() - count;
        let result =
            self.call(Call::Enqueue, |subject, now, doomed| subject.enqueue(now, &arrival, pieces, doomed));
        assert_eq!(result.verdict == Verdict::Dropped, count == 0, "{result:?}");
        if result.verdict == Verdict::Ok {
            self.parent += self.subject.parent_counts(count);
        }
        self.books.place(first..first + count, (hash, result.tin));
        if count > 0 {
            self.subject.check_limits(&self.books);
        }
    }

    fn dequeue(&mut self) {
        let is_due = self.subject.next_wakeup().is_some_and(|at| at <= self.now);
        let held = self.subject.len();
        let sent = self.call(Call::Dequeue, |subject, now, doomed| subject.dequeue(now, doomed));
        let is_ordered = self.flows <= 8 && self.subject.keeps_order();
        match sent {
            Some(sent) => {
                self.disappointments = 0;
                self.parent -= 1;
                self.books.leave(sent, is_ordered);
            }
            None if self.subject.len() > 0 => {
                let wakeup = self.subject.next_wakeup();
                assert!(wakeup.is_some_and(|at| at > self.now), "{held} packets, asked for {wakeup:?}");
                self.disappointments += u32::from(is_due);
                assert!(self.disappointments <= 1, "it was time, twice, and nothing came");
            }
            None => (),
        }
    }

    /// Waits as long as the discipline asks for.
    fn wait_and_dequeue(&mut self) {
        if let Some(at) = self.subject.next_wakeup() {
            self.now = self.now.max(at);
        }
        self.dequeue();
    }

    fn change(&mut self) {
        let mut bytes = self.bytes.clone();
        self.call(Call::Change, |subject, now, doomed| subject.change(now, &mut bytes, doomed));
        self.bytes = bytes;
        self.books.forget_order();
        self.disappointments = 0;
    }

    fn flush(&mut self) {
        self.call(Call::Flush, |subject, _, doomed| subject.flush(doomed));
    }

    /// Does something, and enters what it loses into the books.
    fn call<R>(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut S, Instant, &mut dyn FnMut(Token, DropReason)) -> R,
    ) -> R {
        let mut lost = Vec::new();
        let result = act(&mut self.subject, self.now, &mut |token, reason| lost.push((token, reason)));
        if !lost.is_empty() {
            // In ingress mode what is lost takes its time.
            self.disappointments = 0;
        }
        for (token, reason) in lost {
            assert!(self.subject.may_lose(call, reason), "{reason:?} in {call:?}");
            let is_told = self.subject.tells_parent(reason);
            self.parent -= i64::from(!is_told);
            self.books.lose(token, reason);
        }
        result
    }

    fn check_counts(&self) {
        assert_eq!(self.subject.len(), self.books.waiting());
        assert_eq!(self.subject.backlog(), self.books.bytes());
        assert_eq!(self.parent - self.subject.told_parent(), self.books.waiting() as i64, "a parent's count");
    }

    fn draw_ds(&mut self) -> DsField {
        match self.bytes.below(8) {
            0 => DsField::NONE,
            1 => DsField::ip(self.bytes.byte()),
            choice => DsField::ip([0, 2, 1, 3, 46 << 2 | 2, 8 << 2][choice as usize - 2]),
        }
    }

    fn draw_piece(&mut self) -> Piece<u32> {
        let len = match self.bytes.below(8) {
            0 => 14 + self.bytes.wide() % 70_000,
            choice => [60, 66, 300, 600, 1_514, 1_514, 9_000][choice as usize - 1],
        };
        let truesize = [768, 2_304, 1, 65_536][self.bytes.below(4) as usize];
        let mut piece = Piece::single(0, len, truesize);
        if len > 3_000 && self.bytes.below(2) == 0 {
            (piece.gso_size, piece.header_len) = (1_448, 66);
            piece.segs = len.saturating_sub(66).div_ceil(1_448) as u16;
        }
        piece
    }

    /// Headers of a TCP packet, whole, cut, or made up.
    fn draw_network(&mut self, flow: u32, ds: DsField) -> Vec<u8> {
        if self.bytes.below(2) == 0 {
            return Vec::new();
        }
        // Mostly more than the one before.
        let upto = u64::from(self.books.next_id() + self.bytes.below(4));
        let block = u64::from(self.bytes.below(8).saturating_sub(5));
        let ack = Ack {
            upto,
            blocks: [(upto + 2, upto + 2 + block), (0, 0), (0, 0)],
            ece: self.bytes.below(8) == 0,
            stamp: self.now,
            echo: Instant::ZERO,
        };
        let (len, sent) = (ack.frame_len(), self.now);
        let packet = Packet { flow: flow as usize, len, ds, sent, body: Body::Ack(ack) };
        let mut bytes = packet.headers().as_bytes().to_vec();
        match self.bytes.below(8) {
            0 => bytes.truncate(self.bytes.byte().into()),
            1 => {
                let at = usize::from(self.bytes.byte());
                let value = self.bytes.byte();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            _ => (),
        }
        bytes
    }
}

fn piece_of(token: Token, like: &Piece<u32>) -> Piece<Token> {
    Piece {
        packet: token,
        frame_len: like.frame_len,
        truesize: like.truesize,
        segs: like.segs,
        gso_size: like.gso_size,
        header_len: like.header_len,
        adjusted: like.adjusted,
    }
}

/// So that an input takes milliseconds.
const MOST_STEPS: usize = 4_000;
