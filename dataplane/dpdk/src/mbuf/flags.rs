//! Bits of an mbuf's offload flags, `RTE_MBUF_F_*`.
#![allow(missing_docs, reason = "DPDK's names, documented in rte_mbuf_core.h")]

pub const RX_VLAN: u64 = dpdk_sys::SHIM_MBUF_F_RX_VLAN;
pub const RX_RSS_HASH: u64 = dpdk_sys::SHIM_MBUF_F_RX_RSS_HASH;
pub const RX_IP_CKSUM_BAD: u64 = dpdk_sys::SHIM_MBUF_F_RX_IP_CKSUM_BAD;
pub const RX_IP_CKSUM_GOOD: u64 = dpdk_sys::SHIM_MBUF_F_RX_IP_CKSUM_GOOD;
pub const RX_L4_CKSUM_BAD: u64 = dpdk_sys::SHIM_MBUF_F_RX_L4_CKSUM_BAD;
pub const RX_L4_CKSUM_GOOD: u64 = dpdk_sys::SHIM_MBUF_F_RX_L4_CKSUM_GOOD;
pub const RX_LRO: u64 = dpdk_sys::SHIM_MBUF_F_RX_LRO;
pub const TX_TCP_SEG: u64 = dpdk_sys::SHIM_MBUF_F_TX_TCP_SEG;
pub const TX_TCP_CKSUM: u64 = dpdk_sys::SHIM_MBUF_F_TX_TCP_CKSUM;
pub const TX_UDP_CKSUM: u64 = dpdk_sys::SHIM_MBUF_F_TX_UDP_CKSUM;
pub const TX_IP_CKSUM: u64 = dpdk_sys::SHIM_MBUF_F_TX_IP_CKSUM;
pub const TX_IPV4: u64 = dpdk_sys::SHIM_MBUF_F_TX_IPV4;
pub const TX_IPV6: u64 = dpdk_sys::SHIM_MBUF_F_TX_IPV6;

/// The bits that say whose the buffer is: indirect or external.
pub const OWNERSHIP: u64 = dpdk_sys::SHIM_MBUF_F_INDIRECT | dpdk_sys::SHIM_MBUF_F_EXTERNAL;
