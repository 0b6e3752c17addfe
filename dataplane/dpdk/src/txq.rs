//! A transmit queue: the end that a worker sends through.

use std::sync::Arc;

use crate::burst::Burst;
use crate::errno::Errno;
use crate::mbuf::Mbuf;
use crate::nudge::Nudge;
use crate::port::{Device, registry};

/// One transmit queue of a started port. Movable to the worker, never shared.
#[derive(Debug)]
pub struct TxQueue {
    port: u16,
    queue: u16,
    multi_segs: bool,
    ring: u16,
    unsendable: u64,
    nudge: Option<Nudge>,
    /// Keeps the port started.
    _device: Arc<Device>,
}

/// What `rte_eth_tx_prepare` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Packets at the front that may be sent.
    pub ready: usize,
    /// Why the next one may not, if there is one.
    pub refused: Option<Errno>,
}

/// What a transmit descriptor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorStatus {
    /// Waits for the device.
    Full,
    /// The device is done with it.
    Done,
    /// Not for use.
    Unavailable,
}

impl TxQueue {
    pub(crate) fn new(device: Arc<Device>, queue: u16, nudge: Option<Nudge>) -> Self {
        let (multi_segs, ring) = (device.multi_segs, device.tx_desc);
        Self { port: device.id, queue, multi_segs, ring, unsendable: 0, nudge, _device: device }
    }

    /// Sends packets from the front of `burst`; returns how many the driver took, and the others
    /// stay in the burst. An empty burst is handed to the driver too: some reclaim buffers then.
    ///
    /// On a port without `MULTI_SEGS`, packets of several segments are copied together first; one
    /// that does not fit into one buffer is freed and counted by [`TxQueue::unsendable`].
    #[inline]
    pub fn burst(&mut self, burst: &mut Burst) -> usize {
        self.join(burst);
        let (port, queue) = (self.port, self.queue);
        // SAFETY: the port is started as long as `_device` is held, and only this handle sends on
        // the queue. The driver becomes the owner of as many mbufs as it returns.
        unsafe { burst.take(|first, n| dpdk_sys::shim_tx_burst(port, queue, first, n)) }
    }

    /// Copies packets of several segments together on a port without `MULTI_SEGS`, as
    /// [`TxQueue::burst`] does.
    #[inline]
    pub fn join(&mut self, burst: &mut Burst) {
        if !self.multi_segs {
            self.join_segments(burst);
        }
    }

    /// Lets the driver check the packets and do what it needs done to headers before
    /// [`TxQueue::burst`], such as pseudo-header checksums for TSO.
    pub fn prepare(&mut self, packets: &mut [Mbuf]) -> Prepared {
        let (first, len) = (packets.as_mut_ptr().cast(), packets.len());
        // SAFETY: as in burst(), but the packets stay ours; Mbuf is a transparent pointer.
        let ready =
            usize::from(unsafe { dpdk_sys::shim_tx_prepare(self.port, self.queue, first, len as u16) });
        Prepared { ready, refused: (ready < len).then(Errno::last) }
    }

    /// Packets freed because they have several segments and the port can send only one.
    #[inline]
    pub fn unsendable(&self) -> u64 {
        self.unsendable
    }

    /// Whether the port sends packets of several segments as they are.
    #[inline]
    pub fn multi_segs(&self) -> bool {
        self.multi_segs
    }

    /// Descriptors of the ring, as it was set up. A driver may have others (net_ring) or none.
    #[inline]
    pub fn ring(&self) -> u16 {
        self.ring
    }

    /// Hands the driver an empty burst: some take back then what the device is done with (ark,
    /// af_xdp, memif), most do nothing.
    #[inline]
    pub fn empty_burst(&mut self) {
        // SAFETY: as in burst(); no pointer is read of an empty burst.
        unsafe { dpdk_sys::shim_tx_burst(self.port, self.queue, std::ptr::null_mut(), 0) };
    }

    /// Whether the driver takes nothing back but for packets that want room (virtio), so that
    /// [`TxQueue::nudge`] is needed.
    #[inline]
    pub fn wants_nudges(&self) -> bool {
        self.nudge.is_some()
    }

    /// Has such a driver take back what the device is done with, by offering it a packet that no ring
    /// has room for. 26 to 52 cycles when there is nothing to take back (virtio_user, EPYC, 2026-11).
    /// `false` where it does not work.
    #[inline]
    pub fn nudge(&mut self) -> bool {
        let (port, queue) = (self.port, self.queue);
        let Some(nudge) = &mut self.nudge else { return false };
        // SAFETY: as in burst(). The driver becomes the owner if it takes the packet.
        let refused = nudge.offer(|first| unsafe { dpdk_sys::shim_tx_burst(port, queue, first, 1) } == 0);
        if !refused {
            self.nudge = None;
        }
        refused
    }

    /// Frees up to `count` packets that the device is done with, all for 0; returns how many.
    ///
    /// # Errors
    /// ENOTSUP on most drivers. vhost and cnxk answer 0 whatever happened.
    pub fn done_cleanup(&mut self, count: u32) -> Result<u32, Errno> {
        // SAFETY: as in burst().
        Errno::check(unsafe { dpdk_sys::rte_eth_tx_done_cleanup(self.port, self.queue, count) })
            .map(i32::unsigned_abs)
    }

    /// State of the descriptor `offset` places ahead of the next one to be filled. Drivers differ
    /// in where they count from (i40e from the tail, mlx5 from the oldest).
    ///
    /// # Errors
    /// ENOTSUP on many drivers, EINVAL beyond the ring.
    #[inline]
    pub fn descriptor_status(&self, offset: u16) -> Result<DescriptorStatus, Errno> {
        // SAFETY: as in burst(); reads the ring.
        let ret =
            Errno::check(unsafe { dpdk_sys::shim_tx_descriptor_status(self.port, self.queue, offset) })?;
        Ok(match ret.unsigned_abs() {
            dpdk_sys::SHIM_TX_DESC_FULL => DescriptorStatus::Full,
            dpdk_sys::SHIM_TX_DESC_DONE => DescriptorStatus::Done,
            _ => DescriptorStatus::Unavailable,
        })
    }

    /// Descriptors in use (DPDK 24.03 and later). From 26.07 on, drivers without it answer 0.
    ///
    /// # Errors
    /// ENOTSUP with an older DPDK or on a driver without it.
    #[inline]
    pub fn queue_count(&self) -> Result<u32, Errno> {
        // SAFETY: as in burst(); reads the ring.
        Errno::check(unsafe { dpdk_sys::shim_tx_queue_count(self.port, self.queue) }).map(i32::unsigned_abs)
    }

    /// Its port's number.
    #[cfg(feature = "testing")]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether the driver has reported that the device was pulled out.
    #[inline]
    pub fn vanished(&self) -> bool {
        registry::vanished(self.port)
    }

    /// Drivers without `MULTI_SEGS` may read the whole length from the first segment.
    fn join_segments(&mut self, burst: &mut Burst) {
        if burst.as_slice().iter().all(|mbuf| mbuf.nb_segs() == 1) {
            return;
        }
        self.unsendable += burst.retain(|mbuf| mbuf.linearize().is_ok()) as u64;
    }
}
