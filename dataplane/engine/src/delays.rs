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
use std::hint::black_box;
use std::sync::Arc;

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

/// Times in sum, on the control side. A copy shares what has not changed since: it costs nothing until more
/// is added.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By number of the tin; `None` as long as there was nothing.
    tins: Vec<Option<Arc<[u64; CELLS]>>>,
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
    /// Empty histograms for so many tins. All of the memory is written to: whoever records in it meets no page
    /// that is not there.
    pub fn new(tins: usize) -> Self {
        // Else the compiler asks for memory that is 0 already, and has none given.
        Self { tins: vec![[black_box(0); CELLS]; tins].into() }
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
}

impl ByKind<Recorder> {
    /// Empty histograms of each kind for so many tins.
    pub fn new(tins: usize) -> Self {
        let [sojourn, residence, total] = [0; 3].map(|_| Recorder::new(tins));
        Self { sojourn, residence, total }
    }
}

impl ByKind<Totals> {
    /// Takes what was recorded on the packet path, and leaves that empty.
    pub fn take(&mut self, recorded: &mut ByKind<Recorder>) {
        self.sojourn.take(&mut recorded.sojourn);
        self.residence.take(&mut recorded.residence);
        self.total.take(&mut recorded.total);
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
    /// Takes what was recorded on the packet path, and leaves that empty. Most cells have nothing, and are only
    /// read, one stretch of them after the other.
    pub fn take(&mut self, recorded: &mut Recorder) {
        if self.tins.len() < recorded.tins.len() {
            self.tins.resize(recorded.tins.len(), None);
        }
        for (total, taken) in self.tins.iter_mut().zip(&mut recorded.tins) {
            for (place, taken) in taken.chunks_mut(STRETCH).enumerate() {
                if taken.iter().fold(0, |any, count| any | count) == 0 {
                    continue;
                }
                let cells = Arc::make_mut(total.get_or_insert_with(|| Arc::new([0; CELLS])));
                let cells = cells.iter_mut().skip(place * STRETCH);
                for (total, taken) in cells.zip(taken) {
                    *total += u64::from(std::mem::take(taken));
                }
            }
        }
    }

    /// What was added since `earlier`, an older copy of this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut tins = self.tins.clone();
        for (tin, earlier) in tins.iter_mut().zip(&earlier.tins) {
            if let (Some(tin), Some(earlier)) = (tin, earlier) {
                let cells = Arc::make_mut(tin).iter_mut();
                cells.zip(earlier.iter()).for_each(|(now, then)| *now = now.saturating_sub(*then));
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

/// Of `packets` packets in cells as [`Totals::cells_of_all`] has them: how many nanoseconds each of these shares took
/// at most. The shares rise; one pass finds all.
pub fn quantiles<const N: usize>(cells: &[(u64, u64)], packets: u64, shares: [f64; N]) -> [u64; N] {
    let last = cells.last().map_or(0, |(nanos, _)| *nanos);
    let mut cells = cells.iter();
    let (mut sum, mut found) = (0, 0);
    shares.map(|share| {
        let rank = ((packets as f64 * share).ceil() as u64).max(1);
        while sum < rank {
            let Some((nanos, count)) = cells.next() else { return last };
            (sum, found) = (sum + count, *nanos);
        }
        found
    })
}

fn percentiles(cells: &[(u64, u64)]) -> Percentiles {
    let packets = cells.iter().map(|(_, count)| count).sum();
    let [p50, p90, p99, p999, max] =
        quantiles(cells, packets, [0.5, 0.9, 0.99, 0.999, 1.0]).map(Duration::from_nanos);
    Percentiles { packets, p50, p90, p99, p999, max }
}

/// Binary digits of the least difference: 512 ns.
const UNIT_BITS: u32 = 9;

/// Binary digits of the cells of an octave, 128: two significant decimal digits.
const HALF_BITS: u32 = 7;

/// Below the next power of two the cells are all as wide as the least difference.
const LINEAR: u64 = (1 << (UNIT_BITS + HALF_BITS + 1)) - 1;

/// Cells that are looked at together: four cache lines.
const STRETCH: usize = 64;

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
            total.take(&mut recorder);
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
        total.take(&mut recorder);
        let earlier = total.clone();
        assert_eq!((total.of_tin(0).packets, total.of_tin(2).packets, total.of_all().packets), (0, 1, 4));
        total.take(&mut recorder);
        assert_eq!(total.since(&earlier).of_all(), Percentiles::default(), "it was left empty");
        (0..2).for_each(|_| recorder.record(7, Duration::from_millis(9)));
        total.take(&mut recorder);
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
        });
        assert_eq!(info.count_total, 0);
        let mut total = Totals::default();
        total.take(&mut recorder);
        let all = total.of_all();
        assert_eq!(all.packets, 4);
        assert!(all.p50 < Duration::from_micros(2) && all.max.as_micros().abs_diff(60_000_000) < 600_000);
    }
}
