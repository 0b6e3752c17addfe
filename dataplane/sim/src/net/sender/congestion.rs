//! What a congestion control decides: how many segments may be on their way.

use shaper::time::{Duration, Instant};
use std::fmt::Debug;

/// A congestion control, in segments.
pub trait Congestion: Debug {
    /// Segments that may be on their way.
    fn window(&self) -> f64;
    /// The window at which slow start ends (`ssthresh`).
    fn threshold(&self) -> f64;
    /// `segments` were delivered while the window was what held the sender back.
    fn on_delivery(&mut self, now: Instant, segments: u32, rtt: Duration);
    /// A segment was lost or marked; once per window.
    fn on_congestion(&mut self);
    /// Nothing came back for a retransmission timeout.
    fn on_timeout(&mut self);
    /// The sender was idle for a retransmission timeout (RFC 5681 section 4.1).
    fn on_idle(&mut self);
}

/// Segments of the first window (RFC 6928).
pub(super) const INITIAL_WINDOW: f64 = 10.0;
/// No congestion halves the window below.
pub(super) const LEAST_WINDOW: f64 = 2.0;
