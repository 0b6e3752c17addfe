//! CUBIC: RFC 9438, without HyStart.

use super::congestion::{Congestion, INITIAL_WINDOW, LEAST_WINDOW};
use shaper::time::{Duration, Instant};

/// A window that grows as a cubic of the time since the last congestion.
#[derive(Debug)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last reduction.
    plateau: f64,
    epoch: Option<Epoch>,
}

/// Since congestion avoidance began again.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Seconds until the plateau is reached again.
    until_plateau: f64,
    /// What Reno's window would be.
    reno: f64,
}

impl Cubic {
    /// At the start of a connection.
    pub fn new() -> Self {
        Self { window: INITIAL_WINDOW, threshold: f64::INFINITY, plateau: 0.0, epoch: None }
    }

    /// Section 4.2: begins a new epoch.
    fn begin(&mut self, now: Instant) -> Epoch {
        let until_plateau = if self.window < self.plateau {
            cube_root((self.plateau - self.window) / C)
        } else {
            self.plateau = self.window;
            0.0
        };
        Epoch { start: now, until_plateau, reno: self.window }
    }

    /// Sections 4.6 and 4.7.
    fn reduce(&mut self) {
        let falling = self.window < self.plateau;
        self.plateau = if falling { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.threshold = (self.window * BETA).max(LEAST_WINDOW);
        self.window = self.threshold;
        self.epoch = None;
    }
}

impl Default for Cubic {
    fn default() -> Self {
        Self::new()
    }
}

impl Congestion for Cubic {
    fn window(&self) -> f64 {
        self.window
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    fn on_delivery(&mut self, now: Instant, segments: u32, rtt: Duration) {
        let segments = f64::from(segments);
        if self.window < self.threshold {
            self.window += segments;
            return;
        }
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(now));
        let slope = if epoch.reno < self.plateau { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        epoch.reno += slope * segments / self.window;
        self.epoch = Some(epoch);
        let at = |span: Duration| {
            let t = span.as_nanos() as f64 / 1e9 - epoch.until_plateau;
            C * t * t * t + self.plateau
        };
        let since = now.since(epoch.start);
        if at(since) < epoch.reno {
            self.window = self.window.max(epoch.reno);
        } else {
            let target = at(since + rtt).clamp(self.window, 1.5 * self.window);
            self.window += (target - self.window) * segments / self.window;
        }
    }

    fn on_congestion(&mut self) {
        self.reduce();
    }

    fn on_timeout(&mut self) {
        self.reduce();
        self.window = 1.0;
    }

    fn on_idle(&mut self) {
        self.window = self.window.min(INITIAL_WINDOW);
        self.epoch = None;
    }
}

/// By Newton's iteration: the library's differs between machines in the last digit.
fn cube_root(x: f64) -> f64 {
    let mut root = x.max(1.0);
    for _ in 0..100 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

/// Segments per second cubed.
const C: f64 = 0.4;
/// What a reduction leaves.
const BETA: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for x in [0.001, 1.0, 27.0, 1e9_f64] {
            assert!((cube_root(x) - x.cbrt()).abs() <= 1e-9 * x.cbrt(), "{x}: {}", cube_root(x));
        }
    }

    /// RFC 9438: from 0.7 of the plateau back to it in K = cbrt(0.3 plateau / C) seconds.
    #[test]
    fn returns_to_the_plateau_in_its_time() {
        let mut cubic = Cubic { window: 1_000.0, threshold: 500.0, plateau: 0.0, epoch: None };
        cubic.on_congestion();
        assert_eq!(cubic.window(), 700.0);
        let k = (300.0_f64 / C).cbrt();
        let rtt = Duration::from_millis(100);
        let mut now = Instant::ZERO;
        while now.as_nanos() as f64 / 1e9 < k {
            for _ in 0..10 {
                cubic.on_delivery(now, cubic.window() as u32 / 10, rtt);
            }
            now += rtt;
        }
        assert!((cubic.window() - 1_000.0).abs() < 10.0, "{}", cubic.window());
    }
}
