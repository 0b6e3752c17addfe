//! Any bytes as a configuration and a sequence of events for fq_codel and cake: see `sim::drive`.
//!
//! `cd dataplane/sim && cargo +nightly fuzz run disciplines`. An input that crashes is kept in
//! `fuzz/crashes`, some that cover much are in `fuzz/corpus/disciplines`:
//! `cargo test -p sim --test smoke` runs both.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    sim::drive::run(bytes);
});
