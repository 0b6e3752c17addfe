//! IPv6 header and its chain of extension headers (RFC 8200, RFC 6437).

use super::ah::Ah;
use super::protocol::{AH, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
use super::{Error, be16, take};

/// The 40 bytes of header and what follows.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    head: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

/// A fragment header.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    head: &'a [u8; 8],
    payload: &'a [u8],
}

/// Where a chain of extension headers ends.
#[derive(Clone, Copy, Debug)]
pub struct Upper<'a> {
    /// The header that the chain ends with; [`FRAGMENT`] in a fragment.
    pub protocol: u8,
    /// That header, or the error that kept the walk from reaching it.
    pub payload: Result<&'a [u8], Error>,
}

impl<'a> Ipv6<'a> {
    /// A view over the packet.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 40 bytes; [`Error::Malformed`] unless the version is 6.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = take::<HEADER_LEN>(bytes)?;
        if head[0] >> 4 != 6 {
            return Err(Error::Malformed);
        }
        Ok(Self { head, payload })
    }

    /// The traffic class: DSCP and ECN bits.
    #[inline]
    pub fn ds(&self) -> u8 {
        self.head[0] << 4 | self.head[1] >> 4
    }

    /// Flow label, 0..2^20; 0 says that the source has set none.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.head[1] & 15, self.head[2], self.head[3]])
    }

    /// Length of everything after this header as it states it; 0 in a jumbogram.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        be16(self.head[4], self.head[5])
    }

    /// What follows, see [`super::protocol`].
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.head[6]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.head[7]
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> [u8; 16] {
        address(self.head, 8)
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> [u8; 16] {
        address(self.head, 24)
    }

    /// The bytes after this header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Walks over the extension headers to the upper layer.
    #[inline]
    pub fn upper(&self) -> Upper<'a> {
        skip_extensions(self.next_header(), self.payload)
    }
}

impl<'a> Fragment<'a> {
    /// A view over the header.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 8 bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = take(bytes)?;
        Ok(Self { head, payload })
    }

    /// First header of what was fragmented. May differ between fragments; that of the first counts.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.head[0]
    }

    /// Position in what was fragmented in bytes.
    #[inline]
    pub fn offset(&self) -> u16 {
        be16(self.head[2], self.head[3]) & 0xfff8
    }

    /// Whether more fragments follow.
    #[inline]
    pub fn more(&self) -> bool {
        self.head[3] & 1 != 0
    }

    /// Whether all of the packet is in this one "fragment" (RFC 6946).
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.offset() == 0 && !self.more()
    }

    /// The bytes after this header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Walks over hop-by-hop options, routing, destination options, authentication and atomic fragment
/// headers, at most [`MAX_EXTENSIONS`] of them, starting with `next` at the start of `bytes`.
///
/// A mobility header is not skipped: nothing follows it (RFC 6275 section 6.1.1). An authentication
/// header is, for it leaves what follows in clear; it may also be walked over from IPv4.
#[inline]
pub fn skip_extensions(next: u8, bytes: &[u8]) -> Upper<'_> {
    if !is_extension(next) {
        return Upper { protocol: next, payload: Ok(bytes) };
    }
    walk(next, bytes)
}

fn walk(first: u8, bytes: &[u8]) -> Upper<'_> {
    let (mut protocol, mut rest) = (first, bytes);
    for _ in 0..MAX_EXTENSIONS {
        match step(protocol, rest) {
            Ok(Some((next, payload))) => (protocol, rest) = (next, payload),
            Ok(None) => return Upper { protocol, payload: Ok(rest) },
            Err(error) => return Upper { protocol, payload: Err(error) },
        }
    }
    let payload = if is_extension(protocol) { Err(Error::TooDeep) } else { Ok(rest) };
    Upper { protocol, payload }
}

/// The header after this one, or none where the walk must end.
fn step(protocol: u8, bytes: &[u8]) -> Result<Option<(u8, &[u8])>, Error> {
    Ok(match protocol {
        FRAGMENT => {
            let fragment = Fragment::parse(bytes)?;
            fragment.is_atomic().then(|| (fragment.next_header(), fragment.payload()))
        }
        AH => {
            let ah = Ah::parse(bytes)?;
            Some((ah.next_header(), ah.payload()?))
        }
        _ if is_extension(protocol) => {
            let (&[next, units], _) = take(bytes)?;
            let len = (usize::from(units) + 1) * 8;
            Some((next, bytes.get(len..).ok_or(Error::Truncated)?))
        }
        _ => None,
    })
}

#[inline]
const fn is_extension(protocol: u8) -> bool {
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AH | DESTINATION_OPTIONS)
}

/// Sixteen bytes of the header; the caller's constant offset is at most 24.
#[inline(always)]
fn address(head: &[u8; HEADER_LEN], offset: usize) -> [u8; 16] {
    core::array::from_fn(|i| head[offset + i])
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 40;
/// Longest chain that is walked. RFC 8200 section 4.1 recommends an order of seven headers.
pub const MAX_EXTENSIONS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;

    #[test]
    fn fields() {
        let packet = golden::ipv6_with(0xabcde, 3, 17, &[9; 5]);
        let ip = Ipv6::parse(&packet).unwrap();
        assert_eq!((ip.ds(), ip.flow_label(), ip.payload_len()), (golden::DS, 0xabcde, 5));
        assert_eq!((ip.next_header(), ip.hop_limit()), (17, 3));
        assert_eq!((ip.source(), ip.destination()), (golden::A6, golden::B6));
        assert_eq!(ip.payload(), [9; 5]);
        assert_eq!(Ipv6::parse(&packet[..39]).err(), Some(Error::Truncated));
        assert_eq!(Ipv6::parse(&[0x45; 40]).err(), Some(Error::Malformed));
    }

    #[test]
    fn extension_headers_are_walked_as_long_as_they_are() {
        let bytes = golden::extension(ROUTING, 2, &golden::extension(17, 0, &[9; 5]));
        let upper = skip_extensions(HOP_BY_HOP, &bytes);
        assert_eq!((upper.protocol, upper.payload), (17, Ok(&[9; 5][..])));
        let cut = skip_extensions(HOP_BY_HOP, &bytes[..31]);
        assert_eq!((cut.protocol, cut.payload), (ROUTING, Err(Error::Truncated)));
        let ends = skip_extensions(HOP_BY_HOP, &bytes[..32]);
        assert_eq!((ends.protocol, ends.payload), (17, Ok(&[][..])));
    }

    #[test]
    fn a_fragment_ends_the_walk_unless_it_is_atomic() {
        let fields = |position| {
            let bytes = golden::fragment(17, position, &[9; 5]);
            let fragment = Fragment::parse(&bytes).unwrap();
            assert_eq!((fragment.next_header(), fragment.payload()), (17, &[9; 5][..]));
            let upper = skip_extensions(FRAGMENT, &bytes);
            (fragment.offset(), fragment.more(), fragment.is_atomic(), upper.protocol)
        };
        assert_eq!(fields(0), (0, false, true, 17));
        assert_eq!(fields(1), (0, true, false, FRAGMENT));
        assert_eq!(fields(1449), (1448, true, false, FRAGMENT));
        assert_eq!(fields(1448), (1448, false, false, FRAGMENT));
    }
}
