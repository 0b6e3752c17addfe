//! What has left a transmit ring, as far as its driver lets it be known.
//!
//! Contract, whatever the source: frames are offered in order, some of them marked; the driver takes
//! the first of them; a mark that is seen complete tells the same of everything before it, since a
//! queue completes in order. What is in flight is what was taken less what was completed, and comes
//! to zero when all marks are complete: the last frame of a burst is always marked, and what a driver
//! took of a burst beyond the last mark is covered by the next one, or by [`Completions::settle`].
//!
//! * [`source`]: how a mark is seen, and how a driver is made to look.
//! * [`drivers`]: which of it is true of which driver.
//! * [`watch`]: whether it goes on being true.

pub mod drivers;
pub mod source;
pub mod watch;

use crate::frame;
use dpdk::Mbuf;
use shaper::time::{Duration, Instant};
use source::{Device, Handle, Nudge, Source};
use std::collections::VecDeque;

/// The frames in flight in one transmit queue. `H` sees a frame complete, where frames are held.
#[derive(Debug)]
pub struct Completions<H> {
    source: Source,
    nudge: Nudge,
    /// Descriptors of the ring.
    ring: u16,
    /// Oldest first; never longer than its capacity.
    marks: VecDeque<Mark<H>>,
    offered: Amount,
    done: Amount,
    /// When a wire that sends at the rate in `pace` would have sent all marked frames.
    wire: Instant,
    /// Bytes per second; 0: not known.
    pace: u64,
}

/// Bytes on the wire and descriptors; totals since creation, or what lies between two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// Descriptors.
    pub descriptors: u64,
}

/// A frame whose completion is looked for, and everything before it.
#[derive(Debug)]
struct Mark<H> {
    handle: Option<H>,
    /// Totals with this frame.
    end: Amount,
    submitted: Instant,
    due: Instant,
}

/// One mark that was seen complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// From the mark before to this one.
    pub amount: Amount,
    /// From submission until it was seen.
    pub residence: Duration,
    /// How much later it was seen than a wire of the measured rate would have sent it; `None` while no
    /// rate is known.
    pub lateness: Option<Duration>,
}

impl<H: Handle> Completions<H> {
    /// Nothing in flight in a ring of `ring` descriptors.
    pub fn new(source: Source, nudge: Nudge, ring: u16) -> Self {
        Self {
            source,
            nudge,
            ring: ring.max(1),
            marks: VecDeque::with_capacity(usize::from(ring.max(1))),
            offered: Amount::default(),
            done: Amount::default(),
            wire: Instant::ZERO,
            pace: 0,
        }
    }

    /// How a mark is seen.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// How the driver is made to look.
    pub const fn nudge(&self) -> Nudge {
        self.nudge
    }

    /// Between bursts: what the driver has taken and has not been seen complete.
    #[inline]
    pub fn in_flight(&self) -> Amount {
        self.offered.since(self.done)
    }

    /// What has left, in all.
    #[inline]
    pub const fn done(&self) -> Amount {
        self.done
    }

    /// What was taken, in all; while a burst is offered, what was offered.
    #[inline]
    pub const fn offered(&self) -> Amount {
        self.offered
    }

    /// Whether nothing in flight will be seen complete unless something follows.
    #[inline]
    pub fn is_unmarked(&self) -> bool {
        self.marks.is_empty()
    }

    /// Whether another mark can be kept.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.marks.len() < self.marks.capacity()
    }

    /// The rate of the wire in bytes per second, by which lateness is judged; 0 if it is not known.
    pub fn set_pace(&mut self, bytes_per_sec: u64) {
        self.pace = bytes_per_sec;
    }

    /// The same, as it was set last.
    #[inline]
    pub const fn pace(&self) -> u64 {
        self.pace
    }

    /// The next frames of a burst take this much.
    #[inline]
    pub fn offer(&mut self, frames: Amount) {
        self.offered.bytes += frames.bytes;
        self.offered.descriptors += frames.descriptors;
    }

    /// Looks for the frame that was offered last; without a handle where the source needs none.
    #[inline]
    pub fn mark(&mut self, now: Instant, handle: Option<H>) {
        if !self.has_room() {
            return;
        }
        let from = self.marks.back().map_or(self.done, |mark| mark.end);
        let due = match self.rate() {
            0 => now,
            rate => self.wire.max(now) + time_of(self.offered.since(from).bytes, rate),
        };
        self.wire = due;
        self.marks.push_back(Mark { handle, end: self.offered, submitted: now, due });
    }

    /// The driver has taken the burst but for `left` at its end, whose marks are forgotten.
    #[inline]
    pub fn taken(&mut self, left: Amount) {
        if left == Amount::default() {
            return;
        }
        self.offered = self.offered.since(left);
        while self.marks.back().is_some_and(|mark| mark.end.descriptors > self.offered.descriptors) {
            self.marks.pop_back();
        }
    }

    /// Whether all that is marked counts as complete already.
    #[inline]
    pub fn is_newest_complete(&self, now: Instant, device: &impl Device) -> Option<bool> {
        let in_use = if self.source == Source::QueueCount { device.in_use() } else { None };
        self.marks.back().map(|mark| self.is_complete(mark, now, device, in_use))
    }

    /// Looks for completions, and tells of each mark. If there are none, makes the driver look, and
    /// looks again.
    #[inline]
    pub fn reap(&mut self, now: Instant, device: &mut impl Device, mut seen: impl FnMut(Seen)) -> Amount {
        if self.marks.is_empty() {
            return Amount::default();
        }
        let before = self.done;
        self.look(now, device, &mut seen);
        if self.done == before && self.nudge != Nudge::None {
            device.nudge(self.nudge);
            self.look(now, device, &mut seen);
        }
        self.done.since(before)
    }

    /// Counts what was taken beyond the last mark as part of it, or as done if there is none: nothing
    /// follows that could tell (the frames behind were given up).
    pub fn settle(&mut self) -> Amount {
        match self.marks.back_mut() {
            Some(mark) => {
                mark.end = self.offered;
                Amount::default()
            }
            None => self.finish(),
        }
    }

    /// Counts everything as done, and looks in another way from now on.
    pub fn switch(&mut self, source: Source, nudge: Nudge) -> Amount {
        self.marks.clear();
        (self.source, self.nudge) = (source, nudge);
        self.finish()
    }

    fn finish(&mut self) -> Amount {
        let rest = self.in_flight();
        self.done = self.offered;
        rest
    }

    #[inline]
    fn look(&mut self, now: Instant, device: &impl Device, seen: &mut impl FnMut(Seen)) {
        // One question tells of all marks.
        let in_use = if self.source == Source::QueueCount { device.in_use() } else { None };
        while let Some(mark) = self.marks.front()
            && self.is_complete(mark, now, device, in_use)
        {
            let Some(mark) = self.marks.pop_front() else { return };
            seen(Seen {
                amount: mark.end.since(self.done),
                residence: now.since(mark.submitted),
                lateness: (self.pace > 0).then(|| now.since(mark.due)),
            });
            self.done = mark.end;
        }
    }

    #[inline]
    fn is_complete(&self, mark: &Mark<H>, now: Instant, device: &impl Device, in_use: Option<u32>) -> bool {
        let newer = self.offered.descriptors - mark.end.descriptors;
        match self.source {
            Source::Held => mark.handle.as_ref().is_none_or(H::is_complete),
            Source::Status(from) => from.offset(newer, self.ring).is_none_or(|offset| device.is_done(offset)),
            Source::QueueCount => in_use.is_some_and(|in_use| u64::from(in_use) <= newer),
            Source::Clock(_) => mark.due <= now,
            Source::Submit => true,
        }
    }

    /// Bytes per second by which marks fall due.
    #[inline]
    fn rate(&self) -> u64 {
        if let Source::Clock(rate) = self.source { rate.bits_per_sec() / 8 } else { self.pace }
    }
}

impl Amount {
    /// One more packet, which becomes one frame or several, each with `framing` bytes beside its own.
    #[inline]
    pub fn add(&mut self, packet: &Mbuf, framing: u64) {
        self.bytes += if frame::is_segmented(packet) {
            wire_bytes(packet, framing)
        } else {
            u64::from(packet.pkt_len()) + framing
        };
        self.descriptors += u64::from(packet.nb_segs());
    }

    /// What lies between `earlier` and this.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            descriptors: self.descriptors.saturating_sub(earlier.descriptors),
        }
    }
}

/// Of a packet that becomes several frames.
#[cold]
fn wire_bytes(packet: &Mbuf, framing: u64) -> u64 {
    let frames = frame::segments(packet).map_or(1, |segments| segments.segs.into());
    u64::from(frame::wire_len(packet)) + frames * framing
}

/// Rounded up; `rate` is in bytes per second and not 0.
#[inline]
fn time_of(bytes: u64, rate: u64) -> Duration {
    // Bytes of one mark: a ring of super-packets at most, so that this cannot overflow.
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000).div_ceil(rate))
}

#[cfg(test)]
mod tests;
