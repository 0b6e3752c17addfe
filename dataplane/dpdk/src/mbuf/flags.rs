//! Bits of an mbuf's offload flags, `RTE_MBUF_F_*`.
#![allow(missing_docs, reason = "DPDK's names, documented in rte_mbuf_core.h")]

pub const RX_VLAN: u64 = dpdk_sys::SHIM_MBUF_F_RX_VLAN;
pub const RX_RSS_HASH: u64 = dpdk_sys::SHIM_MBUF_F_RX_RSS_HASH;
pub const RX_IP_CKSUM_BAD: u64 = dpdk_sys::SHIM_MBUF_F_RX_IP_CKSUM_BAD;
pub const RX_IP_CKSUM_GOOD: u64 = dpdk_sys::SHIM_MBUF_F_RX_IP_CKSUM_GOOD;
pub const RX_L4_CKSUM_BAD: u64 = dpdk_sys::SHIM_MBUF_F_RX_L4_CKSUM_BAD;
pub const RX_L4_CKSUM_GOOD: u64 = dpdk_sys::SHIM_MBUF_F_RX_L4_CKSUM_GOOD;
/// The checksum in the packet is not the right one: the sender left it to the port. The data are intact.
pub const RX_L4_CKSUM_NONE: u64 = dpdk_sys::SHIM_MBUF_F_RX_L4_CKSUM_NONE;
pub const RX_LRO: u64 = dpdk_sys::SHIM_MBUF_F_RX_LRO;
pub const TX_TCP_SEG: u64 = dpdk_sys::SHIM_MBUF_F_TX_TCP_SEG;
pub const TX_TCP_CKSUM: u64 = dpdk_sys::SHIM_MBUF_F_TX_TCP_CKSUM;
pub const TX_UDP_CKSUM: u64 = dpdk_sys::SHIM_MBUF_F_TX_UDP_CKSUM;
pub const TX_IP_CKSUM: u64 = dpdk_sys::SHIM_MBUF_F_TX_IP_CKSUM;
pub const TX_IPV4: u64 = dpdk_sys::SHIM_MBUF_F_TX_IPV4;
pub const TX_IPV6: u64 = dpdk_sys::SHIM_MBUF_F_TX_IPV6;
pub const TX_UDP_SEG: u64 = dpdk_sys::SHIM_MBUF_F_TX_UDP_SEG;
/// The two bits that [`TX_TCP_CKSUM`] and [`TX_UDP_CKSUM`] are values of.
pub const TX_L4_MASK: u64 = dpdk_sys::SHIM_MBUF_F_TX_L4_MASK;
pub const TX_TUNNEL_VXLAN: u64 = dpdk_sys::SHIM_MBUF_F_TX_TUNNEL_VXLAN;
pub const TX_TUNNEL_GRE: u64 = dpdk_sys::SHIM_MBUF_F_TX_TUNNEL_GRE;
pub const TX_TUNNEL_IPIP: u64 = dpdk_sys::SHIM_MBUF_F_TX_TUNNEL_IPIP;
pub const TX_OUTER_IP_CKSUM: u64 = dpdk_sys::SHIM_MBUF_F_TX_OUTER_IP_CKSUM;
pub const TX_OUTER_IPV4: u64 = dpdk_sys::SHIM_MBUF_F_TX_OUTER_IPV4;
pub const TX_OUTER_IPV6: u64 = dpdk_sys::SHIM_MBUF_F_TX_OUTER_IPV6;
/// All that a driver may be asked to do on transmit.
pub const TX_OFFLOADS: u64 = dpdk_sys::SHIM_MBUF_F_TX_OFFLOAD_MASK;

pub(crate) const INDIRECT: u64 = dpdk_sys::SHIM_MBUF_F_INDIRECT;
pub(crate) const EXTERNAL: u64 = dpdk_sys::SHIM_MBUF_F_EXTERNAL;
/// The bits that say whose the buffer is: indirect or external.
pub const OWNERSHIP: u64 = INDIRECT | EXTERNAL;
