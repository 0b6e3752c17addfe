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

/// A program and how to read it.
pub(crate) enum Source {
    /// `dpdk-testpmd` forwarding between two net_null ports on one lcore: Mpps of both ports together.
    Testpmd { name: &'static str },
    /// A program that takes `--qdisc` and prints `{"mpps": N, …}` as its last line.
    Mpps { name: &'static str, program: PathBuf, qdisc: &'static str },
    /// A program that prints rows of a name, two blanks or more, and a value; `name` goes before each.
    Rows { name: &'static str, program: PathBuf, unit: &'static str },
}

/// All sources, those to compare with each other side by side; programs lie in `folder`.
pub(crate) fn sources(folder: &Path) -> Vec<Source> {
    let example = |name: &str| folder.join("examples").join(name);
    vec![
        Source::Testpmd { name: "bench.null.testpmd_macfwd" },
        Source::Mpps { name: "bench.null.weir_fq_codel", program: example("null_path"), qdisc: "fq_codel" },
        Source::Mpps { name: "bench.null.weir_cake", program: example("null_path"), qdisc: "cake" },
        Source::Rows { name: "bench.live_rate_off", program: example("live_rate"), unit: "%" },
        Source::Rows { name: "bench.fq_codel", program: example("fq_codel_bench"), unit: "ns" },
        Source::Rows { name: "bench.cake", program: example("cake_bench"), unit: "ns" },
        Source::Rows { name: "bench.dissect", program: example("dissect_bench"), unit: "ns" },
    ]
}

impl Source {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Testpmd { name } | Self::Mpps { name, .. } | Self::Rows { name, .. } => name,
        }
    }

    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Self::Testpmd { .. } | Self::Mpps { .. } => "Mpps",
            Self::Rows { unit, .. } => unit,
        }
    }

    /// An error that says what to install or build.
    pub(crate) fn require(&self) -> Result<()> {
        match self {
            Self::Testpmd { .. } => require(&[("dpdk-testpmd", "dpdk"), ("stdbuf", "coreutils")]),
            Self::Mpps { program, .. } | Self::Rows { program, .. } => {
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
            Self::Mpps { program, qdisc, .. } => {
                let mut run = command(program);
                run.args(["--qdisc", qdisc, "--seconds", &seconds.to_string()]);
                run
            }
            Self::Rows { program, .. } => command(program),
        }
    }

    /// Runs it once; pairs of name and value.
    pub(crate) fn measure(&self, seconds: u32, interrupt: &Interrupt) -> Result<Vec<(String, f64)>> {
        let run = self.command(seconds);
        match self {
            Self::Testpmd { name } => Ok(vec![((*name).to_owned(), macfwd(run, seconds, interrupt)?)]),
            Self::Mpps { name, .. } => {
                let lines = lines(run, Duration::from_secs(seconds.into()) + PATIENCE, interrupt)?;
                Ok(vec![((*name).to_owned(), parse_mpps(&lines)?)])
            }
            Self::Rows { name, .. } => {
                let lines = lines(run, PATIENCE, interrupt)?;
                let rows: Vec<_> = lines.iter().filter_map(|line| parse_row(line)).collect();
                ensure!(!rows.is_empty(), "it printed no row: {}", lines.join("\n"));
                Ok(rows.into_iter().map(|(row, value)| (format!("{name}.{}", slug(row)), value)).collect())
            }
        }
    }
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

/// Reads `NAME      median   12.3 ns  least   11.0 ns` and `NAME      12.3     11.0`.
fn parse_row(line: &str) -> Option<(&str, f64)> {
    let (name, rest) = line.split_once("  ")?;
    let median = rest.split_whitespace().find(|word| *word != "median")?.parse().ok()?;
    (!name.is_empty()).then_some((name, median))
}

/// Lower-case letters and digits with single underscores between.
fn slug(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

const PORTS: u32 = 2;
/// A micro-benchmark takes some 10 s alone; a busy machine several times that.
const PATIENCE: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_kinds_are_read() {
        let row = "64 flows, hash ready: enqueue + dequeue              median   21.5 ns  least   20.0 ns";
        assert_eq!(parse_row(row), Some(("64 flows, hash ready: enqueue + dequeue", 21.5)));
        assert_eq!(slug(parse_row(row).unwrap().0), "64_flows_hash_ready_enqueue_dequeue");
        assert_eq!(parse_row("empty call                      1.2      1.1"), Some(("empty call", 1.2)));
        assert_eq!(parse_row("ns/packet                    median      min"), None);
        assert_eq!(parse_row("                   sent 5 dropped 0 queued 1, 2 new flows"), None);
        assert_eq!(parse_row(""), None);
    }

    #[test]
    fn rates_are_read_from_their_own_lines() {
        assert_eq!(parse_pps("  Tx-pps:     20273922          Tx-bps:            0"), Some(20_273_922.0));
        assert_eq!(parse_pps("  Rx-pps:     20273938          Rx-bps:            0"), None);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse_mpps(&lines("EAL: chatter\n{\"mpps\": 9.5, \"flows\": 64}")).unwrap(), 9.5);
        assert!(parse_mpps(&lines("{\"kpps\": 1}")).unwrap_err().to_string().contains("kpps"));
        assert!(parse_mpps(&[]).is_err());
    }
}
