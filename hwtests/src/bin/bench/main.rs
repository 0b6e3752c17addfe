//! The benchmarks: the whole packet path beside `dpdk-testpmd` on the same devices, and its parts.
//!
//! Every source is run in turn, several times over, so that a busy machine hits them alike. Prints a table with
//! ratios and spread, writes `result.json`. Exit status 0 when everything was measured, whether or not a bar holds.

mod scrape;
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

use crate::sources::{Source, Value, sources};

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

impl Row {
    fn better(&self) -> Better {
        let is_more = self.name == MERGED || self.name.ends_with(LEAST_WAITING);
        if is_more || ["Mpps", "changes"].contains(&self.unit) { Better::Higher } else { Better::Lower }
    }
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
            if turn > 1 && source.is_exact() {
                continue;
            }
            progress.stage(&format!("turn {turn}/{}: {}", args.repeats, source.name()));
            let measured = source.measure(args.seconds, interrupt);
            for Value { name, value, unit } in
                measured.with_context(|| format!("cannot measure {}", source.name()))?
            {
                match rows.iter_mut().find(|row| row.name == name) {
                    Some(row) => row.values.push(value),
                    None => rows.push(Row { name, unit, values: vec![value] }),
                }
            }
        }
    }
    Ok(rows)
}

fn figures(rows: &[Row]) -> Vec<Figure> {
    let value = |name: &str| rows.iter().find(|row| row.name == name).map(|row| median(&row.values));
    let figure = |row: &Row| {
        let mut figure =
            Figure::new(&row.name, median(&row.values), row.unit, row.better()).spread(spread(&row.values));
        if let Some(&(_, bar)) = BARS.iter().find(|(name, _)| *name == row.name) {
            figure = figure.bar(bar);
        }
        if let Some((_, name)) = PEERS.iter().find(|(name, _)| *name == row.name)
            && let Some(peer) = value(name)
        {
            figure = figure.peer(*name, peer);
        }
        figure
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
        let _ = writeln!(text, "{:<40}{}", source.name(), source.typed(args.seconds));
    }
    let _ = writeln!(text, "\n{}/result.json", args.out.display());
    text
}

/// null → parse + hash + discipline → null on one lcore.
const FQ_CODEL: &str = "bench.null.weir_fq_codel";
const CAKE: &str = "bench.null.weir_cake";
const TESTPMD: &str = "bench.null.testpmd_macfwd";
/// DPDK's own splitter: IPv4 only, no checksum.
const RTE_GSO: &str = "bench.split.cut_ipv4_rte_gso_no_checksum";
/// Share of the packets of a burst in order that went into another.
const MERGED: &str = "bench.split.merged_ipv4_of_one_burst_in_order";
/// Packets that waited when a change came.
const LEAST_WAITING: &str = "waiting_at_a_change_least";
/// What stands beside what, measured in the same run.
const PEERS: [(&str, &str); 11] = [
    (FQ_CODEL, TESTPMD),
    (CAKE, TESTPMD),
    ("bench.null.weir_fq_codel_gate_submit", FQ_CODEL),
    ("bench.null.weir_cake_gate_submit", CAKE),
    ("bench.split.cut_ipv4_refer", RTE_GSO),
    ("bench.split.cut_ipv6_refer", RTE_GSO),
    ("bench.split.cut_ipv4_copy", RTE_GSO),
    ("bench.split.cut_ipv6_copy", RTE_GSO),
    ("bench.split.free_ipv4_refer", "bench.split.free_ipv4_rte_gso"),
    ("bench.reload.1_mpps_turn_between_changes_p99", "bench.reload.1_mpps_turn_without_changes_p99"),
    ("bench.reload.90_load_turn_between_changes_p99", "bench.reload.90_load_turn_without_changes_p99"),
];
/// Mpps, ns, instructions, percent, and ms of a scrape. Those of cake, cold and overload lie below what Linux's code takes in user
/// space on such a machine: 43 ns besteffort, 156 ns diffserv4, 596 and 207 ns cold, 2066 ns ACK filter, 143 and
/// 683 ns overload.
const BARS: [(&str, f64); 38] = [
    (FQ_CODEL, 8.0),
    (CAKE, 6.0),
    ("bench.fq_codel.64_flows_hash_ready_enqueue_dequeue", 25.0),
    ("bench.fq_codel.1000_flows_65536_descriptors_4000_queued", 120.0),
    ("bench.fq_codel.64_flows_overload_2_enqueues_1_drop_1_dequeue", 90.0),
    ("bench.cake.besteffort_flows_64_flows", 35.0),
    ("bench.cake.diffserv4_triple_isolate_64_flows_from_the_frame", 78.0),
    ("bench.cake.diffserv4_triple_isolate_cold_from_the_frame", 250.0),
    ("bench.cake.200_queued_acks_with_ack_filter", 100.0),
    ("bench.cake.overload_2_enqueues_1_drop_1_dequeue", 100.0),
    ("bench.telemetry.fq_codel.cost_of_all_histograms_and_talkers", 5.0),
    ("bench.telemetry.cake.cost_of_all_histograms_and_talkers", 5.0),
    ("bench.telemetry.scrapers.throughput_lost_to_10_scrapers", 5.0),
    ("bench.live_rate_off.1mbit", 0.2),
    ("bench.live_rate_off.10mbit", 0.2),
    ("bench.live_rate_off.100mbit", 0.2),
    ("bench.live_rate_off.1gbit", 0.2),
    ("bench.live_rate_off.10gbit", 0.2),
    ("bench.split.cut_ipv4_refer", 60.0),
    ("bench.split.cut_ipv6_refer", 60.0),
    ("bench.split.cut_ipv4_copy", 110.0),
    ("bench.split.cut_ipv6_copy", 110.0),
    ("bench.split.checksum_ipv4_refer", 70.0),
    ("bench.split.checksum_ipv6_refer", 70.0),
    ("bench.split.checksum_ipv4_copy", 70.0),
    ("bench.split.checksum_ipv6_copy", 70.0),
    ("bench.split.merge_ipv4_checked_by_the_port", 35.0),
    ("bench.split.merge_ipv6_checked_by_the_port", 35.0),
    (MERGED, 90.0),
    ("bench.reload.1_mpps_lost_with_changes", 0.0),
    ("bench.reload.1_mpps_overtaken", 0.0),
    ("bench.reload.1_mpps_turn_with_a_change_longest", 100.0),
    ("bench.reload.90_load_lost_with_changes", 0.0),
    ("bench.reload.90_load_overtaken", 0.0),
    ("bench.reload.90_load_turn_with_a_change_longest", 100.0),
    ("bench.governor.held_references_instructions", 40.0),
    ("bench.governor.descriptor_status_instructions", 15.0),
    ("bench.metrics.processor_time_of_a_get", 5.0),
];
