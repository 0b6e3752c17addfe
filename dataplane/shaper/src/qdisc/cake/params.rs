//! The options of tc-cake(8), with its names and defaults.

use crate::rate::Overhead;
use crate::time::Duration;
use crate::units::Rate;

/// What cake is asked to do. [`Params::default`] is `tc qdisc add ... cake` without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// `bandwidth`; `None` is `unlimited`. With `autorate_ingress` this is where the estimate
    /// starts, and it then follows the estimate. Below 64 bytes/s it is shaped as 64.
    pub bandwidth: Option<Rate>,
    /// `besteffort`, `precedence`, `diffserv3`, `diffserv4`, `diffserv8`.
    pub diffserv: Diffserv,
    /// `flowblind` .. `triple-isolate`.
    pub flow_mode: FlowMode,
    /// `rtt`: the time senders need to answer; 1 us to 4294 s.
    pub rtt: Duration,
    /// Sojourn time that is good at any rate; tc derives it from `rtt`. 1 us to 4294 s.
    pub target: Duration,
    /// `overhead`, `mpu`, `atm`, `ptm` and the link-layer presets.
    pub overhead: Overhead,
    /// `memlimit` in bytes of packet memory; `None` lets bandwidth and rtt decide.
    pub memlimit: Option<u32>,
    /// `ack-filter`.
    pub ack_filter: AckFilter,
    /// `wash`: clear the DSCP after it has chosen the tin.
    pub wash: bool,
    /// `ingress`: count drops as sent, as they have passed the bottleneck already.
    pub ingress: bool,
    /// `autorate-ingress`: estimate the bandwidth from what arrives.
    pub autorate_ingress: bool,
    /// `fwmark`: the bits of [`crate::packet::Arrival::mark`] that choose a tin, counted from 1;
    /// 0 for none.
    pub fwmark: u32,
    /// Major number of this discipline: an [`crate::packet::Arrival::priority`] with it in the upper
    /// 16 bits chooses a tin by its lower 16 bits, counted from 1. `None`: priorities mean nothing.
    pub handle: Option<u16>,
    /// Longest ordinary frame in bytes: device MTU and Ethernet header.
    pub max_frame: u32,
}

/// How packets are sorted into tins by DSCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Diffserv {
    /// One tin.
    BestEffort,
    /// Eight tins by the upper three bits, as RFC 791 had it.
    Precedence,
    /// Bulk, Best Effort, Voice.
    #[default]
    Diffserv3,
    /// Bulk, Best Effort, Video, Voice.
    Diffserv4,
    /// Eight tins, background to network control.
    Diffserv8,
}

/// What is kept fair against what inside a tin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowMode {
    /// Nothing: one queue.
    FlowBlind,
    /// Source hosts.
    SrcHost,
    /// Destination hosts.
    DstHost,
    /// Pairs of hosts.
    Hosts,
    /// Flows.
    Flows,
    /// Flows, inside source hosts.
    DualSrcHost,
    /// Flows, inside destination hosts.
    DualDstHost,
    /// Flows, inside whichever host has more of them.
    #[default]
    TripleIsolate,
}

/// Which ACKs give way to later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckFilter {
    /// `no-ack-filter`.
    #[default]
    Off,
    /// `ack-filter`: one more ACK than needed stays in the queue.
    Conservative,
    /// `ack-filter-aggressive`: none.
    Aggressive,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            bandwidth: None,
            diffserv: Diffserv::default(),
            flow_mode: FlowMode::default(),
            rtt: Duration::from_millis(100),
            target: Duration::from_millis(5),
            overhead: Overhead::default(),
            memlimit: None,
            ack_filter: AckFilter::default(),
            wash: false,
            ingress: false,
            autorate_ingress: false,
            fwmark: 0,
            handle: None,
            max_frame: 1514,
        }
    }
}

impl Params {
    /// The target that tc derives from an rtt: a twentieth, in whole microseconds, at least one.
    pub const fn target_of(rtt: Duration) -> Duration {
        let micros = rtt.as_micros() / 20;
        Duration::from_micros(if micros == 0 { 1 } else { micros })
    }

    /// The bandwidth in bytes per second, 0 for unlimited.
    #[inline]
    pub(super) fn bytes_per_sec(&self) -> u64 {
        self.bandwidth.map_or(0, Rate::bytes_per_sec)
    }

    /// rtt and target in whole microseconds, as netlink carries them; at least one.
    pub(super) fn micros(&self) -> (u64, u64) {
        let micros = |span: Duration| span.as_micros().clamp(1, u32::MAX.into());
        (micros(self.rtt), micros(self.target))
    }
}

impl FlowMode {
    /// Whether [`crate::packet::Arrival::src_hash`] and `dst_hash` are looked at.
    pub const fn needs_hosts(self) -> bool {
        !matches!(self, Self::FlowBlind | Self::Flows)
    }

    /// The hash that chooses the queue; `None` for the one queue of `flowblind`.
    #[inline]
    pub(super) const fn queue_hash(self, flow: u32, src: u32, dst: u32) -> Option<u32> {
        match self {
            Self::FlowBlind => None,
            Self::SrcHost => Some(src),
            Self::DstHost => Some(dst),
            Self::Hosts => Some(src ^ dst),
            Self::Flows | Self::DualSrcHost | Self::DualDstHost | Self::TripleIsolate => Some(flow),
        }
    }

    /// Flows of a source host share.
    #[inline]
    pub(super) const fn isolates_src(self) -> bool {
        matches!(self, Self::DualSrcHost | Self::TripleIsolate)
    }

    /// Flows of a destination host share.
    #[inline]
    pub(super) const fn isolates_dst(self) -> bool {
        matches!(self, Self::DualDstHost | Self::TripleIsolate)
    }
}
