//! Where figures come from: programs that print them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hwtests::clock::{Interrupt, now};
use hwtests::forwarder::{RuntimeFolder, poll_cpu, testpmd};
use hwtests::process::{Process, Signal, command, require, typed};
use hwtests::stats::median;
use serde::Deserialize;

use crate::scrape::{scrape, slowed};

/// A program and how to read it.
pub(crate) enum Source {
    /// `dpdk-testpmd` forwarding between two net_null ports on one lcore: Mpps of both ports together.
    Testpmd { name: &'static str },
    /// A program that prints `{"mpps": N, …}` as its last line, and takes `--seconds` beside its arguments.
    Mpps { name: &'static str, program: PathBuf, args: &'static [&'static str] },
    /// A program that prints rows of a name, two blanks or more, and a value, maybe with its unit; `name` goes
    /// before each.
    Rows { name: &'static str, program: PathBuf, args: &'static [&'static str], unit: &'static str },
    /// A program that takes a case and a number of packets, under callgrind: what each case takes more than the
    /// first, per packet.
    Instructions { name: &'static str, program: PathBuf, without: &'static str, cases: &'static [Case] },
    /// A running weir, asked for its metrics.
    Scrape { name: &'static str, weir: PathBuf },
    /// A running weir at full speed, with and without ten who ask for its metrics.
    Slowed { name: &'static str, weir: PathBuf },
}

/// A case of [`Source::Instructions`]: the argument, and the name of its row.
type Case = (&'static str, &'static str);

/// What was measured.
#[derive(Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// All sources, those to compare with each other side by side; programs lie in `folder`.
pub(crate) fn sources(folder: &Path) -> Vec<Source> {
    let example = |name: &str| folder.join("examples").join(name);
    let null_path = |name, args| Source::Mpps { name, program: example("null_path"), args };
    let telemetry = |name, args| Source::Rows { name, program: example("null_path"), args, unit: "%" };
    let rows = |name, program, unit| Source::Rows { name, program: example(program), args: &[], unit };
    vec![
        Source::Testpmd { name: "bench.null.testpmd_macfwd" },
        null_path("bench.null.weir_fq_codel", &["--qdisc", "fq_codel"]),
        null_path("bench.null.weir_fq_codel_gate_submit", &["--qdisc", "fq_codel", "--gate", "submit"]),
        null_path("bench.null.weir_cake", &["--qdisc", "cake"]),
        null_path("bench.null.weir_cake_gate_submit", &["--qdisc", "cake", "--gate", "submit"]),
        telemetry(
            "bench.telemetry.fq_codel",
            &["--qdisc", "fq_codel", "--telemetry", "on", "--seconds", "10"],
        ),
        telemetry("bench.telemetry.cake", &["--qdisc", "cake", "--telemetry", "on", "--seconds", "10"]),
        rows("bench.live_rate_off", "live_rate", "%"),
        rows("bench.fq_codel", "fq_codel_bench", "ns"),
        rows("bench.cake", "cake_bench", "ns"),
        rows("bench.dissect", "dissect_bench", "ns"),
        rows("bench.split", "split_bench", "ns"),
        rows("bench.reload", "reload_storm", "us"),
        Source::Rows {
            name: "bench.governor",
            program: example("gate_instructions"),
            args: &["times"],
            unit: "ns",
        },
        Source::Instructions {
            name: "bench.governor",
            program: example("gate_instructions"),
            without: "gate_none",
            cases: &[
                ("gate_held", "held_references_instructions"),
                ("gate_status", "descriptor_status_instructions"),
            ],
        },
        Source::Slowed { name: "bench.telemetry.scrapers", weir: folder.join("weir") },
        Source::Scrape { name: "bench.metrics", weir: folder.join("weir") },
    ]
}

impl Source {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Testpmd { name }
            | Self::Mpps { name, .. }
            | Self::Rows { name, .. }
            | Self::Instructions { name, .. }
            | Self::Slowed { name, .. }
            | Self::Scrape { name, .. } => name,
        }
    }

    /// Whether it says the same whatever else the machine does.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Self::Instructions { .. })
    }

    /// An error that says what to install or build.
    pub(crate) fn require(&self) -> Result<()> {
        match self {
            Self::Testpmd { .. } => require(&[("dpdk-testpmd", "dpdk"), ("stdbuf", "coreutils")]),
            Self::Mpps { program, .. }
            | Self::Rows { program, .. }
            | Self::Instructions { program, .. }
            | Self::Slowed { weir: program, .. }
            | Self::Scrape { weir: program, .. } => {
                if self.is_exact() {
                    require(&[("valgrind", "valgrind")])?;
                }
                let remedy = "build it: cargo build --release --workspace --bins --examples";
                ensure!(program.is_file(), "no {}; {remedy}", program.display());
                Ok(())
            }
        }
    }

    /// What is run, as one would type it.
    pub(crate) fn typed(&self, seconds: u32) -> String {
        typed(&self.command(seconds))
    }

    fn command(&self, seconds: u32) -> Command {
        match self {
            Self::Testpmd { .. } => {
                let devices = ["net_null0,size=64", "net_null1,size=64"];
                testpmd(poll_cpu(), devices, "--forward-mode=mac --no-flush-rx --stats-period=1")
            }
            Self::Mpps { program, args, .. } => {
                let mut run = command(program);
                run.args(*args).args(["--seconds", &seconds.to_string()]);
                run
            }
            Self::Rows { program, args, .. } => {
                let mut run = command(program);
                run.args(*args);
                run
            }
            Self::Instructions { program, without, .. } => callgrind(program, without, MANY),
            Self::Scrape { weir, .. } | Self::Slowed { weir, .. } => {
                let mut run = command(weir);
                run.args(["run", "bench.toml"]);
                run
            }
        }
    }

    /// Runs it once.
    pub(crate) fn measure(&self, seconds: u32, interrupt: &Interrupt) -> Result<Vec<Value>> {
        let run = self.command(seconds);
        let mpps = |name: &str, value| vec![Value { name: name.to_owned(), value, unit: "Mpps" }];
        match self {
            Self::Testpmd { name } => Ok(mpps(name, macfwd(run, seconds, interrupt)?)),
            Self::Mpps { name, .. } => {
                let lines = lines(run, Duration::from_secs(seconds.into()) + PATIENCE, interrupt)?;
                Ok(mpps(name, parse_mpps(&lines)?))
            }
            Self::Rows { name, unit, .. } => {
                let lines = lines(run, PATIENCE, interrupt)?;
                let rows: Vec<_> = lines.iter().filter_map(|line| parse_row(line, name, unit)).collect();
                ensure!(!rows.is_empty(), "it printed no row: {}", lines.join("\n"));
                Ok(rows)
            }
            Self::Instructions { name, program, without, cases } => {
                let without = per_packet(program, without, interrupt)?;
                let more = |(case, row): &Case| {
                    let value = per_packet(program, case, interrupt)? - without;
                    Ok(Value { name: format!("{name}.{row}"), value, unit: "instructions" })
                };
                cases.iter().map(more).collect()
            }
            Self::Scrape { name, weir } => scrape(name, weir, seconds, interrupt),
            Self::Slowed { name, weir } => slowed(name, weir, seconds, interrupt),
        }
    }
}

/// Instructions that a packet takes: the difference of a long run and a short one, so that the start does not count.
fn per_packet(program: &Path, case: &str, interrupt: &Interrupt) -> Result<f64> {
    let count = |packets| {
        let lines = lines(callgrind(program, case, packets), PATIENCE, interrupt)?;
        parse_collected(&lines).with_context(|| format!("callgrind counted nothing: {}", lines.join("\n")))
    };
    Ok((count(MANY)? - count(FEW)?) / f64::from(MANY - FEW))
}

fn callgrind(program: &Path, case: &str, packets: u32) -> Command {
    let mut run = command(Path::new("valgrind"));
    run.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    run.args([case, &packets.to_string()]);
    run
}

/// Runs a program to its end and returns its lines.
fn lines(mut program: Command, patience: Duration, interrupt: &Interrupt) -> Result<Vec<String>> {
    let mut process = Process::spawn("the program", &mut program, None)?;
    let end = now() + patience;
    while process.ended()?.is_none() {
        ensure!(now() < end, "it did not end within {patience:?}");
        interrupt.sleep(Duration::from_millis(20))?;
    }
    let (status, lines) = process.stop(Signal::TERM, STOP)?;
    ensure!(status.success(), "it failed ({status}): {}", lines.join("\n"));
    Ok(lines)
}

/// The median over `seconds` periods of one second, the first left out.
fn macfwd(mut testpmd: Command, seconds: u32, interrupt: &Interrupt) -> Result<f64> {
    let _runtime = RuntimeFolder::of_testpmd();
    let mut process = Process::spawn("dpdk-testpmd", &mut testpmd, None)?;
    let mut rates = Vec::new();
    let measured = (0..(seconds + 1) * PORTS).try_for_each(|_| {
        process.wait_for("Throughput", PATIENCE, interrupt)?;
        process.wait_for("Rx-pps", PATIENCE, interrupt)?;
        let line = process.line(PATIENCE).context("dpdk-testpmd printed no rate")?;
        rates.push(parse_pps(&line).with_context(|| format!("no Tx-pps in \"{line}\""))?);
        Ok(())
    });
    let stopped = process.stop(Signal::INT, STOP);
    measured.and(stopped.map(drop))?;
    let periods: Vec<f64> = rates.chunks(PORTS as usize).skip(1).map(|ports| ports.iter().sum()).collect();
    Ok(median(&periods) / 1e6)
}

/// Reads `  Tx-pps:     20273922          Tx-bps:            0`.
fn parse_pps(line: &str) -> Option<f64> {
    line.trim_start().strip_prefix("Tx-pps:")?.split_whitespace().next()?.parse().ok()
}

fn parse_mpps(lines: &[String]) -> Result<f64> {
    #[derive(Deserialize)]
    struct Printed {
        mpps: f64,
    }
    let last = lines.last().context("it printed nothing")?;
    let printed: Printed =
        serde_json::from_str(last).with_context(|| format!("no {{\"mpps\": …}}: {last}"))?;
    Ok(printed.mpps)
}

/// Reads `==7== Collected : 123456` of callgrind.
fn parse_collected(lines: &[String]) -> Option<f64> {
    lines.iter().find(|line| line.contains("Collected"))?.split_whitespace().last()?.parse().ok()
}

/// Reads `NAME      median   12.3 ns  least   11.0 ns`, `NAME      12.3     11.0` and `NAME      96.9 %`; a unit
/// that is none of [`UNITS`] is the source's.
fn parse_row(line: &str, source: &str, unit: &'static str) -> Option<Value> {
    let (name, rest) = line.split_once("  ")?;
    let mut words = rest.split_whitespace().filter(|word| *word != "median");
    let value = words.next()?.parse().ok()?;
    let said = words.next();
    let unit = UNITS.into_iter().find(|known| said == Some(known)).unwrap_or(unit);
    (!name.is_empty()).then(|| Value { name: format!("{source}.{}", slug(name)), value, unit })
}

/// Lower-case letters and digits with single underscores between.
fn slug(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

/// Units that a row may have whatever its source has.
const UNITS: [&str; 7] = ["%", "Mpps", "packets", "changes", "turns", "gaps", "KiB"];
const PORTS: u32 = 2;
/// Packets of a run under callgrind; as `.ci/instructions` counts.
const FEW: u32 = 20_000;
const MANY: u32 = 120_000;
/// The longest, a thousand changes at two loads, takes a minute alone; a busy machine several times that.
const PATIENCE: Duration = Duration::from_secs(600);
const STOP: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_kinds_are_read() {
        let row = "64 flows, hash ready: enqueue + dequeue              median   21.5 ns  least   20.0 ns";
        let value = |name: &str, value, unit| Some(Value { name: name.into(), value, unit });
        let parse = |row| parse_row(row, "a", "ns");
        assert_eq!(parse(row), value("a.64_flows_hash_ready_enqueue_dequeue", 21.5, "ns"));
        assert_eq!(parse("empty call                      1.2      1.1"), value("a.empty_call", 1.2, "ns"));
        assert_eq!(parse("merged of one burst   96.9 %"), value("a.merged_of_one_burst", 96.9, "%"));
        assert_eq!(parse("1 Mpps: lost   7 packets"), value("a.1_mpps_lost", 7.0, "packets"));
        assert_eq!(parse("ns/packet                    median      min"), None);
        assert_eq!(parse("                   sent 5 dropped 0 queued 1, 2 new flows"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn rates_are_read_from_their_own_lines() {
        assert_eq!(parse_pps("  Tx-pps:     20273922          Tx-bps:            0"), Some(20_273_922.0));
        assert_eq!(parse_pps("  Rx-pps:     20273938          Rx-bps:            0"), None);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse_mpps(&lines("EAL: chatter\n{\"mpps\": 9.5, \"flows\": 64}")).unwrap(), 9.5);
        assert!(parse_mpps(&lines("{\"kpps\": 1}")).unwrap_err().to_string().contains("kpps"));
        assert!(parse_mpps(&[]).is_err());
        assert_eq!(parse_collected(&lines("==7== Events    : Ir\n==7== Collected : 5120")), Some(5120.0));
        assert_eq!(parse_collected(&lines("==7== Events    : Ir")), None);
    }
}
