//! Super-packets as a guest hands them to its host, drawn at random.
//!
//! A super-packet is one frame with more payload than a segment holds, in the place of its transport checksum the sum of
//! the pseudo header, and beside it the marks of a `virtio_net_hdr` (Virtual I/O Device 1.3, 5.1.6.2): what to cut it
//! into, and what checksum is missing. Addresses and ports are those of documentation (RFC 5737, RFC 3849).
//!
//! Contract: the same seed gives the same packets. Nothing here looks at the code under test.

use std::fmt::{self, Display, Formatter};

use shaper::rng::{Rng, SplitMix};
pub use shaper::wire::tcp::{ACK, CWR, ECE, FIN, PSH, RST, SYN, URG};

use crate::tap::VNET_HEADER_LEN;

/// One frame with its marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperPacket {
    /// From the destination address on, without FCS.
    pub frame: Vec<u8>,
    /// What the payload is carried by.
    pub transport: Transport,
    /// Whether the innermost IP header is IPv6.
    pub ipv6: bool,
    /// Payload bytes of a segment; 0 where nothing is to be cut and only the checksum is missing.
    pub gso_size: u16,
    /// Where the transport header starts.
    pub transport_at: usize,
    /// Where the payload starts.
    pub payload_at: usize,
    /// The tunnel around it.
    pub tunnel: Option<Vxlan>,
}

/// What carries the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP, one datagram a segment.
    Udp,
}

/// Headers of a VXLAN (RFC 7348).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// Whether the outer IP header is IPv6.
    pub ipv6: bool,
    /// Whether the outer UDP header has a checksum.
    pub summed: bool,
    /// Where the outer UDP header starts.
    pub udp_at: usize,
    /// Where the inner IP header starts.
    pub network_at: usize,
}

/// What to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Anything in IPv4 or IPv6 that may be cut.
    Plain,
    /// The same inside VXLAN.
    Vxlan,
    /// TCP with these flags beside ACK.
    Flags(u8),
    /// TCP with these options.
    Options(&'static [u8]),
}

/// A source of random packets.
#[derive(Clone, Debug)]
pub struct Draw(SplitMix);

/// An IP header with extensions or options, and the sum of the pseudo header that it gives.
struct Network {
    header: Vec<u8>,
    pseudo: u16,
    ipv6: bool,
}

impl SuperPacket {
    /// The header that tells a TAP of the marks.
    pub fn vnet_header(&self) -> [u8; VNET_HEADER_LEN] {
        let mut flags = F_NEEDS_CSUM;
        let mut gso_type = match (self.gso_size, self.transport, self.ipv6) {
            (0, ..) => GSO_NONE,
            (_, Transport::Udp, _) => GSO_UDP_L4,
            (_, Transport::Tcp, false) => GSO_TCPV4,
            (_, Transport::Tcp, true) => GSO_TCPV6,
        };
        let (mut udp_at, mut network_at) = (0, 0);
        if gso_type != GSO_NONE {
            gso_type |= if self.has_flag(CWR) { GSO_ECN } else { 0 };
            if let Some(tunnel) = self.tunnel {
                gso_type |= if tunnel.ipv6 { GSO_UDP_TUNNEL_IPV6 } else { GSO_UDP_TUNNEL_IPV4 };
                flags |= if tunnel.summed { F_UDP_TUNNEL_CSUM } else { 0 };
                (udp_at, network_at) = (tunnel.udp_at, tunnel.network_at);
            }
        }
        let mut header = [0; VNET_HEADER_LEN];
        (header[0], header[1]) = (flags, gso_type);
        for (at, word) in [
            (2, self.payload_at),
            (4, self.gso_size.into()),
            (6, self.transport_at),
            (8, self.checksum_offset()),
            (20, udp_at),
            (22, network_at),
        ] {
            header[at..at + 2].copy_from_slice(&(word as u16).to_le_bytes());
        }
        header
    }

    /// Payload bytes in all.
    pub fn payload_len(&self) -> usize {
        self.frame.len() - self.payload_at
    }

    /// Whether it is TCP with one of these flags.
    pub fn has_flag(&self, flags: u8) -> bool {
        self.transport == Transport::Tcp && self.frame[self.transport_at + 13] & flags != 0
    }

    /// VLAN tags of the outer Ethernet header.
    pub fn tags(&self) -> usize {
        let ethertype = |at: usize| u16::from_be_bytes([self.frame[at], self.frame[at + 1]]);
        (0..2).take_while(|tag| TPIDS.contains(&ethertype(12 + 4 * tag))).count()
    }

    /// Where the outer IP header starts; without a tunnel the only one.
    pub fn outer_network_at(&self) -> usize {
        14 + 4 * self.tags()
    }

    /// Where the innermost IP header starts.
    pub fn network_at(&self) -> usize {
        self.tunnel.map_or(self.outer_network_at(), |tunnel| tunnel.network_at)
    }

    /// Length of the innermost IP header with its options or extensions.
    pub fn network_len(&self) -> usize {
        self.transport_at - self.network_at()
    }

    /// Adds the length of transport header and payload to the sum of the pseudo header: DPDK leaves it out of what is
    /// to be cut, a `virtio_net_hdr` wants it in.
    pub fn add_length_to_checksum(&mut self) {
        let len = (self.frame.len() - self.transport_at) as u16;
        let at = self.transport_at + self.checksum_offset();
        let total = sum(&[&self.frame[at..at + 2], &len.to_be_bytes()].concat());
        self.frame[at..at + 2].copy_from_slice(&total.to_be_bytes());
    }

    fn checksum_offset(&self) -> usize {
        if self.transport == Transport::Tcp { 16 } else { 6 }
    }

    /// Fills in what follows from the payload: length and sum of the pseudo header.
    fn finish_transport(&mut self, pseudo: u16) {
        if self.transport == Transport::Udp {
            let len = self.frame.len() as u16;
            self.frame[4..6].copy_from_slice(&len.to_be_bytes());
        }
        let at = self.checksum_offset();
        self.frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    }

    /// Changes the payload so that the first datagram sums up to a checksum of zero, which UDP must not send.
    fn make_checksum_zero(&mut self, pseudo: u16) {
        let whole = self.frame.len();
        let end = if self.gso_size == 0 { whole } else { whole.min(8 + usize::from(self.gso_size)) };
        let len = |len: usize| (len as u16).to_be_bytes();
        self.frame[8..10].fill(0);
        let datagram = [&self.frame[..4], &len(end), &[0, 0], &self.frame[8..end]].concat();
        let others = [pseudo.to_be_bytes(), (!(whole as u16)).to_be_bytes(), len(end)].concat();
        let rest = !sum(&[&others[..], &datagram].concat());
        self.frame[8..10].copy_from_slice(&rest.to_be_bytes());
    }

    /// Puts `header` in front.
    fn prepend(&mut self, header: &[u8]) {
        self.frame.splice(..0, header.iter().copied());
        self.transport_at += header.len();
        self.payload_at += header.len();
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.udp_at += header.len();
            tunnel.network_at += header.len();
        }
    }
}

/// The marks and all headers, to find a packet again by.
impl Display for SuperPacket {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { gso_size, transport_at, payload_at, .. } = self;
        write!(
            f,
            "{:?} at {transport_at}, {} bytes in segments of {gso_size}, headers ",
            self.transport,
            self.payload_len()
        )?;
        self.frame[..*payload_at].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Draw {
    /// A source that always gives the same for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed, !seed))
    }

    /// A packet of this shape.
    pub fn packet(&mut self, shape: Shape) -> SuperPacket {
        let transport = match shape {
            Shape::Plain | Shape::Vxlan if self.one_in(3) => Transport::Udp,
            _ => Transport::Tcp,
        };
        let header = if transport == Transport::Tcp { self.tcp(shape) } else { self.udp() };
        let (gso_size, payload_len) = self.sizes(shape);
        let mut body = header.clone();
        body.extend(self.bytes(payload_len));
        let network = self.network(if transport == Transport::Tcp { 6 } else { 17 }, body.len());
        let mut packet = SuperPacket {
            frame: body,
            transport,
            ipv6: network.ipv6,
            gso_size,
            transport_at: 0,
            payload_at: header.len(),
            tunnel: None,
        };
        packet.finish_transport(network.pseudo);
        if transport == Transport::Udp && self.one_in(8) {
            packet.make_checksum_zero(network.pseudo);
        }
        packet.prepend(&network.header);
        self.ethernet(&mut packet, network.ipv6);
        if shape == Shape::Vxlan {
            self.vxlan(&mut packet, network.header.len());
        }
        packet
    }

    /// Segment size, and payload for some of them.
    fn sizes(&mut self, shape: Shape) -> (u16, usize) {
        if shape == Shape::Plain && self.one_in(10) {
            return (0, 1 + self.below(1400));
        }
        let any = 100 + self.below(1300);
        let size = self.one_of(&[536, 1000, 1220, 1400, 1428, 1448, 1460, 8900, any, any | 1]);
        let some = size + 1 + self.below(20_000);
        let len = self.one_of(&[size + 1, 2 * size, 3 * size + 7, 60_000, some, some, some]);
        (size as u16, len.min(60 * size).min(60_000))
    }

    fn tcp(&mut self, shape: Shape) -> Vec<u8> {
        let flags = match shape {
            Shape::Flags(flags) => ACK | flags,
            _ => ACK | self.one_of(&[0, 0, PSH, FIN, PSH | FIN, CWR, ECE, CWR | ECE, PSH | FIN | CWR | ECE]),
        };
        let urgent = if flags & URG == 0 { 0 } else { 1 + self.below(50_000) };
        let options = match shape {
            Shape::Options(options) => options.to_vec(),
            _ => self.tcp_options(),
        };
        let sequence = if self.one_in(4) { u32::MAX - 999 } else { self.0.next_u32() };
        // The lowest of the reserved bits is that of Accurate ECN.
        let accurate = u8::from(self.one_in(4));
        let mut header = self.ports();
        header.extend(sequence.to_be_bytes());
        header.extend(self.bytes(4));
        header.extend([((20 + options.len()) as u8) << 2 | accurate, flags]);
        header.extend(self.bytes(2));
        header.extend([0, 0]);
        header.extend((urgent as u16).to_be_bytes());
        header.extend(options);
        header
    }

    fn tcp_options(&mut self) -> Vec<u8> {
        let noise = self.bytes(24);
        let timestamps = [&[1, 1, 8, 10], &noise[..8]].concat();
        match self.below(6) {
            0 => vec![],
            1 => [&[1, 1, 5, 18], &noise[..16]].concat(),
            2 => [&timestamps[..], &[1, 1, 5, 18], &noise[8..]].concat(),
            3 => vec![1; 4 * (1 + self.below(10))],
            4 => [&[254, 22], &noise[..20], &[0, 0]].concat(),
            _ => timestamps,
        }
    }

    fn udp(&mut self) -> Vec<u8> {
        let mut header = self.ports();
        header.extend([0; 4]);
        header
    }

    fn ports(&mut self) -> Vec<u8> {
        [self.one_of(&[443_u16, 40_000]).to_be_bytes(), (1024 + self.below(60_000) as u16).to_be_bytes()]
            .concat()
    }

    fn network(&mut self, protocol: u8, len: usize) -> Network {
        if self.one_in(2) { self.ipv6(protocol, len) } else { self.ipv4(protocol, len) }
    }

    fn ipv4(&mut self, protocol: u8, len: usize) -> Network {
        // Padding, and the router alert of RFC 2113.
        let options = match self.below(8) {
            0 => vec![1; 4 * (1 + self.below(10))],
            1 => vec![148, 4, 0, 0],
            _ => vec![],
        };
        let any = self.0.next_u16();
        let id = self.one_of(&[0, 1, u16::MAX, any, any]);
        let header_len = 20 + options.len();
        let mut header = vec![0x40 | (header_len / 4) as u8, self.below(256) as u8];
        header.extend(((header_len + len) as u16).to_be_bytes());
        header.extend(id.to_be_bytes());
        header.extend([self.one_of(&[0x40, 0]), 0, 1 + self.below(255) as u8, protocol, 0, 0]);
        header.extend([192, 0, 2, self.below(256) as u8, 198, 51, 100, self.below(256) as u8]);
        header.extend(options);
        let checksum = !sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        let pseudo = sum(&[&header[12..20], &[0, protocol], &(len as u16).to_be_bytes()].concat());
        Network { header, pseudo, ipv6: false }
    }

    fn ipv6(&mut self, protocol: u8, len: usize) -> Network {
        // Hop-by-hop and destination options, both with padding only (RFC 8200, 4.2).
        let (first, extension) = match self.below(8) {
            0 => (0, vec![protocol, 0, 1, 4, 0, 0, 0, 0]),
            1 => (60, vec![protocol, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            _ => (protocol, vec![]),
        };
        let mut header = (6 << 28 | self.0.next_u32() >> 4).to_be_bytes().to_vec();
        header.extend(((extension.len() + len) as u16).to_be_bytes());
        header.extend([first, 1 + self.below(255) as u8]);
        for network in 0..2 {
            header.extend([0x20, 0x01, 0x0d, 0xb8, 0, network]);
            header.extend(self.bytes(10));
        }
        let pseudo = sum(&[&header[8..40], &(len as u32).to_be_bytes()[..], &[0, 0, 0, protocol]].concat());
        header.extend(extension);
        Network { header, pseudo, ipv6: true }
    }

    /// Ethernet, with a tag, two or none.
    fn ethernet(&mut self, packet: &mut SuperPacket, ipv6: bool) {
        let tags: &[u16] = self.one_of(&[&[], &[], &[VLAN], &[QINQ, VLAN], &[VLAN, VLAN]]);
        let mut header = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in tags {
            header.extend(tag.to_be_bytes());
            header.extend(self.bytes(2));
        }
        header.extend(if ipv6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        packet.prepend(&header);
    }

    /// Puts it, Ethernet header and all, into another one.
    fn vxlan(&mut self, packet: &mut SuperPacket, network_len: usize) {
        let network_at = packet.transport_at - network_len;
        let summed = self.one_in(2);
        let len = 16 + packet.frame.len();
        let outer = self.network(17, len);
        let checksum = if summed { outer.pseudo } else { 0 };
        let mut header =
            [[0xc0, 7], 4789_u16.to_be_bytes(), (len as u16).to_be_bytes(), checksum.to_be_bytes()].concat();
        header.extend([8, 0, 0, 0, 0, 0, 5, 0]);
        packet.prepend(&header);
        let network_at = network_at + header.len();
        packet.tunnel = Some(Vxlan { ipv6: outer.ipv6, summed, udp_at: 0, network_at });
        packet.prepend(&outer.header);
        self.ethernet(packet, outer.ipv6);
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.next_u32() as usize % n
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.0.next_u16() as u8).collect()
    }
}

/// The one's complement sum of RFC 1071 over big-endian words, the last one padded.
fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// IEEE 802.1Q, customer and service tag.
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
const TPIDS: [u16; 2] = [VLAN, QINQ];

/// `VIRTIO_NET_HDR_F_…` and `VIRTIO_NET_HDR_GSO_…`.
const F_NEEDS_CSUM: u8 = 1;
const F_UDP_TUNNEL_CSUM: u8 = 8;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_UDP_TUNNEL_IPV4: u8 = 0x20;
const GSO_UDP_TUNNEL_IPV6: u8 = 0x40;
const GSO_ECN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_packets() {
        for shape in [Shape::Plain, Shape::Vxlan, Shape::Flags(SYN)] {
            let draw = |seed| {
                let mut draw = Draw::new(seed);
                (0..5).map(|_| draw.packet(shape)).collect::<Vec<_>>()
            };
            assert_eq!(draw(7), draw(7));
            assert_ne!(draw(7), draw(8));
        }
    }

    #[test]
    fn a_tunnelled_packet_tells_where_its_headers_are() {
        let (inner, outer) = (14 + 20 + 8 + 8 + 14, 14 + 20);
        let mut frame = vec![0; inner + 40 + 20 + 5000];
        frame[inner + 40 + 13] = ACK | CWR;
        let packet = SuperPacket {
            frame,
            transport: Transport::Tcp,
            ipv6: true,
            gso_size: 1448,
            transport_at: inner + 40,
            payload_at: inner + 60,
            tunnel: Some(Vxlan { ipv6: false, summed: true, udp_at: outer, network_at: inner }),
        };
        let expected =
            [9, 4 | 0x80 | 0x20, 124, 0, 0xa8, 5, 104, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 34, 0, 64, 0];
        assert_eq!(packet.vnet_header(), expected);
        let plain = SuperPacket { gso_size: 0, tunnel: None, ..packet };
        assert_eq!(plain.vnet_header()[..10], [1, 0, 124, 0, 0, 0, 104, 0, 16, 0]);
    }

    #[test]
    fn a_sum_is_that_of_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[0xff, 0xff, 0x01]), 0x0100);
    }
}
