//! One line of progress, on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use crate::clock::now;

/// Rewrites its line in place on a terminal; elsewhere prints a new line now and then.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    printed: Option<Instant>,
}

impl Progress {
    /// Nothing is printed yet.
    pub fn new() -> Self {
        Self { terminal: stderr().is_terminal(), printed: None }
    }

    /// Says what begins now.
    pub fn stage(&mut self, line: &str) {
        self.printed = None;
        self.tick(line);
    }

    /// Shows `line`, or leaves it out if this is no terminal and the last one was printed just now.
    pub fn tick(&mut self, line: &str) {
        let due = self.printed.is_none_or(|at| now().duration_since(at) >= LOG_INTERVAL);
        // Progress that cannot be printed (a closed pipe) is no reason to fail.
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[K{line}");
        } else if due {
            let _ = writeln!(stderr(), "{line}");
            self.printed = Some(now());
        }
    }

    /// Takes the line off the terminal.
    pub fn clear(&mut self) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Between two lines in a log: three or four for one measured run.
const LOG_INTERVAL: Duration = Duration::from_secs(5);
