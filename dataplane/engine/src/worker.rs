//! The loop: one worker, one lcore, run to completion.
//!
//! [`Worker::turn`] takes the time as an argument, so that a test steps the real loop, with real
//! ports, in virtual time. [`Worker::run`] is the same turn under the real clock.

use crate::change::Change;
use crate::clock::Clock;
use crate::counters::Loss;
use crate::direction::Direction;
use crate::gaps::{GapWatch, NOTICED};
use crate::mailbox::{Command, Mailbox};
use crate::page::{Page, Turns};
use shaper::time::{Duration, Instant};

/// The directions that one lcore serves.
#[derive(Debug)]
pub struct Worker {
    directions: Vec<Direction>,
    mailbox: Mailbox,
    turns: Turns,
    gaps: GapWatch,
    clock: crate::clock::ClockStats,
    stopping: bool,
    now: Instant,
    /// Whether the last turn moved packets.
    moved: bool,
    poll: Poll,
    generation: u64,
    /// What is being carried out.
    change: Option<Box<Change>>,
}

/// What a worker does while there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poll {
    /// Turn all the time: lowest latency, one CPU fully used.
    Busy,
    /// After [`IDLE_TURNS`] turns without a packet sleep until the next packet is due, at most
    /// [`NAP`]: some 60 µs more latency for the first packet after a pause.
    #[default]
    Adaptive,
}

/// The longest sleep between two looks at the receive queues.
pub const NAP: Duration = Duration::from_micros(50);

/// Idle turns before the first sleep; at about 100 ns each, a few microseconds of watching.
pub const IDLE_TURNS: u32 = 64;

/// How long a stopping worker goes on sending what waits.
pub const DRAIN: Duration = Duration::from_millis(200);

impl Worker {
    /// A worker that serves `directions` in this order.
    pub fn new(directions: Vec<Direction>, mailbox: Mailbox) -> Self {
        Self {
            directions,
            mailbox,
            turns: Turns::default(),
            gaps: GapWatch::default(),
            clock: crate::clock::ClockStats::default(),
            stopping: false,
            now: Instant::ZERO,
            moved: false,
            poll: Poll::default(),
            generation: 0,
            change: None,
        }
    }

    /// One turn at time `now`: each direction sends what is due, takes in what has come, and sends
    /// again if its wire was idle; then one message from control. Returns the packets moved.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> usize {
        self.account(now);
        self.gaps.turn(now);
        let mut moved = 0;
        for direction in &mut self.directions {
            moved += if self.stopping { direction.drain(now) } else { direction.turn(now) };
        }
        if self.change.is_some() {
            self.go_on_changing();
        } else if let Some(command) = self.mailbox.take() {
            self.obey(command);
        }
        self.turns.total += 1;
        self.turns.idle += u64::from(moved == 0);
        self.moved = moved > 0;
        moved
    }

    /// A turn begins, so that it is known how long the one before took.
    #[inline]
    fn account(&mut self, now: Instant) {
        if self.turns.total > 0 {
            let took = now.since(self.now);
            self.turns.time += took;
            if self.moved {
                self.turns.busy += took.min(NOTICED);
            }
        }
        self.now = now;
    }

    /// Turns until told to stop, then drains for at most [`DRAIN`], gives up what is left and
    /// returns the worker, with its ports and its counters.
    pub fn run(mut self, mut clock: Clock, poll: Poll) -> Self {
        self.poll = poll;
        let mut idle = 0;
        while !self.stopping {
            let now = clock.now();
            self.clock = clock.stats();
            idle = if self.turn(now) > 0 { 0 } else { idle + 1 };
            if self.poll == Poll::Adaptive && idle > IDLE_TURNS {
                self.nap(now);
            }
        }
        let deadline = clock.now() + DRAIN;
        loop {
            let now = clock.now();
            self.turn(now);
            if now > deadline || self.directions.iter().all(Direction::is_empty) {
                break;
            }
        }
        self.flush();
        self
    }

    /// Gives up every packet that still waits, counted as [`Loss::Stop`].
    pub fn flush(&mut self) {
        for direction in &mut self.directions {
            direction.flush(Loss::Stop);
        }
    }

    /// The directions.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// The directions, for an owner that turns the worker itself.
    pub fn directions_mut(&mut self) -> &mut [Direction] {
        &mut self.directions
    }

    /// Writes all statistics into a page. Directions the page has no room for are left out.
    pub fn report(&self, page: &mut Page) {
        page.at = self.now;
        page.generation = self.generation;
        page.turns = self.turns;
        page.gaps = self.gaps.gaps();
        page.clock = self.clock;
        for (direction, page) in self.directions.iter().zip(&mut page.directions) {
            direction.report(page);
        }
    }

    /// Gives away how long packets took, what was in flight and who sent most since the last page, in
    /// exchange for the empty histograms and tables of this one.
    pub fn exchange_histograms(&mut self, page: &mut Page) {
        for (direction, delays) in self.directions.iter_mut().zip(&mut page.delays) {
            direction.exchange_delays(delays);
        }
        for (direction, flight) in self.directions.iter_mut().zip(&mut page.flight) {
            direction.exchange_flight(flight);
        }
        for (direction, sample) in self.directions.iter_mut().zip(&mut page.talkers) {
            direction.exchange_talkers(self.now, sample);
        }
    }

    #[cold]
    fn obey(&mut self, command: Command) {
        match command {
            Command::Report(mut page) => {
                self.report(&mut page);
                self.exchange_histograms(&mut page);
                // Control has stopped fetching: the page is dropped here, which frees memory on the
                // packet path once, rather than leaks it.
                drop(self.mailbox.give(page));
            }
            Command::Link { direction, up } => {
                if let Some(direction) = self.directions.get_mut(direction) {
                    direction.set_link(up);
                }
            }
            Command::Speed { direction, speed } => {
                if let Some(direction) = self.directions.get_mut(direction) {
                    direction.set_link_speed(speed);
                }
            }
            Command::Split { direction, split } => {
                if let Some(direction) = self.directions.get_mut(direction) {
                    direction.set_split(split);
                }
            }
            Command::Apply(change) => self.apply(change),
            Command::Stop => self.stopping = true,
        }
    }

    /// Begins with a change. What one direction refuses is changed in none: control has checked all of
    /// it, so that this is a fault of control's, which is told.
    fn apply(&mut self, mut change: Box<Change>) {
        let of = |change: &crate::change::DirectionChange| self.directions.get(change.direction);
        change.refused = change
            .directions
            .iter()
            .find_map(|change| of(change)?.egress().qdisc().accepts(&change.qdisc).err());
        if change.refused.is_some() {
            drop(self.mailbox.done(change));
            return;
        }
        for change in &mut change.directions {
            match self.directions.get_mut(change.direction) {
                Some(direction) => direction.begin(self.now, change),
                None => change.is_done = true,
            }
        }
        self.change = Some(change);
        self.go_on_changing();
    }

    #[cold]
    fn go_on_changing(&mut self) {
        let Some(mut change) = self.change.take() else { return };
        for change in &mut change.directions {
            if let Some(direction) = self.directions.get_mut(change.direction) {
                direction.go_on_changing(self.now, change);
            }
        }
        if !change.is_done() {
            self.change = Some(change);
            return;
        }
        (self.generation, self.poll) = (change.generation, change.poll);
        // As with pages: freed here once, rather than leaked, if control does not fetch them.
        drop(self.mailbox.done(change));
    }

    /// Sleeps until the next packet is due, at most [`NAP`].
    #[allow(clippy::disallowed_methods)] // the one place that may: it was asked to save power
    fn nap(&mut self, now: Instant) {
        let due = self.directions.iter().filter_map(Direction::next_wakeup).min();
        let wake = due.map_or(now + NAP, |due| due.min(now + NAP));
        let span = wake.since(now).as_nanos();
        if span < WORTH_SLEEPING {
            return;
        }
        self.turns.sleeps += 1;
        std::thread::sleep(std::time::Duration::from_nanos(span));
        self.gaps.sleep_until(wake + OVERSLEEP);
    }
}

/// Shorter waits are polled through: going to sleep and waking costs some 5 µs.
const WORTH_SLEEPING: u64 = 10_000;

/// How late a timer may wake us before it counts as a gap: the kernel's default timer slack.
const OVERSLEEP: Duration = Duration::from_micros(50);
