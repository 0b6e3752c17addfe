//! What merging must know of a received packet: its flow, and whether its checksums are right.

use dpdk::Mbuf;
use dpdk::mbuf::flags;
use shaper::wire::checksum::Sum;
use shaper::wire::ethernet::{self, Ethernet};
use shaper::wire::ipv4::Ipv4;
use shaper::wire::ipv6::{self, Ipv6};
use shaper::wire::protocol::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ICMPV6, TCP, UDP};
use shaper::wire::vlan::{self, Vlan};

/// What a packet is to merging.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    /// TCP right behind Ethernet, at most two tags, and an IP header.
    Tcp(Segment<'a>),
    /// Of no flow that could be merged.
    Other,
    /// Maybe of a flow that is being merged, and not to be overtaken then: a fragment, IPv6 extension
    /// headers, a header cut off.
    Unknown,
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    /// IP addresses, source first.
    addresses: &'a [u8],
    /// From the TCP header on, as far as it is contiguous.
    tcp: &'a [u8],
    /// Offset of the TCP header.
    at: usize,
    /// Bytes from the TCP header on, as the IP header states it.
    len: u16,
    /// The length of the packet is what the IP header states, whose checksum is right.
    is_sound: bool,
}

impl<'a> Kind<'a> {
    /// Reads the headers of a packet.
    #[inline]
    pub(crate) fn of(packet: &'a Mbuf) -> Self {
        Self::read(packet).unwrap_or(Kind::Unknown)
    }

    #[inline]
    fn read(packet: &'a Mbuf) -> Option<Self> {
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
        let len = (packet.pkt_len() as usize).checked_sub(at)?;
        match ethertype {
            ETHERTYPE_IPV4 => {
                let ip = Ipv4::parse(bytes).ok()?;
                if ip.protocol() != TCP {
                    return Some(Self::Other);
                }
                let header = bytes.get(..ip.header_len())?;
                let is_good = packet.ol_flags() & flags::RX_IP_CKSUM_GOOD != 0
                    || Sum::default().bytes(header).fold() == u16::MAX;
                (!ip.is_fragment()).then_some(())?;
                Some(Self::Tcp(Segment {
                    addresses: bytes.get(12..20)?,
                    tcp: bytes.get(header.len()..)?,
                    at: at + header.len(),
                    len: ip.total_len().checked_sub(header.len() as u16)?,
                    is_sound: is_good && usize::from(ip.total_len()) == len,
                }))
            }
            ETHERTYPE_IPV6 => {
                let ip = Ipv6::parse(bytes).ok()?;
                match ip.next_header() {
                    TCP => {}
                    UDP | ICMPV6 => return Some(Self::Other),
                    _ => return None,
                }
                Some(Self::Tcp(Segment {
                    addresses: bytes.get(8..ipv6::HEADER_LEN)?,
                    tcp: bytes.get(ipv6::HEADER_LEN..)?,
                    at: at + ipv6::HEADER_LEN,
                    len: ip.payload_len(),
                    is_sound: usize::from(ip.payload_len()) + ipv6::HEADER_LEN == len,
                }))
            }
            _ => Some(Self::Other),
        }
    }
}

impl Segment<'_> {
    /// Equal for segments of the same flow, mostly different for others. Not secret: whoever makes flows
    /// collide keeps them from being merged, and no others.
    #[inline]
    pub(crate) fn flow_hash(&self) -> u32 {
        let ports = self.tcp.first_chunk().map_or(0, |ports| u32::from_ne_bytes(*ports));
        let mut hash = u64::from(ports);
        for word in self.addresses.as_chunks::<8>().0 {
            hash = (hash ^ u64::from_ne_bytes(*word)).wrapping_mul(MIX);
            hash ^= hash >> 32;
        }
        hash as u32
    }

    /// Whether IPv4 and TCP checksums are right: the port has checked them, or they are checked here
    /// (70 ns for 1448 bytes).
    #[inline]
    pub(crate) fn is_intact(&self, packet: &Mbuf) -> bool {
        self.is_sound
            && match packet.ol_flags() & flags::RX_L4_CKSUM_NONE {
                flags::RX_L4_CKSUM_BAD => false,
                0 => self.sums_up(packet),
                // Of one whose checksum was left to the port, the data are intact.
                _ => true,
            }
    }

    fn sums_up(&self, packet: &Mbuf) -> bool {
        let mut sum = Sum::default().bytes(self.addresses).word(TCP.into()).word(self.len);
        let (mut at, mut cursor) = (0, packet.cursor(self.at as u32));
        while let Some(chunk) = cursor.chunk(u32::MAX) {
            sum = sum.at(at, chunk);
            at += chunk.len();
        }
        sum.fold() == u16::MAX
    }
}

const MAX_TAGS: usize = 2;

/// An odd number without a pattern: 2^64 divided by the golden ratio (Knuth, TAOCP 3, section 6.4).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
