//! Virtual-time links, senders and trace replay over the shaper.

pub mod nic;
pub mod recorded;
pub mod replay;
