//! Merging the TCP segments of one receive burst into super-packets. No packet memory here.
//!
//! Merging must not be seen by either end: cutting what was merged gives back the same segments byte
//! for byte ([`crate::gso`], one segment a piece, [`Merged::ids`]). Hence two segments are merged only if
//! * they follow each other in sequence and in the burst, nothing of the flow between them;
//! * Ethernet addresses, VLAN tags (at most two), DS field with ECN bits, TTL, IP flags, IPv6 flow
//!   label, addresses, ports, acknowledgement, window and all TCP options, timestamps included, are
//!   the same. IPv4 identifications count up by one, or stay the same under "don't fragment";
//! * flags are ACK, ECE or its absence the same in all, CWR in the first at most, PSH or FIN in the last
//!   at most. SYN, RST, URG, bare acknowledgements, IPv4 options, fragments, IPv6 extension headers,
//!   tunnels, PPPoE and MPLS are never merged, nor is what the splitter refuses;
//! * all have the size of the first, except that the last may be shorter;
//! * checksums are known to be right.
//!
//! Whatever of a flow cannot be appended ends its chain, so that nothing is overtaken inside a flow.
//!
//! The table lives as long as its owner and is emptied for each burst, so that no packet waits.

mod segment;
#[cfg(test)]
mod tests;

use crate::gso::Ids;
use segment::{Facts, Head, LAST, Segment};

/// Chains of one burst of at most `N` packets.
#[derive(Clone, Debug)]
pub struct Gro<const N: usize> {
    /// Flow hash of each chain with [`OPEN`] above it, 0 once nothing can be appended any more.
    open: [u64; N],
    chains: [Chain; N],
    len: usize,
    limits: GroLimits,
}

/// How large super-packets may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroLimits {
    /// Most segments; chained buffers of the longest packet that a port takes, for example.
    pub max_segs: u16,
    /// Longest frame in bytes; 65535 bytes of IP packet are the bound in any case.
    pub max_len: u32,
}

/// A packet as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Its number in the burst.
    pub index: u16,
    /// The contiguous head of the frame; all headers must be in it, else it is not merged.
    pub head: &'a [u8],
    /// Length of the frame in bytes.
    pub frame_len: u32,
    /// Hash of the flow: equal for packets of the same flow. Others may collide at no harm.
    pub flow_hash: u32,
    /// Whether the checksums of IPv4 and TCP have been verified, by the NIC or by the caller.
    pub checksums_good: bool,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It stays a packet of its own, maybe the first of a chain.
    Keep,
    /// Its payload goes to the end of another packet.
    Append {
        /// Number of that packet.
        first: u16,
        /// Bytes of headers in front of the payload, to be taken off.
        header_len: u16,
    },
}

/// A packet that others were appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Its number in the burst.
    pub first: u16,
    /// Segments that it holds, at least 2.
    pub segs: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Length of its headers in bytes.
    pub header_len: u16,
    /// Length of the frame in bytes.
    pub frame_len: u32,
    /// What identifications to cut it with, so that they are the old ones.
    pub ids: Ids,
    flags: u8,
    network_at: u8,
    transport_at: u8,
    v4: bool,
}

/// Segments that follow each other.
#[derive(Clone, Copy, Debug)]
struct Chain {
    head: Head,
    index: u16,
    segs: u16,
    payload_len: u32,
    /// FIN and PSH of the last segment.
    last: u8,
    /// How identifications go, once there are two.
    ids: Ids,
}

impl<const N: usize> Gro<N> {
    /// An empty table.
    pub fn new(limits: GroLimits) -> Self {
        let chain =
            Chain { head: Head::NONE, index: 0, segs: 0, payload_len: 0, last: 0, ids: Ids::Increment };
        Self { open: [0; N], chains: [chain; N], len: 0, limits }
    }

    /// Forgets the last burst.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Takes up the next packet of the burst. Every packet of a flow must be offered, also those that
    /// cannot be merged: they end the chain of their flow.
    #[inline]
    pub fn offer(&mut self, packet: &Received<'_>) -> Offer {
        let key = OPEN | u64::from(packet.flow_hash);
        let found = self.open.iter().take(self.len).position(|&open| open == key);
        let segment = Segment::parse(packet);
        let parts = found.and_then(|i| Some((self.open.get_mut(i)?, self.chains.get_mut(i)?)));
        if let Some((open, chain)) = parts {
            if let Some(segment) = &segment
                && chain.append(segment, &self.limits)
            {
                if chain.is_complete(&segment.facts) {
                    *open = 0;
                }
                return Offer::Append { first: chain.index, header_len: segment.facts.header_len.into() };
            }
            *open = 0;
        }
        if let Some(segment) = segment
            && segment.can_lead()
        {
            self.start(key, packet.index, &segment);
        }
        Offer::Keep
    }

    /// Ends all chains: a packet may be of any of their flows.
    #[cold]
    pub fn close(&mut self) {
        self.open = [0; N];
    }

    /// The packets of the burst that have been appended to, in the order in which they came.
    #[inline]
    pub fn merged(&self) -> impl Iterator<Item = Merged> + '_ {
        self.chains.iter().take(self.len).filter(|chain| chain.segs > 1).map(Chain::merged)
    }

    fn start(&mut self, key: u64, index: u16, segment: &Segment<'_>) {
        let (Some(open), Some(chain)) = (self.open.get_mut(self.len), self.chains.get_mut(self.len)) else {
            return;
        };
        *open = key;
        chain.head.set(segment);
        (chain.index, chain.segs, chain.last, chain.ids) = (index, 1, 0, Ids::Increment);
        chain.payload_len = segment.facts.payload_len.into();
        self.len += 1;
    }
}

impl Chain {
    /// Appends a segment if that is right.
    #[inline]
    fn append(&mut self, next: &Segment<'_>, limits: &GroLimits) -> bool {
        let head = &self.head.facts;
        let frame_len = u32::from(head.header_len) + self.payload_len + u32::from(next.facts.payload_len);
        let fits = self.segs < limits.max_segs
            && frame_len <= limits.max_len
            && frame_len - u32::from(head.network_at) <= MAX_IP_LEN
            && next.facts.payload_len <= head.payload_len;
        let follows = next.facts.sequence == head.sequence.wrapping_add(self.payload_len);
        if !fits || !follows || !self.head.matches(next) {
            return false;
        }
        let Some(ids) = self.next_ids(&next.facts) else { return false };
        self.ids = ids;
        self.segs += 1;
        self.payload_len += u32::from(next.facts.payload_len);
        self.last = next.facts.flags & LAST;
        true
    }

    #[inline]
    fn next_ids(&self, next: &Facts) -> Option<Ids> {
        let head = &self.head.facts;
        let counts_up = next.id == head.id.wrapping_add(self.segs);
        let fixed = next.id == head.id && head.dont_fragment;
        match self.ids {
            Ids::Increment if !head.v4 || counts_up => Some(Ids::Increment),
            Ids::Increment if self.segs == 1 && fixed => Some(Ids::Fixed),
            Ids::Fixed if fixed => Some(Ids::Fixed),
            _ => None,
        }
    }

    /// Whether nothing may come behind the segment appended last.
    #[inline]
    fn is_complete(&self, last: &Facts) -> bool {
        self.last != 0 || last.payload_len < self.head.facts.payload_len
    }

    fn merged(&self) -> Merged {
        let head = &self.head.facts;
        Merged {
            first: self.index,
            segs: self.segs,
            gso_size: head.payload_len,
            header_len: head.header_len.into(),
            frame_len: u32::from(head.header_len) + self.payload_len,
            ids: self.ids,
            flags: self.last,
            network_at: head.network_at,
            transport_at: head.transport_at,
            v4: head.v4,
        }
    }
}

impl Merged {
    /// Makes the headers of the first packet those of the super-packet: IP length and IPv4 checksum,
    /// PSH and FIN. The TCP checksum is left as it was, to be written by the plan that cuts it.
    pub fn write(&self, head: &mut [u8]) {
        let len = (self.frame_len - u32::from(self.network_at)) as u16;
        if let Some(ip) = head.get_mut(usize::from(self.network_at)..) {
            segment::write_len(ip, self.v4, len);
        }
        if let Some(flags) = head.get_mut(usize::from(self.transport_at) + 13) {
            *flags |= self.flags;
        }
    }
}

/// Set in the key of a chain that can be appended to.
const OPEN: u64 = 1 << 32;
const MAX_IP_LEN: u32 = 65_535;
