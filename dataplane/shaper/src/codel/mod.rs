//! CoDel (RFC 8289) and its kin.

pub mod clock;
pub mod cobalt;
#[allow(clippy::module_inception, reason = "CoDel proper beside its kin")]
pub mod codel;
pub mod inv_sqrt;

#[cfg(test)]
mod faults;
