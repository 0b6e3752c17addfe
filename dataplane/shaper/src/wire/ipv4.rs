//! IPv4 header (RFC 791, RFC 2474, RFC 3168).

use super::{Error, be16, take};

/// The fixed 20 bytes and what follows them.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    head: &'a [u8; HEADER_LEN],
    rest: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// A view over the fixed part; options may still be cut off.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 20 bytes; [`Error::Malformed`] unless the version is 4 and the
    /// header length at least 20.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, rest) = take(bytes)?;
        if head[0] >> 4 != 4 || head[0] & 15 < 5 {
            return Err(Error::Malformed);
        }
        Ok(Self { head, rest })
    }

    /// Length of the header with its options, 20..=60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.head[0] & 15) * 4
    }

    /// The DS field: DSCP and ECN bits.
    #[inline]
    pub fn ds(&self) -> u8 {
        self.head[1]
    }

    /// Length of header and payload as the header states it; 0 in some super-packets.
    #[inline]
    pub fn total_len(&self) -> u16 {
        be16(self.head[2], self.head[3])
    }

    /// Identification, common to all fragments of a datagram.
    #[inline]
    pub fn identification(&self) -> u16 {
        be16(self.head[4], self.head[5])
    }

    /// Whether routers must not fragment it.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.head[6] & 0x40 != 0
    }

    /// Whether this is a fragment, the first one included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        be16(self.head[6], self.head[7]) & 0x3fff != 0
    }

    /// Position of a fragment in the datagram in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u32 {
        u32::from(be16(self.head[6], self.head[7]) & 0x1fff) * 8
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.head[8]
    }

    /// What follows, see [`super::protocol`].
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.head[9]
    }

    /// Header checksum, as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.head[10], self.head[11])
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> [u8; 4] {
        let h = self.head;
        [h[12], h[13], h[14], h[15]]
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> [u8; 4] {
        let h = self.head;
        [h[16], h[17], h[18], h[19]]
    }

    /// The options, 0..=40 bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] when they are not all there.
    #[inline]
    pub fn options(&self) -> Result<&'a [u8], Error> {
        self.rest.get(..self.header_len() - HEADER_LEN).ok_or(Error::Truncated)
    }

    /// The bytes after the options, padding of the link layer included.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the options are not all there.
    #[inline]
    pub fn payload(&self) -> Result<&'a [u8], Error> {
        self.rest.get(self.header_len() - HEADER_LEN..).ok_or(Error::Truncated)
    }
}

/// Length of the header without options in bytes.
pub const HEADER_LEN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;

    #[test]
    fn fields() {
        let packet = golden::V4 { options: &[1; 8], ..Default::default() }.carries(17, &[9; 5]);
        let ip = Ipv4::parse(&packet).unwrap();
        assert_eq!((ip.header_len(), ip.total_len(), ip.ds()), (28, 33, golden::DS));
        assert_eq!((ip.identification(), ip.ttl(), ip.protocol()), (0x1234, 64, 17));
        assert_eq!((ip.source(), ip.destination()), (golden::A4, golden::B4));
        assert_eq!(ip.checksum().to_be_bytes(), packet[10..12]);
        assert_eq!((ip.options(), ip.payload()), (Ok(&[1; 8][..]), Ok(&[9; 5][..])));
        let cut = Ipv4::parse(&packet[..27]).unwrap();
        assert_eq!((cut.options(), cut.payload()), (Err(Error::Truncated), Err(Error::Truncated)));
        assert_eq!(Ipv4::parse(&packet[..19]).err(), Some(Error::Truncated));
        for first in [0x44, 0x55, 0x65] {
            let wrong = [&[first][..], &packet[1..]].concat();
            assert_eq!(Ipv4::parse(&wrong).err(), Some(Error::Malformed));
        }
    }

    #[test]
    fn fragments() {
        for (field, dont, is, offset) in [
            (0x4000, true, false, 0),
            (0x2000, false, true, 0),
            (0x2001, false, true, 8),
            (0x1fff, false, true, 65528),
        ] {
            let packet = golden::V4 { fragment: field, ..Default::default() }.carries(17, &[]);
            let ip = Ipv4::parse(&packet).unwrap();
            assert_eq!((ip.dont_fragment(), ip.is_fragment(), ip.fragment_offset()), (dont, is, offset));
        }
    }
}
