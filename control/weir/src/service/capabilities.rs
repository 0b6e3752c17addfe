//! Which capabilities (capabilities(7)) ports need to start and while they run, and giving up all others.
//!
//! Who runs as root has them all and gives them up; who does not is given them by the unit
//! (`AmbientCapabilities=`), and hears here which ones are missing.

use config::device::{Bus, Device};
use config::model::{Config, Port};
use dpdk::privileges::{self, PrivilegesError};
use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use std::path::Path;

/// A set of capabilities, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

/// What a port needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// To be opened and started.
    pub start: Capabilities,
    /// From then on, to the end.
    pub kept: Capabilities,
}

impl Needs {
    /// Of all ports together.
    pub fn of(config: &Config) -> Self {
        let ports = config.links.iter().flat_map(|link| [&link.a, &link.b]);
        ports.map(of).fold(Self::default(), |all, one| Self {
            start: all.start | one.start,
            kept: all.kept | one.kept,
        })
    }

    /// What this process lacks of what a start needs.
    pub fn missing(self) -> Capabilities {
        Capabilities(self.start.0 & !privileges::effective())
    }
}

impl Capabilities {
    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Has every thread of the process give up all others, for good.
    ///
    /// # Errors
    /// Threads that still have them.
    pub fn keep_only(self) -> Result<(), PrivilegesError> {
        privileges::keep_only(self.0)
    }

    /// What it takes to read these files again later, as their owner and mode are now.
    pub fn to_read(files: &[&Path]) -> Self {
        let can = privileges::without(|| files.iter().all(|file| std::fs::File::open(file).is_ok()));
        if can.unwrap_or(false) { NONE } else { DAC_READ_SEARCH }
    }
}

/// By the kind of port. What lies behind each is in the comments; `weir check` prints the sums.
fn of(port: &Port) -> Needs {
    let device = &port.device;
    match (device.bus(), device.driver()) {
        // ioctls that set an interface up, down and promiscuous, at any time.
        (Bus::Vdev, Some("net_tap")) => Needs { start: NET_ADMIN, kept: NET_ADMIN },
        (Bus::Vdev, Some("net_af_packet")) => Needs { start: NET_RAW | NET_ADMIN, kept: NET_ADMIN },
        // The program is loaded at start and taken off the interface at the end.
        (Bus::Vdev, Some("net_af_xdp")) => Needs { start: NET_RAW | NET_ADMIN | BPF, kept: NET_ADMIN | BPF },
        (Bus::Vdev, Some("net_pcap")) if is_live(device) => Needs { start: NET_RAW, kept: NONE },
        // A peer that comes back makes its socket anew, perhaps as another user's.
        (Bus::Vdev, Some("net_vhost" | "net_memif" | "net_virtio_user")) => {
            let start = if device.argument("path") == Some("/dev/vhost-net") { NET_ADMIN } else { NONE };
            Needs { start, kept: DAC_OVERRIDE }
        }
        (Bus::Vdev, _) => Needs::default(),
        // vfio asks for access to its files and for memory that may be locked (LimitMEMLOCK=), nothing else; the
        // bridge after a stop is made with NET_ADMIN. Drivers that leave the port to the kernel go through it.
        (Bus::Pci | Bus::Other, _) if is_shared_with_the_kernel(device.name()) => {
            Needs { start: NET_ADMIN | NET_RAW | IPC_LOCK, kept: NET_ADMIN | NET_RAW }
        }
        (Bus::Pci | Bus::Other, _) => Needs { start: NONE, kept: NET_ADMIN },
    }
}

/// Whether a `net_pcap` port is an interface rather than files.
fn is_live(device: &Device) -> bool {
    ["iface", "rx_iface", "tx_iface"].into_iter().any(|key| device.argument(key).is_some())
}

/// mlx4 and mlx5: DPDK's driver works beside the kernel's.
fn is_shared_with_the_kernel(address: &str) -> bool {
    let driver = crate::pci::Bus::system().driver(address);
    driver.is_some_and(|driver| driver.starts_with("mlx"))
}

impl BitOr for Capabilities {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Capabilities {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            NAMES.iter().filter(|(set, _)| self.0 & set.0 != 0).map(|(_, name)| *name).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(" "))
    }
}

const NONE: Capabilities = Capabilities(0);
const DAC_OVERRIDE: Capabilities = Capabilities(1 << 1);
const DAC_READ_SEARCH: Capabilities = Capabilities(1 << 2);
const NET_ADMIN: Capabilities = Capabilities(1 << 12);
const NET_RAW: Capabilities = Capabilities(1 << 13);
const IPC_LOCK: Capabilities = Capabilities(1 << 14);
const BPF: Capabilities = Capabilities(1 << 39);
const NAMES: [(Capabilities, &str); 6] = [
    (DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
    (NET_ADMIN, "CAP_NET_ADMIN"),
    (NET_RAW, "CAP_NET_RAW"),
    (IPC_LOCK, "CAP_IPC_LOCK"),
    (BPF, "CAP_BPF"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(a: &str, b: &str) -> String {
        let text = format!("[[link]]\nname = \"x\"\na = \"{a}\"\nb = \"{b}\"\n");
        let Needs { start, kept } = Needs::of(&config::parse("test.toml", &text).unwrap().config);
        format!("{start} | {kept}")
    }

    #[test]
    fn each_kind_of_port_has_its_needs_and_they_add_up() {
        for (a, b, expected) in [
            ("net_null0", "net_ring0", "none | none"),
            ("net_tap0,iface=x", "net_null0", "CAP_NET_ADMIN | CAP_NET_ADMIN"),
            ("net_af_packet0,iface=x", "net_null0", "CAP_NET_ADMIN CAP_NET_RAW | CAP_NET_ADMIN"),
            (
                "net_af_xdp0,iface=x",
                "net_tap0,iface=y",
                "CAP_NET_ADMIN CAP_NET_RAW CAP_BPF | CAP_NET_ADMIN CAP_BPF",
            ),
            ("net_pcap0,rx_pcap=x", "net_pcap1,iface=y", "CAP_NET_RAW | none"),
            ("net_vhost0,iface=/x", "net_null0", "none | CAP_DAC_OVERRIDE"),
            ("net_virtio_user0,path=/dev/vhost-net", "net_memif0", "CAP_NET_ADMIN | CAP_DAC_OVERRIDE"),
            ("0000:01:00.0", "0000:01:00.1", "none | CAP_NET_ADMIN"),
        ] {
            assert_eq!(needs(a, b), expected, "{a} {b}");
        }
    }
}
