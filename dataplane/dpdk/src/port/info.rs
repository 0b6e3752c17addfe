//! What a port is and can do.

use std::ffi::CStr;
use std::fmt;

use crate::offload::{RxOffloads, TxOffloads};

/// Identity, limits and offload capabilities as the driver reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The port's name in DPDK: a PCI address or a vdev name.
    pub name: String,
    /// The device it belongs to; several ports may share one.
    pub device: String,
    /// The driver, for example `net_tap`.
    pub driver: String,
    /// Version of the card's firmware, where the driver tells it.
    pub firmware: Option<String>,
    /// NUMA node of the device, if it has one.
    pub node: Option<u32>,
    /// MAC address.
    pub mac: Mac,
    /// Index of the kernel's interface, 0 if there is none.
    pub if_index: u32,
    /// Smallest MTU in bytes.
    pub min_mtu: u16,
    /// Largest MTU in bytes.
    pub max_mtu: u16,
    /// Longest frame that can be received in bytes.
    pub max_rx_pktlen: u32,
    /// Bytes a frame has beyond the MTU: header, FCS, tags, as the driver counts them.
    pub overhead: u32,
    /// Most receive queues.
    pub max_rx_queues: u16,
    /// Most transmit queues.
    pub max_tx_queues: u16,
    /// Limits of a receive ring.
    pub rx_ring: RingLimits,
    /// Limits of a transmit ring.
    pub tx_ring: RingLimits,
    /// Most buffers of a packet that the port shall cut; 65535 if the driver states no limit.
    pub tso_segs: u16,
    /// Most buffers of a packet that it shall not cut, likewise.
    pub mtu_segs: u16,
    /// What it can do on receive.
    pub rx_offloads: RxOffloads,
    /// What it can do on transmit.
    pub tx_offloads: TxOffloads,
    /// Embedded switch it is a port of: its name, domain and port number.
    pub switch: Option<Switch>,
}

/// Descriptors a ring may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Fewest.
    pub min: u16,
    /// Most.
    pub max: u16,
    /// The number must be a multiple of this.
    pub align: u16,
}

/// Place of a port in an embedded switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Name, may be empty.
    pub name: String,
    /// Domain: ports of one switch share it.
    pub domain: u16,
    /// Number of the port inside it.
    pub port: u16,
}

/// A MAC address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl PortInfo {
    pub(super) fn new(name: &str, node: i32, mac: Mac, raw: &dpdk_sys::rte_eth_dev_info) -> Self {
        let limits = |raw: &dpdk_sys::rte_eth_desc_lim| RingLimits {
            min: raw.nb_min,
            max: raw.nb_max,
            align: raw.nb_align.max(1),
        };
        Self {
            name: name.to_owned(),
            device: device_name(raw),
            driver: text(raw.driver_name),
            firmware: None,
            node: u32::try_from(node).ok(),
            mac,
            if_index: raw.if_index,
            min_mtu: raw.min_mtu,
            max_mtu: raw.max_mtu,
            max_rx_pktlen: raw.max_rx_pktlen,
            overhead: overhead(raw),
            max_rx_queues: raw.max_rx_queues,
            max_tx_queues: raw.max_tx_queues,
            rx_ring: limits(&raw.rx_desc_lim),
            tx_ring: limits(&raw.tx_desc_lim),
            tso_segs: stated(raw.tx_desc_lim.nb_seg_max),
            mtu_segs: stated(raw.tx_desc_lim.nb_mtu_seg_max),
            rx_offloads: RxOffloads::from_bits(raw.rx_offload_capa),
            tx_offloads: TxOffloads::from_bits(raw.tx_offload_capa),
            switch: (raw.switch_info.domain_id != NO_SWITCH).then(|| Switch {
                name: text(raw.switch_info.name),
                domain: raw.switch_info.domain_id,
                port: raw.switch_info.port_id,
            }),
        }
    }
}

/// The capability report: one line each, for a terminal.
impl fmt::Display for PortInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node.map_or("any".to_owned(), |node| node.to_string());
        writeln!(f, "port {}: driver {}, MAC {}, NUMA node {node}", self.name, self.driver, self.mac)?;
        if let Some(firmware) = &self.firmware {
            writeln!(f, "  firmware {firmware}")?;
        }
        writeln!(f, "  mtu {} to {}, longest frame {}", self.min_mtu, self.max_mtu, self.max_rx_pktlen)?;
        writeln!(f, "  rx queues {}, ring {}", self.max_rx_queues, self.rx_ring)?;
        writeln!(f, "  tx queues {}, ring {}", self.max_tx_queues, self.tx_ring)?;
        writeln!(f, "  rx offloads {}", self.rx_offloads)?;
        write!(f, "  tx offloads {}", self.tx_offloads)?;
        if let Some(switch) = &self.switch {
            write!(f, "\n  switch {:?} domain {} port {}", switch.name, switch.domain, switch.port)?;
        }
        Ok(())
    }
}

impl fmt::Display for RingLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} in steps of {}", self.min, self.max, self.align)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A limit, where 0 means that there is none.
fn stated(limit: u16) -> u16 {
    if limit == 0 { u16::MAX } else { limit }
}

/// What ethdev itself takes for the overhead: the difference where the driver states one, else
/// header and FCS.
fn overhead(raw: &dpdk_sys::rte_eth_dev_info) -> u32 {
    if raw.max_mtu != u16::MAX && raw.max_rx_pktlen > u32::from(raw.max_mtu) {
        raw.max_rx_pktlen - u32::from(raw.max_mtu)
    } else {
        ETHERNET_OVERHEAD
    }
}

pub(super) fn device_name(raw: &dpdk_sys::rte_eth_dev_info) -> String {
    if raw.device.is_null() {
        return String::new();
    }
    // SAFETY: the device of a valid port, whose name lives as long as the device.
    text(unsafe { dpdk_sys::rte_dev_name(raw.device) })
}

pub(super) fn text(raw: *const std::ffi::c_char) -> String {
    if raw.is_null() {
        return String::new();
    }
    // SAFETY: DPDK's names are C strings that live as long as the device.
    unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned()
}

/// Ethernet header and FCS.
const ETHERNET_OVERHEAD: u32 = 14 + 4;

/// `RTE_ETH_DEV_SWITCH_DOMAIN_ID_INVALID`.
const NO_SWITCH: u16 = u16::MAX;
