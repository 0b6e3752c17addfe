//! Why a port operation failed.

use thiserror::Error;

use super::Phase;
use crate::errno::Errno;

/// Every message names the port, what was tried, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PortError {
    /// No port of that name.
    #[error(
        "port {name}: there is no such port; ports present: {present}. Attach the device first, or correct the name"
    )]
    NotFound {
        /// The name asked for.
        name: String,
        /// The names of all ports, or `none`.
        present: String,
    },
    /// The port is open already.
    #[error("port {name}: it is already open in this process; a port has one owner")]
    InUse {
        /// The port's name.
        name: String,
    },
    /// The port was closed.
    #[error("port {name}: it was closed; detach and attach the device to use it again")]
    Closed {
        /// The port's name.
        name: String,
    },
    /// The operation does not fit what the port is doing.
    #[error("port {name}: cannot {operation} a port that is {phase}; {remedy}")]
    Phase {
        /// The port's name.
        name: String,
        /// What was tried.
        operation: &'static str,
        /// What the port is.
        phase: Phase,
        /// What to do first.
        remedy: &'static str,
    },
    /// Queues are still with somebody.
    #[error(
        "port {name}: {count} of its queues are still in use; drop them first (join the worker that holds them)"
    )]
    QueuesInUse {
        /// The port's name.
        name: String,
        /// How many.
        count: usize,
    },
    /// A value is out of the driver's range.
    #[error("port {name}: {key} = {value} is out of range; driver {driver} accepts {min} to {max}")]
    OutOfRange {
        /// The port's name.
        name: String,
        /// What the value is called.
        key: &'static str,
        /// What was given.
        value: u32,
        /// The driver.
        driver: String,
        /// Smallest accepted value.
        min: u32,
        /// Largest accepted value.
        max: u32,
    },
    /// The buffers are too small for a frame, and the driver cannot spread it over several.
    #[error(
        "port {name}: a frame of MTU {mtu} needs {need} bytes of data room, the mempool has {have}, and driver {driver} cannot scatter; use a data room of {need} or more, or a smaller MTU"
    )]
    DataRoom {
        /// The port's name.
        name: String,
        /// The MTU in bytes.
        mtu: u16,
        /// Data room needed, headroom included.
        need: u32,
        /// Data room of the pool.
        have: u32,
        /// The driver.
        driver: String,
    },
    /// DPDK or the driver refused.
    #[error("port {name}: {operation} failed: {errno}; {remedy}{said}")]
    Refused {
        /// The port's name.
        name: String,
        /// What was tried.
        operation: String,
        /// What it returned.
        errno: Errno,
        /// What DPDK and the driver logged meanwhile, each line after a line break; may be empty.
        said: String,
        /// What to do.
        remedy: &'static str,
    },
}

/// What a port does without, and works all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PortWarning {
    /// Frames to other MAC addresses may be missing.
    #[error("promiscuous mode was refused: {0}; frames to other MAC addresses may not be received")]
    Promiscuous(Errno),
    /// Multicast frames may be missing.
    #[error("allmulticast mode was refused: {0}; multicast frames may not be received")]
    Allmulticast(Errno),
    /// Unplugging the device will not be noticed by an event.
    #[error("removal events were refused: {0}; unplugging the device shows only as a link that is down")]
    RemovalEvents(Errno),
    /// A ring has another size than asked for.
    #[error("{direction} ring of {asked} descriptors became {got}, as the driver demands")]
    RingSize {
        /// `rx` or `tx`.
        direction: &'static str,
        /// Descriptors asked for.
        asked: u16,
        /// Descriptors it has.
        got: u16,
    },
    /// Packets of several segments must be copied together before they are sent.
    #[error(
        "the driver cannot send packets of several segments; they are copied together, and dropped if they do not fit into one buffer"
    )]
    NoMultiSegs,
}

impl PortError {
    /// Whether the driver does not offer what was asked for at all, so that asking again is of no use.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Refused { errno, .. } if errno.is_unsupported())
    }
}

pub(super) fn remedy(errno: Errno) -> &'static str {
    match errno.value() {
        libc::ENOTSUP => "the driver does not offer it",
        libc::ENOMEM => "give the EAL more memory (-m), or use smaller rings",
        libc::EBUSY => "the driver wants the port stopped for it",
        libc::EIO | libc::ENODEV => "the device does not answer; check that it is still plugged in",
        libc::EINVAL => "a value is outside of what the driver accepts; compare with the port's capabilities",
        // Drivers return -1, which is EPERM, for whatever the kernel refused them.
        libc::EPERM => "run as root; as root it means that the kernel refused something: look at ulimit -n",
        libc::EACCES => "run as root",
        _ => "the EAL's log level debug shows more of the driver's reason",
    }
}
