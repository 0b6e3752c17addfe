//! Every recorded vector: under the conformance that reproduces it, event by event; under the other,
//! the counters against the lines.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sim::recorded::Recorded;
use sim::replay::{Mode, dql};

#[test]
fn fq_codel_replays_identically() {
    let vectors = vectors("fqc");
    assert_eq!(vectors.len(), 22, "17 vectors and 5 extra ones");
    vectors.iter().for_each(check);
}

#[test]
fn cake_replays_identically() {
    let vectors = vectors("cake");
    assert_eq!(vectors.len(), 40, "30 vectors and 10 extra ones");
    vectors.iter().for_each(check);
}

#[test]
fn fq_codel_mended_counts_what_happens() {
    for vector in vectors("fqc") {
        let (path, trace) = (&vector.name, vector.parsed().unwrap());
        let printed = vector.play(Mode::Weir).unwrap();
        let deliveries: Vec<&str> = printed.lines().filter(|line| line.starts_with("deq ")).collect();
        let sum = |key| deliveries.iter().map(|line| value(line, key)).sum::<u64>();
        let drops = printed.lines().filter(|line| line.starts_with("drop ")).count() as u64;
        let stat = printed.lines().last().unwrap();
        let queued = value(stat, "qlen");
        assert_eq!(trace.arrivals() as u64, deliveries.len() as u64 + drops + queued, "{path:?}");
        assert_eq!(value(stat, "drops"), drops, "{path:?}: fault 8");
        assert_eq!(value(stat, "sent_bytes"), sum("len"), "{path:?}: fault 8");
        let marks = value(stat, "ecn_mark") + value(stat, "ce_mark");
        assert_eq!(marks, sum("ce"), "{path:?}: fault 9");
    }
}

#[test]
fn cake_mended_counts_what_happens() {
    for vector in vectors("cake") {
        let path = &vector.name;
        let printed = vector.play(Mode::Weir).unwrap();
        let deliveries: Vec<&str> = printed.lines().filter(|line| line.starts_with("deq ")).collect();
        let drops = printed.lines().filter(|line| line.starts_with("drop ")).count() as u64;
        let stat = printed.lines().find(|line| line.starts_with("stat qlen")).unwrap();
        assert!(!printed.contains(" change"), "{path:?}: fault 24");
        assert_eq!(value(stat, "drops"), drops, "{path:?}");
        let bytes = deliveries.iter().map(|line| value(line, "len")).sum::<u64>();
        assert_eq!(value(stat, "sent_bytes"), bytes, "{path:?}");
        let tins = printed.lines().filter(|line| line.starts_with("stat tin="));
        let marks = tins.map(|line| value(line, "ecn_mark")).sum::<u64>();
        let became_ce = deliveries.iter().map(|line| value(line, "ce")).sum::<u64>();
        assert!(marks <= became_ce, "{path:?}: fault 41");
    }
}

#[test]
fn byte_queue_limits_replay_identically() {
    let vectors = vectors("dql");
    assert_eq!(vectors.len(), 8, "7 vectors and an extra one");
    vectors.iter().for_each(check);
}

#[test]
fn the_documented_table_is_what_is_printed() {
    let document = include_str!("../CONFORMANCE.md");
    let vectors = vectors("");
    assert_eq!(vectors.len(), document.lines().filter(|line| line.ends_with("| yes |")).count());
    for vector in vectors {
        let row = vector.row().unwrap();
        assert!(document.contains(&row), "not in CONFORMANCE.md: {row}");
    }
}

#[test]
fn a_bad_line_of_a_byte_queue_trace_is_named() {
    let error = |text: &str| dql::replay("t", text, Mode::Weir, Vec::new()).unwrap_err().to_string();
    assert_eq!(error("q 1 5"), "t:1: the first line must be `init J HOLD`");
    assert_eq!(error("init 0 250\nq 1"), "t:2: `` in field 3 is no number that fits u32");
    assert_eq!(error("init 0 250\nx 1 2"), "t:2: `x` is no operation: init, set, q, c or r");
    assert_eq!(
        error("init 0 250\n#\nset mtu 2"),
        "t:3: `mtu` cannot be set: limit, min_limit, max_limit, hold_time or stall_thrs"
    );
}

/// The number behind `key=` in a line.
fn value(line: &str, key: &str) -> u64 {
    let mut pairs = line.split(' ').filter_map(|field| field.split_once('='));
    pairs.find(|(name, _)| *name == key).unwrap().1.parse().unwrap()
}

fn vectors(prefix: &str) -> Vec<Recorded> {
    Recorded::all(prefix).unwrap()
}

/// Panics at the first line that differs, with what led to it.
fn check(vector: &Recorded) {
    let printed = vector.play(Mode::Linux).unwrap();
    let Some(first) = vector.first_difference(&printed) else { return };
    let shown =
        |text: &str, from: usize| text.lines().skip(from).take(CONTEXT).collect::<Vec<_>>().join("\n  ");
    panic!(
        "{}: output line {} differs\n  {}\nexpected:\n  {}\nprinted:\n  {}",
        vector.name,
        first + 1,
        shown(&vector.out, first.saturating_sub(CONTEXT)),
        shown(&vector.out, first),
        shown(&printed, first)
    );
}

/// Lines shown before and after a difference.
const CONTEXT: usize = 5;
