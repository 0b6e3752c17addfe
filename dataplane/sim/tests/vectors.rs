//! Every recorded vector under the conformance that reproduces it, event by event.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sim::replay::hashes::HashSource;
use sim::replay::trace::Trace;
use sim::replay::{Mode, file, replay};
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
    let name = path.display().to_string();
    let trace = Trace::parse(&name, &file::read(path).unwrap()).unwrap();
    let expected = file::read(Path::new(&name.replace(".trace.gz", ".out.gz"))).unwrap();
    let hashes = HashSource::parse("recorded", &recorded_hashes(&expected)).unwrap();
    let mut printed = Vec::new();
    replay(&trace, Mode::Linux, &hashes, &mut printed).unwrap();
    compare(&name, &expected, &String::from_utf8(printed).unwrap());
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
fn compare(name: &str, expected: &str, printed: &str) {
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
        "{name}: output line {} differs, of {} expected\n  {before}\nexpected:\n  {}\nprinted:\n  {}",
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
