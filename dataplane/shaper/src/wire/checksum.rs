//! Internet checksum: in full (RFC 1071), of pseudo headers, and by increments (RFC 1624).

/// A one's complement sum under way. Order of the 16-bit words does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes; an odd last one counts as the high byte of a word, so that only the last call
    /// may be given an odd number; [`Sum::at`] has no such limit. Exact up to 4 GiB.
    ///
    /// Words are added as the machine reads them, four at a time and in two lanes: byte order only
    /// swaps the bytes of a one's complement sum (RFC 1071 section 2(B)).
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let mut lanes = [0u64; BLOCK / 4];
        for block in blocks {
            for (lane, &word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(word));
            }
        }
        let (words, rest) = rest.as_chunks::<4>();
        let words: u64 = words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum();
        let mut last = [0; 4];
        for (to, &from) in last.iter_mut().zip(rest) {
            *to = from;
        }
        let native = lanes.iter().sum::<u64>() + words + u64::from(u32::from_ne_bytes(last));
        Self(self.0 + u64::from(Self(native).fold().to_be()))
    }

    /// Adds bytes that lie `offset` bytes into the data: a sum over pieces of any lengths.
    #[inline]
    #[must_use]
    pub fn at(self, offset: usize, bytes: &[u8]) -> Self {
        let sum = Self::default().bytes(bytes);
        self.plus(if offset & 1 == 0 { sum.0 } else { sum.fold().swap_bytes().into() })
    }

    /// Adds a sum, or words that were added up before.
    #[inline]
    #[must_use]
    pub const fn plus(self, sum: u64) -> Self {
        Self(self.0 + sum)
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

/// Bytes that are added in one step: four lanes of the narrowest vector unit, twice.
const BLOCK: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// RFC 1071 section 4.1, word by word.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn all_lengths_and_contents_agree_with_the_slow_sum() {
        let noise: Vec<u8> = (0..3000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for len in (0..200).chain([1447, 1448, 1449, 2999, 3000]) {
            for start in 0..(3000 - len).min(5) {
                let bytes = &noise[start..start + len];
                assert_eq!(Sum::default().bytes(bytes).fold(), slow(bytes), "{len} bytes from {start}");
            }
            assert_eq!(Sum::default().bytes(&std::vec![0xff; len]).fold(), slow(&std::vec![0xff; len]));
            assert_eq!(Sum::default().bytes(&std::vec![0; len]).fold(), 0);
        }
    }

    #[test]
    fn the_sum_does_not_depend_on_where_the_data_are_cut() {
        let noise: Vec<u8> = (0..257u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for first in 0..60 {
            for second in first..120 {
                let sum = Sum::default()
                    .at(0, &noise[..first])
                    .at(first, &noise[first..second])
                    .at(second, &noise[second..]);
                assert_eq!(sum.fold(), slow(&noise), "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn sixty_four_kilobytes_of_ones_do_not_overflow() {
        assert_eq!(Sum::default().bytes(&std::vec![0xff; 1 << 20]).fold(), 0xffff);
    }

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
