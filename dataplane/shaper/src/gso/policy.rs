//! How large pieces may be: as large as their wire time allows.

use crate::time::Duration;
use crate::units::Rate;
use core::num::NonZeroU16;

/// `split-gso`: what becomes of super-packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Every piece is one segment (cake's `split-gso`).
    Always,
    /// They stay as whole as the limits allow (cake's `no-split-gso`).
    Never,
    /// As many segments a piece as the line sends in this time (`gso-budget`), at least one.
    Auto(Duration),
}

/// What the NIC takes in one frame that it shall segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most segments.
    pub max_segs: NonZeroU16,
    /// Longest frame in bytes.
    pub max_len: u32,
}

/// What sends the pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The shaped rate, or the drain rate if that is lower or nothing is shaped; none if unknown.
    pub rate: Option<Rate>,
    /// Bytes that each segment takes beside its headers and payload: preamble, gap, FCS.
    pub overhead: u16,
}

impl Split {
    /// The default: a tenth of a millisecond.
    pub const AUTO: Self = Self::Auto(Duration::from_micros(100));

    /// Segments a piece, for segments of `gso_size` bytes of payload behind `header_len` of headers.
    /// On a line of unknown rate only the limits count.
    pub fn segs_per_piece(self, line: &Line, gso_size: u16, header_len: u16, limits: &Limits) -> NonZeroU16 {
        let size = u32::from(gso_size).max(1);
        let held = limits.max_len.saturating_sub(header_len.into()) / size;
        let most = held.min(limits.max_segs.get().into());
        let segs = match (self, line.rate) {
            (Self::Always, _) => 1,
            (Self::Never, _) | (Self::Auto(_), None) => most.into(),
            (Self::Auto(budget), Some(rate)) => {
                let segment = u64::from(size) + u64::from(header_len) + u64::from(line.overhead);
                (bytes_in(budget, rate) / segment).min(most.into())
            }
        };
        NonZeroU16::new(segs.min(u16::MAX.into()) as u16).unwrap_or(NonZeroU16::MIN)
    }

    /// Most segments that a ring is given at once that a governor keeps short, and so the most by which
    /// its limit is exceeded: what the ring drains in a third of the budget, at least one, and no bound if
    /// its rate is not known. `line` is the ring's. Two at 1 Gbit/s, 27 at 10 Gbit/s.
    ///
    /// A governor's limit is about twice what it needs and a piece has at most one budget: given whole, three
    /// pieces would wait where single segments would take the time of little more than one.
    pub fn grain(self, line: &Line, gso_size: u16, header_len: u16, limits: &Limits) -> NonZeroU16 {
        match self {
            Self::Auto(budget) => Self::Auto(Duration::from_nanos(budget.as_nanos() / GRAINS))
                .segs_per_piece(line, gso_size, header_len, limits),
            Self::Always | Self::Never => NonZeroU16::MAX,
        }
    }

    /// Whether a piece that was queued before the rate fell has to be cut again now that it leaves:
    /// one of several segments whose `wire_len` bytes take more than twice the budget.
    pub fn must_recut(self, line: &Line, segs: u16, wire_len: u32) -> bool {
        segs > 1
            && match (self, line.rate) {
                (Self::Always, _) => true,
                (Self::Never, _) | (Self::Auto(_), None) => false,
                (Self::Auto(budget), Some(rate)) => {
                    u64::from(wire_len) > bytes_in(budget, rate).saturating_mul(2)
                }
            }
    }
}

/// Bytes that a line sends in a time, rounded down.
fn bytes_in(time: Duration, rate: Rate) -> u64 {
    let bits = u128::from(time.as_nanos()) * u128::from(rate.bits_per_sec());
    u64::try_from(bits / (8 * NANOS_PER_SEC)).unwrap_or(u64::MAX)
}

/// Grains in a budget. With two, a ping at 1 Gbit/s waits longer than it does between single segments
/// and beside one piece; with six, all frames there are single again (`sim`, experiment E2).
const GRAINS: u64 = 3;

const NANOS_PER_SEC: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_segs: NonZeroU16::MAX, max_len: 65_549 };

    fn line(mbits: u64) -> Line {
        Line { rate: Some(Rate::from_bits_per_sec(mbits * 1_000_000)), overhead: 24 }
    }

    fn auto(mbits: u64) -> u16 {
        Split::AUTO.segs_per_piece(&line(mbits), 1448, 66, &LIMITS).get()
    }

    #[test]
    fn one_segment_at_100_megabit_eight_at_a_gigabit_all_from_six() {
        assert_eq!(auto(1), 1);
        assert_eq!(auto(100), 1);
        assert_eq!(auto(1_000), 8);
        assert_eq!(auto(5_000), 40);
        assert_eq!(auto(6_000), 45);
        assert_eq!(auto(u64::MAX / 1_000_000), 45);
    }

    #[test]
    fn far_fewer_pieces_than_segments_pass_the_queue_of_a_fast_line() {
        let segments = 65_160u16.div_ceil(1448);
        let pieces = |mbits| segments.div_ceil(auto(mbits));
        assert_eq!((segments, pieces(100), pieces(1_000), pieces(10_000)), (45, 45, 6, 1));
    }

    #[test]
    fn the_other_settings_do_not_look_at_the_rate() {
        for mbits in [0, 100, 100_000] {
            assert_eq!(Split::Always.segs_per_piece(&line(mbits), 1448, 66, &LIMITS).get(), 1);
            assert_eq!(Split::Never.segs_per_piece(&line(mbits), 1448, 66, &LIMITS).get(), 45);
        }
        let unknown = Line { rate: None, overhead: 24 };
        assert_eq!(Split::AUTO.segs_per_piece(&unknown, 1448, 66, &LIMITS).get(), 45);
    }

    #[test]
    fn the_limits_of_the_nic_bind_and_one_segment_is_the_floor() {
        let few = Limits { max_segs: NonZeroU16::new(5).unwrap(), max_len: 65_549 };
        assert_eq!(Split::Never.segs_per_piece(&line(100_000), 1448, 66, &few).get(), 5);
        let short = Limits { max_segs: NonZeroU16::MAX, max_len: 66 + 3 * 1448 };
        assert_eq!(Split::Never.segs_per_piece(&line(100_000), 1448, 66, &short).get(), 3);
        let none = Limits { max_segs: NonZeroU16::MAX, max_len: 10 };
        assert_eq!(Split::Never.segs_per_piece(&line(100_000), 0, 66, &none).get(), 1);
    }

    #[test]
    fn a_grain_is_a_third_of_the_budget_and_at_least_a_segment() {
        let grain = |split: Split, mbits| split.grain(&line(mbits), 1448, 66, &LIMITS).get();
        let auto = [10, 100, 1_000, 2_500, 10_000, 100_000].map(|mbits| grain(Split::AUTO, mbits));
        assert_eq!(auto, [1, 1, 2, 6, 27, 45]);
        assert_eq!((grain(Split::Never, 1_000), grain(Split::Always, 1_000)), (u16::MAX, u16::MAX));
    }

    #[test]
    fn a_piece_is_cut_again_from_twice_the_budget_on() {
        let recut = |split: Split, mbits, segs, len| split.must_recut(&line(mbits), segs, len);
        assert!(!recut(Split::AUTO, 1_000, 16, 25_000));
        assert!(recut(Split::AUTO, 1_000, 16, 25_001));
        assert!(!recut(Split::AUTO, 1, 1, 1_514), "a single segment has nothing to cut");
        assert!(recut(Split::Always, 1_000, 2, 3_000));
        assert!(!recut(Split::Never, 1, 40, 60_000));
    }
}
