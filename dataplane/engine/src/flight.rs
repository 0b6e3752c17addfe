//! What was in flight in a transmit queue, and for how long, as histograms.
//!
//! Contract as in [`crate::sojourn`]: all memory is taken by [`Flight::new`]; recording is a shift, an
//! index and some additions; values are exact to 1 %, times to half a microsecond if that is more. Bytes
//! from 1 to 4 GiB; times to 60 s.

use hdrhistogram::{Counter, Histogram};
use shaper::time::Duration;

/// Since the last exchange, on the packet path.
#[derive(Clone, Debug, Default)]
pub struct Flight(Option<Box<Set<u32>>>);

/// Since the start, on the control side.
#[derive(Clone, Debug, Default)]
pub struct Total(Option<Box<Set<u64>>>);

/// One histogram of each kind.
#[derive(Clone, Debug)]
struct Set<C: Counter>([Histogram<C>; KINDS]);

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The limit in bytes, once in 500 us while something is in flight.
    Limit,
    /// Bytes in flight likewise.
    InFlight,
    /// From submission to completion in nanoseconds, by descriptor.
    Residence,
    /// Descriptors that one look found complete.
    Batch,
    /// How much later a completion was seen than a wire of the measured rate would have sent the
    /// frame, in nanoseconds, by descriptor.
    Lateness,
}

/// What half, nine in ten, ... of the values were at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Values.
    pub count: u64,
    /// Half of them.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// All of them.
    pub max: u64,
}

impl Flight {
    /// Empty histograms, some 60 KiB.
    pub fn new() -> Self {
        Self(Set::new())
    }

    /// Empty histograms where another has some.
    #[must_use]
    pub fn like(other: &Self) -> Self {
        Self(other.0.as_ref().and_then(|_| Set::new()))
    }

    /// Notes a value that `weight` packets have had.
    #[inline]
    pub fn record(&mut self, kind: Kind, value: u64, weight: u64) {
        if let Some(set) = &mut self.0 {
            let weight = u32::try_from(weight).unwrap_or(u32::MAX);
            set.0[kind as usize].saturating_record_n(value, weight);
        }
    }

    /// Notes a time.
    #[inline]
    pub fn record_time(&mut self, kind: Kind, time: Duration, weight: u64) {
        self.record(kind, time.as_nanos(), weight);
    }
}

impl Total {
    /// Adds what was recorded on the packet path.
    pub fn add(&mut self, flight: &Flight) {
        let Some(added) = &flight.0 else { return };
        if self.0.is_none() {
            self.0 = Set::new();
        }
        let Some(total) = &mut self.0 else { return };
        for (total, added) in total.0.iter_mut().zip(&added.0) {
            for value in added.iter_recorded() {
                total.saturating_record_n(value.value_iterated_to(), value.count_at_value().into());
            }
        }
    }

    /// What was recorded of one kind; nothing if nothing was.
    pub fn of(&self, kind: Kind) -> Quantiles {
        let Some(set) = &self.0 else { return Quantiles::default() };
        let histogram = &set.0[kind as usize];
        let at = |quantile| histogram.value_at_quantile(quantile);
        Quantiles {
            count: histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}

impl Kind {
    /// Every kind, in the order of the histograms.
    pub const ALL: [Self; KINDS] =
        [Self::Limit, Self::InFlight, Self::Residence, Self::Batch, Self::Lateness];

    /// Its name, as in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::InFlight => "in-flight",
            Self::Residence => "residence",
            Self::Batch => "batch",
            Self::Lateness => "lateness",
        }
    }

    const fn bounds(self) -> (u64, u64) {
        match self {
            Self::Limit | Self::InFlight => (1, u32::MAX as u64),
            Self::Batch => (1, 65_536),
            Self::Residence | Self::Lateness => (1_000, 60_000_000_000),
        }
    }
}

impl<C: Counter> Set<C> {
    /// Never `None`, as the bounds are right.
    fn new() -> Option<Box<Self>> {
        let histogram = |kind: Kind| {
            let (low, high) = kind.bounds();
            Histogram::new_with_bounds(low, high, DIGITS).ok()
        };
        let [a, b, c, d, e] = Kind::ALL.map(histogram);
        Some(Box::new(Self([a?, b?, c?, d?, e?])))
    }
}

const KINDS: usize = 5;

/// Significant decimal digits that are kept.
const DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use allocation_counter::measure;

    #[test]
    fn each_kind_has_its_own() {
        let mut flight = Flight::new();
        let info = measure(|| {
            for (place, kind) in Kind::ALL.into_iter().enumerate() {
                assert_eq!(kind as usize, place);
                flight.record(kind, 12_500 * (place as u64 + 1), 10);
                flight.record(kind, u64::MAX, 1);
            }
        });
        assert_eq!(info.count_total, 0);
        let mut total = Total::default();
        total.add(&flight);
        total.add(&Flight::default());
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            let found = total.of(kind);
            assert_eq!(found.count, 11);
            let expected = 12_500 * (place as u64 + 1);
            assert!(
                found.p50.abs_diff(expected) < 512.max(expected / 100),
                "{} of {}",
                found.p50,
                kind.name()
            );
            assert!(found.max > 60_000, "what is too large counts as the largest");
        }
    }

    #[test]
    fn nothing_is_recorded_where_nothing_is_wanted() {
        let mut flight = Flight::like(&Flight::default());
        flight.record(Kind::Limit, 1, 1);
        let mut total = Total::default();
        total.add(&flight);
        assert_eq!(total.of(Kind::Limit), Quantiles::default());
        assert!(Flight::like(&Flight::new()).0.is_some());
    }
}
