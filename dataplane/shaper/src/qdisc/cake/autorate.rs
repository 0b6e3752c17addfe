//! `autorate-ingress`: the capacity of the link before, estimated from how packets arrive.
//!
//! Packets that arrive closer together than usual belong to a burst, and a burst arrives at the rate
//! of the bottleneck it came through. A window lasts as long as a burst; the rates of windows are
//! averaged, rising fast and falling slowly, and 15/16 of the average is shaped to.

use super::stats::ewma;
use crate::conformance::Conformance;
use crate::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Autorate {
    last_arrival: Instant,
    window_begin: Instant,
    reconfigured: Instant,
    /// Usual gap between packets, ns.
    gap: u64,
    window_bytes: u64,
    /// The estimate, bytes per second.
    pub(super) peak: u64,
}

impl Autorate {
    /// `bandwidth` in bytes per second: where the estimate starts.
    pub(super) fn new(bandwidth: u64) -> Self {
        Self { peak: bandwidth, ..Self::default() }
    }

    /// Switched on, or told a bandwidth, at run time.
    pub(super) fn start(&mut self, now: Instant, bandwidth: u64) {
        *self = Self {
            last_arrival: now,
            window_begin: now,
            reconfigured: self.reconfigured,
            gap: 0,
            window_bytes: 0,
            peak: bandwidth,
        };
    }

    /// `bytes` arrived.
    #[inline]
    pub(super) fn count(&mut self, bytes: u32) {
        self.window_bytes = self.window_bytes.wrapping_add(bytes.into());
    }

    /// `bytes` that had arrived before are not to count.
    pub(super) fn uncount(&mut self, bytes: u32) {
        self.window_bytes = self.window_bytes.wrapping_sub(bytes.into());
    }

    /// A packet arrived while this is off.
    #[inline]
    pub(super) fn pass(&mut self, now: Instant) {
        self.window_bytes = 0;
        self.last_arrival = now;
    }

    /// A packet arrived while this is on. Returns a new bandwidth in bytes per second when it is time
    /// for one.
    pub(super) fn arrived<C: Conformance>(&mut self, now: Instant) -> Option<u64> {
        let gap = now.since(self.last_arrival).min(LONGEST_GAP).as_nanos();
        self.gap = ewma(self.gap, gap, if gap > self.gap { 2 } else { 8 });
        self.last_arrival = now;
        if gap <= self.gap {
            return None;
        }
        let window = now.since(self.window_begin).as_nanos().max(1);
        let rate = u128::from(self.window_bytes) * 1_000_000_000 / u128::from(window);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.peak = ewma(self.peak, rate, if rate > self.peak { 2 } else { 8 });
        self.window_bytes = 0;
        self.window_begin = now;
        if now.since(self.reconfigured) <= RECONFIGURE_AFTER {
            return None;
        }
        if !C::CAKE_AUTORATE_UNTIMED {
            self.reconfigured = now;
        }
        Some(self.peak.saturating_mul(15) >> 4)
    }
}

const LONGEST_GAP: Duration = Duration::from_millis(1000);
/// Between two changes of the rate.
const RECONFIGURE_AFTER: Duration = Duration::from_millis(250);
