//! The demo: what a bloated queue costs real TCP, and what weir makes of it.
//!
//! Two network namespaces, each with one end of the forwarder; TCP each way with pings beside it, of best effort and
//! of DSCP EF; a FIFO as deep as a driver's default, fq_codel and cake, in turns; under cake then also two hosts with
//! 1 and 8 streams. Then the queue that no shaper sees: unshaped cake above a modelled NIC, governor off and on.
//! Prints two tables, writes `ping.svg`, `nic.svg` and `result.json`.
//! Exit status: 0 when everything was measured (whether or not a bar holds), 1 when not, 130 or so on a signal.

mod nic;
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
use hwtests::model_bed::Seen;
use hwtests::process::{require, require_root};
use hwtests::progress::Progress;

use crate::nic::NIC_CASES;
use crate::rig::{BOTH, CASES, Plan, Run, TURNS, Teller};
use crate::summary::Summary;

/// Shows what a bloated queue costs real TCP, and what weir makes of it: FIFO, fq_codel, cake; a NIC's ring.
///
/// About 4.5 minutes. Needs root. Makes two network namespaces and takes everything away at its end, also on Ctrl-C.
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
    /// Only the shaped link, or only the NIC
    #[arg(long, value_enum, default_value_t = Part::All)]
    part: Part,
    /// Of the shaped link: load up and down in turn, or both at once (a FIFO then leaves some of the link idle)
    #[arg(long, value_enum, default_value_t = LoadWays::Turns)]
    load: LoadWays,
    /// Folder for result.json, ping.svg, nic.svg, configurations and logs
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    out: PathBuf,
    /// Print result.json instead of the tables
    #[arg(long)]
    json: bool,
    /// What forwards on the shaped link; testpmd does not shape: it shows the bare rig
    #[arg(long, value_enum, default_value_t = Forwards::Weir)]
    forwarder: Forwards,
    /// The weir binary [default: beside this one]
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    All,
    Link,
    Nic,
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
    let (runs, nic_runs) = measure(&plan, args, &interrupt)?;
    let summary = Summary::new(&plan, &runs, &nic_runs)?;
    summary.write(&args.out)?;
    let text = if args.json { summary.json()? } else { summary.table(&args.out) };
    // A closed pipe is no failure of the measurement, which is on disk by now.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

/// The repeats of each case through a link, and of each case before the modelled NIC.
type Measured = (Vec<Vec<Run>>, Vec<Vec<Seen>>);

/// All runs of each case of [`CASES`] and of [`NIC_CASES`], as far as asked for.
fn measure(plan: &Plan, args: &Args, interrupt: &Interrupt) -> Result<Measured> {
    let mut progress = Progress::new();
    let cases = if args.part == Part::Nic { &[][..] } else { &CASES };
    let nic_cases = if args.part == Part::Link { &[][..] } else { &NIC_CASES };
    let phases = cases.iter().map(|case| plan.phases_of(case)).sum::<u32>() + nic_cases.len() as u32;
    let mut phases_after = args.repeats * phases;
    let mut runs: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    let mut nic_runs: Vec<Vec<Seen>> = nic_cases.iter().map(|_| Vec::new()).collect();
    for repeat in 1..=args.repeats {
        let label = |case: &str| format!("{case} {repeat}/{}", args.repeats);
        for (case, done) in cases.iter().zip(&mut runs) {
            let mut teller = Teller { progress: &mut progress, label: label(case.label), phases_after };
            let run = rig::run(plan, case, &mut teller, interrupt);
            phases_after = teller.phases_after;
            done.push(run.with_context(|| format!("run \"{}\"", teller.label))?);
        }
        for (case, done) in nic_cases.iter().zip(&mut nic_runs) {
            let mut teller = Teller { progress: &mut progress, label: label(case.label), phases_after };
            let run = nic::run(plan, case, &mut teller, interrupt);
            phases_after = teller.phases_after;
            done.push(run.with_context(|| format!("run \"{}\"", teller.label))?);
        }
    }
    Ok((runs, nic_runs))
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
    if args.part != Part::Link {
        nic::preflight()?;
    }
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
