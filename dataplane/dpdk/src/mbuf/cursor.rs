//! Reading a packet from front to back, and giving parts of it away by reference.
//!
//! A part given away is an indirect mbuf: it refers to bytes in the buffer of another and is one of its
//! holders (DPDK programmer's guide, "Mbuf Library", "Direct and Indirect Buffers"). The buffer goes back
//! to its pool when the last holder is freed, in whatever order. While there are several, nobody can
//! write its bytes.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use dpdk_sys::rte_mbuf;

use super::{Mbuf, MbufError, data, flags, is_ours, prefetch};
use crate::burst::Burst;

/// A place in a packet that only moves forward.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    /// The segment that the next byte lies in.
    segment: Option<NonNull<rte_mbuf>>,
    /// Segments from there on.
    left: u16,
    /// Bytes of it that are behind.
    at: u16,
    packet: PhantomData<&'a Mbuf>,
}

impl Mbuf {
    /// A cursor `offset` bytes into the packet. Walks there: once for each segment before it.
    #[inline]
    pub fn cursor(&self, offset: u32) -> Cursor<'_> {
        let mut cursor = Cursor { segment: Some(self.0), left: self.nb_segs(), at: 0, packet: PhantomData };
        cursor.skip(offset);
        cursor
    }
}

impl<'a> Cursor<'a> {
    /// Moves `len` bytes forward, to the end of the packet at most.
    #[inline]
    pub fn skip(&mut self, len: u32) {
        let mut left = len;
        while left > 0
            && let Some(chunk) = self.chunk(left)
        {
            left -= chunk.len() as u32;
        }
    }

    /// The bytes that follow in one segment, `most` at most; `None` at the end of the packet.
    #[inline]
    pub fn chunk(&mut self, most: u32) -> Option<&'a [u8]> {
        let segment = self.occupied()?;
        // SAFETY: a segment of the packet that 'a borrows.
        let rest = unsafe { data(segment) }.get(usize::from(self.at)..)?;
        let chunk = rest.get(..most as usize).unwrap_or(rest);
        self.at += chunk.len() as u16;
        Some(chunk)
    }

    /// Segments from the one that the cursor stands in to the last.
    #[inline]
    pub fn segments_left(&self) -> u16 {
        self.left
    }

    /// Appends the `len` bytes that follow to `onto`, by reference: one mbuf out of `fresh` for each
    /// segment that they lie in. Returns how many.
    ///
    /// # Errors
    /// [`MbufError::Exhausted`] if `fresh` holds too few; [`MbufError::NoRoom`] if the packet has fewer
    /// bytes, the chain would be too long or a buffer has too many holders; [`MbufError::Shared`] for a
    /// buffer that is not from a mempool, or a mbuf in `fresh` that is not fresh. `onto` has a part of
    /// them then.
    #[inline]
    pub fn share(&mut self, len: u32, onto: &mut Mbuf, fresh: &mut Burst) -> Result<u16, MbufError> {
        let mut tail = onto.last();
        let (mut left, mut count) = (len, 0);
        while left > 0 {
            let source = self.occupied().ok_or(MbufError::NoRoom)?;
            // SAFETY: a segment of the packet that 'a borrows.
            let (there, offset) = unsafe { (source.as_ref().data_len - self.at, source.as_ref().data_off) };
            let take = left.min(u32::from(there)) as u16;
            let segs = onto.nb_segs().checked_add(1).ok_or(MbufError::NoRoom)?;
            let bytes = onto.pkt_len().checked_add(u32::from(take)).ok_or(MbufError::NoRoom)?;
            let mut part = attach(source, fresh)?;
            // SAFETY: `part` is a fresh mbuf that nobody else knows, and refers to the source's bytes:
            // offset, at and take lie inside what the source says it holds. `tail` is the last segment of
            // `onto`, which is borrowed exclusively.
            unsafe {
                let part = part.as_mut();
                part.data_off = offset + self.at;
                part.data_len = take;
                tail.as_mut().next = part;
            }
            tail = part;
            let head = onto.raw_mut();
            head.nb_segs = segs;
            head.pkt_len = bytes;
            self.at += take;
            left -= u32::from(take);
            count += 1;
        }
        Ok(count)
    }

    /// The segment that the next byte lies in; passes those that hold no more.
    #[inline]
    fn occupied(&mut self) -> Option<NonNull<rte_mbuf>> {
        loop {
            let segment = self.segment.filter(|_| self.left > 0)?;
            // SAFETY: a segment of the packet that 'a borrows.
            let raw = unsafe { segment.as_ref() };
            if self.at < raw.data_len {
                return Some(segment);
            }
            self.segment = NonNull::new(raw.next);
            self.left -= 1;
            self.at = 0;
            if let Some(next) = self.segment {
                // SAFETY: as above, where there is one more. Its header is read when this one is used up.
                let after = unsafe { next.as_ref() }.next.cast::<u8>();
                prefetch(after.cast());
                prefetch(after.wrapping_add(64).cast());
            }
        }
    }
}

/// A mbuf out of `fresh` that refers to the buffer of `source`: `rte_pktmbuf_attach` without what is said in
/// the first segment of a packet alone, some 4 ns less (Zen 4, 2026-11).
#[inline]
fn attach(source: NonNull<rte_mbuf>, fresh: &mut Burst) -> Result<NonNull<rte_mbuf>, MbufError> {
    // SAFETY: the caller's packet is valid.
    let raw = unsafe { source.as_ref() };
    if raw.ol_flags & flags::EXTERNAL != 0 {
        return Err(MbufError::Shared);
    }
    let owner = if raw.ol_flags & flags::INDIRECT == 0 { source } else { owner_of(raw) };
    // SAFETY: the owner lives as long as one mbuf refers to its buffer.
    let count = unsafe { &owner.as_ref().refcnt };
    let holders = count.load(Ordering::Relaxed);
    if holders >= HOLDERS_MAX {
        return Err(MbufError::NoRoom);
    }
    let part = fresh.pop().ok_or(MbufError::Exhausted)?;
    if part.nb_segs() != 1 || !is_ours(part.raw()) {
        return Err(MbufError::Shared);
    }
    // The caller's packet is the only holder: nobody else counts (`rte_mbuf_refcnt_update`).
    if holders == 1 {
        count.store(2, Ordering::Relaxed);
    } else {
        count.fetch_add(1, Ordering::AcqRel);
    }
    let part = part.into_raw();
    // SAFETY: `part` is not null, direct, has one segment and one holder, us. `raw` is another mbuf, whose
    // buffer comes from a mempool and counts `part` as a holder.
    unsafe {
        (*part).buf_addr = raw.buf_addr;
        (*part).buf_iova = raw.buf_iova;
        (*part).buf_len = raw.buf_len;
        (*part).priv_size = raw.priv_size;
        (*part).ol_flags = flags::INDIRECT;
        Ok(NonNull::new_unchecked(part))
    }
}

/// The mbuf whose buffer an indirect one refers to: it lies right before that buffer
/// (`rte_mbuf_from_indirect`).
#[inline]
fn owner_of(indirect: &rte_mbuf) -> NonNull<rte_mbuf> {
    let before = dpdk_sys::MBUF_SIZE as usize + usize::from(indirect.priv_size);
    let owner = indirect.buf_addr.cast::<u8>().wrapping_sub(before);
    // SAFETY: a buffer is not at the lowest addresses, and its mbuf precedes it.
    unsafe { NonNull::new_unchecked(owner.cast()) }
}

/// Most holders of one buffer. Their number has 16 bits; workers that share the same buffer at once may
/// each see it one too low.
const HOLDERS_MAX: u16 = u16::MAX - 1024;
