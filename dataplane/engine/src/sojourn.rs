//! How long packets waited, as histograms: one for each tin of cake, one for a discipline without.
//!
//! Contract: all memory is taken by [`Sojourn::new`]; [`Sojourn::record`] is a shift, an index and four
//! additions, whatever the value. From 1 us to 60 s any percentile is exact to 1 %, and what waited
//! longer counts as 60 s. Counts are 32 bits and stop at their end: [`Total`], on the control side,
//! sums them up in 64.

use hdrhistogram::Histogram;
use shaper::qdisc::Params;
use shaper::qdisc::cake::MAX_TINS;
use shaper::time::Duration;

/// Waiting times since the last exchange, on the packet path.
#[derive(Clone, Debug, Default)]
pub struct Sojourn {
    /// By number of the tin, some 10 KiB each; none where nothing is to be recorded.
    tins: Box<[Histogram<u32>]>,
}

/// Waiting times since the start, on the control side.
#[derive(Clone, Debug, Default)]
pub struct Total {
    tins: Vec<Histogram<u64>>,
}

/// What half, nine in ten, ... of the packets waited at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Packets that waited.
    pub packets: u64,
    /// Half of them.
    pub p50: Duration,
    /// 90 %.
    pub p90: Duration,
    /// 99 %.
    pub p99: Duration,
    /// 99.9 %.
    pub p999: Duration,
    /// All of them.
    pub max: Duration,
}

/// Shortest wait that is told apart from none.
pub const SHORTEST: Duration = Duration::from_micros(1);

/// Longest wait that is told apart from longer ones.
pub const LONGEST: Duration = Duration::from_millis(60_000);

impl Sojourn {
    /// Empty histograms for the tins of a discipline with these parameters. With those of cake there
    /// are as many as any mode has, so that the mode can change without an allocation.
    pub fn new(params: &Params) -> Self {
        let tins = match params {
            Params::Cake(_) => MAX_TINS,
            Params::Fifo(_) | Params::FqCodel(_) => 1,
        };
        Self { tins: (0..tins).filter_map(|_| histogram()).collect() }
    }

    /// Empty histograms in the number of another's.
    #[must_use]
    pub fn like(other: &Self) -> Self {
        Self { tins: other.tins.iter().filter_map(|_| histogram()).collect() }
    }

    /// Notes that a packet of `tin` waited for `wait`.
    #[inline]
    pub fn record(&mut self, tin: u8, wait: Duration) {
        if let Some(tin) = self.tins.get_mut(usize::from(tin)) {
            tin.saturating_record(wait.as_nanos());
        }
    }
}

impl Total {
    /// Adds what was recorded on the packet path.
    pub fn add(&mut self, sojourn: &Sojourn) {
        let missing = sojourn.tins.len().saturating_sub(self.tins.len());
        self.tins.extend((0..missing).filter_map(|_| histogram()));
        for (total, tin) in self.tins.iter_mut().zip(&sojourn.tins) {
            for value in tin.iter_recorded() {
                total.saturating_record_n(value.value_iterated_to(), value.count_at_value().into());
            }
        }
    }

    /// What packets of the tin with this number waited.
    pub fn of_tin(&self, tin: usize) -> Percentiles {
        self.tins.get(tin).map(percentiles).unwrap_or_default()
    }

    /// What packets of all tins waited.
    pub fn of_all(&self) -> Percentiles {
        let mut tins = self.tins.iter();
        let Some(mut sum) = tins.next().cloned() else { return Percentiles::default() };
        for tin in tins {
            // All have the same bounds, so that none can be too large for another.
            let _ = sum.add(tin);
        }
        percentiles(&sum)
    }
}

fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
    Percentiles {
        packets: histogram.len(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: Duration::from_nanos(histogram.max()),
    }
}

/// An empty histogram; never `None`, as its bounds are right.
fn histogram<C: hdrhistogram::Counter>() -> Option<Histogram<C>> {
    Histogram::new_with_bounds(SHORTEST.as_nanos(), LONGEST.as_nanos(), DIGITS).ok()
}

/// Significant decimal digits that are kept.
const DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use allocation_counter::measure;
    use shaper::qdisc::{cake, fq_codel};

    fn fq_codel() -> Sojourn {
        Sojourn::new(&Params::FqCodel(fq_codel::Params::default()))
    }

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut total = Total::default();
        for part in 0..10 {
            let mut sojourn = fq_codel();
            for step in 1..=1_000 {
                sojourn.record(0, Duration::from_micros(part * 1_000 + step));
            }
            total.add(&sojourn);
        }
        let all = total.of_all();
        assert_eq!((all, all.packets), (total.of_tin(0), 10_000));
        let expected =
            [(all.p50, 5_000), (all.p90, 9_000), (all.p99, 9_900), (all.p999, 9_990), (all.max, 10_000)];
        for (found, micros) in expected {
            let error = found.as_micros().abs_diff(micros) as f64 / micros as f64;
            assert!(error < 0.01, "{} for {micros}", found.as_micros());
        }
    }

    #[test]
    fn each_tin_has_its_own() {
        let mut sojourn = Sojourn::new(&Params::Cake(cake::Params::default()));
        sojourn.record(2, Duration::from_millis(5));
        sojourn.record(7, Duration::from_millis(9));
        sojourn.record(8, Duration::from_millis(1));
        let mut total = Total::default();
        assert_eq!(total.of_all(), Percentiles::default());
        total.add(&sojourn);
        assert_eq!((total.of_tin(0).packets, total.of_tin(2).packets, total.of_all().packets), (0, 1, 2));
    }

    #[test]
    fn no_wait_is_too_short_or_too_long_and_none_allocates() {
        let mut sojourn = fq_codel();
        let waits = [Duration::ZERO, Duration::from_nanos(1), LONGEST, Duration::MAX];
        let info = measure(|| waits.iter().for_each(|wait| sojourn.record(0, *wait)));
        assert_eq!(info.count_total, 0);
        let mut total = Total::default();
        total.add(&sojourn);
        let all = total.of_all();
        assert_eq!(all.packets, 4);
        assert!(all.p50 < Duration::from_micros(2) && all.max.as_micros().abs_diff(60_000_000) < 600_000);
    }
}
