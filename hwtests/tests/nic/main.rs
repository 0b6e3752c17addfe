//! weir in front of the modelled card. In lockstep: the real loop, real packets and real ports, in virtual time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, and helpers of tests")]

mod card;
mod governed;
mod live;
mod rig;
mod ungoverned;
mod vhost;
