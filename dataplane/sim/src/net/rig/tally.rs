//! What was seen: distributions, and fairness.

use shaper::time::Instant;
use std::collections::BTreeMap;

/// A value that changes now and then, and how long it was what.
#[derive(Clone, Debug, Default)]
pub struct Level {
    value: u32,
    since: Instant,
    nanos: BTreeMap<u32, u64>,
}

/// Values of single events.
#[derive(Clone, Debug, Default)]
pub struct Values(Vec<u64>);

impl Level {
    /// It is `value` from `now` on.
    pub fn set(&mut self, now: Instant, value: u32) {
        if value != self.value {
            *self.nanos.entry(self.value).or_default() += now.since(self.since).as_nanos();
            (self.value, self.since) = (value, now);
        }
    }

    /// The value that was not exceeded for `share` (0 to 1) of the time until `now`.
    pub fn quantile(&mut self, now: Instant, share: f64) -> u32 {
        *self.nanos.entry(self.value).or_default() += now.since(self.since).as_nanos();
        self.since = now;
        let all: u64 = self.nanos.values().sum();
        let mut below = 0;
        let wanted = (all as f64 * share) as u64;
        let found = self.nanos.iter().find(|(_, nanos)| {
            below += **nanos;
            below > wanted
        });
        found.or(self.nanos.last_key_value()).map_or(0, |(value, _)| *value)
    }

    /// The largest value.
    pub fn most(&self) -> u32 {
        self.nanos.last_key_value().map_or(0, |(value, _)| *value).max(self.value)
    }

    /// Begins anew.
    pub fn forget(&mut self, now: Instant) {
        self.since = now;
        self.nanos.clear();
    }
}

impl Values {
    /// Another one.
    pub fn add(&mut self, value: u64) {
        self.0.push(value);
    }

    /// The value that `share` (0 to 1) did not exceed; 0 of none.
    pub fn quantile(&self, share: f64) -> u64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() as f64 * share) as usize;
        sorted.get(rank.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// The average; 0 of none.
    pub fn mean(&self) -> u64 {
        self.0.iter().sum::<u64>() / self.0.len().max(1) as u64
    }
}

/// Jain's index of fairness: 1 when all are equal, 1/n when one has all (RFC 5166 section 2.3).
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (squares * shares.len() as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_weighted_by_time() {
        let at = Instant::from_nanos;
        let mut level = Level::default();
        level.set(at(90), 5);
        level.set(at(99), 7);
        assert_eq!((level.quantile(at(100), 0.5), level.quantile(at(100), 0.9)), (0, 5));
        assert_eq!((level.quantile(at(100), 0.99), level.most()), (7, 7));
        level.forget(at(100));
        assert_eq!((level.quantile(at(110), 0.0), level.most()), (7, 7));
    }

    #[test]
    fn fairness() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0]), 0.5);
        assert_eq!(jain(&[2.0, 1.0]), 0.9);
    }
}
