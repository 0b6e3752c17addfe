//! One queue, first in, first out, with a packet and a byte limit and tail drop: what a plain ring
//! in front of a link does (tc-pfifo(8), tc-bfifo(8)). It is here to be compared with.

use super::ParamError;
use crate::flow::slots::{Queue, Slots, Waiting};
use crate::packet::{Arrival, Delivery, DropReason, Enqueued, Piece, Verdict};
use crate::time::Instant;

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Packets that may wait. Never more than the discipline has slots.
    pub limit: u32,
    /// Bytes that may wait, counted as [`Piece::len`].
    pub limit_bytes: u64,
}

/// Counters since creation; none of them is ever reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets lost, whatever the reason.
    pub drops: u64,
    /// Bytes of the packets lost.
    pub dropped_bytes: u64,
    /// Packets handed out, counted per segment on the wire.
    pub sent_pkts: u64,
    /// Bytes handed out.
    pub sent_bytes: u64,
    /// Packets that arrived at a full queue.
    pub drop_overlimit: u64,
    /// Packets a change of limits left no room for.
    pub drop_change: u64,
    /// Packets thrown away when the discipline was emptied.
    pub drop_flush: u64,
}

/// The discipline.
#[derive(Debug)]
pub struct Fifo<P> {
    params: Params,
    slots: Slots<P>,
    queue: Queue,
    backlog: u64,
    stats: Stats,
}

impl<P> Fifo<P> {
    /// An empty queue with room for `slots` packets, allocated here.
    pub fn new(params: &Params, slots: usize) -> Self {
        Self {
            params: *params,
            slots: Slots::new(slots),
            queue: Queue::default(),
            backlog: 0,
            stats: Stats::default(),
        }
    }

    /// Appends the pieces one by one; those that find the queue full are doomed as
    /// [`DropReason::OverLimit`]. The verdict is [`Verdict::Dropped`] only when none got in.
    pub fn enqueue(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        pieces: impl Iterator<Item = Piece<P>>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Enqueued {
        let (mut queued, mut lost) = (false, false);
        for piece in pieces {
            let waiting = Waiting::new(now, &piece, arrival.ds, false);
            match self.admit(piece.packet, waiting) {
                Ok(()) => queued = true,
                Err(packet) => {
                    lost = true;
                    self.stats.drop_overlimit += 1;
                    self.doom(packet, &waiting, DropReason::OverLimit, doomed);
                }
            }
        }
        let verdict = match (queued, lost) {
            (true, false) => Verdict::Ok,
            (true, true) => Verdict::Congested,
            (false, _) => Verdict::Dropped,
        };
        Enqueued { verdict, tin: 0, queue: 0 }
    }

    /// Hands out the packet that has waited longest.
    pub fn dequeue(&mut self, _now: Instant, _doomed: &mut impl FnMut(P, DropReason)) -> Option<Delivery<P>> {
        let (packet, waiting) = self.take()?;
        self.stats.sent_pkts += u64::from(waiting.segs);
        self.stats.sent_bytes += u64::from(waiting.len);
        Some(super::delivery(packet, &waiting))
    }

    /// Sets new limits. Packets that no longer fit are doomed from the head, the oldest first,
    /// as [`DropReason::Change`].
    ///
    /// # Errors
    /// None today; the signature is that of every discipline.
    pub fn change(
        &mut self,
        _now: Instant,
        params: &Params,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Result<(), ParamError> {
        self.begin(params);
        self.proceed(usize::MAX, doomed);
        Ok(())
    }

    /// The same, but leaves it to [`Fifo::proceed`] to drop what no longer fits.
    pub fn begin(&mut self, params: &Params) {
        self.params = *params;
    }

    /// Drops at most `most` of the packets that a lower limit has left no room for; says how many.
    pub fn proceed(&mut self, most: usize, doomed: &mut impl FnMut(P, DropReason)) -> usize {
        let mut dropped = 0;
        while dropped < most
            && self.is_trimming()
            && let Some((packet, waiting)) = self.take()
        {
            self.stats.drop_change += 1;
            self.doom(packet, &waiting, DropReason::Change, doomed);
            dropped += 1;
        }
        dropped
    }

    /// Whether a lower limit is not reached yet: call [`Fifo::proceed`].
    #[inline]
    pub fn is_trimming(&self) -> bool {
        self.len() > self.params.limit as usize || self.backlog > self.params.limit_bytes
    }

    /// Empties the queue; every packet is doomed as [`DropReason::Flush`].
    pub fn flush(&mut self, doomed: &mut impl FnMut(P, DropReason)) {
        while let Some((packet, waiting)) = self.take() {
            self.stats.drop_flush += 1;
            self.doom(packet, &waiting, DropReason::Flush, doomed);
        }
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.slots.used()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that wait.
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// The limits in force.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn admit(&mut self, packet: P, waiting: Waiting) -> Result<(), P> {
        let backlog = self.backlog + u64::from(waiting.len);
        if self.len() >= self.params.limit as usize || backlog > self.params.limit_bytes {
            return Err(packet);
        }
        self.slots.push(&mut self.queue, packet, waiting)?;
        self.backlog = backlog;
        Ok(())
    }

    fn take(&mut self) -> Option<(P, Waiting)> {
        let (packet, waiting) = self.slots.pop(&mut self.queue)?;
        self.backlog -= u64::from(waiting.len);
        Some((packet, waiting))
    }

    fn doom(
        &mut self,
        packet: P,
        waiting: &Waiting,
        reason: DropReason,
        doomed: &mut impl FnMut(P, DropReason),
    ) {
        self.stats.drops += 1;
        self.stats.dropped_bytes += u64::from(waiting.len);
        doomed(packet, reason);
    }
}

impl Default for Params {
    /// Linux's default transmit queue length, and no byte limit.
    fn default() -> Self {
        Self { limit: 1_000, limit_bytes: u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn put(fifo: &mut Fifo<u32>, id: u32, len: u32, lost: &mut Vec<(u32, DropReason)>) -> Verdict {
        let piece = core::iter::once(Piece::single(id, len, 2304));
        fifo.enqueue(Instant::ZERO, &Arrival::default(), piece, &mut |p, why| lost.push((p, why))).verdict
    }

    #[test]
    fn keeps_order_and_drops_at_the_tail() {
        let mut lost = Vec::new();
        let mut fifo = Fifo::new(&Params { limit: 3, limit_bytes: 400 }, 10);
        assert_eq!(put(&mut fifo, 1, 100, &mut lost), Verdict::Ok);
        assert_eq!(put(&mut fifo, 2, 200, &mut lost), Verdict::Ok);
        assert_eq!(put(&mut fifo, 3, 101, &mut lost), Verdict::Dropped, "byte limit");
        assert_eq!(put(&mut fifo, 4, 100, &mut lost), Verdict::Ok);
        assert_eq!(put(&mut fifo, 5, 0, &mut lost), Verdict::Dropped, "packet limit");
        assert_eq!((fifo.len(), fifo.backlog()), (3, 400));
        let order = core::iter::from_fn(|| fifo.dequeue(Instant::ZERO, &mut |_, _| ()));
        assert_eq!(order.map(|d| d.packet).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(lost, [(3, DropReason::OverLimit), (5, DropReason::OverLimit)]);
        let expected = Stats {
            drops: 2,
            dropped_bytes: 101,
            drop_overlimit: 2,
            sent_pkts: 3,
            sent_bytes: 400,
            ..Stats::default()
        };
        assert_eq!(*fifo.stats(), expected);
    }

    #[test]
    fn a_full_pool_is_a_packet_limit() {
        let mut lost = Vec::new();
        let mut fifo = Fifo::new(&Params::default(), 1);
        assert_eq!(put(&mut fifo, 1, 100, &mut lost), Verdict::Ok);
        assert_eq!(put(&mut fifo, 2, 100, &mut lost), Verdict::Dropped);
        assert_eq!(lost, [(2, DropReason::OverLimit)]);
        assert_eq!(fifo.backlog(), 100);
    }

    #[test]
    fn change_cuts_the_oldest_and_flush_the_rest() {
        let mut lost = Vec::new();
        let mut fifo = Fifo::new(&Params::default(), 10);
        for id in 0..5 {
            put(&mut fifo, id, 100, &mut lost);
        }
        let narrow = Params { limit: 4, limit_bytes: 250 };
        assert_eq!(fifo.change(Instant::ZERO, &narrow, &mut |p, why| lost.push((p, why))), Ok(()));
        fifo.flush(&mut |p, why| lost.push((p, why)));
        let change = (0..3).map(|id| (id, DropReason::Change));
        let flush = (3..5).map(|id| (id, DropReason::Flush));
        assert_eq!(lost, change.chain(flush).collect::<Vec<_>>());
        assert_eq!((fifo.stats().drops, fifo.stats().drop_change, fifo.stats().drop_flush), (5, 3, 2));
        assert!(fifo.is_empty());
    }
}
