//! CoDel (RFC 8289) and its kin.

pub mod clock;
pub mod cobalt;
pub mod codel;
pub mod inv_sqrt;
