//! ICMPv6 header (RFC 4443) and the types of neighbour discovery (RFC 4861).

use super::{Error, be16, take};

/// The 8 bytes of header.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv6<'a> {
    head: &'a [u8; 8],
}

impl<'a> Icmpv6<'a> {
    /// A view over the header.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 8 bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, _) = take(bytes)?;
        Ok(Self { head })
    }

    /// Type of message.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.head[0]
    }

    /// Code within the type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.head[1]
    }

    /// Whether the message is router or neighbour solicitation or advertisement, or a redirect.
    #[inline]
    pub fn is_neighbour_discovery(&self) -> bool {
        matches!(self.kind(), ROUTER_SOLICITATION..=REDIRECT)
    }

    /// Identifier of an echo request or reply, none for other types.
    #[inline]
    pub fn id(&self) -> Option<u16> {
        matches!(self.kind(), ECHO | ECHO_REPLY).then(|| be16(self.head[4], self.head[5]))
    }
}

/// Echo request.
pub const ECHO: u8 = 128;
/// Echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Router solicitation, the first of the five types of neighbour discovery.
pub const ROUTER_SOLICITATION: u8 = 133;
/// Redirect, the last of them.
pub const REDIRECT: u8 = 137;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_echoes_have_an_identifier_and_five_types_discover_neighbours() {
        for kind in 0..=255 {
            let bytes = crate::wire::golden::icmp(kind);
            let icmp = Icmpv6::parse(&bytes).unwrap();
            let id = [128, 129].contains(&kind).then_some(0x0102);
            assert_eq!((icmp.kind(), icmp.code(), icmp.id()), (kind, 0, id));
            assert_eq!(icmp.is_neighbour_discovery(), [133, 134, 135, 136, 137].contains(&kind));
        }
        assert_eq!(Icmpv6::parse(&[128; 7]).err(), Some(Error::Truncated));
    }
}
