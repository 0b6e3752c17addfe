//! ICMP header (RFC 792).

use super::{Error, be16, take};

/// The 8 bytes of header.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a> {
    head: &'a [u8; 8],
}

impl<'a> Icmp<'a> {
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

    /// Identifier of a query and its reply (echo, timestamp), none for other types.
    #[inline]
    pub fn id(&self) -> Option<u16> {
        let query = matches!(self.kind(), ECHO_REPLY | ECHO | TIMESTAMP | TIMESTAMP_REPLY);
        query.then(|| be16(self.head[4], self.head[5]))
    }
}

/// Echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Echo request.
pub const ECHO: u8 = 8;
/// Timestamp request.
pub const TIMESTAMP: u8 = 13;
/// Timestamp reply.
pub const TIMESTAMP_REPLY: u8 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_queries_and_replies_have_an_identifier() {
        for kind in 0..=255 {
            let bytes = crate::wire::golden::icmp(kind);
            let icmp = Icmp::parse(&bytes).unwrap();
            let id = [0, 8, 13, 14].contains(&kind).then_some(0x0102);
            assert_eq!((icmp.kind(), icmp.code(), icmp.id()), (kind, 0, id));
        }
        assert_eq!(Icmp::parse(&[8; 7]).err(), Some(Error::Truncated));
    }
}
