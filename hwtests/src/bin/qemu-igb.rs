//! Runs a scenario of the rig `qemu-igb` by hand; see [`hwtests::qemu`].

use std::fmt::Display;
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use hwtests::clock::{Interrupt, exit_code};
use hwtests::qemu::path::{Plan, path};
use hwtests::qemu::probe::probe;
use hwtests::qemu::rig::Paths;
use serde::Serialize;

/// Runs a scenario in a virtual machine with emulated Intel 82576 cards under DPDK's own driver.
///
/// Half a minute to two minutes on a machine with nothing else to do. Needs what .ci/setup-vm installs; no root, no
/// hugepages, no network.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// What to run
    #[command(subcommand)]
    scenario: Scenario,
    /// Folder for kernel and image [default: vm beside the folder of this program]
    #[arg(long, value_name = "DIR", global = true)]
    cache: Option<PathBuf>,
    /// Folder of weir and nic-check, release builds [default: that of this program]
    #[arg(long, value_name = "DIR", global = true)]
    programs: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// What igb says of completions, and what the card makes of TSO and checksums
    Probe,
    /// Kernel TCP through weir between two igb ports
    Path(PathArgs),
}

#[derive(Debug, Args)]
struct PathArgs {
    /// A direction's keys without its bandwidth
    #[arg(long, default_value = "qdisc = \"cake\"")]
    qdisc: String,
    /// Mbit/s each way
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Seconds of load each way, virtual ones
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=600))]
    seconds: u32,
}

fn main() -> ExitCode {
    exit_code("qemu-igb", run(&Cli::parse()))
}

fn run(cli: &Cli) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let mut paths = Paths::beside_this()?;
    for (given, folder) in [(&cli.cache, &mut paths.cache), (&cli.programs, &mut paths.programs)] {
        if let Some(given) = given {
            *folder = given.canonicalize().with_context(|| format!("no folder {}", given.display()))?;
        }
    }
    let mut tell = |line: &str| {
        // Nobody may be listening any more.
        let _ = writeln!(stderr(), "vm: {line}");
    };
    match &cli.scenario {
        Scenario::Probe => print(&probe(&paths, &mut tell, &interrupt)?, cli.json),
        Scenario::Path(args) => {
            let plan = Plan { qdisc: args.qdisc.clone(), rate: args.rate, seconds: args.seconds };
            print(&path(&plan, &paths, &mut tell, &interrupt)?, cli.json)
        }
    }
}

fn print<T: Serialize + Display>(found: &T, json: bool) -> Result<()> {
    let text = if json { serde_json::to_string_pretty(found)? + "\n" } else { found.to_string() };
    stdout().write_all(text.as_bytes()).context("cannot print")
}
