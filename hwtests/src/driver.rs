//! What the driver of a card really does: which frames leave it, and what it says of those that have left.
//!
//! Everything goes through the `dpdk` crate, as weir's own packet path does. A second port on the same wire is the
//! witness of what left. [`completions`] looks at what the driver reports, [`segments`] at what its TSO engine and
//! its checksums make of a packet, beside the kernel's own segmentation.

pub mod completions;
pub mod frames;
pub mod ports;
pub mod segments;
