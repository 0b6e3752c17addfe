//! Flow keys, the keyed hash, the rules about packets, and the index-linked slots that queues are made of.

pub mod dissect;
pub mod hash;
pub mod key;
pub mod rules;
pub mod slots;
