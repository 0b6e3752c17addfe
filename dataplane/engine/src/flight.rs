//! What was in flight in a transmit queue, and for how long, as histograms.
//!
//! Contract as in [`crate::delays`]: all memory is taken by [`Flight::new`]; recording is a shift, an
//! index and some additions; values are exact to 1 %, times to half a microsecond if that is more. Bytes
//! from 1 to 4 GiB; times to 60 s.

use crate::delays::{Cell, Recorder, Totals, quantiles};
use hdrhistogram::{Counter, Histogram};
use shaper::time::Duration;
use std::sync::Arc;

/// Since the last exchange, on the packet path.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    amounts: Option<Box<Set<u32>>>,
    /// As if residence and lateness were tins: these are noted at each mark, and that is the least work.
    times: Recorder,
}

/// Since the start, on the control side. A copy shares what has not changed since.
#[derive(Clone, Debug, Default)]
pub struct Total {
    amounts: Option<Arc<Set<u64>>>,
    times: Totals,
}

/// One histogram of each kind that is no time.
#[derive(Clone, Debug)]
struct Set<C: Counter>([Histogram<C>; AMOUNTS]);

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The limit in bytes, once in 500 us while something is in flight.
    Limit,
    /// Bytes in flight likewise.
    InFlight,
    /// Descriptors that one look found complete.
    Batch,
    /// From submission to completion in nanoseconds, by descriptor.
    Residence,
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
        Self { amounts: Set::new(), times: Recorder::new(Kind::ALL.len() - AMOUNTS) }
    }

    /// Whether anything can be recorded.
    pub const fn records(&self) -> bool {
        self.amounts.is_some()
    }

    /// Forgets the amounts.
    fn clear_amounts(&mut self) {
        let filled = self.amounts.iter_mut().flat_map(|amounts| &mut amounts.0).filter(|of| !of.is_empty());
        filled.for_each(Histogram::reset);
    }

    /// Notes a value that `weight` packets have had.
    #[inline]
    pub fn record(&mut self, kind: Kind, value: u64, weight: u64) {
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        match (kind as usize).checked_sub(AMOUNTS) {
            Some(time) => self.times.add(time as u8, Cell::of(Duration::from_nanos(value)), weight),
            None => self.record_amount(kind, value, weight),
        }
    }

    fn record_amount(&mut self, kind: Kind, value: u64, weight: u32) {
        let amounts = self.amounts.as_mut();
        if let Some(histogram) = amounts.and_then(|amounts| amounts.0.get_mut(kind as usize)) {
            histogram.saturating_record_n(value, weight);
        }
    }

    /// Notes a time.
    #[inline]
    pub fn record_time(&mut self, kind: Kind, time: Duration, weight: u64) {
        self.record(kind, time.as_nanos(), weight);
    }
}

impl Total {
    /// Takes what was recorded on the packet path, and leaves that empty.
    pub fn take(&mut self, flight: &mut Flight) {
        self.times.take(&mut flight.times);
        let Some(taken) = &flight.amounts else { return };
        if taken.0.iter().all(Histogram::is_empty) {
            return;
        }
        if self.amounts.is_none() {
            self.amounts = Set::new().map(Arc::from);
        }
        let Some(total) = self.amounts.as_mut().map(Arc::make_mut) else { return };
        for (total, taken) in total.0.iter_mut().zip(&taken.0) {
            for value in taken.iter_recorded() {
                total.saturating_record_n(value.value_iterated_to(), value.count_at_value().into());
            }
        }
        flight.clear_amounts();
    }

    /// What was recorded of one kind; nothing if nothing was.
    pub fn of(&self, kind: Kind) -> Quantiles {
        if let Some(time) = (kind as usize).checked_sub(AMOUNTS) {
            return of_times(&self.times.cells_of_tin(time));
        }
        let Some(histogram) = self.amounts.as_ref().and_then(|amounts| amounts.0.get(kind as usize)) else {
            return Quantiles::default();
        };
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

fn of_times(cells: &[(u64, u64)]) -> Quantiles {
    let count = cells.iter().map(|(_, count)| count).sum();
    let [p50, p90, p99, p999, max] = quantiles(cells, count, [0.5, 0.9, 0.99, 0.999, 1.0]);
    Quantiles { count, p50, p90, p99, p999, max }
}

impl Kind {
    /// Every kind: first the amounts, then the times.
    pub const ALL: [Self; 5] = [Self::Limit, Self::InFlight, Self::Batch, Self::Residence, Self::Lateness];

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
}

impl<C: Counter> Set<C> {
    /// Never `None`, as the bounds are right.
    fn new() -> Option<Box<Self>> {
        let histogram = |highest| Histogram::new_with_bounds(1, highest, DIGITS).ok();
        let [a, b, c] = [u32::MAX.into(), u32::MAX.into(), u16::MAX.into()].map(histogram);
        Some(Box::new(Self([a?, b?, c?])))
    }
}

/// Kinds that are no times: limit, bytes in flight, batch, in this order.
const AMOUNTS: usize = 3;

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
        total.take(&mut flight);
        let earlier = total.clone();
        total.take(&mut flight);
        total.take(&mut Flight::default());
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            let found = total.of(kind);
            assert_eq!((found.count, found), (11, earlier.of(kind)), "it was left empty");
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
        let mut flight = Flight::default();
        flight.record(Kind::Limit, 1, 1);
        let mut total = Total::default();
        total.take(&mut flight);
        assert_eq!(total.of(Kind::Limit), Quantiles::default());
        assert!(Flight::new().records() && !flight.records());
    }
}
