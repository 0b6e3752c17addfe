//! MPLS label stack (RFC 3032, RFC 5462).

use super::{Error, take};

/// One entry of the label stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u32);

/// A whole label stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    service: u32,
    payload: &'a [u8],
}

impl Entry {
    /// Label, 0..2^20.
    #[inline]
    pub fn label(self) -> u32 {
        self.0 >> 12
    }

    /// Traffic class, 0..=7.
    #[inline]
    pub fn traffic_class(self) -> u8 {
        (self.0 >> 9) as u8 & 7
    }

    /// Whether this is the last entry.
    #[inline]
    pub fn is_bottom(self) -> bool {
        self.0 & 0x100 != 0
    }

    /// Time to live.
    #[inline]
    pub fn ttl(self) -> u8 {
        self.0 as u8
    }
}

impl<'a> Stack<'a> {
    /// Walks down to the bottom of the stack.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the bottom is not reached, [`Error::TooDeep`] when it lies deeper
    /// than [`MAX_LABELS`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (mut service, mut rest, mut entropy) = (0, bytes, false);
        for _ in 0..MAX_LABELS {
            let (&head, payload) = take(rest)?;
            let entry = Entry(u32::from_be_bytes(head));
            if entry.label() >= FIRST_UNRESERVED && !entropy {
                service = entry.label();
            }
            entropy = entry.label() == ENTROPY_INDICATOR;
            rest = payload;
            if entry.is_bottom() {
                return Ok(Self { service, payload });
            }
        }
        Err(Error::TooDeep)
    }

    /// The innermost label that names a destination: not reserved and no entropy label (RFC 6790);
    /// 0 if there is none. Where a VPN or pseudowire is carried this is the label that names it;
    /// the labels above only say by which way it goes.
    #[inline]
    pub fn service_label(&self) -> u32 {
        self.service
    }

    /// What follows the stack. Its first four bits hint at what it is (RFC 4928).
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Deepest stack that is walked. Segment routing imposes about ten labels.
pub const MAX_LABELS: usize = 16;
/// Labels 0..=15 are reserved (RFC 7274).
const FIRST_UNRESERVED: u32 = 16;
/// The entry after this label is an entropy label (RFC 6790).
const ENTROPY_INDICATOR: u32 = 7;
