//! A network card in virtual time: a transmit ring, a wire behind it, and completions that come
//! late or in batches.
//!
//! The wire sends one frame after the other at its exact rate; a frame for the TSO engine leaves as
//! its segments. A frame that has left completes `delay` later, but only the descriptors with the RS
//! bit, every `rs_thresh`-th, are written back, for themselves and for those before them. Completions
//! are told in the order of the ring, coalesced as `ethtool -C` says: when `tx_frames` are there or
//! the first of them has waited `tx_usecs`. What really happened on the wire is in the truth log
//! ([`Nic::left`]), which no driver could read.

mod wire;

use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::collections::VecDeque;
use wire::Wire;

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
    /// Descriptors from one completion to the next (`tx_rs_thresh`); 0 and 1: each completes. What is
    /// behind the last of them is not told before more frames come.
    pub rs_thresh: u32,
    /// What becomes of frames while the link is down.
    pub link_down: LinkDown,
}

/// What a card does with the frames in its ring while its link is down. Both kinds exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkDown {
    /// They wait for the link.
    #[default]
    Keep,
    /// They complete without having been sent.
    Flush,
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
    /// Done with, behind the last descriptor that completes.
    silent: Reaped,
    /// Complete at the time.
    completing: VecDeque<(Instant, Reaped)>,
    /// Told, not looked at.
    told: Reaped,
    quiet_until: Instant,
    pause: Pause,
    down_since: Option<Instant>,
    wire: Wire,
    left: VecDeque<Left>,
}

/// The truth about one frame, or about one segment of a frame for the TSO engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// When it was given to the card.
    pub submitted: Instant,
    /// When its last bit had left, rounded up.
    pub left: Instant,
    /// What it was. The descriptors of a frame are with its last segment, the others have none.
    pub frame: Frame,
    /// Whether it went out; not so where the link was down.
    pub sent: bool,
}

/// What one look at the ring found complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Frames.
    pub frames: u32,
    /// Bytes on the wire.
    pub bytes: u32,
    /// Descriptors freed.
    pub descriptors: u32,
}

/// In the ring, to be sent.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    submitted: Instant,
    frame: Frame,
    /// Bytes of a segment on the wire; the last may be shorter.
    segment: u32,
    /// Bytes that have left already.
    sent: u32,
}

/// No frame begins `from` then `until` then.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    from: Instant,
    until: Instant,
}

/// Bytes on the wire of an Ethernet frame of `len` bytes without FCS: padded to 60, with 4 of FCS,
/// 8 of preamble and 12 of gap (IEEE 802.3).
pub const fn on_wire(len: u32) -> u32 {
    if len < MIN_FRAME { MIN_FRAME + FRAMING } else { len + FRAMING }
}

impl Default for Config {
    /// 1 Gbit/s, 1024 descriptors, each frame completes as it leaves.
    fn default() -> Self {
        Self {
            rate: Rate::from_bits_per_sec(1_000_000_000),
            ring: 1024,
            delay: Duration::ZERO,
            tx_usecs: Duration::ZERO,
            tx_frames: 1,
            rs_thresh: 1,
            link_down: LinkDown::Keep,
        }
    }
}

impl Nic {
    /// An idle card whose link is up.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            in_ring: 0,
            waiting: VecDeque::new(),
            silent: Reaped::default(),
            completing: VecDeque::new(),
            told: Reaped::default(),
            quiet_until: Instant::ZERO,
            pause: Pause::default(),
            down_since: None,
            wire: Wire::default(),
            left: VecDeque::new(),
        }
    }

    /// What it is like.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Becomes another card at `now`; frames that wait leave at the new rate, and those that have
    /// left complete as before. The ring keeps its size.
    pub fn become_like(&mut self, now: Instant, config: Config) {
        self.settle(now);
        self.config = Config { ring: self.config.ring, ..config };
        self.wire.round();
    }

    /// The wire begins no frame before `until` (a pause frame); the one that it is at goes out. A later
    /// call replaces an earlier one, so that `until` = `now` ends the pause (IEEE 802.3 annex 31B).
    pub fn pause(&mut self, now: Instant, until: Instant) {
        self.settle(now);
        let from = if now < self.pause.until { self.pause.from } else { now };
        self.pause = Pause { from, until: until.max(now) };
    }

    /// The card stalls: it begins no frame and tells nothing before `until`.
    pub fn stall(&mut self, now: Instant, until: Instant) {
        self.pause(now, until);
        self.quiet_until = self.quiet_until.max(until);
    }

    /// The link goes up or down. A frame that was on the wire is sent anew.
    pub fn set_link(&mut self, now: Instant, up: bool) {
        self.settle(now);
        match (up, self.down_since) {
            (true, Some(_)) => {
                self.wire.hold(now);
                self.down_since = None;
            }
            (false, None) => self.down_since = Some(now),
            _ => {}
        }
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
        self.submit_tso(now, frame, frame.bytes)
    }

    /// Puts a frame for the TSO engine into the ring at `now`: its `bytes` are those of all segments
    /// on the wire, `segment` those of each but the last.
    ///
    /// # Errors
    /// The frame, when the ring has no room for it.
    pub fn submit_tso(&mut self, now: Instant, frame: Frame, segment: u32) -> Result<(), Frame> {
        if frame.descriptors > self.room() {
            return Err(frame);
        }
        self.in_ring += frame.descriptors;
        self.waiting.push_back(Waiting { submitted: now, frame, segment: segment.max(1), sent: 0 });
        Ok(())
    }

    /// Looks at the ring: what the card has told by `now` and was not seen before.
    pub fn reap(&mut self, now: Instant) -> Reaped {
        self.settle(now);
        self.in_ring -= self.told.descriptors;
        std::mem::take(&mut self.told)
    }

    /// Whether the device is done with the descriptor `offset` places ahead of the next one to be
    /// filled (`rte_eth_tx_descriptor_status`); none beyond the ring.
    pub fn is_done(&mut self, now: Instant, offset: u32) -> Option<bool> {
        self.settle(now);
        (offset < self.config.ring).then(|| offset < self.room() + self.told.descriptors)
    }

    /// The truth log: all that has left since the last call, oldest first.
    pub fn left(&mut self) -> impl Iterator<Item = Left> {
        self.left.drain(..)
    }

    /// Does what is due by `now`.
    fn settle(&mut self, now: Instant) {
        self.advance(now);
        while let Some((at, count)) = self.batch()
            && at.max(self.quiet_until) <= now
        {
            for (_, completion) in self.completing.drain(..count) {
                self.told.add(completion);
            }
        }
    }

    /// Sends what can have left by `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(next) = self.waiting.front().copied() {
            let (part, wire) = match self.down_since {
                Some(since) => (next.rest(), self.lost(next.submitted.max(since))),
                None => {
                    let paused = self.pause.resume(next.submitted.max(self.wire.end()));
                    let rate = self.config.rate.bits_per_sec();
                    (next.part(), self.wire.sent(paused.unwrap_or(next.submitted), next.part(), rate))
                }
            };
            let Some(wire) = wire.filter(|wire| wire.end() <= now) else { return };
            self.wire = wire;
            self.leave(next, part);
        }
    }

    /// The wire after a frame that the link lost at `at`; none where it waits for the link.
    fn lost(&self, at: Instant) -> Option<Wire> {
        let mut wire = self.wire;
        wire.hold(at);
        (self.config.link_down == LinkDown::Flush).then_some(wire)
    }

    /// `part` bytes of the first frame in the ring have left.
    fn leave(&mut self, next: Waiting, part: u32) {
        let left = self.wire.end();
        let ends = part == next.rest();
        let frame = Frame { bytes: part, descriptors: if ends { next.frame.descriptors } else { 0 } };
        self.left.push_back(Left { submitted: next.submitted, left, frame, sent: self.down_since.is_none() });
        if !ends {
            if let Some(first) = self.waiting.front_mut() {
                first.sent += part;
            }
            return;
        }
        self.waiting.pop_front();
        let Frame { bytes, descriptors } = next.frame;
        self.silent.add(Reaped { frames: 1, bytes, descriptors });
        if self.silent.descriptors >= self.config.rs_thresh {
            let previous = self.completing.back().map_or(Instant::ZERO, |(at, _)| *at);
            let at = (left + self.config.delay).max(previous);
            self.completing.push_back((at, std::mem::take(&mut self.silent)));
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

impl Pause {
    /// When a frame begins that could at `start` but may not.
    fn resume(self, start: Instant) -> Option<Instant> {
        (self.from <= start && start < self.until).then_some(self.until)
    }
}

impl Waiting {
    /// Bytes that leave next.
    fn part(&self) -> u32 {
        self.segment.min(self.rest())
    }

    /// Bytes that have not left.
    fn rest(&self) -> u32 {
        self.frame.bytes - self.sent
    }
}

impl Reaped {
    fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.descriptors += other.descriptors;
    }
}

/// IEEE 802.3 without FCS.
const MIN_FRAME: u32 = 60;
/// FCS, preamble with delimiter, gap.
const FRAMING: u32 = 4 + 8 + 12;

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { bytes: 1_250, descriptors: 1 };

    /// 1 Gbit/s: a frame takes 10 us.
    fn config() -> Config {
        Config { ring: 4, ..Config::default() }
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
    fn a_pause_holds_the_wire() {
        let mut nic = Nic::new(config());
        nic.submit(at(0), FRAME).unwrap();
        nic.submit(at(0), FRAME).unwrap();
        nic.pause(at(5), at(1_000));
        assert_eq!(frames_at(&mut nic, 1_009), 1, "the frame that it is at goes out");
        assert_eq!(frames_at(&mut nic, 1_010), 1);
        nic.pause(at(1_020), at(5_000));
        nic.submit(at(1_030), FRAME).unwrap();
        nic.pause(at(2_000), at(2_000));
        assert_eq!(frames_at(&mut nic, 2_010), 1, "the pause was taken back");
    }

    #[test]
    fn a_stall_holds_the_wire_and_the_completions() {
        let mut nic = Nic::new(Config { delay: Duration::from_micros(50), ..config() });
        for _ in 0..3 {
            nic.submit(at(0), FRAME).unwrap();
        }
        assert_eq!(nic.is_done(at(59), 3), Some(false));
        nic.stall(at(60), at(500));
        assert_eq!(frames_at(&mut nic, 499), 1, "told before the stall");
        assert_eq!(frames_at(&mut nic, 500), 2, "had left by then");
        nic.submit(at(500), FRAME).unwrap();
        assert_eq!(frames_at(&mut nic, 560), 1);
    }

    #[test]
    fn only_descriptors_with_the_rs_bit_complete() {
        let mut nic = Nic::new(Config { ring: 100, rs_thresh: 8, ..config() });
        for _ in 0..20 {
            nic.submit(at(0), FRAME).unwrap();
        }
        assert_eq!(frames_at(&mut nic, 79), 0);
        assert_eq!(frames_at(&mut nic, 80), 8);
        assert_eq!(frames_at(&mut nic, 1_000), 8, "four have left and are not told");
        nic.submit(at(1_000), Frame { descriptors: 4, ..FRAME }).unwrap();
        assert_eq!(nic.reap(at(1_010)), Reaped { frames: 5, bytes: 6_250, descriptors: 8 });
    }

    #[test]
    fn the_tso_engine_sends_segments_and_completes_the_frame() {
        let mut nic = Nic::new(config());
        nic.submit_tso(at(0), Frame { bytes: 3_000, descriptors: 2 }, 1_250).unwrap();
        nic.submit(at(0), FRAME).unwrap();
        assert_eq!(nic.reap(at(23)), Reaped::default());
        assert_eq!(nic.reap(at(24)), Reaped { frames: 1, bytes: 3_000, descriptors: 2 });
        nic.reap(at(100));
        let left: Vec<_> = nic.left().map(|it| (it.left, it.frame.bytes, it.frame.descriptors)).collect();
        assert_eq!(left, [(at(10), 1_250, 0), (at(20), 1_250, 0), (at(24), 500, 2), (at(34), 1_250, 1)]);
    }

    /// As `rte_eth_tx_descriptor_status` has it: the place to be filled next is offset 0, the oldest
    /// frame is the farthest ahead.
    #[test]
    fn a_descriptor_is_done_once_its_completion_is_told() {
        let mut nic = Nic::new(config());
        let done = |nic: &mut Nic, micros| [0, 1, 2, 3].map(|n| nic.is_done(at(micros), n).unwrap());
        assert_eq!(done(&mut nic, 0), [true; 4]);
        for _ in 0..3 {
            nic.submit(at(0), FRAME).unwrap();
        }
        assert_eq!(done(&mut nic, 9), [true, false, false, false]);
        assert_eq!(done(&mut nic, 10), [true, true, false, false], "told, not yet reaped");
        assert_eq!(nic.reap(at(10)).descriptors, 1);
        assert_eq!(done(&mut nic, 10), [true, true, false, false]);
        assert_eq!(nic.is_done(at(10), 4), None);
    }

    #[test]
    fn a_link_that_goes_down_keeps_or_flushes_the_ring() {
        for link_down in [LinkDown::Keep, LinkDown::Flush] {
            let mut nic = Nic::new(Config { link_down, ..config() });
            for _ in 0..3 {
                nic.submit(at(0), FRAME).unwrap();
            }
            nic.set_link(at(15), false);
            nic.submit(at(20), FRAME).unwrap();
            assert_eq!(frames_at(&mut nic, 30), if link_down == LinkDown::Keep { 1 } else { 4 });
            nic.set_link(at(1_000), true);
            nic.submit(at(1_001), FRAME).unwrap();
            nic.reap(at(2_000));
            assert_eq!(nic.room(), 4);
            let left: Vec<_> = nic.left().map(|it| (it.left, it.sent)).collect();
            assert_eq!(
                left,
                match link_down {
                    LinkDown::Keep => [10, 1_010, 1_020, 1_030, 1_040].map(|left| (at(left), true)),
                    LinkDown::Flush => [(10, true), (15, false), (15, false), (20, false), (1_011, true)]
                        .map(|(left, sent)| (at(left), sent)),
                }
            );
        }
    }

    #[test]
    fn framing_is_that_of_ethernet() {
        assert_eq!([0, 60, 61, 1_514].map(on_wire), [84, 84, 85, 1_538]);
    }
}
