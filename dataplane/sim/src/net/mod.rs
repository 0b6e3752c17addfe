//! A network in virtual time: senders, one shaped line in each direction, sinks.
//!
//! Reading order: [`world`] is all that happens; [`sender`] who sends, and who answers; [`line`] a
//! discipline in front of a wire; [`discipline`] what may stand there; [`packet`] what travels;
//! [`rig`] is another world for experiments, with hosts that send super-packets and a card behind the
//! discipline; [`event`] the order of things; [`table`] how results are written down.
//!
//! Contract. Everything is computed from the parameters and seeds: no clock, no thread, and no
//! floating-point function beyond the four operations and the square root, so that a table is the
//! same on every machine. A packet that entered a line leaves it, is lost with a reason, or waits
//! there: [`World::unaccounted`] says so.

pub mod discipline;
pub mod event;
pub mod line;
pub mod packet;
pub mod rig;
pub mod sender;
pub mod table;
pub mod world;

pub use discipline::{Discipline, cake, fifo, fq_codel, unshaped};
pub use line::Line;
pub use packet::Packet;
pub use rig::Rig;
pub use sender::{Sender, Source, Tcp};
pub use table::Table;
pub use world::{Direction, FlowSpec, Record, World};
