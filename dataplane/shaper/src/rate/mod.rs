//! The rate limiter and link-layer overhead.
