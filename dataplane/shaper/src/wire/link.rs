//! From the start of a frame to its outermost network header: over VLAN tags (IEEE 802.1Q, 802.1ad),
//! a PPPoE session (RFC 2516) and an MPLS label stack (RFC 3032), in any order that occurs.

use super::checksum::Sum;
use super::ethernet::{self, Ethernet};
use super::ipv4::Ipv4;
use super::ipv6::{self, Ipv6};
use super::mpls::Stack;
use super::pppoe::{PPP_IPV4, PPP_IPV6, PPP_MPLS, Pppoe};
use super::protocol::{
    ETHERTYPE_ARP, ETHERTYPE_EAPOL, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_JUMBO_LLC, ETHERTYPE_LLDP,
    ETHERTYPE_MIN, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_PPPOE, ETHERTYPE_PPPOE_DISCOVERY,
    ETHERTYPE_SLOW,
};
use super::vlan::{self, Vlan};
use super::{Error, take};

/// Where the network header lies and what was passed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Offset of the network header from the start of the frame in bytes: at most its length.
    pub offset: u16,
    /// EtherType of what lies there: that of IPv4 or IPv6 whether tags, PPPoE or MPLS say so, else
    /// that of the header which the walk could not pass.
    pub ethertype: u16,
    /// The private address space that the network header belongs to.
    pub scope: Scope,
    /// Whether the frame controls the link rather than being carried by it. Of an IP packet only its
    /// headers can tell.
    pub control: bool,
    /// What ended the walk early, if anything did.
    pub error: Option<Error>,
}

/// What separates address spaces that may overlap: VLANs, PPPoE sessions, MPLS VPNs, tunnels.
///
/// Two scopes are equal exactly when the last four VLAN identifiers, the last PPPoE session, the
/// last service label, the number of tunnels and the last tunnel identifier are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// VLAN identifiers in the upper 48 bits, the last one lowest; PPPoE session in the lower 16.
    links: u64,
    /// Service label in the upper 24 bits, number of tunnels in the next 8, tunnel identifier below.
    tunnels: u64,
}

impl Scope {
    /// Nothing was passed that separates address spaces.
    pub const GLOBAL: Self = Self { links: 0, tunnels: 0 };

    /// Whether nothing was passed that separates address spaces.
    #[inline]
    pub const fn is_global(self) -> bool {
        self.links | self.tunnels == 0
    }

    /// The scope as two words, for hashing.
    #[inline]
    pub const fn words(self) -> [u64; 2] {
        [self.links, self.tunnels]
    }

    /// The scope inside a VLAN; a tag with identifier 0 carries a priority and no VLAN.
    #[inline]
    #[must_use]
    pub const fn vlan(self, id: u16) -> Self {
        if id == 0 {
            return self;
        }
        let vlans = (self.links >> 16) << 12 | id as u64;
        Self { links: vlans << 16 | self.links & 0xffff, tunnels: self.tunnels }
    }

    /// The scope inside a PPPoE session.
    #[inline]
    #[must_use]
    pub const fn session(self, id: u16) -> Self {
        Self { links: self.links & !0xffff | id as u64, tunnels: self.tunnels }
    }

    /// The scope under an MPLS service label, 0 for none.
    #[inline]
    #[must_use]
    pub const fn label(self, label: u32) -> Self {
        Self { links: self.links, tunnels: self.tunnels << 24 >> 24 | (label as u64) << 40 }
    }

    /// The scope inside a tunnel. One without an identifier of its own keeps that around it.
    #[inline]
    #[must_use]
    pub const fn tunnel(self, id: Option<u32>) -> Self {
        let id = match id {
            Some(id) => id,
            None => self.tunnels as u32,
        };
        let depth = (self.tunnels >> 32) as u8;
        let above = self.tunnels >> 40 << 40 | (depth.saturating_add(1) as u64) << 32;
        Self { links: self.links, tunnels: above | id as u64 }
    }
}

/// Finds the outermost network header. `frame` is the contiguous head of the frame, `wire_len` the
/// length of all of it in bytes.
#[inline]
pub fn find(frame: &[u8], wire_len: usize) -> Network {
    find_within(frame, wire_len, Scope::GLOBAL)
}

/// As [`find`], for a frame that was carried in `scope`.
#[inline]
pub fn find_within(frame: &[u8], wire_len: usize, scope: Scope) -> Network {
    match Ethernet::parse(frame) {
        Ok(ethernet) => match ethernet.ethertype() {
            ethertype @ (ETHERTYPE_IPV4 | ETHERTYPE_IPV6) => {
                Network { offset: ETHERNET, ethertype, scope, control: false, error: None }
            }
            _ => Walk { frame, wire_len, scope, rest: ethernet.payload() }.start(ethernet),
        },
        Err(error) => {
            Network { offset: frame.len() as u16, ethertype: 0, scope, control: false, error: Some(error) }
        }
    }
}

/// As [`find_within`], for bytes that start with what `ethertype` says (the payload of GRE).
pub fn find_from(ethertype: u16, bytes: &[u8], wire_len: usize, scope: Scope) -> Network {
    Walk { frame: bytes, wire_len, scope, rest: bytes }.run(ethertype)
}

struct Walk<'a> {
    frame: &'a [u8],
    wire_len: usize,
    scope: Scope,
    rest: &'a [u8],
}

/// What one step of the walk found.
enum Step {
    /// A header that was passed; this is what follows.
    Passed(u16),
    /// The end of the walk: this EtherType, and whether it is a control protocol.
    End(u16, bool),
}

impl<'a> Walk<'a> {
    #[inline(never)]
    fn start(self, ethernet: Ethernet<'a>) -> Network {
        let mut network = self.run(ethernet.ethertype());
        let is_ip = matches!(network.ethertype, ETHERTYPE_IPV4 | ETHERTYPE_IPV6);
        network.control |= !is_ip && network.error.is_none() && is_link_local(ethernet.destination());
        network
    }

    fn run(mut self, first: u16) -> Network {
        let mut ethertype = first;
        for _ in 0..MAX_LINK_HEADERS {
            match self.step(ethertype) {
                Ok(Step::Passed(next)) => ethertype = next,
                Ok(Step::End(last, control)) => return self.end(last, control, None),
                Err(error) => return self.end(ethertype, false, Some(error)),
            }
        }
        match ethertype {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => self.end(ethertype, false, None),
            _ => self.end(ethertype, false, Some(Error::TooDeep)),
        }
    }

    fn step(&mut self, ethertype: u16) -> Result<Step, Error> {
        Ok(match ethertype {
            _ if vlan::is_tpid(ethertype) => {
                let tag = Vlan::parse(self.rest)?;
                self.scope = self.scope.vlan(tag.id());
                self.rest = tag.payload();
                Step::Passed(tag.ethertype())
            }
            ETHERTYPE_PPPOE => {
                let pppoe = Pppoe::parse(self.rest)?;
                self.scope = self.scope.session(pppoe.session());
                self.rest = pppoe.payload();
                match pppoe.protocol() {
                    PPP_IPV4 => Step::Passed(ETHERTYPE_IPV4),
                    PPP_IPV6 => Step::Passed(ETHERTYPE_IPV6),
                    PPP_MPLS => Step::Passed(ETHERTYPE_MPLS),
                    _ => Step::End(ethertype, pppoe.is_control()),
                }
            }
            ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
                let stack = Stack::parse(self.rest)?;
                self.scope = self.scope.label(stack.service_label());
                self.rest = stack.payload();
                Step::End(self.under_labels()?.unwrap_or(ethertype), false)
            }
            _ => Step::End(ethertype, is_control(ethertype, self.rest)),
        })
    }

    /// EtherType of the IP packet under a label stack, if it is one.
    ///
    /// Nothing but its first four bits says that it is. They are 0 before a pseudowire control word
    /// (RFC 4385), but a pseudowire may do without one, and then a MAC address may begin with a 4 or
    /// a 6. What would be rewritten as an IP header must therefore also have a right checksum (IPv4)
    /// or fill the frame (IPv6).
    fn under_labels(&self) -> Result<Option<u16>, Error> {
        let wire_left = self.wire_len.saturating_sub(self.frame.len() - self.rest.len());
        let (&[first], _) = take(self.rest)?;
        let (fits, ethertype) = match first >> 4 {
            4 => (fits_v4(self.rest, wire_left), ETHERTYPE_IPV4),
            6 => (fits_v6(self.rest, wire_left), ETHERTYPE_IPV6),
            _ => return Ok(None),
        };
        match fits {
            Err(Error::Truncated) => Err(Error::Truncated),
            fits => Ok((fits == Ok(true)).then_some(ethertype)),
        }
    }

    fn end(&self, ethertype: u16, control: bool, error: Option<Error>) -> Network {
        let offset = (self.frame.len() - self.rest.len()) as u16;
        Network { offset, ethertype, scope: self.scope, control, error }
    }
}

fn fits_v4(bytes: &[u8], wire_left: usize) -> Result<bool, Error> {
    let ip = Ipv4::parse(bytes)?;
    let header = bytes.get(..ip.header_len()).ok_or(Error::Truncated)?;
    Ok(usize::from(ip.total_len()) <= wire_left && Sum::default().bytes(header).fold() == 0xffff)
}

fn fits_v6(bytes: &[u8], wire_left: usize) -> Result<bool, Error> {
    let len = ipv6::HEADER_LEN + usize::from(Ipv6::parse(bytes)?.payload_len());
    Ok(len == wire_left || len < wire_left && wire_left <= MIN_PAYLOAD)
}

/// Whether these are frames between neighbours on a link, which a loss or a long wait would make
/// believe that the link is down: ARP, LLDP, LACP and its kin, EAPOL, PPPoE discovery, IS-IS.
#[inline]
fn is_control(ethertype: u16, payload: &[u8]) -> bool {
    match ethertype {
        ETHERTYPE_ARP | ETHERTYPE_LLDP | ETHERTYPE_SLOW | ETHERTYPE_EAPOL | ETHERTYPE_PPPOE_DISCOVERY => true,
        ETHERTYPE_JUMBO_LLC | ..ETHERTYPE_MIN => {
            matches!(take::<4>(payload), Ok(([0xfe, 0xfe, 0x03, NLPID_ES_IS | NLPID_IS_IS], _)))
        }
        _ => false,
    }
}

/// Whether the address is one that bridges do not forward (IEEE 802.1Q tables 8-1 to 8-3: spanning
/// tree, pause, LACP, EAPOL, LLDP), one of a registration protocol, or Cisco's for CDP and PVST+.
#[inline]
fn is_link_local(destination: [u8; 6]) -> bool {
    matches!(
        destination,
        [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00..=0x0f | 0x20..=0x2f] | [0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcc..=0xcd]
    )
}

/// Most headers between Ethernet and the network header: four VLAN tags as deep as equipment stacks
/// them, PPPoE, MPLS, and two to spare.
pub const MAX_LINK_HEADERS: usize = 8;
const ETHERNET: u16 = ethernet::HEADER_LEN as u16;
/// Payload of a shortest Ethernet frame; shorter packets are padded up to it.
const MIN_PAYLOAD: usize = 46;
/// Network layer protocol identifiers of ISO/IEC TR 9577.
const NLPID_ES_IS: u8 = 0x82;
const NLPID_IS_IS: u8 = 0x83;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden::{ethernet, ipv4, ipv6, mpls, tag};
    use crate::wire::protocol::TCP;
    use std::vec::Vec;

    #[test]
    fn a_scope_keeps_what_it_says_and_no_more() {
        let all = Scope::GLOBAL.vlan(1).vlan(2).vlan(3).vlan(4).session(5).label(6).tunnel(Some(7));
        assert_eq!(all.words(), [0x0010_0200_3004_0005, 0x0000_0601_0000_0007]);
        assert_eq!(all.vlan(0), all, "a priority tag is no VLAN");
        assert_eq!(all.vlan(4095).words()[0], 0x0020_0300_4fff_0005, "the outermost of five is lost");
        assert_eq!(
            all.label(0xf_ffff).session(0xffff).words(),
            [0x0010_0200_3004_ffff, 0x0fff_ff01_0000_0007]
        );
        assert_eq!(all.tunnel(None).words()[1], 0x0000_0602_0000_0007, "the identifier around it");
        let many = (0..300).fold(Scope::GLOBAL, |scope, _| scope.tunnel(None));
        assert_eq!(many.words(), [0, 0xff_0000_0000]);
        assert!(Scope::GLOBAL.is_global() && !all.is_global());
    }

    #[test]
    fn nine_tags_are_one_too_many() {
        let tags = |n| {
            let inner = tag(8, 0x0800, &ipv4(TCP, &[0; 20]));
            ethernet(0x8100, &(1..n).fold(inner, |bytes, id| tag(id, 0x8100, &bytes)))
        };
        let frame = tags(8);
        let network = find(&frame, frame.len());
        assert_eq!((network.offset, network.ethertype, network.error), (46, ETHERTYPE_IPV4, None));
        let frame = tags(9);
        let network = find(&frame, frame.len());
        assert_eq!((network.offset, network.error), (46, Some(Error::TooDeep)));
        assert_eq!(network.ethertype, 0x8100);
    }

    #[test]
    fn under_labels_only_what_must_be_ip_is_ip() {
        let ethertype = |payload: &[u8]| {
            let frame = ethernet(ETHERTYPE_MPLS, &mpls(&[77], payload));
            find(&frame, frame.len()).ethertype
        };
        let with = |mut bytes: Vec<u8>, at: usize, flip: u8| {
            bytes[at] ^= flip;
            bytes
        };
        let (v4, v6) = (ipv4(TCP, &[0; 20]), ipv6(TCP, &[0; 20]));
        assert_eq!(ethertype(&v4), ETHERTYPE_IPV4);
        assert_eq!(ethertype(&with(v4.clone(), 10, 1)), ETHERTYPE_MPLS, "checksum");
        assert_eq!(ethertype(&v4[..30]), ETHERTYPE_MPLS, "longer than the frame");
        assert_eq!(ethertype(&v6), ETHERTYPE_IPV6);
        assert_eq!(ethertype(&with(v6.clone(), 5, 1)), ETHERTYPE_MPLS, "another length");
        let padded = [ipv6(TCP, &[]), [0; 6].to_vec()].concat();
        assert_eq!(ethertype(&padded), ETHERTYPE_IPV6, "padded to the shortest frame");
    }
}
