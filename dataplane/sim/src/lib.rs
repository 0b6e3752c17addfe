//! Virtual time over the shaper: a network of senders, shaped lines and sinks ([`net`]), a
//! modelled card ([`nic`]), the replay of recorded traces ([`replay`]), and arbitrary event
//! sequences with what must hold after each ([`drive`]).

pub mod drive;
pub mod net;
pub mod nic;
pub mod recorded;
pub mod replay;
