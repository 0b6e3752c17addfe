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
