//! Flow queues of a tin: their state, the sets and lists they are in, and how a packet finds its own.
//!
//! A queue is in one of the [`Set`]s, and on the list that the set says; a list is a ring of 16-bit
//! links in a table of its own (two dense bytes pairs per queue), so that moving a queue touches
//! none of its neighbours' state.

use super::QUEUES;
use crate::codel::cobalt;
use crate::conformance::Conformance;
use crate::flow::slots::Queue;
use alloc::boxed::Box;

/// What a visit of the scheduler needs to know of a queue: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    pub(super) aqm: cobalt::Vars,
    pub(super) queue: Queue,
    /// Bytes that may still be sent before the turn passes on.
    pub(super) deficit: i32,
    /// Packets dropped, ever.
    pub(super) dropped: u32,
    /// Entries in the tin's host tables.
    pub(super) src: u16,
    pub(super) dst: u16,
    pub(super) set: Set,
}

/// The life of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// Idle, on no list.
    None,
    /// In its first quantum, on the new list.
    Sparse,
    /// Used up its first quantum while empty; still counted as sparse, on the old list.
    SparseWait,
    /// Counted as bulk, also by its hosts; on the old list.
    Bulk,
    /// Empty, but its AQM still remembers; on the decaying list, or on the old one after a refill.
    Decaying,
}

/// The lists of a tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Sparse queues, served first.
    New = QUEUES as isize,
    /// All others that may hold packets.
    Old,
    /// Empty queues that are not at rest.
    Decaying,
}

/// Links of all lists of a tin: rings through the queues, each with a head of its own.
#[derive(Debug)]
pub(super) struct Lists {
    links: Box<[Link; NODES]>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u16,
    prev: u16,
}

impl Flow {
    pub(super) const fn new<C: Conformance>() -> Self {
        Self {
            aqm: cobalt::Vars::new::<C>(),
            queue: Queue::EMPTY,
            deficit: 0,
            dropped: 0,
            src: 0,
            dst: 0,
            set: Set::None,
        }
    }
}

impl Lists {
    /// Memory of the links of a tin, bytes.
    pub(super) const FOOTPRINT: usize = NODES * size_of::<Link>();

    pub(super) fn new() -> Self {
        let alone = |node: usize| Link { next: node as u16, prev: node as u16 };
        Self { links: Box::new(core::array::from_fn(alone)) }
    }

    /// The first queue of `list`.
    #[inline]
    pub(super) fn first(&self, list: List) -> Option<usize> {
        let next = self.links[list as usize].next as usize;
        if next < QUEUES { Some(next) } else { None }
    }

    /// Puts `queue`, which is on no list, at the tail of `list`.
    #[inline]
    pub(super) fn append(&mut self, list: List, queue: usize) {
        let tail = self.links[list as usize].prev;
        self.links[queue % NODES] = Link { next: list as u16, prev: tail };
        self.links[tail as usize % NODES].next = queue as u16;
        self.links[list as usize].prev = queue as u16;
    }

    /// Takes `queue` off the list it is on; none is fine too.
    #[inline]
    pub(super) fn remove(&mut self, queue: usize) {
        self.bridge(queue);
        self.links[queue % NODES] = Link { next: queue as u16, prev: queue as u16 };
    }

    /// Moves `queue` to the tail of `list`.
    #[inline]
    pub(super) fn requeue(&mut self, list: List, queue: usize) {
        self.bridge(queue);
        self.append(list, queue);
    }

    /// Links the neighbours of `queue` with each other.
    #[inline]
    fn bridge(&mut self, queue: usize) {
        let Link { next, prev } = self.links[queue % NODES];
        self.links[prev as usize % NODES].next = next;
        self.links[next as usize % NODES].prev = prev;
    }

    /// The queues of `list` from its head on.
    #[cfg(test)]
    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = usize> {
        let mut at = list as usize;
        core::iter::from_fn(move || {
            at = self.links[at].next as usize;
            (at < QUEUES).then_some(at)
        })
    }
}

/// Links: one per queue, three heads, and air up to a power of two, so that an index is brought
/// into range by a mask.
const NODES: usize = 2 * QUEUES;

const _: () = assert!(size_of::<Flow>() == 64);
const _: () = assert!(List::Decaying as usize == QUEUES + 2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn queues_move_between_lists() {
        let mut lists = Lists::new();
        let on = |lists: &Lists, list| lists.iter(list).collect::<Vec<_>>();
        for queue in [5, 1023, 0, 7] {
            lists.append(List::New, queue);
        }
        lists.requeue(List::Old, 1023);
        lists.requeue(List::Old, 7);
        lists.remove(5);
        lists.remove(5);
        assert_eq!(on(&lists, List::New), [0]);
        assert_eq!(on(&lists, List::Old), [1023, 7]);
        lists.requeue(List::Old, 1023);
        assert_eq!(on(&lists, List::Old), [7, 1023]);
        assert_eq!((lists.first(List::Old), lists.first(List::Decaying)), (Some(7), None));
    }
}
