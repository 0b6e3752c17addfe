//! VXLAN header (RFC 7348).

use super::{Error, take};

/// The 8 bytes after the UDP header, and the Ethernet frame that is carried.
#[derive(Clone, Copy, Debug)]
pub struct Vxlan<'a> {
    head: &'a [u8; 8],
    payload: &'a [u8],
}

impl<'a> Vxlan<'a> {
    /// A view over the payload of a UDP datagram to [`PORT`].
    ///
    /// # Errors
    /// [`Error::Truncated`] below 8 bytes; [`Error::Malformed`] unless the flags say that there is a
    /// network identifier and nothing else.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = take::<8>(bytes)?;
        if head[0] != FLAG_VNI {
            return Err(Error::Malformed);
        }
        Ok(Self { head, payload })
    }

    /// VXLAN network identifier, 0..2^24.
    #[inline]
    pub fn vni(&self) -> u32 {
        u32::from_be_bytes([0, self.head[4], self.head[5], self.head[6]])
    }

    /// The frame that is carried.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// UDP destination port.
pub const PORT: u16 = 4789;
const FLAG_VNI: u8 = 0x08;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let datagram = crate::wire::golden::vxlan(0xabcdef, &[9; 5]);
        let bytes = &datagram[8..];
        let vxlan = Vxlan::parse(bytes).unwrap();
        assert_eq!((vxlan.vni(), vxlan.payload()), (0xabcdef, &[9; 5][..]));
        assert_eq!(Vxlan::parse(&bytes[..7]).err(), Some(Error::Truncated));
        assert_eq!(Vxlan::parse(&[0; 8]).err(), Some(Error::Malformed));
    }
}
