//! What cake counts, in the words of `tc -s -j qdisc show`.

use super::MAX_TINS;
use crate::time::Duration;

/// A snapshot of everything counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes delivered; headers of an uncut super-packet once per segment.
    pub bytes: u64,
    /// Packets delivered; an uncut super-packet as its segments.
    pub packets: u64,
    /// Packets lost to the AQM, to overflow, to the ACK filter, or because they could not be cut.
    pub drops: u64,
    /// How often the shaper began to make packets wait (fault 40: how often it was asked in vain).
    pub overlimits: u64,
    /// Bytes that wait.
    pub backlog: u64,
    /// Packets that wait.
    pub qlen: u32,
    /// Memory of the packets that wait: bytes.
    pub memory_used: u64,
    /// The most there ever was, bytes (tc prints it as the first number of `memory used`).
    pub memory_max: u64,
    /// At most, bytes.
    pub memory_limit: u32,
    /// What `autorate-ingress` believes the link can carry, bytes per second.
    pub capacity_estimate: u64,
    /// Shortest length before overhead; `u32::MAX` (fault 42: 65535) when there was none.
    pub min_network_size: u32,
    /// Longest length before overhead.
    pub max_network_size: u32,
    /// Shortest length as charged.
    pub min_adj_size: u32,
    /// Longest length as charged.
    pub max_adj_size: u32,
    /// Average offset of the network header in the frame, bytes.
    pub avg_hdr_offset: u32,
    /// Nanoseconds per byte at the bandwidth, times two to the [`Stats::rate_shift`]; 0 for unlimited.
    pub rate_ns: u64,
    /// See [`Stats::rate_ns`].
    pub rate_shift: u8,
    /// Packets removed by a flush; in no other count.
    pub flushed: u64,
    /// Sum of corrections, in packets, to what the caller counted as queued: Linux's reports to the
    /// parent.
    pub tree_packets: i64,
    /// The same in bytes.
    pub tree_bytes: i64,
    /// Tins in use.
    pub tin_count: usize,
    /// The tins by number; [`Stats::tins`] has those in use.
    pub all_tins: [TinStats; MAX_TINS],
}

/// What a tin counts. Flow counts of `tc`: `sparse_flows` there is sparse and decaying here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TinStats {
    /// The rate above which the tin gives way, bytes per second; 0 for unlimited.
    pub threshold_rate: u64,
    /// Bytes that were queued, also those lost later.
    pub sent_bytes: u64,
    /// Packets that were queued, also those lost later.
    pub sent_packets: u64,
    /// Bytes that wait.
    pub backlog_bytes: u32,
    /// The AQM's target.
    pub target: Duration,
    /// The AQM's interval.
    pub interval: Duration,
    /// Time of one maximum packet at the threshold rate.
    pub mtu_time: Duration,
    /// Sojourn of delivered packets, average that rises fast.
    pub peak_delay: Duration,
    /// Sojourn of delivered packets, average.
    pub avg_delay: Duration,
    /// Sojourn of delivered packets, average that falls fast.
    pub base_delay: Duration,
    /// Packets that found their queue where they looked first.
    pub way_direct_hits: u64,
    /// Packets that found it elsewhere in the set.
    pub way_indirect_hits: u64,
    /// Flows that were given an idle queue.
    pub way_misses: u64,
    /// Flows that had to share a queue.
    pub way_collisions: u64,
    /// Packets lost to AQM and overflow.
    pub drops: u64,
    /// The part of them lost to overflow (fault 39: of any tin, by arrivals to this one).
    pub drop_overlimit: u64,
    /// Packets delivered with CoDel's mark.
    pub ecn_mark: u64,
    /// ACKs that gave way to later ones.
    pub ack_drops: u64,
    /// Flows in their first quantum.
    pub sparse_flows: u16,
    /// Flows beyond.
    pub bulk_flows: u16,
    /// Flows without packets whose AQM still remembers.
    pub decaying_flows: u16,
    /// Flows that BLUE drops from. It falls only when such a flow's turn comes and finds it empty
    /// (fault 47, kept).
    pub unresponsive_flows: u16,
    /// Longest packet, super-packets before they were cut, bytes.
    pub max_pkt_len: u32,
    /// Bytes a flow may send before the turn passes.
    pub flow_quantum: u16,
    /// Bytes the tin may send before the turn passes (unlimited mode).
    pub tin_quantum: u16,
}

impl Stats {
    /// The tins in use, by number.
    pub fn tins(&self) -> &[TinStats] {
        self.all_tins.get(..self.tin_count).unwrap_or(&[])
    }
}

/// Exponentially weighted average: `value` counts 1 in `2^shift`.
#[inline]
pub(super) const fn ewma(average: u64, value: u64, shift: u32) -> u64 {
    average.wrapping_sub(average >> shift).wrapping_add(value >> shift)
}
