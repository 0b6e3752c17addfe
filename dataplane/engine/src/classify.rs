//! What is read from a frame before it is queued. Filled once; nobody looks at the bytes again
//! until a congestion mark has to be written.

use crate::change::DirectionChange;
use dpdk::Mbuf;
use shaper::flow::dissect::{Class, Dissected, dissect_into};
use shaper::flow::hash::FlowHasher;
use shaper::flow::rules::{Rule, Rules, Said};
use shaper::packet::Arrival;
use shaper::qdisc::Params;
use shaper::qdisc::cake::AckFilter;
use shaper::wire::protocol::{IPV6, TCP};
use shaper::wire::vlan;

/// Reads frames.
#[derive(Clone, Debug)]
pub struct Classifier {
    hasher: FlowHasher,
    wants: Wants,
    rules: Option<Box<Rules>>,
}

/// What a discipline wants to know of a packet beyond its flow. Each costs time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Host hashes: two more hashes a packet.
    pub hosts: bool,
    /// The headers of TCP packets: a copy of [`HEADERS`] bytes.
    pub tcp: bool,
}

/// What was read.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// For the discipline. Its [`Arrival::network`] is filled by whoever keeps the bytes.
    pub arrival: Arrival<'a>,
    /// Keeps a link alive: goes through the control queue.
    pub is_control: bool,
    /// Memory the packet occupies in bytes.
    pub truesize: u32,
    /// The discipline wants [`Arrival::network`] of this packet.
    pub wants_headers: bool,
}

/// The start of a packet from its network header on: a copy, as the packet itself moves on.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    bytes: [u8; HEADERS],
    len: usize,
}

/// Bytes from the network header on that an ACK filter looks at: IPv4 and TCP with all options, or
/// IPv4, IPv6 and TCP with most (RFC 791, RFC 8200, RFC 9293).
pub const HEADERS: usize = 120;

impl Wants {
    /// What a discipline with these parameters wants.
    pub const fn of(params: &Params) -> Self {
        match params {
            Params::Fifo(_) | Params::FqCodel(_) => Self { hosts: false, tcp: false },
            Params::Cake(cake) => {
                Self { hosts: cake.flow_mode.needs_hosts(), tcp: !matches!(cake.ack_filter, AckFilter::Off) }
            }
        }
    }
}

impl Headers {
    /// The network header of `packet` and what follows it.
    #[inline]
    pub fn read(packet: &Mbuf, network_offset: u16) -> Self {
        let mut bytes = [0; HEADERS];
        let len = packet.read(network_offset.into(), &mut bytes);
        Self { bytes, len }
    }

    /// The bytes there are.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Classifier {
    /// A classifier whose hashes nobody can predict who does not know the hasher's key.
    pub fn new(hasher: FlowHasher, wants: Wants, rules: &[Rule]) -> Self {
        let rules = (!rules.is_empty()).then(|| Box::new(Rules::new(rules)));
        Self { hasher, wants, rules }
    }

    /// Takes up other rules, and reads what the discipline wants from now on beside what it wanted.
    pub(crate) fn begin(&mut self, change: &mut DirectionChange) {
        if let Some(rules) = &mut change.rules {
            core::mem::swap(&mut self.rules, rules);
        }
        let Wants { hosts, tcp } = change.wants;
        self.wants = Wants { hosts: hosts || self.wants.hosts, tcp };
    }

    /// Reads no more than is wanted.
    pub(crate) fn finish(&mut self, change: &DirectionChange) {
        self.wants = change.wants;
    }

    /// Reads one frame. Frames that make no sense are ordinary: hashed by what can be read of them.
    #[inline]
    pub fn classify<'a>(&self, packet: &Mbuf) -> Seen<'a> {
        let head = packet.head();
        if head.len() >= LOOKED_AT || head.len() == packet.pkt_len() as usize {
            self.read(head, packet)
        } else {
            self.gather(packet)
        }
    }

    /// The headers are spread over several segments: read a copy.
    #[cold]
    fn gather<'a>(&self, packet: &Mbuf) -> Seen<'a> {
        let mut bytes = [0; LOOKED_AT];
        let there = packet.read(0, &mut bytes);
        self.read(bytes.get(..there).unwrap_or_default(), packet)
    }

    #[inline]
    fn read<'a>(&self, head: &[u8], packet: &Mbuf) -> Seen<'a> {
        let mut seen = Dissected::NOTHING;
        dissect_into(&mut seen, head, packet.pkt_len() as usize);
        let (src_hash, dst_hash) = if self.wants.hosts { self.hasher.hosts(&seen.key) } else { (0, 0) };
        let said = match &self.rules {
            Some(rules) => rules.apply(head, &seen.key, seen.ds),
            None => Said::default(),
        };
        let is_tcp = || matches!(seen.transport, Some(transport) if matches!(transport.protocol, TCP | IPV6));
        Seen {
            arrival: Arrival {
                flow_hash: self.hasher.flow(&seen.key),
                src_hash,
                dst_hash,
                ds: seen.ds,
                dscp: said.dscp,
                mark: said.mark,
                is_arp: seen.is_arp(),
                network_offset: seen.network_offset,
                ..Arrival::default()
            },
            is_control: seen.class == Class::Control,
            truesize: packet.truesize(),
            wants_headers: self.wants.tcp && is_tcp(),
        }
    }
}

/// The part of a frame that an MTU bounds, in bytes: what lies behind the Ethernet header and at
/// most two VLAN tags. PPPoE and MPLS headers count, as they do for drivers and switches.
pub fn mtu_len(packet: &Mbuf) -> u32 {
    let mut bytes = [0; ETHERNET as usize + 2 * TAG as usize];
    let there = packet.read(0, &mut bytes);
    let head = bytes.get(..there).unwrap_or_default();
    let is_tag = |at: usize| {
        let tpid = head.get(at..).and_then(<[u8]>::first_chunk);
        tpid.is_some_and(|tpid| vlan::is_tpid(u16::from_be_bytes(*tpid)))
    };
    let tags = match (is_tag(12), is_tag(16)) {
        (true, true) => 2,
        (true, false) => 1,
        (false, _) => 0,
    };
    packet.pkt_len().saturating_sub(ETHERNET + tags * TAG)
}

/// Bytes of an Ethernet header.
pub const ETHERNET: u32 = 14;

/// Bytes of a VLAN tag.
const TAG: u32 = 4;

/// Bytes of a frame that are looked at. Two tags, PPPoE, a label stack, IPv6 with options, a tunnel
/// and an inner TCP header fit; a frame whose first segment holds less is copied together first.
const LOOKED_AT: usize = 192;
