//! The pure heart of weir: schedulers, AQMs, rate limiter, byte limits, wire views and flow hashing.
//!
//! Contract of the whole crate:
//! * `no_std` and no `unsafe`; memory is allocated in constructors and nowhere else.
//! * No clock, no random source, no thread, no I/O: `now` ([`time::Instant`]) and randomness
//!   ([`rng::Rng`]) are arguments, the next wake-up is a value, doomed packets go back to the
//!   caller with their reason ([`packet::DropReason`]).
//! * Packets are an opaque `P`: a discipline never looks into one. All it needs to know travels
//!   beside the packet in [`packet::Arrival`] and [`packet::Piece`].
//!
//! Inside the crate the arrows are `flow -> wire`, `codel -> time, units`,
//! `qdisc -> flow, codel, rate`, `dql -> time`, `gso, gro -> wire, packet`, `gro -> gso`, and no others.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::indexing_slicing))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod codel;
pub mod conformance;
pub mod dql;
pub mod flow;
pub mod gro;
pub mod gso;
pub mod packet;
pub mod qdisc;
pub mod rate;
pub mod rng;
pub mod time;
pub mod units;
pub mod wire;
