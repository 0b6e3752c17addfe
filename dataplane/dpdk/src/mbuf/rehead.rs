//! A first segment of one's own for a packet whose first segment is somebody else's as well.

use super::{Mbuf, MbufError, flags};
use crate::mempool::Mempool;

impl Mbuf {
    /// Moves the packet's first bytes, `len` or as many as there are, into a buffer of `pool` that
    /// becomes the first segment; segments that have nothing left are freed. What is said of the
    /// packet (flags, lengths, type, tag) stays.
    ///
    /// # Errors
    /// [`MbufError::Exhausted`], [`MbufError::NoRoom`] if the buffer cannot take that much or the chain
    /// no further segment; the packet is as before.
    pub fn rehead(&mut self, pool: &Mempool, len: usize) -> Result<(), MbufError> {
        let len = len.min(self.pkt_len() as usize);
        if self.nb_segs() == u16::MAX {
            return Err(MbufError::NoRoom);
        }
        let mut head = pool.alloc()?;
        let room = head.append(len)?;
        self.read(0, room);
        let (from, to) = (self.raw(), head.raw_mut());
        to.ol_flags = from.ol_flags & !flags::OWNERSHIP;
        to.port = from.port;
        to.packet_type = from.packet_type;
        to.vlan_tci = from.vlan_tci;
        to.rss = from.rss;
        to.tx_offload = from.tx_offload;
        let rest = std::mem::replace(self, head);
        if let Some(rest) = rest.without_first(len) {
            // The segments were counted above, and the bytes are those that were there before.
            let _ = self.chain(rest);
        }
        Ok(())
    }

    /// What is left behind the first `len` bytes; `None` if that is nothing.
    fn without_first(mut self, mut len: usize) -> Option<Self> {
        loop {
            let first = usize::from(self.raw().data_len);
            if len < first {
                // Less than the 65535 bytes that a segment has.
                return self.adj(len as u16).then_some(self);
            }
            len -= first;
            self = self.without_first_segment()?;
        }
    }

    fn without_first_segment(self) -> Option<Self> {
        let (segs, len, gone) = (self.nb_segs(), self.pkt_len(), u32::from(self.raw().data_len));
        let first = self.into_raw();
        // SAFETY: the chain was ours, and the first segment's part of it is given up once: `next` is
        // the rest of the chain if there are more segments.
        unsafe {
            let rest = if segs > 1 { (*first).next } else { std::ptr::null_mut() };
            dpdk_sys::shim_mbuf_free_seg(first);
            let mut rest = Self::from_raw(rest)?;
            rest.raw_mut().nb_segs = segs - 1;
            rest.raw_mut().pkt_len = len - gone;
            Some(rest)
        }
    }
}
