//! TCP header and its options (RFC 9293, RFC 7323, RFC 2018).

use super::{Error, be16, take};

/// The fixed 20 bytes and what follows them.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    head: &'a [u8; HEADER_LEN],
    rest: &'a [u8],
}

/// One option: its kind and its data without kind and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOption<'a> {
    /// Kind, see the constants of this module.
    pub kind: u8,
    /// Data; empty for padding.
    pub data: &'a [u8],
}

/// Walk over the options; ends at the end-of-list option, at the end of the header or at the first
/// malformed option. At most 40 steps, for each takes a byte.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// A view over the fixed part; options may still be cut off.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 20 bytes; [`Error::Malformed`] when the data offset is below 5.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, rest) = take::<HEADER_LEN>(bytes)?;
        if head[12] >> 4 < 5 {
            return Err(Error::Malformed);
        }
        Ok(Self { head, rest })
    }

    /// Source port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        be16(self.head[0], self.head[1])
    }

    /// Destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        be16(self.head[2], self.head[3])
    }

    /// Sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        let h = self.head;
        u32::from_be_bytes([h[4], h[5], h[6], h[7]])
    }

    /// Acknowledgement number, meaningful with [`ACK`].
    #[inline]
    pub fn acknowledgement(&self) -> u32 {
        let h = self.head;
        u32::from_be_bytes([h[8], h[9], h[10], h[11]])
    }

    /// Length of the header with its options, 20..=60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.head[12] >> 4) * 4
    }

    /// The eight flags, see the constants of this module.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.head[13]
    }

    /// The four reserved bits; the lowest is AE of accurate ECN.
    #[inline]
    pub fn reserved(&self) -> u8 {
        self.head[12] & 15
    }

    /// Receive window, unscaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.head[14], self.head[15])
    }

    /// Checksum, as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.head[16], self.head[17])
    }

    /// Urgent pointer, meaningful with [`URG`].
    #[inline]
    pub fn urgent(&self) -> u16 {
        be16(self.head[18], self.head[19])
    }

    /// The options.
    ///
    /// # Errors
    /// [`Error::Truncated`] when they are not all there.
    #[inline]
    pub fn options(&self) -> Result<Options<'a>, Error> {
        let rest = self.rest.get(..self.header_len() - HEADER_LEN).ok_or(Error::Truncated)?;
        Ok(Options { rest })
    }

    /// The bytes after the options, padding of the link layer included.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the options are not all there.
    #[inline]
    pub fn payload(&self) -> Result<&'a [u8], Error> {
        self.rest.get(self.header_len() - HEADER_LEN..).ok_or(Error::Truncated)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = TcpOption<'a>;

    #[inline]
    fn next(&mut self) -> Option<TcpOption<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        if kind <= OPTION_NOP {
            self.rest = if kind == OPTION_END { &[] } else { rest };
            return (kind == OPTION_NOP).then_some(TcpOption { kind, data: &[] });
        }
        let bytes = core::mem::take(&mut self.rest);
        let len = usize::from(*rest.first()?);
        let data = bytes.get(2..len)?;
        self.rest = bytes.get(len..)?;
        Some(TcpOption { kind, data })
    }
}

/// Length of the header without options in bytes.
pub const HEADER_LEN: usize = 20;

/// No more data from the sender.
pub const FIN: u8 = 0x01;
/// Synchronize sequence numbers.
pub const SYN: u8 = 0x02;
/// Reset the connection.
pub const RST: u8 = 0x04;
/// Push.
pub const PSH: u8 = 0x08;
/// The acknowledgement number is valid.
pub const ACK: u8 = 0x10;
/// The urgent pointer is valid.
pub const URG: u8 = 0x20;
/// ECN echo (RFC 3168).
pub const ECE: u8 = 0x40;
/// Congestion window reduced (RFC 3168).
pub const CWR: u8 = 0x80;

/// End of the option list.
pub const OPTION_END: u8 = 0;
/// Padding.
pub const OPTION_NOP: u8 = 1;
/// Maximum segment size.
pub const OPTION_MSS: u8 = 2;
/// Selective acknowledgement.
pub const OPTION_SACK: u8 = 5;
/// Timestamps.
pub const OPTION_TIMESTAMPS: u8 = 8;
/// MD5 signature (RFC 2385).
pub const OPTION_MD5: u8 = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;
    use std::vec;
    use std::vec::Vec;

    fn options(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let segment = golden::tcp(bytes, &[0xee; 4]);
        let tcp = Tcp::parse(&segment).unwrap();
        assert_eq!(tcp.payload(), Ok(&[0xee; 4][..]));
        tcp.options().unwrap().map(|option| (option.kind, option.data.to_vec())).collect()
    }

    #[test]
    fn the_fixed_part() {
        let mut segment = golden::tcp(&[], &[]);
        segment[12] |= 1;
        let tcp = Tcp::parse(&segment).unwrap();
        assert_eq!((tcp.source_port(), tcp.destination_port()), (1000, 2000));
        assert_eq!((tcp.sequence(), tcp.acknowledgement()), (1, 2));
        assert_eq!((tcp.header_len(), tcp.reserved(), tcp.flags()), (20, 1, ACK | PSH));
        assert_eq!((tcp.window(), tcp.checksum(), tcp.urgent()), (0x1234, 0xabcd, 3));
        segment[12] = 0x40;
        assert_eq!(Tcp::parse(&segment).err(), Some(Error::Malformed));
        assert_eq!(Tcp::parse(&segment[..19]).err(), Some(Error::Truncated));
    }

    #[test]
    fn options_are_walked_to_the_end_or_to_the_first_that_is_wrong() {
        let timestamps = (OPTION_TIMESTAMPS, vec![0, 0, 0, 1, 0, 0, 0, 2]);
        let nop = (OPTION_NOP, vec![]);
        let one_nop = [nop.clone()];
        assert_eq!(options(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]), [nop.clone(), nop.clone(), timestamps]);
        assert_eq!(
            options(&[2, 4, 5, 0xb4, 1, 0, 8, 10]),
            [(OPTION_MSS, vec![5, 0xb4]), nop.clone()],
            "end of list"
        );
        assert_eq!(options(&[1, 5, 2, 5]), [nop.clone(), (OPTION_SACK, vec![])], "a length is missing");
        assert_eq!(options(&[1, 5, 1, 1]), one_nop, "a length below two");
        assert_eq!(options(&[1, 5, 0, 1]), one_nop, "a length of zero");
        assert_eq!(options(&[1, 5, 4, 1]), one_nop, "a length beyond the header");
        assert_eq!(options(&[1; 40]).len(), 40);
        let segment = golden::tcp(&[1; 8], &[]);
        let tcp = Tcp::parse(&segment[..27]).unwrap();
        assert_eq!((tcp.options().err(), tcp.payload()), (Some(Error::Truncated), Err(Error::Truncated)));
    }
}
