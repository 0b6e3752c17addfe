//! Numbers that name what comes next: EtherTypes (IEEE) and IP protocols (IANA).

/// EtherType of IPv4 (RFC 894).
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP (RFC 826).
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// EtherType of a bridged Ethernet frame inside GRE (RFC 1701, RFC 7637).
pub const ETHERTYPE_TEB: u16 = 0x6558;
/// EtherType of a customer tag (IEEE 802.1Q).
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of IPv6 (RFC 2464).
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType of the slow protocols: LACP, marker, OAM (IEEE 802.3 annex 57A).
pub const ETHERTYPE_SLOW: u16 = 0x8809;
/// EtherType of MPLS, downstream-assigned label (RFC 3032, RFC 5332).
pub const ETHERTYPE_MPLS: u16 = 0x8847;
/// EtherType of MPLS, upstream-assigned label (RFC 5332).
pub const ETHERTYPE_MPLS_UPSTREAM: u16 = 0x8848;
/// EtherType of the discovery stage of PPPoE (RFC 2516).
pub const ETHERTYPE_PPPOE_DISCOVERY: u16 = 0x8863;
/// EtherType of a PPPoE session (RFC 2516).
pub const ETHERTYPE_PPPOE: u16 = 0x8864;
/// EtherType that stands for an LLC frame longer than 1500 bytes (IS-IS hellos).
pub const ETHERTYPE_JUMBO_LLC: u16 = 0x8870;
/// EtherType of EAP over LAN (IEEE 802.1X).
pub const ETHERTYPE_EAPOL: u16 = 0x888e;
/// EtherType of a service tag (IEEE 802.1ad).
pub const ETHERTYPE_QINQ: u16 = 0x88a8;
/// EtherType of LLDP (IEEE 802.1AB).
pub const ETHERTYPE_LLDP: u16 = 0x88cc;
/// EtherType of a service tag from before IEEE 802.1ad, still met.
pub const ETHERTYPE_QINQ_OLD: u16 = 0x9100;
/// Values below this are the length of an IEEE 802.3 frame, which starts with an LLC header.
pub const ETHERTYPE_MIN: u16 = 0x0600;

/// IPv6 hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP.
pub const ICMP: u8 = 1;
/// IPv4 inside IP (RFC 2003, RFC 2473).
pub const IPIP: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// DCCP.
pub const DCCP: u8 = 33;
/// IPv6 inside IP (RFC 4213, RFC 2473).
pub const IPV6: u8 = 41;
/// IPv6 routing header.
pub const ROUTING: u8 = 43;
/// IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// GRE.
pub const GRE: u8 = 47;
/// Encapsulating security payload.
pub const ESP: u8 = 50;
/// Authentication header.
pub const AH: u8 = 51;
/// ICMPv6.
pub const ICMPV6: u8 = 58;
/// Nothing follows (RFC 8200).
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options.
pub const DESTINATION_OPTIONS: u8 = 60;
/// SCTP.
pub const SCTP: u8 = 132;
/// IPv6 mobility header (RFC 6275).
pub const MOBILITY: u8 = 135;
/// UDP-Lite.
pub const UDP_LITE: u8 = 136;
