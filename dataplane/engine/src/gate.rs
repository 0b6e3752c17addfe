//! The gate in front of a transmit ring: the governor, fed with completions, decides how much may lie
//! in the ring.
//!
//! Once a turn [`Gate::reap`]; then packets while [`Gate::admits`]; each burst through [`Gate::burst`].
//! Between turns: bytes in flight as the governor counts them are those of [`Completions`]. Where
//! completions mean nothing ([`Source::Submit`]), or shall not bind ([`CompleteOn::Submit`]), the
//! governor is not asked and everything is admitted that the ring has room for.
//!
//! A burst is marked at its last frame, and within it every quarter of a window, or of the limit while
//! the rate is not known. The driver may refuse a burst's end, and with it its mark: what it took is
//! covered by the next mark then, for the rest is offered again.

use crate::completion::source::{Nudge, Queue, Source};
use crate::completion::watch::{self, Contradiction, PATIENCE, Watch};
use crate::completion::{Amount, Completions};
use crate::flight::{Flight, Kind};
use crate::frame;
use crate::plan::{CompleteOn, GovernorPlan};
use dpdk::{Burst, Held, Mbuf, Mempool};
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
    settings: Settings,
    /// Of the latest turn.
    now: Instant,
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

/// What has happened since creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames whose first segment was somebody else's as well, and that got one of their own.
    pub reheaded: u64,
    /// Bursts whose last frame could not be held, for want of a buffer: counted as complete with the
    /// one before.
    pub unheld: u64,
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
        Self {
            governor: Governor::new(params, 1, Instant::ZERO),
            completions: Completions::new(settings.source, settings.nudge, settings.ring),
            watch: Watch::default(),
            flight: Flight::new(),
            settings,
            now: Instant::ZERO,
            batch: (0, Instant::ZERO),
            retry: None,
            retry_after: RETRY,
            stats: Stats::default(),
        }
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
        let flight = &mut self.flight;
        let reaped = self.completions.reap(now, tx, |seen| {
            let weight = seen.amount.descriptors;
            flight.record_time(Kind::Residence, seen.residence, weight);
            if let Some(lateness) = seen.lateness {
                flight.record_time(Kind::Lateness, lateness, weight);
            }
        });
        if reaped.descriptors > 0 {
            flight.record(Kind::Batch, reaped.descriptors, 1);
            self.progress(now, reaped);
            self.complete(now, reaped);
        }
        if self.binds() {
            self.governor.turn(now);
        }
        if reaped.descriptors > 0 {
            self.record();
        }
    }

    /// Whether one more frame may be taken out of the discipline, beside those that `wait` for the
    /// driver.
    #[inline]
    pub fn admits(&self, wait: u64, frames: usize) -> bool {
        self.has_room(frames) && (self.is_within(wait, frames) || self.watch.allows())
    }

    /// One more frame was taken, beside those that had waited.
    #[inline]
    pub fn admitted(&mut self, wait: u64, frames: usize) {
        if !self.is_within(wait, frames) {
            self.watch.spend(1);
        }
    }

    /// Frames that were due have stayed in the discipline because of the gate.
    #[inline]
    pub fn hold(&mut self, now: Instant) {
        self.governor.held();
        if let Some(why) = self.watch.waiting(now, self.patience()) {
            self.give_up(now, why);
        }
    }

    /// Frames have stayed in the out-box because the driver refused them.
    #[inline]
    pub fn refused(&mut self) {
        self.governor.held();
    }

    /// Sends from the front of `burst`, and looks for the last frame that is taken. Returns how many
    /// are; the others stay in the burst.
    #[inline]
    pub fn burst(&mut self, now: Instant, tx: &mut impl Queue, burst: &mut Burst) -> usize {
        if self.completions.source() == Source::Submit {
            return tx.send(burst);
        }
        tx.join(burst);
        let before = self.completions.in_flight();
        self.offer(now, burst);
        let sent = tx.send(burst);
        self.completions.taken(self.amount(burst.as_slice()));
        let taken = self.completions.in_flight().since(before);
        if taken.descriptors > 0 {
            self.submitted(now, tx, taken);
        }
        sent
    }

    /// What waited for the driver was given up: nothing may follow what it has taken.
    #[cold]
    pub fn settle(&mut self) {
        let settled = self.completions.settle();
        self.complete(self.now, settled);
    }

    /// The link came up: what was learned is forgotten, what is in flight stays so.
    pub fn link_up(&mut self) {
        self.governor.link_up(self.now);
        self.watch.progress();
    }

    /// The ring was emptied (the port was stopped): nothing is in flight.
    pub fn reset(&mut self) {
        self.switch(self.now, self.completions.source(), self.completions.nudge());
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
            gate: self.stats,
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
    fn binds(&self) -> bool {
        self.settings.plan.complete_on == CompleteOn::Completion
            && self.completions.source() != Source::Submit
    }

    /// The limit; and whoever waits for a completion that nothing in the ring will bring goes.
    #[inline]
    fn is_within(&self, wait: u64, frames: usize) -> bool {
        if !self.binds() {
            return true;
        }
        let wait = wait + frames as u64 * u64::from(self.settings.framing);
        let bytes = u64::from(self.governor.in_flight()) + wait;
        bytes <= u64::from(self.limit()) || bytes == 0 || (frames == 0 && self.completions.is_unmarked())
    }

    /// A driver takes some descriptors less than its ring has; with what is seen late, room is
    /// underestimated anyhow.
    #[inline]
    fn has_room(&self, frames: usize) -> bool {
        let in_use = self.completions.in_flight().descriptors + frames as u64;
        in_use < u64::from(self.settings.ring) || in_use == 0
    }

    /// Bytes that a packet takes on the wire, with what each of its frames takes beside its own.
    #[inline]
    fn wire_bytes(&self, packet: &Mbuf) -> u32 {
        let frames = frame::segments(packet).map_or(1, |segments| u32::from(segments.segs));
        frame::wire_len(packet).saturating_add(frames.saturating_mul(self.settings.framing))
    }

    #[inline]
    fn amount(&self, frames: &[Mbuf]) -> Amount {
        frames.iter().fold(Amount::default(), |sum, frame| Amount {
            bytes: sum.bytes + u64::from(self.wire_bytes(frame)),
            descriptors: sum.descriptors + u64::from(frame.nb_segs()),
        })
    }

    /// Marks a burst.
    #[inline]
    fn offer(&mut self, now: Instant, burst: &mut Burst) {
        let (span, last) = (self.span(), burst.len().saturating_sub(1));
        let mut run = 0;
        for (index, frame) in burst.as_mut_slice().iter_mut().enumerate() {
            let bytes = self.wire_bytes(frame);
            run += bytes;
            if run < span && index < last {
                self.completions.offer(bytes, frame.nb_segs());
                continue;
            }
            let handle = if self.completions.source() == Source::Held && self.completions.has_room() {
                let handle = frame.hold().or_else(|| self.rehead(frame, index == last));
                if handle.is_none() {
                    self.completions.offer(bytes, frame.nb_segs());
                    continue;
                }
                handle
            } else {
                None
            };
            self.completions.offer(bytes, frame.nb_segs());
            self.completions.mark(now, handle);
            run = 0;
        }
    }

    /// The frame's first segment has other holders, or is not its own.
    #[cold]
    fn rehead(&mut self, frame: &mut Mbuf, is_last: bool) -> Option<Held> {
        if !is_last {
            return None;
        }
        let handle = self.settings.heads.as_ref().and_then(|heads| {
            let room = usize::from(heads.data_room() - dpdk::mempool::HEADROOM);
            frame.rehead(heads, room).ok()?;
            frame.hold()
        });
        *(if handle.is_some() { &mut self.stats.reheaded } else { &mut self.stats.unheld }) += 1;
        handle
    }

    /// Wire bytes from one mark to the next.
    #[inline]
    fn span(&self) -> u32 {
        match self.governor.rate() {
            0 => self.limit() / 4,
            rate => u32::try_from(rate / MARKS_PER_SECOND).unwrap_or(u32::MAX),
        }
    }

    fn submitted(&mut self, now: Instant, tx: &impl Queue, taken: Amount) {
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
        self.record();
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
    fn record(&mut self) {
        self.flight.record(Kind::Limit, self.limit().into(), 1);
        self.flight.record(Kind::InFlight, self.completions.in_flight().bytes, 1);
    }

    /// Within what time something should complete.
    #[inline]
    fn patience(&self) -> Duration {
        let of_ring = match self.governor.rate() {
            0 => 0,
            rate => u64::from(self.governor.in_flight()) * 2_000_000_000 / rate,
        };
        let of_delay = self.governor.delay().map_or(0, |delay| 4 * delay.as_nanos());
        Duration::from_nanos(of_ring.max(of_delay)).min(LONGEST_PATIENCE)
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
        self.completions.switch(source, nudge);
        self.governor.reset(now);
        self.watch.progress();
    }
}

/// Marks a second of a wire that never idles: four in each of the governor's windows.
const MARKS_PER_SECOND: u64 = 4 * 10_000;

/// Frames are let through beyond the limit after this at the latest.
const LONGEST_PATIENCE: Duration = Duration::from_nanos(10 * PATIENCE.as_nanos());

/// How long a batch is kept in mind: learning it costs some 70 ms.
const BATCH_KEPT: Duration = Duration::from_millis(30_000);

/// How long a source that never reported is left alone, and at most.
const RETRY: Duration = Duration::from_millis(10_000);
const LONGEST_RETRY: Duration = Duration::from_millis(3_600_000);
