//! What makes virtio take back what the device is done with.
//!
//! virtio's transmit burst frees nothing until packets want more descriptors than are free, and an
//! empty burst returns at once. A packet of more segments than any ring has descriptors wants that
//! always: the driver takes back all it can, finds that it is not enough, and refuses it. Not more
//! than [`SEGMENTS`]: with 65535 the driver's 16-bit sum of descriptors overflows, and it takes the
//! packet (DPDK 22.11, in-order ring).

use std::fmt;
use std::sync::atomic::Ordering;

use dpdk_sys::rte_mbuf;

use crate::mbuf::Mbuf;
use crate::mempool::Mempool;

/// The packet that is refused.
pub(crate) struct Nudge {
    /// One segment that says that it is many, and has two holders, both of them us.
    packet: *mut rte_mbuf,
}

// SAFETY: the only handle of a packet, see Mbuf.
unsafe impl Send for Nudge {}

impl Nudge {
    /// Whether a driver is known to behave like that.
    pub(crate) fn works_on(driver: &str) -> bool {
        driver.starts_with("net_virtio")
    }

    /// Takes a buffer of `pool`; `None` if there is none.
    pub(crate) fn new(pool: &Mempool) -> Option<Self> {
        let packet = pool.alloc().ok()?.into_raw();
        // SAFETY: a fresh buffer of ours. Packets of one holder take a path of their own on in-order
        // rings.
        unsafe {
            (*packet).nb_segs = SEGMENTS;
            (*packet).refcnt.store(2, Ordering::Relaxed);
        }
        Some(Self { packet })
    }

    /// Lets `send` have the packet and say whether it was refused. If not, gives it up: that buffer
    /// is lost rather than freed by two.
    #[inline]
    pub(crate) fn offer(&mut self, send: impl FnOnce(*mut *mut rte_mbuf) -> bool) -> bool {
        let refused = send(&mut self.packet);
        if !refused {
            self.packet = std::ptr::null_mut();
        }
        refused
    }
}

impl Drop for Nudge {
    fn drop(&mut self) {
        if !self.packet.is_null() {
            // SAFETY: nobody else has it, see offer(); as it was before new() changed it.
            unsafe {
                (*self.packet).nb_segs = 1;
                (*self.packet).refcnt.store(1, Ordering::Relaxed);
                drop(Mbuf::from_raw(self.packet));
            }
        }
    }
}

impl fmt::Debug for Nudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nudge")
    }
}

/// More than a virtio ring has descriptors (256 to 4096 in practice).
const SEGMENTS: u16 = 32_000;
