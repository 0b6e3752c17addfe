//! Internet checksum: in full (RFC 1071), of pseudo headers, and by increments (RFC 1624).

/// A one's complement sum under way. Order of the 16-bit words does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes; an odd last one counts as the high byte of a word, so that only the last call
    /// may be given an odd number. Exact up to 2^48 bytes.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (pairs, last) = bytes.as_chunks::<2>();
        let sum: u64 = pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum();
        let last = last.first().map_or(0, |&byte| u64::from(byte) << 8);
        Self(self.0 + sum + last)
    }

    /// Adds one word.
    #[inline]
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Adds the pseudo header of IPv4 (RFC 9293 section 3.1); `len` is that of transport header and
    /// payload.
    #[must_use]
    pub fn pseudo_v4(self, source: [u8; 4], destination: [u8; 4], protocol: u8, len: u16) -> Self {
        self.bytes(&source).bytes(&destination).word(u16::from(protocol)).word(len)
    }

    /// Adds the pseudo header of IPv6 (RFC 8200 section 8.1).
    #[must_use]
    pub fn pseudo_v6(self, source: [u8; 16], destination: [u8; 16], protocol: u8, len: u32) -> Self {
        self.bytes(&source).bytes(&destination).bytes(&len.to_be_bytes()).word(u16::from(protocol))
    }

    /// The sum folded to 16 bits, not complemented; 0xffff over data that contain a right checksum.
    #[inline]
    pub fn fold(self) -> u16 {
        let mut sum = self.0;
        for _ in 0..4 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum over what was added. For UDP the caller writes 0xffff where this is 0.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// The checksum after a word under it has changed (RFC 1624 equation 3). A wrong checksum stays
/// wrong by the same amount.
#[inline]
#[must_use]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::default().word(!checksum).word(!old).word(new).checksum()
}
