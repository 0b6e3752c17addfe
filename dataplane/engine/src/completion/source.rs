//! How a completion is seen, and how a driver is made to look for one.

use dpdk::txq::DescriptorStatus;
use dpdk::{Burst, Held, TxQueue};
use shaper::units::Rate;
use std::fmt;

/// How a frame is seen to have left the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A second holder of the frame's first segment sees the driver let go of it. True of every
    /// driver that frees a frame when the device is done with it; says nothing where the driver
    /// copies.
    Held,
    /// `rte_eth_tx_descriptor_status`.
    Status(From),
    /// `rte_eth_tx_queue_count` (DPDK 24.03), where it is real.
    QueueCount,
    /// When a wire of this rate would have sent it. No completion at all, but a bound on what lies
    /// below the scheduler.
    Clock(Rate),
    /// With submission: what is in flight is not known.
    Submit,
}

/// Where a driver counts the offset of `rte_eth_tx_descriptor_status` from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// From the next descriptor to be filled on, as the call is documented: the newest frame is at the
    /// far end of the ring.
    Tail,
    /// From the oldest descriptor in use on (mlx5): it answers whether more are in use.
    Oldest,
}

/// What makes a driver look for completions while nothing is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nudge {
    /// Not needed: it shows by itself.
    #[default]
    None,
    /// A burst of no packets.
    EmptyBurst,
    /// `rte_eth_tx_done_cleanup`. The number it answers is not used: it leaves out what bursts have
    /// freed.
    Cleanup,
    /// A packet that no ring has room for (virtio).
    Refused,
}

/// Sees a frame complete.
pub trait Handle {
    /// Whether it is.
    fn is_complete(&self) -> bool;
}

/// A transmit queue, as far as completions go.
pub trait Device {
    /// Whether the device is done with the descriptor at `offset`; also if it does not say.
    fn is_done(&self, offset: u16) -> bool;
    /// Descriptors in use, if it says so.
    fn in_use(&self) -> Option<u32>;
    /// Makes the driver look.
    fn nudge(&mut self, how: Nudge);
}

/// A transmit queue that sends.
pub trait Queue: Device {
    /// Makes packets fit for [`Queue::send`], which may free some.
    fn join(&mut self, burst: &mut Burst);
    /// Sends from the front; returns how many were taken, and the others stay.
    fn send(&mut self, burst: &mut Burst) -> usize;
}

impl From {
    /// The offset of a descriptor that `newer` others were filled after; `None` if the ring has been
    /// filled since.
    #[inline]
    pub(crate) fn offset(self, newer: u64, ring: u16) -> Option<u16> {
        let newer = u16::try_from(newer).ok().filter(|newer| *newer < ring)?;
        Some(match self {
            Self::Tail => ring - 1 - newer,
            Self::Oldest => newer,
        })
    }
}

impl Handle for Held {
    #[inline]
    fn is_complete(&self) -> bool {
        Self::is_complete(self)
    }
}

impl Device for TxQueue {
    #[inline]
    fn is_done(&self, offset: u16) -> bool {
        // An error is no reason to stop sending for ever: the watch finds out what it is worth.
        self.descriptor_status(offset).is_ok_and(|status| status == DescriptorStatus::Done)
    }

    #[inline]
    fn in_use(&self) -> Option<u32> {
        self.queue_count().ok()
    }

    #[inline]
    fn nudge(&mut self, how: Nudge) {
        match how {
            Nudge::None => {}
            Nudge::EmptyBurst => self.empty_burst(),
            // Most drivers lack it, and then nothing is reclaimed: the watch sees to that.
            Nudge::Cleanup => drop(self.done_cleanup(0)),
            Nudge::Refused => drop(TxQueue::nudge(self)),
        }
    }
}

impl Queue for TxQueue {
    #[inline]
    fn join(&mut self, burst: &mut Burst) {
        Self::join(self, burst);
    }

    #[inline]
    fn send(&mut self, burst: &mut Burst) -> usize {
        self.burst(burst)
    }
}

impl Source {
    /// Its name, as in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held-reference",
            Self::Status(_) => "descriptor-status",
            Self::QueueCount => "queue-count",
            Self::Clock(_) => "rate-clock",
            Self::Submit => "submit",
        }
    }

    /// Whether it tells of the device, rather than of a calculation.
    pub const fn is_real(self) -> bool {
        matches!(self, Self::Held | Self::Status(_) | Self::QueueCount)
    }
}

impl Nudge {
    /// Its name, as in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::EmptyBurst => "empty-burst",
            Self::Cleanup => "done-cleanup",
            Self::Refused => "refused-packet",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Status(From::Oldest) => f.write_str(" counted from the oldest"),
            Self::Clock(rate) => write!(f, " of {} bit/s", rate.bits_per_sec()),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Nudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
