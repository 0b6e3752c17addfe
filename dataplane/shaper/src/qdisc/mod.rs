//! Queueing disciplines.
