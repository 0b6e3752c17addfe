//! A packet: the owner of a chain of DPDK buffers (DPDK programmer's guide, "Mbuf Library").
//!
//! [`Mbuf`] is one pointer wide and never null, so `Option<Mbuf>` is one pointer too. Dropping it
//! frees the chain. Bytes can be written only where they are nobody else's: in a direct segment
//! with one holder.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use dpdk_sys::rte_mbuf;
use thiserror::Error;

use crate::mempool::Mempool;

mod cursor;
pub mod flags;
mod held;
mod rehead;

pub use held::Held;

pub use cursor::Cursor;

/// An owned packet of one or more segments.
#[repr(transparent)]
pub struct Mbuf(NonNull<rte_mbuf>);

const _: () = assert!(size_of::<Option<Mbuf>>() == size_of::<usize>());

/// Why a packet could not be made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MbufError {
    /// The pool has no buffer left.
    #[error("the mempool has no buffer left")]
    Exhausted,
    /// The buffer, the chain or the burst cannot take that much.
    #[error("no room for it in the buffer, the chain or the burst")]
    NoRoom,
    /// The bytes belong to somebody else as well.
    #[error("the buffer is shared and must not be written")]
    Shared,
}

/// Header lengths and segment size for TX offloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffload {
    /// Bytes before the network header, 0..=127.
    pub l2_len: u16,
    /// Bytes of the network header, 0..=511.
    pub l3_len: u16,
    /// Bytes of the transport header, 0..=255.
    pub l4_len: u16,
    /// Payload bytes per segment (MSS); 0 without segmentation.
    pub tso_segsz: u16,
    /// Bytes of the network header around a tunnel, 0..=511; 0 without one.
    pub outer_l3_len: u16,
    /// Bytes before that, 0..=127; `l2_len` counts what lies between the two network headers then.
    pub outer_l2_len: u16,
}

// SAFETY: an Mbuf is the only handle of its chain, and DPDK's free goes through a pool that any
// thread may use.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// A packet with a copy of `bytes`, in as many segments as they need.
    ///
    /// # Errors
    /// [`MbufError::Exhausted`]; nothing is kept then.
    pub fn from_bytes(pool: &Mempool, bytes: &[u8]) -> Result<Self, MbufError> {
        let mut packet = pool.alloc()?;
        let room = usize::from(packet.tailroom()).max(1);
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        packet.append(first.len())?.copy_from_slice(first);
        for part in rest.chunks(room) {
            let mut tail = pool.alloc()?;
            tail.append(part.len())?.copy_from_slice(part);
            packet.chain(tail).map_err(|_| MbufError::NoRoom)?;
        }
        Ok(packet)
    }

    /// Length of the packet in bytes, all segments.
    #[inline]
    pub fn pkt_len(&self) -> u32 {
        self.raw().pkt_len
    }

    /// Number of segments, at least 1.
    #[inline]
    pub fn nb_segs(&self) -> u16 {
        self.raw().nb_segs
    }

    /// Port it came in by; 65535 if none said so (net_ring does not).
    #[inline]
    pub fn port(&self) -> u16 {
        self.raw().port
    }

    /// The bytes of the first segment.
    #[inline]
    pub fn head(&self) -> &[u8] {
        // SAFETY: a segment of our chain, borrowed as long as the result.
        unsafe { data(self.0) }
    }

    /// The bytes of the first segment for writing; `None` if they are shared.
    #[inline]
    pub fn head_mut(&mut self) -> Option<&mut [u8]> {
        if !is_ours(self.raw()) {
            return None;
        }
        let segment = self.raw();
        // SAFETY: the data lies inside the buffer, and one holder of a direct buffer means that
        // no other mbuf refers to it; `self` is borrowed exclusively as long as the result.
        Some(unsafe { std::slice::from_raw_parts_mut(start(segment), usize::from(segment.data_len)) })
    }

    /// Whether the bytes of the first segment may be written: they are nobody else's.
    #[inline]
    pub fn is_writable(&self) -> bool {
        is_ours(self.raw())
    }

    /// The bytes of each segment, in order.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        Segments { next: Some(self.0), left: self.nb_segs(), chain: std::marker::PhantomData }
    }

    /// Copies bytes from `offset` on into `into`, across segments; returns how many there were.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        let mut skip = offset;
        let mut done = 0;
        for segment in self.segments() {
            let part = segment.get(skip..).unwrap_or(&[]);
            skip = skip.saturating_sub(segment.len());
            let take = part.len().min(into.len() - done);
            into[done..done + take].copy_from_slice(&part[..take]);
            done += take;
            if done == into.len() {
                break;
            }
        }
        done
    }

    /// Memory the packet occupies in bytes: the sum over its segments of the buffer, the mbuf
    /// header and its private data.
    #[inline]
    pub fn truesize(&self) -> u32 {
        let mut sum = 0u32;
        let mut next = Some(self.0);
        for _ in 0..self.nb_segs() {
            let Some(segment) = next else { break };
            // SAFETY: a segment of our chain.
            let segment = unsafe { segment.as_ref() };
            sum = sum.saturating_add(
                u32::from(segment.buf_len) + u32::from(segment.priv_size) + dpdk_sys::MBUF_SIZE,
            );
            next = NonNull::new(segment.next);
        }
        sum
    }

    /// Free bytes in front of the data.
    #[inline]
    pub fn headroom(&self) -> u16 {
        self.raw().data_off
    }

    /// Free bytes behind the data of the last segment.
    #[inline]
    pub fn tailroom(&self) -> u16 {
        // SAFETY: a segment of our chain.
        tailroom(unsafe { self.last().as_ref() })
    }

    /// Lengthens the packet at its end by `len` bytes of the last segment and returns them; what
    /// they hold is left from earlier use.
    ///
    /// # Errors
    /// [`MbufError::NoRoom`] or [`MbufError::Shared`].
    #[inline]
    pub fn append(&mut self, len: usize) -> Result<&mut [u8], MbufError> {
        let mut last = self.last();
        // SAFETY: a segment of our chain, and no other reference into the chain is alive.
        let segment = unsafe { last.as_mut() };
        let add = u16::try_from(len).ok().filter(|add| *add <= tailroom(segment)).ok_or(MbufError::NoRoom)?;
        if !is_ours(segment) {
            return Err(MbufError::Shared);
        }
        let old = usize::from(segment.data_len);
        segment.data_len += add;
        // SAFETY: old + len lies inside the buffer, as the tailroom says; nobody else holds it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start(segment).add(old), len) };
        self.raw_mut().pkt_len += u32::from(add);
        Ok(bytes)
    }

    /// Lengthens the packet at its start by `len` bytes and returns them.
    ///
    /// # Errors
    /// [`MbufError::NoRoom`] or [`MbufError::Shared`].
    pub fn prepend(&mut self, len: usize) -> Result<&mut [u8], MbufError> {
        let segment = self.raw_mut();
        let add = u16::try_from(len).ok().filter(|add| *add <= segment.data_off).ok_or(MbufError::NoRoom)?;
        if !is_ours(segment) {
            return Err(MbufError::Shared);
        }
        segment.data_len = segment.data_len.checked_add(add).ok_or(MbufError::NoRoom)?;
        segment.data_off -= add;
        segment.pkt_len += u32::from(add);
        // SAFETY: the bytes lie in what was the headroom; nobody else holds the buffer.
        Ok(unsafe { std::slice::from_raw_parts_mut(start(segment), len) })
    }

    /// Cuts `len` bytes off the start; `false`, and nothing done, if the first segment has fewer.
    #[must_use]
    #[inline]
    pub fn adj(&mut self, len: u16) -> bool {
        let segment = self.raw_mut();
        if len > segment.data_len {
            return false;
        }
        segment.data_len -= len;
        segment.data_off += len;
        segment.pkt_len -= u32::from(len);
        true
    }

    /// Cuts `len` bytes off the end; `false`, and nothing done, if the last segment has fewer.
    #[must_use]
    pub fn trim(&mut self, len: u16) -> bool {
        let mut last = self.last();
        // SAFETY: a segment of our chain, and no other reference into the chain is alive.
        let segment = unsafe { last.as_mut() };
        if len > segment.data_len {
            return false;
        }
        segment.data_len -= len;
        self.raw_mut().pkt_len -= u32::from(len);
        true
    }

    /// Appends the segments of `tail`.
    ///
    /// # Errors
    /// Gives `tail` back if the chain would have more than 65535 segments or 4 GiB.
    pub fn chain(&mut self, tail: Self) -> Result<(), Self> {
        self.chain_all(std::iter::once(tail)).map_or(Ok(()), Err)
    }

    /// Appends the segments of all `tails` in order: one walk to the end of the chain for all of them.
    /// Stops at the first that does not fit and gives it back.
    #[inline]
    pub fn chain_all(&mut self, tails: impl Iterator<Item = Self>) -> Option<Self> {
        let mut last = self.last();
        for tail in tails {
            let (segs, len) =
                (self.nb_segs().checked_add(tail.nb_segs()), self.pkt_len().checked_add(tail.pkt_len()));
            let (Some(segs), Some(len)) = (segs, len) else { return Some(tail) };
            let end = tail.last();
            // SAFETY: a segment of our chain, and no other reference into the chain is alive; `tail`
            // gives up its ownership to it.
            unsafe { last.as_mut().next = tail.into_raw() };
            let head = self.raw_mut();
            head.nb_segs = segs;
            head.pkt_len = len;
            last = end;
        }
        None
    }

    /// The packet without its first `len` bytes, and without the first segment if that held no more.
    ///
    /// # Errors
    /// Gives it back as it was if the first segment has fewer.
    #[inline]
    pub fn without_front(mut self, len: u16) -> Result<Self, Self> {
        if !self.adj(len) {
            return Err(self);
        }
        let (left, segs, bytes) = (self.raw().data_len, self.nb_segs(), self.pkt_len());
        let Some(mut rest) = NonNull::new(self.raw().next).filter(|_| left == 0 && segs > 1) else {
            return Ok(self);
        };
        let first = self.raw_mut();
        first.next = std::ptr::null_mut();
        first.nb_segs = 1;
        // SAFETY: the second segment of our chain, which is in no chain any more.
        let head = unsafe { rest.as_mut() };
        head.nb_segs = segs - 1;
        head.pkt_len = bytes;
        Ok(Self(rest))
    }

    /// Copies all bytes into the first segment, for drivers without multi-segment support.
    ///
    /// # Errors
    /// [`MbufError::NoRoom`] if they do not fit there, [`MbufError::Shared`] if it is shared.
    pub fn linearize(&mut self) -> Result<(), MbufError> {
        if self.nb_segs() == 1 {
            return Ok(());
        }
        if !is_ours(self.raw()) {
            return Err(MbufError::Shared);
        }
        // SAFETY: our chain; DPDK checks the room, copies, and frees the other segments.
        let ret = unsafe { dpdk_sys::shim_mbuf_linearize(self.0.as_ptr()) };
        if ret == 0 { Ok(()) } else { Err(MbufError::NoRoom) }
    }

    /// Offload flags, see [`flags`].
    #[inline]
    pub fn ol_flags(&self) -> u64 {
        self.raw().ol_flags
    }

    /// Sets the offload flags, but not those that say whose the buffer is.
    #[inline]
    pub fn set_ol_flags(&mut self, flags: u64) {
        let kept = self.raw().ol_flags & flags::OWNERSHIP;
        self.raw_mut().ol_flags = (flags & !flags::OWNERSHIP) | kept;
    }

    /// What the driver says of the headers, `RTE_PTYPE_*`; 0 if it says nothing.
    #[inline]
    pub fn packet_type(&self) -> u32 {
        self.raw().packet_type
    }

    /// Sets the packet type.
    #[inline]
    pub fn set_packet_type(&mut self, packet_type: u32) {
        self.raw_mut().packet_type = packet_type;
    }

    /// RSS hash, valid if the flags say so.
    #[inline]
    pub fn rss(&self) -> u32 {
        self.raw().rss
    }

    /// VLAN tag that the port stripped, valid if the flags say so.
    #[inline]
    pub fn vlan_tci(&self) -> u16 {
        self.raw().vlan_tci
    }

    /// Header lengths and segment size for TX offloads; `tso_segsz` is also the MSS of a packet
    /// received with LRO.
    #[inline]
    pub fn tx_offload(&self) -> TxOffload {
        let word = self.raw().tx_offload;
        let field = |shift: u32, bits: u32| ((word >> shift) & ((1 << bits) - 1)) as u16;
        TxOffload {
            l2_len: field(0, L2_BITS),
            l3_len: field(L3_SHIFT, L3_BITS),
            l4_len: field(L4_SHIFT, L4_BITS),
            tso_segsz: field(TSO_SHIFT, TSO_BITS),
            outer_l3_len: field(OUTER_L3_SHIFT, OUTER_L3_BITS),
            outer_l2_len: field(OUTER_L2_SHIFT, OUTER_L2_BITS),
        }
    }

    /// Sets the header lengths; what does not fit into a field is cut off.
    #[inline]
    pub fn set_tx_offload(&mut self, offload: TxOffload) {
        let field = |value: u16, shift: u32, bits: u32| (u64::from(value) & ((1 << bits) - 1)) << shift;
        self.raw_mut().tx_offload = field(offload.l2_len, 0, L2_BITS)
            | field(offload.l3_len, L3_SHIFT, L3_BITS)
            | field(offload.l4_len, L4_SHIFT, L4_BITS)
            | field(offload.tso_segsz, TSO_SHIFT, TSO_BITS)
            | field(offload.outer_l3_len, OUTER_L3_SHIFT, OUTER_L3_BITS)
            | field(offload.outer_l2_len, OUTER_L2_SHIFT, OUTER_L2_BITS);
    }

    /// Number of holders of the first segment.
    #[inline]
    pub fn refcnt(&self) -> u16 {
        self.raw().refcnt.load(Ordering::Relaxed)
    }

    /// Loads the packet's header and first bytes into the cache.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.head().as_ptr().cast());
    }

    /// # Safety
    /// `raw` is null or a chain that nobody else will free.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut rte_mbuf) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// Gives the chain away: the caller must see to it that it is freed.
    #[inline]
    pub(crate) fn into_raw(self) -> *mut rte_mbuf {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    #[inline]
    fn raw(&self) -> &rte_mbuf {
        // SAFETY: an owned mbuf is valid until it is dropped.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn raw_mut(&mut self) -> &mut rte_mbuf {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { self.0.as_mut() }
    }

    #[inline]
    fn last(&self) -> NonNull<rte_mbuf> {
        let mut last = self.0;
        for _ in 1..self.nb_segs() {
            // SAFETY: a segment of our chain.
            let Some(next) = NonNull::new(unsafe { last.as_ref() }.next) else { break };
            last = next;
        }
        last
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the only handle of the chain goes.
        unsafe { dpdk_sys::shim_mbuf_free(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf")
            .field("pkt_len", &self.pkt_len())
            .field("nb_segs", &self.nb_segs())
            .field("ol_flags", &format_args!("{:#x}", self.ol_flags()))
            .finish()
    }
}

/// Iterator over the bytes of a packet's segments.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    next: Option<NonNull<rte_mbuf>>,
    left: u16,
    chain: std::marker::PhantomData<&'a Mbuf>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let segment = self.next.filter(|_| self.left > 0)?;
        self.left -= 1;
        // SAFETY: a segment of the chain that 'a borrows.
        unsafe {
            self.next = NonNull::new(segment.as_ref().next);
            Some(data(segment))
        }
    }
}

/// # Safety
/// `segment` is valid for 'a and its bytes are not written meanwhile.
#[inline]
unsafe fn data<'a>(segment: NonNull<rte_mbuf>) -> &'a [u8] {
    // SAFETY: the caller's promise; data_off + data_len lies inside the buffer in every mbuf.
    unsafe {
        let segment = segment.as_ref();
        std::slice::from_raw_parts(start(segment), usize::from(segment.data_len))
    }
}

#[inline]
fn start(segment: &rte_mbuf) -> *mut u8 {
    segment.buf_addr.cast::<u8>().wrapping_add(usize::from(segment.data_off))
}

#[inline]
fn tailroom(segment: &rte_mbuf) -> u16 {
    segment.buf_len.saturating_sub(segment.data_off).saturating_sub(segment.data_len)
}

/// One holder, and the buffer is the segment's own. Acquire: what a former holder did to the bytes
/// happened before.
#[inline]
fn is_ours(segment: &rte_mbuf) -> bool {
    segment.ol_flags & flags::OWNERSHIP == 0 && segment.refcnt.load(Ordering::Acquire) == 1
}

#[inline]
pub(crate) fn prefetch(address: *const c_void) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

const L2_BITS: u32 = dpdk_sys::MBUF_BITS_L2_LEN;
const L3_BITS: u32 = dpdk_sys::MBUF_BITS_L3_LEN;
const L4_BITS: u32 = dpdk_sys::MBUF_BITS_L4_LEN;
const TSO_BITS: u32 = dpdk_sys::MBUF_BITS_TSO_SEGSZ;
const L3_SHIFT: u32 = L2_BITS;
const L4_SHIFT: u32 = L3_SHIFT + L3_BITS;
const TSO_SHIFT: u32 = L4_SHIFT + L4_BITS;
const OUTER_L3_BITS: u32 = dpdk_sys::MBUF_BITS_OUTER_L3_LEN;
const OUTER_L2_BITS: u32 = dpdk_sys::MBUF_BITS_OUTER_L2_LEN;
const OUTER_L3_SHIFT: u32 = TSO_SHIFT + TSO_BITS;
const OUTER_L2_SHIFT: u32 = OUTER_L3_SHIFT + OUTER_L3_BITS;
