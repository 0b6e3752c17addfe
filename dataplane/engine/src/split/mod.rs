//! Super-packets: taken apart on the way in, and once more on the way out where that is due.
//!
//! Reading order: [`offload`] (what may be left to a port), [`policy`] (how large pieces may be),
//! `pieces` (building one), `build` (all pieces of one super-packet, on the receive side), `merge`
//! (GRO). The plan of the cuts and the headers is [`shaper::gso`]; here are the buffers.
//!
//! * All pieces of a super-packet are built before the discipline sees any. At most [`PIECES_PER_TURN`]
//!   are built in a turn of the loop; what remains waits, on the receive side.
//! * A piece refers to the payload where the egress port sends packets of several buffers, else it
//!   holds a copy. All its checksums are right, or the port is told to complete them.
//! * A pool that runs dry while pieces are built costs that one super-packet.

pub mod build;
pub mod merge;
pub mod offload;
pub mod pieces;
pub mod policy;
mod segment;

pub use build::{Build, Outcome};
pub use merge::Merger;
pub use pieces::Pieces;
pub(crate) use pieces::{gathered, head_of, wire_bytes};
pub use policy::Policy;

/// Pieces that one direction builds per turn: at 60 ns each 4 µs, about what a burst costs.
pub const PIECES_PER_TURN: usize = 64;

/// Most pieces of one super-packet. 64 KiB of the smallest MSS that hosts use today (536) are 122.
pub const MAX_PIECES: usize = 256;
