//! One flow queue, the lists that flows stand on, and the queue as CoDel sees it.

use super::Stats;
use super::longest::Longest;
use crate::codel::codel::{Candidate, Report, Source, Vars};
use crate::conformance::{Conformance, Weir};
use crate::flow::slots::{Queue, Slots};
use crate::packet::{Delivery, DropReason, DsField};
use crate::time::Instant;

/// One flow queue; its byte backlog is in [`Longest`]. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flow<C: Conformance> {
    pub(super) codel: Vars<C>,
    pub(super) queue: Queue,
    pub(super) qlen: u32,
    /// Bytes the flow may still send this round.
    pub(super) deficit: i32,
    /// The next flow on the same list.
    next: u32,
    pub(super) on: On,
}

/// The list a flow stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// None: it is idle.
    Neither,
    New,
    Old,
}

/// A first-in first-out list of flows, linked by their indices.
#[derive(Debug)]
pub(super) struct List {
    head: u32,
    /// Meaningful only while `head` is not [`NIL`].
    tail: u32,
    len: u32,
}

/// A packet on its way out, with what is still asked of it.
///
/// No bool and no padding: a value with a hole is moved piece by piece, and each move waits until the
/// pieces of the move before have left the core, 5 ns a time (Zen 4).
pub(super) struct Head<P> {
    packet: P,
    enqueued: Instant,
    pub(super) len: u32,
    adjusted: u32,
    pub(super) segs: u32,
    ds: DsField,
    /// The DS field it waited with.
    arrived: DsField,
}

/// A flow queue together with the totals of the discipline that its packets count in.
pub(super) struct Line<'a, P> {
    pub(super) index: u32,
    pub(super) queue: &'a mut Queue,
    pub(super) qlen: &'a mut u32,
    pub(super) slots: &'a mut Slots<P>,
    pub(super) longest: &'a mut Longest,
    pub(super) stats: &'a mut Stats,
}

/// A [`Line`] whose drops are CoDel's.
pub(super) struct CodelLine<'a, P, F> {
    pub(super) line: Line<'a, P>,
    pub(super) doomed: &'a mut F,
}

/// One flow, as `tc -s class show` would list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Index of the queue.
    pub queue: u32,
    /// Bytes it may still send this round.
    pub deficit: i32,
    /// Bytes that wait in it.
    pub backlog: u32,
    /// Packets that wait in it.
    pub qlen: u32,
    /// CoDel's view of it.
    pub codel: Report,
}

impl<P> Line<'_, P> {
    /// Removes the head and takes it out of all accounts.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Head<P>> {
        let (packet, waiting) = self.slots.pop(self.queue)?;
        *self.qlen -= 1;
        self.longest.sub(self.index, waiting.len);
        self.stats.backlog -= u64::from(waiting.len);
        self.stats.memory_usage -= u64::from(waiting.truesize);
        Some(Head {
            packet,
            enqueued: waiting.enqueued,
            len: waiting.len,
            adjusted: waiting.adjusted,
            segs: waiting.segs.into(),
            ds: waiting.ds,
            arrived: waiting.ds,
        })
    }

    /// Removes the head and dooms it; its length, or `None` when nothing waits.
    #[inline]
    pub(super) fn drop_head(
        &mut self,
        reason: DropReason,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Option<u32> {
        let head = self.take()?;
        let len = head.len;
        self.stats.lost(len, reason);
        doomed(head.packet, reason);
        Some(len)
    }
}

impl<P> Head<P> {
    /// What leaves.
    #[inline]
    pub(super) fn delivery(self) -> Delivery<P> {
        Delivery {
            packet: self.packet,
            len: self.len,
            adjusted: self.adjusted,
            segs: self.segs as u16,
            ds: self.ds,
            rewrite: self.ds != self.arrived,
            enqueued: self.enqueued,
            tin: 0,
        }
    }
}

impl<P, F: FnMut(P, DropReason)> Source for CodelLine<'_, P, F> {
    type Packet = Head<P>;

    #[inline]
    fn take(&mut self) -> Option<Head<P>> {
        self.line.take()
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.line.stats.backlog
    }

    fn doom(&mut self, head: Head<P>) {
        self.line.stats.lost(head.len, DropReason::Codel);
        self.line.stats.tell_parent(1, i64::from(head.len));
        (self.doomed)(head.packet, DropReason::Codel);
    }
}

impl<P> Candidate for Head<P> {
    #[inline]
    fn enqueued(&self) -> Instant {
        self.enqueued
    }

    #[inline]
    fn bytes(&self) -> u32 {
        self.len
    }

    #[inline]
    fn ds(&self) -> DsField {
        self.ds
    }

    #[inline]
    fn mark(&mut self) {
        self.ds = self.ds.marked();
    }
}

impl List {
    /// The first flow.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Appends a flow that stands on no list.
    #[inline]
    pub(super) fn push<C: Conformance>(&mut self, flows: &mut [Flow<C>], index: u32) {
        if let Some(flow) = flows.get_mut(index as usize) {
            flow.next = NIL;
        }
        if self.head == NIL {
            self.head = index;
        } else if let Some(last) = flows.get_mut(self.tail as usize) {
            last.next = index;
        }
        self.tail = index;
        self.len += 1;
    }

    /// Removes the first flow.
    #[inline]
    pub(super) fn pop<C: Conformance>(&mut self, flows: &[Flow<C>]) {
        if let Some(flow) = flows.get(self.head as usize) {
            self.head = flow.next;
            self.len -= 1;
        }
    }
}

#[cfg(test)]
impl List {
    /// The flows, first to last.
    pub(super) fn iter<C: Conformance>(&self, flows: &[Flow<C>]) -> impl Iterator<Item = u32> {
        core::iter::successors(self.first(), |&index| {
            Some(flows[index as usize].next).filter(|&next| next != NIL)
        })
    }
}

impl Default for List {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }
}

impl<C: Conformance> Default for Flow<C> {
    fn default() -> Self {
        Self {
            codel: Vars::default(),
            queue: Queue::default(),
            qlen: 0,
            deficit: 0,
            next: NIL,
            on: On::Neither,
        }
    }
}

/// No flow.
const NIL: u32 = u32::MAX;

const _: () = assert!(size_of::<Flow<Weir>>() == 64);
