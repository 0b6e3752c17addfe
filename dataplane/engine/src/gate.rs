//! The gate in front of a transmit ring: the governor, fed with completions, decides how much may lie
//! in the ring.
//!
//! Once a turn [`Gate::reap`]; then packets while [`Gate::budget`] admits them; each burst through [`Gate::burst`].
//! Between turns: bytes in flight as the governor counts them are those of [`Completions`]. Where
//! completions mean nothing ([`Source::Submit`]), or shall not bind ([`CompleteOn::Submit`]), the
//! governor is not asked and everything is admitted that the ring has room for.
//!
//! A burst is marked at its last frame, and within it every third of a window, or of the limit while
//! the rate is not known. The driver may refuse a burst's end, and with it its mark: what it took is
//! covered by the next mark then, for the rest is offered again.

use crate::completion::source::{Nudge, Queue, Source};
use crate::completion::watch::{self, Contradiction, PATIENCE, Watch};
use crate::completion::{Amount, Completions, Seen};
use crate::delays::Recorder;
use crate::flight::{Flight, Kind};
use crate::flying::Flying;
use crate::outbox::Outbox;
use crate::plan::{CompleteOn, GovernorPlan};
use dpdk::{Held, Mbuf, Mempool};
use shaper::dql::{self, Governor, Params};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

/// Decides how much lies in one transmit ring.
#[derive(Debug)]
pub struct Gate {
    governor: Governor,
    completions: Completions<Held>,
    watch: Watch,
    flight: Flight,
    flying: Flying,
    settings: Settings,
    /// Of the latest turn.
    now: Instant,
    budget: Budget,
    /// When limit and bytes in flight are recorded next.
    sample: Instant,
    /// The batch below which the device is known to report nothing, in bytes, and until when.
    batch: (u32, Instant),
    /// When a source that was given up is tried again.
    retry: Option<Instant>,
    /// How long after the next time it is given up.
    retry_after: Duration,
    stats: Stats,
}

/// What a gate is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the governor may do.
    pub plan: GovernorPlan,
    /// How completions are seen.
    pub source: Source,
    /// How the driver is made to look.
    pub nudge: Nudge,
    /// Descriptors of the ring.
    pub ring: u16,
    /// Bytes that a frame takes on the wire beside its own: 0, or preamble, FCS and gap.
    pub framing: u32,
    /// Where a frame gets its first segment from that has none of its own: buffers of [`HEAD`] bytes,
    /// or of a whole frame on a port that sends one segment only.
    pub heads: Option<Mempool>,
    /// The rate of the wire, for a source that has to be given up; `None` if nobody knows.
    pub wire: Option<Rate>,
}

/// What may be taken out of the discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    bytes: u64,
    frames: usize,
    framing: u64,
}

/// What has happened since creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames whose first segment was somebody else's as well, and that got one of their own.
    pub reheaded: u64,
    /// Bursts whose last frame could not be held, for want of a buffer: counted as complete with the
    /// one before.
    pub unheld: u64,
    /// Packets that were in the ring and whose completion was not seen, as the way of seeing it was given
    /// up: no histogram of residence or total has them.
    pub unrecorded: u64,
}

/// The gate of one direction, for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatePage {
    /// How completions are seen.
    pub source: Source,
    /// How the driver is made to look.
    pub nudge: Nudge,
    /// Whether the limit binds.
    pub binds: bool,
    /// The limit in bytes.
    pub limit: u32,
    /// In the ring: the price of a limit that does not bind.
    pub in_flight: Amount,
    /// The fastest delivery of the last second or so of backlog, in bytes per second; 0: not known.
    pub rate: u64,
    /// The shortest time from submission to completion.
    pub delay: Option<Duration>,
    /// What the governor counted.
    pub governor: dql::Stats,
    /// Whether the source kept its word.
    pub watch: watch::Stats,
    /// What the gate counted.
    pub gate: Stats,
}

/// Bytes of a first segment that is made for a frame, where it may have several: all headers.
pub const HEAD: u16 = 128;

impl Budget {
    /// Everything, where there is no gate.
    pub const ALL: Self = Self { bytes: u64::MAX, frames: usize::MAX, framing: 0 };

    /// Whether one more frame may be taken, beside `frames` of `bytes` that wait for the driver.
    #[inline]
    pub const fn admits(&self, bytes: u64, frames: usize) -> bool {
        frames < self.frames && bytes + frames as u64 * self.framing < self.bytes
    }
}

impl Gate {
    /// An open gate before an empty ring.
    pub fn new(settings: Settings) -> Self {
        let params = Params {
            hold_time: settings.plan.hold_time,
            min_limit: settings.plan.limit_min,
            max_limit: settings.plan.limit_max,
            ring: settings.ring.into(),
            ..Params::default()
        };
        let framing = settings.framing.into();
        Self {
            governor: Governor::new(params, 1, Instant::ZERO),
            completions: Completions::new(settings.source, settings.nudge, settings.ring),
            watch: Watch::default(),
            flight: Flight::new(),
            flying: Flying::default(),
            settings,
            now: Instant::ZERO,
            budget: Budget { bytes: 1, frames: 1, framing },
            sample: Instant::ZERO,
            batch: (0, Instant::ZERO),
            retry: None,
            retry_after: RETRY,
            stats: Stats::default(),
        }
    }

    /// Has it record how long each packet is in the ring, and how long it took in all, by so many tins.
    #[must_use]
    pub fn recording(self, tins: usize) -> Self {
        let flying = Flying::new(tins, self.settings.ring);
        Self { flying, ..self }
    }

    /// Other bounds and another notion of completion from now on; what was learned stays.
    pub fn set_plan(&mut self, plan: GovernorPlan) {
        self.settings.plan = plan;
        self.governor.set_bounds(plan.limit_min, plan.limit_max, plan.hold_time);
    }

    /// Looks for completions; once a turn, also while nothing is to be sent.
    #[inline]
    pub fn reap(&mut self, now: Instant, tx: &mut impl Queue) {
        self.now = now;
        if self.retry.is_some_and(|retry| retry <= now) {
            self.resume(now);
        }
        let (flight, flying) = (&mut self.flight, &mut self.flying);
        let (mut done, offered) =
            (self.completions.done().descriptors, self.completions.offered().descriptors);
        let mut group: Option<Seen> = None;
        let mut record = |group: Seen| {
            record(flight, group);
            let from = done;
            done += group.amount.descriptors;
            flying.landed(now, from..done, offered, group.residence);
        };
        let reaped = self.completions.reap(now, tx, |seen| match &mut group {
            Some(group) if group.residence == seen.residence => {
                group.amount.descriptors += seen.amount.descriptors;
                group.lateness = seen.lateness;
            }
            _ => {
                if let Some(group) = group.replace(seen) {
                    record(group);
                }
            }
        });
        if let Some(group) = group {
            record(group);
            flight.record(Kind::Batch, reaped.descriptors, 1);
            self.progress(now, reaped);
            self.complete(now, reaped);
        }
        if self.binds() {
            self.governor.turn(now);
        }
        if now >= self.sample && self.completions.in_flight() != Amount::default() {
            self.record(now);
        }
        self.reckon();
    }

    /// What may be taken out of the discipline, until the next burst.
    #[inline]
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// Frames that were due have stayed in the discipline because of the gate.
    #[inline]
    pub fn hold(&mut self, now: Instant) {
        self.governor.held();
        if let Some(why) = self.watch.waiting(now, || patience(&self.governor)) {
            self.give_up(now, why);
        }
        if self.watch.allowance() > 0 {
            self.reckon();
        }
    }

    /// Frames have stayed in the out-box because the driver refused them.
    #[inline]
    pub fn refused(&mut self) {
        self.governor.held();
    }

    /// Sends from the front of the out-box, and looks for the last frame that is taken. Returns how many
    /// are; the others stay there.
    #[inline]
    pub fn burst(&mut self, now: Instant, tx: &mut impl Queue, outbox: &mut Outbox) -> usize {
        if self.completions.source() == Source::Submit {
            let sent = tx.send(outbox.burst());
            self.flying.gone(now, outbox.gone(sent));
            return sent;
        }
        tx.join(outbox.burst());
        let (before, first) = (self.completions.in_flight(), self.completions.offered().descriptors);
        self.offer(now, outbox.burst().as_mut_slice());
        self.flying.offer(outbox, first, self.completions.done().descriptors);
        let sent = tx.send(outbox.burst());
        let mut left = Amount::default();
        outbox.as_slice().iter().for_each(|frame| left.add(frame, self.settings.framing.into()));
        self.completions.taken(left);
        let taken = self.completions.in_flight().since(before);
        if taken.descriptors > 0 {
            self.submitted(now, tx, taken);
        }
        sent
    }

    /// What waited for the driver was given up: nothing may follow what it has taken.
    #[cold]
    pub fn settle(&mut self) {
        let settled = self.unseen(Completions::settle);
        self.complete(self.now, settled);
        self.reckon();
    }

    /// The link came up: what was learned is forgotten, what is in flight stays so.
    pub fn link_up(&mut self) {
        self.governor.link_up(self.now);
        self.watch.progress();
        self.reckon();
    }

    /// What is in the ring.
    #[inline]
    pub fn in_flight(&self) -> Amount {
        self.completions.in_flight()
    }

    /// The governor.
    pub const fn governor(&self) -> &Governor {
        &self.governor
    }

    /// What was in flight since it was last given away.
    pub const fn flight(&self) -> &Flight {
        &self.flight
    }

    /// Gives away what was in flight since the last time, in exchange for empty histograms.
    pub fn exchange_flight(&mut self, empty: &mut Flight) {
        std::mem::swap(&mut self.flight, empty);
    }

    /// Gives away how long packets took since the last time, in exchange for empty histograms.
    pub fn exchange_delays(&mut self, residence: &mut Recorder, total: &mut Recorder) {
        self.flying.exchange(residence, total);
    }

    /// Everything for a page.
    pub fn report(&self) -> GatePage {
        GatePage {
            source: self.completions.source(),
            nudge: self.completions.nudge(),
            binds: self.binds(),
            limit: self.limit(),
            in_flight: self.completions.in_flight(),
            rate: self.governor.rate(),
            delay: self.governor.delay(),
            governor: *self.governor.stats(),
            watch: self.watch.stats(),
            gate: Stats { unrecorded: self.flying.unrecorded(), ..self.stats },
        }
    }

    /// Bytes that may be in flight.
    #[inline]
    fn limit(&self) -> u32 {
        let (batch, until) = self.batch;
        let governed = self.governor.limit();
        if self.now < until { governed.max(batch.min(self.settings.plan.limit_max)) } else { governed }
    }

    /// Something was reported. If it was not until more was sent than the limit allows, it was a batch,
    /// and a limit below that would lead there again (the governor's probes do): it is kept in mind.
    #[inline]
    fn progress(&mut self, now: Instant, reaped: Amount) {
        if self.watch.has_helped() {
            let bytes = u32::try_from(reaped.bytes).unwrap_or(u32::MAX);
            self.batch = (bytes, now + BATCH_KEPT);
        }
        self.watch.progress();
    }

    /// Whether the governor decides.
    #[inline]
    pub fn binds(&self) -> bool {
        self.settings.plan.complete_on == CompleteOn::Completion
            && self.completions.source() != Source::Submit
    }

    /// A driver takes some descriptors less than its ring has; with what is seen late, room is
    /// underestimated anyhow.
    #[inline]
    fn reckon(&mut self) {
        let Amount { bytes, descriptors } = self.completions.in_flight();
        let limit = u64::from(self.limit());
        self.budget.frames = usize::from(self.settings.ring).saturating_sub(descriptors as usize);
        self.budget.bytes = if self.binds() { (limit + 1).saturating_sub(bytes) } else { u64::MAX };
        if self.budget.bytes == 0 || self.budget.frames == 0 {
            self.reckon_exceptions();
        }
    }

    /// One frame goes if nothing in the ring will bring the completion that is waited for, and some if
    /// they have been waited for in vain.
    #[cold]
    fn reckon_exceptions(&mut self) {
        let Budget { bytes, frames, .. } = &mut self.budget;
        if self.completions.is_unmarked() {
            (*bytes, *frames) = (1, 1);
        } else if self.watch.allowance() > 0 {
            (*bytes, *frames) = (u64::MAX, self.watch.allowance() as usize);
        }
    }

    /// Marks a burst.
    #[inline]
    fn offer(&mut self, now: Instant, burst: &mut [Mbuf]) {
        let (span, framing) = (self.span(), u64::from(self.settings.framing));
        let Some((last, before)) = burst.split_last_mut() else { return };
        let mut run = Amount::default();
        for frame in before {
            run.add(frame, framing);
            if run.bytes >= span {
                self.mark(now, frame, &mut run, false);
            }
        }
        run.add(last, framing);
        self.mark(now, last, &mut run, true);
        self.completions.offer(run);
    }

    /// Looks for `frame`, and takes what comes with it out of `run`, if the frame can be held.
    #[inline]
    fn mark(&mut self, now: Instant, frame: &mut Mbuf, run: &mut Amount, is_last: bool) {
        if !self.completions.has_room() {
            return;
        }
        let is_held = self.completions.source() == Source::Held;
        let handle = if is_held { frame.hold().or_else(|| self.rehead(frame, run, is_last)) } else { None };
        if is_held == handle.is_some() {
            self.completions.offer(std::mem::take(run));
            self.completions.mark(now, handle);
        }
    }

    /// The frame's first segment has other holders, or is not its own.
    #[cold]
    fn rehead(&mut self, frame: &mut Mbuf, run: &mut Amount, is_last: bool) -> Option<Held> {
        if !is_last {
            return None;
        }
        let before = frame.nb_segs();
        let handle = self.settings.heads.as_ref().and_then(|heads| {
            let room = usize::from(heads.data_room() - dpdk::mempool::HEADROOM);
            frame.rehead(heads, room).ok()?;
            frame.hold()
        });
        run.descriptors += u64::from(frame.nb_segs().saturating_sub(before));
        *(if handle.is_some() { &mut self.stats.reheaded } else { &mut self.stats.unheld }) += 1;
        handle
    }

    /// Wire bytes from one mark to the next.
    #[inline]
    fn span(&self) -> u64 {
        match self.completions.pace() {
            0 => u64::from(self.limit() / 3),
            rate => rate / MARKS_PER_SECOND,
        }
    }

    fn submitted(&mut self, now: Instant, tx: &impl Queue, taken: Amount) {
        let Budget { bytes, frames, .. } = &mut self.budget;
        *bytes = bytes.saturating_sub(taken.bytes);
        *frames = frames.saturating_sub(taken.descriptors as usize);
        if self.watch.allowance() > 0 {
            self.watch.spend(u32::try_from(taken.descriptors).unwrap_or(u32::MAX));
        }
        if self.binds() {
            let bytes = u32::try_from(taken.bytes).unwrap_or(u32::MAX);
            self.governor.queued(now, 0, bytes);
        }
        if self.watch.asks()
            && self.completions.source().is_real()
            && let Some(complete) = self.completions.is_newest_complete(now, tx)
            && let Some(why) = self.watch.returned(complete)
        {
            self.give_up(now, why);
        }
    }

    /// Counts as done what nobody will see complete.
    #[cold]
    fn unseen(&mut self, finish: impl FnOnce(&mut Completions<Held>) -> Amount) -> Amount {
        let before = self.completions.done().descriptors;
        let finished = finish(&mut self.completions);
        let (done, offered) = (self.completions.done().descriptors, self.completions.offered().descriptors);
        self.flying.forget(before..done, offered);
        finished
    }

    #[inline]
    fn complete(&mut self, now: Instant, amount: Amount) {
        if self.binds() && amount.bytes > 0 {
            let bytes = u32::try_from(amount.bytes).unwrap_or(u32::MAX);
            let descriptors = u32::try_from(amount.descriptors).unwrap_or(u32::MAX);
            self.governor.completed(now, 0, bytes, descriptors);
            self.completions.set_pace(self.governor.rate());
        }
    }

    #[inline]
    fn record(&mut self, now: Instant) {
        self.sample = now + SAMPLE;
        self.flight.record(Kind::Limit, self.limit().into(), 1);
        self.flight.record(Kind::InFlight, self.completions.in_flight().bytes, 1);
    }

    /// The source has contradicted itself: the next best, and another try later unless it cannot ever
    /// be true.
    #[cold]
    fn give_up(&mut self, now: Instant, why: Contradiction) {
        let measured = match self.governor.rate() {
            0 => self.settings.wire,
            rate => Some(Rate::from_bits_per_sec(rate.saturating_mul(8))),
        };
        let next = match (why, measured) {
            (Contradiction::AtOnce, _) | (_, None) => Source::Submit,
            (Contradiction::Never, Some(rate)) => Source::Clock(rate),
        };
        self.switch(now, next, Nudge::None);
        if why == Contradiction::Never {
            self.retry = Some(now + self.retry_after);
            self.retry_after = (self.retry_after + self.retry_after).min(LONGEST_RETRY);
        }
    }

    #[cold]
    fn resume(&mut self, now: Instant) {
        self.retry = None;
        self.switch(now, self.settings.source, self.settings.nudge);
    }

    fn switch(&mut self, now: Instant, source: Source, nudge: Nudge) {
        self.unseen(|completions| completions.switch(source, nudge));
        self.governor.reset(now);
        self.watch.progress();
        self.reckon();
    }
}

/// Within what time something should complete.
fn patience(governor: &Governor) -> Duration {
    let of_ring = match governor.rate() {
        0 => 0,
        rate => u64::from(governor.in_flight()) * 2_000_000_000 / rate,
    };
    let of_delay = governor.delay().map_or(0, |delay| 4 * delay.as_nanos());
    Duration::from_nanos(of_ring.max(of_delay)).min(LONGEST_PATIENCE)
}

/// Notes the marks of one burst that one look found complete.
#[inline]
fn record(flight: &mut Flight, seen: Seen) {
    let weight = seen.amount.descriptors;
    flight.record_time(Kind::Residence, seen.residence, weight);
    if let Some(lateness) = seen.lateness {
        flight.record_time(Kind::Lateness, lateness, weight);
    }
}

/// Marks a second of a wire that never idles: three in each of the governor's windows.
const MARKS_PER_SECOND: u64 = 3 * 10_000;

/// Frames are let through beyond the limit after this at the latest.
const LONGEST_PATIENCE: Duration = Duration::from_nanos(10 * PATIENCE.as_nanos());

/// Limit and bytes in flight are recorded so often, while there are any.
const SAMPLE: Duration = Duration::from_micros(500);

/// How long a batch is kept in mind: learning it costs some 70 ms.
const BATCH_KEPT: Duration = Duration::from_millis(30_000);

/// How long a source that never reported is left alone, and at most.
const RETRY: Duration = Duration::from_millis(10_000);
const LONGEST_RETRY: Duration = Duration::from_millis(3_600_000);
