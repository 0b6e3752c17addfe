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
    /// Fault 41: the same in cake.
    const CODEL_COUNTS_CE_ARRIVALS: bool;

    /// Fault 20: a flow's reciprocal root starts as 0, so its first signal comes without the
    /// grace of an interval.
    const COBALT_ZERO_ROOT: bool;

    /// Fault 23: the control law cuts the interval to 32 bits (4.29 s).
    const COBALT_INTERVAL_32: bool;

    /// No number: decay after a long pause walks down one count at a time, without a bound.
    const COBALT_DECAY_UNBOUNDED: bool;

    /// Fault 21: the heap of the longest queues sinks an entry by the key of the child that moved
    /// up, so the root need not be the longest queue.
    /// Fault 22: it is repaired upward only when the ack filter makes a queue shorter.
    const CAKE_HEAP_STALE_KEY: bool;

    /// Fault 24: a change to fewer tins throws the packets of the others away, uncounted.
    /// Fault 28: bulk counts raised under one flow mode are not lowered under another.
    /// Fault 30: a reconfiguration makes the last tin the current one, in use or not.
    /// Fault 31: lists, counts and AQM state of removed tins come back with the tin.
    /// All four come of changing eight tins in place that always exist.
    const CAKE_CHANGE_IN_PLACE: bool;

    /// Fault 25: autorate reconfigures at the end of every window.
    const CAKE_AUTORATE_UNTIMED: bool;

    /// Fault 26: switched on at run time, autorate's window reaches back to the start of time, and
    /// the estimate does not follow a bandwidth that is set.
    const CAKE_AUTORATE_STALE: bool;

    /// Fault 46: the capacity estimate counts packet lengths, the shaper spends adjusted lengths.
    const CAKE_CAPACITY_UNADJUSTED: bool;

    /// Fault 27: a host entry is held only by its bulk flows and can be taken from the others.
    const CAKE_HOSTS_UNREFERENCED: bool;

    /// Fault 29: the tin deficit is spent while shaping, where nothing refills it.
    const CAKE_DEFICIT_SPENT_SHAPED: bool;

    /// Fault 32: the wake-up for decaying flows does nothing.
    const CAKE_IDLE_NO_DECAY: bool;

    /// Fault 33: a tin's share of a low bandwidth can round to 0, which means unlimited.
    const CAKE_TIN_RATE_ZERO: bool;

    /// Fault 34: the automatic memory limit is cut to 32 bits before its bounds are applied.
    const CAKE_MEMLIMIT_CUT: bool;

    /// Fault 35: the ack filter takes absent timestamps for zeros and a malformed option for the
    /// end of the options.
    const CAKE_ACK_LAX_OPTIONS: bool;

    /// Fault 36: a super-packet that could not be cut is dropped only after it has chosen a flow.
    const CAKE_UNCUTTABLE_LATE: bool;

    /// Fault 37: delay averages and minimum start from 0. Fault 38: so does the header offset.
    const CAKE_AVERAGES_FROM_ZERO: bool;

    /// Fault 39: an overflow drop is charged to the tin of the packet that arrived.
    const CAKE_OVERFLOW_CHARGES_ARRIVAL: bool;

    /// Fault 40: `overlimits` counts every refused call.
    const CAKE_OVERLIMITS_EVERY_CALL: bool;

    /// Fault 42: length statistics are 16 bits wide.
    const CAKE_LENGTHS_16: bool;

    /// Fault 43: waits booked at an old rate are not shortened when the rate is raised.
    const CAKE_CLOCKS_STALE: bool;

    /// Fault 44: a hash collision moves the queue's tag while packets of its owner wait there.
    const CAKE_COLLISION_MOVES_TAG: bool;

    /// Fault 45: in ingress mode an overflow or ack-filter drop is charged to the clocks only.
    const CAKE_INGRESS_CLOCKS_ONLY: bool;

    /// No number: the time of each packet is rounded down to a nanosecond and the rest forgotten, so
    /// that 40 Gbit/s of small packets are sent 6 % too fast.
    const CAKE_CHARGES_ROUND_DOWN: bool;

    /// No number: a turn of a flow whose host has hundreds can be worth 0 bytes, so that the rounds
    /// until one may send have no bound but chance.
    const CAKE_QUANTUM_ZERO: bool;

    /// No number: the ack filter looks at every packet in the queue, so that its cost grows with
    /// the queue; else at this many of the latest ones of the connection.
    const CAKE_ACK_WINDOW: usize;

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

/// Every fault mended but those that do no harm and are kept:
/// * 10, the result `Congested` also while the arriving packet itself stays: it says that its queue is
///   too long; the fate of each packet is told by the callback;
/// * 47, cake's count of unresponsive flows falls only when such a flow's turn comes and finds it
///   empty: it is a count of flows with a drop probability, and that is true as long as it says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weir;

impl Conformance for Linux {
    type CodelRoot = inv_sqrt::Newton16;
    type CodelClock = clock::Ticks;
    const FQ_ONE_BATCH: bool = true;
    const FQ_CHANGE_DEQUEUES: bool = true;
    const CODEL_COUNTS_CE_ARRIVALS: bool = true;
    const COBALT_ZERO_ROOT: bool = true;
    const COBALT_INTERVAL_32: bool = true;
    const COBALT_DECAY_UNBOUNDED: bool = true;
    const CAKE_HEAP_STALE_KEY: bool = true;
    const CAKE_CHANGE_IN_PLACE: bool = true;
    const CAKE_AUTORATE_UNTIMED: bool = true;
    const CAKE_AUTORATE_STALE: bool = true;
    const CAKE_CAPACITY_UNADJUSTED: bool = true;
    const CAKE_HOSTS_UNREFERENCED: bool = true;
    const CAKE_DEFICIT_SPENT_SHAPED: bool = true;
    const CAKE_IDLE_NO_DECAY: bool = true;
    const CAKE_TIN_RATE_ZERO: bool = true;
    const CAKE_MEMLIMIT_CUT: bool = true;
    const CAKE_ACK_LAX_OPTIONS: bool = true;
    const CAKE_UNCUTTABLE_LATE: bool = true;
    const CAKE_AVERAGES_FROM_ZERO: bool = true;
    const CAKE_OVERFLOW_CHARGES_ARRIVAL: bool = true;
    const CAKE_OVERLIMITS_EVERY_CALL: bool = true;
    const CAKE_LENGTHS_16: bool = true;
    const CAKE_CLOCKS_STALE: bool = true;
    const CAKE_COLLISION_MOVES_TAG: bool = true;
    const CAKE_INGRESS_CLOCKS_ONLY: bool = true;
    const CAKE_CHARGES_ROUND_DOWN: bool = true;
    const CAKE_QUANTUM_ZERO: bool = true;
    const CAKE_ACK_WINDOW: usize = usize::MAX;
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
    const COBALT_ZERO_ROOT: bool = false;
    const COBALT_INTERVAL_32: bool = false;
    const COBALT_DECAY_UNBOUNDED: bool = false;
    const CAKE_HEAP_STALE_KEY: bool = false;
    const CAKE_CHANGE_IN_PLACE: bool = false;
    const CAKE_AUTORATE_UNTIMED: bool = false;
    const CAKE_AUTORATE_STALE: bool = false;
    const CAKE_CAPACITY_UNADJUSTED: bool = false;
    const CAKE_HOSTS_UNREFERENCED: bool = false;
    const CAKE_DEFICIT_SPENT_SHAPED: bool = false;
    const CAKE_IDLE_NO_DECAY: bool = false;
    const CAKE_TIN_RATE_ZERO: bool = false;
    const CAKE_MEMLIMIT_CUT: bool = false;
    const CAKE_ACK_LAX_OPTIONS: bool = false;
    const CAKE_UNCUTTABLE_LATE: bool = false;
    const CAKE_AVERAGES_FROM_ZERO: bool = false;
    const CAKE_OVERFLOW_CHARGES_ARRIVAL: bool = false;
    const CAKE_OVERLIMITS_EVERY_CALL: bool = false;
    const CAKE_LENGTHS_16: bool = false;
    const CAKE_CLOCKS_STALE: bool = false;
    const CAKE_COLLISION_MOVES_TAG: bool = false;
    const CAKE_INGRESS_CLOCKS_ONLY: bool = false;
    const CAKE_CHARGES_ROUND_DOWN: bool = false;
    const CAKE_QUANTUM_ZERO: bool = false;
    const CAKE_ACK_WINDOW: usize = 24;
    const DQL_RESET_KEEPS_CEILING: bool = false;
    const DQL_EXCESS_STOPS: bool = false;
    const DQL_LARGE_IS_SILENT: bool = false;
    const DQL_STALL_MAX_16_BITS: bool = false;
    const DQL_STALL_KEEPS_HISTORY: bool = false;
}
