//! Rules that say of a packet by what it is: a mark for cake's `fwmark`, and the DSCP that chooses its
//! tin. They stand where Linux has a firewall that marks, and tc filters.
//!
//! Contract: the first rule that applies to a packet decides. A rule applies if all that it names is so;
//! one that names nothing applies to every packet. A mark and a DSCP come from the same rule.
//!
//! Compiled to one word of candidates per value of each small field, which are ANDed; only prefixes are
//! looked at one by one, of the rules that are left. So a packet costs five loads and as many comparisons
//! as there are rules with prefixes that everything else lets through: [`MAX_RULES`] at most.

use super::key::{Family, FlowKey};
use crate::packet::DsField;
use crate::wire::mpls::Entry;
use crate::wire::pppoe::{PPP_MPLS, Pppoe};
use crate::wire::protocol::{ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_PPPOE};
use crate::wire::vlan::{self, Vlan};
use crate::wire::{ethernet::Ethernet, link::MAX_LINK_HEADERS};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most rules of one table: the bits of a word.
pub const MAX_RULES: usize = 64;

/// What a packet must be, and what is said of it then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Its source address, that of the flow: inside a tunnel the inner one.
    pub source: Option<Prefix>,
    /// Its destination address, likewise.
    pub destination: Option<Prefix>,
    /// One of its VLAN tags has this identifier, 0..=4095.
    pub vlan: Option<u16>,
    /// The DSCP of its outermost IP header, 0..=63.
    pub dscp: Option<u8>,
    /// The 802.1p priority of its outermost VLAN tag, 0..=7.
    pub pcp: Option<u8>,
    /// The traffic class (EXP) of its topmost MPLS label, 0..=7.
    pub exp: Option<u8>,
    /// The mark it is given; 0 for none.
    pub mark: u32,
    /// The DSCP by which its tin is chosen, 0..=63. The packet keeps its own.
    pub set_dscp: Option<u8>,
}

/// A range of IPv4 or IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address, an IPv4 one in the low 32 bits; bits beyond the length are 0.
    address: u128,
    /// Bits that count.
    mask: u128,
    family: Family,
}

/// What the rules say of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its mark, 0 for none.
    pub mark: u32,
    /// The DSCP that chooses its tin, if not its own.
    pub dscp: Option<u8>,
}

/// Rules made ready.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Box<[Rule]>,
    by_dscp: [u64; 64],
    by_pcp: [u64; 8],
    by_exp: [u64; 8],
    /// Of each identifier that a rule names, in order.
    by_vlan: Box<[(u16, u64)]>,
    /// Rules that ask nothing of the field.
    any: Any,
    /// A rule looks at what lies between Ethernet and IP.
    looks_at_link: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Any {
    dscp: u64,
    pcp: u64,
    exp: u64,
    vlan: u64,
    /// Neither source nor destination.
    address: u64,
}

impl Prefix {
    /// The IPv4 prefix `address`/`length`; `None` for a length above 32.
    pub fn v4(address: [u8; 4], length: u8) -> Option<Self> {
        let above = 32_u32.checked_sub(length.into())?;
        let mask = u128::from(u32::MAX.checked_shl(above).unwrap_or(0));
        Some(Self { address: u128::from(u32::from_be_bytes(address)) & mask, mask, family: Family::V4 })
    }

    /// The IPv6 prefix `address`/`length`; `None` for a length above 128.
    pub fn v6(address: [u8; 16], length: u8) -> Option<Self> {
        let above = 128_u32.checked_sub(length.into())?;
        let mask = u128::MAX.checked_shl(above).unwrap_or(0);
        Some(Self { address: u128::from_be_bytes(address) & mask, mask, family: Family::V6 })
    }

    /// Address and length, the address as an IPv4 one or an IPv6 one.
    pub fn parts(&self) -> (core::net::IpAddr, u8) {
        let length = self.mask.count_ones() as u8;
        match self.family {
            Family::V6 => (core::net::Ipv6Addr::from_bits(self.address).into(), length),
            _ => (core::net::Ipv4Addr::from_bits(self.address as u32).into(), length),
        }
    }

    #[inline]
    fn has(&self, address: u128, family: Family) -> bool {
        (address ^ self.address) & self.mask == 0 && family == self.family
    }
}

impl Rule {
    #[inline]
    fn has_addresses(&self, key: &FlowKey) -> bool {
        self.source.is_none_or(|prefix| prefix.has(key.source, key.family))
            && self.destination.is_none_or(|prefix| prefix.has(key.destination, key.family))
    }
}

impl Rules {
    /// Makes rules ready; the only allocation. Rules beyond [`MAX_RULES`] are left out.
    pub fn new(rules: &[Rule]) -> Self {
        let rules = rules.get(..MAX_RULES).unwrap_or(rules);
        let those = |asks: &dyn Fn(&Rule) -> bool| {
            rules.iter().enumerate().fold(0, |bits, (at, rule)| bits | u64::from(asks(rule)) << at)
        };
        let mut vlans: Vec<u16> = rules.iter().filter_map(|rule| rule.vlan).collect();
        vlans.sort_unstable();
        vlans.dedup();
        let by_vlan = vlans.into_iter().map(|id| (id, those(&|rule| rule.vlan == Some(id))));
        let is_link = |rule: &Rule| rule.vlan.is_some() || rule.pcp.is_some() || rule.exp.is_some();
        Self {
            by_dscp: core::array::from_fn(|dscp| those(&|rule| rule.dscp == Some(dscp as u8))),
            by_pcp: core::array::from_fn(|pcp| those(&|rule| rule.pcp == Some(pcp as u8))),
            by_exp: core::array::from_fn(|exp| those(&|rule| rule.exp == Some(exp as u8))),
            by_vlan: by_vlan.collect(),
            any: Any {
                dscp: those(&|rule| rule.dscp.is_none()),
                pcp: those(&|rule| rule.pcp.is_none()),
                exp: those(&|rule| rule.exp.is_none()),
                vlan: those(&|rule| rule.vlan.is_none()),
                address: those(&|rule| rule.source.is_none() && rule.destination.is_none()),
            },
            looks_at_link: rules.iter().any(is_link),
            rules: rules.into(),
        }
    }

    /// What the rules say of the frame that begins with `head` and was dissected to `key` and `ds`.
    #[inline]
    pub fn apply(&self, head: &[u8], key: &FlowKey, ds: DsField) -> Said {
        let of_dscp = if ds.is_ip() { self.by_dscp[usize::from(ds.dscp()) % 64] } else { 0 };
        let mut candidates = self.any.dscp | of_dscp;
        if self.looks_at_link {
            candidates &= self.by_link(head);
        }
        while candidates != 0 {
            let first = candidates & candidates.wrapping_neg();
            let rule = self.rules.get(first.trailing_zeros() as usize);
            match rule {
                Some(rule) if self.any.address & first != 0 || rule.has_addresses(key) => {
                    return Said { mark: rule.mark, dscp: rule.set_dscp };
                }
                _ => candidates ^= first,
            }
        }
        Said::default()
    }

    /// The rules that tags and labels allow.
    fn by_link(&self, head: &[u8]) -> u64 {
        let (mut vlan, mut pcp, mut exp) = (self.any.vlan, self.any.pcp, self.any.exp);
        let Ok(ethernet) = Ethernet::parse(head) else { return vlan & pcp & exp };
        let (mut ethertype, mut rest) = (ethernet.ethertype(), ethernet.payload());
        let mut is_outermost = true;
        for _ in 0..MAX_LINK_HEADERS {
            if vlan::is_tpid(ethertype) {
                let Ok(tag) = Vlan::parse(rest) else { break };
                if is_outermost {
                    pcp |= self.by_pcp[usize::from(tag.priority()) % 8];
                    is_outermost = false;
                }
                vlan |= self.of_vlan(tag.id());
                (ethertype, rest) = (tag.ethertype(), tag.payload());
            } else if ethertype == ETHERTYPE_PPPOE {
                let Ok(session) = Pppoe::parse(rest) else { break };
                if session.protocol() != PPP_MPLS {
                    break;
                }
                (ethertype, rest) = (ETHERTYPE_MPLS, session.payload());
            } else {
                if matches!(ethertype, ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM)
                    && let Some(label) = rest.first_chunk()
                {
                    exp |= self.by_exp[usize::from(Entry::from(*label).traffic_class()) % 8];
                }
                break;
            }
        }
        vlan & pcp & exp
    }

    fn of_vlan(&self, id: u16) -> u64 {
        let found = self.by_vlan.binary_search_by_key(&id, |(vlan, _)| *vlan);
        found.ok().and_then(|at| self.by_vlan.get(at)).map_or(0, |(_, rules)| *rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::dissect::dissect;
    use crate::wire::golden;
    use std::vec::Vec;

    fn v4(text: &str) -> Option<Prefix> {
        let (address, length) = text.split_once('/').unwrap();
        let address: core::net::Ipv4Addr = address.parse().unwrap();
        Prefix::v4(address.octets(), length.parse().unwrap())
    }

    fn said(rules: &[Rule], frame: &[u8]) -> Said {
        let seen = dissect(frame, frame.len());
        Rules::new(rules).apply(frame, &seen.key, seen.ds)
    }

    fn mark(mark: u32) -> Rule {
        Rule { mark, ..Rule::default() }
    }

    /// An IPv4 packet from 10.1.2.3 to 192.0.2.9.
    fn ipv4(ds: u8) -> Vec<u8> {
        let mut packet = golden::ipv4(17, &golden::udp(53, &[0; 8]));
        packet[1] = ds;
        packet[12..20].copy_from_slice(&[10, 1, 2, 3, 192, 0, 2, 9]);
        packet[10..12].fill(0);
        let words = packet[..20].as_chunks::<2>().0.iter();
        let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.to_vec()
    }

    #[test]
    fn the_first_rule_that_applies_decides() {
        let frame = golden::ethernet(0x0800, &ipv4(0));
        let dscp = Rule { dscp: Some(46), ..mark(1) };
        let source = Rule { source: v4("10.1.0.0/16"), ..mark(2) };
        let both = Rule { destination: v4("192.0.2.0/24"), ..source };
        assert_eq!(said(&[], &frame), Said::default());
        assert_eq!(said(&[dscp], &frame), Said::default());
        assert_eq!(said(&[dscp, source, mark(3)], &frame).mark, 2);
        assert_eq!(said(&[dscp, Rule { mark: 7, ..both }, source], &frame).mark, 7);
        assert_eq!(said(&[mark(3), source], &frame).mark, 3);
        let other = Rule { source: v4("10.2.0.0/16"), ..mark(9) };
        assert_eq!(said(&[other, mark(3)], &frame).mark, 3);
        let all = Rule { set_dscp: Some(46), ..mark(0) };
        assert_eq!(said(&[all, source], &frame), Said { mark: 0, dscp: Some(46) });
    }

    #[test]
    fn prefixes_are_of_their_family() {
        let frame = golden::ethernet(0x0800, &ipv4(0));
        let from = |source| said(&[Rule { source, ..mark(1) }], &frame).mark;
        for (text, applies) in
            [("0.0.0.0/0", 1), ("10.1.2.3/32", 1), ("10.1.2.2/32", 0), ("10.1.2.2/31", 1), ("11.0.0.0/8", 0)]
        {
            assert_eq!(from(v4(text)), applies, "{text}");
        }
        assert_eq!(from(Prefix::v6([0; 16], 0)), 0, "an IPv4 packet has no IPv6 address");
        let six = golden::ethernet(0x86dd, &golden::ipv6(17, &golden::udp(53, &[])));
        let source: [u8; 16] = six[22..38].try_into().unwrap();
        let from = |source| said(&[Rule { source, ..mark(1) }], &six).mark;
        assert_eq!(from(Prefix::v6(source, 128)), 1);
        assert_eq!(from(Prefix::v6(source.map(|byte| !byte), 1)), 0);
        assert_eq!((Prefix::v4([0; 4], 33), Prefix::v6([0; 16], 129)), (None, None));
        let (address, length) = v4("10.9.8.7/12").unwrap().parts();
        assert_eq!((std::format!("{address}"), length), ("10.0.0.0".into(), 12));
    }

    #[test]
    fn dscp_tags_and_labels() {
        let ip = ipv4(46 << 2 | 1);
        let plain = golden::ethernet(0x0800, &ip);
        let tagged = golden::ethernet(0x8100, &golden::tag(5 << 13 | 100, 0x0800, &ip));
        let inner = golden::tag(3 << 13 | 200, 0x0800, &ip);
        let double = golden::ethernet(0x88a8, &golden::tag(5 << 13 | 100, 0x8100, &inner));
        let label = (77_u32 << 12 | 6 << 9 | 1 << 8 | 64).to_be_bytes();
        let mpls = golden::ethernet(0x8847, &[&label[..], &ip].concat());
        let session = golden::pppoe(1, &[0x02, 0x81], &[&label[..], &ip].concat());
        let pppoe = golden::ethernet(0x8864, &session);
        let frames = [&plain, &tagged, &double, &mpls, &pppoe];
        let applies = |rule: Rule| frames.map(|frame| said(&[rule], frame).mark);
        assert_eq!(applies(Rule { dscp: Some(46), ..mark(1) }), [1, 1, 1, 1, 1]);
        assert_eq!(applies(Rule { vlan: Some(100), ..mark(1) }), [0, 1, 1, 0, 0]);
        assert_eq!(applies(Rule { vlan: Some(200), ..mark(1) }), [0, 0, 1, 0, 0]);
        assert_eq!(applies(Rule { vlan: Some(300), ..mark(1) }), [0, 0, 0, 0, 0]);
        assert_eq!(applies(Rule { pcp: Some(5), ..mark(1) }), [0, 1, 1, 0, 0], "that of the outermost tag");
        assert_eq!(applies(Rule { pcp: Some(3), ..mark(1) }), [0, 0, 0, 0, 0]);
        assert_eq!(applies(Rule { exp: Some(6), ..mark(1) }), [0, 0, 0, 1, 1]);
        assert_eq!(
            applies(Rule { exp: Some(0), ..mark(1) }),
            [0, 0, 0, 0, 0],
            "no label is not label class 0"
        );
    }

    #[test]
    fn no_frame_makes_it_panic_and_rules_beyond_the_last_bit_are_left_out() {
        let mut rules: Vec<Rule> = (0..64).map(|at| Rule { vlan: Some(at), ..mark(at.into()) }).collect();
        rules.push(mark(99));
        let label = [0, 1, 0xff, 64];
        let whole = golden::ethernet(0x88a8, &golden::tag(63, 0x8847, &label));
        for len in 0..=whole.len() {
            let told = said(&rules, &whole[..len]).mark;
            assert_eq!(told, if len < 18 { 0 } else { 63 });
        }
        let deep = [&[0; 12][..], &[0x81, 0].repeat(40)].concat();
        assert_eq!(said(&rules, &deep).mark, 0);
    }
}
