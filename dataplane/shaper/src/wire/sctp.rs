//! SCTP common header (RFC 9260).

use super::{Error, be16, take};

/// The 12 bytes of header and the chunks.
#[derive(Clone, Copy, Debug)]
pub struct Sctp<'a> {
    head: &'a [u8; 12],
    chunks: &'a [u8],
}

impl<'a> Sctp<'a> {
    /// A view over the packet.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 12 bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, chunks) = take(bytes)?;
        Ok(Self { head, chunks })
    }

    /// Source port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        be16(self.head[0], self.head[1])
    }

    /// Destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        be16(self.head[2], self.head[3])
    }

    /// Verification tag of the receiver.
    #[inline]
    pub fn verification_tag(&self) -> u32 {
        let h = self.head;
        u32::from_be_bytes([h[4], h[5], h[6], h[7]])
    }

    /// The chunks.
    #[inline]
    pub fn chunks(&self) -> &'a [u8] {
        self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let bytes = crate::wire::golden::sctp();
        let sctp = Sctp::parse(&bytes).unwrap();
        assert_eq!((sctp.source_port(), sctp.destination_port()), (1000, 2000));
        assert_eq!((sctp.verification_tag(), sctp.chunks()), (0xdead_beef, &[3, 0, 0, 16][..]));
        assert_eq!(Sctp::parse(&bytes[..11]).err(), Some(Error::Truncated));
    }
}
