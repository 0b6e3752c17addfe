//! `cargo run --release -p sim --example vectors_table` replays every recorded vector under the
//! conformance that reproduces it, and prints a table: vector, events, lines, whether all of them
//! are identical. It fails when one is not.

#![allow(clippy::unwrap_used, reason = "a tool for the repository: a file that is missing ends it")]

use sim::replay::hashes::HashSource;
use sim::replay::trace::Trace;
use sim::replay::{Mode, dql, file, replay};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("| vector | events | lines | identical |\n|---|---|---|---|");
    let mut is_all_identical = true;
    for path in vectors() {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".trace.gz");
        let expected = file::read(&path.with_file_name(format!("{name}.out.gz"))).unwrap();
        let (events, printed) = play(&path, &expected);
        let identical = printed == expected;
        is_all_identical &= identical;
        let verdict = if identical { "yes" } else { "**no**" };
        println!("| {name} | {events} | {} | {verdict} |", expected.lines().count());
    }
    if is_all_identical { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many events there are, and what replaying them prints.
fn play(path: &Path, recorded: &str) -> (usize, String) {
    let (name, text) = (path.display().to_string(), file::read(path).unwrap());
    let mut printed = Vec::new();
    let events = if dql::is_trace(&text) {
        dql::replay(&name, &text, Mode::Linux, &mut printed).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).count()
    } else {
        let trace = Trace::parse(&name, &text).unwrap();
        let hashes = HashSource::parse("recorded", &recorded_hashes(recorded)).unwrap();
        replay(&trace, Mode::Linux, &hashes, &mut printed).unwrap();
        trace.events.len()
    };
    (events, String::from_utf8(printed).unwrap())
}

/// The `ID FH SH DH` lines of a recorded output.
fn recorded_hashes(recorded: &str) -> String {
    let hashes = recorded.lines().filter(|line| line.starts_with("enq ")).map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let hash = |field: usize| fields[field].split_once('=').unwrap().1;
        format!("{} {} {} {}\n", fields[2], hash(5), hash(6), hash(7))
    });
    hashes.collect()
}

/// All traces, the extra ones last.
fn vectors() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut found = Vec::new();
    for folder in [root.clone(), root.join("extra")] {
        let mut here: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        here.retain(|path| path.to_string_lossy().ends_with(".trace.gz"));
        here.sort();
        found.extend(here);
    }
    found
}
