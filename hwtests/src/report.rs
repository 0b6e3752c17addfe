//! `result.json`: what was measured, on what, and whether it holds.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process::run;

/// All results of one command.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// When it ended, UTC, RFC 3339.
    pub date: String,
    /// What was built, as `git describe` says it.
    pub commit: String,
    /// The figures, in the order of their printing.
    pub results: Vec<Figure>,
}

/// What the figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name of the first CPU.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// Version of libdpdk, as pkg-config says it.
    pub dpdk: String,
}

/// One measured value. Names are stable: later runs are compared by them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Dotted, lower case.
    pub name: String,
    /// The value; JSON null when it is not a number.
    pub value: f64,
    /// Unit of `value`, `bar`, `peer.value` and `spread`.
    pub unit: &'static str,
    /// Which way is up.
    pub better: Better,
    /// The bound that `value` must keep, if there is one.
    pub bar: Option<f64>,
    /// Whether it does.
    pub holds: Option<bool>,
    /// What it is compared with, measured in the same run.
    pub peer: Option<Peer>,
    /// Largest minus smallest over the repeats.
    pub spread: Option<f64>,
}

/// Direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Smaller values are better.
    Lower,
    /// Larger values are better.
    Higher,
}

/// A value to compare with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peer {
    /// What was measured.
    pub name: String,
    /// In the unit of the figure.
    pub value: f64,
}

impl Report {
    /// Stamps the figures with machine, date and commit.
    pub fn new(results: Vec<Figure>) -> Result<Self> {
        let date = run(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?;
        // Root may not own the clone. A source archive has no git; the figures are still worth having.
        let commit =
            run(Command::new("git").args(["-c", "safe.directory=*", "describe", "--always", "--dirty"]));
        Ok(Self {
            machine: Machine::this(),
            date,
            commit: commit.unwrap_or_else(|_| UNKNOWN.into()),
            results,
        })
    }

    /// Writes `result.json` into `folder`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join("result.json");
        fs::write(&path, self.json()?).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The JSON text, with a line feed at its end.
    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl Machine {
    fn this() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| UNKNOWN.into());
        let dpdk = run(Command::new("pkg-config").args(["--modversion", "libdpdk"]));
        Self {
            cpu: cpu.map_or(UNKNOWN, |(_, model)| model).to_owned(),
            cores: available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            dpdk: dpdk.unwrap_or_else(|_| UNKNOWN.into()),
        }
    }
}

impl Figure {
    /// A value without bar, peer or spread.
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str, better: Better) -> Self {
        Self { name: name.into(), value, unit, better, bar: None, holds: None, peer: None, spread: None }
    }

    /// Judges the value; what is not a number does not hold.
    pub fn bar(mut self, bar: f64) -> Self {
        self.bar = Some(bar);
        self.holds = Some(match self.better {
            Better::Lower => self.value <= bar,
            Better::Higher => self.value >= bar,
        });
        self
    }

    /// Adds what it is compared with.
    pub fn peer(mut self, name: impl Into<String>, value: f64) -> Self {
        self.peer = Some(Peer { name: name.into(), value });
        self
    }

    /// Adds the spread over the repeats.
    pub fn spread(mut self, spread: f64) -> Self {
        self.spread = Some(spread);
        self
    }
}

const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_kept_on_its_own_side() {
        let figure = |value, better| Figure::new("x", value, "ms", better).bar(3.0).holds;
        assert_eq!(figure(3.0, Better::Lower), Some(true));
        assert_eq!(figure(3.1, Better::Lower), Some(false));
        assert_eq!(figure(3.1, Better::Higher), Some(true));
        assert_eq!(figure(2.9, Better::Higher), Some(false));
        assert_eq!(figure(f64::NAN, Better::Lower), Some(false));
        assert_eq!(figure(f64::NAN, Better::Higher), Some(false));
    }

    #[test]
    fn the_file_has_every_key() {
        let figure = Figure::new("a.b", 2.0, "ms", Better::Lower).bar(3.0).peer("fifo", 20.0);
        let machine = Machine { cpu: "c".into(), cores: 2, kernel: "k".into(), dpdk: "22.11".into() };
        let report = Report { machine, date: "d".into(), commit: "e".into(), results: vec![figure] };
        let expected = serde_json::json!({
            "machine": {"cpu": "c", "cores": 2, "kernel": "k", "dpdk": "22.11"}, "date": "d", "commit": "e",
            "results": [{"name": "a.b", "value": 2.0, "unit": "ms", "better": "lower", "bar": 3.0, "holds": true,
                         "peer": {"name": "fifo", "value": 20.0}, "spread": null}]});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&report.json().unwrap()).unwrap(), expected);
    }
}
