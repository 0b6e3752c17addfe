//! From the start of a frame down to its TCP or UDP header, noting on the way what has to be written
//! anew in each piece.

use super::Refusal;
use super::plan::{Transport, Tunnel};
use crate::wire::Error;
use crate::wire::checksum::Sum;
use crate::wire::ethernet::{self, Ethernet};
use crate::wire::gre::Gre;
use crate::wire::ipv4::Ipv4;
use crate::wire::ipv6::{self, Ipv6};
use crate::wire::link::{self, Scope};
use crate::wire::pppoe::{PPP_IPV4, PPP_IPV6, PPP_MPLS, Pppoe};
use crate::wire::protocol::{
    AH, DESTINATION_OPTIONS, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM,
    ETHERTYPE_PPPOE, ETHERTYPE_TEB, FRAGMENT, GRE, HOP_BY_HOP, IPIP, IPV6, MOBILITY, ROUTING, TCP, UDP,
};
use crate::wire::tcp::{self, OPTION_END, OPTION_MD5, OPTION_NOP, Tcp};
use crate::wire::udp::{self, Udp};
use crate::wire::vlan::{self, Vlan};
use crate::wire::vxlan::{self, Vxlan};

/// What the headers of a super-packet are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    /// Fields to write, from the outside in. The last one is the IP header of the transport.
    pub(super) fixes: [Fix; MAX_FIXES],
    pub(super) fix_count: u8,
    pub(super) transport: Transport,
    /// Whether the transport has a checksum: a UDP datagram may do without.
    pub(super) summed: bool,
    /// Whether TCP is signed, so that no segment may be changed.
    pub(super) signed: bool,
    /// Sum of the pseudo header of the transport without its length.
    pub(super) pseudo: u32,
    /// Offset of the TCP or UDP header.
    pub(super) transport_at: u16,
    /// Length of all headers.
    pub(super) len: u16,
    /// End of the payload; bytes after it are padding.
    pub(super) end: u32,
    /// Offset from which the MTU counts: behind Ethernet and its tags.
    pub(super) mtu_from: u16,
    /// Offset from which the outermost 16-bit length field counts.
    pub(super) length_from: u16,
    pub(super) tunnel: Tunnel,
    /// Offsets of outermost and innermost IP header.
    pub(super) outer_at: u16,
    pub(super) network_at: u16,
    /// Whether hardware that segments can be expected to get these headers right.
    pub(super) offloadable: bool,
}

/// A header with fields that differ from piece to piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fix {
    pub(super) kind: FixKind,
    pub(super) at: u16,
    /// IPv4: identification.
    pub(super) id: u16,
    /// Sum of what is under its checksum and does not change.
    pub(super) base: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FixKind {
    Pppoe,
    Ipv4,
    Ipv6,
    /// Outer UDP without a checksum.
    Udp,
    /// Outer UDP with a checksum.
    SummedUdp,
    /// GRE with a checksum.
    SummedGre,
}

impl Headers {
    /// Reads the headers of a frame of `frame_len` bytes that starts with `head`.
    pub(super) fn parse(head: &[u8], frame_len: u32) -> Result<Self, Refusal> {
        let mut parser = Parser::new(head, frame_len);
        let mut ethertype = parser.ethernet()?;
        for depth in 0..=MAX_TUNNELS {
            let ip = parser.network(ethertype)?;
            if depth == 0 {
                parser.out.outer_at = parser.out.network_at;
            }
            ethertype = match ip.protocol {
                TCP => return parser.tcp(&ip),
                UDP => match parser.vxlan(&ip)? {
                    Some(ethertype) => ethertype,
                    None => return parser.udp(&ip),
                },
                IPIP => parser.tunnel(Tunnel::Ip, ETHERTYPE_IPV4),
                IPV6 => parser.tunnel(Tunnel::Ip, ETHERTYPE_IPV6),
                GRE => parser.gre()?,
                FRAGMENT => return Err(Refusal::Fragment),
                _ => return Err(Refusal::Protocol),
            };
        }
        Err(Refusal::TooDeep)
    }

    /// Most payload that the 16-bit length fields can tell.
    pub(super) fn length_room(&self) -> u32 {
        u32::from(u16::MAX - self.len.saturating_sub(self.length_from))
    }

    pub(super) fn fixes(&self) -> &[Fix] {
        self.fixes.get(..usize::from(self.fix_count)).unwrap_or_default()
    }
}

#[derive(Clone, Copy)]
struct Parser<'a> {
    head: &'a [u8],
    at: usize,
    tunnels: u8,
    out: Headers,
}

/// What the transport needs of the IP header around it.
struct Ip {
    protocol: u8,
    pseudo: u32,
    /// Whether the destination in the header is not the final one.
    routed: bool,
}

impl<'a> Parser<'a> {
    fn new(head: &'a [u8], frame_len: u32) -> Self {
        let fix = Fix { kind: FixKind::Pppoe, at: 0, id: 0, base: 0 };
        let out = Headers {
            fixes: [fix; MAX_FIXES],
            fix_count: 0,
            transport: Transport::Tcp,
            summed: true,
            signed: false,
            pseudo: 0,
            transport_at: 0,
            len: 0,
            end: frame_len,
            mtu_from: 0,
            length_from: 0,
            tunnel: Tunnel::None,
            outer_at: 0,
            network_at: 0,
            offloadable: true,
        };
        let head = head.get(..frame_len as usize).unwrap_or(head);
        Self { head, at: 0, tunnels: 0, out }
    }

    fn rest(&self) -> &'a [u8] {
        self.head.get(self.at..).unwrap_or_default()
    }

    /// Bytes of the frame from here to the end of the payload.
    fn left(&self) -> usize {
        (self.out.end as usize).saturating_sub(self.at)
    }

    fn fix(&mut self, kind: FixKind, at: usize, id: u16, base: u32) -> Result<(), Refusal> {
        let slot = self.out.fixes.get_mut(usize::from(self.out.fix_count)).ok_or(Refusal::TooDeep)?;
        *slot = Fix { kind, at: at as u16, id, base };
        self.out.fix_count += 1;
        Ok(())
    }

    /// Passes Ethernet and what lies between it and the IP header; returns the EtherType of that.
    fn ethernet(&mut self) -> Result<u16, Refusal> {
        let mut ethertype = Ethernet::parse(self.rest())?.ethertype();
        self.at += ethernet::HEADER_LEN;
        let mut tags = 0;
        while vlan::is_tpid(ethertype) {
            ethertype = Vlan::parse(self.rest())?.ethertype();
            self.at += 4;
            tags += 1;
            if tags > MAX_TAGS {
                return Err(Refusal::TooDeep);
            }
        }
        if self.tunnels == 0 {
            self.out.mtu_from = self.at as u16;
        }
        self.link(ethertype)
    }

    /// Passes PPPoE and MPLS.
    fn link(&mut self, first: u16) -> Result<u16, Refusal> {
        let mut ethertype = first;
        if ethertype == ETHERTYPE_PPPOE {
            let pppoe = Pppoe::parse(self.rest())?;
            self.out.offloadable = false;
            self.fix(FixKind::Pppoe, self.at, 0, 0)?;
            ethertype = match pppoe.protocol() {
                PPP_IPV4 => ETHERTYPE_IPV4,
                PPP_IPV6 => ETHERTYPE_IPV6,
                PPP_MPLS => ETHERTYPE_MPLS,
                _ => return Err(Refusal::Protocol),
            };
            if self.tunnels == 0 {
                self.out.length_from = (self.at + PPPOE_LEN) as u16;
            }
            self.at += self.rest().len() - pppoe.payload().len();
        }
        if matches!(ethertype, ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM) {
            let found = link::find_from(ethertype, self.rest(), self.left(), Scope::GLOBAL);
            found.error.map_or(Ok(()), Err)?;
            self.out.offloadable = false;
            self.at += usize::from(found.offset);
            ethertype = found.ethertype;
        }
        Ok(ethertype)
    }

    /// Passes an IP header with its options or extension headers.
    fn network(&mut self, ethertype: u16) -> Result<Ip, Refusal> {
        self.out.network_at = self.at as u16;
        if self.tunnels == 0 && self.out.fix_count == 0 {
            self.out.length_from = self.at as u16;
        }
        match ethertype {
            ETHERTYPE_IPV4 => self.v4(),
            ETHERTYPE_IPV6 => self.v6(),
            _ => Err(Refusal::Protocol),
        }
    }

    fn v4(&mut self) -> Result<Ip, Refusal> {
        let ip = Ipv4::parse(self.rest())?;
        if ip.is_fragment() {
            return Err(Refusal::Fragment);
        }
        ip.options()?;
        self.trim(usize::from(ip.total_len()), ip.header_len())?;
        let header = self.rest().get(..ip.header_len()).ok_or(Refusal::Truncated)?;
        let varies = u64::from(!ip.total_len()) + u64::from(!ip.identification()) + u64::from(!ip.checksum());
        let base = Sum::default().bytes(header).plus(varies).fold();
        self.fix(FixKind::Ipv4, self.at, ip.identification(), base.into())?;
        self.at += ip.header_len();
        let pseudo = Sum::default().pseudo_v4(ip.source(), ip.destination(), ip.protocol(), 0).fold();
        Ok(Ip { protocol: ip.protocol(), pseudo: pseudo.into(), routed: false })
    }

    fn v6(&mut self) -> Result<Ip, Refusal> {
        let ip = Ipv6::parse(self.rest())?;
        let stated = match ip.payload_len() {
            0 if ip.next_header() == HOP_BY_HOP => return Err(Refusal::Extension),
            0 => 0,
            len => ipv6::HEADER_LEN + usize::from(len),
        };
        self.trim(stated, ipv6::HEADER_LEN)?;
        self.fix(FixKind::Ipv6, self.at, 0, 0)?;
        self.at += ipv6::HEADER_LEN;
        let (protocol, routed) = self.extensions(ip.next_header())?;
        let pseudo = Sum::default().pseudo_v6(ip.source(), ip.destination(), protocol, 0).fold();
        Ok(Ip { protocol, pseudo: pseudo.into(), routed })
    }

    /// Passes extension headers that may be repeated; says what follows and whether there is a
    /// destination behind the one in the header.
    fn extensions(&mut self, first: u8) -> Result<(u8, bool), Refusal> {
        let (mut next, mut routed) = (first, false);
        for _ in 0..=ipv6::MAX_EXTENSIONS {
            match next {
                HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => {
                    let &[after, units, _, left] = self.rest().first_chunk().ok_or(Refusal::Truncated)?;
                    routed |= next == ROUTING && left != 0;
                    self.at += (usize::from(units) + 1) * 8;
                    next = after;
                    self.out.offloadable = false;
                }
                TCP | UDP | IPIP | IPV6 | GRE | FRAGMENT => return Ok((next, routed)),
                AH | MOBILITY | HIP | SHIM6 => return Err(Refusal::Extension),
                _ => return Err(Refusal::Protocol),
            }
        }
        Err(Refusal::TooDeep)
    }

    /// Takes the length of an IP packet that its header states, 0 if it states none. Behind the
    /// outermost packet may be padding; one inside a tunnel has to fill it.
    fn trim(&mut self, stated: usize, least: usize) -> Result<(), Refusal> {
        let left = self.left();
        if stated == 0 {
            return if left < least { Err(Refusal::Malformed) } else { Ok(()) };
        }
        if stated > left || stated < least || self.tunnels > 0 && stated != left {
            return Err(Refusal::Malformed);
        }
        self.out.end = (self.at + stated) as u32;
        Ok(())
    }

    fn tunnel(&mut self, tunnel: Tunnel, ethertype: u16) -> u16 {
        self.out.offloadable &= self.tunnels == 0;
        self.tunnels += 1;
        self.out.tunnel = tunnel;
        ethertype
    }

    fn gre(&mut self) -> Result<u16, Refusal> {
        let gre = Gre::parse(self.rest())?;
        let flags = self.rest().first().copied().unwrap_or_default();
        if flags & GRE_SEQUENCE != 0 {
            return Err(Refusal::Tunnel);
        }
        if flags & GRE_CHECKSUM != 0 {
            self.fix(FixKind::SummedGre, self.at, 0, 0)?;
            self.out.offloadable = false;
        }
        self.at += self.rest().len() - gre.payload().len();
        self.tunnel(Tunnel::Gre, 0);
        match gre.protocol() {
            ETHERTYPE_TEB => self.ethernet(),
            ethertype => self.link(ethertype),
        }
    }

    /// Passes UDP, VXLAN and Ethernet, unless this is a datagram of something else.
    ///
    /// A program that sends VXLAN by itself may hand over many datagrams as one; then the first inner
    /// packet ends before the payload does, and it is UDP that must be cut.
    fn vxlan(&mut self, ip: &Ip) -> Result<Option<u16>, Refusal> {
        let udp = Udp::parse(self.rest())?;
        if udp.destination_port() == GENEVE_PORT {
            return Err(Refusal::Tunnel);
        }
        if !matches!(udp.destination_port(), vxlan::PORT | VXLAN_PORT_OLD) {
            return Ok(None);
        }
        match Vxlan::parse(udp.payload()) {
            Ok(_) => {}
            Err(Error::Truncated) if self.left() >= udp::HEADER_LEN + VXLAN_LEN => {
                return Err(Refusal::Truncated);
            }
            Err(_) => return Ok(None),
        }
        let mut inner = *self;
        match udp.checksum() {
            0 => inner.fix(FixKind::Udp, self.at, 0, 0)?,
            _ if ip.routed => return Err(Refusal::Extension),
            _ => {
                inner.fix(FixKind::SummedUdp, self.at, 0, ip.pseudo)?;
                inner.out.offloadable = false;
            }
        }
        inner.at += udp::HEADER_LEN + VXLAN_LEN;
        inner.tunnel(Tunnel::Vxlan, 0);
        let ethertype = inner.ethernet()?;
        let mut ahead = inner;
        if matches!(ahead.network(ethertype), Err(Refusal::Malformed | Refusal::Protocol)) {
            return Ok(None);
        }
        *self = inner;
        Ok(Some(ethertype))
    }

    fn tcp(mut self, ip: &Ip) -> Result<Headers, Refusal> {
        let tcp = Tcp::parse(self.rest())?;
        let options = self.rest().get(tcp::HEADER_LEN..tcp.header_len()).ok_or(Refusal::Truncated)?;
        self.out.signed = signed(options)?;
        self.finish(ip, Transport::Tcp, tcp.header_len())
    }

    fn udp(mut self, ip: &Ip) -> Result<Headers, Refusal> {
        self.out.summed = Udp::parse(self.rest())?.checksum() != 0;
        let around = [FixKind::SummedUdp, FixKind::SummedGre];
        if !self.out.summed && self.out.fixes().iter().any(|fix| around.contains(&fix.kind)) {
            return Err(Refusal::Tunnel);
        }
        self.finish(ip, Transport::Udp, udp::HEADER_LEN)
    }

    fn finish(mut self, ip: &Ip, transport: Transport, len: usize) -> Result<Headers, Refusal> {
        if ip.routed {
            return Err(Refusal::Extension);
        }
        let end = self.at + len;
        if end > self.out.end as usize {
            return Err(Refusal::Malformed);
        }
        self.out.transport = transport;
        self.out.pseudo = ip.pseudo;
        self.out.transport_at = self.at as u16;
        self.out.len = end as u16;
        Ok(self.out)
    }
}

/// Whether these TCP options may stand in each segment: they end where they should and sign nothing.
pub(crate) fn is_repeatable(options: &[u8]) -> bool {
    signed(options) == Ok(false)
}

/// Whether TCP options hold a signature.
fn signed(options: &[u8]) -> Result<bool, Refusal> {
    let (mut rest, mut signed) = (options, false);
    while let Some((&kind, after)) = rest.split_first() {
        match kind {
            OPTION_END => break,
            OPTION_NOP => rest = after,
            _ => {
                let len = usize::from(*after.first().ok_or(Refusal::Options)?);
                if len < 2 {
                    return Err(Refusal::Options);
                }
                rest = rest.get(len..).ok_or(Refusal::Options)?;
                signed |= matches!(kind, OPTION_MD5 | OPTION_AO);
            }
        }
    }
    Ok(signed)
}

/// Most tunnels inside each other.
pub const MAX_TUNNELS: usize = 2;
/// Each tunnel takes PPPoE, IP and its own header, the innermost packet PPPoE and IP.
pub(super) const MAX_FIXES: usize = 3 * MAX_TUNNELS + 2;
/// Deepest stack of VLAN tags.
const MAX_TAGS: usize = 4;
const PPPOE_LEN: usize = 6;
const VXLAN_LEN: usize = 8;
const GRE_CHECKSUM: u8 = 0x80;
const GRE_SEQUENCE: u8 = 0x10;
/// RFC 8926.
const GENEVE_PORT: u16 = 6081;
/// What Linux used before VXLAN had a number, and still does unless told otherwise.
const VXLAN_PORT_OLD: u16 = 8472;
/// RFC 7401.
const HIP: u8 = 139;
/// RFC 5533.
const SHIM6: u8 = 140;
/// RFC 5925.
const OPTION_AO: u8 = 29;
