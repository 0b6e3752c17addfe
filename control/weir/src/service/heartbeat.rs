//! Says "ready" and "alive" to the service manager, and means it: every worker has turned since it was said last.
//!
//! A worker that hangs in its driver, or was never scheduled, keeps the watchdog waiting, as a control loop that
//! hangs does. The manager then ends weir and starts it again.

use super::Notify;
use engine::line::{Line, LineLink};
use std::time::{Duration, Instant};

/// What was said, and of which turns.
#[derive(Debug)]
pub struct Heartbeat<'a> {
    notify: &'a Notify,
    /// Turns of each worker when it was said last.
    turns: Vec<u64>,
    is_ready: bool,
    asked: Option<Instant>,
    period: Duration,
    status: String,
}

impl<'a> Heartbeat<'a> {
    /// Nothing has been said yet.
    pub fn new(notify: &'a Notify) -> Self {
        // Twice as often as systemd advises: workers answer one look later.
        let period = notify.watchdog().map_or(PERIOD, |within| (within / 4).min(PERIOD));
        Self { notify, turns: Vec::new(), is_ready: false, asked: None, period, status: String::new() }
    }

    /// Looks after the workers; call it with each look at the links.
    pub fn tend(&mut self, line: &mut Line) {
        if !self.notify.is_heard() {
            return;
        }
        line.fetch();
        if self.have_all_turned(line) {
            self.say(line);
            self.turns = line.workers().iter().map(|worker| worker.page.turns.total).collect();
        }
        let now = now();
        if self.asked.is_none_or(|asked| now.duration_since(asked) >= self.period) {
            // One that hangs is asked again and again, to no avail: its mailbox is bounded.
            line.ask();
            self.asked = Some(now);
        }
    }

    fn have_all_turned(&self, line: &Line) -> bool {
        let before = self.turns.iter().copied().chain(std::iter::repeat(0));
        line.workers().iter().zip(before).all(|(worker, before)| worker.page.turns.total > before)
    }

    fn say(&mut self, line: &Line) {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.notify.ready();
        }
        if self.notify.watchdog().is_some() {
            self.notify.alive();
        }
        let links: Vec<_> = line.links().iter().map(link).collect();
        let status = links.join(", ");
        if self.status != status {
            self.notify.status(&status);
            self.status = status;
        }
    }
}

impl Drop for Heartbeat<'_> {
    fn drop(&mut self) {
        self.notify.stopping();
    }
}

fn link(link: &LineLink) -> String {
    let state = |up| if up { "up" } else { "down" };
    format!("{}: a {}, b {}", link.name, state(link.a.is_up()), state(link.b.is_up()))
}

#[allow(clippy::disallowed_methods, reason = "a service manager's time, no packet's")]
fn now() -> Instant {
    Instant::now()
}

/// How often at most without a watchdog, and how often the state is told.
const PERIOD: Duration = Duration::from_secs(1);
