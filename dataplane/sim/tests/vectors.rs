//! Every recorded vector: under the conformance that reproduces it, event by event; under the other,
//! the counters against the lines.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sim::replay::hashes::HashSource;
use sim::replay::trace::Trace;
use sim::replay::{Mode, dql, file, replay};
use std::path::{Path, PathBuf};

#[test]
fn fq_codel_replays_identically() {
    let vectors = vectors("fqc");
    assert_eq!(vectors.len(), 22, "17 vectors and 5 extra ones");
    for path in vectors {
        check(&path);
    }
}

#[test]
fn cake_replays_identically() {
    let vectors = vectors("cake");
    assert_eq!(vectors.len(), 40, "30 vectors and 10 extra ones");
    for path in vectors {
        check(&path);
    }
}

#[test]
fn fq_codel_mended_counts_what_happens() {
    for path in vectors("fqc") {
        let (trace, recorded) = load(&path);
        let printed = play(&trace, &recorded, Mode::Weir);
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
    for path in vectors("cake") {
        let (trace, recorded) = load(&path);
        let printed = play(&trace, &recorded, Mode::Weir);
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
    for path in vectors {
        let name = path.display().to_string();
        let text = file::read(&path).unwrap();
        assert!(dql::is_trace(&text), "{name}");
        let mut printed = Vec::new();
        dql::replay(&name, &text, Mode::Linux, &mut printed).unwrap();
        let expected = file::read(Path::new(&name.replace(".trace.gz", ".out.gz"))).unwrap();
        compare(&path, &expected, &String::from_utf8(printed).unwrap());
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

/// All traces whose names start with `prefix`, in order.
fn vectors(prefix: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut found = Vec::new();
    for folder in [root.clone(), root.join("extra")] {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with(prefix) && name.ends_with(".trace.gz") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn check(path: &Path) {
    let (trace, expected) = load(path);
    compare(path, &expected, &play(&trace, &expected, Mode::Linux));
}

/// A trace and its recorded output.
fn load(path: &Path) -> (Trace, String) {
    let name = path.display().to_string();
    let trace = Trace::parse(&name, &file::read(path).unwrap()).unwrap();
    (trace, file::read(Path::new(&name.replace(".trace.gz", ".out.gz"))).unwrap())
}

fn play(trace: &Trace, recorded: &str, mode: Mode) -> String {
    let hashes = HashSource::parse("recorded", &recorded_hashes(recorded)).unwrap();
    let mut printed = Vec::new();
    replay(trace, mode, &hashes, &mut printed).unwrap();
    String::from_utf8(printed).unwrap()
}

/// The `ID FH SH DH` lines of a recorded output.
fn recorded_hashes(out: &str) -> String {
    let mut lines = String::new();
    for line in out.lines().filter(|line| line.starts_with("enq ")) {
        let fields: Vec<&str> = line.split(' ').collect();
        let hash = |field: usize| fields[field].split_once('=').unwrap().1;
        lines += &format!("{} {} {} {}\n", fields[2], hash(5), hash(6), hash(7));
    }
    lines
}

/// Panics at the first line that differs, with what led to it.
fn compare(path: &Path, expected: &str, printed: &str) {
    let (expected, printed) = (lines(expected), lines(printed));
    let Some(first) = (0..expected.len().max(printed.len())).find(|&at| expected.get(at) != printed.get(at))
    else {
        return;
    };
    let before = expected[first.saturating_sub(CONTEXT)..first].join("\n  ");
    let after = |lines: &[&str]| {
        let shown = first.min(lines.len())..(first + CONTEXT).min(lines.len());
        lines[shown].join("\n  ")
    };
    panic!(
        "{}: output line {} differs, of {} expected\n  {before}\nexpected:\n  {}\nprinted:\n  {}",
        path.display(),
        first + 1,
        expected.len(),
        after(&expected),
        after(&printed)
    );
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// Lines shown before and after a difference.
const CONTEXT: usize = 5;
