//! Authentication header (RFC 4302).

use super::{Error, take};

/// The fixed 12 bytes, the integrity check value and what follows.
#[derive(Clone, Copy, Debug)]
pub struct Ah<'a> {
    head: &'a [u8; FIXED_LEN],
    bytes: &'a [u8],
}

impl<'a> Ah<'a> {
    /// A view over the fixed part.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 12 bytes; [`Error::Malformed`] when the length says less.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, _) = take(bytes)?;
        let view = Self { head, bytes };
        if view.header_len() < FIXED_LEN { Err(Error::Malformed) } else { Ok(view) }
    }

    /// What follows, see [`super::protocol`].
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.head[0]
    }

    /// Length of the header with its integrity check value.
    #[inline]
    pub fn header_len(&self) -> usize {
        (usize::from(self.head[1]) + 2) * 4
    }

    /// Security parameters index.
    #[inline]
    pub fn spi(&self) -> u32 {
        let h = self.head;
        u32::from_be_bytes([h[4], h[5], h[6], h[7]])
    }

    /// What is authenticated, in clear.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the integrity check value is not all there.
    #[inline]
    pub fn payload(&self) -> Result<&'a [u8], Error> {
        self.bytes.get(self.header_len()..).ok_or(Error::Truncated)
    }
}

const FIXED_LEN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;

    #[test]
    fn fields() {
        let mut bytes = golden::ah(6, &[9; 5]);
        let ah = Ah::parse(&bytes).unwrap();
        assert_eq!((ah.next_header(), ah.header_len(), ah.spi()), (6, 24, 0xa1a2_a3a4));
        assert_eq!(ah.payload(), Ok(&[9; 5][..]));
        assert_eq!(Ah::parse(&bytes[..23]).unwrap().payload(), Err(Error::Truncated));
        assert_eq!(Ah::parse(&bytes[..11]).err(), Some(Error::Truncated));
        bytes[1] = 0;
        assert_eq!(Ah::parse(&bytes).err(), Some(Error::Malformed));
    }
}
