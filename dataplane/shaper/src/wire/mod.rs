//! Views over the bytes of a frame, one protocol a file.
//!
//! Contract:
//! * A view is made only over bytes that are there, so that its getters cannot fail. Making one
//!   says what is wrong ([`Error`]); nothing here panics or reads out of bounds.
//! * A view checks what its own header claims (version, lengths inside the header). It verifies no
//!   checksum and trusts no length field that reaches beyond the header.
//! * Every walk over headers is bounded by a constant and ends in [`Error::TooDeep`].
//! * Numbers are returned in host order, lengths and offsets in bytes.

pub mod ah;
pub mod checksum;
pub mod ecn;
pub mod esp;
pub mod ethernet;
#[cfg(test)]
pub(crate) mod golden;
pub mod gre;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod link;
pub mod mpls;
pub mod pppoe;
pub mod protocol;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

/// Why no view could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// The bytes end before the header does.
    Truncated,
    /// The header contradicts itself or its specification.
    Malformed,
    /// More headers follow one another than a walk looks at.
    TooDeep,
}

/// The first `N` bytes as an array, and the rest.
#[inline(always)]
fn take<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), Error> {
    bytes.split_first_chunk().ok_or(Error::Truncated)
}

#[inline(always)]
fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}
