//! Link state and the driver's counters.

use std::fmt;

use super::{Device, PortError};

/// State of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether frames pass.
    pub up: bool,
    /// Speed in Mbit/s, if the driver knows one.
    pub speed_mbps: Option<u32>,
    /// Full duplex.
    pub full_duplex: bool,
    /// Speed and duplex were negotiated.
    pub autoneg: bool,
}

/// The driver's counters since the device was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub ipackets: u64,
    /// Packets sent.
    pub opackets: u64,
    /// Bytes received.
    pub ibytes: u64,
    /// Bytes sent.
    pub obytes: u64,
    /// Packets lost because the receive ring was full: we did not poll in time.
    pub imissed: u64,
    /// Packets received in error.
    pub ierrors: u64,
    /// Packets that could not be sent.
    pub oerrors: u64,
    /// Times the driver found no buffer in the mempool.
    pub rx_nombuf: u64,
}

impl Device {
    pub(super) fn link(&self) -> Result<Link, PortError> {
        let mut raw = dpdk_sys::shim_link::default();
        // SAFETY: a valid port and a local that outlives the call.
        let ret = unsafe { dpdk_sys::shim_link_get_nowait(self.id, &mut raw) };
        self.check_ret(ret, || "rte_eth_link_get_nowait".into())?;
        Ok(Link {
            up: raw.up,
            speed_mbps: (raw.speed_mbps != dpdk_sys::SHIM_SPEED_UNKNOWN && raw.speed_mbps != 0)
                .then_some(raw.speed_mbps),
            full_duplex: raw.full_duplex,
            autoneg: raw.autoneg,
        })
    }

    pub(super) fn set_link(&self, up: bool) -> Result<(), PortError> {
        // SAFETY: a valid port.
        let ret = unsafe {
            if up {
                dpdk_sys::rte_eth_dev_set_link_up(self.id)
            } else {
                dpdk_sys::rte_eth_dev_set_link_down(self.id)
            }
        };
        self.check_ret(ret, || format!("rte_eth_dev_set_link_{}", if up { "up" } else { "down" }))
    }

    pub(super) fn stats(&self) -> Result<PortStats, PortError> {
        let mut raw = dpdk_sys::rte_eth_stats::default();
        // SAFETY: a valid port and a local that outlives the call.
        let ret = unsafe { dpdk_sys::rte_eth_stats_get(self.id, &mut raw) };
        self.check_ret(ret, || "rte_eth_stats_get".into())?;
        Ok(PortStats {
            ipackets: raw.ipackets,
            opackets: raw.opackets,
            ibytes: raw.ibytes,
            obytes: raw.obytes,
            imissed: raw.imissed,
            ierrors: raw.ierrors,
            oerrors: raw.oerrors,
            rx_nombuf: raw.rx_nombuf,
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.up { "up" } else { "down" })?;
        match self.speed_mbps {
            Some(speed) => write!(f, ", {speed} Mbit/s")?,
            None => f.write_str(", speed unknown")?,
        }
        f.write_str(if self.full_duplex { ", full duplex" } else { ", half duplex" })
    }
}
