//! Which packets lie in a transmit ring, and what is recorded when they leave it.
//!
//! One [`Stamp`] for each descriptor, by its number since creation as [`Completions`] counts them: the first
//! descriptor of a packet has the packet's, the others have none. So a completion, which tells of
//! descriptors, tells of packets, and what the driver did not take is overwritten when it is offered again.
//! Where nothing is to be recorded there are no stamps, and each call is a comparison.
//!
//! [`Completions`]: crate::completion::Completions

use crate::delays::{Cell, Recorder};
use crate::outbox::{Outbox, Stamp};
use shaper::time::{Duration, Instant};
use std::ops::Range;

/// What is in flight, packet by packet.
#[derive(Debug, Default)]
pub(crate) struct Flying {
    residence: Recorder,
    total: Recorder,
    /// By number of the descriptor, modulo their count, which is a power of two or 0.
    stamps: Box<[Stamp]>,
    unrecorded: u64,
}

impl Flying {
    /// Records by so many tins what passes through a ring of `ring` descriptors.
    pub(crate) fn new(tins: usize, ring: u16) -> Self {
        let stamps = (usize::from(ring) + BEYOND).next_power_of_two();
        Self {
            residence: Recorder::new(tins),
            total: Recorder::new(tins),
            stamps: vec![Stamp::NONE; stamps].into(),
            unrecorded: 0,
        }
    }

    /// All of the out-box is offered to the driver, its first descriptor as number `first`; those before
    /// `done` have left.
    #[inline]
    pub(crate) fn offer(&mut self, outbox: &Outbox, first: u64, done: u64) {
        if self.stamps.is_empty() {
            return;
        }
        let mut at = first;
        for (index, packet) in outbox.as_slice().iter().enumerate() {
            self.put(at, outbox.stamp(index));
            let end = at + u64::from(packet.nb_segs());
            (at + 1..end).for_each(|at| self.put(at, Stamp::NONE));
            at = end;
        }
        let room = done + self.stamps.len() as u64;
        if at > room {
            self.unrecorded += at - room.max(first);
        }
    }

    #[inline]
    fn put(&mut self, at: u64, stamp: Stamp) {
        let place = self.place(at);
        if let Some(place) = self.stamps.get_mut(place) {
            *place = stamp;
        }
    }

    /// These descriptors were seen complete `now`, `residence` after their hand-over; `offered` is the number
    /// of the next that will be offered.
    #[inline]
    pub(crate) fn landed(&mut self, now: Instant, seen: Range<u64>, offered: u64, residence: Duration) {
        if self.stamps.is_empty() {
            return;
        }
        let residence = Cell::of(residence);
        for at in self.kept(seen, offered) {
            let stamp = self.stamp(at);
            self.residence.add(stamp.tin(), residence, 1);
            self.total.record(stamp.tin(), stamp.age(now));
        }
    }

    /// Packets were handed over `now`, and no more will be seen of them.
    #[inline]
    pub(crate) fn gone(&mut self, now: Instant, stamps: impl Iterator<Item = Stamp>) {
        if self.stamps.is_empty() {
            return;
        }
        stamps.for_each(|stamp| self.total.record(stamp.tin(), stamp.age(now)));
    }

    /// Nobody will see these descriptors complete.
    #[cold]
    pub(crate) fn forget(&mut self, descriptors: Range<u64>, offered: u64) {
        let packets = self.kept(descriptors, offered).filter(|at| self.stamp(*at) != Stamp::NONE).count();
        self.unrecorded += packets as u64;
    }

    /// Packets that were in the ring and that no histogram has: their completion was not seen, or there were
    /// more than stamps, which counts descriptors.
    pub(crate) const fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Gives away what was recorded since the last time, in exchange for empty histograms.
    pub(crate) fn exchange(&mut self, residence: &mut Recorder, total: &mut Recorder) {
        std::mem::swap(&mut self.residence, residence);
        std::mem::swap(&mut self.total, total);
    }

    /// Those of `descriptors` whose stamps have not been overwritten: none if nothing is recorded.
    #[inline]
    fn kept(&self, descriptors: Range<u64>, offered: u64) -> Range<u64> {
        let first = offered.saturating_sub(self.stamps.len() as u64);
        descriptors.start.max(first)..descriptors.end
    }

    #[inline]
    fn stamp(&self, at: u64) -> Stamp {
        self.stamps.get(self.place(at)).copied().unwrap_or(Stamp::NONE)
    }

    #[inline]
    const fn place(&self, at: u64) -> usize {
        at as usize & self.stamps.len().wrapping_sub(1)
    }
}

/// Descriptors that may be in flight beyond those of the ring, as far as is known: two bursts.
const BEYOND: usize = 128;
