//! Frames for tests, one of every combination of headers that is told apart, built layer by layer.

use super::checksum::Sum;
use super::protocol::*;
use std::vec;
use std::vec::Vec;

pub(crate) type Bytes = Vec<u8>;

pub(crate) const A4: [u8; 4] = [10, 0, 0, 1];
pub(crate) const B4: [u8; 4] = [10, 0, 0, 2];
pub(crate) const INNER_A4: [u8; 4] = [192, 168, 0, 1];
pub(crate) const INNER_B4: [u8; 4] = [192, 168, 0, 2];
pub(crate) const A6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub(crate) const B6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
pub(crate) const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
pub(crate) const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
/// ECT(0) with DSCP 46.
pub(crate) const DS: u8 = 46 << 2 | 2;

pub(crate) fn ethernet_to(destination: [u8; 6], ethertype: u16, payload: &[u8]) -> Bytes {
    [&destination[..], &MAC_A, &ethertype.to_be_bytes(), payload].concat()
}

pub(crate) fn ethernet(ethertype: u16, payload: &[u8]) -> Bytes {
    ethernet_to(MAC_B, ethertype, payload)
}

/// Tag control information, the inner EtherType, and the payload.
pub(crate) fn tag(tci: u16, ethertype: u16, payload: &[u8]) -> Bytes {
    [&tci.to_be_bytes()[..], &ethertype.to_be_bytes(), payload].concat()
}

/// `protocol` is one byte or two, as it stands on the wire.
pub(crate) fn pppoe(session: u16, protocol: &[u8], payload: &[u8]) -> Bytes {
    let len = (protocol.len() + payload.len()) as u16;
    [&[0x11, 0][..], &session.to_be_bytes(), &len.to_be_bytes(), protocol, payload].concat()
}

pub(crate) fn mpls(labels: &[u32], payload: &[u8]) -> Bytes {
    let entry = |(i, label): (usize, &u32)| {
        let bottom = u32::from(i + 1 == labels.len());
        (label << 12 | 5 << 9 | bottom << 8 | 64).to_be_bytes()
    };
    labels.iter().enumerate().flat_map(entry).chain(payload.iter().copied()).collect()
}

/// An IPv4 packet with everything that can be chosen. `options` is a multiple of four bytes long.
pub(crate) struct V4<'a> {
    pub(crate) addresses: ([u8; 4], [u8; 4]),
    pub(crate) options: &'a [u8],
    pub(crate) fragment: u16,
    pub(crate) ttl: u8,
}

impl Default for V4<'_> {
    fn default() -> Self {
        Self { addresses: (A4, B4), options: &[], fragment: 0x4000, ttl: 64 }
    }
}

impl V4<'_> {
    pub(crate) fn carries(&self, protocol: u8, payload: &[u8]) -> Bytes {
        let header_len = 20 + self.options.len();
        let mut head = vec![0x40 | (header_len / 4) as u8, DS];
        head.extend(((header_len + payload.len()) as u16).to_be_bytes());
        head.extend([0x12, 0x34]);
        head.extend(self.fragment.to_be_bytes());
        head.extend([self.ttl, protocol, 0, 0]);
        head.extend(self.addresses.0);
        head.extend(self.addresses.1);
        head.extend(self.options);
        let checksum = Sum::default().bytes(&head).checksum();
        head[10..12].copy_from_slice(&checksum.to_be_bytes());
        head.extend(payload);
        head
    }
}

pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Bytes {
    V4::default().carries(protocol, payload)
}

/// An IPv4 packet between the addresses that tunnels carry.
pub(crate) fn inner(protocol: u8, payload: &[u8]) -> Bytes {
    V4 { addresses: (INNER_A4, INNER_B4), ..V4::default() }.carries(protocol, payload)
}

pub(crate) fn ipv6_with(label: u32, hop_limit: u8, next: u8, payload: &[u8]) -> Bytes {
    let first = 6 << 28 | u32::from(DS) << 20 | label;
    let mut head = first.to_be_bytes().to_vec();
    head.extend((payload.len() as u16).to_be_bytes());
    head.extend([next, hop_limit]);
    head.extend(A6);
    head.extend(B6);
    head.extend(payload);
    head
}

pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Bytes {
    ipv6_with(0, 64, next, payload)
}

/// An extension header of `units` times eight bytes more than eight.
pub(crate) fn extension(next: u8, units: u8, payload: &[u8]) -> Bytes {
    let mut bytes = vec![0; 8 + 8 * usize::from(units)];
    bytes[..2].copy_from_slice(&[next, units]);
    bytes.extend(payload);
    bytes
}

/// An IPv6 fragment header; `position` is the offset in bytes and the bit for more.
pub(crate) fn fragment(next: u8, position: u16, payload: &[u8]) -> Bytes {
    let [high, low] = position.to_be_bytes();
    [&[next, 0, high, low, 0, 0, 0, 7][..], payload].concat()
}

pub(crate) fn ah(next: u8, payload: &[u8]) -> Bytes {
    let mut bytes = vec![next, 4, 0, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0, 0, 0, 1];
    bytes.extend([0xee; 12]);
    bytes.extend(payload);
    bytes
}

pub(crate) fn esp() -> Bytes {
    [&[0xe1, 0xe2, 0xe3, 0xe4, 0, 0, 0, 9][..], &[0xcc; 24]].concat()
}

/// Ports 1000 to 2000.
pub(crate) fn tcp(options: &[u8], payload: &[u8]) -> Bytes {
    let mut head = vec![0x03, 0xe8, 0x07, 0xd0, 0, 0, 0, 1, 0, 0, 0, 2];
    head.extend([((20 + options.len()) / 4 * 16) as u8, super::tcp::ACK | super::tcp::PSH, 0x12, 0x34]);
    head.extend([0xab, 0xcd, 0, 3]);
    head.extend(options);
    head.extend(payload);
    head
}

/// From port 1000.
pub(crate) fn udp(destination: u16, payload: &[u8]) -> Bytes {
    let len = (8 + payload.len()) as u16;
    [&[0x03, 0xe8][..], &destination.to_be_bytes(), &len.to_be_bytes(), &[0xab, 0xcd], payload].concat()
}

/// Ports 1000 to 2000, verification tag, checksum.
pub(crate) fn sctp() -> Bytes {
    vec![0x03, 0xe8, 0x07, 0xd0, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 3, 0, 0, 16]
}

/// ICMP or ICMPv6 with identifier 0x0102.
pub(crate) fn icmp(kind: u8) -> Bytes {
    [&[kind, 0, 0, 0, 1, 2, 0, 1][..], &[0x55; 16]].concat()
}

/// `flags` are the first two bytes; `optional` the fields they announce.
pub(crate) fn gre(flags: u16, protocol: u16, optional: &[u8], payload: &[u8]) -> Bytes {
    [&flags.to_be_bytes()[..], &protocol.to_be_bytes(), optional, payload].concat()
}

pub(crate) fn vxlan(vni: u32, frame: &[u8]) -> Bytes {
    udp(super::vxlan::PORT, &[&[8, 0, 0, 0][..], &(vni << 8).to_be_bytes(), frame].concat())
}

/// An IEEE 802.3 frame with an LLC header.
pub(crate) fn llc(destination: [u8; 6], service: u8, payload: &[u8]) -> Bytes {
    let llc = [&[service, service, 3][..], payload].concat();
    ethernet_to(destination, llc.len() as u16, &llc)
}

/// A plain TCP packet in IPv4 between the addresses that tunnels carry.
pub(crate) fn carried() -> Bytes {
    inner(TCP, &tcp(&[], &[]))
}

/// A name, the frame, and what [`crate::flow::dissect`] shall make of it, in the words of its tests.
pub(crate) type Golden = (&'static str, Bytes, &'static str);

/// Every frame.
pub(crate) fn frames() -> Vec<Golden> {
    [links(), foreign(), transports(), extensions(), tunnels(), controls()].concat()
}

fn links() -> Vec<Golden> {
    let ip = ipv4(TCP, &tcp(&[], &[]));
    let v6 = ipv6(TCP, &tcp(&[], &[]));
    let service_tag = |ethertype, payload: &[u8]| tag(100, ethertype, payload);
    vec![
        ("untagged", ethernet(0x0800, &ip), "4 p6 1000>2000 | ip@14 6@34+20"),
        ("vlan", ethernet(0x8100, &tag(0x6007, 0x0800, &ip)), "4 p6 1000>2000 [70000 0] | ip@18 6@38+20"),
        ("priority tag", ethernet(0x8100, &tag(0x6000, 0x0800, &ip)), "4 p6 1000>2000 | ip@18 6@38+20"),
        (
            "qinq",
            ethernet(0x88a8, &service_tag(0x8100, &tag(7, 0x86dd, &v6))),
            "6 p6 1000>2000 [640070000 0] | ip@22 6@62+20",
        ),
        (
            "three tags",
            ethernet(0x9100, &tag(1, 0x88a8, &service_tag(0x8100, &tag(7, 0x0800, &ip)))),
            "4 p6 1000>2000 [10640070000 0] | ip@26 6@46+20",
        ),
        (
            "pppoe",
            ethernet(0x8864, &pppoe(0x1234, &[0, 0x21], &ip)),
            "4 p6 1000>2000 [1234 0] | ip@22 6@42+20",
        ),
        (
            "pppoe, compressed protocol, ipv6",
            ethernet(0x8864, &pppoe(0x1234, &[0x57], &v6)),
            "6 p6 1000>2000 [1234 0] | ip@21 6@61+20",
        ),
        (
            "vlan, pppoe",
            ethernet(0x8100, &tag(7, 0x8864, &pppoe(0x1234, &[0, 0x21], &ip))),
            "4 p6 1000>2000 [71234 0] | ip@26 6@46+20",
        ),
        (
            "qinq, pppoe, ipv6",
            ethernet(0x88a8, &service_tag(0x8100, &tag(7, 0x8864, &pppoe(2, &[0, 0x57], &v6)))),
            "6 p6 1000>2000 [640070002 0] | ip@30 6@70+20",
        ),
        ("mpls", ethernet(0x8847, &mpls(&[77, 78], &ip)), "4 p6 1000>2000 [0 4e0000000000] | ip@22 6@42+20"),
        (
            "mpls with entropy label and explicit null, ipv6",
            ethernet(0x8847, &mpls(&[77, 7, 4711, 2], &v6)),
            "6 p6 1000>2000 [0 4d0000000000] | ip@30 6@70+20",
        ),
        (
            "vlan, mpls",
            ethernet(0x8100, &tag(7, 0x8848, &mpls(&[77], &ip))),
            "4 p6 1000>2000 [70000 4d0000000000] | ip@22 6@42+20",
        ),
        (
            "pppoe, mpls",
            ethernet(0x8864, &pppoe(3, &[0x02, 0x81], &mpls(&[77], &ip))),
            "4 p6 1000>2000 [3 4d0000000000] | ip@26 6@46+20",
        ),
    ]
}

/// What could be taken for IP and is not.
fn foreign() -> Vec<Golden> {
    let ip = ipv4(TCP, &tcp(&[], &[]));
    let v6 = ipv6(TCP, &tcp(&[], &[]));
    vec![
        (
            "pseudowire with control word",
            ethernet(0x8847, &mpls(&[77], &[&[0, 0, 0, 0][..], &ethernet(0x0800, &ip)].concat())),
            "mac 8847 [0 4d0000000000] | 8847@18",
        ),
        (
            "pseudowire without control word, mac that looks like ipv4",
            ethernet(0x8847, &mpls(&[77], &ethernet_to([0x45, 0, 0, 30, 0, 0], 0x0800, &ip))),
            "mac 8847 [0 4d0000000000] | 8847@18",
        ),
        ("foreign ethertype", ethernet(0x88f7, &[0; 46]), "mac 88f7 | 88f7@14"),
        (
            "foreign ethertype in a vlan",
            ethernet(0x8100, &tag(7, 0x88f7, &[0; 46])),
            "mac 88f7 [70000 0] | 88f7@18",
        ),
        ("llc", llc(MAC_B, 0xe0, &[0; 40]), "mac e0e0 | 2b@14"),
        ("not ipv4 in spite of the ethertype", ethernet(0x0800, &v6), "mac 800 | 800@14 Malformed"),
        ("not ipv6 in spite of the ethertype", ethernet(0x86dd, &ip), "mac 86dd | 86dd@14 Malformed"),
        ("pppoe of another version", ethernet(0x8864, &[0x12; 60]), "mac 8864 | 8864@14 Malformed"),
    ]
}

fn transports() -> Vec<Golden> {
    let v4 = |protocol, payload: &[u8]| ethernet(0x0800, &ipv4(protocol, payload));
    let v6 = |protocol, payload: &[u8]| ethernet(0x86dd, &ipv6(protocol, payload));
    let options = V4 { options: &[1, 1, 1, 0, 0, 0, 0, 0], ..V4::default() };
    let fragments = [0x2000, 0x2010, 0x0020].map(|fragment| V4 { fragment, ..V4::default() });
    let segment = tcp(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], &[0xdd; 10]);
    let datagram = udp(2000, &[0xdd; 10]);
    vec![
        ("tcp with options", v4(TCP, &segment), "4 p6 1000>2000 | ip@14 6@34+32"),
        (
            "ipv4 with options",
            ethernet(0x0800, &options.carries(TCP, &segment)),
            "4 p6 1000>2000 | ip@14 6@42+32",
        ),
        ("tcp in ipv6", v6(TCP, &segment), "6 p6 1000>2000 | ip@14 6@54+32"),
        ("udp", v4(UDP, &datagram), "4 p17 1000>2000 | ip@14 17@34"),
        ("udp in ipv6", v6(UDP, &datagram), "6 p17 1000>2000 | ip@14 17@54"),
        ("first fragment", ethernet(0x0800, &fragments[0].carries(UDP, &datagram)), "4 p17 | ip@14"),
        ("middle fragment", ethernet(0x0800, &fragments[1].carries(UDP, &[0xdd; 16])), "4 p17 | ip@14"),
        ("last fragment", ethernet(0x0800, &fragments[2].carries(UDP, &[0xdd; 8])), "4 p17 | ip@14"),
        ("udp-lite", v4(UDP_LITE, &datagram), "4 p136 1000>2000 | ip@14 136@34"),
        ("dccp", v6(DCCP, &segment), "6 p33 1000>2000 | ip@14 33@54"),
        ("sctp", v4(SCTP, &sctp()), "4 p132 1000>2000 | ip@14 132@34"),
        ("sctp in ipv6", v6(SCTP, &sctp()), "6 p132 1000>2000 | ip@14 132@54"),
        ("echo request", v4(ICMP, &icmp(8)), "4 p1 icmp 102 | ip@14 1@34"),
        ("echo reply", v4(ICMP, &icmp(0)), "4 p1 icmp 102 | ip@14 1@34"),
        ("destination unreachable", v4(ICMP, &icmp(3)), "4 p1 | ip@14 1@34"),
        ("echo request in ipv6", v6(ICMPV6, &icmp(128)), "6 p58 icmp 102 | ip@14 58@54"),
        ("packet too big", v6(ICMPV6, &icmp(2)), "6 p58 | ip@14 58@54"),
        ("esp", v4(ESP, &esp()), "4 p50 spi e1e2e3e4 | ip@14 50@34"),
        ("esp in ipv6", v6(ESP, &esp()), "6 p50 spi e1e2e3e4 | ip@14 50@54"),
        ("ah in ipv4", v4(AH, &ah(TCP, &segment)), "4 p6 1000>2000 | ip@14 6@58+32"),
        ("ospf", v4(89, &[2; 44]), "4 p89 | ip@14 89@34"),
        ("tcp with a bad data offset", v4(TCP, &[0; 20]), "4 p6 0>0 | ip@14 6@34"),
    ]
}

fn extensions() -> Vec<Golden> {
    let v6 = |next, payload: &[u8]| ethernet(0x86dd, &ipv6(next, payload));
    let segment = tcp(&[], &[]);
    let chain = extension(DESTINATION_OPTIONS, 0, &extension(AH, 1, &ah(TCP, &segment)));
    let chain = extension(DESTINATION_OPTIONS, 0, &extension(ROUTING, 0, &chain));
    let deep = |n: usize| {
        (0..n).fold(segment.clone(), |bytes, i| {
            extension(if i == 0 { TCP } else { DESTINATION_OPTIONS }, 0, &bytes)
        })
    };
    vec![
        ("hop-by-hop", v6(HOP_BY_HOP, &extension(TCP, 0, &segment)), "6 p6 1000>2000 | ip@14 6@62+20"),
        ("a chain of all kinds", v6(HOP_BY_HOP, &chain), "6 p6 1000>2000 | ip@14 6@118+20"),
        ("eight extension headers", v6(DESTINATION_OPTIONS, &deep(8)), "6 p6 1000>2000 | ip@14 6@118+20"),
        ("nine extension headers", v6(DESTINATION_OPTIONS, &deep(9)), "6 p60 | ip@14 TooDeep"),
        ("first fragment, ipv6", v6(FRAGMENT, &fragment(UDP, 1, &udp(2000, &[0; 8]))), "6 p44 | ip@14"),
        ("last fragment, ipv6", v6(FRAGMENT, &fragment(UDP, 16, &[0; 8])), "6 p44 | ip@14"),
        (
            "last fragment behind hop-by-hop",
            v6(HOP_BY_HOP, &extension(FRAGMENT, 0, &fragment(TCP, 16, &[0; 8]))),
            "6 p44 | ip@14",
        ),
        ("atomic fragment", v6(FRAGMENT, &fragment(TCP, 0, &segment)), "6 p6 1000>2000 | ip@14 6@62+20"),
        ("mobility", v6(MOBILITY, &extension(NO_NEXT_HEADER, 0, &[])), "6 p135 | ip@14 135@54"),
        ("nothing", v6(NO_NEXT_HEADER, &[0; 6]), "6 p59 | ip@14 59@54"),
        (
            "flow label",
            ethernet(0x86dd, &ipv6_with(0xfedcb, 64, TCP, &segment)),
            "6 p0 label fedcb | ip@14 6@54+20",
        ),
        (
            "fragment with a flow label",
            ethernet(0x86dd, &ipv6_with(0xfedcb, 64, FRAGMENT, &fragment(UDP, 16, &[0; 8]))),
            "6 p0 label fedcb | ip@14",
        ),
        (
            "tunnel with a flow label",
            ethernet(0x86dd, &ipv6_with(0xfedcb, 64, IPIP, &carried())),
            "6 p0 label fedcb | ip@14 4@54",
        ),
    ]
}

fn tunnels() -> Vec<Golden> {
    let v4 = |protocol, payload: &[u8]| ethernet(0x0800, &ipv4(protocol, payload));
    let v6 = |protocol, payload: &[u8]| ethernet(0x86dd, &ipv6(protocol, payload));
    let carried = carried();
    let carried_v6 = ipv6(TCP, &tcp(&[], &[]));
    let bridged = ethernet(0x0800, &carried);
    let all_fields = [0xca, 0xfe, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1];
    let fragment = V4 { fragment: 0x2000, ..V4::default() };
    let inner_fragment = V4 { addresses: (INNER_A4, INNER_B4), fragment: 0x2000, ..V4::default() };
    let nested = |n| (0..n).fold(carried.clone(), |bytes, _| ipv4(IPIP, &bytes));
    vec![
        ("ipip", v4(IPIP, &carried), "i p6 1000>2000 [0 100000000] | ip@14 4@34"),
        ("6in4", v4(IPV6, &carried_v6), "6 p6 1000>2000 [0 100000000] | ip@14 41@34"),
        ("4in6", v6(IPIP, &carried), "i p6 1000>2000 [0 100000000] | ip@14 4@54"),
        ("6in6", v6(IPV6, &carried_v6), "6 p6 1000>2000 [0 100000000] | ip@14 41@54"),
        ("gre", v4(GRE, &gre(0, 0x0800, &[], &carried)), "i p6 1000>2000 [0 100000000] | ip@14 47@34"),
        (
            "gre with checksum, key and sequence number",
            v4(GRE, &gre(0xb000, 0x86dd, &all_fields, &carried_v6)),
            "6 p6 1000>2000 [0 100000009] | ip@14 47@34",
        ),
        (
            "gre with a bridged frame",
            v6(GRE, &gre(0x2000, 0x6558, &[0, 0, 0, 9], &ethernet(0x8100, &tag(7, 0x0800, &carried)))),
            "i p6 1000>2000 [70000 100000009] | ip@14 47@54",
        ),
        (
            "gre with mpls",
            v4(GRE, &gre(0, 0x8847, &[], &mpls(&[77], &carried))),
            "i p6 1000>2000 [0 4d0100000000] | ip@14 47@34",
        ),
        ("gre with something else", v4(GRE, &gre(0, 0x00fe, &[], &[0x83; 30])), "4 p47 | ip@14 47@34"),
        (
            "gre of version 1",
            v4(GRE, &gre(0x3001, 0x880b, &[0; 8], &[0x83; 30])),
            "4 p47 | ip@14 47@34 Malformed",
        ),
        ("vxlan", v4(UDP, &vxlan(5, &bridged)), "i p6 1000>2000 [0 100000005] | ip@14 17@34"),
        (
            "vxlan in a vlan",
            ethernet(0x8100, &tag(9, 0x0800, &ipv4(UDP, &vxlan(5, &bridged)))),
            "i p6 1000>2000 [90000 100000005] | ip@18 17@38",
        ),
        ("vxlan with arp", v4(UDP, &vxlan(5, &ethernet(0x0806, &[0; 46]))), "4 p17 1000>4789 | ip@14 17@34"),
        ("no vxlan on its port", v4(UDP, &udp(4789, &[0; 30])), "4 p17 1000>4789 | ip@14 17@34 Malformed"),
        ("fragment of a tunnel", ethernet(0x0800, &fragment.carries(IPIP, &carried)), "4 p4 | ip@14"),
        (
            "fragment in a tunnel",
            v4(IPIP, &inner_fragment.carries(UDP, &udp(1, &[0; 8]))),
            "i p17 [0 100000000] | ip@14 4@34",
        ),
        (
            "two tunnels",
            v4(UDP, &vxlan(5, &ethernet(0x0800, &ipv4(GRE, &gre(0, 0x0800, &[], &carried))))),
            "i p6 1000>2000 [0 200000005] | ip@14 17@34",
        ),
        ("four tunnels", ethernet(0x0800, &nested(4)), "i p6 1000>2000 [0 400000000] | ip@14 4@34"),
        ("five tunnels", ethernet(0x0800, &nested(5)), "4 p4 [0 400000000] | ip@14 4@34 TooDeep"),
    ]
}

fn controls() -> Vec<Golden> {
    let bridges = [0x01, 0x80, 0xc2, 0, 0, 0];
    let bfd =
        |port, ttl| ethernet(0x0800, &V4 { ttl, ..V4::default() }.carries(UDP, &udp(port, &[0x20; 24])));
    let discovery = |kind, hops| ethernet(0x86dd, &ipv6_with(0, hops, ICMPV6, &icmp(kind)));
    vec![
        ("arp", ethernet(0x0806, &[0; 46]), "mac 806 | 806@14 control"),
        ("arp in a vlan", ethernet(0x8100, &tag(7, 0x0806, &[0; 46])), "mac 806 [70000 0] | 806@18 control"),
        ("neighbour solicitation", discovery(135, 255), "6 p58 | ip@14 58@54 control"),
        (
            "neighbour advertisement with a flow label",
            ethernet(0x86dd, &ipv6_with(9, 255, ICMPV6, &icmp(136))),
            "6 p0 label 9 | ip@14 58@54 control",
        ),
        ("redirect", discovery(137, 255), "6 p58 | ip@14 58@54 control"),
        ("neighbour solicitation from afar", discovery(135, 254), "6 p58 | ip@14 58@54"),
        ("multicast listener report", discovery(131, 255), "6 p58 | ip@14 58@54"),
        ("lldp", ethernet(0x88cc, &[2; 46]), "mac 88cc | 88cc@14 control"),
        ("spanning tree", llc(bridges, 0x42, &[0; 35]), "mac 4242 | 26@14 control"),
        (
            "per-vlan spanning tree",
            ethernet_to([1, 0, 0x0c, 0xcc, 0xcc, 0xcd], 0x8100, &tag(7, 50, &[0xaa; 50])),
            "mac aaaa [70000 0] | 32@18 control",
        ),
        (
            "ip to the address of bridges",
            ethernet_to(bridges, 0x8100, &tag(7, 0x0800, &ipv4(TCP, &tcp(&[], &[])))),
            "4 p6 1000>2000 [70000 0] | ip@18 6@38+20",
        ),
        ("lacp", ethernet(0x8809, &[1; 110]), "mac 8809 | 8809@14 control"),
        ("eapol", ethernet(0x888e, &[1; 46]), "mac 888e | 888e@14 control"),
        ("is-is", llc(MAC_B, 0xfe, &[0x83; 40]), "mac fefe | 2b@14 control"),
        ("pppoe discovery", ethernet(0x8863, &[0x11; 46]), "mac 8863 | 8863@14 control"),
        ("lcp", ethernet(0x8864, &pppoe(2, &[0xc0, 0x21], &[9; 8])), "mac 8864 [2 0] | 8864@22 control"),
        (
            "ipcp in a vlan",
            ethernet(0x8100, &tag(7, 0x8864, &pppoe(2, &[0x80, 0x21], &[1; 10]))),
            "mac 8864 [70002 0] | 8864@26 control",
        ),
        ("bfd", bfd(3784, 255), "4 p17 1000>3784 | ip@14 17@34 control"),
        ("bfd echo", bfd(3785, 254), "4 p17 1000>3785 | ip@14 17@34 control"),
        ("bfd multihop", bfd(4784, 60), "4 p17 1000>4784 | ip@14 17@34 control"),
        ("bfd on a lag member", bfd(6784, 255), "4 p17 1000>6784 | ip@14 17@34 control"),
        ("bfd from afar", bfd(3784, 254), "4 p17 1000>3784 | ip@14 17@34"),
        (
            "bfd in a tunnel",
            ethernet(
                0x0800,
                &ipv4(
                    IPIP,
                    &V4 { ttl: 255, addresses: (INNER_A4, INNER_B4), ..V4::default() }
                        .carries(UDP, &udp(3784, &[0; 24])),
                ),
            ),
            "i p17 1000>3784 [0 100000000] | ip@14 4@34",
        ),
    ]
}
