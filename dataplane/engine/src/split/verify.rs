//! Whether the checksums of a received TCP segment are right, so that it may be merged.

use dpdk::Mbuf;
use dpdk::mbuf::flags;
use shaper::wire::checksum::Sum;
use shaper::wire::ethernet::{self, Ethernet};
use shaper::wire::ipv4::Ipv4;
use shaper::wire::ipv6::{self, Ipv6};
use shaper::wire::protocol::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, TCP};
use shaper::wire::vlan::{self, Vlan};

/// Whether IPv4 and TCP checksums are known to be right: the port has checked them, or they are checked
/// here (70 ns for 1448 bytes). Looks behind Ethernet and at most two tags; all else is not known.
#[inline]
pub(crate) fn is_intact(packet: &Mbuf) -> bool {
    let checked = packet.ol_flags() & flags::RX_L4_CKSUM_NONE;
    if checked == flags::RX_L4_CKSUM_BAD {
        return false;
    }
    // Of one whose checksum was left to the port, the data are intact.
    find(packet).is_some_and(|(transport, pseudo)| checked != 0 || sums_up(packet, transport, pseudo))
}

/// Offset of the TCP header, and the sum of its pseudo header.
#[inline]
fn find(packet: &Mbuf) -> Option<(usize, Sum)> {
    let head = packet.head();
    let (mut at, mut ethertype) = (ethernet::HEADER_LEN, Ethernet::parse(head).ok()?.ethertype());
    for _ in 0..MAX_TAGS {
        if !vlan::is_tpid(ethertype) {
            break;
        }
        ethertype = Vlan::parse(head.get(at..)?).ok()?.ethertype();
        at += 4;
    }
    let bytes = head.get(at..)?;
    let len = u32::try_from(packet.pkt_len() as usize - at).ok()?;
    match ethertype {
        ETHERTYPE_IPV4 => {
            let ip = Ipv4::parse(bytes).ok()?;
            let header = bytes.get(..ip.header_len())?;
            let good = packet.ol_flags() & flags::RX_IP_CKSUM_GOOD != 0
                || Sum::default().bytes(header).fold() == u16::MAX;
            let whole = ip.protocol() == TCP && u32::from(ip.total_len()) == len;
            let tcp = ip.total_len().checked_sub(header.len() as u16)?;
            (good && whole && !ip.is_fragment()).then(|| {
                let pseudo = Sum::default().pseudo_v4(ip.source(), ip.destination(), TCP, tcp);
                (at + header.len(), pseudo)
            })
        }
        ETHERTYPE_IPV6 => {
            let ip = Ipv6::parse(bytes).ok()?;
            let tcp = u32::from(ip.payload_len());
            (ip.next_header() == TCP && tcp + ipv6::HEADER_LEN as u32 == len).then(|| {
                let pseudo = Sum::default().pseudo_v6(ip.source(), ip.destination(), TCP, tcp);
                (at + ipv6::HEADER_LEN, pseudo)
            })
        }
        _ => None,
    }
}

#[inline]
fn sums_up(packet: &Mbuf, from: usize, pseudo: Sum) -> bool {
    let (mut sum, mut at, mut cursor) = (pseudo, 0, packet.cursor(from as u32));
    while let Some(chunk) = cursor.chunk(u32::MAX) {
        sum = sum.at(at, chunk);
        at += chunk.len();
    }
    sum.fold() == u16::MAX
}

const MAX_TAGS: usize = 2;
