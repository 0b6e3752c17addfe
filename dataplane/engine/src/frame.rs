//! What the marks in an mbuf say of the frames it becomes on the wire.
//!
//! A piece of several segments carries, from the moment it is built, what a port needs to cut it:
//! flags, header lengths, segment size. So its length on the wire can be told from the mbuf alone,
//! wherever it waits and whoever loses it.

use dpdk::Mbuf;
use dpdk::mbuf::flags;

/// What a piece of several segments is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// How many.
    pub segs: u16,
    /// Bytes of headers that each has.
    pub header_len: u16,
    /// Payload bytes of each but the last.
    pub gso_size: u16,
}

/// Length in bytes of what the packet is on the wire: Ethernet headers included, FCS not; a piece of
/// several segments with the headers of each.
#[inline]
pub fn wire_len(packet: &Mbuf) -> u32 {
    if packet.ol_flags() & SEGMENTED == 0 {
        return packet.pkt_len();
    }
    let Some(segments) = segments(packet) else { return packet.pkt_len() };
    packet.pkt_len() + (u32::from(segments.segs) - 1) * u32::from(segments.header_len)
}

/// What the packet becomes, if it is marked to be cut.
#[inline]
pub fn segments(packet: &Mbuf) -> Option<Segments> {
    if packet.ol_flags() & SEGMENTED == 0 {
        return None;
    }
    let marks = packet.tx_offload();
    let header_len = marks.outer_l2_len + marks.outer_l3_len + marks.l2_len + marks.l3_len + marks.l4_len;
    let payload = packet.pkt_len().saturating_sub(header_len.into());
    let segs = payload.div_ceil(u32::from(marks.tso_segsz).max(1)).clamp(1, u16::MAX.into()) as u16;
    Some(Segments { segs, header_len, gso_size: marks.tso_segsz })
}

/// Whether the packet is marked to be cut.
#[inline]
pub fn is_segmented(packet: &Mbuf) -> bool {
    packet.ol_flags() & SEGMENTED != 0
}

/// Whether the driver is asked to do anything to the packet.
#[inline]
pub fn asks_the_driver(packet: &Mbuf) -> bool {
    packet.ol_flags() & flags::TX_OFFLOADS != 0
}

const SEGMENTED: u64 = flags::TX_TCP_SEG | flags::TX_UDP_SEG;
