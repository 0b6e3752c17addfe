//! A burst of packets: a fixed array of mbuf pointers between receive and transmit.
//!
//! A queue in the order of arrival: receive appends, [`Burst::pop`] takes from the front, transmit
//! takes from the front as many as the driver accepts. What is left is moved to the front of the
//! array when room is needed behind it. Dropping a burst frees what is left in one call.

use std::mem::MaybeUninit;

use dpdk_sys::rte_mbuf;

use crate::mbuf::{Mbuf, MbufError, prefetch};
use crate::mempool::Mempool;

/// Up to [`Burst::CAPACITY`] owned packets.
pub struct Burst {
    /// `start..end` are initialised and owned.
    mbufs: [MaybeUninit<Mbuf>; Burst::CAPACITY],
    start: usize,
    end: usize,
}

impl Burst {
    /// The most packets a burst holds: two of DPDK's usual 32.
    pub const CAPACITY: usize = 64;

    /// An empty burst.
    pub const fn new() -> Self {
        Self { mbufs: [const { MaybeUninit::uninit() }; Self::CAPACITY], start: 0, end: 0 }
    }

    /// Packets in it.
    #[inline]
    pub const fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Packets that still fit in.
    #[inline]
    pub const fn room(&self) -> usize {
        Self::CAPACITY - self.len()
    }

    /// The packets, first one first.
    #[inline]
    pub fn as_slice(&self) -> &[Mbuf] {
        // SAFETY: start..end are initialised, and MaybeUninit<Mbuf> is laid out like Mbuf.
        unsafe { std::slice::from_raw_parts(self.mbufs.as_ptr().add(self.start).cast(), self.len()) }
    }

    /// The packets, for changing them.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Mbuf] {
        // SAFETY: as above, borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.mbufs.as_mut_ptr().add(self.start).cast(), self.len()) }
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: start..end are initialised; the slot leaves the range.
        let mbuf = unsafe { self.mbufs[self.start].assume_init_read() };
        self.start += 1;
        Some(mbuf)
    }

    /// Takes the packets one by one, first one first; those not taken stay.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Mbuf> + '_ {
        std::iter::from_fn(|| self.pop())
    }

    /// Appends a packet; gives it back if the burst is full.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        if self.end == Self::CAPACITY {
            if self.start == 0 {
                return Err(mbuf);
            }
            self.compact();
        }
        self.mbufs[self.end].write(mbuf);
        self.end += 1;
        Ok(())
    }

    /// Loads the header of packet `index` into the cache; nothing if there is no such packet.
    #[inline]
    pub fn prefetch_header(&self, index: usize) {
        if let Some(mbuf) = self.as_slice().get(index) {
            // SAFETY: Mbuf is a transparent pointer; the address is not read, only prefetched.
            let raw = unsafe { std::mem::transmute_copy::<Mbuf, *const rte_mbuf>(mbuf) };
            prefetch(raw.cast());
        }
    }

    /// Loads the first bytes of packet `index` into the cache; nothing if there is no such packet.
    /// Reads its header, so that one shall be there already.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if let Some(mbuf) = self.as_slice().get(index) {
            mbuf.prefetch();
        }
    }

    /// Frees all packets in one call.
    #[inline]
    pub fn clear(&mut self) {
        let (start, len) = (self.start, self.len());
        (self.start, self.end) = (0, 0);
        if len > 0 {
            // SAFETY: the slots were initialised and have left the range: freed once.
            unsafe {
                let first = self.mbufs.as_mut_ptr().add(start).cast::<*mut rte_mbuf>();
                dpdk_sys::shim_mbuf_free_bulk(first, len as u32);
            }
        }
    }

    /// Lets `fill` write up to `limit` pointers behind the last packet and say how many it did.
    ///
    /// # Safety
    /// `fill` writes as many owned, non-null chains as it says, and no more than it was allowed.
    #[inline]
    pub(crate) unsafe fn fill(
        &mut self,
        limit: usize,
        fill: impl FnOnce(*mut *mut rte_mbuf, u16) -> u16,
    ) -> usize {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.compact();
        }
        let room = (Self::CAPACITY - self.end).min(limit);
        // SAFETY: end is in bounds or one past the array, with `room` slots behind it.
        let first = unsafe { self.mbufs.as_mut_ptr().add(self.end).cast::<*mut rte_mbuf>() };
        let got = usize::from(fill(first, room as u16)).min(room);
        self.end += got;
        got
    }

    /// Lets `take` take packets from the front and say how many it took.
    ///
    /// # Safety
    /// `take` becomes the owner of the first chains, as many as it says.
    #[inline]
    pub(crate) unsafe fn take(&mut self, take: impl FnOnce(*mut *mut rte_mbuf, u16) -> u16) -> usize {
        // SAFETY: start is in bounds or one past the array.
        let first = unsafe { self.mbufs.as_mut_ptr().add(self.start).cast::<*mut rte_mbuf>() };
        let taken = usize::from(take(first, self.len() as u16)).min(self.len());
        self.start += taken;
        taken
    }

    /// Keeps the packets for which `keep` says so, in order; returns how many were freed.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Mbuf) -> bool) -> usize {
        let mut freed = 0;
        for _ in 0..self.len() {
            let Some(mut mbuf) = self.pop() else { break };
            if keep(&mut mbuf) {
                // The slot that pop vacated is free, so this cannot fail.
                let _ = self.push(mbuf);
            } else {
                freed += 1;
            }
        }
        freed
    }

    pub(crate) fn alloc_from(&mut self, pool: &Mempool, count: usize) -> Result<(), MbufError> {
        if count > self.room() {
            return Err(MbufError::NoRoom);
        }
        // SAFETY: rte_pktmbuf_alloc_bulk writes all `n` pointers or none.
        let got = unsafe {
            self.fill(count, |first, n| {
                let ret = dpdk_sys::shim_mbuf_alloc_bulk(pool.as_ptr(), first, u32::from(n));
                if ret == 0 { n } else { 0 }
            })
        };
        if got == count { Ok(()) } else { Err(MbufError::Exhausted) }
    }

    /// Moves the packets to the front of the array.
    fn compact(&mut self) {
        let len = self.len();
        let base = self.mbufs.as_mut_ptr();
        // SAFETY: both ranges lie in the array; the slots left behind are outside start..end.
        unsafe { std::ptr::copy(base.add(self.start), base, len) };
        (self.start, self.end) = (0, len);
    }
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Burst {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
