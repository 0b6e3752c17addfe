//! What goes out to those who watch.
//!
//! * [`delays`]: every histogram of how long packets took, as one document.
//! * [`formats`]: the same for people and for the tools of HdrHistogram.
//! * [`metrics`]: all of it, and all statistics, for Prometheus.
//! * [`plot`]: histograms as curves.

pub mod delays;
pub mod formats;
pub mod metrics;
pub mod plot;
