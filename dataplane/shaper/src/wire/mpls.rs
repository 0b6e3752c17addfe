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

impl From<[u8; 4]> for Entry {
    #[inline]
    fn from(bytes: [u8; 4]) -> Self {
        Self(u32::from_be_bytes(bytes))
    }
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
            let entry = Entry::from(head);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;

    #[test]
    fn an_entry() {
        let entry = Entry(0xabcde << 12 | 5 << 9 | 1 << 8 | 64);
        assert_eq!(
            (entry.label(), entry.traffic_class(), entry.is_bottom(), entry.ttl()),
            (0xabcde, 5, true, 64)
        );
    }

    #[test]
    fn the_service_label_is_the_innermost_that_names_a_destination() {
        for (labels, service) in [
            (&[77][..], 77),
            (&[77, 78], 78),
            (&[77, 0], 77),
            (&[0], 0),
            (&[77, 7, 4711], 77),
            (&[77, 7, 4711, 78], 78),
            (&[7, 7, 78], 0),
        ] {
            let bytes = golden::mpls(labels, &[9; 5]);
            let stack = Stack::parse(&bytes).unwrap();
            assert_eq!((stack.service_label(), stack.payload()), (service, &[9; 5][..]), "{labels:?}");
        }
    }

    #[test]
    fn the_walk_is_bounded() {
        let deepest = golden::mpls(&[77; MAX_LABELS], &[]);
        assert_eq!(Stack::parse(&deepest).unwrap().service_label(), 77);
        assert_eq!(Stack::parse(&deepest[..63]).err(), Some(Error::Truncated));
        assert_eq!(Stack::parse(&golden::mpls(&[77; MAX_LABELS + 1], &[])).err(), Some(Error::TooDeep));
    }
}
