//! The rig `qemu-igb`: a virtual machine whose emulated network cards DPDK's own drivers run.
//!
//! Emulated Intel 82576 ports (QEMU 8 or later, TCG) have a real descriptor ring, RS bits, descriptor status, clean-up
//! of done packets, TSO and checksums, all driven by DPDK's igb PMD over vfio-pci behind an emulated IOMMU. The kernel
//! is Debian's, the programs are this system's, and as time is counted in instructions, a run repeats itself to the
//! last bit.
//!
//! **What it cannot show**: the emulated card sends inside the write to its doorbell. The wire is never busy, a
//! descriptor is done before the driver can look, and nothing here says how late a completion is or what a byte limit
//! above it is worth.
//!
//! `.ci/setup-vm` installs what it needs.

mod archive;
pub mod image;
pub mod machine;
pub mod path;
pub mod pci;
pub mod probe;
pub mod rig;
