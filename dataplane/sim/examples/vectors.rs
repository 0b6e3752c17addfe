//! Prints the table of recorded vectors: events, lines of output, and whether this project's output
//! under the `linux` conformance is identical to the last line.
//!
//! `cargo run --release -p sim --example vectors`; exit status 1 if one differs.

use sim::recorded::Recorded;
use std::process::ExitCode;

fn main() -> ExitCode {
    match table() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("vectors: {error}");
            ExitCode::FAILURE
        }
    }
}

fn table() -> Result<bool, Box<dyn std::error::Error>> {
    println!("| vector | events | output lines | identical |\n|---|---:|---:|---|");
    let mut all = true;
    for vector in Recorded::all("")? {
        let row = vector.row()?;
        println!("{row}");
        all &= row.ends_with("| yes |");
    }
    Ok(all)
}
