//! PPPoE session header (RFC 2516) and the PPP protocol field behind it (RFC 1661).

use super::{Error, be16, take};

/// The PPPoE header, the PPP protocol and what follows.
#[derive(Clone, Copy, Debug)]
pub struct Pppoe<'a> {
    head: &'a [u8; 6],
    protocol: u16,
    payload: &'a [u8],
}

impl<'a> Pppoe<'a> {
    /// A view over a packet of the session stage.
    ///
    /// The PPP protocol may be compressed to one byte: RFC 2516 advises against negotiating that,
    /// but does not forbid it, and the lowest bit of the first byte tells the two forms apart.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the PPP protocol is not all there; [`Error::Malformed`] unless
    /// version and type are 1 and the code is 0.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, rest) = take::<6>(bytes)?;
        if head[0] != VERSION_AND_TYPE || head[1] != CODE_SESSION {
            return Err(Error::Malformed);
        }
        let (&[first], compressed) = take(rest)?;
        if first & 1 != 0 {
            return Ok(Self { head, protocol: u16::from(first), payload: compressed });
        }
        let (&[second], payload) = take(compressed)?;
        Ok(Self { head, protocol: be16(first, second), payload })
    }

    /// Session identifier, unique between two MAC addresses.
    #[inline]
    pub fn session(&self) -> u16 {
        be16(self.head[2], self.head[3])
    }

    /// Length of PPP protocol and payload as the header states it.
    #[inline]
    pub fn length(&self) -> u16 {
        be16(self.head[4], self.head[5])
    }

    /// PPP protocol, decompressed.
    #[inline]
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// Whether the PPP protocol controls the link (LCP, authentication, echo) or a network layer
    /// (IPCP, IPV6CP): RFC 1661 section 2 gives them the values from 0x8000 on.
    #[inline]
    pub fn is_control(&self) -> bool {
        self.protocol >= FIRST_CONTROL
    }

    /// What follows the PPP protocol.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// PPP protocol of IPv4 (RFC 1332).
pub const PPP_IPV4: u16 = 0x0021;
/// PPP protocol of IPv6 (RFC 5072).
pub const PPP_IPV6: u16 = 0x0057;
/// PPP protocol of MPLS (RFC 3032).
pub const PPP_MPLS: u16 = 0x0281;
const FIRST_CONTROL: u16 = 0x8000;
const VERSION_AND_TYPE: u8 = 0x11;
const CODE_SESSION: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::golden;

    #[test]
    fn both_forms_of_the_protocol() {
        for (protocol, expected) in
            [(&[0x00, 0x57][..], PPP_IPV6), (&[0x57], PPP_IPV6), (&[0x02, 0x81], PPP_MPLS)]
        {
            let bytes = golden::pppoe(0x1234, protocol, &[9; 5]);
            let pppoe = Pppoe::parse(&bytes).unwrap();
            assert_eq!((pppoe.session(), pppoe.protocol(), pppoe.is_control()), (0x1234, expected, false));
            assert_eq!((usize::from(pppoe.length()), pppoe.payload()), (protocol.len() + 5, &[9; 5][..]));
        }
    }

    #[test]
    fn what_is_no_session() {
        let bytes = golden::pppoe(1, &[0xc0, 0x21], &[9; 5]);
        assert!(Pppoe::parse(&bytes).unwrap().is_control(), "LCP");
        assert_eq!(Pppoe::parse(&bytes[..7]).err(), Some(Error::Truncated));
        assert_eq!(Pppoe::parse(&bytes[..6]).err(), Some(Error::Truncated));
        for start in [[0x11, 0x09], [0x21, 0x00]] {
            let wrong = [&start[..], &bytes[2..]].concat();
            assert_eq!(Pppoe::parse(&wrong).err(), Some(Error::Malformed));
        }
    }
}
