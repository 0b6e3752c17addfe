//! The poll loop: receive, classify, queue, shape, transmit.
//!
//! Reading order: [`worker`] (the loop on one screen), [`direction`] (the way of a packet),
//! `receiver` (in), [`egress`] (what waits for one wire), [`sender`] (out), [`classify`] (what is read
//! from a frame), then the rest.
//!
//! After start nothing here allocates, locks, logs or makes a system call, except the nap that
//! `poll = "adaptive"` asks for. Every packet is sent, waits, or is counted as lost with its reason.

mod builder;
pub mod change;
pub mod classify;
pub mod clock;
pub mod completion;
pub mod counters;
pub mod delays;
pub mod direction;
pub mod egress;
pub mod flight;
mod flying;
pub mod frame;
pub mod gaps;
pub mod gate;
mod interface;
pub mod line;
pub mod links;
pub mod mailbox;
pub mod outbox;
pub mod page;
pub mod plan;
pub mod pool;
pub mod probe;
mod receiver;
pub mod sender;
pub mod split;
pub mod talkers;
pub mod worker;
