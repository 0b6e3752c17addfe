//! Rigs, traffic, scenarios, benchmarks and the demo.
//!
//! The pieces that the binaries share: [`process`] and [`netns`] hold what must not outlive a run, [`forwarder`]
//! starts the program under test, [`iperf`] and [`ping`] make traffic and read it back, [`stats`] sums it up,
//! [`report`] and [`plot`] write it down; [`nic`] is a card to send into. [`tap`] and [`super_packet`] are for tests that
//! put the kernel's own segmentation beside weir's. Everything but [`nic`] lives in real time; nothing depends on this
//! crate.
//!
//! Contract: whatever a run makes in the system is owned by a value whose `Drop` takes it away again, and dies
//! with its parent even where no `Drop` runs (see [`process`]).

pub mod clock;
pub mod driver;
pub mod forwarder;
pub mod iperf;
pub mod netns;
pub mod nic;
pub mod ping;
pub mod plot;
pub mod process;
pub mod progress;
pub mod qemu;
pub mod report;
pub mod stats;
pub mod super_packet;
pub mod tap;
