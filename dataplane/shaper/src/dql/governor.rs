//! The governor: [`Dql`] for a poll-mode driver.
//!
//! A poll-mode driver sees completions when it looks, not when they happen. So the governor
//! * judges the limit once per window of time, not per completion: freed bytes are available at
//!   once, but neither a completion per frame nor a batch of them decides what the device needs;
//! * keeps the limit above what a device needs that is late rather than slow (`pipe`);
//! * tells its owner's own lateness (`polls`) from the device's: a window with a gap in the polling
//!   is not judged, and the gap is counted.
//!
//! Once a turn: [`Governor::completed`] for each queue that freed something, then
//! [`Governor::turn`], then frames while [`Governor::ready`], each with [`Governor::queued`], and
//! [`Governor::held`] if frames had to stay behind. Bytes are those of the wire as its owner counts
//! them, the same on both sides: [`crate::rate::Overhead`] knows what a TSO frame becomes, and what
//! preamble, FCS and gap add.
//!
//! 4.4 ns a frame with eight frames a turn, 2.7 ns for a turn without any (AMD EPYC, 2026-11).

use super::limit::Dql;
use super::pipe::Pipe;
use super::polls::Polls;
use crate::conformance::{Conformance, Weir};
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The governor of the transmit queues that share one wire.
#[derive(Clone, Debug)]
pub struct Governor<C: Conformance = Weir> {
    params: Params,
    queues: Vec<Queue>,
    in_flight: u32,
    dql: Dql<C>,
    pipe: Pipe,
    polls: Polls,
    window: Window,
    stats: Stats,
}

/// What the governor may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Time between two judgements of the limit. Default 100 us; never more than a quarter of the
    /// ring at the measured rate.
    pub window: Duration,
    /// How long a smaller need must last before the limit follows. Two of them after a change the
    /// limit is that of the new device, if it is up to ten times faster or slower or reports up to
    /// two hundred times sooner or later. Default 1 s.
    pub hold_time: Duration,
    /// Lower bound of the limit in bytes. Default 0: one frame still goes out.
    pub min_limit: u32,
    /// Upper bound of the limit in bytes. Default [`Dql::MAX_LIMIT`].
    pub max_limit: u32,
    /// Descriptors of each queue's ring.
    pub ring: u32,
}

/// What has happened since creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Windows by which the limit was judged.
    pub judged: u64,
    /// Windows by which it was not: a late poll or a probe.
    pub unjudged: u64,
    /// Polls that were late: an lcore that was not running, or busy elsewhere.
    pub late_polls: u64,
    /// The time between those polls and the ones before.
    pub late_time: Duration,
    /// Bytes reported complete that were not outstanding.
    pub excess: u64,
}

/// One transmit queue.
#[derive(Clone, Debug)]
struct Queue {
    /// Totals of bytes.
    queued: u64,
    done: u64,
    /// Until which total was submitted when, oldest first; never longer than its capacity.
    submissions: VecDeque<(u64, Instant)>,
}

/// Since the last judgement.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: Instant,
    completed: u32,
    /// The most bytes in flight.
    peak: u32,
    /// The limit, or a full ring, kept frames back.
    held: bool,
    late: bool,
    /// The shortest time from submission to completion.
    shortest: Option<Duration>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            window: Duration::from_micros(100),
            hold_time: Duration::from_millis(1_000),
            min_limit: 0,
            max_limit: Dql::<Weir>::MAX_LIMIT,
            ring: 1024,
        }
    }
}

impl<C: Conformance> Governor<C> {
    /// A governor of `queues` transmit queues that starts from one frame.
    pub fn new(params: Params, queues: usize, now: Instant) -> Self {
        let queue = || Queue::new(params.ring.max(1) as usize);
        let grain = grain(params);
        let mut governor = Self {
            params,
            queues: (0..queues).map(|_| queue()).collect(),
            in_flight: 0,
            dql: Dql::new(ticks(now), ticks(Instant::ZERO + half(params.hold_time))),
            pipe: Pipe::new(now, half(params.hold_time), grain),
            polls: Polls::new(now, grain),
            window: Window::new(now, 0),
            stats: Stats::default(),
        };
        governor.dql.set_max_limit(params.max_limit);
        governor.dql.set_min_limit(params.min_limit);
        governor
    }

    /// The link came up: all that was learned is forgotten, what is in flight stays so.
    pub fn link_up(&mut self, now: Instant) {
        self.dql.reset(ticks(now));
        // In flight is the sum of what was accepted, so it passes again.
        let _accepted = self.dql.queued(ticks(now), self.in_flight);
        self.pipe = Pipe::new(now, half(self.params.hold_time), grain(self.params));
        self.window = Window::new(now, self.in_flight);
    }

    /// The rings were emptied (port stop): nothing is in flight, and all is forgotten.
    pub fn reset(&mut self, now: Instant) {
        for queue in &mut self.queues {
            queue.done = queue.queued;
            queue.submissions.clear();
        }
        self.in_flight = 0;
        self.link_up(now);
    }

    /// Other bounds from now on; what was learned stays.
    pub fn set_bounds(&mut self, min_limit: u32, max_limit: u32, hold_time: Duration) {
        (self.params.min_limit, self.params.max_limit) = (min_limit, max_limit);
        self.params.hold_time = hold_time;
        self.dql.set_max_limit(max_limit);
        self.dql.set_min_limit(min_limit);
        self.dql.set_hold_time(ticks(Instant::ZERO + half(hold_time)));
    }

    /// Bytes that may be in flight.
    #[inline]
    pub fn limit(&self) -> u32 {
        let limit = self.pipe.probing().unwrap_or_else(|| self.dql.limit().max(self.pipe.floor()));
        limit.max(self.params.min_limit).min(self.params.max_limit)
    }

    /// Bytes in flight.
    #[inline]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether another frame may be queued; always when nothing is in flight.
    #[inline]
    pub fn ready(&self) -> bool {
        self.in_flight <= self.limit() || self.in_flight == 0
    }

    /// `bytes` in `descriptors` of `queue` were found complete at `now`. All that one poll finds in
    /// a queue goes into one call.
    pub fn completed(&mut self, now: Instant, queue: usize, bytes: u32, descriptors: u32) {
        self.poll(now);
        let Some(queue) = self.queues.get_mut(queue) else {
            self.stats.excess += u64::from(bytes);
            return;
        };
        let taken = bytes.min(queue.outstanding());
        self.stats.excess += u64::from(bytes - taken);
        self.in_flight = self.in_flight.saturating_sub(taken);
        self.window.completed = self.window.completed.saturating_add(taken);
        if let Some(submitted) = queue.take(taken) {
            self.pipe.delivered(now, taken, descriptors);
            if submitted >= self.polls.late_until() {
                let took = now.since(submitted);
                self.window.shortest = Some(self.window.shortest.map_or(took, |before| before.min(took)));
                self.pipe.returned(now, submitted, taken, self.dql.limit());
            }
        }
    }

    /// The turn at `now`, after all completions that it found; also when it found none.
    #[inline]
    pub fn turn(&mut self, now: Instant) {
        self.poll(now);
        if self.window.completed > 0 && self.polls.next() > self.window.start + self.window() {
            self.judge(now);
        }
    }

    /// `bytes` in one frame or burst were submitted to `queue` at `now`.
    #[inline]
    pub fn queued(&mut self, now: Instant, queue: usize, bytes: u32) {
        let Some(queue) = self.queues.get_mut(queue) else { return };
        if self.dql.queued(ticks(now), bytes).is_err() {
            return;
        }
        queue.submit(now, bytes);
        self.pipe.submitted(now);
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.window.peak = self.window.peak.max(self.in_flight);
    }

    /// Frames had to stay behind: not [`Governor::ready`], or a ring was full.
    #[inline]
    pub fn held(&mut self) {
        self.window.held = true;
    }

    /// The counters.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The fastest delivery of the last second or so of backlog, in bytes per second; 0: not known.
    pub fn rate(&self) -> u64 {
        self.pipe.rate()
    }

    /// The shortest time from submission to completion, as far as it is known.
    pub fn delay(&self) -> Option<Duration> {
        self.pipe.delay()
    }

    #[inline]
    fn poll(&mut self, now: Instant) {
        if let Some(interval) = self.polls.at(now) {
            self.window.late = true;
            self.pipe.interrupted(now);
            self.stats.late_polls += 1;
            self.stats.late_time += interval;
        }
    }

    /// The time between judgements.
    #[inline]
    fn window(&self) -> Duration {
        match self.pipe.descriptor_time() {
            0 => self.params.window,
            each => {
                self.params.window.min(Duration::from_nanos(each.saturating_mul(self.params.ring.into()) / 4))
            }
        }
    }

    fn judge(&mut self, now: Instant) {
        let Window { start, completed, peak, held, late, shortest } = self.window;
        // A window that its last poll made longer holds more than the device gets through in one.
        if late || self.polls.is_overdue() || self.pipe.probing().is_some() {
            self.stats.unjudged += 1;
            self.dql.completed_unjudged(ticks(now), completed);
        } else {
            self.stats.judged += 1;
            let over = peak.saturating_sub(self.limit());
            // Never an excess: what was completed had been taken from what was in flight.
            let _complete = self.dql.completed_over(ticks(now), completed, over);
        }
        if held || self.pipe.is_standing(shortest) {
            self.pipe.backlogged(now.since(start), self.dql.limit());
        }
        self.window = Window::new(now, self.in_flight);
    }
}

impl Window {
    const fn new(start: Instant, in_flight: u32) -> Self {
        Self { start, completed: 0, peak: in_flight, held: false, late: false, shortest: None }
    }
}

impl Queue {
    fn new(ring: usize) -> Self {
        Self { queued: 0, done: 0, submissions: VecDeque::with_capacity(ring) }
    }

    fn outstanding(&self) -> u32 {
        u32::try_from(self.queued - self.done).unwrap_or(u32::MAX)
    }

    #[inline]
    fn submit(&mut self, now: Instant, bytes: u32) {
        self.queued += u64::from(bytes);
        let full = self.submissions.len() == self.submissions.capacity();
        match self.submissions.back_mut() {
            // Seen as older than they are when there is no room: a delay too long, never too short.
            Some((end, at)) if *at == now || full => *end = self.queued,
            _ => self.submissions.push_back((self.queued, now)),
        }
    }

    /// Takes `bytes` off; when the oldest of them were submitted.
    #[inline]
    fn take(&mut self, bytes: u32) -> Option<Instant> {
        if bytes == 0 {
            return None;
        }
        let (_, oldest) = *self.submissions.front()?;
        self.done += u64::from(bytes);
        while self.submissions.front().is_some_and(|(end, _)| *end <= self.done) {
            self.submissions.pop_front();
        }
        Some(oldest)
    }
}

/// Time that does not count: an eighth of the window.
const fn grain(params: Params) -> Duration {
    Duration::from_nanos(params.window.as_nanos() / 8)
}

const fn half(span: Duration) -> Duration {
    Duration::from_nanos(span.as_nanos() / 2)
}

/// The ticks of [`Dql`] are microseconds here.
const fn ticks(now: Instant) -> u64 {
    now.as_nanos() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, SplitMix};

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn governor(queues: usize) -> Governor {
        Governor::new(Params::default(), queues, Instant::ZERO)
    }

    #[test]
    fn a_limit_below_one_frame_still_sends_one() {
        let params = Params { max_limit: 100, ..Params::default() };
        let mut governor = Governor::<Weir>::new(params, 1, Instant::ZERO);
        for turn in 0..1_000 {
            let now = at(turn * 20);
            if turn > 0 {
                governor.completed(now, 0, 9_000, 1);
            }
            governor.turn(now);
            assert!(governor.limit() <= 100 && governor.ready(), "turn {turn}");
            governor.queued(now, 0, 9_000);
            assert!(!governor.ready(), "turn {turn}");
            governor.held();
        }
        assert_eq!(governor.stats().excess, 0);
    }

    #[test]
    fn more_than_was_queued_is_clamped_and_counted() {
        let mut governor = governor(2);
        governor.queued(at(1), 0, 1_000);
        governor.queued(at(1), 1, 500);
        governor.completed(at(2), 1, 600, 1);
        assert_eq!((governor.in_flight(), governor.stats().excess), (1_000, 100), "each queue for itself");
        governor.completed(at(3), 7, 40, 1);
        governor.completed(at(3), 0, 1_000, 1);
        assert_eq!((governor.in_flight(), governor.stats().excess), (0, 140), "nor a queue that is none");
    }

    #[test]
    fn a_link_that_comes_up_is_learned_anew() {
        let mut governor = governor(1);
        let mut now = 0;
        for _ in 0..5_000 {
            now += 10;
            governor.completed(at(now), 0, governor.in_flight().min(12_500), 8);
            governor.turn(at(now));
            while governor.ready() {
                governor.queued(at(now), 0, 1_514);
            }
            governor.held();
        }
        assert!(governor.limit() > 10_000 && governor.rate() > 0 && governor.delay().is_some());
        let in_flight = governor.in_flight();
        governor.link_up(at(now));
        assert_eq!((governor.limit(), governor.rate(), governor.delay()), (0, 0, None));
        assert_eq!(governor.in_flight(), in_flight, "what is in the ring stays there");
        governor.completed(at(now + 50), 0, in_flight, 8);
        governor.turn(at(now + 50));
        assert_eq!((governor.in_flight(), governor.stats().excess), (0, 0));
        governor.queued(at(now + 60), 0, 1_514);
        governor.reset(at(now + 70));
        assert_eq!((governor.in_flight(), governor.ready()), (0, true));
    }

    /// Any interleaving of submissions, completions, late polls, flaps and resets: the account is
    /// that of a plain sum, memory does not grow, and all returns to zero.
    #[test]
    fn the_account_is_kept_whatever_happens() {
        for seed in 0..40 {
            let mut rng = SplitMix::new(seed, seed);
            let mut governor = governor(3);
            let room = governor.queues[0].submissions.capacity();
            let mut sum = [0_u32; 3];
            let mut now = 0;
            for step in 0..5_000 {
                now +=
                    if rng.next_u16().is_multiple_of(100) { 20_000 } else { u64::from(rng.next_u16() % 30) };
                let queue = usize::from(rng.next_u16() % 3);
                match rng.next_u16() % 100 {
                    0 => governor.link_up(at(now)),
                    1 => {
                        governor.reset(at(now));
                        sum = [0; 3];
                    }
                    2..50 => {
                        let bytes = rng.next_u32() % 66_000;
                        governor.queued(at(now), queue, bytes);
                        sum[queue] += bytes;
                    }
                    50..90 => {
                        let bytes = rng.next_u32() % (sum[queue] + 1);
                        governor.completed(at(now), queue, bytes, 1);
                        sum[queue] -= bytes;
                    }
                    _ => governor.held(),
                }
                governor.turn(at(now));
                assert_eq!(governor.in_flight(), sum.iter().sum::<u32>(), "seed {seed} step {step}");
                assert_eq!(governor.queues[queue].submissions.capacity(), room);
            }
            for (queue, bytes) in sum.into_iter().enumerate() {
                governor.completed(at(now), queue, bytes, 1);
            }
            assert!(governor.in_flight() == 0 && governor.ready() && governor.stats().excess == 0);
            assert!(governor.queues.iter().all(|queue| queue.submissions.is_empty()));
        }
    }

    /// Two queues on one wire of 1 Gbit/s that completes each frame when it has left.
    #[test]
    fn queues_that_share_a_wire_share_the_limit() {
        let mut governor = governor(2);
        let (mut now, mut free, mut most) = (0_u64, 0, 0);
        let mut wire = VecDeque::new();
        for turn in 0..300_000 {
            now += 5_000;
            let mut done = [0; 2];
            while let Some((left, queue)) = wire.front().copied()
                && left <= now
            {
                done[queue] += 1_538;
                wire.pop_front();
            }
            for (queue, bytes) in done.into_iter().enumerate() {
                governor.completed(Instant::from_nanos(now), queue, bytes, bytes / 1_538);
            }
            governor.turn(Instant::from_nanos(now));
            while governor.ready() {
                let queue = wire.len() % 2;
                governor.queued(Instant::from_nanos(now), queue, 1_538);
                free = now.max(free) + 12_304;
                wire.push_back((free, queue));
            }
            governor.held();
            if turn > 100_000 {
                most = most.max(governor.in_flight());
                assert!(wire.len() > 1, "the wire runs dry");
            }
        }
        assert!(most < 25_000 + 3 * 1_538, "{most} bytes in flight: two windows of the wire and 3 frames");
    }
}
