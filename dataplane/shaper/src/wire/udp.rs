//! UDP header (RFC 768).

use super::{Error, be16, take};

/// The 8 bytes of header and what follows.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a> {
    head: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// A view over the datagram.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 8 bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = take(bytes)?;
        Ok(Self { head, payload })
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

    /// Length of header and payload as the header states it; 0 in a jumbogram.
    #[inline]
    pub fn length(&self) -> u16 {
        be16(self.head[4], self.head[5])
    }

    /// Checksum as it stands; 0 says that there is none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.head[6], self.head[7])
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let bytes = crate::wire::golden::udp(2000, &[9; 5]);
        let udp = Udp::parse(&bytes).unwrap();
        assert_eq!((udp.source_port(), udp.destination_port()), (1000, 2000));
        assert_eq!((udp.length(), udp.checksum(), udp.payload()), (13, 0xabcd, &[9; 5][..]));
        assert_eq!(Udp::parse(&bytes[..7]).err(), Some(Error::Truncated));
    }
}
