//! A second holder of a packet's first segment, to see when everybody else has let go of it.
//!
//! A driver frees a packet when the device is done with it. Where the first segment has a second
//! holder, the driver's free leaves that segment: its count of holders falls back to one, and that
//! is the completion. Meaningless where a driver copies and frees within the burst, and wrong with
//! `MBUF_FAST_FREE`, which is never asked for.

use std::fmt;
use std::ptr::{NonNull, addr_of, addr_of_mut};
use std::sync::atomic::{AtomicU16, Ordering};

use dpdk_sys::rte_mbuf;

use super::{Mbuf, is_ours};

/// A holder of a first segment beside the packet's owner. One pointer wide. It reads and writes
/// nothing of the packet but who holds it.
#[repr(transparent)]
pub struct Held(NonNull<rte_mbuf>);

// SAFETY: counts holders atomically, and frees through a pool that any thread may use.
unsafe impl Send for Held {}

impl Mbuf {
    /// Holds the first segment beside the packet. `None` if it has several holders already, or its
    /// buffer is not its own: others would be seen to let go of it.
    ///
    /// While it is held, the bytes of the first segment cannot be written, and the packet cannot be
    /// linearized.
    #[inline]
    pub fn hold(&mut self) -> Option<Held> {
        if !is_ours(self.raw()) {
            return None;
        }
        // One holder, which is borrowed exclusively: nobody counts at the same time.
        self.raw().refcnt.store(2, Ordering::Relaxed);
        Some(Held(self.0))
    }
}

impl Held {
    /// Whether the packet has been freed by its owner.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.refcnt().load(Ordering::Acquire) == 1
    }

    #[inline]
    fn refcnt(&self) -> &AtomicU16 {
        // SAFETY: the segment is valid as long as it is held. Only the count is referred to: the rest
        // may be written by the owner meanwhile.
        unsafe { &*addr_of!((*self.0.as_ptr()).refcnt) }
    }
}

impl Drop for Held {
    /// Lets go. The last to do so frees the segment, and that one only: the owner's free has taken
    /// the rest of the chain, and has left its traces in this one.
    #[inline]
    fn drop(&mut self) {
        let last = self.is_complete() || self.refcnt().fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            let segment = self.0.as_ptr();
            // SAFETY: the only holder of a direct segment. The pool demands what is set here.
            unsafe {
                (*addr_of!((*segment).refcnt)).store(1, Ordering::Relaxed);
                addr_of_mut!((*segment).next).write(std::ptr::null_mut());
                addr_of_mut!((*segment).nb_segs).write(1);
                dpdk_sys::shim_mbuf_raw_free(segment);
            }
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("is_complete", &self.is_complete()).finish()
    }
}
