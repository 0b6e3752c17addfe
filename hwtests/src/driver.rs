//! What the driver of a card really does: which frames leave it, and what it says of those that have left.
//!
//! Everything goes through the `dpdk` crate, as weir's own packet path does. A second port on the same wire is the
//! witness of what left. [`completions`] looks at what the driver reports, [`segments`] at what its TSO engine and
//! its checksums make of a packet, beside the kernel's own segmentation.

use std::fmt;

use completions::Completions;
use segments::Segments;

pub mod completions;
pub mod frames;
pub mod ports;
pub mod segments;

/// What was found of a port, by all who looked.
#[derive(Clone, Debug)]
pub struct Found {
    /// What `weir probe` says of it, for people.
    pub weir: String,
    /// What the driver says of frames that have left.
    pub completions: Completions,
    /// What the card makes of a packet, beside the kernel.
    pub segments: Segments,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}{}", self.weir.trim_end(), self.completions, self.segments)
    }
}
