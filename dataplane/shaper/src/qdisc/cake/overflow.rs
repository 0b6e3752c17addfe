//! The byte backlog of every queue, and which of them is the longest: the one that loses a packet
//! when memory runs out.
//!
//! A binary heap over all queues of all tins. It is kept in order only for a while after an
//! overflow, so that a line that never overflows pays one add per packet; the next overflow after
//! that rebuilds it (some 10 ns per queue).
//!
//! Contract: [`Backlogs::arrived`] and [`Backlogs::taken`] are told of every change. Then
//! [`Backlogs::longest`] is the longest queue, or under faults 21 and 22 one that was. A queue that
//! grows moves up at once; one that shrinks is looked at only when it has come to the top, so that a
//! dequeue costs nothing here. Each change is made up for by at most log2(queues) steps.

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
    /// Queues by falling key: no queue is longer than its key says, and the first is as long once
    /// it is asked for. (Under fault 21 keys are exact and the order is not.)
    heap: Box<[Entry]>,
    /// Where in the heap a queue is.
    place: Box<[u16]>,
    /// Deliveries for which the heap is still kept in order.
    timer: u16,
    conformance: PhantomData<C>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    queue: QueueId,
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
    /// Memory for the queues of a tin, bytes.
    pub(super) const FOOTPRINT: usize = QUEUES * (size_of::<u32>() + size_of::<Entry>() + size_of::<u16>());

    pub(super) fn new(tins: usize) -> Self {
        let queues = tins * QUEUES;
        let in_heap = |at: usize| Entry { key: 0, queue: QueueId::new(at % tins, at / tins) };
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
        let key = self.add(queue, added.wrapping_sub(removed));
        if self.timer != 0 {
            let at = self.place_of(queue);
            let is_above = |entry: &Entry| key > entry.key;
            if C::CAKE_HEAP_STALE_KEY || self.heap.get(at).is_some_and(is_above) {
                self.sift_up(at, Entry { key, queue });
            }
        }
    }

    /// `len` bytes left `queue`.
    #[inline]
    pub(super) fn taken(&mut self, queue: QueueId, len: u32) {
        let key = self.add(queue, len.wrapping_neg());
        if C::CAKE_HEAP_STALE_KEY && self.timer != 0 {
            self.sift_down(self.place_of(queue), Entry { key, queue });
        }
    }

    /// The queue to lose a packet. From here on the heap is kept in order for a while.
    pub(super) fn longest(&mut self) -> Option<QueueId> {
        if self.timer == 0 {
            self.rebuild();
        }
        self.timer = KEPT_FOR;
        let mut first = *self.heap.first()?;
        while !C::CAKE_HEAP_STALE_KEY && first.key != self.get(first.queue) {
            self.sift_down(0, Entry { key: self.get(first.queue), queue: first.queue });
            first = *self.heap.first()?;
        }
        Some(first.queue)
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

    #[cold]
    fn rebuild(&mut self) {
        for entry in &mut self.heap {
            entry.key = self.bytes.get(entry.queue.0 as usize).copied().unwrap_or(0);
        }
        for at in (0..self.heap.len() / 2).rev() {
            if let Some(&entry) = self.heap.get(at) {
                self.sift_down(at, entry);
            }
        }
    }

    /// The backlog after `bytes` more.
    #[inline]
    fn add(&mut self, queue: QueueId, bytes: u32) -> u32 {
        let Some(sum) = self.bytes.get_mut(queue.0 as usize) else { return 0 };
        *sum = sum.wrapping_add(bytes);
        *sum
    }

    /// Every queue has its place, and while order is kept none is above a longer one.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (at, entry) in self.heap.iter().enumerate() {
            assert_eq!(self.place_of(entry.queue), at);
            if self.timer != 0 && !C::CAKE_HEAP_STALE_KEY {
                assert!(entry.key >= self.get(entry.queue));
                assert!(at == 0 || self.heap[(at - 1) / 2].key >= entry.key);
            }
        }
    }

    /// Puts `entry`, whose place was `at`, where it belongs above.
    fn sift_up(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / 2;
            let Some(&above) = self.heap.get(parent).filter(|above| entry.key > above.key) else { break };
            self.put(at, above);
            at = parent;
        }
        self.put(at, entry);
    }

    /// Puts `entry`, whose place was `at`, where it belongs below: past longer ones only, the left
    /// child before the right one of equal length.
    fn sift_down(&mut self, mut at: usize, entry: Entry) {
        let mut bar = entry.key;
        while let Some((child, below)) = self.longer_child(at, bar) {
            self.put(at, below);
            at = child;
            if C::CAKE_HEAP_STALE_KEY {
                bar = below.key;
            }
        }
        self.put(at, entry);
    }

    #[inline]
    fn longer_child(&self, at: usize, bar: u32) -> Option<(usize, Entry)> {
        let left = 2 * at + 1;
        let (child, entry) = match self.heap.get(left..left + 2) {
            Some(&[one, other]) if other.key > one.key => (left + 1, other),
            Some(&[one, _]) => (left, one),
            _ => (left, *self.heap.get(left)?),
        };
        (entry.key > bar).then_some((child, entry))
    }

    #[inline]
    fn place_of(&self, queue: QueueId) -> usize {
        self.place.get(queue.0 as usize).copied().unwrap_or(0).into()
    }

    #[inline]
    fn put(&mut self, at: usize, entry: Entry) {
        if let (Some(place), Some(back)) = (self.heap.get_mut(at), self.place.get_mut(entry.queue.0 as usize))
        {
            *place = entry;
            *back = at as u16;
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

    /// Fault 22: an ACK filter makes the longest queue shorter, and another one is the longest.
    #[test]
    fn fault_22_a_queue_that_shrinks_sinks() {
        fn longest<C: Conformance>() -> Option<QueueId> {
            let mut backlogs = Backlogs::<C>::new(1);
            backlogs.arrived(QueueId::new(0, 0), 1_000, 0);
            backlogs.arrived(QueueId::new(0, 1), 800, 0);
            backlogs.longest();
            backlogs.arrived(QueueId::new(0, 0), 66, 900);
            backlogs.longest()
        }
        assert_eq!(longest::<Weir>(), Some(QueueId::new(0, 1)));
        assert_eq!(longest::<Linux>(), Some(QueueId::new(0, 0)));
    }

    #[test]
    fn faults_21_and_22_the_longest_queue_is_the_longest() {
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
