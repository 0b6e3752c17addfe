//! A network card in virtual time: a transmit ring, a wire behind it, and completions that come
//! late or in batches.
//!
//! The wire sends one frame after the other at its exact rate. A frame that has left completes
//! `delay` later, and completions are told in the order of the ring, coalesced as `ethtool -C` says:
//! when `tx_frames` are complete or the first of them has waited `tx_usecs`. What really happened on
//! the wire is in the truth log ([`Nic::left`]), which no driver could read. A frame that the card
//! segments ([`Nic::submit_train`]) leaves as its segments and completes as one.

use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::collections::VecDeque;

/// What the card is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Rate of the wire, 0 never sends.
    pub rate: Rate,
    /// Descriptors of the ring.
    pub ring: u32,
    /// From a frame's end on the wire to its completion.
    pub delay: Duration,
    /// A completion waits no longer than this for others.
    pub tx_usecs: Duration,
    /// So many completions are told at once; 1: each by itself.
    pub tx_frames: usize,
}

/// A frame given to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes it takes on the wire, preamble, FCS and gap included.
    pub bytes: u32,
    /// Descriptors it takes in the ring.
    pub descriptors: u32,
}

/// The card.
#[derive(Debug)]
pub struct Nic {
    config: Config,
    in_ring: u32,
    waiting: VecDeque<Waiting>,
    /// Left the wire; completes at the time.
    completing: VecDeque<(Instant, Frame)>,
    wire: Wire,
    left: VecDeque<Left>,
}

/// A frame in the ring.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    submitted: Instant,
    frame: Frame,
    /// Bytes of each segment but the last.
    each: u32,
    /// Bytes that have left.
    sent: u32,
}

/// The truth about one frame, or about one segment of a frame that the card segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// When it was given to the card.
    pub submitted: Instant,
    /// When its last bit had left, rounded up.
    pub left: Instant,
    /// What it was; of a segment its bytes, and with the last one the descriptors.
    pub frame: Frame,
}

/// What one look at the ring found complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Bytes on the wire.
    pub bytes: u32,
    /// Descriptors freed.
    pub descriptors: u32,
}

/// When the wire falls idle: whole nanoseconds, and the rest in 1/rate ns.
#[derive(Clone, Copy, Debug)]
struct Wire {
    idle: u64,
    rest: u64,
}

impl Nic {
    /// An idle card.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            in_ring: 0,
            waiting: VecDeque::new(),
            completing: VecDeque::new(),
            wire: Wire { idle: 0, rest: 0 },
            left: VecDeque::new(),
        }
    }

    /// Becomes another card at `now`; frames that wait leave at the new rate, and those that have
    /// left complete as before.
    pub fn become_like(&mut self, now: Instant, config: Config) {
        self.advance(now);
        self.config = config;
        self.wire.rest = 0;
    }

    /// The wire does not send before `until` (pause frames), except for the frame it is at.
    pub fn pause(&mut self, now: Instant, until: Instant) {
        self.advance(now);
        self.wire.hold(until);
    }

    /// Descriptors free in the ring.
    pub const fn room(&self) -> u32 {
        self.config.ring - self.in_ring
    }

    /// Puts a frame into the ring at `now`.
    ///
    /// # Errors
    /// The frame, when the ring has no room for it.
    pub fn submit(&mut self, now: Instant, frame: Frame) -> Result<(), Frame> {
        self.submit_train(now, frame, frame.bytes)
    }

    /// Puts a frame into the ring that the card cuts: into segments of `each` bytes on the wire, and
    /// the rest.
    ///
    /// # Errors
    /// The frame, when the ring has no room for it.
    pub fn submit_train(&mut self, now: Instant, frame: Frame, each: u32) -> Result<(), Frame> {
        if frame.descriptors > self.room() {
            return Err(frame);
        }
        self.in_ring += frame.descriptors;
        self.waiting.push_back(Waiting { submitted: now, frame, each, sent: 0 });
        Ok(())
    }

    /// Looks at the ring: what the card has told by `now` and was not seen before.
    pub fn reap(&mut self, now: Instant) -> Reaped {
        self.advance(now);
        let mut reaped = Reaped::default();
        while let Some((told, count)) = self.batch()
            && told <= now
        {
            for (_, frame) in self.completing.drain(..count) {
                reaped.bytes += frame.bytes;
                reaped.descriptors += frame.descriptors;
            }
        }
        self.in_ring -= reaped.descriptors;
        reaped
    }

    /// The truth log: every frame that has left since the last call, oldest first.
    pub fn left(&mut self) -> impl Iterator<Item = Left> {
        self.left.drain(..)
    }

    /// Sends what can have left by `now`.
    fn advance(&mut self, now: Instant) {
        let rate = self.config.rate.bits_per_sec();
        while let Some(Waiting { submitted, frame, each, sent }) = self.waiting.front_mut() {
            let bytes = (frame.bytes - *sent).min(*each);
            let Some(left) = self.wire.sent(*submitted, bytes, rate).filter(|wire| wire.end() <= now) else {
                return;
            };
            self.wire = left;
            *sent += bytes;
            let is_last = *sent >= frame.bytes;
            let (submitted, frame) = (*submitted, *frame);
            let descriptors = if is_last { frame.descriptors } else { 0 };
            self.left.push_back(Left { submitted, left: left.end(), frame: Frame { bytes, descriptors } });
            if is_last {
                self.waiting.pop_front();
                let previous = self.completing.back().map_or(Instant::ZERO, |(at, _)| *at);
                self.completing.push_back(((left.end() + self.config.delay).max(previous), frame));
            }
        }
    }

    /// When the next batch of completions is told, and how many are in it, as far as frames have left.
    fn batch(&self) -> Option<(Instant, usize)> {
        let (first, _) = self.completing.front()?;
        let waited = *first + self.config.tx_usecs;
        let full = self.config.tx_frames.max(1);
        match self.completing.get(full - 1) {
            Some((at, _)) if *at <= waited => Some((*at, full)),
            _ => Some((waited, self.completing.partition_point(|(at, _)| *at <= waited))),
        }
    }
}

impl Wire {
    /// The wire after a frame of `bytes` that was there from `submitted` on.
    fn sent(self, submitted: Instant, bytes: u32, rate: u64) -> Option<Self> {
        let start = if submitted.as_nanos() > self.idle {
            Self { idle: submitted.as_nanos(), rest: 0 }
        } else {
            self
        };
        let owed = u128::from(bytes) * 8_000_000_000 + u128::from(start.rest);
        let nanos = u64::try_from(owed.checked_div(rate.into())?).ok()?;
        Some(Self { idle: start.idle.saturating_add(nanos), rest: (owed % u128::from(rate)) as u64 })
    }

    fn end(self) -> Instant {
        Instant::from_nanos(self.idle + u64::from(self.rest > 0))
    }

    fn hold(&mut self, until: Instant) {
        if until.as_nanos() > self.idle {
            *self = Self { idle: until.as_nanos(), rest: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { bytes: 1_250, descriptors: 1 };

    /// 1 Gbit/s: a frame takes 10 us.
    fn config() -> Config {
        Config {
            rate: Rate::from_bits_per_sec(1_000_000_000),
            ring: 4,
            delay: Duration::ZERO,
            tx_usecs: Duration::ZERO,
            tx_frames: 1,
        }
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn frames_at(nic: &mut Nic, micros: u64) -> u32 {
        nic.reap(at(micros)).descriptors
    }

    #[test]
    fn frames_leave_one_after_the_other_and_the_ring_has_an_end() {
        let mut nic = Nic::new(config());
        for _ in 0..4 {
            nic.submit(at(5), FRAME).unwrap();
        }
        assert_eq!(nic.submit(at(5), FRAME), Err(FRAME));
        assert_eq!(frames_at(&mut nic, 14), 0);
        assert_eq!(frames_at(&mut nic, 15), 1);
        assert_eq!(nic.room(), 1);
        assert_eq!(frames_at(&mut nic, 45), 3);
        nic.submit(at(100), FRAME).unwrap();
        assert_eq!(frames_at(&mut nic, 110), 1);
        let left: Vec<_> = nic.left().map(|left| left.left).collect();
        assert_eq!(left, [15, 25, 35, 45, 110].map(at));
    }

    #[test]
    fn completions_come_late_and_in_batches() {
        let mut nic = Nic::new(Config {
            ring: 100,
            delay: Duration::from_micros(50),
            tx_usecs: Duration::from_micros(100),
            tx_frames: 8,
            ..config()
        });
        for _ in 0..20 {
            nic.submit(at(0), FRAME).unwrap();
        }
        assert_eq!(frames_at(&mut nic, 129), 0, "the eighth has left at 80 and completes at 130");
        assert_eq!(frames_at(&mut nic, 130), 8);
        assert_eq!(frames_at(&mut nic, 210), 8);
        assert_eq!(frames_at(&mut nic, 319), 0, "the seventeenth completes at 220");
        assert_eq!(frames_at(&mut nic, 320), 4, "and waits no longer than tx_usecs");
    }

    #[test]
    fn the_rate_is_exact() {
        let mut nic =
            Nic::new(Config { rate: Rate::from_bits_per_sec(999_999_937), ring: 100_000, ..config() });
        for _ in 0..100_000 {
            nic.submit(at(0), FRAME).unwrap();
        }
        let exact = (1_250_u128 * 100_000 * 8_000_000_000).div_ceil(999_999_937);
        nic.reap(Instant::from_nanos(exact as u64));
        assert_eq!(nic.left().last().map(|left| u128::from(left.left.as_nanos())), Some(exact));
    }

    #[test]
    fn a_train_leaves_in_segments_and_completes_at_once() {
        let mut nic = Nic::new(config());
        let train = Frame { bytes: 3_125, descriptors: 3 };
        nic.submit_train(at(0), train, 1_250).unwrap();
        assert_eq!(frames_at(&mut nic, 24), 0);
        assert_eq!(frames_at(&mut nic, 25), 3);
        let left: Vec<_> = nic.left().map(|left| (left.left, left.frame.bytes)).collect();
        assert_eq!(left, [(at(10), 1_250), (at(20), 1_250), (at(25), 625)]);
    }

    #[test]
    fn a_pause_holds_the_wire() {
        let mut nic = Nic::new(config());
        nic.pause(at(0), at(1_000));
        nic.submit(at(1), FRAME).unwrap();
        assert_eq!(frames_at(&mut nic, 1_009), 0);
        assert_eq!(frames_at(&mut nic, 1_010), 1);
    }
}
