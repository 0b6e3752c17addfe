//! The byte backlog of every queue, and which of them is the longest: the one that loses a packet
//! when memory runs out.
//!
//! A binary heap over all queues of all tins. It is kept in order only for a while after an
//! overflow, so that a line that never overflows pays one add per packet; the next overflow after
//! that rebuilds it (some 10 ns per queue).
//!
//! Contract: [`Backlogs::arrived`] and [`Backlogs::taken`] are told of every change. Then
//! [`Backlogs::longest`] is the longest queue, or under faults 21 and 22 one that was. All
//! operations but the rebuild take at most log2(queues) steps.

use super::QUEUES;
use crate::conformance::Conformance;
use alloc::boxed::Box;
use core::marker::PhantomData;

/// A queue: tin and index in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueId(u16);

#[derive(Debug)]
pub(super) struct Backlogs<C> {
    /// Bytes, by queue.
    bytes: Box<[u32]>,
    /// Queues, roughly by falling backlog.
    heap: Box<[QueueId]>,
    /// Where in the heap a queue is.
    place: Box<[u16]>,
    /// Deliveries for which the heap is still kept in order.
    timer: u16,
    conformance: PhantomData<C>,
}

impl QueueId {
    #[inline]
    pub(super) const fn new(tin: usize, queue: usize) -> Self {
        Self((tin * QUEUES + queue) as u16)
    }

    #[inline]
    pub(super) const fn tin(self) -> usize {
        self.0 as usize / QUEUES
    }

    #[inline]
    pub(super) const fn queue(self) -> usize {
        self.0 as usize % QUEUES
    }

    #[inline]
    pub(super) const fn number(self) -> u64 {
        self.0 as u64
    }
}

impl<C: Conformance> Backlogs<C> {
    pub(super) fn new(tins: usize) -> Self {
        let queues = tins * QUEUES;
        let in_heap = |at: usize| QueueId::new(at % tins, at / tins);
        Self {
            bytes: (0..queues).map(|_| 0).collect(),
            heap: (0..queues).map(in_heap).collect(),
            place: (0..queues).map(|id| ((id % QUEUES) * tins + id / QUEUES) as u16).collect(),
            timer: 0,
            conformance: PhantomData,
        }
    }

    /// Bytes in `queue`.
    #[inline]
    pub(super) fn get(&self, queue: QueueId) -> u32 {
        self.bytes.get(queue.0 as usize).copied().unwrap_or(0)
    }

    /// `queue` grew by `added` bytes, while `removed` bytes left it in the same event.
    #[inline]
    pub(super) fn arrived(&mut self, queue: QueueId, added: u32, removed: u32) {
        self.add(queue, added.wrapping_sub(removed));
        if self.timer != 0 {
            self.sift_up(queue);
            if !C::CAKE_HEAP_UP_ONLY && removed > added {
                self.sift_down(queue);
            }
        }
    }

    /// `len` bytes left `queue`.
    #[inline]
    pub(super) fn taken(&mut self, queue: QueueId, len: u32) {
        self.add(queue, len.wrapping_neg());
        if self.timer != 0 {
            self.sift_down(queue);
        }
    }

    /// The queue to lose a packet. From here on the heap is kept in order for a while.
    pub(super) fn longest(&mut self) -> Option<QueueId> {
        if self.timer == 0 {
            for at in (0..self.heap.len() / 2).rev() {
                if let Some(&queue) = self.heap.get(at) {
                    self.sift_down(queue);
                }
            }
        }
        self.timer = KEPT_FOR;
        self.heap.first().copied()
    }

    /// The queue that [`Backlogs::longest`] named was empty: the heap has to be rebuilt.
    pub(super) fn disappointed(&mut self) {
        self.timer = 0;
    }

    /// A packet was delivered.
    #[inline]
    pub(super) fn delivered(&mut self) {
        self.timer = self.timer.saturating_sub(1);
    }

    #[inline]
    fn add(&mut self, queue: QueueId, bytes: u32) {
        if let Some(sum) = self.bytes.get_mut(queue.0 as usize) {
            *sum = sum.wrapping_add(bytes);
        }
    }

    /// Every queue has its place, and while order is kept none is above a longer one.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (at, queue) in self.heap.iter().enumerate() {
            assert_eq!(self.place_of(*queue), at);
            let is_kept = self.timer != 0 && !C::CAKE_HEAP_STALE_KEY && at > 0;
            assert!(!is_kept || self.get(self.heap[(at - 1) / 2]) >= self.get(*queue));
        }
    }

    fn sift_up(&mut self, queue: QueueId) {
        let key = self.get(queue);
        let mut at = self.place_of(queue);
        while at > 0 {
            let parent = (at - 1) / 2;
            let Some(above) = self.at(parent) else { return };
            if key <= self.get(above) {
                return;
            }
            self.put(at, above);
            self.put(parent, queue);
            at = parent;
        }
    }

    /// An entry moves only past longer ones, the left child before the right one of equal length.
    fn sift_down(&mut self, queue: QueueId) {
        let key = self.get(queue);
        let mut bar = key;
        let mut at = self.place_of(queue);
        loop {
            let mut longest = None;
            for child in [2 * at + 1, 2 * at + 2] {
                if let Some(id) = self.at(child)
                    && self.get(id) > bar
                {
                    bar = self.get(id);
                    longest = Some((child, id));
                }
            }
            let Some((child, id)) = longest else { return };
            self.put(at, id);
            self.put(child, queue);
            at = child;
            if !C::CAKE_HEAP_STALE_KEY {
                bar = key;
            }
        }
    }

    #[inline]
    fn at(&self, place: usize) -> Option<QueueId> {
        self.heap.get(place).copied()
    }

    #[inline]
    fn place_of(&self, queue: QueueId) -> usize {
        self.place.get(queue.0 as usize).copied().unwrap_or(0).into()
    }

    #[inline]
    fn put(&mut self, place: usize, queue: QueueId) {
        if let (Some(entry), Some(back)) = (self.heap.get_mut(place), self.place.get_mut(queue.0 as usize)) {
            *entry = queue;
            *back = place as u16;
        }
    }
}

/// Deliveries after an overflow for which another one is thought likely enough to keep order.
const KEPT_FOR: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Linux, Weir};
    use crate::rng::{Rng, SplitMix};
    use std::vec::Vec;

    /// How often the queue named longest was not, over a random walk of 40 queues.
    fn mistakes<C: Conformance>() -> usize {
        let mut rng = SplitMix::new(1, 2);
        let mut backlogs = Backlogs::<C>::new(2);
        let ids: Vec<QueueId> = (0..40).map(|i| QueueId::new(i % 2, i * 23 % QUEUES)).collect();
        let mut wrong = 0;
        for _ in 0..5_000 {
            let id = ids[rng.next_u16() as usize % ids.len()];
            let held = backlogs.get(id);
            match rng.next_u16() % 3 {
                0 => backlogs.arrived(id, 100 + u32::from(rng.next_u16() % 1400), 0),
                1 => backlogs.arrived(id, 40, held.min(u32::from(rng.next_u16() % 1000))),
                _ => backlogs.taken(id, held.min(1000)),
            }
            let longest = backlogs.longest().unwrap();
            let max = ids.iter().map(|&id| backlogs.get(id)).max().unwrap();
            wrong += usize::from(backlogs.get(longest) != max);
            let held = backlogs.get(longest);
            backlogs.taken(longest, held.min(300));
        }
        wrong
    }

    /// Faults 21 and 22.
    #[test]
    fn the_longest_queue_is_the_longest() {
        assert_eq!(mistakes::<Weir>(), 0);
        assert!(mistakes::<Linux>() > 100);
    }

    #[test]
    fn order_is_kept_for_a_while_and_then_found_again() {
        let mut backlogs = Backlogs::<Weir>::new(1);
        backlogs.arrived(QueueId::new(0, 5), 100, 0);
        assert_eq!(backlogs.longest(), Some(QueueId::new(0, 5)));
        for _ in 0..=u32::from(KEPT_FOR) {
            backlogs.delivered();
        }
        backlogs.arrived(QueueId::new(0, 6), 200, 0);
        assert_eq!(backlogs.longest(), Some(QueueId::new(0, 6)));
        backlogs.taken(QueueId::new(0, 6), 150);
        assert_eq!(backlogs.longest(), Some(QueueId::new(0, 5)));
    }
}
