//! A smoke run of what is fuzzed: inputs of a seed, and those kept in `fuzz/corpus` and
//! `fuzz/crashes`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use shaper::packet::DropReason;
use shaper::rng::{Rng, SplitMix};
use sim::drive::Reached;
use std::path::Path;

/// How many times as long a run shall be: `make soak` sets it.
fn soak() -> u64 {
    std::env::var("WEIR_SOAK").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Fuzzing for seconds: `cd dataplane/sim && cargo +nightly fuzz run disciplines`.
#[test]
fn inputs_of_a_seed() {
    let mut total = Reached::default();
    for seed in 0..INPUTS * soak() {
        let mut dice = SplitMix::new(seed, !seed);
        let len = 64 << (dice.next_u32() % 8);
        let bytes: Vec<u8> = (0..len).map(|_| dice.next_u32() as u8).collect();
        let reached = std::panic::catch_unwind(|| sim::drive::run(&bytes)).unwrap_or_else(|cause| {
            let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("seed-{seed}"));
            std::fs::write(&place, &bytes).unwrap();
            eprintln!("the input of seed {seed} is kept in {}", place.display());
            std::panic::resume_unwind(cause);
        });
        total.sent += reached.sent;
        total.marked += reached.marked;
        for (reason, count) in reached.lost {
            *total.lost.entry(reason).or_default() += count;
        }
    }
    let often = |reason| total.lost.get(reason).is_some_and(|&count| count > 50);
    assert!(REASONS.iter().all(often) && total.sent > 10_000 && total.marked > 50, "{total:?}");
}

/// What once failed, and what covers much.
#[test]
fn inputs_that_were_kept() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let mut count = 0;
    for folder in ["corpus/disciplines", "crashes"] {
        for entry in std::fs::read_dir(fuzz.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            eprintln!("{}", path.display());
            sim::drive::run(&std::fs::read(path).unwrap());
            count += 1;
        }
    }
    assert!(count > 0, "the folders are part of the project");
}

/// Every reason to lose a packet, except that one cannot be cut, which dooms none.
const REASONS: [DropReason; 8] = [
    DropReason::Codel,
    DropReason::Blue,
    DropReason::OverLimit,
    DropReason::OverMemory,
    DropReason::Overflow,
    DropReason::AckFilter,
    DropReason::Change,
    DropReason::Flush,
];

/// A few seconds' worth.
const INPUTS: u64 = 3_000;
