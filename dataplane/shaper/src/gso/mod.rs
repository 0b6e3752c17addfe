//! Cutting super-packets: a pure plan of the pieces and the header of each. No packet memory here.
//!
//! A super-packet is one frame whose TCP or UDP payload is longer than a segment. What becomes of its
//! headers follows what senders expect of segmentation offload: sequence numbers advance (RFC 9293),
//! FIN and PSH stay on the last segment, CWR on the first (RFC 3168), everything else is repeated;
//! IPv4 identifications count up, outer ones of a tunnel too; one UDP datagram a segment.
//!
//! Contract:
//! * [`Plan::new`] reads the headers once and says what is wrong with them ([`Refusal`]); after that
//!   nothing can fail. Length fields of the super-packet are believed only where they agree with its
//!   length; every one of a piece is written anew, and so is every checksum.
//! * Cutting a piece again gives what cutting the super-packet finer would have given.
//! * Nothing is cut that could not be put together again: fragments, signed segments, SYN and RST.
//!   An urgent pointer is moved along with the payload. Hardware and kernels copy flags and pointer.
//! * Accurate ECN (RFC 9768) counts with the CWR flag. Nothing in a packet tells that it is in use, so
//!   that CWR is taken off the later segments there too.
//! * Between Ethernet and TCP or UDP may lie VLAN tags, PPPoE, MPLS, IPv6 extension headers, VXLAN,
//!   GRE, IPIP and 6in4, [`MAX_TUNNELS`] deep.

mod headers;
mod plan;
mod policy;
#[cfg(test)]
pub(crate) mod tests;

pub use headers::MAX_TUNNELS;
pub(crate) use headers::is_repeatable;
pub use plan::{Checksums, Cut, Ids, MAX_HEADER_LEN, Offload, Plan, Request, Transport, Tunnel};
pub use policy::{Limits, Line, Split};

/// Why a super-packet cannot be cut. The name of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The headers are not all in the bytes given.
    Truncated,
    /// A header contradicts itself, its specification or the length of the frame.
    Malformed,
    /// Neither TCP nor UDP.
    Protocol,
    /// A fragment, IPv6 atomic fragments included.
    Fragment,
    /// An IPv6 extension header that cannot be repeated: authentication, a jumbo payload, a route
    /// that hides the destination of the pseudo header, anything unknown.
    Extension,
    /// A tunnel whose header cannot be repeated: GRE with sequence numbers, Geneve, checksum around a
    /// datagram without one.
    Tunnel,
    /// More tunnels or headers inside each other than are followed.
    TooDeep,
    /// The headers are longer than [`MAX_HEADER_LEN`].
    HeaderTooLong,
    /// SYN or RST in more than one segment.
    Flags,
    /// TCP options that do not end where they should.
    Options,
    /// Segments signed with TCP MD5 or TCP-AO (RFC 2385, RFC 5925).
    Signed,
    /// UDP without a segment size: nothing says where one datagram ends.
    Unmarked,
    /// Not a byte of payload, or UDP of the size it is marked with, fits the MTU beside the headers.
    SegmentSize,
    /// More than 65535 segments.
    TooManySegments,
}

impl Refusal {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 14] = [
        Self::Truncated,
        Self::Malformed,
        Self::Protocol,
        Self::Fragment,
        Self::Extension,
        Self::Tunnel,
        Self::TooDeep,
        Self::HeaderTooLong,
        Self::Flags,
        Self::Options,
        Self::Signed,
        Self::Unmarked,
        Self::SegmentSize,
        Self::TooManySegments,
    ];

    /// Name of the counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::Protocol => "protocol",
            Self::Fragment => "fragment",
            Self::Extension => "extension",
            Self::Tunnel => "tunnel",
            Self::TooDeep => "too_deep",
            Self::HeaderTooLong => "header_too_long",
            Self::Flags => "flags",
            Self::Options => "options",
            Self::Signed => "signed",
            Self::Unmarked => "unmarked",
            Self::SegmentSize => "segment_size",
            Self::TooManySegments => "too_many_segments",
        }
    }
}

impl From<crate::wire::Error> for Refusal {
    fn from(error: crate::wire::Error) -> Self {
        match error {
            crate::wire::Error::Truncated => Self::Truncated,
            crate::wire::Error::Malformed => Self::Malformed,
            crate::wire::Error::TooDeep => Self::TooDeep,
        }
    }
}
