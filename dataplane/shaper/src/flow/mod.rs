//! Flow keys, the keyed hash, and the index-linked slots that queues are made of.

pub mod dissect;
pub mod hash;
pub mod key;
pub mod slots;
