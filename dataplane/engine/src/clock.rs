//! The one clock of the packet path.
//!
//! The worker reads it once a turn and passes the [`Instant`] down. The source is the TSC where
//! the CPU says that it is invariant (about 10 ns a reading), else `clock_gettime` (25 ns).
//! Neither is trusted: a step backward is held at the last reading, a step forward of more than
//! [`MAX_STEP`] (suspend, live migration) is cut to it, and both are counted. So time as the
//! schedulers see it never runs backward and no queue ages by hours in one turn.

use dpdk::{Eal, tsc};
use shaper::time::{Duration, Instant};

/// Reads nanoseconds since its own start.
#[derive(Debug)]
pub struct Clock {
    source: Source,
    steady: Steady,
}

/// What the clock had to mend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockStats {
    /// Readings that were earlier than the one before.
    pub backward: u64,
    /// Steps forward that were cut to [`MAX_STEP`].
    pub jumps: u64,
}

/// The longest step forward that is believed. Far above any descheduling seen on a shared machine
/// (tens of milliseconds), far below what would make a rate or an AQM do harm.
pub const MAX_STEP: Duration = Duration::from_millis(1_000);

#[derive(Debug)]
enum Source {
    /// `scale` is nanoseconds per cycle as a 32.32 fixed-point number.
    Tsc {
        start: u64,
        scale: u64,
    },
    System {
        start: std::time::Instant,
    },
}

/// Turns raw readings into time that only runs forward.
#[derive(Debug, Default)]
struct Steady {
    last_raw: u64,
    now: u64,
    stats: ClockStats,
}

impl Clock {
    /// A clock that starts at [`Instant::ZERO`].
    pub fn start(eal: &Eal) -> Self {
        let hz = tsc::hz(eal);
        let source = if tsc::is_invariant() && hz > 0 {
            Source::Tsc { start: tsc::rdtsc(), scale: scale(hz) }
        } else {
            Source::System { start: system_now() }
        };
        Self { source, steady: Steady::default() }
    }

    /// The present time; never earlier than the last answer.
    #[inline]
    pub fn now(&mut self) -> Instant {
        let raw = match &self.source {
            Source::Tsc { start, scale } => to_nanos(tsc::rdtsc().wrapping_sub(*start), *scale),
            Source::System { start } => start.elapsed().as_nanos() as u64,
        };
        self.steady.advance(raw)
    }

    /// "tsc" or "clock_gettime".
    pub fn source(&self) -> &'static str {
        match self.source {
            Source::Tsc { .. } => "tsc",
            Source::System { .. } => "clock_gettime",
        }
    }

    /// What had to be mended so far.
    pub fn stats(&self) -> ClockStats {
        self.steady.stats
    }
}

impl Steady {
    #[inline]
    fn advance(&mut self, raw: u64) -> Instant {
        match raw.checked_sub(self.last_raw) {
            None => self.stats.backward += 1,
            Some(step) if step > MAX_STEP.as_nanos() => {
                self.stats.jumps += 1;
                self.now += MAX_STEP.as_nanos();
            }
            Some(step) => self.now += step,
        }
        self.last_raw = raw;
        Instant::from_nanos(self.now)
    }
}

fn scale(hz: u64) -> u64 {
    ((1_000_000_000u128 << 32) / u128::from(hz)) as u64
}

/// One 64x64 multiplication: exact for 584 years, off by less than 0.3 ns per second of scale.
#[inline]
fn to_nanos(cycles: u64, scale: u64) -> u64 {
    ((u128::from(cycles) * u128::from(scale)) >> 32) as u64
}

#[allow(clippy::disallowed_methods)] // this is the room that owns the clock
fn system_now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_nanoseconds_without_drift() {
        let hz = 2_596_139_000;
        let day = 86_400 * hz;
        let nanos = to_nanos(day, scale(hz));
        let error = 86_400_000_000_000u64.abs_diff(nanos);
        assert!(error < 86_400, "{error} ns in a day");
    }

    #[test]
    fn time_never_runs_backward_and_never_leaps() {
        let mut steady = Steady::default();
        assert_eq!(steady.advance(10), Instant::from_nanos(10));
        assert_eq!(steady.advance(5), Instant::from_nanos(10), "held");
        assert_eq!(steady.advance(8), Instant::from_nanos(13), "goes on from the new reading");
        let leap = 3_600_000_000_000;
        assert_eq!(steady.advance(8 + leap), Instant::from_nanos(13 + MAX_STEP.as_nanos()));
        assert_eq!(steady.stats, ClockStats { backward: 1, jumps: 1 });
    }

    #[test]
    fn the_real_clock_moves() {
        let eal = dpdk::testing::eal();
        let mut clock = Clock::start(&eal);
        let first = clock.now();
        let mut later = clock.now();
        for _ in 0..1_000_000 {
            if later > first {
                break;
            }
            later = clock.now();
        }
        assert!(later > first, "{} stands still", clock.source());
    }
}
