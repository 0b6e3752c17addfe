//! What `weir show` shows: the document that travels over the socket. `text` prints it in the shape of
//! `tc -s qdisc show`, `tins` is the part about cake's tins, `supers` that about super-packets,
//! `queue` that about transmit rings.

mod flows;
mod offload;
mod queue;
mod supers;
mod text;
mod tins;

pub use flows::{DirectionFlows, FlowReport, FlowsReport, HostReport, Load};
pub use offload::OffloadReport;
pub use queue::{FlightReport, QuantilesReport, TxQueueReport};
pub use supers::{SizeClass, SupersReport};
pub use tins::TinReport;

use engine::counters::Tally;
use engine::delays::Percentiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything one instance knows. All counters only rise, from 0 at start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// weir's version.
    pub version: String,
    /// The DPDK that runs.
    pub dpdk: String,
    /// Name of the instance.
    pub name: String,
    /// The configuration file.
    pub config: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since packets began to flow.
    pub uptime_s: f64,
    /// The links, in the order of the file.
    pub links: Vec<LinkReport>,
    /// The workers.
    pub workers: Vec<WorkerReport>,
}

/// One link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// Port `a`.
    pub a: PortReport,
    /// Port `b`.
    pub b: PortReport,
    /// The directions that forward: `up` (a to b), `down` (b to a).
    pub directions: Vec<DirectionReport>,
}

/// One port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortReport {
    /// DPDK's name of the device.
    pub device: String,
    /// The driver.
    pub driver: String,
    /// MTU in bytes.
    pub mtu: u16,
    /// Whether the link is up.
    pub link_up: bool,
    /// Link speed in Mbit/s, where the driver knows one.
    pub speed_mbps: Option<u32>,
    /// Whether the link is full duplex.
    #[serde(default)]
    pub full_duplex: Option<bool>,
    /// Whether speed and duplex were negotiated.
    #[serde(default)]
    pub autoneg: Option<bool>,
    /// Version of the card's firmware, where the driver tells it.
    #[serde(default)]
    pub firmware: Option<String>,
    /// Packets the driver received.
    pub ipackets: u64,
    /// Packets the driver sent.
    pub opackets: u64,
    /// Packets lost before they reached weir because the receive ring was full.
    pub imissed: u64,
    /// Packets lost before they reached weir because no buffer was free.
    pub rx_nombuf: u64,
    /// Erroneous packets received.
    pub ierrors: u64,
    /// Packets the driver failed to send.
    pub oerrors: u64,
    /// Buffers in the receive pool.
    pub pool_size: u32,
    /// Buffers of it in use.
    pub pool_in_use: u32,
    /// What is left to it when it sends.
    pub offload: OffloadReport,
    /// The transmit queues that something is sent by.
    pub tx_queues: Vec<TxQueueReport>,
}

/// One direction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DirectionReport {
    /// `up` or `down`.
    pub direction: String,
    /// Device it receives from.
    pub from: String,
    /// Device it sends to.
    pub to: String,
    /// Name of the discipline, as `tc` has it.
    pub kind: String,
    /// Its options, as `tc` prints them.
    pub options: String,
    /// The rate in bit/s; none: as fast as the wire takes it.
    pub bandwidth: Option<u64>,
    /// Taken from the receive queue.
    pub received: Count,
    /// Added by cutting: packets, and the bytes of their headers.
    pub added: Count,
    /// Taken away by merging.
    pub removed: Count,
    /// Taken by the transmit queue.
    pub sent: Count,
    /// Lost in between; received + added = sent + dropped + backlog + removed.
    pub dropped: Count,
    /// The losses by reason, those that happened.
    pub losses: BTreeMap<String, Count>,
    /// Waiting now.
    pub backlog: Count,
    /// Frames that went through the control queue.
    pub control: Count,
    /// Control frames that found it full and were treated as data.
    pub control_spilled: Count,
    /// Frames sent with a rewritten DS field.
    pub rewritten: u64,
    /// Frames whose DS field could not be rewritten.
    pub rewrite_failed: u64,
    /// Transmit bursts that the driver took only in part.
    pub requeues: u64,
    /// What became of super-packets.
    pub supers: SupersReport,
    /// The discipline's own counters, named as `tc -s -j` names them.
    pub qdisc: BTreeMap<String, u64>,
    /// cake's tins, named and ordered as `tc` has them; empty for other disciplines.
    #[serde(default)]
    pub tins: Vec<TinReport>,
    /// How long packets waited in the discipline.
    #[serde(default)]
    pub sojourn: SojournReport,
    /// How long they were in the transmit ring, until their completion was seen; none where the port shows
    /// none.
    #[serde(default)]
    pub residence: SojournReport,
    /// How long it took from the burst that they were received in until the completion was seen, or until
    /// the driver took them where it shows no completion.
    #[serde(default)]
    pub total: SojournReport,
    /// The rate limiter's.
    pub limiter: Option<LimiterReport>,
}

/// How long packets took, in microseconds: what half of them, nine in ten, ... took at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SojournReport {
    /// Packets.
    pub packets: u64,
    /// Half of them.
    pub p50_us: u64,
    /// 90 %.
    pub p90_us: u64,
    /// 99 %.
    pub p99_us: u64,
    /// 99.9 %.
    pub p999_us: u64,
    /// All of them.
    pub max_us: u64,
}

/// What became of our own lateness.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LimiterReport {
    /// Time given up because it was more than `catch-up`, in microseconds.
    pub lost_us: u64,
    /// How often.
    pub losses: u64,
    /// The furthest behind schedule a frame was sent, in microseconds.
    pub late_max_us: u64,
}

/// One worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its lcore.
    pub lcore: u32,
    /// Which generation of the settings it works by.
    pub generation: u64,
    /// Where it reads the time.
    pub clock: String,
    /// Turns of the loop.
    pub turns: u64,
    /// Turns that moved nothing.
    pub idle_turns: u64,
    /// Sleeps (`poll = "adaptive"`).
    pub sleeps: u64,
    /// Gaps in its polling.
    pub poll_gaps: PollGaps,
    /// Microseconds since its first turn.
    #[serde(default)]
    pub time_us: u64,
    /// Microseconds of them in turns that moved packets, of each at most the 50 that are no gap yet.
    #[serde(default)]
    pub busy_us: u64,
    /// Packets that it received.
    #[serde(default)]
    pub packets: u64,
    /// Cycles of the time stamp counter in a second.
    #[serde(default)]
    pub tsc_hz: u64,
    /// Times the clock ran backward.
    pub clock_backward: u64,
    /// Times it leapt forward by more than a second.
    pub clock_jumps: u64,
}

/// Gaps in a worker's polling: it was descheduled, or a turn took long.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PollGaps {
    /// Longer than 50 µs.
    pub over_50us: u64,
    /// Longer than 1 ms.
    pub over_1ms: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
    /// All that are longer than 50 µs together, in microseconds.
    pub total_us: u64,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of the frames as they are on the wire, without FCS.
    pub bytes: u64,
}

impl WorkerReport {
    /// Share of the time that it had something to do in, in percent.
    pub fn busy_percent(&self) -> f64 {
        100.0 * self.busy_us as f64 / self.time_us.max(1) as f64
    }

    /// Cycles of the time stamp counter that a packet took; none: there was none.
    pub fn cycles_per_packet(&self) -> Option<u64> {
        let cycles = u128::from(self.busy_us) * u128::from(self.tsc_hz) / 1_000_000;
        cycles.checked_div(self.packets.into()).map(|cycles| cycles as u64)
    }
}

impl From<Tally> for Count {
    fn from(tally: Tally) -> Self {
        Self { packets: tally.packets, bytes: tally.bytes }
    }
}

impl From<Percentiles> for SojournReport {
    fn from(percentiles: Percentiles) -> Self {
        Self {
            packets: percentiles.packets,
            p50_us: percentiles.p50.as_micros(),
            p90_us: percentiles.p90.as_micros(),
            p99_us: percentiles.p99.as_micros(),
            p999_us: percentiles.p999.as_micros(),
            max_us: percentiles.max.as_micros(),
        }
    }
}

/// Compares `text` with a file in `tests/snapshots`; `UPDATE_SNAPSHOTS=1` writes it.
#[cfg(test)]
pub fn snapshot(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "UPDATE_SNAPSHOTS=1 accepts the change");
}
