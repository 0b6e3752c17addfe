//! `struct rte_mbuf` as the packet path reads it (DPDK programmer's guide, "Mbuf Library").
//!
//! Written by hand, because the anonymous unions of the C struct get names from bindgen that change
//! with its version. `shim.c` asserts the same offsets against DPDK's own struct: a DPDK that moves
//! a field does not compile.

use core::ffi::c_void;
use core::mem::{offset_of, size_of};
use core::sync::atomic::AtomicU16;

use crate::generated::*;

/// One segment of a packet. Fields not read here are reserved space.
#[repr(C, align(64))]
#[allow(non_camel_case_types, reason = "DPDK's name")]
pub struct rte_mbuf {
    /// Start of the segment's buffer.
    pub buf_addr: *mut c_void,
    /// Its address for devices; where mbufs have none, `dynfield2`.
    pub buf_iova: u64,
    /// Offset of the first byte of data in the buffer.
    pub data_off: u16,
    /// Number of holders of this segment.
    pub refcnt: AtomicU16,
    /// Segments in the chain; valid in the first one.
    pub nb_segs: u16,
    /// Port it was received on.
    pub port: u16,
    /// Offload flags, `RTE_MBUF_F_*`.
    pub ol_flags: u64,
    /// What a PMD says about the headers, `RTE_PTYPE_*`.
    pub packet_type: u32,
    /// Bytes in the whole chain; valid in the first segment.
    pub pkt_len: u32,
    /// Bytes in this segment.
    pub data_len: u16,
    /// VLAN tag that was stripped or shall be inserted.
    pub vlan_tci: u16,
    /// RSS hash.
    pub rss: u32,
    hash_hi: u32,
    vlan_tci_outer: u16,
    /// Size of the buffer in bytes, headroom included.
    pub buf_len: u16,
    /// Pool it goes back to.
    pub pool: *mut rte_mempool,
    /// Next segment, null in the last one.
    pub next: *mut rte_mbuf,
    /// Header lengths and segment size for TX offloads, packed as `MBUF_BITS_*` say.
    pub tx_offload: u64,
    shinfo: *mut c_void,
    /// Bytes of private data between this struct and the buffer.
    pub priv_size: u16,
    timesync: u16,
    dynfield1: [u32; 9],
}

macro_rules! at {
    ($($field:ident: $offset:ident),* $(,)?) => {
        $(const _: () = assert!(offset_of!(rte_mbuf, $field) == $offset as usize);)*
    };
}

const _: () = assert!(size_of::<rte_mbuf>() == MBUF_SIZE as usize);
at! {
    buf_addr: MBUF_OFFSET_BUF_ADDR,
    data_off: MBUF_OFFSET_DATA_OFF,
    refcnt: MBUF_OFFSET_REFCNT,
    nb_segs: MBUF_OFFSET_NB_SEGS,
    port: MBUF_OFFSET_PORT,
    ol_flags: MBUF_OFFSET_OL_FLAGS,
    packet_type: MBUF_OFFSET_PACKET_TYPE,
    pkt_len: MBUF_OFFSET_PKT_LEN,
    data_len: MBUF_OFFSET_DATA_LEN,
    vlan_tci: MBUF_OFFSET_VLAN_TCI,
    rss: MBUF_OFFSET_RSS,
    buf_len: MBUF_OFFSET_BUF_LEN,
    pool: MBUF_OFFSET_POOL,
    next: MBUF_OFFSET_NEXT,
    tx_offload: MBUF_OFFSET_TX_OFFLOAD,
    priv_size: MBUF_OFFSET_PRIV_SIZE,
}
