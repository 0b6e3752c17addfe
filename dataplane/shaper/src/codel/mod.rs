//! CoDel (RFC 8289) and its kin.

pub mod clock;
pub mod inv_sqrt;
