//! Who sent most of late: `GET /v1/flows`, and the lower half of `weir top`.

use super::Count;
use serde::{Deserialize, Serialize};

/// The largest flows and hosts of each direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowsReport {
    /// When it was told, in seconds since 1970.
    pub at: f64,
    /// The directions, in the order of the file.
    pub directions: Vec<DirectionFlows>,
}

/// Those of one direction in the last window of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionFlows {
    /// Name of the link.
    pub link: String,
    /// `up` or `down`.
    pub direction: String,
    /// Length of the window in seconds: one, or as long as nobody asked.
    pub window_s: f64,
    /// What was sent in it, counted.
    pub sent: Count,
    /// Bytes that a packet looked at stood for at least; what is below is estimated from such packets.
    pub step: u32,
    /// Flows, the largest first.
    pub flows: Vec<FlowReport>,
    /// Hosts that sent, the largest first.
    pub senders: Vec<HostReport>,
    /// Hosts that received, the largest first.
    pub receivers: Vec<HostReport>,
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Address of the sender; of what is no IP, its MAC address.
    pub source: String,
    /// Port of the sender, where the protocol has ports.
    pub source_port: Option<u16>,
    /// Address of the receiver.
    pub destination: String,
    /// Port of the receiver.
    pub destination_port: Option<u16>,
    /// Name or number of the IP protocol; of what is no IP, its EtherType.
    pub protocol: String,
    /// Identifier where there are no ports: of an ICMP query, an ESP association, or the IPv6 flow label.
    pub id: Option<u32>,
    /// VLANs, PPPoE session, MPLS label, tunnel: what tells equal addresses apart. Empty without.
    pub scope: String,
    /// What it sent.
    #[serde(flatten)]
    pub load: Load,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Its address; of what is no IP, its MAC address.
    pub host: String,
    /// As with [`FlowReport::scope`].
    pub scope: String,
    /// What it sent or received.
    #[serde(flatten)]
    pub load: Load,
}

/// How much of the window was whose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Bit/s, estimated; frames without FCS.
    pub rate: u64,
    /// 95 of 100 estimates are off by no more bit/s than this.
    pub error: u64,
    /// Share of what the direction sent, 0 to 1.
    pub share: f64,
    /// Packets that were looked at.
    pub samples: u64,
    /// How long these waited on average, in microseconds.
    pub delay_mean_us: u64,
    /// The longest that one of them waited.
    pub delay_max_us: u64,
}
