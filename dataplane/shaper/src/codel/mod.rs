//! CoDel (RFC 8289) and its kin.
