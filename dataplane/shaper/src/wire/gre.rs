//! GRE header version 0 (RFC 2784, RFC 2890).

use super::{Error, be16, take};

/// The header with its optional fields, and what it carries.
#[derive(Clone, Copy, Debug)]
pub struct Gre<'a> {
    protocol: u16,
    key: Option<u32>,
    payload: &'a [u8],
}

impl<'a> Gre<'a> {
    /// A view over the packet.
    ///
    /// # Errors
    /// [`Error::Truncated`] when an optional field is not all there; [`Error::Malformed`] for
    /// another version (1 is PPTP) and for the source routes of RFC 1701, which RFC 2784 took out.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, mut rest) = take::<4>(bytes)?;
        let flags = be16(head[0], head[1]);
        if flags & (VERSION | ROUTING) != 0 {
            return Err(Error::Malformed);
        }
        if flags & CHECKSUM != 0 {
            (_, rest) = take::<4>(rest)?;
        }
        let mut key = None;
        if flags & KEY != 0 {
            let (&bytes, after) = take(rest)?;
            key = Some(u32::from_be_bytes(bytes));
            rest = after;
        }
        if flags & SEQUENCE != 0 {
            (_, rest) = take::<4>(rest)?;
        }
        Ok(Self { protocol: be16(head[2], head[3]), key, payload: rest })
    }

    /// EtherType of what is carried.
    #[inline]
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// The key, where there is one.
    #[inline]
    pub fn key(&self) -> Option<u32> {
        self.key
    }

    /// What is carried.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;
    use std::vec::Vec;

    #[test]
    fn every_combination_of_optional_fields() {
        for bits in 0..8u16 {
            let mut optional = Vec::new();
            for (bit, field) in [(4, [0xca, 0xfe, 0, 0]), (2, [0, 0, 0, 9]), (1, [0, 0, 0, 1])] {
                if bits & bit != 0 {
                    optional.extend(field);
                }
            }
            // Checksum, key and sequence number: bits 0, 2 and 3 of RFC 2784 and RFC 2890.
            let flags = (bits & 4) << 13 | (bits & 2) << 12 | (bits & 1) << 12;
            let bytes = golden::gre(flags, 0x0800, &optional, &[9; 5]);
            let gre = Gre::parse(&bytes).unwrap();
            assert_eq!((gre.protocol(), gre.payload()), (0x0800, &[9; 5][..]));
            assert_eq!(gre.key(), (bits & 2 != 0).then_some(9));
            for len in 0..bytes.len() - 5 {
                assert_eq!(Gre::parse(&bytes[..len]).err(), Some(Error::Truncated));
            }
        }
        for flags in [0x0001, 0x4000] {
            let bytes = golden::gre(flags, 0x0800, &[0; 8], &[9; 5]);
            assert_eq!(Gre::parse(&bytes).err(), Some(Error::Malformed), "version 1, source route");
        }
    }
}
