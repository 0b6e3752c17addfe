//! Real time: clock readings, naps, and the wish of the user to stop.
//!
//! The only place of this crate that reads a clock or sleeps: a rig waits for other processes, so it must.
#![allow(
    clippy::disallowed_methods,
    reason = "a rig runs in real time, beside the processes that it measures"
)]

use std::fmt;
use std::io::{Write, stderr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Set by SIGINT, SIGTERM and SIGHUP; every wait of a run looks at it, so that all guards are dropped in order.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Takes the three signals over from their default action, for the rest of the process's life.
    pub fn install() -> Result<Self> {
        let flag = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_usize(signal, Arc::clone(&flag), signal as usize)
                .with_context(|| format!("cannot handle signal {signal}"))?;
        }
        Ok(Self(flag))
    }

    /// An error of type [`Interrupted`] once a signal has come.
    pub fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Interrupted(signal as i32).into()),
        }
    }

    /// Sleeps, and returns early with [`Interrupted`] when a signal comes (within 20 ms).
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        let end = now() + duration;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(());
            }
            nap(left.min(Duration::from_millis(20)));
        }
    }
}

/// The run was told to stop by this signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted(pub i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted by signal {}", self.0)
    }
}

impl std::error::Error for Interrupted {}

/// Says on standard error why `program` failed, if it did: 0, 1, or 128 and the signal that ended it.
pub fn exit_code(program: &str, result: Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // Nobody may be listening any more.
    match error.downcast_ref() {
        Some(Interrupted(signal)) => {
            let _ = writeln!(stderr(), "{program}: interrupted; everything it made is gone");
            ExitCode::from(128 + *signal as u8)
        }
        None => {
            let _ = writeln!(stderr(), "{program}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970, the clock that `ping -D` prints.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// Sleeps without looking at signals: for the short waits inside clean-up.
pub fn nap(duration: Duration) {
    thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_every_later_wait() {
        let interrupt = Interrupt(Arc::new(AtomicUsize::new(0)));
        assert!(interrupt.sleep(Duration::ZERO).is_ok());
        interrupt.0.store(15, Ordering::Relaxed);
        let error = interrupt.sleep(Duration::from_secs(3600)).unwrap_err();
        assert_eq!(error.downcast_ref::<Interrupted>(), Some(&Interrupted(15)));
    }
}
