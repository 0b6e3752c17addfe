//! `replay [--conformance linux|weir] [--hashes FILE] FILE.trace[.gz]`: plays a recorded trace to
//! our discipline and prints what happens, line by line, in the form of the recording.

use clap::{Parser, ValueEnum};
use sim::replay::hashes::{HashSource, computed};
use sim::replay::trace::Trace;
use sim::replay::{Error, Mode, dql, file, replay};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Play a recorded trace to a queueing discipline and print every event: who was queued where,
/// delivered, marked or dropped, and the counters at the end.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Faults of the recorded algorithms: reproduced (linux) or mended (weir)
    #[arg(long, value_enum, default_value = "weir")]
    conformance: Conformance,

    /// Lines `ID FH SH DH`: packet number and its flow, source and destination hash in
    /// hexadecimal. Without it, hashes are computed: the dataplane's
    /// flow hash under a fixed secret, or the packet's own `hash=`
    #[arg(long, value_name = "FILE")]
    hashes: Option<PathBuf>,

    /// The trace, decompressed when its name ends in .gz
    #[arg(value_name = "FILE.trace[.gz]")]
    trace: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Conformance {
    Linux,
    Weir,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Error> {
    let (name, text) = (args.trace.display().to_string(), file::read(&args.trace)?);
    let mode = match args.conformance {
        Conformance::Linux => Mode::Linux,
        Conformance::Weir => Mode::Weir,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if dql::is_trace(&text) {
        dql::replay(&name, &text, mode, &mut out)?;
        return Ok(out.flush()?);
    }
    let trace = Trace::parse(&name, &text)?;
    let hashes = match &args.hashes {
        Some(path) => HashSource::parse(&path.display().to_string(), &file::read(path)?)?,
        None => HashSource::Computed(computed),
    };
    replay(&trace, mode, &hashes, &mut out)?;
    Ok(out.flush()?)
}
