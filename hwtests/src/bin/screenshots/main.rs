//! Pictures of a running weir for the README, of real traffic: kernel TCP between two namespaces.
//!
//! They show what a user would see, numbers and all; nothing in them is drawn by hand.

mod page;
mod traffic;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hwtests::clock::{Interrupt, exit_code};
use hwtests::process::{require, require_root};
use hwtests::progress::Progress;

use crate::traffic::Bed;

/// Takes the pictures of the README: `weir top`, and the web page, light, dark and on a phone.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The weir binary [default: beside this one]
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
    /// Folder for the pictures
    #[arg(long, value_name = "DIR", default_value = "hwtests/results/screenshots")]
    out: PathBuf,
    /// Seconds of traffic before the pictures are taken
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u32).range(20..=3600))]
    seconds: u32,
}

fn main() -> ExitCode {
    exit_code("screenshots", take(&Args::parse()))
}

fn take(args: &Args) -> Result<()> {
    require_root()?;
    require(&[
        ("ip", "iproute2"),
        ("iperf3", "iperf3"),
        ("ping", "iputils-ping"),
        ("nsenter", "util-linux"),
    ])?;
    let beside = std::env::current_exe().context("cannot find this binary")?.with_file_name("weir");
    let weir = args.weir.clone().unwrap_or(beside);
    ensure!(
        weir.is_file(),
        "no {}: build it (cargo build --release) or name it with --weir FILE",
        weir.display()
    );
    fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    let interrupt = Interrupt::install()?;
    let mut progress = Progress::new();
    progress.stage("starting weir between two namespaces");
    let bed = Bed::new(&weir, &interrupt)?;
    page::pictures(&bed, args, &mut progress, &interrupt)
}

/// Writes a picture; one that is too large for a README is a mistake of its maker.
fn write(folder: &Path, name: &str, picture: &[u8]) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
    ensure!(picture.len() < LARGEST, "{} has {} bytes, more than {LARGEST}", path.display(), picture.len());
    Ok(())
}

/// Bytes: a README is read over slow links too.
const LARGEST: usize = 200_000;
