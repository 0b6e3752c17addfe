//! Raw FFI to libdpdk: no logic, exact allowlist, layout asserted.
//!
//! [`rte_mbuf`] is written by hand, since the packet path reads its fields directly; everything
//! else is generated from DPDK's headers by `build.rs`. Functions named `shim_*` are DPDK's inline
//! functions (see `shim.h`). Only the crate `dpdk` may use this one.
#![no_std]
#![allow(unsafe_code, reason = "FFI declarations; nothing here is called here")]

mod generated;
mod mbuf;

pub use generated::*;
pub use mbuf::rte_mbuf;
