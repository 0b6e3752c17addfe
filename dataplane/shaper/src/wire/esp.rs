//! Encapsulating security payload (RFC 4303): the part in clear.

use super::{Error, take};

/// Index and sequence number.
#[derive(Clone, Copy, Debug)]
pub struct Esp<'a> {
    head: &'a [u8; 8],
}

impl<'a> Esp<'a> {
    /// A view over the header.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 8 bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, _) = take(bytes)?;
        Ok(Self { head })
    }

    /// Security parameters index. It names the association in one direction only.
    #[inline]
    pub fn spi(&self) -> u32 {
        let h = self.head;
        u32::from_be_bytes([h[0], h[1], h[2], h[3]])
    }

    /// Sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        let h = self.head;
        u32::from_be_bytes([h[4], h[5], h[6], h[7]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let bytes = crate::wire::golden::esp();
        let esp = Esp::parse(&bytes).unwrap();
        assert_eq!((esp.spi(), esp.sequence()), (0xe1e2_e3e4, 9));
        assert_eq!(Esp::parse(&bytes[..7]).err(), Some(Error::Truncated));
    }
}
