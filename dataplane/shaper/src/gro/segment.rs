//! A TCP segment that may be merged, and whether another continues it.

use super::Received;
use crate::gso;
use crate::wire::checksum::Sum;
use crate::wire::ethernet::{self, Ethernet};
use crate::wire::ipv4::{self, Ipv4};
use crate::wire::ipv6::{self, Ipv6};
use crate::wire::protocol::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, TCP};
use crate::wire::tcp::{self, ACK, CWR, ECE, FIN, PSH, Tcp};
use crate::wire::vlan::{self, Vlan};

/// A segment whose headers are of the kind that may be merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) facts: Facts,
    /// All headers and nothing more.
    headers: &'a [u8],
}

/// Where in the headers is what, and what is needed often.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) sequence: u32,
    pub(super) id: u16,
    pub(super) payload_len: u16,
    pub(super) flags: u8,
    pub(super) network_at: u8,
    pub(super) transport_at: u8,
    pub(super) header_len: u8,
    pub(super) v4: bool,
    pub(super) dont_fragment: bool,
}

/// The first segment of a chain, its headers copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) facts: Facts,
    headers: [u8; MAX_HEADERS],
}

/// What the IP header says.
struct Ip {
    at: usize,
    header_len: usize,
    len: usize,
    id: u16,
    v4: bool,
    dont_fragment: bool,
}

impl<'a> Segment<'a> {
    /// Reads the headers; none if the packet may not be merged with any other.
    #[inline]
    pub(super) fn parse(packet: &Received<'a>) -> Option<Self> {
        let ip = network(packet.head)?;
        let transport_at = ip.at + ip.header_len;
        let tcp = Tcp::parse(packet.head.get(transport_at..)?).ok()?;
        let header_len = transport_at + tcp.header_len();
        let headers = packet.head.get(..header_len)?;
        let payload_len = (ip.at + ip.len).checked_sub(header_len)?;
        let whole = packet.frame_len as usize == ip.at + ip.len;
        let plain = tcp.flags() & ACK != 0 && tcp.flags() & !MERGEABLE == 0;
        (packet.checksums_good && whole && plain && payload_len > 0).then_some(())?;
        let facts = Facts {
            sequence: tcp.sequence(),
            id: ip.id,
            payload_len: payload_len as u16,
            flags: tcp.flags(),
            network_at: ip.at as u8,
            transport_at: transport_at as u8,
            header_len: header_len as u8,
            v4: ip.v4,
            dont_fragment: ip.dont_fragment,
        };
        Some(Self { facts, headers })
    }

    /// Whether others may be appended to it: nothing says that it is the last, and the splitter could
    /// cut what comes of it.
    #[inline]
    pub(super) fn can_lead(&self) -> bool {
        let options = self.headers.get(usize::from(self.facts.transport_at) + tcp::HEADER_LEN..);
        self.facts.flags & LAST == 0 && options.is_some_and(gso::is_repeatable)
    }
}

impl Head {
    /// A placeholder that nothing continues.
    pub(super) const NONE: Self = Self {
        facts: Facts {
            sequence: 0,
            id: 0,
            payload_len: 0,
            flags: 0,
            network_at: 0,
            transport_at: 0,
            header_len: 0,
            v4: false,
            dont_fragment: false,
        },
        headers: [0; MAX_HEADERS],
    };

    /// Puts a segment here.
    #[inline]
    pub(super) fn set(&mut self, segment: &Segment<'_>) {
        self.facts = segment.facts;
        if let Some(headers) = self.headers.get_mut(..segment.headers.len()) {
            headers.copy_from_slice(segment.headers);
        }
    }

    /// Whether all fields that segments of one super-packet share are the same. Identification,
    /// sequence number and lengths are for the caller to compare.
    #[inline]
    pub(super) fn matches(&self, next: &Segment<'_>) -> bool {
        let (a, b) = (&self.facts, &next.facts);
        if (a.network_at, a.transport_at, a.header_len, a.v4)
            != (b.network_at, b.transport_at, b.header_len, b.v4)
            || (a.flags ^ b.flags) & !(CWR | LAST) != 0
            || b.flags & CWR != 0
        {
            return false;
        }
        let headers = self.headers.get(..next.headers.len()).unwrap_or_default();
        same(headers, next.headers, a).unwrap_or(false)
    }
}

#[inline]
fn same(a: &[u8], b: &[u8], facts: &Facts) -> Option<bool> {
    let (network, transport) = (usize::from(facts.network_at), usize::from(facts.transport_at));
    let (a_link, a_ip) = a.split_at_checked(network)?;
    let (b_link, b_ip) = b.split_at_checked(network)?;
    let same_ip = match facts.v4 {
        true => same_v4(a_ip.first_chunk()?, b_ip.first_chunk()?),
        false => same_v6(a_ip.first_chunk()?, b_ip.first_chunk()?),
    };
    let (a_tcp, a_options) = a.get(transport..)?.split_first_chunk()?;
    let (b_tcp, b_options) = b.get(transport..)?.split_first_chunk()?;
    Some(same_ip && same_tcp(a_tcp, b_tcp) && a_link == b_link && a_options == b_options)
}

/// All but length, identification and checksum.
#[inline]
fn same_v4(a: &[u8; 20], b: &[u8; 20]) -> bool {
    a[..2] == b[..2] && a[6..10] == b[6..10] && a[12..] == b[12..]
}

/// All but length.
#[inline]
fn same_v6(a: &[u8; 40], b: &[u8; 40]) -> bool {
    a[..4] == b[..4] && a[6..] == b[6..]
}

/// All but sequence number, flags and checksum.
#[inline]
fn same_tcp(a: &[u8; 20], b: &[u8; 20]) -> bool {
    a[..4] == b[..4] && a[8..13] == b[8..13] && a[14..16] == b[14..16] && a[18..] == b[18..]
}

/// Finds an IP header right behind Ethernet and at most [`MAX_TAGS`] tags that leads to TCP and has
/// no options, extension headers or fragments.
#[inline]
fn network(head: &[u8]) -> Option<Ip> {
    let ethernet = Ethernet::parse(head).ok()?;
    let (mut at, mut ethertype) = (ethernet::HEADER_LEN, ethernet.ethertype());
    for _ in 0..MAX_TAGS {
        if !vlan::is_tpid(ethertype) {
            break;
        }
        ethertype = Vlan::parse(head.get(at..)?).ok()?.ethertype();
        at += 4;
    }
    let bytes = head.get(at..)?;
    match ethertype {
        ETHERTYPE_IPV4 => {
            let ip = Ipv4::parse(bytes).ok()?;
            let plain = ip.header_len() == ipv4::HEADER_LEN && !ip.is_fragment() && ip.protocol() == TCP;
            plain.then_some(Ip {
                at,
                header_len: ipv4::HEADER_LEN,
                len: ip.total_len().into(),
                id: ip.identification(),
                v4: true,
                dont_fragment: ip.dont_fragment(),
            })
        }
        ETHERTYPE_IPV6 => {
            let ip = Ipv6::parse(bytes).ok()?;
            (ip.next_header() == TCP).then_some(Ip {
                at,
                header_len: ipv6::HEADER_LEN,
                len: ipv6::HEADER_LEN + usize::from(ip.payload_len()),
                id: 0,
                v4: false,
                dont_fragment: true,
            })
        }
        _ => None,
    }
}

/// Writes the length of an IP packet into its header, and the checksum of IPv4.
pub(super) fn write_len(ip: &mut [u8], v4: bool, len: u16) {
    let Some(head) = ip.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return };
    if !v4 {
        [head[4], head[5]] = len.saturating_sub(ipv6::HEADER_LEN as u16).to_be_bytes();
        return;
    }
    [head[2], head[3]] = len.to_be_bytes();
    [head[10], head[11]] = [0, 0];
    [head[10], head[11]] = Sum::default().bytes(&head[..]).checksum().to_be_bytes();
}

/// Flags that stand on the last segment only.
pub(super) const LAST: u8 = FIN | PSH;
/// Flags that a segment to be merged may have.
const MERGEABLE: u8 = ACK | ECE | CWR | LAST;
const MAX_TAGS: usize = 2;
/// Ethernet with two tags, IPv6, TCP with 40 bytes of options: 122.
const MAX_HEADERS: usize = 128;
