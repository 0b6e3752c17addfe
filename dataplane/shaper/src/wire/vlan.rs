//! VLAN tag of IEEE 802.1Q and 802.1ad: what follows a tag protocol identifier (TPID).

use super::protocol::{ETHERTYPE_QINQ, ETHERTYPE_QINQ_OLD, ETHERTYPE_VLAN};
use super::{Error, be16, take};

/// Tag control information, the EtherType of what is tagged, and that.
#[derive(Clone, Copy, Debug)]
pub struct Vlan<'a> {
    head: &'a [u8; 4],
    payload: &'a [u8],
}

/// Whether a tag follows this EtherType.
#[inline]
pub const fn is_tpid(ethertype: u16) -> bool {
    matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ | ETHERTYPE_QINQ_OLD)
}

impl<'a> Vlan<'a> {
    /// A view over the bytes after the TPID.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 4 bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = take(bytes)?;
        Ok(Self { head, payload })
    }

    /// VLAN identifier, 0..=4095; 0 in a tag that carries a priority only.
    #[inline]
    pub fn id(&self) -> u16 {
        be16(self.head[0], self.head[1]) & 0x0fff
    }

    /// Priority code point, 0..=7.
    #[inline]
    pub fn priority(&self) -> u8 {
        self.head[0] >> 5
    }

    /// Drop eligible indicator.
    #[inline]
    pub fn drop_eligible(&self) -> bool {
        self.head[0] & 0x10 != 0
    }

    /// EtherType of what is tagged, maybe another TPID.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        be16(self.head[2], self.head[3])
    }

    /// What is tagged.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let bytes = crate::wire::golden::tag(0xb123, 0x86dd, &[9; 5]);
        let tag = Vlan::parse(&bytes).unwrap();
        assert_eq!((tag.id(), tag.priority(), tag.drop_eligible()), (0x123, 5, true));
        assert_eq!((tag.ethertype(), tag.payload()), (0x86dd, &[9; 5][..]));
        assert_eq!(Vlan::parse(&bytes[..3]).err(), Some(Error::Truncated));
        assert!(is_tpid(0x8100) && is_tpid(0x88a8) && is_tpid(0x9100) && !is_tpid(0x0800));
    }
}
