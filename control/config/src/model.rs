//! What the file means: checked values in the types of the dataplane, defaults filled in.

use shaper::dql;
use shaper::flow::rules::Rule;
use shaper::gso::Split;
use shaper::qdisc;
use shaper::rate::Overhead;
use shaper::time::Duration;
use shaper::units::Rate;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::device::Device;

/// A whole configuration. Every value is within the range that the schema gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// DPDK's environment.
    pub eal: Eal,
    /// The poll loop.
    pub engine: Engine,
    /// HTTP over TCP.
    pub api: Api,
    /// At least one; names and devices are unique.
    pub links: Vec<Link>,
}

/// DPDK's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eal {
    /// Arguments for `rte_eal_init`, none of them one that weir sets itself.
    pub args: Vec<String>,
    /// CPUs to use; none given: what the process's affinity allows.
    pub lcores: Option<Lcores>,
}

/// CPUs to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lcores {
    /// CPU of the main lcore.
    pub main: u32,
    /// CPUs of the workers, at least one.
    pub workers: Vec<u32>,
}

/// HTTP over TCP. An address that others can reach comes with a token and TLS; with either file of TLS
/// comes the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Api {
    /// Where to listen; none: nowhere.
    pub listen: Option<SocketAddr>,
    /// The file that holds the token.
    pub token_file: Option<PathBuf>,
    /// The file of the certificate, and of those that vouch for it.
    pub tls_cert: Option<PathBuf>,
    /// The file of its private key.
    pub tls_key: Option<PathBuf>,
    /// Names of this machine in a Host header, beside those that it has anyway.
    pub allow_hosts: Vec<String>,
}

/// The poll loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// What it does when there is nothing to do.
    pub poll: Poll,
}

/// What the poll loop does when there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poll {
    /// Sleeps, no longer than the next wake-up or 50 µs.
    #[default]
    Adaptive,
    /// Never sleeps.
    Busy,
}

/// Two ports and what happens between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The port on one side.
    pub a: Port,
    /// The port on the other side.
    pub b: Port,
    /// From `a` to `b`; `None`: nothing is forwarded.
    pub up: Option<Direction>,
    /// From `b` to `a`; `None`: nothing is forwarded.
    pub down: Option<Direction>,
    /// How long queued packets wait for a port whose link is down.
    pub link_down_hold: Duration,
    /// Take the other port's link down while one port's link is down.
    pub propagate_link: bool,
    /// What becomes of the ports when weir stops.
    pub on_stop: OnStop,
}

/// What becomes of a link's ports when weir stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStop {
    /// They are closed; nothing passes.
    #[default]
    LinkDown,
    /// The kernel bridges them.
    Bridge,
}

/// A DPDK port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Which one.
    pub device: Device,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Receive descriptors.
    pub rx_ring: u16,
    /// Transmit descriptors.
    pub tx_ring: u16,
    /// Pieces of several segments leave whole, for the port to cut.
    pub tso: Offload,
    /// Super-packets are taken in as they come.
    pub lro: Offload,
    /// What holds bytes back that the port does not need yet; `None`: nothing
    /// (`complete-on = "submit"`).
    pub governor: Option<Governor>,
}

/// Whether to use something that a port may offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Where it is known to work.
    #[default]
    Auto,
    /// Where it is offered.
    On,
    /// Never.
    Off,
}

/// Bounds of what may be in flight at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Governor {
    /// The limit never falls below, in bytes.
    pub limit_min: u32,
    /// The limit never rises above, in bytes; `None`: no bound.
    pub limit_max: Option<u32>,
    /// How long a smaller need must last before the limit follows.
    pub hold_time: Duration,
}

/// One way through a link. cake shapes by itself: its parameters repeat bandwidth and overhead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direction {
    /// The queueing discipline.
    pub qdisc: qdisc::Params,
    /// Shape to this rate; `None`: unlimited.
    pub bandwidth: Option<Rate>,
    /// What a packet counts as.
    pub overhead: Overhead,
    /// Most lateness that is made up; cake makes up all.
    pub catch_up: Duration,
    /// What becomes of super-packets.
    pub split: Split,
    /// Merge the TCP segments of a receive burst into super-packets.
    pub gro: bool,
    /// What is said of packets by what they are (cake); the first that applies decides.
    pub rules: Vec<Rule>,
}

impl Lcores {
    /// The value of EAL's `--lcores`: lcore 0 is the main one, the workers follow, each pinned to its CPU.
    pub fn eal_argument(&self) -> String {
        let cpus = std::iter::once(self.main).chain(self.workers.iter().copied());
        let pinned: Vec<_> = cpus.enumerate().map(|(lcore, cpu)| format!("{lcore}@{cpu}")).collect();
        pinned.join(",")
    }
}

impl Poll {
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Poll::Adaptive => "adaptive",
            Poll::Busy => "busy",
        }
    }
}

impl Port {
    /// Default MTU: Ethernet's.
    pub const MTU: u16 = 1_500;
    /// Default descriptors of either ring.
    pub const RING: u16 = 1_024;
}

impl Default for Governor {
    fn default() -> Self {
        Self { limit_min: 0, limit_max: None, hold_time: dql::Params::default().hold_time }
    }
}

impl Link {
    /// Default `link-down-hold`.
    pub const LINK_DOWN_HOLD: Duration = Duration::from_millis(100);

    /// Name of the interface that bridges its ports while weir is stopped: the kernel takes 15 bytes.
    pub fn bridge(&self) -> String {
        let name: String = self.name.chars().take(BRIDGE_NAME - BRIDGE_PREFIX.len()).collect();
        format!("{BRIDGE_PREFIX}{name}")
    }
}

impl OnStop {
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            OnStop::LinkDown => "link-down",
            OnStop::Bridge => "bridge",
        }
    }
}

/// Tells weir's bridges from others at a glance.
const BRIDGE_PREFIX: &str = "weir-";

/// `IFNAMSIZ` without the byte that ends the name.
const BRIDGE_NAME: usize = 15;

/// Bytes in front of the IP packet in an untagged frame.
pub(crate) const ETHER_HEADER: u32 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lcores_are_numbered_from_the_main_one_and_pinned() {
        let lcores = Lcores { main: 4, workers: vec![2, 7, 4] };
        assert_eq!(lcores.eal_argument(), "0@4,1@2,2@7,3@4");
    }
}
