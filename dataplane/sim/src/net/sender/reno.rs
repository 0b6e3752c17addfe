//! Reno: RFC 5681, once per window as RFC 6582 and RFC 3168 have it.

use super::congestion::{Congestion, INITIAL_WINDOW, LEAST_WINDOW};
use shaper::time::{Duration, Instant};

/// Additive increase, multiplicative decrease.
#[derive(Debug)]
pub struct Reno {
    window: f64,
    threshold: f64,
}

impl Reno {
    /// At the start of a connection.
    pub fn new() -> Self {
        Self { window: INITIAL_WINDOW, threshold: f64::INFINITY }
    }
}

impl Default for Reno {
    fn default() -> Self {
        Self::new()
    }
}

impl Congestion for Reno {
    fn window(&self) -> f64 {
        self.window
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    fn on_delivery(&mut self, _now: Instant, segments: u32, _rtt: Duration) {
        let slow_start = self.window < self.threshold;
        self.window += if slow_start { f64::from(segments) } else { f64::from(segments) / self.window };
    }

    fn on_congestion(&mut self) {
        self.threshold = (self.window / 2.0).max(LEAST_WINDOW);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self) {
        self.threshold = (self.window / 2.0).max(LEAST_WINDOW);
        self.window = 1.0;
    }

    fn on_idle(&mut self) {
        self.window = self.window.min(INITIAL_WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_then_adds_one_and_halves() {
        let mut reno = Reno::new();
        let round = |reno: &mut Reno| {
            for _ in 0..reno.window() as u32 {
                reno.on_delivery(Instant::ZERO, 1, Duration::ZERO);
            }
        };
        round(&mut reno);
        assert_eq!(reno.window(), 20.0);
        reno.on_congestion();
        assert_eq!(reno.window(), 10.0);
        round(&mut reno);
        assert!((reno.window() - 11.0).abs() < 0.06, "{}", reno.window());
        reno.on_timeout();
        assert_eq!(reno.window(), 1.0);
    }
}
