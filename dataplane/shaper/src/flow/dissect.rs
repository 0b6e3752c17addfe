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
//! addresses outside a tunnel by the [`link::Scope`], so that nobody can slip into another's queue.

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
    let network = link::find(frame, wire_len);
    let rest = frame.get(usize::from(network.offset)..).unwrap_or_default();
    let layer = match Layer::parse(network.ethertype, rest, network.scope) {
        Ok(layer) => layer,
        Err(error) => return not_ip(frame, &network, error),
    };
    let control = network.control | layer.control;
    let mut dissected = Dissected {
        key: layer.key,
        ds: DsField::ip(layer.ds),
        network_offset: network.offset,
        ethertype: network.ethertype,
        class: if control { Class::Control } else { Class::Data },
        transport: layer.payload.map(|payload| Transport {
            offset: (frame.len() - payload.len()) as u16,
            protocol: layer.protocol,
            tcp_header_len: layer.tcp_header_len,
        }),
        error: layer.error,
    };
    if let Some(inner) = layer.inner {
        descend(&mut dissected, inner, wire_len.saturating_sub(frame.len()));
    }
    dissected
}

/// One IP header and what is directly behind it.
struct Layer<'a> {
    key: FlowKey,
    ds: u8,
    /// What is behind extension headers; `key.protocol` is 0 under a flow label.
    protocol: u8,
    tcp_header_len: u8,
    control: bool,
    payload: Option<&'a [u8]>,
    inner: Option<Inner<'a>>,
    error: Option<Error>,
}

/// What a tunnel carries.
#[derive(Clone, Copy)]
struct Inner<'a> {
    ethertype: u16,
    bytes: &'a [u8],
    scope: Scope,
}

impl<'a> Layer<'a> {
    /// # Errors
    /// None where it is no IP header, else what is wrong with it.
    #[inline(always)]
    fn parse(ethertype: u16, bytes: &'a [u8], scope: Scope) -> Result<Self, Option<Error>> {
        match ethertype {
            ETHERTYPE_IPV4 => Ok(Self::v4(&Ipv4::parse(bytes)?, scope)),
            ETHERTYPE_IPV6 => Ok(Self::v6(&Ipv6::parse(bytes)?, scope)),
            _ => Err(None),
        }
    }

    fn new(key: FlowKey, ds: u8) -> Self {
        let protocol = key.protocol;
        Self { key, ds, protocol, tcp_header_len: 0, control: false, payload: None, inner: None, error: None }
    }

    #[inline(always)]
    fn v4(ip: &Ipv4<'a>, scope: Scope) -> Self {
        let key = FlowKey {
            source: u32::from_be_bytes(ip.source()).into(),
            destination: u32::from_be_bytes(ip.destination()).into(),
            scope,
            protocol: ip.protocol(),
            family: Family::V4,
            ..FlowKey::default()
        };
        let mut layer = Self::new(key, ip.ds());
        if ip.is_fragment() {
            return layer;
        }
        let upper = match ip.payload() {
            Ok(payload) if ip.protocol() == AH => ipv6::skip_extensions(AH, payload),
            payload => Upper { protocol: ip.protocol(), payload },
        };
        layer.upper(upper, ip.ttl());
        layer
    }

    #[inline(always)]
    fn v6(ip: &Ipv6<'a>, scope: Scope) -> Self {
        let key = FlowKey {
            source: u128::from_be_bytes(ip.source()),
            destination: u128::from_be_bytes(ip.destination()),
            scope,
            family: Family::V6,
            ..FlowKey::default()
        };
        let mut layer = Self::new(key, ip.ds());
        layer.upper(ip.upper(), ip.hop_limit());
        let label = ip.flow_label();
        if label != 0 {
            layer.key = FlowKey { id: label, kind: Kind::FlowLabel, ..key };
            layer.inner = None;
        }
        layer
    }

    #[inline(always)]
    fn upper(&mut self, upper: Upper<'a>, hop_limit: u8) {
        self.protocol = upper.protocol;
        self.key.protocol = upper.protocol;
        match upper.payload {
            Ok(_) if upper.protocol == FRAGMENT => {}
            Ok(payload) => {
                self.payload = Some(payload);
                self.error = self.transport(payload, hop_limit).err();
            }
            Err(error) => self.error = Some(error),
        }
    }

    #[inline(always)]
    fn transport(&mut self, bytes: &'a [u8], hop_limit: u8) -> Result<(), Error> {
        match self.protocol {
            TCP => {
                self.ports(bytes)?;
                self.tcp_header_len = Tcp::parse(bytes).map_or(0, |tcp| tcp.header_len() as u8);
                Ok(())
            }
            UDP => {
                self.ports(bytes)?;
                match self.key.destination_port {
                    vxlan::PORT | BFD_CONTROL | BFD_ECHO | BFD_MULTIHOP | BFD_LAG => {
                        self.udp(bytes, hop_limit)
                    }
                    _ => Ok(()),
                }
            }
            _ => self.other(bytes, hop_limit),
        }
    }

    #[inline(always)]
    fn ports(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let &[a, b, c, d] = bytes.first_chunk().ok_or(Error::Truncated)?;
        self.key.source_port = u16::from_be_bytes([a, b]);
        self.key.destination_port = u16::from_be_bytes([c, d]);
        self.key.kind = Kind::Ports;
        Ok(())
    }

    #[inline(never)]
    fn udp(&mut self, bytes: &'a [u8], hop_limit: u8) -> Result<(), Error> {
        match self.key.destination_port {
            vxlan::PORT => {
                let vxlan = Vxlan::parse(Udp::parse(bytes)?.payload())?;
                self.carries(ETHERTYPE_TEB, vxlan.payload(), Some(vxlan.vni()));
            }
            BFD_CONTROL | BFD_LAG => self.control = hop_limit == 255,
            _ => self.control = true,
        }
        Ok(())
    }

    #[inline(never)]
    fn other(&mut self, bytes: &'a [u8], hop_limit: u8) -> Result<(), Error> {
        match self.protocol {
            SCTP | DCCP | UDP_LITE => self.ports(bytes)?,
            ICMP => self.icmp(Icmp::parse(bytes)?.id()),
            ICMPV6 => {
                let icmp = Icmpv6::parse(bytes)?;
                self.icmp(icmp.id());
                self.control = icmp.is_neighbour_discovery() && hop_limit == 255;
            }
            ESP => {
                self.key.id = Esp::parse(bytes)?.spi();
                self.key.kind = Kind::Spi;
            }
            IPIP => self.carries(ETHERTYPE_IPV4, bytes, None),
            IPV6 => self.carries(ETHERTYPE_IPV6, bytes, None),
            GRE => {
                let gre = Gre::parse(bytes)?;
                self.carries(gre.protocol(), gre.payload(), gre.key());
            }
            _ => {}
        }
        Ok(())
    }

    fn icmp(&mut self, id: Option<u16>) {
        if let Some(id) = id {
            self.key.id = id.into();
            self.key.kind = Kind::IcmpId;
        }
    }

    fn carries(&mut self, ethertype: u16, bytes: &'a [u8], id: Option<u32>) {
        self.inner = Some(Inner { ethertype, bytes, scope: self.key.scope.tunnel(id) });
    }
}

impl<'a> Inner<'a> {
    /// The IP header that is carried; `beyond` is how much of the frame lies outside its head.
    fn layer(self, beyond: usize) -> Result<Layer<'a>, Option<Error>> {
        let wire_len = self.bytes.len() + beyond;
        let network = match self.ethertype {
            ETHERTYPE_TEB => link::find_within(self.bytes, wire_len, self.scope),
            ethertype => link::find_from(ethertype, self.bytes, wire_len, self.scope),
        };
        if network.error.is_some() {
            return Err(network.error);
        }
        let bytes = self.bytes.get(usize::from(network.offset)..).unwrap_or_default();
        Layer::parse(network.ethertype, bytes, network.scope)
    }
}

/// Moves the key on to the innermost IP header that can be read.
#[inline(never)]
fn descend(dissected: &mut Dissected, outer: Inner<'_>, beyond: usize) {
    let mut next = Some(outer);
    for _ in 0..MAX_TUNNELS {
        let Some(inner) = next else { return };
        match inner.layer(beyond) {
            Ok(layer) => {
                dissected.key = layer.key;
                dissected.error = layer.error;
                next = layer.inner;
            }
            Err(error) => {
                dissected.error = error;
                return;
            }
        }
    }
    if next.is_some() {
        dissected.error = Some(Error::TooDeep);
    }
}

#[inline(never)]
fn not_ip(frame: &[u8], network: &Network, error: Option<Error>) -> Dissected {
    let mut key = FlowKey { scope: network.scope, ..FlowKey::default() };
    if let Ok(ethernet) = Ethernet::parse(frame) {
        key.source = mac(ethernet.source());
        key.destination = mac(ethernet.destination());
        key.ethertype = network.ethertype;
    }
    if key.ethertype < ETHERTYPE_MIN {
        key.ethertype = llc(frame, network.offset);
    }
    Dissected {
        key,
        ds: DsField::NONE,
        network_offset: network.offset,
        ethertype: network.ethertype,
        class: if network.control { Class::Control } else { Class::Data },
        transport: None,
        error: network.error.or(error),
    }
}

fn mac(bytes: [u8; 6]) -> u128 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f]).into()
}

/// What tells IEEE 802.3 frames apart in place of an EtherType: both service access points of LLC. The
/// length that stands there would make a flow of every size.
fn llc(frame: &[u8], offset: u16) -> u16 {
    let rest = frame.get(usize::from(offset)..).unwrap_or_default();
    rest.first_chunk().map_or(0, |&bytes| u16::from_be_bytes(bytes))
}

/// Most tunnels inside each other: a subscriber's VPN in a carrier's tunnel makes two.
pub const MAX_TUNNELS: usize = 4;
/// UDP destination ports of BFD: single hop and echo (RFC 5881), multihop (RFC 5883), on members of a
/// link aggregation (RFC 7130).
const BFD_CONTROL: u16 = 3784;
const BFD_ECHO: u16 = 3785;
const BFD_MULTIHOP: u16 = 4784;
const BFD_LAG: u16 = 6784;
