//! What travels beside a packet: on the way in, while it waits, on the way out.
//!
//! * [`Arrival`]: what only enqueue needs. Filled once by the classifier, borrowed for one call.
//! * [`Piece`]: one thing to queue. An ordinary packet is one piece, a split super-packet several.
//! * [`Delivery`]: what dequeue hands back; marks and washes come back as values, and the owner
//!   of the bytes rewrites the header.
//! * [`DropReason`]: why a packet was given back undelivered. Every loss has one.

use crate::time::Instant;

/// The DS field of RFC 2474 with the ECN bits of RFC 3168, or its absence.
///
/// One word, not a byte and a bool: what waits is moved several times, and a move in odd pieces stalls
/// until the stores before it have left the core (5 ns each, Zen 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DsField(u16);

/// What enqueue needs to know of an arriving packet, super-packet or not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival<'a> {
    /// Hash of the flow: addresses, ports, protocol.
    pub flow_hash: u32,
    /// Hash of the source host.
    pub src_hash: u32,
    /// Hash of the destination host.
    pub dst_hash: u32,
    /// The DS field of the outermost IP header, if there is one.
    pub ds: DsField,
    /// The DSCP by which a class is chosen, where a rule says another than `ds`. The packet keeps its own.
    pub dscp: Option<u8>,
    /// ARP has no DS field but is treated as network control (cake).
    pub is_arp: bool,
    /// Offset of the network header in the frame in bytes; 14 for untagged Ethernet.
    pub network_offset: u16,
    /// Length in bytes as a discipline counts it, before any cut: see [`Piece::len`]. Only a
    /// super-packet that could not be cut, and so brings no piece, need have it.
    pub len: u32,
    /// Mark given by a rule (cake's `fwmark`), 0 for none.
    pub mark: u32,
    /// Class chosen by the caller (Linux's `skb->priority`), 0 for none.
    pub priority: u32,
    /// The bytes from the network header on, as far as they lie in one piece: only for TCP
    /// packets and only when the ack filter is on, else empty.
    pub network: &'a [u8],
}

/// One thing to queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<P> {
    /// The packet itself, never looked into.
    pub packet: P,
    /// Length of the frame in bytes, Ethernet header included, FCS not.
    pub frame_len: u32,
    /// Memory the packet occupies in bytes: the sum over its segments of buffer and mbuf header.
    pub truesize: u32,
    /// Segments it will become on the wire; 1 for an ordinary packet.
    pub segs: u16,
    /// Payload bytes per segment (MSS), 0 for an ordinary packet.
    pub gso_size: u16,
    /// Bytes of headers that each further segment repeats, 0 for an ordinary packet.
    pub header_len: u16,
    /// Length in bytes as the shaper charges it, link-layer overhead included. Starts as
    /// [`Piece::len`]; whoever owns the overhead settings fills it before the piece is queued.
    pub adjusted: u32,
}

/// What dequeue hands back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The packet.
    pub packet: P,
    /// Length in bytes as the discipline counts it: headers once per segment.
    pub len: u32,
    /// Length in bytes as the shaper charges it: with link-layer overhead.
    pub adjusted: u32,
    /// Segments it will become on the wire.
    pub segs: u16,
    /// The DS field it shall leave with.
    pub ds: DsField,
    /// The DS field differs from the one it came with: the owner must rewrite the header.
    pub rewrite: bool,
    /// When it was enqueued.
    pub enqueued: Instant,
    /// Traffic class it waited in; 0 where the discipline has one class only.
    pub tin: u8,
}

/// What became of an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Queued, and nothing of the same queue was lost.
    Ok,
    /// Queued, but a limit was exceeded and packets of the same queue were dropped (`NET_XMIT_CN`).
    Congested,
    /// Not queued; the packet went to the doomed callback.
    Dropped,
}

/// Where a packet was put and with what result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The verdict.
    pub verdict: Verdict,
    /// Traffic class.
    pub tin: u8,
    /// Index of the flow queue inside the class.
    pub queue: u32,
}

/// Why a packet was lost. The name of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// CoDel's control law said so and the packet could not be marked.
    Codel,
    /// BLUE's drop probability said so.
    Blue,
    /// The packet limit was exceeded.
    OverLimit,
    /// The memory limit was exceeded (fq_codel's counter).
    OverMemory,
    /// The memory limit was exceeded (cake's counter).
    Overflow,
    /// A later ACK says everything this one said.
    AckFilter,
    /// A change of parameters left no room for it.
    Change,
    /// A super-packet that could not be cut and must not leave whole.
    Uncuttable,
    /// The discipline was emptied.
    Flush,
}

impl DsField {
    /// Not ECN-capable transport.
    pub const NOT_ECT: u8 = 0;
    /// Congestion experienced.
    pub const CE: u8 = 3;

    /// The field of a packet that has none: neither IPv4 nor IPv6.
    pub const NONE: Self = Self(0);

    /// The DS field `bits` of an IP packet.
    #[inline]
    pub const fn ip(bits: u8) -> Self {
        Self(IS_IP | bits as u16)
    }

    /// All eight bits; 0 where there is no field.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0 as u8
    }

    /// Whether the packet has a DS field at all.
    #[inline]
    pub const fn is_ip(self) -> bool {
        self.0 & IS_IP != 0
    }

    /// The DSCP, 0..=63.
    #[inline]
    pub const fn dscp(self) -> u8 {
        self.bits() >> 2
    }

    /// The two ECN bits.
    #[inline]
    pub const fn ecn(self) -> u8 {
        self.bits() & 3
    }

    /// Whether a congestion signal can be given by a mark: ECT(0), ECT(1) or already CE.
    #[inline]
    pub const fn can_mark(self) -> bool {
        self.is_ip() && self.ecn() != Self::NOT_ECT
    }

    /// The field with CE set (RFC 3168).
    #[inline]
    #[must_use]
    pub const fn marked(self) -> Self {
        Self(self.0 | Self::CE as u16)
    }

    /// The field with DSCP 0 and the ECN bits kept (cake's `wash`).
    #[inline]
    #[must_use]
    pub const fn washed(self) -> Self {
        Self(self.0 & (IS_IP | 3))
    }
}

impl<P> Piece<P> {
    /// An ordinary packet.
    #[inline]
    pub const fn single(packet: P, frame_len: u32, truesize: u32) -> Self {
        Self { packet, frame_len, truesize, segs: 1, gso_size: 0, header_len: 0, adjusted: frame_len }
    }

    /// Length as a discipline counts it: the headers that every further segment repeats included.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a length in bytes, not a number of elements")]
    pub const fn len(&self) -> u32 {
        self.frame_len
            .saturating_add((self.segs as u32).saturating_sub(1).saturating_mul(self.header_len as u32))
    }
}

/// Set in a [`DsField`] that is there.
const IS_IP: u16 = 0x100;
