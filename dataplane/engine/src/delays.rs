//! How long packets took, as histograms: one for each tin of cake, one for a discipline without.
//!
//! Contract: all memory is taken by [`Recorder::new`]; [`Recorder::record`] is a shift, an index and an
//! addition, whatever the value. The cells are those of HdrHistogram with two significant digits, 512 ns
//! the least difference: up to 60 s any percentile is exact to 1 %, or to half a microsecond if that is
//! more, and what took longer counts as 60 s. Counts are 32 bits and stop at their end: [`Totals`], on the
//! control side, sums them up in 64.
//!
//! The crate hdrhistogram, which keeps least, largest and sum besides, takes some 30 instructions where
//! this takes 12.

use shaper::qdisc::Params;
use shaper::qdisc::cake::MAX_TINS;
use shaper::time::Duration;

/// What is recorded of a packet. A frame of the control queue, which waits in no tin, is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByKind<T> {
    /// From queueing in the discipline until it was taken out of it.
    pub sojourn: T,
    /// From the hand-over to the driver until the completion was seen. None where nothing is to be seen.
    pub residence: T,
    /// From the burst it was received in until the completion was seen, or until the hand-over where there
    /// is nothing more to be seen ([`Source::Submit`](crate::completion::source::Source::Submit)). A piece
    /// has the arrival of its super-packet; if cutting that took several turns, this begins with the last
    /// of them, in which it was queued.
    pub total: T,
}

/// Times since the last exchange, on the packet path.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// By number of the tin, some 10 KiB each; none where nothing is to be recorded.
    tins: Box<[[u32; CELLS]]>,
}

/// Times in sum, on the control side.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By number of the tin; `None` as long as there was nothing.
    tins: Vec<Option<Box<[u64; CELLS]>>>,
}

/// What half, nine in ten, ... of the packets took at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Packets.
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

/// Longest time that is told apart from longer ones.
pub const LONGEST: Duration = Duration::from_millis(60_000);

/// Cells of a histogram.
pub const CELLS: usize = cell(LONGEST.as_nanos()) + 1;

/// How many tins are recorded apart under a discipline with these parameters. With those of cake there are
/// as many as any mode has, so that the mode can change without an allocation.
pub const fn tins(params: &Params) -> usize {
    match params {
        Params::Cake(_) => MAX_TINS,
        Params::Fifo(_) | Params::FqCodel(_) => 1,
    }
}

/// The largest number of nanoseconds that counts in this cell.
pub const fn highest(cell: usize) -> u64 {
    let octave = (cell >> HALF_BITS).saturating_sub(1);
    (((cell - (octave << HALF_BITS)) as u64 + 1) << (octave as u32 + UNIT_BITS)) - 1
}

/// The cell that a time counts in.
#[derive(Clone, Copy, Debug)]
pub struct Cell(usize);

impl Cell {
    /// That of `time`.
    #[inline]
    pub const fn of(time: Duration) -> Self {
        Self(cell(time.as_nanos()))
    }
}

/// The cell that a number of nanoseconds counts in.
#[inline]
const fn cell(nanos: u64) -> usize {
    let capped = if nanos < LONGEST.as_nanos() { nanos } else { LONGEST.as_nanos() };
    let octave = (capped | LINEAR).ilog2() - LINEAR.ilog2();
    ((octave as usize) << HALF_BITS) + (capped >> (octave + UNIT_BITS)) as usize
}

impl Recorder {
    /// Empty histograms for so many tins.
    pub fn new(tins: usize) -> Self {
        Self { tins: vec![[0; CELLS]; tins].into() }
    }

    /// How many tins there are.
    pub const fn tins(&self) -> usize {
        self.tins.len()
    }

    /// Notes that a packet of `tin` took `time`.
    #[inline]
    pub fn record(&mut self, tin: u8, time: Duration) {
        self.add(tin, Cell::of(time), 1);
    }

    /// Notes that `packets` packets of `tin` took so long.
    #[inline]
    pub fn add(&mut self, tin: u8, Cell(cell): Cell, packets: u32) {
        if let Some(count) = self.tins.get_mut(usize::from(tin)).and_then(|tin| tin.get_mut(cell)) {
            *count = count.saturating_add(packets);
        }
    }

    /// Forgets everything, and writes to all of the memory in doing so: whoever records in it next meets
    /// no page that is not there.
    pub fn clear(&mut self) {
        self.tins.as_flattened_mut().fill(0);
    }
}

impl ByKind<Recorder> {
    /// Empty histograms of each kind for so many tins.
    pub fn new(tins: usize) -> Self {
        let [sojourn, residence, total] = [0; 3].map(|_| Recorder::new(tins));
        Self { sojourn, residence, total }
    }

    /// Forgets everything: [`Recorder::clear`].
    pub fn clear(&mut self) {
        self.sojourn.clear();
        self.residence.clear();
        self.total.clear();
    }
}

impl ByKind<Totals> {
    /// Adds what was recorded on the packet path.
    pub fn add(&mut self, recorded: &ByKind<Recorder>) {
        self.sojourn.add(&recorded.sojourn);
        self.residence.add(&recorded.residence);
        self.total.add(&recorded.total);
    }

    /// What was added since `earlier`, an older copy of this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            sojourn: self.sojourn.since(&earlier.sojourn),
            residence: self.residence.since(&earlier.residence),
            total: self.total.since(&earlier.total),
        }
    }
}

impl Totals {
    /// Adds what was recorded on the packet path.
    pub fn add(&mut self, recorded: &Recorder) {
        if self.tins.len() < recorded.tins.len() {
            self.tins.resize(recorded.tins.len(), None);
        }
        for (total, added) in self.tins.iter_mut().zip(&recorded.tins) {
            if total.is_none() && added.iter().all(|count| *count == 0) {
                continue;
            }
            let total = total.get_or_insert_with(|| Box::new([0; CELLS]));
            total.iter_mut().zip(added).for_each(|(total, added)| *total += u64::from(*added));
        }
    }

    /// What was added since `earlier`, an older copy of this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut tins = self.tins.clone();
        for (tin, earlier) in tins.iter_mut().zip(&earlier.tins) {
            if let (Some(tin), Some(earlier)) = (tin, earlier) {
                tin.iter_mut().zip(earlier.iter()).for_each(|(now, then)| *now = now.saturating_sub(*then));
            }
        }
        Self { tins }
    }

    /// Of the tin with this number: the cells that are not empty, each as the largest number of nanoseconds
    /// that counts in it and how many packets did, ascending.
    pub fn cells_of_tin(&self, tin: usize) -> Vec<(u64, u64)> {
        filled(self.tin(tin).into_iter().flatten().copied())
    }

    /// Of all tins together: likewise.
    pub fn cells_of_all(&self) -> Vec<(u64, u64)> {
        filled(self.all().iter().copied())
    }

    /// What packets of the tin with this number took.
    pub fn of_tin(&self, tin: usize) -> Percentiles {
        percentiles(&self.cells_of_tin(tin))
    }

    /// What packets of all tins took.
    pub fn of_all(&self) -> Percentiles {
        percentiles(&self.cells_of_all())
    }

    fn tin(&self, tin: usize) -> Option<&[u64; CELLS]> {
        self.tins.get(tin)?.as_deref()
    }

    fn all(&self) -> Box<[u64; CELLS]> {
        let mut sum = Box::new([0; CELLS]);
        for tin in self.tins.iter().flatten() {
            sum.iter_mut().zip(tin.iter()).for_each(|(sum, count)| *sum += count);
        }
        sum
    }
}

fn filled(counts: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    counts.enumerate().filter(|(_, count)| *count > 0).map(|(cell, count)| (highest(cell), count)).collect()
}

/// Of cells as [`Totals::cells_of_all`] has them: how many nanoseconds `share` of the packets took at most.
pub fn quantile(cells: &[(u64, u64)], share: f64) -> u64 {
    let packets: u64 = cells.iter().map(|(_, count)| count).sum();
    let rank = ((packets as f64 * share).ceil() as u64).max(1);
    let mut sum = 0;
    let reaches = |(_, count): &&(u64, u64)| {
        sum += count;
        sum >= rank
    };
    cells.iter().find(reaches).or(cells.last()).map_or(0, |(nanos, _)| *nanos)
}

fn percentiles(cells: &[(u64, u64)]) -> Percentiles {
    let at = |share| Duration::from_nanos(quantile(cells, share));
    Percentiles {
        packets: cells.iter().map(|(_, count)| count).sum(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: at(1.0),
    }
}

/// Binary digits of the least difference: 512 ns.
const UNIT_BITS: u32 = 9;

/// Binary digits of the cells of an octave, 128: two significant decimal digits.
const HALF_BITS: u32 = 7;

/// Below the next power of two the cells are all as wide as the least difference.
const LINEAR: u64 = (1 << (UNIT_BITS + HALF_BITS + 1)) - 1;

const _: () = assert!(CELLS * size_of::<u32>() < 11 << 10);

#[cfg(test)]
mod tests {
    use super::*;
    use allocation_counter::measure;
    use hdrhistogram::Histogram;
    use shaper::qdisc::{cake, fq_codel};
    use shaper::rng::{Rng, SplitMix};

    fn fq_codel() -> Recorder {
        Recorder::new(tins(&Params::FqCodel(fq_codel::Params::default())))
    }

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut total = Totals::default();
        for part in 0..10 {
            let mut recorder = fq_codel();
            for step in 1..=1_000 {
                recorder.record(0, Duration::from_micros(part * 1_000 + step));
            }
            total.add(&recorder);
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

    /// The cells are those of the crate, value by value.
    #[test]
    fn the_cells_are_those_of_hdrhistogram() {
        let reference = Histogram::<u32>::new_with_bounds(1_000, LONGEST.as_nanos(), 2).unwrap();
        let mut rng = SplitMix::new(1, 2);
        let edges = (0..36).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let random = std::iter::from_fn(|| {
            let bits = 1 + rng.next_u32() % 35;
            let value = (u64::from(rng.next_u32()) << 32 | u64::from(rng.next_u32())) >> (64 - bits);
            Some(value)
        });
        for value in edges.chain(random.take(100_000)).filter(|value| *value <= LONGEST.as_nanos()) {
            assert_eq!(highest(cell(value)), reference.highest_equivalent(value), "{value}");
            assert!(cell(value) < CELLS);
        }
        assert_eq!(cell(u64::MAX), CELLS - 1);
    }

    #[test]
    fn each_tin_has_its_own() {
        let mut recorder = Recorder::new(tins(&Params::Cake(cake::Params::default())));
        recorder.record(2, Duration::from_millis(5));
        (0..3).for_each(|_| recorder.record(7, Duration::from_millis(9)));
        recorder.record(8, Duration::from_millis(1));
        let mut total = Totals::default();
        assert_eq!(total.of_all(), Percentiles::default());
        total.add(&recorder);
        let earlier = total.clone();
        assert_eq!((total.of_tin(0).packets, total.of_tin(2).packets, total.of_all().packets), (0, 1, 4));
        recorder.clear();
        total.add(&recorder);
        assert_eq!(total.since(&earlier).of_all(), Percentiles::default(), "cleared");
        (0..2).for_each(|_| recorder.record(7, Duration::from_millis(9)));
        total.add(&recorder);
        let since = total.since(&earlier);
        assert_eq!((since.of_tin(2).packets, since.of_tin(7).packets), (0, 2));
        assert_eq!(total.cells_of_all().len(), 2);
    }

    #[test]
    fn no_time_is_too_short_or_too_long_and_none_allocates() {
        let mut recorder = fq_codel();
        let times = [Duration::ZERO, Duration::from_nanos(1), LONGEST, Duration::MAX];
        let info = measure(|| {
            times.iter().for_each(|time| recorder.record(0, *time));
            recorder.clear();
            times.iter().for_each(|time| recorder.record(0, *time));
        });
        assert_eq!(info.count_total, 0);
        let mut total = Totals::default();
        total.add(&recorder);
        let all = total.of_all();
        assert_eq!(all.packets, 4);
        assert!(all.p50 < Duration::from_micros(2) && all.max.as_micros().abs_diff(60_000_000) < 600_000);
    }
}
