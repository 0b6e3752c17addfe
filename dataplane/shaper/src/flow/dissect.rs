//! From a frame to its flow key, its class and the offsets that later steps need.
//!
//! What is looked at, in this order, each with its bound:
//! * VLAN tags, PPPoE, MPLS: [`link::MAX_LINK_HEADERS`] headers, [`crate::wire::mpls::MAX_LABELS`] labels;
//! * the outermost IP header. Offsets, DS field and class are those of this one;
//! * its extension headers: [`ipv6::MAX_EXTENSIONS`];
//! * ports (TCP, UDP, UDP-Lite, DCCP, SCTP), the index of ESP, the identifier of an ICMP query;
//! * what GRE, IPIP, 6in4, 4in6 and VXLAN carry: [`MAX_TUNNELS`] times the steps above. The key is
//!   that of the innermost IP header found.
//!
//! What ends the descent, with the key as it is then:
//! * a fragment, the first one included: all of a datagram must hash alike and only the first has
//!   ports. Addresses and protocol remain;
//! * an IPv6 flow label that is not 0: the source has said what the flow is (RFC 6437), for a tunnel
//!   its entry has (RFC 6438). Addresses and label remain;
//! * a tunnel that carries something other than IP: the outer header makes the key;
//! * bytes that are not there, make no sense or lie too deep: [`Dissected::error`] says so, the last
//!   header that could be read makes the key. A frame without IP has its MAC addresses and EtherType.
//!
//! The inner addresses of a tunnel are what its sender wrote. They are kept apart from the same
//! addresses outside a tunnel by the [`link::Scope`], so that nobody can slip into another's queue from
//! there. That a sender can still pose as many hosts by tunnelling is the price of seeing inner hosts.

use super::key::{Family, FlowKey, Kind};
use crate::packet::DsField;
use crate::wire::Error;
use crate::wire::esp::Esp;
use crate::wire::ethernet::Ethernet;
use crate::wire::gre::Gre;
use crate::wire::icmp::Icmp;
use crate::wire::icmpv6::Icmpv6;
use crate::wire::ipv4::Ipv4;
use crate::wire::ipv6::{self, Ipv6, Upper};
use crate::wire::link::{self, Network, Scope};
use crate::wire::protocol::{
    AH, DCCP, ESP, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MIN, ETHERTYPE_TEB, FRAGMENT,
    GRE, ICMP, ICMPV6, IPIP, IPV6, SCTP, TCP, UDP, UDP_LITE,
};
use crate::wire::tcp::Tcp;
use crate::wire::udp::Udp;
use crate::wire::vxlan::{self, Vxlan};

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dissected {
    /// Key of the flow.
    pub key: FlowKey,
    /// The DS field of the outermost IP header; [`DsField::NONE`] says that the frame is not IP.
    pub ds: DsField,
    /// Offset of the outermost network header from the start of the frame in bytes.
    pub network_offset: u16,
    /// EtherType of that header, behind all tags.
    pub ethertype: u16,
    /// Whether it carries data or controls the link.
    pub class: Class,
    /// What the outermost IP header carries, if that is there and this is no fragment.
    pub transport: Option<Transport>,
    /// What ended the descent early, if anything did.
    pub error: Option<Error>,
}

/// What the outermost IP header carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Offset from the start of the frame in bytes, behind options and extension headers.
    pub offset: u16,
    /// IP protocol; that of the tunnel where there is one.
    pub protocol: u8,
    /// Length of a TCP header with its options in bytes, 0 if it is none or its fixed part is cut off.
    pub tcp_header_len: u8,
}

/// What kind of queue a frame belongs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Traffic that the link carries.
    Data,
    /// Traffic of neighbours about the link itself, whose loss takes the link down: ARP, IPv6
    /// neighbour discovery, LLDP, spanning tree, LACP, EAPOL, PPP control, PPPoE discovery, IS-IS,
    /// BFD. Never inside a tunnel. Anybody may send such frames, so that their queue needs a cap;
    /// where the protocol demands a hop limit of 255, which no router forwards, so does this.
    Control,
}

impl Dissected {
    /// What is known of a frame that nobody has looked into.
    pub const NOTHING: Self = Self {
        key: FlowKey::EMPTY,
        ds: DsField::NONE,
        network_offset: 0,
        ethertype: 0,
        class: Class::Data,
        transport: None,
        error: None,
    };

    /// Whether the outermost network header is ARP.
    #[inline]
    pub fn is_arp(&self) -> bool {
        self.ethertype == ETHERTYPE_ARP
    }
}

/// Looks into a frame. `frame` is its contiguous head, as long as the caller has it (128 bytes see
/// everything usual), `wire_len` the length of all of it in bytes.
#[inline]
pub fn dissect(frame: &[u8], wire_len: usize) -> Dissected {
    let mut dissected = Dissected::NOTHING;
    dissect_into(&mut dissected, frame, wire_len);
    dissected
}

/// As [`dissect`], with the answer written over [`Dissected::NOTHING`] where the caller keeps it. An
/// answer that is moved is read back in wider pieces than it was stored in, which stalls for as long as
/// finding it took (8 ns, Zen 4).
#[inline(never)]
pub fn dissect_into(dissected: &mut Dissected, frame: &[u8], wire_len: usize) {
    let network = link::find(frame, wire_len);
    dissected.network_offset = network.offset;
    dissected.ethertype = network.ethertype;
    let rest = frame.get(usize::from(network.offset)..).unwrap_or_default();
    let layer = match parse(&mut dissected.key, network.ethertype, rest, network.scope) {
        Ok(layer) => layer,
        Err(error) => return dissected.not_ip(frame, network, error),
    };
    dissected.ds = DsField::ip(layer.ds);
    dissected.error = layer.error;
    if layer.control {
        dissected.class = Class::Control;
    }
    if let Some(payload) = layer.payload {
        let offset = (frame.len() - payload.len()) as u16;
        let (protocol, tcp_header_len) = (layer.protocol, layer.tcp_header_len);
        dissected.transport = Some(Transport { offset, protocol, tcp_header_len });
        if layer.is_tunnel {
            dissected.descend(protocol, payload, wire_len.saturating_sub(frame.len()));
        }
    }
}

impl Dissected {
    /// Moves the key on to the innermost IP header that can be read behind `payload`, the header of a
    /// tunnel. `beyond` is how much of the frame lies outside its head.
    #[inline(never)]
    fn descend(&mut self, mut protocol: u8, mut payload: &[u8], beyond: usize) {
        for _ in 0..MAX_TUNNELS {
            let layer = match open(&mut self.key, protocol, payload, beyond) {
                Ok(layer) => layer,
                Err(error) => return self.error = error,
            };
            match layer.payload {
                Some(next) if layer.is_tunnel => (protocol, payload) = (layer.protocol, next),
                _ => return self.error = layer.error,
            }
        }
        self.error = Some(Error::TooDeep);
    }

    /// Keys the frame by its MAC addresses and EtherType. In an IEEE 802.3 frame both service access
    /// points of LLC take the place of the EtherType: the length that stands there would make a flow of
    /// every size.
    #[inline(never)]
    fn not_ip(&mut self, frame: &[u8], network: Network, error: Option<Error>) {
        self.error = network.error.or(error);
        self.class = if network.control { Class::Control } else { Class::Data };
        self.key.scope = network.scope;
        let Ok(ethernet) = Ethernet::parse(frame) else { return };
        self.key.source = mac(ethernet.source());
        self.key.destination = mac(ethernet.destination());
        self.key.ethertype = network.ethertype;
        if network.ethertype < ETHERTYPE_MIN {
            let llc = frame.get(usize::from(network.offset)..).and_then(|rest| rest.first_chunk());
            self.key.ethertype = llc.map_or(0, |&bytes| u16::from_be_bytes(bytes));
            self.error = self.error.or(llc.is_none().then_some(Error::Truncated));
        }
    }
}

/// What is known of an IP header beside its key.
struct Layer<'a> {
    ds: u8,
    /// What is behind extension headers; the key has 0 under a flow label.
    protocol: u8,
    tcp_header_len: u8,
    control: bool,
    is_tunnel: bool,
    payload: Option<&'a [u8]>,
    error: Option<Error>,
}

/// Reads the IP header that `ethertype` says is there; the key stays as it is if it is not.
///
/// # Errors
/// None where it is no IP, else what is wrong with it.
#[inline(always)]
fn parse<'a>(
    key: &mut FlowKey,
    ethertype: u16,
    bytes: &'a [u8],
    scope: Scope,
) -> Result<Layer<'a>, Option<Error>> {
    match ethertype {
        ETHERTYPE_IPV4 => Ok(Layer::v4(key, &Ipv4::parse(bytes)?, scope)),
        ETHERTYPE_IPV6 => Ok(Layer::v6(key, &Ipv6::parse(bytes)?, scope)),
        _ => Err(None),
    }
}

impl<'a> Layer<'a> {
    #[inline(always)]
    fn new(ds: u8, protocol: u8) -> Self {
        Self { ds, protocol, tcp_header_len: 0, control: false, is_tunnel: false, payload: None, error: None }
    }

    #[inline(always)]
    fn v4(key: &mut FlowKey, ip: &Ipv4<'a>, scope: Scope) -> Self {
        *key = FlowKey {
            source: u32::from_be_bytes(ip.source()).into(),
            destination: u32::from_be_bytes(ip.destination()).into(),
            scope,
            protocol: ip.protocol(),
            family: Family::V4,
            ..FlowKey::EMPTY
        };
        let mut layer = Self::new(ip.ds(), ip.protocol());
        if !ip.is_fragment() {
            let upper = match ip.payload() {
                Ok(payload) if ip.protocol() == AH => ipv6::skip_extensions(AH, payload),
                payload => Upper { protocol: ip.protocol(), payload },
            };
            layer.upper(key, &upper, ip.ttl());
        }
        layer
    }

    #[inline(always)]
    fn v6(key: &mut FlowKey, ip: &Ipv6<'a>, scope: Scope) -> Self {
        *key = FlowKey {
            source: u128::from_be_bytes(ip.source()),
            destination: u128::from_be_bytes(ip.destination()),
            scope,
            family: Family::V6,
            ..FlowKey::EMPTY
        };
        let mut layer = Self::new(ip.ds(), ip.next_header());
        layer.upper(key, &ip.upper(), ip.hop_limit());
        let label = ip.flow_label();
        if label != 0 {
            (key.id, key.kind, key.protocol) = (label, Kind::FlowLabel, 0);
            (key.source_port, key.destination_port) = (0, 0);
            layer.is_tunnel = false;
        }
        layer
    }

    #[inline(always)]
    fn upper(&mut self, key: &mut FlowKey, upper: &Upper<'a>, hop_limit: u8) {
        self.protocol = upper.protocol;
        key.protocol = upper.protocol;
        match upper.payload {
            Ok(_) if upper.protocol == FRAGMENT => {}
            Ok(payload) => {
                self.payload = Some(payload);
                self.error = self.transport(key, payload, hop_limit).err();
            }
            Err(error) => self.error = Some(error),
        }
    }

    #[inline(always)]
    fn transport(&mut self, key: &mut FlowKey, bytes: &[u8], hop_limit: u8) -> Result<(), Error> {
        match self.protocol {
            TCP => {
                ports(key, bytes)?;
                self.tcp_header_len = Tcp::parse(bytes).map_or(0, |tcp| tcp.header_len() as u8);
            }
            UDP => {
                ports(key, bytes)?;
                match key.destination_port {
                    vxlan::PORT => self.is_tunnel = true,
                    BFD_CONTROL | BFD_LAG => self.control = hop_limit == HOP_LIMIT_ON_LINK,
                    BFD_ECHO | BFD_MULTIHOP => self.control = true,
                    _ => {}
                }
            }
            IPIP | IPV6 | GRE => self.is_tunnel = true,
            protocol => self.control = other(key, protocol, bytes)? && hop_limit == HOP_LIMIT_ON_LINK,
        }
        Ok(())
    }
}

#[inline(always)]
fn ports(key: &mut FlowKey, bytes: &[u8]) -> Result<(), Error> {
    let &[a, b, c, d] = bytes.first_chunk().ok_or(Error::Truncated)?;
    key.source_port = u16::from_be_bytes([a, b]);
    key.destination_port = u16::from_be_bytes([c, d]);
    key.kind = Kind::Ports;
    Ok(())
}

/// Whether it is neighbour discovery.
#[inline(never)]
fn other(key: &mut FlowKey, protocol: u8, bytes: &[u8]) -> Result<bool, Error> {
    match protocol {
        SCTP | DCCP | UDP_LITE => ports(key, bytes)?,
        ICMP => icmp(key, Icmp::parse(bytes)?.id()),
        ICMPV6 => {
            let message = Icmpv6::parse(bytes)?;
            icmp(key, message.id());
            return Ok(message.is_neighbour_discovery());
        }
        ESP => (key.id, key.kind) = (Esp::parse(bytes)?.spi(), Kind::Spi),
        _ => {}
    }
    Ok(false)
}

fn icmp(key: &mut FlowKey, id: Option<u16>) {
    if let Some(id) = id {
        (key.id, key.kind) = (id.into(), Kind::IcmpId);
    }
}

/// Opens the tunnel whose header of `protocol` is at the start of `bytes`, and reads the IP header in it;
/// the key stays as it is if there is none.
///
/// # Errors
/// None where the tunnel carries no IP, else what is wrong.
fn open<'a>(
    key: &mut FlowKey,
    protocol: u8,
    bytes: &'a [u8],
    beyond: usize,
) -> Result<Layer<'a>, Option<Error>> {
    let (ethertype, bytes, id) = match protocol {
        IPIP => (ETHERTYPE_IPV4, bytes, None),
        IPV6 => (ETHERTYPE_IPV6, bytes, None),
        GRE => {
            let gre = Gre::parse(bytes)?;
            (gre.protocol(), gre.payload(), gre.key())
        }
        _ => {
            let vxlan = Vxlan::parse(Udp::parse(bytes)?.payload())?;
            (ETHERTYPE_TEB, vxlan.payload(), Some(vxlan.vni()))
        }
    };
    let (scope, wire_len) = (key.scope.tunnel(id), bytes.len() + beyond);
    let network = match ethertype {
        ETHERTYPE_TEB => link::find_within(bytes, wire_len, scope),
        _ => link::find_from(ethertype, bytes, wire_len, scope),
    };
    if network.error.is_some() {
        return Err(network.error);
    }
    let bytes = bytes.get(usize::from(network.offset)..).unwrap_or_default();
    parse(key, network.ethertype, bytes, network.scope)
}

fn mac(bytes: [u8; 6]) -> u128 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f]).into()
}

/// Most tunnels inside each other: a subscriber's VPN in a carrier's tunnel makes two.
pub const MAX_TUNNELS: usize = 4;
/// UDP destination ports of BFD: single hop and echo (RFC 5881), multihop (RFC 5883), on members of a
/// link aggregation (RFC 7130).
const BFD_CONTROL: u16 = 3784;
const BFD_ECHO: u16 = 3785;
const BFD_MULTIHOP: u16 = 4784;
const BFD_LAG: u16 = 6784;
/// Neighbours send with this hop limit and take no other (RFC 4861, RFC 5881): no router forwards it.
const HOP_LIMIT_ON_LINK: u8 = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::hash::FlowHasher;
    use crate::rng::{Rng, SplitMix};
    use crate::wire::ecn::{self, Rewrite};
    use crate::wire::golden::{self, A4, A6, B4, B6, Bytes, INNER_A4, INNER_B4, MAC_A};
    use std::collections::BTreeMap;
    use std::format;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::string::String;

    /// The answer in the words of [`golden::frames`].
    fn words(d: &Dissected) -> String {
        let key = &d.key;
        let (source, destination) = (key.source, key.destination);
        let v4 = |address: [u8; 4]| u128::from(u32::from_be_bytes(address));
        let mut words = match key.family {
            Family::Mac if source == mac(MAC_A) && destination != 0 => format!("mac {:x}", key.ethertype),
            Family::V4 if (source, destination) == (v4(A4), v4(B4)) => format!("4 p{}", key.protocol),
            Family::V4 if (source, destination) == (v4(INNER_A4), v4(INNER_B4)) => {
                format!("i p{}", key.protocol)
            }
            Family::V6 if (source, destination) == (u128::from_be_bytes(A6), u128::from_be_bytes(B6)) => {
                format!("6 p{}", key.protocol)
            }
            family => format!("{family:?} {} {}", Ipv4Addr::from(source as u32), Ipv6Addr::from(destination)),
        };
        match key.kind {
            Kind::None => {}
            Kind::Ports => words += &format!(" {}>{}", key.source_port, key.destination_port),
            Kind::FlowLabel => words += &format!(" label {:x}", key.id),
            Kind::Spi => words += &format!(" spi {:x}", key.id),
            Kind::IcmpId => words += &format!(" icmp {:x}", key.id),
        }
        if let ([links, tunnels], false) = (key.scope.words(), key.scope.is_global()) {
            words += &format!(" [{links:x} {tunnels:x}]");
        }
        words += " | ";
        words += &if d.ds.is_ip() { "ip".into() } else { format!("{:x}", d.ethertype) };
        words += &format!("@{}", d.network_offset);
        if let Some(transport) = d.transport {
            words += &format!(" {}@{}", transport.protocol, transport.offset);
            if transport.tcp_header_len != 0 {
                words += &format!("+{}", transport.tcp_header_len);
            }
        }
        words += if d.class == Class::Control { " control" } else { "" };
        words + &d.error.map_or(String::new(), |error| format!(" {error:?}"))
    }

    #[test]
    fn every_combination_of_headers() {
        for (name, frame, expected) in golden::frames() {
            let dissected = dissect(&frame, frame.len());
            assert_eq!(words(&dissected), expected, "{name}");
            if dissected.ds.is_ip() {
                assert_eq!(dissected.ds.bits(), golden::DS, "{name}");
            }
            assert_eq!(dissected.is_arp(), name.starts_with("arp"), "{name}");
        }
    }

    #[test]
    fn a_head_cut_off_anywhere_gives_the_same_answer_or_says_that_it_is_cut() {
        for (name, frame, _) in golden::frames() {
            let whole = dissect(&frame, frame.len());
            for len in 0..frame.len() {
                let cut = dissect(&frame[..len], frame.len());
                check(&frame[..len], &cut);
                assert!(
                    cut.key == whole.key || cut.error == Some(Error::Truncated),
                    "{name}, {len} bytes: {}",
                    words(&cut)
                );
                assert!(cut.ds == whole.ds || cut.ds == DsField::NONE, "{name}, {len} bytes");
                assert!(cut.class == whole.class || cut.class == Class::Data, "{name}, {len} bytes");
                if let (Some(cut), Some(whole)) = (cut.transport, whole.transport) {
                    assert_eq!(
                        (cut.offset, cut.protocol),
                        (whole.offset, whole.protocol),
                        "{name}, {len} bytes"
                    );
                    assert!([0, whole.tcp_header_len].contains(&cut.tcp_header_len), "{name}, {len} bytes");
                }
            }
        }
    }

    #[test]
    fn different_combinations_are_different_flows_and_hash_differently() {
        let hasher = FlowHasher::new([7; 16]);
        let mut seen = BTreeMap::new();
        for (name, frame, _) in golden::frames() {
            let key = dissect(&frame, frame.len()).key;
            let other = *seen.entry(hasher.flow(&key)).or_insert(key);
            assert_eq!(other, key, "{name}");
        }
        assert!(seen.len() > 50);
    }

    /// What holds of every answer about every frame.
    fn check(frame: &[u8], d: &Dissected) {
        assert!(usize::from(d.network_offset) <= frame.len());
        assert_eq!(d.ds.is_ip(), d.key.family != Family::Mac);
        assert!(!d.ds.is_ip() || matches!(d.ethertype, ETHERTYPE_IPV4 | ETHERTYPE_IPV6));
        if let Some(transport) = d.transport {
            assert!(d.ds.is_ip() && transport.offset >= d.network_offset + 20);
            assert!(usize::from(transport.offset) <= frame.len());
            assert!(matches!(transport.tcp_header_len, 0 | 20..=60));
        }
        if d.key.kind != Kind::Ports {
            assert_eq!((d.key.source_port, d.key.destination_port), (0, 0));
        }
        if matches!(d.key.kind, Kind::None | Kind::Ports) {
            assert_eq!(d.key.id, 0);
        }
    }

    /// Marks the frame and checks that nothing but the DS field, and the IPv4 checksum, has changed.
    fn check_mark(frame: &mut Bytes, before: &Dissected) {
        let old = frame.clone();
        let wire_len = frame.len();
        let rewrite = ecn::mark(frame, wire_len);
        let after = dissect(frame, wire_len);
        match rewrite {
            Rewrite::Done => {
                assert_eq!(after.ds, before.ds.marked());
                assert_eq!(Dissected { ds: before.ds, ..after }, *before);
                let header = usize::from(before.network_offset)..usize::from(before.network_offset) + 12;
                assert_eq!(old[..header.start], frame[..header.start]);
                assert_eq!(old[header.end..], frame[header.end..]);
            }
            Rewrite::Unchanged => assert_eq!(before.ds.ecn(), DsField::CE),
            Rewrite::NotEct => assert!(before.ds.is_ip() && !before.ds.can_mark()),
            Rewrite::NotIp => assert!(!before.ds.is_ip()),
        }
        assert!(rewrite == Rewrite::Done || *frame == old);
    }

    #[test]
    fn mutated_frames_keep_every_promise() {
        let frames = golden::frames();
        let hasher = FlowHasher::new([3; 16]);
        let mut rng = SplitMix::new(1, 2);
        let mut below = |n: usize| rng.next_u32() as usize % n;
        let mut outcomes = BTreeMap::new();
        for _ in 0..200_000 {
            let mut frame = frames[below(frames.len())].1.clone();
            for _ in 0..=below(4) {
                let at = below(frame.len());
                match below(4) {
                    0 => frame[at] = below(256) as u8,
                    1 => frame[at] ^= 1 << below(8),
                    2 => frame.truncate(at + 1),
                    _ => {
                        let other = &frames[below(frames.len())].1;
                        frame.truncate(at + 1);
                        frame.extend(&other[below(other.len())..]);
                    }
                }
            }
            let dissected = dissect(&frame, frame.len());
            check(&frame, &dissected);
            let key = dissected.key;
            let back = FlowKey {
                source: key.destination,
                destination: key.source,
                source_port: key.destination_port,
                destination_port: key.source_port,
                ..key
            };
            assert_eq!(hasher.flow(&key), hasher.flow(&back));
            let (source, destination) = hasher.hosts(&key);
            assert_eq!((destination, source), hasher.hosts(&back));
            check_mark(&mut frame, &dissected);
            *outcomes.entry(format!("{:?}", dissected.error)).or_insert(0) += 1;
        }
        assert_eq!(outcomes.len(), 4, "every error and none of them was met: {outcomes:?}");
    }

    #[test]
    fn both_directions_are_one_flow_between_two_hosts() {
        let hasher = FlowHasher::new(*b"0123456789abcdef");
        for (name, frame, _) in golden::frames() {
            let there = dissect(&frame, frame.len()).key;
            let mut reply = frame.clone();
            swap_addresses(&mut reply, &dissect(&frame, frame.len()));
            let back = dissect(&reply, reply.len()).key;
            assert_ne!(there, back, "{name}");
            assert_eq!(hasher.flow(&there), hasher.flow(&back), "{name}");
            let (source, destination) = hasher.hosts(&there);
            assert_ne!(source, destination, "{name}");
            assert_eq!((destination, source), hasher.hosts(&back), "{name}");
        }
    }

    fn hashes(frame: &[u8]) -> [u32; 3] {
        let hasher = FlowHasher::new(*b"0123456789abcdef");
        let key = dissect(frame, frame.len()).key;
        let (source, destination) = hasher.hosts(&key);
        [hasher.flow(&key), source, destination]
    }

    fn named(name: &str) -> Bytes {
        golden::frames().into_iter().find(|frame| frame.0 == name).unwrap().1
    }

    #[test]
    fn all_fragments_of_a_datagram_hash_alike_and_unlike_the_rest_of_the_flow() {
        let first = hashes(&named("first fragment"));
        assert_eq!(first, hashes(&named("middle fragment")));
        assert_eq!(first, hashes(&named("last fragment")));
        assert_ne!(first[0], hashes(&named("udp"))[0]);
        assert_eq!(first[1..], hashes(&named("udp"))[1..]);
        let first = hashes(&named("first fragment, ipv6"));
        assert_eq!(first, hashes(&named("last fragment, ipv6")));
        assert_eq!(first, hashes(&named("last fragment behind hop-by-hop")));
        assert_eq!(hashes(&named("flow label")), hashes(&named("fragment with a flow label")));
    }

    #[test]
    fn the_same_addresses_in_another_vlan_session_vpn_or_tunnel_are_other_hosts() {
        let plain = hashes(&named("untagged"));
        assert_eq!(plain, hashes(&named("priority tag")));
        for name in ["vlan", "three tags", "pppoe", "vlan, pppoe", "mpls", "vlan, mpls", "pppoe, mpls"] {
            let other = hashes(&named(name));
            assert!((0..3).all(|i| plain[i] != other[i]), "{name}");
        }
        let carried = hashes(&golden::ethernet(ETHERTYPE_IPV4, &golden::carried()));
        assert_eq!(hashes(&named("ipip")), hashes(&named("gre")), "neither has an identifier");
        for name in ["ipip", "vxlan", "two tunnels", "gre with a bridged frame", "gre with mpls"] {
            let other = hashes(&named(name));
            assert!((0..3).all(|i| carried[i] != other[i]), "{name}");
        }
    }

    #[test]
    fn endpoints_are_ordered_whole() {
        let frame = named("tcp in ipv6");
        let mut crossed = frame.clone();
        crossed[54..58].rotate_left(2);
        assert_ne!(hashes(&frame)[0], hashes(&crossed)[0], "the ports changed sides, the addresses did not");
        let frame = named("udp");
        let mut crossed = frame.clone();
        crossed[34..38].rotate_left(2);
        assert_ne!(hashes(&frame)[0], hashes(&crossed)[0]);
    }

    /// Swaps the addresses that made the key, and the ports, wherever they stand in the frame.
    fn swap_addresses(frame: &mut [u8], d: &Dissected) {
        let len = match d.key.family {
            Family::Mac => 6,
            Family::V4 => 4,
            Family::V6 => 16,
        };
        let (source, destination) = (d.key.source.to_be_bytes(), d.key.destination.to_be_bytes());
        let (source, destination) = (&source[16 - len..], &destination[16 - len..]);
        let pair = if len == 6 { [destination, source].concat() } else { [source, destination].concat() };
        let addresses = frame.windows(2 * len).rposition(|window| window == pair).unwrap();
        let at = if len == 6 { 0 } else { addresses };
        frame[at..at + 2 * len].rotate_left(len);
        if d.key.kind == Kind::Ports {
            let ports = [d.key.source_port.to_be_bytes(), d.key.destination_port.to_be_bytes()].concat();
            let at = frame.windows(4).rposition(|window| window == ports).unwrap();
            frame[at..at + 4].rotate_left(2);
        }
    }
}
