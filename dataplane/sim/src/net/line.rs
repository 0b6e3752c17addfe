//! A discipline in front of a wire.

use super::discipline::Discipline;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

/// One direction of the bottleneck.
#[derive(Debug)]
pub struct Line {
    /// What waits, and who goes next.
    pub discipline: Box<dyn Discipline>,
    /// The wire's own rate; `None` where the discipline alone limits.
    pub wire: Option<Rate>,
    /// When the wire has sent all it was given.
    pub(super) free: Instant,
    /// When the discipline will be asked next without an arrival.
    pub(super) asked: Instant,
    /// Packets that came, left, and were lost.
    pub(super) came: u64,
    pub(super) left: u64,
    pub(super) lost: u64,
    /// Bytes that left, as frames.
    pub bytes: u64,
}

impl Line {
    /// `discipline` in front of a wire that takes no time.
    pub fn new(discipline: Box<dyn Discipline>) -> Self {
        let (free, asked) = (Instant::ZERO, Instant::MAX);
        Self { discipline, wire: None, free, asked, came: 0, left: 0, lost: 0, bytes: 0 }
    }

    /// A wire of `rate`, which carries frames as they are.
    #[must_use]
    pub fn on_wire(mut self, rate: Rate) -> Self {
        self.wire = Some(rate);
        self
    }

    /// How long `bytes` occupy the wire.
    pub(super) fn span(&self, bytes: u32) -> Duration {
        let nanos = |rate: Rate| (u64::from(bytes) * 8_000_000_000).div_ceil(rate.bits_per_sec());
        Duration::from_nanos(self.wire.map_or(0, nanos))
    }
}
