//! Holds a card's driver against the wire and against the kernel, and prints JSON; see [`hwtests::driver`].

use std::io::{Write, stdout};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use dpdk::{Eal, EalConfig};
use hwtests::clock::exit_code;
use hwtests::driver::ports::Way;
use hwtests::driver::{completions, segments};

/// Checks what the driver of a port says and does, seen from a second port on the same wire.
///
/// Needs root, both ports bound to a driver that DPDK can use, a cable between them, and nobody else on that wire.
/// `segments` also needs /dev/vhost-net and tc with act_mirred: there the kernel cuts the same packets.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// What to look at
    #[arg(value_enum)]
    what: What,
    /// The port to check: a PCI address
    port: String,
    /// The port that sees what leaves it
    witness: String,
    /// An argument for the EAL, once for each
    #[arg(long = "eal", value_name = "ARG", allow_hyphen_values = true, default_values = ["--no-huge", "-m", "256"])]
    eal: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Descriptor status, clean-up, reclaim
    Completions,
    /// TSO and checksums beside the kernel's own
    Segments,
}

fn main() -> ExitCode {
    exit_code("nic-check", check(&Args::parse()))
}

fn check(args: &Args) -> Result<()> {
    let config = EalConfig::new(format!("nic-check-{}", std::process::id()));
    let eal = Eal::init(&args.eal.iter().fold(config, |config, arg| config.arg(arg)))?;
    let mut way = Way::open(&eal, &args.port, &args.witness)?;
    let json = match args.what {
        What::Completions => serde_json::to_string_pretty(&completions::check(&mut way)?)?,
        What::Segments => serde_json::to_string_pretty(&segments::check(&eal, &mut way)?)?,
    };
    writeln!(stdout(), "{json}")?;
    Ok(())
}
