//! How a port shall be set up, and how it was.

use super::PortWarning;
use crate::offload::{RxOffloads, TxOffloads};

/// What to ask of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues, at least 1.
    pub rx_queues: u16,
    /// Transmit queues, at least 1.
    pub tx_queues: u16,
    /// Descriptors per receive ring; adjusted to the driver's limits.
    pub rx_desc: u16,
    /// Descriptors per transmit ring; adjusted to the driver's limits.
    pub tx_desc: u16,
    /// MTU in bytes; the driver's default when `None`.
    pub mtu: Option<u16>,
    /// Receive offloads wanted where offered. VLAN strip and filter are never asked for, so that
    /// frames pass as they are.
    pub rx_offloads: RxOffloads,
    /// Transmit offloads wanted where offered. Fast free is never asked for: it ignores the
    /// holders of a buffer and the pool it belongs to.
    pub tx_offloads: TxOffloads,
    /// Free descriptors below which a burst takes back what the device is done with; the driver's
    /// own number when `None`. Most drivers demand less than the ring, by 3 or 4.
    pub tx_free_thresh: Option<u16>,
    /// Descriptors of which one asks the device to report; the driver's own number when `None`.
    pub tx_rs_thresh: Option<u16>,
}

/// How the port was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Descriptors per receive ring.
    pub rx_desc: u16,
    /// Descriptors per transmit ring.
    pub tx_desc: u16,
    /// MTU in bytes.
    pub mtu: u16,
    /// Receive offloads in force.
    pub rx_offloads: RxOffloads,
    /// Transmit offloads in force.
    pub tx_offloads: TxOffloads,
    /// What it does without.
    pub warnings: Vec<PortWarning>,
}

impl Default for PortConfig {
    /// One queue each way, rings of 1024, scattered receive and multi-segment transmit.
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_desc: 1024,
            tx_desc: 1024,
            mtu: None,
            rx_offloads: RxOffloads::SCATTER,
            tx_offloads: TxOffloads::MULTI_SEGS,
            tx_free_thresh: None,
            tx_rs_thresh: None,
        }
    }
}

impl PortConfig {
    pub(super) fn rx_wanted(&self, offered: RxOffloads) -> RxOffloads {
        (self.rx_offloads & offered) - (RxOffloads::VLAN_STRIP | RxOffloads::VLAN_FILTER)
    }

    pub(super) fn tx_wanted(&self, offered: TxOffloads) -> TxOffloads {
        (self.tx_offloads & offered) - TxOffloads::MBUF_FAST_FREE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_asks_for_what_changes_frames_or_ignores_holders() {
        let all = PortConfig {
            rx_offloads: RxOffloads::from_bits(u64::MAX),
            tx_offloads: TxOffloads::from_bits(u64::MAX),
            ..PortConfig::default()
        };
        let rx = all.rx_wanted(RxOffloads::from_bits(u64::MAX));
        let tx = all.tx_wanted(TxOffloads::from_bits(u64::MAX));
        assert!(!rx.contains(RxOffloads::VLAN_STRIP) && !rx.contains(RxOffloads::VLAN_FILTER));
        assert!(!tx.contains(TxOffloads::MBUF_FAST_FREE) && tx.contains(TxOffloads::MULTI_SEGS));
    }
}
