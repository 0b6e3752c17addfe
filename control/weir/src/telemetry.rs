//! What goes out to those who watch.

pub mod metrics;
