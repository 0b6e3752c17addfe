//! Two conformances of the same code: [`Linux`] reproduces the recorded behaviour of the Linux
//! 6.12 algorithms with every fault, [`Weir`] mends the faults.
//!
//! `Linux` is the proof: under it every recorded trace replays identically. `Weir` is what runs.
//! A fault appears here once, under its number in the list of deviations: as a constant that is
//! `true` where the fault is reproduced, or, where arithmetic or a structure differs, as a type.
//! All of it is chosen at compile time, so the packet path pays nothing.

use crate::codel::{clock, inv_sqrt};
use core::fmt::Debug;

/// Which faults are reproduced.
pub trait Conformance: Copy + Debug + Default + 'static {
    /// Fault 1: the reciprocal root goes astray when `count` jumps.
    /// Fault 2: its first steps are coarse.
    type CodelRoot: inv_sqrt::Root;

    /// Fault 3: after a pause of 2199 s `count` is remembered again.
    /// Fault 4: the time 0 stands for "not above target".
    /// Fault 5: a sojourn of 2199 s counts as short, and as above a `ce_threshold` that is off.
    /// Fault 6: sixteen intervals overflow when the interval is above 134 s.
    type CodelClock: clock::Clock;

    /// Fault 7: fq_codel makes one batch drop on overflow, even if the limits stay exceeded.
    const FQ_ONE_BATCH: bool;

    /// Fault 8: what a change leaves no room for is dequeued and thrown away: through the AQM,
    /// counted as sent and not as dropped.
    const FQ_CHANGE_DEQUEUES: bool;

    /// Fault 9: a packet that is CE already counts as marked when CoDel leaves it alone.
    const CODEL_COUNTS_CE_ARRIVALS: bool;

    /// Fault 50: a reset leaves the ceiling of the byte limit, and a changed bound waits for the
    /// next completion.
    const DQL_RESET_KEEPS_CEILING: bool;

    /// Fault 51: completing more than is outstanding stops the system; here, the account.
    const DQL_EXCESS_STOPS: bool;

    /// Fault 52: a queue operation above the largest is left out of the account without a word.
    const DQL_LARGE_IS_SILENT: bool;

    /// Fault 53: the longest stall is cut to 16 bits.
    const DQL_STALL_MAX_16_BITS: bool;

    /// Fault 54: switching stall detection on keeps the old history.
    const DQL_STALL_KEEPS_HISTORY: bool;
}

/// Every fault reproduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linux;

/// Every fault mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weir;

impl Conformance for Linux {
    type CodelRoot = inv_sqrt::Newton16;
    type CodelClock = clock::Ticks;
    const FQ_ONE_BATCH: bool = true;
    const FQ_CHANGE_DEQUEUES: bool = true;
    const CODEL_COUNTS_CE_ARRIVALS: bool = true;
    const DQL_RESET_KEEPS_CEILING: bool = true;
    const DQL_EXCESS_STOPS: bool = true;
    const DQL_LARGE_IS_SILENT: bool = true;
    const DQL_STALL_MAX_16_BITS: bool = true;
    const DQL_STALL_KEEPS_HISTORY: bool = true;
}

impl Conformance for Weir {
    type CodelRoot = inv_sqrt::Exact;
    type CodelClock = clock::Nanos;
    const FQ_ONE_BATCH: bool = false;
    const FQ_CHANGE_DEQUEUES: bool = false;
    const CODEL_COUNTS_CE_ARRIVALS: bool = false;
    const DQL_RESET_KEEPS_CEILING: bool = false;
    const DQL_EXCESS_STOPS: bool = false;
    const DQL_LARGE_IS_SILENT: bool = false;
    const DQL_STALL_MAX_16_BITS: bool = false;
    const DQL_STALL_KEEPS_HISTORY: bool = false;
}
