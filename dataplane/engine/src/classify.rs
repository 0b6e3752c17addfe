//! What is read from a frame before it is queued. Filled once; nobody looks at the bytes again
//! until a congestion mark has to be written.

use dpdk::Mbuf;
use shaper::flow::dissect::{Class, Dissected, dissect_into};
use shaper::flow::hash::FlowHasher;
use shaper::packet::Arrival;
use shaper::wire::vlan;

/// Reads frames.
#[derive(Clone, Debug)]
pub struct Classifier {
    hasher: FlowHasher,
    hosts: bool,
}

/// What was read.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// For the discipline.
    pub arrival: Arrival<'static>,
    /// Keeps a link alive: goes through the control queue.
    pub is_control: bool,
    /// Memory the packet occupies in bytes.
    pub truesize: u32,
}

impl Classifier {
    /// A classifier whose hashes nobody can predict who does not know the hasher's key. `hosts`
    /// says whether host hashes are wanted; they cost two more hashes a packet.
    pub const fn new(hasher: FlowHasher, hosts: bool) -> Self {
        Self { hasher, hosts }
    }

    /// Reads one frame. Frames that make no sense are ordinary: hashed by what can be read of them.
    #[inline]
    pub fn classify(&self, packet: &Mbuf) -> Seen {
        let head = packet.head();
        if head.len() >= LOOKED_AT || head.len() == packet.pkt_len() as usize {
            self.read(head, packet)
        } else {
            self.gather(packet)
        }
    }

    /// The headers are spread over several segments: read a copy.
    #[cold]
    fn gather(&self, packet: &Mbuf) -> Seen {
        let mut bytes = [0; LOOKED_AT];
        let there = packet.read(0, &mut bytes);
        self.read(bytes.get(..there).unwrap_or_default(), packet)
    }

    #[inline]
    fn read(&self, head: &[u8], packet: &Mbuf) -> Seen {
        let mut seen = Dissected::NOTHING;
        dissect_into(&mut seen, head, packet.pkt_len() as usize);
        let (src_hash, dst_hash) = if self.hosts { self.hasher.hosts(&seen.key) } else { (0, 0) };
        Seen {
            arrival: Arrival {
                flow_hash: self.hasher.flow(&seen.key),
                src_hash,
                dst_hash,
                ds: seen.ds,
                is_arp: seen.is_arp(),
                network_offset: seen.network_offset,
                ..Arrival::default()
            },
            is_control: seen.class == Class::Control,
            truesize: packet.truesize(),
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
