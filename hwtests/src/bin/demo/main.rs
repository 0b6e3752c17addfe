//! The demo: what a bloated queue costs real TCP, and what weir makes of it.
//!
//! Two network namespaces, each with one end of the forwarder; TCP each way with pings beside it, of best effort and
//! of DSCP EF; a FIFO as deep as a driver's default, fq_codel and cake, in turns; under cake then also two hosts with
//! 1 and 8 streams. Prints a table, writes `ping.svg` and `result.json`.
//! Exit status: 0 when everything was measured (whether or not a bar holds), 1 when not, 130 or so on a signal.

mod rig;
mod summary;

use std::fs;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use hwtests::clock::{Interrupt, exit_code};
use hwtests::forwarder::Program;
use hwtests::process::{require, require_root};
use hwtests::progress::Progress;

use crate::rig::{BOTH, CASES, Plan, Run, TURNS, Teller};
use crate::summary::Summary;

/// Shows what a bloated queue costs real TCP, and what weir makes of it: FIFO, fq_codel, cake.
///
/// About 3.5 minutes. Needs root. Makes two network namespaces and takes everything away at its end, also on Ctrl-C.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Rate of the link each way, Mbit/s
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Measured time of each load, seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=3600))]
    seconds: u32,
    /// Runs of each case, the cases taking turns
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Load up and down in turn, or both at once (a FIFO then leaves some of the link idle)
    #[arg(long, value_enum, default_value_t = LoadWays::Turns)]
    load: LoadWays,
    /// Folder for result.json, ping.svg, configurations and logs
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    out: PathBuf,
    /// Print result.json instead of the table
    #[arg(long)]
    json: bool,
    /// What forwards; testpmd does not shape: it shows the bare rig
    #[arg(long, value_enum, default_value_t = Forwards::Weir)]
    forwarder: Forwards,
    /// The weir binary [default: beside this one]
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LoadWays {
    Turns,
    Both,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Forwards {
    Weir,
    Testpmd,
}

fn main() -> ExitCode {
    exit_code("demo", demo(&Args::parse()))
}

fn demo(args: &Args) -> Result<()> {
    let program = preflight(args)?;
    let interrupt = Interrupt::install()?;
    fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    let phases: &[_] = match args.load {
        LoadWays::Turns => &TURNS,
        LoadWays::Both => &BOTH,
    };
    let plan = Plan { program, rate: args.rate, seconds: args.seconds, phases, folder: args.out.clone() };
    let runs = measure(&plan, args.repeats, &interrupt)?;
    let summary = Summary::new(&plan, &runs)?;
    summary.write(&args.out)?;
    let text = if args.json { summary.json()? } else { summary.table(&args.out) };
    // A closed pipe is no failure of the measurement, which is on disk by now.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

/// All runs of each case of [`CASES`].
fn measure(plan: &Plan, repeats: u32, interrupt: &Interrupt) -> Result<Vec<Vec<Run>>> {
    let mut progress = Progress::new();
    let mut phases_after = repeats * CASES.iter().map(|case| plan.phases_of(case)).sum::<u32>();
    let mut runs: Vec<Vec<Run>> = CASES.iter().map(|_| Vec::new()).collect();
    for repeat in 1..=repeats {
        for (case, done) in CASES.iter().zip(&mut runs) {
            let label = format!("{} {repeat}/{repeats}", case.label);
            let mut teller = Teller { progress: &mut progress, label, phases_after };
            let run = rig::run(plan, case, &mut teller, interrupt);
            phases_after = teller.phases_after;
            done.push(run.with_context(|| format!("run \"{}\"", teller.label))?);
        }
    }
    Ok(runs)
}

fn preflight(args: &Args) -> Result<Program> {
    require_root()?;
    require(&[
        ("ip", "iproute2"),
        ("iperf3", "iperf3"),
        ("ping", "iputils-ping"),
        ("nsenter", "util-linux"),
        ("setpriv", "util-linux"),
        ("setsid", "util-linux"),
        ("taskset", "util-linux"),
        ("unshare", "util-linux"),
    ])?;
    ensure!(fs::exists("/dev/net/tun")?, "no /dev/net/tun: load the kernel module tun (modprobe tun)");
    let beside = std::env::current_exe().context("cannot find this binary")?.with_file_name("weir");
    match args.forwarder {
        Forwards::Testpmd => {
            require(&[("dpdk-testpmd", "dpdk")])?;
            Ok(Program::Testpmd)
        }
        Forwards::Weir => {
            let weir = args.weir.clone().unwrap_or(beside);
            ensure!(
                weir.is_file(),
                "no {}: build it (cargo build --release) or name it with --weir FILE",
                weir.display()
            );
            Ok(Program::Weir(weir))
        }
    }
}
