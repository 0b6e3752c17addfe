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
