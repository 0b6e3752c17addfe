//! How long turns take, and whether the thread had its CPU meanwhile.

use dpdk::{Eal, tsc};
use hdrhistogram::Histogram;
use nix::time::{ClockId, clock_gettime};

/// Times of turns.
pub struct Times {
    histogram: Histogram<u64>,
    /// Longer than [`LIMIT`].
    pub over: u64,
    /// Most of a turn during which the thread was off its CPU; not in the other figures.
    pub gaps: u64,
}

impl Times {
    pub fn new() -> Self {
        Self { histogram: Histogram::new_with_max(60_000_000_000, 3).unwrap(), over: 0, gaps: 0 }
    }

    /// `None`: a gap.
    pub fn note(&mut self, nanos: Option<u64>) {
        let Some(nanos) = nanos else {
            self.gaps += 1;
            return;
        };
        self.histogram.saturating_record(nanos);
        self.over += u64::from(nanos > LIMIT);
    }

    pub fn micros(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1e3
    }

    pub fn longest(&self) -> f64 {
        self.histogram.max() as f64 / 1e3
    }
}

/// Times one turn after the other.
pub struct Stopwatch {
    nanos_per_tick: f64,
    /// TSC and CPU time of the thread when they were looked at last.
    ticks: u64,
    on_cpu: u64,
    /// Turns since then.
    turns: u32,
}

impl Stopwatch {
    pub fn new(eal: &Eal) -> Self {
        let nanos_per_tick = 1e9 / tsc::hz(eal) as f64;
        Self { nanos_per_tick, ticks: tsc::rdtsc(), on_cpu: on_cpu(), turns: 0 }
    }

    /// Nanoseconds that `turn` took; `None` if most of them were a gap.
    pub fn time(&mut self, turn: impl FnOnce()) -> Option<u64> {
        let start = tsc::rdtsc();
        turn();
        let ticks = tsc::rdtsc() - start;
        let nanos = (ticks as f64 * self.nanos_per_tick) as u64;
        self.turns += 1;
        if nanos < SUSPICIOUS && self.turns < CHECKED_AFTER {
            return Some(nanos);
        }
        let away = self.away();
        (nanos < SUSPICIOUS || 2 * away < nanos).then_some(nanos)
    }

    /// How long the thread was off its CPU since the last look.
    fn away(&mut self) -> u64 {
        let (ticks, now) = (tsc::rdtsc(), on_cpu());
        let passed = ((ticks - self.ticks) as f64 * self.nanos_per_tick) as u64;
        let away = passed.saturating_sub(now - self.on_cpu);
        (self.ticks, self.on_cpu, self.turns) = (ticks, now, 0);
        away
    }
}

/// CPU time of this thread in nanoseconds.
fn on_cpu() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// The bar for a turn with a change, in nanoseconds.
pub const LIMIT: u64 = 100_000;
/// Shorter turns are not asked about: looking costs a system call.
const SUSPICIOUS: u64 = 30_000;
/// Turns after which it is looked anyway, so that a gap outside of turns is not taken for one within.
const CHECKED_AFTER: u32 = 64;
