//! Virtual-time links, senders and trace replay over the shaper.

pub mod replay;
