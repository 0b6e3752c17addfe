//! Rewriting the DS field of the outermost IP header (RFC 2474, RFC 3168).
//!
//! Only the outermost header is touched, also of a tunnel: by RFC 6040 a congested node marks what it
//! forwards by, and the end of the tunnel carries a mark over to the inner header or drops a packet
//! whose inner header is not ECN-capable. A mark set inside would skip that rule and would, under
//! IPsec, break the packet. The outermost header is looked for behind VLAN tags, PPPoE and MPLS.

use super::ipv4::{self, Ipv4};
use super::ipv6::Ipv6;
use super::protocol::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use super::{be16, checksum, link};
use crate::packet::DsField;

/// What became of a rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// The field has the new value now.
    Done,
    /// The field had the value before; no byte was touched.
    Unchanged,
    /// The transport is not ECN-capable, so that a mark would mean nothing; no byte was touched.
    NotEct,
    /// No IP header could be found in these bytes; none was touched.
    NotIp,
}

/// Sets CE in the outermost IP header of the frame. `frame` is its contiguous head, `wire_len` the
/// length of all of it in bytes.
#[inline]
pub fn mark(frame: &mut [u8], wire_len: usize) -> Rewrite {
    rewrite(frame, wire_len, |old| if old & CE == NOT_ECT { None } else { Some(old | CE) })
}

/// Sets all eight bits of the DS field of the outermost IP header of the frame.
#[inline]
pub fn set_ds(frame: &mut [u8], wire_len: usize, bits: u8) -> Rewrite {
    rewrite(frame, wire_len, |_| Some(bits))
}

#[inline]
fn rewrite(frame: &mut [u8], wire_len: usize, new: impl FnOnce(u8) -> Option<u8>) -> Rewrite {
    let network = link::find(frame, wire_len);
    let Some(bytes) = frame.get_mut(usize::from(network.offset)..) else { return Rewrite::NotIp };
    match network.ethertype {
        ETHERTYPE_IPV4 => rewrite_v4(bytes, new),
        ETHERTYPE_IPV6 => rewrite_v6(bytes, new),
        _ => Rewrite::NotIp,
    }
}

#[inline]
fn rewrite_v4(bytes: &mut [u8], new: impl FnOnce(u8) -> Option<u8>) -> Rewrite {
    let Ok(ip) = Ipv4::parse(bytes) else { return Rewrite::NotIp };
    let (old, checksum) = (ip.ds(), ip.checksum());
    let Some(new) = new(old) else { return Rewrite::NotEct };
    let Some(head) = bytes.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return Rewrite::NotIp };
    if new == old {
        return Rewrite::Unchanged;
    }
    let checksum = checksum::update(checksum, be16(head[0], old), be16(head[0], new)).to_be_bytes();
    head[1] = new;
    [head[10], head[11]] = checksum;
    Rewrite::Done
}

#[inline]
fn rewrite_v6(bytes: &mut [u8], new: impl FnOnce(u8) -> Option<u8>) -> Rewrite {
    let Ok(ip) = Ipv6::parse(bytes) else { return Rewrite::NotIp };
    let old = ip.ds();
    let Some(new) = new(old) else { return Rewrite::NotEct };
    let Some(head) = bytes.first_chunk_mut::<2>() else { return Rewrite::NotIp };
    if new == old {
        return Rewrite::Unchanged;
    }
    *head = [6 << 4 | new >> 4, new << 4 | head[1] & 15];
    Rewrite::Done
}

const CE: u8 = DsField::CE;
const NOT_ECT: u8 = DsField::NOT_ECT;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksum::Sum;
    use crate::wire::golden::{self, Bytes};

    /// The IPv4 header of an untagged frame.
    const HEADER: core::ops::Range<usize> = 14..34;

    fn frame_v4() -> Bytes {
        golden::ethernet(ETHERTYPE_IPV4, &golden::ipv4(17, &[0xdd; 20]))
    }

    /// By how much the header checksum is wrong, in one's complement: 0 when it is right.
    fn error(frame: &[u8]) -> u16 {
        Sum::default().bytes(&frame[HEADER]).fold() % 0xffff
    }

    fn recompute(frame: &mut [u8]) {
        frame[24..26].fill(0);
        let checksum = Sum::default().bytes(&frame[HEADER]).checksum();
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }

    #[test]
    fn every_right_checksum_becomes_what_a_full_computation_gives() {
        let mut zeros = 0;
        for identification in 0..=u16::MAX {
            let mut frame = frame_v4();
            frame[18..20].copy_from_slice(&identification.to_be_bytes());
            recompute(&mut frame);
            for bits in [0x00, 0x01, 0x03, 0x57, 0xb8, 0xb9, 0xbb, 0xfe, 0xff] {
                let old = frame[15];
                let expected = if old == bits { Rewrite::Unchanged } else { Rewrite::Done };
                assert_eq!(set_ds(&mut frame, 54, bits), expected);
                let mut full = frame.clone();
                recompute(&mut full);
                assert_eq!(frame, full);
                zeros += u32::from(frame[24..26] == [0, 0]);
            }
        }
        assert!(zeros >= 9, "zero was among them for every value of the field");
    }

    #[test]
    fn every_change_of_the_field() {
        for old in 0..=255 {
            for new in 0..=255 {
                let mut frame = frame_v4();
                frame[15] = old;
                recompute(&mut frame);
                set_ds(&mut frame, 54, new);
                assert_eq!((frame[15], error(&frame)), (new, 0), "{old} to {new}");
            }
        }
    }

    #[test]
    fn every_wrong_checksum_stays_wrong_by_as_much() {
        for checksum in 0..=u16::MAX {
            let mut frame = frame_v4();
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            let before = error(&frame);
            for bits in [0x00, 0x01, 0x03, 0x57, 0xb8, 0xb9, 0xbb, 0xfe, 0xff] {
                set_ds(&mut frame, 54, bits);
                assert_eq!((frame[15], error(&frame)), (bits, before), "{checksum:04x}");
            }
        }
    }

    #[test]
    fn only_what_is_capable_is_marked_and_only_once() {
        let with = |bits: u8| {
            let mut frame = frame_v4();
            frame[15] = bits;
            frame
        };
        for (bits, expected, after) in [
            (0xb8, Rewrite::NotEct, 0xb8),
            (0xb9, Rewrite::Done, 0xbb),
            (0xba, Rewrite::Done, 0xbb),
            (0xbb, Rewrite::Unchanged, 0xbb),
        ] {
            let mut frame = with(bits);
            assert_eq!(mark(&mut frame, 54), expected);
            let mut untouched = with(bits);
            assert_eq!(frame[15], after);
            untouched[15] = after;
            untouched[24..26].copy_from_slice(&frame[24..26]);
            assert_eq!(frame, untouched);
        }
        let mut arp = golden::ethernet(0x0806, &[0; 46]);
        assert_eq!(mark(&mut arp, 60), Rewrite::NotIp);
        assert_eq!(mark(&mut frame_v4()[..33], 54), Rewrite::NotIp, "a header that is cut off");
    }

    #[test]
    fn ipv6_keeps_its_version_and_flow_label() {
        let packet = golden::ipv6_with(0xabcde, 64, 17, &[0; 8]);
        let mut frame = golden::ethernet(ETHERTYPE_IPV6, &packet);
        for bits in 0..=255 {
            set_ds(&mut frame, 62, bits);
            let ip = Ipv6::parse(&frame[14..]).unwrap();
            assert_eq!((ip.ds(), ip.flow_label()), (bits, 0xabcde));
            assert_eq!(frame[18..], packet[4..]);
        }
    }

    #[test]
    fn of_a_tunnel_only_the_outer_header_is_marked_whatever_lies_before_it() {
        let inner = golden::ipv4(4, &golden::carried());
        let in_session = golden::tag(7, 0x8864, &golden::pppoe(2, &[0, 0x21], &inner));
        for (frame, at) in [
            (golden::ethernet(0x0800, &inner), 14),
            (golden::ethernet(0x88a8, &golden::tag(5, 0x8100, &in_session)), 30),
            (golden::ethernet(0x8847, &golden::mpls(&[77, 78], &inner)), 22),
        ] {
            let mut marked = frame.clone();
            assert_eq!(mark(&mut marked, frame.len()), Rewrite::Done);
            assert_eq!(marked[at + 1], golden::DS | 3);
            assert_eq!(Sum::default().bytes(&marked[at..at + 20]).fold(), 0xffff);
            assert_eq!((&marked[..at], &marked[at + 12..]), (&frame[..at], &frame[at + 12..]));
        }
    }
}
