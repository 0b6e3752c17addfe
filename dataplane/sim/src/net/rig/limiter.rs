//! What stands between a discipline and the card's ring.

use crate::nic::Reaped;
use shaper::conformance::Linux;
use shaper::dql::{Dql, Governor, Params};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

/// How many bytes the card is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As many as the ring holds.
    Ring,
    /// These, always (`limit_min` and `limit_max` set to the same by hand).
    Fixed(u32),
    /// Byte queue limits as Linux has them, never below these (`limit_min`).
    Stock(u32),
    /// What the governor learns.
    Governed,
}

/// Counts what is in flight and says when it is enough.
#[derive(Debug)]
pub enum Limiter {
    /// [`Limit::Ring`] and [`Limit::Fixed`].
    Fixed {
        /// Bytes that may be in flight.
        limit: u32,
        /// Bytes in flight.
        in_flight: u32,
    },
    /// [`Limit::Stock`].
    Stock(Box<Dql<Linux>>),
    /// [`Limit::Governed`].
    Governed(Box<Governor>),
}

impl Limiter {
    /// A limiter in front of one ring of `descriptors`.
    pub fn new(limit: Limit, descriptors: u32) -> Self {
        match limit {
            Limit::Ring => Self::Fixed { limit: u32::MAX, in_flight: 0 },
            Limit::Fixed(limit) => Self::Fixed { limit, in_flight: 0 },
            Limit::Stock(least) => {
                let mut dql = Dql::new(0, HZ);
                dql.set_min_limit(least);
                dql.reset(0);
                Self::Stock(Box::new(dql))
            }
            Limit::Governed => {
                let params = Params { ring: descriptors, ..Params::default() };
                Self::Governed(Box::new(Governor::new(params, 1, Instant::ZERO)))
            }
        }
    }

    /// The turn at `now` found this complete, or nothing.
    pub fn completed(&mut self, now: Instant, reaped: Reaped) {
        match self {
            Self::Fixed { in_flight, .. } => *in_flight -= reaped.bytes,
            Self::Stock(dql) => {
                // Never more than is outstanding: it was queued before.
                let _complete = dql.completed(jiffies(now), reaped.bytes);
            }
            Self::Governed(governor) => {
                if reaped.bytes > 0 {
                    governor.completed(now, 0, reaped.bytes, reaped.descriptors);
                }
                governor.turn(now);
            }
        }
    }

    /// Whether the card may be given another frame.
    pub fn ready(&self) -> bool {
        match self {
            Self::Fixed { limit, in_flight } => in_flight <= limit,
            Self::Stock(dql) => dql.available() >= 0,
            Self::Governed(governor) => governor.ready(),
        }
    }

    /// Bytes that it may be given before the limit is reached.
    pub fn room(&self) -> u32 {
        match self {
            Self::Fixed { limit, in_flight } => limit.saturating_sub(*in_flight),
            Self::Stock(dql) => dql.available().max(0).unsigned_abs(),
            Self::Governed(governor) => governor.limit().saturating_sub(governor.in_flight()),
        }
    }

    /// The card was given `bytes` in a frame.
    pub fn queued(&mut self, now: Instant, bytes: u32) {
        match self {
            Self::Fixed { in_flight, .. } => *in_flight += bytes,
            Self::Stock(dql) => {
                // Refused above 256 MB only.
                let _accepted = dql.queued(jiffies(now), bytes);
            }
            Self::Governed(governor) => governor.queued(now, 0, bytes),
        }
    }

    /// Something had to stay behind.
    pub fn held(&mut self) {
        if let Self::Governed(governor) = self {
            governor.held();
        }
    }

    /// Bytes that may be in flight; `None` for all that the ring holds.
    pub fn limit(&self) -> Option<u32> {
        match self {
            Self::Fixed { limit: u32::MAX, .. } => None,
            Self::Fixed { limit, .. } => Some(*limit),
            Self::Stock(dql) => Some(dql.limit()),
            Self::Governed(governor) => Some(governor.limit()),
        }
    }

    /// The rate at which the card was seen to drain, where somebody looks.
    pub fn drain_rate(&self) -> Option<Rate> {
        match self {
            Self::Governed(governor) if governor.rate() > 0 => {
                Some(Rate::from_bytes_per_sec(governor.rate()))
            }
            _ => None,
        }
    }
}

fn jiffies(now: Instant) -> u64 {
    now.as_nanos() / JIFFY.as_nanos()
}

const HZ: u64 = 250;
const JIFFY: Duration = Duration::from_millis(1_000 / HZ);
