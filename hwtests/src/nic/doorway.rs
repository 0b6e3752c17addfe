//! The part of a card's ring that is the port's own.

use std::collections::VecDeque;

use dpdk::{Burst, Mbuf, Ring};
use shaper::time::Instant;

/// Frames on their way into the card, each with the time at which it was first seen.
#[derive(Debug)]
pub(super) struct Doorway {
    /// The port sends into it.
    ring: Ring,
    /// Out of the ring, not in the card: as a rule none, else the first needs more descriptors than are free.
    door: Burst,
    /// Frames that ever came, and went on.
    came: u64,
    went: u64,
    /// Until which count they had come when, oldest first.
    seen: VecDeque<(u64, Instant)>,
}

impl Doorway {
    pub(super) fn new(ring: Ring) -> Self {
        Self {
            seen: VecDeque::with_capacity(ring.capacity() as usize),
            ring,
            door: Burst::new(),
            came: 0,
            went: 0,
        }
    }

    /// Notes what has come by `now`.
    pub(super) fn look(&mut self, now: Instant) {
        let came = self.went + u64::from(self.ring.len()) + self.door.len() as u64;
        if came > self.came {
            self.came = came;
            self.seen.push_back((came, now));
        }
    }

    /// The first frame, if `room` frames may be taken out of the ring.
    pub(super) fn first(&mut self, room: u32) -> Option<&Mbuf> {
        if self.door.is_empty() {
            self.ring.dequeue_up_to(&mut self.door, room as usize);
        }
        // Not those that came after the last look: they would have no time.
        self.door.as_slice().first().filter(|_| self.went < self.came)
    }

    /// Takes the first frame, if [`Doorway::first`] showed one.
    pub(super) fn take(&mut self) -> Option<(Instant, Mbuf)> {
        let (until, at) = *self.seen.front()?;
        let mbuf = self.door.pop()?;
        self.went += 1;
        if until == self.went {
            self.seen.pop_front();
        }
        Some((at, mbuf))
    }

    /// Frames in it.
    pub(super) fn len(&self) -> usize {
        self.ring.len() as usize + self.door.len()
    }
}
