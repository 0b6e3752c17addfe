//! What a campaign leaves: figures, verdicts, and everything that it takes to repeat and to judge them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::process::run;
use crate::report::{Better, Report};
use crate::rig::Rig;
use crate::scenario::{Curve, Is, Samples, Sense};
use crate::witness::Account;

/// `result.json`: the figures under the names of every other report of the project, and more beside them.
#[derive(Debug, Serialize)]
pub struct Record {
    /// Machine, date, commit, results.
    #[serde(flatten)]
    pub report: Report,
    /// What else the figures depend on.
    pub environment: Environment,
    /// Every repeat of every figure, by its name.
    pub repeats: BTreeMap<String, Vec<f64>>,
    /// One for each scenario and rig.
    pub experiments: Vec<Experiment>,
}

/// The machine beyond [`crate::report::Machine`].
#[derive(Debug, Serialize)]
pub struct Environment {
    /// The command line.
    pub command: Vec<String>,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Load averages when it began: other work makes gaps.
    pub load_before: String,
    /// `hypervisor` when the CPU says that it is virtual.
    pub virtual_machine: bool,
    /// Versions of what made the traffic.
    pub tools: BTreeMap<String, String>,
}

/// One scenario on one rig.
#[derive(Debug, Serialize)]
pub struct Experiment {
    /// Its name.
    pub scenario: String,
    /// What it does and how to read it.
    pub about: String,
    /// Where, with all its settings.
    pub rig: Rig,
    /// `--seconds`.
    pub seconds: u32,
    /// `--repeats`.
    pub repeats: u32,
    /// Why nothing was measured, if so.
    pub missing: Vec<String>,
    /// In the order of their turns.
    pub cases: Vec<CaseRecord>,
    /// What came out.
    pub verdicts: Vec<Verdict>,
}

/// One case over all its runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CaseRecord {
    /// In names of figures.
    pub name: String,
    /// For people.
    pub label: String,
    /// What ran.
    pub settings: String,
    /// Why it was not measured, with the remedy.
    pub not_available: Option<String>,
    /// Runs that failed, and why.
    pub failures: Vec<String>,
    /// Medians over the repeats.
    pub medians: Vec<Median>,
    /// Medians of what the witnesses say.
    pub accounts: Vec<Account>,
    /// What was run.
    pub commands: Vec<String>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// Sums of weir's counters over the runs.
    pub counters: BTreeMap<String, u64>,
    /// Curves of the first run.
    #[serde(skip)]
    pub curves: Vec<Curve>,
    /// Samples of all runs.
    #[serde(skip)]
    pub samples: Vec<Samples>,
}

/// A value over all repeats.
#[derive(Clone, Debug, Serialize)]
pub struct Median {
    /// Its name within the case.
    pub name: String,
    /// The middle one.
    pub value: f64,
    /// Largest minus smallest.
    pub spread: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// Which way is up.
    pub better: Better,
}

/// A bar and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// In words.
    pub says: String,
    /// Fault, cure or promise.
    pub is: Is,
    /// The case.
    pub case: String,
    /// The value's name.
    pub value_name: String,
    /// What was measured.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// Side of the bound.
    pub sense: Sense,
    /// The bound.
    pub bound: Option<f64>,
    /// Whether it is met; none when it could not be measured.
    pub met: Option<bool>,
}

impl Verdict {
    /// In one or two words.
    pub fn word(&self) -> &'static str {
        match (self.is, self.met) {
            (_, None) => "not measured",
            (Is::Fault, Some(true)) => "shown",
            (Is::Fault, Some(false)) => "not shown",
            (Is::Cure, Some(true)) => "cured",
            (Is::Cure, Some(false)) => "not cured",
            (Is::Promise, Some(true)) => "kept",
            (Is::Promise, Some(false)) => "missed",
        }
    }
}

impl Environment {
    /// Looks at the machine.
    pub fn look() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let memory = read("/proc/meminfo");
        let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let memory = memory.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let version = |program: &str, arguments: &[&str]| {
            let text = run(Command::new(program).args(arguments)).unwrap_or_else(|_| "not installed".into());
            (program.to_owned(), text.lines().next().unwrap_or_default().to_owned())
        };
        Self {
            command: std::env::args().collect(),
            memory_mib: memory.unwrap_or(0) >> 10,
            load_before: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            virtual_machine: read("/proc/cpuinfo").contains("hypervisor"),
            tools: [
                version("iperf3", &["--version"]),
                version("ping", &["-V"]),
                version("ip", &["-V"]),
                version("irtt", &["version"]),
            ]
            .into(),
        }
    }
}
