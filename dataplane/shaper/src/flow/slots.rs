//! The slots that queued packets wait in, and the index-linked queues made of them.
//!
//! One pool serves all queues of a discipline: an array allocated once, a last-in first-out free
//! list (the slot freed last is the one still in cache) and `u32` links. A [`Queue`] is two
//! indices and belongs to exactly one pool; the pool cannot check that, its owner keeps both.
//! Slots are linked both ways, so that one can be taken out of the middle; a pop touches no slot
//! but its own. Every operation is O(1) and cannot fail except [`Slots::push`] on an exhausted pool, which
//! hands the piece back.

use crate::packet::{DsField, Piece};
use crate::time::Instant;
use alloc::vec::Vec;

/// What is known of a packet while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// When it was enqueued.
    pub enqueued: Instant,
    /// Length in bytes as the discipline counts it.
    pub len: u32,
    /// Length in bytes as the shaper charges it.
    pub adjusted: u32,
    /// Memory it occupies in bytes.
    pub truesize: u32,
    /// Segments it will become on the wire.
    pub segs: u16,
    /// The DS field it will leave with.
    pub ds: DsField,
    /// `ds` was changed since the packet came in.
    pub rewrite: bool,
}

/// A first-in first-out queue of slots. `Default` is the empty queue.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    head: u32,
    /// Meaningful only while `head` is not [`NIL`].
    tail: u32,
}

/// The pool.
#[derive(Debug)]
pub struct Slots<P> {
    slots: Vec<Slot<P>>,
    free: u32,
    used: usize,
}

/// A cache line of its own: on the line of another it would cost two misses where it is cold.
#[derive(Debug)]
#[repr(align(64))]
struct Slot<P> {
    packet: Option<P>,
    waiting: Waiting,
    next: u32,
    /// Meaningful only while this is not the head of its queue.
    prev: u32,
    /// Whatever the owner wants to find here.
    note: [u32; 4],
}

impl Waiting {
    /// The state of `piece`, enqueued `now`, that shall leave with `ds`.
    #[inline]
    pub fn new<P>(now: Instant, piece: &Piece<P>, ds: DsField, rewrite: bool) -> Self {
        Self {
            enqueued: now,
            len: piece.len(),
            adjusted: piece.adjusted,
            truesize: piece.truesize,
            segs: piece.segs,
            ds,
            rewrite,
        }
    }
}

impl Queue {
    /// No packet.
    pub const EMPTY: Self = Self { head: NIL, tail: NIL };

    /// Whether nothing waits here.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Whether exactly one packet waits here.
    #[inline]
    pub const fn is_single(&self) -> bool {
        self.head != NIL && self.head == self.tail
    }

    /// The slot at the head, valid until it is popped or removed.
    #[inline]
    pub const fn head(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.head) }
    }
}

impl Default for Queue {
    #[inline]
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<P> Slots<P> {
    /// A pool of `capacity` slots, at most 2^32 - 2. The only allocation; every page is touched.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.min(NIL as usize - 1);
        let mut slots = Vec::with_capacity(capacity);
        for index in 0..capacity {
            let next = if index + 1 < capacity { index as u32 + 1 } else { NIL };
            slots.push(Slot { packet: None, waiting: Waiting::default(), next, prev: NIL, note: [0; 4] });
        }
        Self { free: if capacity == 0 { NIL } else { 0 }, slots, used: 0 }
    }

    /// Memory of a pool of `capacity` slots, bytes.
    pub fn footprint(capacity: usize) -> usize {
        capacity * size_of::<Slot<P>>()
    }

    /// Slots in use.
    #[inline]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Slots in all.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Whether the next [`Slots::push`] must fail.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free == NIL
    }

    /// Appends a packet to `queue`, and names its slot.
    ///
    /// # Errors
    /// The packet itself, when no slot is free.
    #[inline]
    pub fn push(&mut self, queue: &mut Queue, packet: P, waiting: Waiting) -> Result<u32, P> {
        let index = self.free;
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return Err(packet);
        };
        self.free = slot.next;
        slot.packet = Some(packet);
        slot.waiting = waiting;
        slot.next = NIL;
        slot.prev = queue.tail;
        self.used += 1;
        if queue.head == NIL {
            queue.head = index;
        } else if let Some(last) = self.slots.get_mut(queue.tail as usize) {
            last.next = index;
        }
        queue.tail = index;
        Ok(index)
    }

    /// Removes the head of `queue`.
    #[inline]
    pub fn pop(&mut self, queue: &mut Queue) -> Option<(P, Waiting)> {
        let index = queue.head;
        let slot = self.slots.get_mut(index as usize)?;
        let packet = slot.packet.take()?;
        let waiting = slot.waiting;
        queue.head = slot.next;
        slot.next = self.free;
        self.free = index;
        self.used -= 1;
        Some((packet, waiting))
    }

    /// The slot ahead of slot `index` in `queue`; none for the head.
    #[inline]
    pub fn ahead(&self, queue: &Queue, index: u32) -> Option<u32> {
        if index == queue.head { None } else { self.slots.get(index as usize).map(|slot| slot.prev) }
    }

    /// Takes slot `index`, which must be one of `queue`'s, out of it.
    pub fn remove(&mut self, queue: &mut Queue, index: u32) -> Option<(P, Waiting)> {
        let Some(ahead) = self.ahead(queue, index) else {
            return self.pop(queue);
        };
        let slot = self.slots.get_mut(index as usize)?;
        let packet = slot.packet.take()?;
        let waiting = slot.waiting;
        let behind = core::mem::replace(&mut slot.next, self.free);
        self.free = index;
        self.used -= 1;
        self.slots.get_mut(ahead as usize)?.next = behind;
        match self.slots.get_mut(behind as usize) {
            Some(slot) => slot.prev = ahead,
            None => queue.tail = ahead,
        }
        Some((packet, waiting))
    }

    /// Appends all of `other` to `queue`.
    pub fn splice(&mut self, queue: &mut Queue, other: Queue) {
        if queue.head == NIL {
            *queue = other;
        } else if let Some(first) = self.slots.get_mut(other.head as usize) {
            first.prev = queue.tail;
            if let Some(last) = self.slots.get_mut(queue.tail as usize) {
                last.next = other.head;
            }
            queue.tail = other.tail;
        }
    }

    /// Moves the head of `from` to the tail of `to`. It keeps its slot.
    pub fn shift(&mut self, from: &mut Queue, to: &mut Queue) {
        let index = from.head;
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        from.head = core::mem::replace(&mut slot.next, NIL);
        self.splice(to, Queue { head: index, tail: index });
    }

    /// The packet at the head of `queue`, and what is known of it.
    pub fn peek(&self, queue: &Queue) -> Option<(&P, &Waiting)> {
        let slot = self.slots.get(queue.head as usize)?;
        slot.packet.as_ref().map(|packet| (packet, &slot.waiting))
    }

    /// Leaves a note with the packet in slot `index`. A packet that comes to wait bears that of another.
    pub fn note(&mut self, index: u32, note: [u32; 4]) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.note = note;
        }
    }

    /// The note that was left with the packet at the head of `queue`.
    pub fn noted(&self, queue: &Queue) -> Option<[u32; 4]> {
        self.slots.get(queue.head as usize).map(|slot| slot.note)
    }

    /// What waits in `queue`, from its head on.
    pub fn iter(&self, queue: &Queue) -> impl Iterator<Item = &Waiting> {
        let mut at = queue.head;
        core::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.next;
            Some(&slot.waiting)
        })
    }

    /// Whether a packet is in slot `index`.
    pub fn is_used(&self, index: u32) -> bool {
        self.slots.get(index as usize).is_some_and(|slot| slot.packet.is_some())
    }

    /// What is known of the packet at the head of `queue`.
    #[inline]
    pub fn head(&self, queue: &Queue) -> Option<&Waiting> {
        self.slots.get(queue.head as usize).map(|slot| &slot.waiting)
    }
}

/// No slot. The pool never grows to this index.
const NIL: u32 = u32::MAX;

/// One slot, with a pointer for a packet, fits a cache line with room for a discipline's own needs.
const _: () = assert!(size_of::<Slot<core::num::NonZeroU64>>() <= 64);

#[cfg(test)]
mod tests {
    use super::*;

    fn put(slots: &mut Slots<u32>, queue: &mut Queue, id: u32) -> Result<u32, u32> {
        slots.push(queue, id, Waiting { len: id, ..Waiting::default() })
    }

    #[test]
    fn two_queues_share_the_pool_and_keep_their_order() {
        let mut slots = Slots::new(4);
        let (mut a, mut b) = (Queue::default(), Queue::default());
        for id in 0..4 {
            let queue = if id % 2 == 0 { &mut a } else { &mut b };
            assert!(put(&mut slots, queue, id).is_ok());
        }
        assert_eq!(put(&mut slots, &mut a, 9), Err(9), "a full pool hands the packet back");
        assert!(slots.is_full());
        assert_eq!(slots.head(&b).map(|w| w.len), Some(1));
        assert_eq!(slots.pop(&mut b).map(|(id, _)| id), Some(1));
        assert!(put(&mut slots, &mut a, 9).is_ok());
        let mut order = alloc::vec::Vec::new();
        while let Some((id, _)) = slots.pop(&mut a) {
            order.push(id);
        }
        assert_eq!(order, [0, 2, 9]);
        assert_eq!(slots.pop(&mut b).map(|(id, _)| id), Some(3));
        assert!(a.is_empty() && b.is_empty());
        assert_eq!(slots.used(), 0);
    }

    #[test]
    fn a_slot_leaves_from_the_head_the_middle_and_the_tail() {
        let mut slots = Slots::new(5);
        let mut queue = Queue::default();
        let mut index = alloc::vec::Vec::new();
        for id in 0..5 {
            index.push(put(&mut slots, &mut queue, id).unwrap());
        }
        assert_eq!(slots.ahead(&queue, index[0]), None);
        assert_eq!(slots.ahead(&queue, index[3]), Some(index[2]));
        for (id, at) in [(2, index[2]), (4, index[4]), (0, index[0])] {
            assert_eq!(slots.remove(&mut queue, at).map(|(packet, _)| packet), Some(id));
        }
        assert_eq!(slots.used(), 2);
        assert!(put(&mut slots, &mut queue, 7).is_ok());
        let mut order = alloc::vec::Vec::new();
        while let Some((id, _)) = slots.pop(&mut queue) {
            order.push(id);
        }
        assert_eq!(order, [1, 3, 7]);
    }

    #[test]
    fn an_empty_pool_is_always_full() {
        let mut slots = Slots::new(0);
        let mut queue = Queue::default();
        assert_eq!(put(&mut slots, &mut queue, 1), Err(1));
        assert!(slots.pop(&mut queue).is_none());
        assert!(slots.head(&queue).is_none());
    }
}
