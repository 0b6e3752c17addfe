//! Offload capabilities as small typed sets (`RTE_ETH_RX_OFFLOAD_*`, `RTE_ETH_TX_OFFLOAD_*`).

use std::ffi::{CStr, c_char};
use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

macro_rules! offload_set {
    ($(#[$doc:meta])* $name:ident, $label:path, { $($bit:ident = $value:ident: $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(u64);

        impl $name {
            /// None at all.
            pub const NONE: Self = Self(0);
            $(#[doc = $text] pub const $bit: Self = Self(dpdk_sys::$value);)*

            /// From DPDK's bits.
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// DPDK's bits.
            pub const fn bits(self) -> u64 {
                self.0
            }

            /// Whether all of `other` are in it.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether there are none.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        /// DPDK's names, separated by spaces; `none` for the empty set.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // SAFETY: returns a static C string for any bit.
                write_names(f, self.0, |bit| unsafe { $label(bit) })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

offload_set! {
    /// Receive offloads.
    RxOffloads, dpdk_sys::rte_eth_dev_rx_offload_name, {
        VLAN_STRIP = SHIM_RX_VLAN_STRIP: "Takes VLAN tags out of frames.",
        VLAN_FILTER = SHIM_RX_VLAN_FILTER: "Drops frames of unknown VLANs.",
        IPV4_CKSUM = SHIM_RX_IPV4_CKSUM: "Checks IPv4 header checksums.",
        UDP_CKSUM = SHIM_RX_UDP_CKSUM: "Checks UDP checksums.",
        TCP_CKSUM = SHIM_RX_TCP_CKSUM: "Checks TCP checksums.",
        TCP_LRO = SHIM_RX_TCP_LRO: "Joins TCP segments into super-packets.",
        SCATTER = SHIM_RX_SCATTER: "Spreads long frames over several buffers.",
        TIMESTAMP = SHIM_RX_TIMESTAMP: "Stamps frames with their time of arrival.",
        RSS_HASH = SHIM_RX_RSS_HASH: "Delivers the RSS hash.",
    }
}

offload_set! {
    /// Transmit offloads.
    TxOffloads, dpdk_sys::rte_eth_dev_tx_offload_name, {
        VLAN_INSERT = SHIM_TX_VLAN_INSERT: "Puts VLAN tags into frames.",
        IPV4_CKSUM = SHIM_TX_IPV4_CKSUM: "Fills in IPv4 header checksums.",
        UDP_CKSUM = SHIM_TX_UDP_CKSUM: "Fills in UDP checksums.",
        TCP_CKSUM = SHIM_TX_TCP_CKSUM: "Fills in TCP checksums.",
        TCP_TSO = SHIM_TX_TCP_TSO: "Cuts TCP super-packets.",
        UDP_TSO = SHIM_TX_UDP_TSO: "Cuts UDP super-packets.",
        MULTI_SEGS = SHIM_TX_MULTI_SEGS: "Sends packets of several segments.",
        MBUF_FAST_FREE = SHIM_TX_MBUF_FAST_FREE: "Frees buffers without looking at them: one pool, one holder.",
        SEND_ON_TIMESTAMP = SHIM_TX_SEND_ON_TIMESTAMP: "Sends at a given time.",
    }
}

fn write_names(f: &mut fmt::Formatter<'_>, bits: u64, name: impl Fn(u64) -> *const c_char) -> fmt::Result {
    if bits == 0 {
        return f.write_str("none");
    }
    let mut separator = "";
    for bit in (0..u64::BITS).map(|shift| 1u64 << shift).filter(|bit| bits & bit != 0) {
        // SAFETY: DPDK returns a static C string for any bit.
        let text = unsafe { CStr::from_ptr(name(bit)) }.to_string_lossy();
        write!(f, "{separator}{text}")?;
        separator = " ";
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_show_dpdk_names() {
        let set = TxOffloads::MULTI_SEGS | TxOffloads::TCP_TSO;
        assert_eq!(set.to_string(), "TCP_TSO MULTI_SEGS");
        assert_eq!(RxOffloads::NONE.to_string(), "none");
        assert!(set.contains(TxOffloads::TCP_TSO) && !set.contains(TxOffloads::UDP_TSO));
        assert_eq!(set & TxOffloads::TCP_TSO, TxOffloads::TCP_TSO);
        assert_eq!(set - TxOffloads::TCP_TSO, TxOffloads::MULTI_SEGS);
    }
}
