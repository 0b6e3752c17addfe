//! What makes two packets one flow, and two addresses one host.

use crate::wire::link::Scope;

/// Key of a flow. Plain data; filled by [`super::dissect`], hashed by [`super::hash`].
///
/// The [`Scope`] is part of it, of flows as of hosts: the same private address in two VLANs, PPPoE
/// sessions, MPLS VPNs or VXLAN segments is two subscribers, and a shaper below a BRAS sees nothing
/// else that would tell them apart. What is on the way only (priority-tagged frames, transport and
/// entropy labels) is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address; an IPv4 or MAC address in the low 32 or 48 bits.
    pub source: u128,
    /// Destination address, likewise.
    pub destination: u128,
    /// Address space of both.
    pub scope: Scope,
    /// Identifier that is not one of two ports; its meaning is told by `kind`.
    pub id: u32,
    /// Source port, with [`Kind::Ports`] only, else 0.
    pub source_port: u16,
    /// Destination port, likewise.
    pub destination_port: u16,
    /// EtherType of a frame that is not IP, 0 of others.
    pub ethertype: u16,
    /// IP protocol, 0 where a flow label speaks for it.
    pub protocol: u8,
    /// Family of the addresses.
    pub family: Family,
    /// What the packets are told apart by beyond addresses and protocol.
    pub kind: Kind,
}

impl FlowKey {
    /// The key of nothing.
    pub const EMPTY: Self = Self {
        source: 0,
        destination: 0,
        scope: Scope::GLOBAL,
        id: 0,
        source_port: 0,
        destination_port: 0,
        ethertype: 0,
        protocol: 0,
        family: Family::Mac,
        kind: Kind::None,
    };
}

/// Family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Family {
    /// MAC addresses: the frame is not IP, or could not be read as IP.
    Mac = 0,
    /// IPv4 addresses.
    V4 = 1,
    /// IPv6 addresses.
    V6 = 2,
}

/// What the packets of two addresses are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Nothing: a fragment, a protocol without ports, or a header that was cut off.
    None = 0,
    /// Two ports.
    Ports = 1,
    /// IPv6 flow label in `id` (RFC 6437), 1..2^20.
    FlowLabel = 2,
    /// Security parameters index of ESP in `id`; each direction has its own.
    Spi = 3,
    /// Identifier of an ICMP or ICMPv6 query and its reply in `id`.
    IcmpId = 4,
}

/// A key fits one cache line.
const _: () = assert!(size_of::<FlowKey>() <= 64);
