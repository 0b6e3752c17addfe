//! cake's tins: what is known of each, with the names of `tc -s -j qdisc show`, and the table of
//! `tc -s qdisc show`.

use super::SojournReport;
use super::text::{Bits, Micros};
use serde::{Deserialize, Serialize};
use shaper::qdisc::cake::TinStats;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

/// One tin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TinReport {
    /// What `tc` writes above its column.
    pub name: String,
    /// The rate above which it gives way, bytes per second; 0: unlimited.
    pub threshold_rate: u64,
    /// Bytes that were queued, also those lost later.
    pub sent_bytes: u64,
    /// Bytes that were sent; not in `tc`.
    #[serde(default)]
    pub delivered_bytes: u64,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// The AQM's target in microseconds.
    pub target_us: u64,
    /// The AQM's interval in microseconds.
    pub interval_us: u64,
    /// Average waiting time that rises fast, microseconds.
    pub peak_delay_us: u64,
    /// Average waiting time, microseconds.
    pub avg_delay_us: u64,
    /// Average waiting time that falls fast, microseconds: that of sparse flows.
    pub base_delay_us: u64,
    /// Packets that were queued, also those lost later.
    pub sent_packets: u64,
    /// Packets that found their queue elsewhere in the set than where they looked first.
    pub way_indirect_hits: u64,
    /// Flows that were given an idle queue.
    pub way_misses: u64,
    /// Flows that had to share a queue.
    pub way_collisions: u64,
    /// Packets lost to AQM and overflow.
    pub drops: u64,
    /// Packets delivered with a mark.
    pub ecn_mark: u64,
    /// ACKs that gave way to later ones.
    pub ack_drops: u64,
    /// Flows in their first quantum, or without packets and not yet forgotten.
    pub sparse_flows: u64,
    /// Flows beyond.
    pub bulk_flows: u64,
    /// Flows that BLUE drops from.
    pub unresponsive_flows: u64,
    /// Longest packet in bytes.
    pub max_pkt_len: u64,
    /// Bytes a flow may send before the turn passes.
    pub flow_quantum: u64,
    /// How long packets waited; not in `tc`.
    pub sojourn: SojournReport,
}

impl TinReport {
    /// The report about a tin called `name`, which has delivered so many bytes; how long packets waited is not in it.
    pub fn new(name: &str, stats: &TinStats, delivered_bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            threshold_rate: stats.threshold_rate,
            sent_bytes: stats.sent_bytes,
            delivered_bytes,
            backlog_bytes: stats.backlog_bytes.into(),
            target_us: stats.target.as_micros(),
            interval_us: stats.interval.as_micros(),
            peak_delay_us: stats.peak_delay.as_micros(),
            avg_delay_us: stats.avg_delay.as_micros(),
            base_delay_us: stats.base_delay.as_micros(),
            sent_packets: stats.sent_packets,
            way_indirect_hits: stats.way_indirect_hits,
            way_misses: stats.way_misses,
            way_collisions: stats.way_collisions,
            drops: stats.drops,
            ecn_mark: stats.ecn_mark,
            ack_drops: stats.ack_drops,
            sparse_flows: u64::from(stats.sparse_flows) + u64::from(stats.decaying_flows),
            bulk_flows: stats.bulk_flows.into(),
            unresponsive_flows: stats.unresponsive_flows.into(),
            max_pkt_len: stats.max_pkt_len.into(),
            flow_quantum: stats.flow_quantum.into(),
            sojourn: SojournReport::default(),
        }
    }
}

/// cake's own counters, then the table with a column for each tin.
pub(super) fn write(
    f: &mut Formatter<'_>,
    counters: &BTreeMap<String, u64>,
    tins: &[TinReport],
) -> fmt::Result {
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    writeln!(f, " memory used: {}b of {}b", of("memory_used"), of("memory_limit"))?;
    writeln!(f, " capacity estimate: {}", Bits(of("capacity_estimate").saturating_mul(8)))?;
    let network = (of("min_network_size"), of("max_network_size"));
    writeln!(f, " min/max network layer size: {:>12} / {:>7}", network.0, network.1)?;
    let adjusted = (of("min_adj_size"), of("max_adj_size"));
    writeln!(f, " min/max overhead-adjusted size: {:>8} / {:>7}", adjusted.0, adjusted.1)?;
    writeln!(f, " average network hdr offset: {:>12}\n", of("avg_hdr_offset"))?;
    write!(f, "{:10}", "")?;
    tins.iter().try_for_each(|tin| write!(f, "{:>WIDTH$}", tin.name))?;
    writeln!(f)?;
    for (label, cell) in ROWS {
        write!(f, "  {label:<8}")?;
        tins.iter().try_for_each(|tin| write!(f, "{:>WIDTH$}", cell(tin)))?;
        writeln!(f)?;
    }
    for row in 0..SojournReport::default().rows().len() {
        for (column, tin) in tins.iter().enumerate() {
            let Some((label, micros)) = tin.sojourn.rows().get(row).copied() else { continue };
            if column == 0 {
                write!(f, "  {label:<8}")?;
            }
            write!(f, "{:>WIDTH$}", Micros(micros))?;
        }
        writeln!(f)?;
    }
    writeln!(f)
}

type Cell = fn(&TinReport) -> String;

/// The rows in `tc`'s order, with its labels.
const ROWS: [(&str, Cell); 20] = [
    ("thresh", |tin| Bits(tin.threshold_rate.saturating_mul(8)).to_string()),
    ("target", |tin| Micros(tin.target_us).to_string()),
    ("interval", |tin| Micros(tin.interval_us).to_string()),
    ("pk_delay", |tin| Micros(tin.peak_delay_us).to_string()),
    ("av_delay", |tin| Micros(tin.avg_delay_us).to_string()),
    ("sp_delay", |tin| Micros(tin.base_delay_us).to_string()),
    ("backlog", |tin| format!("{}b", tin.backlog_bytes)),
    ("pkts", |tin| tin.sent_packets.to_string()),
    ("bytes", |tin| tin.sent_bytes.to_string()),
    ("way_inds", |tin| tin.way_indirect_hits.to_string()),
    ("way_miss", |tin| tin.way_misses.to_string()),
    ("way_cols", |tin| tin.way_collisions.to_string()),
    ("drops", |tin| tin.drops.to_string()),
    ("marks", |tin| tin.ecn_mark.to_string()),
    ("ack_drop", |tin| tin.ack_drops.to_string()),
    ("sp_flows", |tin| tin.sparse_flows.to_string()),
    ("bk_flows", |tin| tin.bulk_flows.to_string()),
    ("un_flows", |tin| tin.unresponsive_flows.to_string()),
    ("max_len", |tin| tin.max_pkt_len.to_string()),
    ("quantum", |tin| tin.flow_quantum.to_string()),
];

/// Width of a column.
const WIDTH: usize = 13;
