//! The three field experiments with real senders, in virtual time: fault first, then cure. Each test
//! makes a table, compares it with the one in `tests/experiments/tables`, and asserts the bars beside it.
//!
//! Streams are CUBIC over 200 us of path; what is measured is measured by the card's truth log and at
//! who asked (`sim::net::rig`).
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p sim --test experiments` writes the tables anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod case;
mod e1;
mod e2;
mod e3;
mod sparse;

use case::{Case, Outcome, cake, card, cubic, fq_codel, no_qdisc, weir};
use shaper::gso::Split;
use shaper::time::{Duration, Instant};
use sim::net::Table;
use sim::net::rig::{Cutter, Limit, Release, Setup};
use sim::net::sender::{SmallQueue, Socket, Tso};
use sim::nic;
use std::path::Path;

/// Fails unless the tables are the stored ones.
fn snapshot(name: &str, tables: &[Table]) {
    let text: Vec<String> = tables.iter().map(Table::to_string).collect();
    let text = text.join("\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/experiments/tables").join(name);
    let path = path.with_extension("txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "{} differs; if that is meant: UPDATE_SNAPSHOTS=1 cargo test -p sim --test experiments\n{text}",
        path.display()
    );
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Nanoseconds as microseconds.
fn in_us(nanos: u64) -> String {
    format!("{:.0}", nanos as f64 / 1e3)
}

/// Bits per second as Mbit/s.
fn in_mbit(rate: f64) -> String {
    format!("{:.2}", rate / 1e6)
}

fn in_percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

/// A limit in bytes; `ring` for all that the ring holds.
fn in_bytes(limit: u32) -> String {
    if limit == u32::MAX { "ring".into() } else { limit.to_string() }
}
