//! What a card is given: frames in the transmit ring of its port.

use std::collections::VecDeque;

use anyhow::Result;
use dpdk::{Burst, Mbuf, Ring};
use shaper::time::Instant;

use super::guest::Guest;

/// Where frames come from.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one a card")]
pub(super) enum Source {
    /// The port is one of rings, and this is the ring that it sends into.
    Doorway(Doorway),
    /// The port is a guest's, and its memory is looked into.
    Guest(Guest),
}

impl Source {
    /// Notes what was sent by `now`. `false` if a guest has gone away, with all frames that it had sent.
    pub(super) fn look(&mut self, now: Instant) -> Result<bool> {
        match self {
            Self::Doorway(doorway) => doorway.look(now),
            Self::Guest(guest) => return guest.look(now),
        }
        Ok(true)
    }

    /// The first frame; `room` is how many more the card can hold.
    pub(super) fn first(&mut self, room: u32) -> Option<&Mbuf> {
        match self {
            Self::Doorway(doorway) => doorway.first(room),
            Self::Guest(guest) => guest.first(),
        }
    }

    /// Takes the first frame, if [`Source::first`] showed one, with the time at which it was seen.
    pub(super) fn take(&mut self) -> Option<(Instant, Mbuf)> {
        match self {
            Self::Doorway(doorway) => doorway.take(),
            Self::Guest(guest) => guest.take(),
        }
    }

    /// `count` more of the frames taken are complete, and will be dropped.
    pub(super) fn complete(&mut self, count: u32) {
        match self {
            // Dropping them is what their sender sees.
            Self::Doorway(_) => {}
            Self::Guest(guest) => guest.complete(count),
        }
    }

    /// Frames that are out of the port's ring and not taken.
    pub(super) fn at_door(&self) -> usize {
        match self {
            Self::Doorway(doorway) => doorway.door.len(),
            Self::Guest(_) => 0,
        }
    }

    /// Frames that were sent and not taken.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Doorway(doorway) => doorway.ring.len() as usize + doorway.door.len(),
            Self::Guest(guest) => guest.len(),
        }
    }
}

/// A port's own ring.
#[derive(Debug)]
pub(super) struct Doorway {
    ring: Ring,
    /// Out of the ring, not in the card: as a rule none, else the first needs more descriptors than are free.
    door: Burst,
    times: Times,
}

impl Doorway {
    pub(super) fn new(ring: Ring) -> Self {
        Self { times: Times::new(ring.capacity()), ring, door: Burst::new() }
    }

    pub(super) fn ring(&self) -> Ring {
        self.ring.clone()
    }

    fn look(&mut self, now: Instant) {
        self.times.waiting(now, u64::from(self.ring.len()) + self.door.len() as u64);
    }

    fn first(&mut self, room: u32) -> Option<&Mbuf> {
        if self.times.is_empty() {
            return None;
        }
        if self.door.is_empty() {
            self.ring.dequeue_up_to(&mut self.door, room as usize);
        }
        self.door.as_slice().first()
    }

    fn take(&mut self) -> Option<(Instant, Mbuf)> {
        let mbuf = self.door.pop()?;
        Some((self.times.next(), mbuf))
    }
}

/// When the frames that wait were first seen.
#[derive(Debug)]
pub(super) struct Times {
    /// Frames that ever came, and went on.
    came: u64,
    went: u64,
    /// Until which count they had come when, oldest first.
    seen: VecDeque<(u64, Instant)>,
}

impl Times {
    /// For up to `most` frames that wait.
    pub(super) fn new(most: u32) -> Self {
        Self { came: 0, went: 0, seen: VecDeque::with_capacity(most as usize) }
    }

    /// So many wait at `now`.
    pub(super) fn waiting(&mut self, now: Instant, count: u64) {
        let came = self.went + count;
        if came > self.came {
            self.came = came;
            self.seen.push_back((came, now));
        }
    }

    /// Whether all that were seen went on.
    pub(super) const fn is_empty(&self) -> bool {
        self.went >= self.came
    }

    /// One goes on: when it was seen.
    pub(super) fn next(&mut self) -> Instant {
        self.went += 1;
        let Some((until, at)) = self.seen.front().copied() else { return Instant::ZERO };
        if until <= self.went {
            self.seen.pop_front();
        }
        at
    }
}
