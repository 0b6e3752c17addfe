//! Rings of packets, and ports made of them (driver net_ring).
//!
//! For links inside one process: two ports over two rings are a cable; a port whose other ends are
//! held as [`Ring`]s can be driven and drained by hand. A packet crosses as its pointer, so it is
//! freed by whoever takes it out.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use thiserror::Error;

use crate::burst::Burst;
use crate::eal::Eal;
use crate::errno::Errno;
use crate::port::{Port, PortError};

/// A ring of packets, shared by handle; any thread may put in and take out.
#[derive(Clone, Debug)]
pub struct Ring(Arc<Inner>);

/// Why a ring or a port of rings could not be made.
#[derive(Debug, Error)]
pub enum RingError {
    /// DPDK refused the ring.
    #[error(
        "ring {name}: rte_ring_create for {size} packets failed: {errno}; the size is a power of two, the name free and at most 28 bytes"
    )]
    Create {
        /// Name of the ring.
        name: String,
        /// Slots asked for.
        size: u32,
        /// What it returned.
        errno: Errno,
    },
    /// DPDK refused the port.
    #[error("ring port {name}: rte_eth_from_rings failed: {errno}; the name must be free")]
    Port {
        /// Name of the port.
        name: String,
        /// What it returned.
        errno: Errno,
    },
    /// The port could not be opened.
    #[error(transparent)]
    Open(#[from] PortError),
}

impl Ring {
    /// Makes a ring that holds `size` − 1 packets; `size` is a power of two.
    ///
    /// # Errors
    /// [`RingError::Create`].
    pub fn create(eal: &Eal, name: &str, size: u32) -> Result<Self, RingError> {
        let refused = |errno| RingError::Create { name: name.to_owned(), size, errno };
        let c_name = CString::new(name).map_err(|_| refused(Errno::EINVAL))?;
        // SAFETY: a C string that outlives the call. Flags 0: any number of producers and consumers.
        let raw =
            unsafe { dpdk_sys::rte_ring_create(c_name.as_ptr(), size, dpdk_sys::SHIM_SOCKET_ID_ANY, 0) };
        let raw = NonNull::new(raw).ok_or_else(|| refused(Errno::last()))?;
        Ok(Self(Arc::new(Inner { raw, _eal: eal.clone() })))
    }

    /// Makes a port that receives from `rx` and sends into `tx`. Its name is `net_ring_` + `name`,
    /// by which the device can be detached once the port is closed.
    ///
    /// # Errors
    /// [`RingError::Port`] or [`RingError::Open`].
    pub fn port(eal: &Eal, name: &str, rx: &Self, tx: &Self) -> Result<Port, RingError> {
        let refused = |errno| RingError::Port { name: name.to_owned(), errno };
        let c_name = CString::new(name).map_err(|_| refused(Errno::EINVAL))?;
        let (rx_raw, tx_raw) = (rx.0.raw.as_ptr(), tx.0.raw.as_ptr());
        // SAFETY: arrays of one ring each; the rings are kept by the port that is made of them.
        let id = unsafe { dpdk_sys::rte_eth_from_rings(c_name.as_ptr(), &rx_raw, 1, &tx_raw, 1, 0) };
        let id = u16::try_from(id).map_err(|_| refused(Errno::last()))?;
        Ok(Port::adopt(eal, id, vec![rx.clone(), tx.clone()])?)
    }

    /// Puts packets from the front of `burst` in; returns how many went, the others stay.
    pub fn enqueue(&self, burst: &mut Burst) -> usize {
        // SAFETY: the ring owns as many of the packets as the call returns.
        unsafe {
            burst.take(|first, n| {
                dpdk_sys::shim_ring_enqueue_burst(self.0.raw.as_ptr(), first, u32::from(n)) as u16
            })
        }
    }

    /// Takes packets out and appends them to `burst`, as many as fit; returns how many.
    pub fn dequeue(&self, burst: &mut Burst) -> usize {
        self.dequeue_up_to(burst, Burst::CAPACITY)
    }

    /// As [`Ring::dequeue`], but `limit` packets at most.
    pub fn dequeue_up_to(&self, burst: &mut Burst, limit: usize) -> usize {
        // SAFETY: the ring holds owned packets only, and gives up those that the call returns.
        unsafe {
            burst.fill(limit, |first, n| {
                dpdk_sys::shim_ring_dequeue_burst(self.0.raw.as_ptr(), first, u32::from(n)) as u16
            })
        }
    }

    /// Packets in it. A momentary value.
    pub fn len(&self) -> u32 {
        // SAFETY: the ring lives as long as this handle.
        unsafe { dpdk_sys::shim_ring_count(self.0.raw.as_ptr()) }
    }

    /// Whether it holds no packets. A momentary value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets it can hold.
    pub fn capacity(&self) -> u32 {
        // SAFETY: the ring lives as long as this handle.
        unsafe { dpdk_sys::shim_ring_capacity(self.0.raw.as_ptr()) }
    }
}

#[derive(Debug)]
struct Inner {
    raw: NonNull<dpdk_sys::rte_ring>,
    _eal: Eal,
}

// SAFETY: made for any number of producers and consumers on any thread, and it holds packets, which
// are Send.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    /// Frees the packets left in it. A port of it is closed by now: it holds a handle until then.
    fn drop(&mut self) {
        let mut burst = Burst::new();
        loop {
            // SAFETY: as in dequeue().
            let got = unsafe {
                burst.fill(Burst::CAPACITY, |first, n| {
                    dpdk_sys::shim_ring_dequeue_burst(self.raw.as_ptr(), first, u32::from(n)) as u16
                })
            };
            if got == 0 {
                break;
            }
            burst.clear();
        }
        // SAFETY: the last handle is gone.
        unsafe { dpdk_sys::rte_ring_free(self.raw.as_ptr()) };
    }
}
