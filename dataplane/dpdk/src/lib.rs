//! Safe owners for the DPDK objects weir uses.
//!
//! Reading order: [`eal`] starts DPDK; [`mempool`] holds buffers; [`mbuf`] is a packet, [`burst`]
//! up to 64 of them; [`port`] opens a device and hands out [`rxq`] and [`txq`]; [`lcore`] runs the
//! worker that polls them. [`ring`] makes ports for tests, [`tsc`] tells the time.
//!
//! Invariants:
//! * no packet is freed twice or used after it was given away: an [`Mbuf`] is its only handle;
//! * no queue outlives its port, no port its pools, and nothing the EAL;
//! * the packet path (everything on [`Mbuf`], [`Burst`], [`RxQueue`], [`TxQueue`]) does not
//!   allocate, lock or log;
//! * nothing here knows of shaping.
#![allow(unsafe_code, reason = "the one crate that calls DPDK; each block says why it is sound")]

pub mod burst;
mod device;
pub mod eal;
pub mod errno;
pub mod lcore;
mod log;
pub mod mbuf;
pub mod mempool;
mod nudge;
pub mod offload;
pub mod port;
pub mod privileges;
pub mod ring;
pub mod rxq;
mod signals;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tsc;
pub mod txq;
#[cfg(feature = "vhost")]
pub mod vhost;

pub use burst::Burst;
pub use eal::{Eal, EalConfig, EalError, LogLevel};
pub use errno::Errno;
pub use lcore::{Lcore, LcoreError, LcoreHandle};
pub use mbuf::{Cursor, Held, Mbuf, MbufError, TxOffload};
pub use mempool::{Mempool, MempoolConfig, MempoolError};
pub use offload::{RxOffloads, TxOffloads};
pub use port::{
    Configured, Link, Mac, Phase, Port, PortConfig, PortError, PortInfo, PortStats, PortWarning, Started,
};
pub use ring::{Ring, RingError};
pub use rxq::RxQueue;
pub use txq::{DescriptorStatus, Prepared, TxQueue};
