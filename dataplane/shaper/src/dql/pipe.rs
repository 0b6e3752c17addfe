//! What the device and its wire are like: how fast they deliver, and how late they say so.
//!
//! The floor under the limit is the fastest delivery times the shortest time from submission to
//! completion, and a quarter of it or the largest batch more: what is complete and not told yet does
//! not keep a wire busy. What was seen is remembered over epochs of backlogged time, so what has
//! changed is forgotten: delay and batch after the second epoch; the rate after the third, because a
//! delay that has grown takes the rate down with it.
//!
//! Backlogged is when frames are held back, and also when they stand in the device below a limit that
//! was right once; light load is neither, and makes nothing forgotten.
//!
//! A standing queue hides the true delay: every frame takes as long as the queue before it. So each
//! epoch ends with a probe: the limit goes down to 7/8 of what the shortest time of the epoch says,
//! and further, in growing steps, as long as the device delivers as fast as before. When it does
//! not, the wire has run dry, and the delay is seen as it is. The price is an eighth of a delay of
//! wire time per epoch.

use crate::time::{Duration, Instant};

/// Rate, delay, and the floor that follows.
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    /// Bytes per second, the fastest of the two epochs before and of this one.
    rate: [u64; 3],
    /// Nanoseconds, the shortest of the epoch before and of this one; `u64::MAX` for none.
    delay: [u64; 2],
    /// Bytes, the most that one poll found, likewise.
    batch: [u32; 2],
    interval: Interval,
    /// Nanoseconds per descriptor in the last full interval.
    descriptor_time: u64,
    /// Bytes delivered in all.
    delivered: u64,
    epoch: Duration,
    /// By so much two polls may differ in what they see.
    grain: Duration,
    /// Backlogged time of this epoch.
    backlogged: Duration,
    probe: Option<Probe>,
    floor: u32,
    /// The latest poll that was late.
    late: Instant,
}

/// Deliveries since `start`.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: Instant,
    bytes: u64,
    descriptors: u64,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    limit: u32,
    /// How often the limit was lowered before, and what was known to be enough then, in nanoseconds.
    steps: u32,
    known: u64,
    /// When the first frame was submitted at this limit, and what had been delivered in all.
    first: Option<(Instant, u64)>,
}

impl Pipe {
    pub(super) const fn new(now: Instant, epoch: Duration, grain: Duration) -> Self {
        Self {
            rate: [0; 3],
            delay: [u64::MAX; 2],
            batch: [0; 2],
            interval: Interval { start: now, bytes: 0, descriptors: 0 },
            descriptor_time: 0,
            delivered: 0,
            epoch,
            grain,
            backlogged: Duration::ZERO,
            probe: None,
            floor: 0,
            late: now,
        }
    }

    /// The limit in bytes, no lower.
    #[inline]
    pub(super) const fn floor(&self) -> u32 {
        self.floor
    }

    /// The limit in bytes that holds while a probe runs.
    #[inline]
    pub(super) fn probing(&self) -> Option<u32> {
        self.probe.map(|probe| probe.limit)
    }

    /// Nanoseconds in which the device gets through one descriptor; 0 when not known.
    pub(super) const fn descriptor_time(&self) -> u64 {
        self.descriptor_time
    }

    /// Bytes per second.
    pub(super) fn rate(&self) -> u64 {
        self.rate.into_iter().fold(0, u64::max)
    }

    /// The shortest time from submission to completion.
    pub(super) fn delay(&self) -> Option<Duration> {
        let shortest = self.delay.into_iter().fold(u64::MAX, u64::min);
        (shortest != u64::MAX).then_some(Duration::from_nanos(shortest))
    }

    /// `bytes` in `descriptors` were seen complete. No interval begins with a late poll: what it found was told
    /// before, so the next would seem to come faster than it does.
    #[inline]
    pub(super) fn delivered(&mut self, now: Instant, bytes: u32, descriptors: u32) {
        self.delivered += u64::from(bytes);
        self.interval.bytes += u64::from(bytes);
        self.interval.descriptors += u64::from(descriptors);
        let elapsed = now.since(self.interval.start);
        if elapsed >= INTERVAL && now != self.late {
            self.measure(elapsed);
            self.interval = Interval { start: now, bytes: 0, descriptors: 0 };
        }
    }

    fn measure(&mut self, elapsed: Duration) {
        let Interval { bytes, descriptors, .. } = self.interval;
        let rate = u128::from(bytes) * SECOND / u128::from(elapsed.as_nanos());
        self.descriptor_time = elapsed.as_nanos() / descriptors.max(1);
        let [_, _, current] = &mut self.rate;
        *current = (*current).max(u64::try_from(rate).unwrap_or(u64::MAX));
        self.reckon();
    }

    /// A frame was submitted.
    #[inline]
    pub(super) fn submitted(&mut self, now: Instant) {
        if let Some(Probe { first: first @ None, .. }) = &mut self.probe {
            *first = Some((now, self.delivered));
        }
    }

    /// The poll at `now` was late: what was under way tells nothing.
    pub(super) fn interrupted(&mut self, now: Instant) {
        self.late = now;
        if let Some(probe) = &mut self.probe {
            probe.first = None;
        }
    }

    /// One poll found `bytes` complete, the oldest submitted at `submitted`. `enough` is the limit
    /// below which the floor does not matter.
    #[inline]
    pub(super) fn returned(&mut self, now: Instant, submitted: Instant, bytes: u32, enough: u32) {
        let [_, batch] = &mut self.batch;
        if bytes > *batch {
            *batch = bytes;
            self.reckon();
        }
        self.shorten(now.since(submitted).as_nanos());
        if let Some(probe) = self.probe
            && let Some((first, delivered)) = probe.first
            && submitted >= first
        {
            self.step(probe, now.since(first), self.delivered - delivered, enough);
        }
    }

    /// Whether frames stand in the device: none came back sooner than a quarter, and what two polls may
    /// differ by, over what is known.
    pub(super) fn is_standing(&self, shortest: Option<Duration>) -> bool {
        let (Some(shortest), Some(known)) = (shortest, self.delay()) else { return false };
        (shortest - self.grain).as_nanos() / 5 * 4 > known.as_nanos()
    }

    /// `elapsed` more of backlogged time; may begin a probe.
    pub(super) fn backlogged(&mut self, elapsed: Duration, enough: u32) {
        self.backlogged += elapsed;
        let ([.., rate], [.., delay]) = (self.rate, self.delay);
        if self.probe.is_none() && self.backlogged >= self.epoch && rate > 0 && delay != u64::MAX {
            self.descend(0, enough);
        }
    }

    /// The first frame of a probe's limit came back after `elapsed`, in which `delivered` bytes were.
    fn step(&mut self, probe: Probe, elapsed: Duration, delivered: u64, enough: u32) {
        let [.., rate] = self.rate;
        let elapsed = elapsed - self.grain;
        if elapsed == Duration::ZERO || delivered < bytes(rate, elapsed.as_nanos(), 31, 32).into() {
            // A step that was too long, and did not show the delay: on by a short one.
            let [.., delay] = self.delay;
            return if probe.steps > 0 && delay >= probe.known {
                self.descend(0, enough)
            } else {
                self.next_epoch()
            };
        }
        let took = u128::from(probe.limit) * SECOND / u128::from(rate.max(1));
        self.shorten(u64::try_from(took).unwrap_or(u64::MAX));
        self.descend(probe.steps + 1, enough);
    }

    /// To 7/8, then 6/8, then half of what is known to be enough, unless it is below `enough` anyway, or
    /// the delay is below what polls can tell: a batch above `enough` would have it go on for ever, with
    /// a single frame in flight. Never above the limit that holds: where completions come in batches, the shortest
    /// time holds the wait for one too.
    fn descend(&mut self, steps: u32, enough: u32) {
        let ([.., rate], [.., delay], [.., batch]) = (self.rate, self.delay, self.batch);
        if floor(self.rate(), delay, batch) <= enough || delay <= self.grain.as_nanos() {
            self.next_epoch();
        } else {
            let limit = bytes(rate, delay, 8 - (1 << steps.min(2)), 8).min(self.floor.max(enough));
            self.probe = Some(Probe { limit, steps, known: delay, first: None });
        }
    }

    /// Nothing takes longer than `nanos`.
    #[inline]
    fn shorten(&mut self, nanos: u64) {
        let [before, current] = &mut self.delay;
        if nanos < *current {
            *current = nanos;
            if nanos < *before {
                self.reckon();
            }
        }
    }

    fn next_epoch(&mut self) {
        let ([_, before, rate], [_, delay], [_, batch]) = (self.rate, self.delay, self.batch);
        self.rate = [before, rate, 0];
        self.delay = [delay, u64::MAX];
        self.batch = [batch, 0];
        self.backlogged = Duration::ZERO;
        self.probe = None;
        self.reckon();
    }

    fn reckon(&mut self) {
        let batch = self.batch.into_iter().fold(0, u32::max);
        self.floor = self.delay().map_or(0, |delay| floor(self.rate(), delay.as_nanos(), batch));
    }
}

/// The limit in bytes below which a wire may run dry.
fn floor(rate: u64, delay: u64, batch: u32) -> u32 {
    bytes(rate, delay, 5, 4).max(bytes(rate, delay, 1, 1).saturating_add(batch))
}

/// `rate` (bytes per second) times `nanos` times `numerator` / `denominator`.
fn bytes(rate: u64, nanos: u64, numerator: u128, denominator: u128) -> u32 {
    let bytes = u128::from(rate) * u128::from(nanos) * numerator / (denominator * SECOND);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;

/// Over which a rate is measured: long against two polls, so that their jitter is a thousandth.
const INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Mbit/s with frames of 1538 bytes, one in flight, after a batch of 18 was seen: whatever the delay, the
    /// floor stays above `enough`.
    #[test]
    fn a_probe_ends_though_a_batch_keeps_the_floor_up() {
        let (frame, took, enough) = (1_538, Duration::from_nanos(123_040), 3_076);
        let mut pipe = Pipe::new(Instant::ZERO, Duration::from_millis(500), Duration::from_nanos(12_500));
        let mut now = Instant::ZERO;
        let mut step = |pipe: &mut Pipe, batch: u32| {
            let submitted = now;
            pipe.submitted(now);
            now += took;
            pipe.delivered(now, frame, 1);
            pipe.returned(now, submitted, batch, enough);
        };
        (0..100).for_each(|_| step(&mut pipe, 18 * frame));
        pipe.backlogged(Duration::from_millis(500), enough);
        assert!(pipe.probing().is_some() && pipe.floor() > enough);
        (0..32).for_each(|_| step(&mut pipe, frame));
        assert_eq!(pipe.probing(), None);
    }
}
