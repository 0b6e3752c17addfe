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
//! them: after TSO, with preamble and gap or without, the same on both sides.

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
    /// How long a smaller need must last before the limit follows; after two of them nothing of an
    /// old wire is left. Default 1 s.
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
        self.in_flight -= taken;
        self.window.completed += taken;
        if let Some(submitted) = queue.take(taken) {
            self.pipe.delivered(now, taken, descriptors);
            if submitted >= self.polls.late_until() {
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
        self.in_flight += bytes;
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
            self.pipe.interrupted();
            self.stats.late_polls += 1;
            self.stats.late_time += interval;
        }
    }

    /// The time between judgements.
    #[inline]
    fn window(&self) -> Duration {
        match self.pipe.descriptor_time() {
            0 => self.params.window,
            each => self.params.window.min(Duration::from_nanos(each * u64::from(self.params.ring) / 4)),
        }
    }

    fn judge(&mut self, now: Instant) {
        let Window { start, completed, peak, held, late } = self.window;
        if late || self.pipe.probing().is_some() {
            self.stats.unjudged += 1;
            self.dql.completed_unjudged(ticks(now), completed);
        } else {
            self.stats.judged += 1;
            let over = peak.saturating_sub(self.limit());
            // Never an excess: what was completed had been taken from what was in flight.
            let _complete = self.dql.completed_over(ticks(now), completed, over);
        }
        if held {
            self.pipe.backlogged(now.since(start), self.dql.limit());
        }
        self.window = Window::new(now, self.in_flight);
    }
}

impl Window {
    const fn new(start: Instant, in_flight: u32) -> Self {
        Self { start, completed: 0, peak: in_flight, held: false, late: false }
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
