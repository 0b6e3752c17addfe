//! The benchmarks: the whole packet path beside `dpdk-testpmd` on the same devices, and its parts.
//!
//! Every source is run in turn, several times over, so that a busy machine hits them alike. Prints a table with
//! ratios and spread, writes `result.json`. Exit status 0 when everything was measured, whether or not a bar holds.

mod sources;

use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hwtests::clock::{Interrupt, exit_code};
use hwtests::plot::significant;
use hwtests::progress::Progress;
use hwtests::report::{Better, Figure, Report};
use hwtests::stats::{median, spread};

use crate::sources::{Source, sources};

/// Measures the whole packet path beside dpdk-testpmd on the same devices, and its parts.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Time of each measurement of a packet path, seconds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=600))]
    seconds: u32,
    /// Turns of all sources
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Only sources whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Folder for result.json
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
    /// Print result.json instead of the table
    #[arg(long)]
    json: bool,
}

/// One thing that was measured several times.
struct Row {
    name: String,
    unit: &'static str,
    values: Vec<f64>,
}

fn main() -> ExitCode {
    exit_code("bench", bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<()> {
    let beside = env::current_exe().context("cannot find this binary")?;
    let sources: Vec<_> = sources(beside.parent().unwrap_or(Path::new(".")))
        .into_iter()
        .filter(|source| source.name().contains(&args.only))
        .collect();
    ensure!(!sources.is_empty(), "no source has \"{}\" in its name", args.only);
    sources.iter().try_for_each(Source::require)?;
    let interrupt = Interrupt::install()?;
    fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    let rows = measure(&sources, args, &interrupt)?;
    let report = Report::new(figures(&rows))?;
    report.write(&args.out)?;
    let text = if args.json { report.json()? } else { table(&report, &sources, args) };
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

fn measure(sources: &[Source], args: &Args, interrupt: &Interrupt) -> Result<Vec<Row>> {
    let mut progress = Progress::new();
    let mut rows: Vec<Row> = Vec::new();
    for turn in 1..=args.repeats {
        for source in sources {
            progress.stage(&format!("turn {turn}/{}: {}", args.repeats, source.name()));
            let measured = source.measure(args.seconds, interrupt);
            for (name, value) in measured.with_context(|| format!("cannot measure {}", source.name()))? {
                match rows.iter_mut().find(|row| row.name == name) {
                    Some(row) => row.values.push(value),
                    None => rows.push(Row { name, unit: source.unit(), values: vec![value] }),
                }
            }
        }
    }
    Ok(rows)
}

fn figures(rows: &[Row]) -> Vec<Figure> {
    let peer = rows.iter().find(|row| row.name == PATH_PEER).map(|row| median(&row.values));
    let figure = |row: &Row| {
        let better = if row.unit == "Mpps" { Better::Higher } else { Better::Lower };
        let figure =
            Figure::new(&row.name, median(&row.values), row.unit, better).spread(spread(&row.values));
        let bar = BARS.iter().find(|(name, _)| *name == row.name);
        let figure = bar.map_or(figure.clone(), |&(_, bar)| figure.bar(bar));
        match peer {
            Some(peer) if PATHS.contains(&row.name.as_str()) => figure.peer(PATH_PEER, peer),
            _ => figure,
        }
    };
    rows.iter().map(figure).collect()
}

fn table(report: &Report, sources: &[Source], args: &Args) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "Median of {} turns; {}, {} cores, Linux {}, DPDK {}; {}\n\n{:<66} {:>12} {:>8}\n",
        args.repeats,
        machine.cpu,
        machine.cores,
        machine.kernel,
        machine.dpdk,
        report.date,
        "",
        "median",
        "spread"
    );
    for figure in &report.results {
        let value = format!("{} {}", significant(figure.value), figure.unit);
        let spread = significant(figure.spread.unwrap_or(f64::NAN));
        let _ = write!(text, "{:<66} {value:>12} {spread:>8}", figure.name);
        if let Some(bar) = figure.bar {
            let sign = if figure.better == Better::Higher { ">=" } else { "<=" };
            let holds = if figure.holds == Some(true) { "holds" } else { "MISSES" };
            let _ = write!(text, "  {holds} {sign} {bar}");
        }
        if let Some(peer) = &figure.peer {
            let _ = write!(text, "  {:.2} of {}", figure.value / peer.value, peer.name);
        }
        text.push('\n');
    }
    text.push_str("\nMeasured by, in turn:\n");
    for source in sources {
        let _ = writeln!(text, "{:<28}{}", source.name(), source.typed(args.seconds));
    }
    let _ = writeln!(text, "\n{}/result.json", args.out.display());
    text
}

/// null → parse + hash + discipline → null on one lcore, and their peer on the same devices.
const PATHS: [&str; 2] = ["bench.null.weir_fq_codel", "bench.null.weir_cake"];
const PATH_PEER: &str = "bench.null.testpmd_macfwd";
/// Mpps, ns and percent. Those of cake, cold and overload lie below what Linux's code takes in user space on such a
/// machine: 43 ns besteffort, 156 ns diffserv4, 596 and 207 ns cold, 2066 ns ACK filter, 143 and 683 ns overload.
const BARS: [(&str, f64); 15] = [
    (PATHS[0], 8.0),
    (PATHS[1], 6.0),
    ("bench.fq_codel.64_flows_hash_ready_enqueue_dequeue", 25.0),
    ("bench.fq_codel.1000_flows_65536_descriptors_4000_queued", 120.0),
    ("bench.fq_codel.64_flows_overload_2_enqueues_1_drop_1_dequeue", 90.0),
    ("bench.cake.besteffort_flows_64_flows", 35.0),
    ("bench.cake.diffserv4_triple_isolate_64_flows_from_the_frame", 78.0),
    ("bench.cake.diffserv4_triple_isolate_cold_from_the_frame", 250.0),
    ("bench.cake.200_queued_acks_with_ack_filter", 100.0),
    ("bench.cake.overload_2_enqueues_1_drop_1_dequeue", 100.0),
    ("bench.live_rate_off.1mbit", 0.2),
    ("bench.live_rate_off.10mbit", 0.2),
    ("bench.live_rate_off.100mbit", 0.2),
    ("bench.live_rate_off.1gbit", 0.2),
    ("bench.live_rate_off.10gbit", 0.2),
];
