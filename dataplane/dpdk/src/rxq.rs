//! A receive queue: the end that a worker polls.

use std::sync::Arc;

use crate::burst::Burst;
use crate::port::{Device, registry};

/// One receive queue of a started port. Movable to the worker, never shared.
#[derive(Debug)]
pub struct RxQueue {
    port: u16,
    queue: u16,
    /// Keeps the port started.
    _device: Arc<Device>,
}

impl RxQueue {
    pub(crate) fn new(device: Arc<Device>, queue: u16) -> Self {
        Self { port: device.id, queue, _device: device }
    }

    /// Appends what has arrived to `burst`, as much as fits; returns how many packets.
    #[inline]
    pub fn burst(&mut self, burst: &mut Burst) -> usize {
        self.burst_up_to(burst, Burst::CAPACITY)
    }

    /// As [`RxQueue::burst`], but `limit` packets at most. Some drivers deliver nothing for less
    /// than 4.
    #[inline]
    pub fn burst_up_to(&mut self, burst: &mut Burst, limit: usize) -> usize {
        let (port, queue) = (self.port, self.queue);
        // SAFETY: the port is started as long as `_device` is held, and only this handle polls the
        // queue. The driver writes as many owned mbufs as it returns.
        unsafe { burst.fill(limit, |first, n| dpdk_sys::shim_rx_burst(port, queue, first, n)) }
    }

    #[cfg(feature = "vhost")]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    #[cfg(feature = "vhost")]
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// Whether the driver has reported that the device was pulled out.
    #[inline]
    pub fn vanished(&self) -> bool {
        registry::vanished(self.port)
    }
}
