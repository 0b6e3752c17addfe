//! Ethernet II and IEEE 802.3 header, without preamble and FCS.

use super::{Error, be16, take};

/// The 14 bytes of header and what follows.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a> {
    head: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// A view over the frame.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 14 bytes.
    #[inline]
    pub fn parse(frame: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = take(frame)?;
        Ok(Self { head, payload })
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> [u8; 6] {
        let h = self.head;
        [h[0], h[1], h[2], h[3], h[4], h[5]]
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> [u8; 6] {
        let h = self.head;
        [h[6], h[7], h[8], h[9], h[10], h[11]]
    }

    /// EtherType; below 0x0600 the length of an IEEE 802.3 frame.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        be16(self.head[12], self.head[13])
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;

    #[test]
    fn fields() {
        let frame = golden::ethernet(0x0800, &[9; 5]);
        let ethernet = Ethernet::parse(&frame).unwrap();
        assert_eq!((ethernet.destination(), ethernet.source()), (golden::MAC_B, golden::MAC_A));
        assert_eq!((ethernet.ethertype(), ethernet.payload()), (0x0800, &[9; 5][..]));
        assert_eq!(Ethernet::parse(&frame[..13]).err(), Some(Error::Truncated));
    }
}
