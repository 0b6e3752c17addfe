//! Rigs, traffic, scenarios, benchmarks and the demo.
//!
//! The pieces that the binaries share: [`process`] and [`netns`] hold what must not outlive a run, [`forwarder`]
//! starts the program under test, [`iperf`], [`ping`] and [`irtt`] make traffic and read it back, [`sockets`] asks the
//! kernel of it, [`witness`] holds them against each other, [`stats`] sums it up,
//! [`report`] and [`plot`] write it down. On them stand the scenarios of the `hwtests` binary: a [`rig`] from a file, a
//! [`scenario`] on the [`bed`] that it makes, run in turns by [`campaign`], kept in a [`record`], read on a [`page`].
//! [`browser`] opens the page of a running weir. [`nic`] is a card to send into; [`tap`] and [`super_packet`] hand over super-packets as the kernel makes them.
//! Everything but [`nic`] lives in real time; nothing depends on this crate.
//!
//! Contract: whatever a run makes in the system is owned by a value whose `Drop` takes it away again, and dies
//! with its parent even where no `Drop` runs (see [`process`]).

pub mod bed;
pub mod browser;
pub mod campaign;
pub mod chart;
pub mod clock;
pub mod compare;
pub mod dataplane;
pub mod driver;
pub mod forwarder;
pub mod host;
pub mod iperf;
pub mod irtt;
pub mod model;
pub mod model_bed;
pub mod netns;
pub mod nic;
pub mod ns3;
pub mod page;
pub mod ping;
pub mod plot;
pub mod process;
pub mod progress;
pub mod qemu;
pub mod record;
pub mod report;
pub mod rig;
pub mod ring;
pub mod scenario;
pub mod sockets;
pub mod stats;
pub mod super_packet;
pub mod tap;
pub mod traffic;
pub mod uml;
pub mod witness;
