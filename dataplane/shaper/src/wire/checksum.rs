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

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071 section 3.
    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).fold(), 0xddf2);
        assert_eq!(Sum::default().bytes(&bytes[..3]).bytes(&[]).fold(), 0xf201, "an odd last byte");
    }

    /// The example of RFC 1624 section 4, where the older equation gives 0xffff.
    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn pseudo_headers() {
        let datagram = [0x00, 0x35, 0x00, 0x35, 0x00, 0x0a, 0x00, 0x00, 0x68, 0x69];
        let v4 = Sum::default().pseudo_v4([192, 0, 2, 1], [192, 0, 2, 2], 17, 10).bytes(&datagram);
        // c000 + 0201 + c000 + 0202 + 0011 + 000a + 0035 + 0035 + 000a + 6869 = 1ecfb (by hand)
        assert_eq!(v4.checksum(), !0xecfc);
        let (a, b) = (super::super::golden::A6, super::super::golden::B6);
        let v6 = Sum::default().pseudo_v6(a, b, 17, 10).bytes(&datagram);
        // 2 * (2001 + 0db8) + 0001 + 0002 + 0011 + 000a + 0035 + 0035 + 000a + 6869 (by hand)
        assert_eq!(v6.checksum(), !0xc46d);
    }
}
