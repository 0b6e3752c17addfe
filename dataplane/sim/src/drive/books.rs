//! What went in, what came out, what must be inside.

use super::Reached;
use shaper::packet::{Delivery, DropReason, DsField, Piece};
use shaper::time::Instant;
use std::collections::HashMap;
use std::ops::Range;

/// A packet that cannot be copied, as in production.
#[derive(Debug)]
pub(super) struct Token(u32);

/// A flow in a tin.
pub(super) type Flow = (u32, u8);

/// The account.
#[derive(Debug, Default)]
pub(super) struct Books {
    inside: HashMap<u32, Entry>,
    entered: u32,
    bytes: u64,
    memory: u64,
    /// Packets lost, by reason, and their bytes.
    lost: HashMap<DropReason, u64>,
    lost_bytes: u64,
    /// Packets delivered, per segment, and their bytes.
    sent: u64,
    sent_bytes: u64,
    /// Packets that left with a mark they did not come with.
    marked: u64,
    /// The last packet of each flow that left.
    last: HashMap<Flow, u32>,
}

#[derive(Debug)]
struct Entry {
    len: u32,
    truesize: u32,
    segs: u16,
    charge: u32,
    enqueued: Instant,
    ds: DsField,
    is_washed: bool,
    flow: Flow,
}

impl Books {
    /// A packet is about to be enqueued.
    pub(super) fn enter(
        &mut self,
        piece: &Piece<u32>,
        charge: u32,
        enqueued: Instant,
        ds: DsField,
        is_washed: bool,
    ) -> Token {
        let id = self.entered;
        self.entered += 1;
        let (len, truesize, segs) = (piece.len(), piece.truesize, piece.segs);
        self.bytes += u64::from(len);
        self.memory += u64::from(truesize);
        let flow = (0, 0);
        self.inside.insert(id, Entry { len, truesize, segs, charge, enqueued, ds, is_washed, flow });
        Token(id)
    }

    /// The packets were put into the queue of a flow.
    pub(super) fn place(&mut self, ids: Range<u32>, flow: Flow) {
        for id in ids {
            if let Some(entry) = self.inside.get_mut(&id) {
                entry.flow = flow;
            }
        }
    }

    /// A packet was doomed.
    pub(super) fn lose(&mut self, token: Token, reason: DropReason) {
        let len = self.take(&token).map_or(0, |entry| entry.len);
        *self.lost.entry(reason).or_default() += 1;
        self.lost_bytes += u64::from(len);
    }

    /// A packet was delivered.
    pub(super) fn leave(&mut self, sent: Delivery<Token>, is_ordered: bool) {
        let Some(entry) = self.take(&sent.packet) else { return };
        assert_eq!((sent.len, sent.segs, sent.enqueued), (entry.len, entry.segs, entry.enqueued));
        assert_eq!(sent.adjusted, entry.charge);
        assert_eq!(sent.rewrite, sent.ds != entry.ds, "{sent:?} {entry:?}");
        let washed = if entry.is_washed && entry.ds.is_ip() { entry.ds.washed() } else { entry.ds };
        if sent.ds != washed {
            assert!(entry.ds.can_mark(), "{sent:?} {entry:?}");
            assert_eq!(sent.ds, washed.marked());
            self.marked += 1;
        }
        self.sent += u64::from(sent.segs);
        self.sent_bytes += u64::from(sent.len);
        let last = self.last.insert(entry.flow, sent.packet.0);
        assert!(!is_ordered || last < Some(sent.packet.0), "{entry:?}: {last:?} was first, {sent:?}");
    }

    /// Packets may be in other queues now.
    pub(super) fn forget_order(&mut self) {
        self.last.clear();
    }

    /// The number of the next packet.
    pub(super) fn next_id(&self) -> u32 {
        self.entered
    }

    /// Packets inside.
    pub(super) fn waiting(&self) -> usize {
        self.inside.len()
    }

    /// Bytes inside.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory inside: bytes.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Packets lost for any of these reasons.
    pub(super) fn lost(&self, reasons: &[DropReason]) -> u64 {
        reasons.iter().filter_map(|reason| self.lost.get(reason)).sum()
    }

    /// Bytes lost.
    pub(super) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Packets, per segment, and bytes delivered.
    pub(super) fn sent(&self) -> (u64, u64) {
        (self.sent, self.sent_bytes)
    }

    /// Packets marked.
    pub(super) fn marked(&self) -> u64 {
        self.marked
    }

    /// All of it.
    pub(super) fn reached(self) -> Reached {
        Reached { sent: self.sent, marked: self.marked, lost: self.lost }
    }

    fn take(&mut self, token: &Token) -> Option<Entry> {
        let entry = self.inside.remove(&token.0);
        assert!(entry.is_some(), "{token:?} is not inside");
        if let Some(entry) = &entry {
            self.bytes -= u64::from(entry.len);
            self.memory -= u64::from(entry.truesize);
        }
        entry
    }
}
