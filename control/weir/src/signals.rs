//! SIGINT, SIGTERM and SIGHUP, taken by a thread of their own, which waits for nobody: a driver may
//! hold up the main thread for ever (`net_virtio_user` with `server=1` until its peer comes).
//!
//! * SIGINT or SIGTERM stops in order. While weir still starts it is given [`GRACE`] to get that far,
//!   then the process ends at once, as it does on a second signal. (Not if that comes with the first:
//!   Ctrl-C reaches weir from the terminal, and again from a program that passes it on.)
//! * SIGHUP asks to take up the changed file: [`Signals::take_hangup`].

use crate::say::complain;
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal, raise};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The signals of this process; one of these at a time.
#[derive(Debug)]
pub struct Signals {
    shared: Arc<Shared>,
    wake: Receiver<()>,
    started: Sender<()>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: AtomicBool,
    hung_up: AtomicBool,
    /// What would be left behind by an end in disorder.
    litter: Mutex<Vec<PathBuf>>,
}

impl Signals {
    /// Takes the signals from here on, for all threads that are started later too.
    ///
    /// # Errors
    /// The system's.
    pub fn take() -> Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        let shared = Arc::new(Shared::default());
        let ((waker, wake), (started, start)) = (channel(), channel());
        let watcher = Watcher { signals, shared: shared.clone(), waker, start };
        signals.thread_block().context("cannot block SIGINT, SIGTERM and SIGHUP")?;
        std::thread::Builder::new()
            .name("weir-signals".to_owned())
            .spawn(move || watcher.watch())
            .context("cannot start the thread that takes SIGINT, SIGTERM and SIGHUP")?;
        Ok(Self { shared, wake, started })
    }

    /// Has `path`, a file or a folder, removed if the process ends at once.
    pub fn remove_at_end(&self, path: PathBuf) {
        self.shared.litter.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    }

    /// Says that [`Signals::wait`] is listened to from now on.
    pub fn running(&self) {
        // The watcher lives as long as the process.
        let _ = self.started.send(());
    }

    /// Whether a SIGHUP has come since this was asked last.
    pub fn take_hangup(&self) -> bool {
        self.shared.hung_up.swap(false, Ordering::AcqRel)
    }

    /// Waits until asked to stop, at most for `span`; `true` once asked.
    pub fn wait(&self, span: Duration) -> bool {
        if !self.shared.asked.load(Ordering::Acquire) {
            let _ = self.wake.recv_timeout(span);
        }
        self.shared.asked.load(Ordering::Acquire)
    }
}

struct Watcher {
    signals: SigSet,
    shared: Arc<Shared>,
    waker: Sender<()>,
    start: Receiver<()>,
}

impl Watcher {
    fn watch(&self) {
        let mut starting = true;
        let mut first = None;
        loop {
            let Ok(signal) = self.signals.wait() else { continue };
            if signal == Signal::SIGHUP {
                self.shared.hung_up.store(true, Ordering::Release);
                continue;
            }
            let now = now();
            if now.duration_since(*first.get_or_insert(now)) > TOGETHER {
                self.end(signal, "asked to stop a second time");
            }
            self.shared.asked.store(true, Ordering::Release);
            let _ = self.waker.send(());
            if starting && self.start.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                self.end(signal, "stopped while starting, before any packet was forwarded");
            }
            starting = false;
        }
    }

    /// Ends the process, by the signal as far as its parent sees.
    fn end(&self, signal: Signal, why: &str) -> ! {
        for path in self.shared.litter.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
        }
        complain(&format!("weir: {signal}: {why}"));
        let _ = self.signals.thread_unblock().and_then(|()| raise(signal));
        // Whoever started this process has it ignore the signal.
        std::process::exit(128 + signal as i32)
    }
}

#[allow(clippy::disallowed_methods, reason = "a person's or a program's signals, no packet's time")]
fn now() -> Instant {
    Instant::now()
}

/// How far apart two signals are that were meant as one.
const TOGETHER: Duration = Duration::from_millis(500);

/// How long a start may go on after a signal, to end in order. It seldom takes as long; what an end in
/// disorder leaves is the promiscuous mode of kernel interfaces.
const GRACE: Duration = Duration::from_secs(2);
