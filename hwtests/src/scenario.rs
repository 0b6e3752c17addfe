//! Scenarios: what is done to a rig, in which cases, and what is to come out.
//!
//! A scenario is data ([`Scenario`]) and one function that measures one case once. Everything around it, turns,
//! repeats, time left, verdicts, report, is [`crate::campaign`]'s.

pub mod burst;
pub mod fairness;
pub mod gso_split;
pub mod late_completion;
pub mod latency;
pub mod link_flap;
pub mod path;
pub mod probe;
pub mod rate_steps;
pub mod soak;
pub mod tcp_nup;
pub mod throughput;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::clock::Interrupt;
use crate::forwarder::Counters;
use crate::model::Plan;
use crate::ns3;
use crate::record::PortRecord;
use crate::report::Better;
use crate::rig::{Kind, Rig, has_program};
use crate::stats::{jain, median, quantile};
use crate::witness::Account;

/// One experiment.
pub struct Scenario {
    /// What `hwtests run` calls it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What is done and how to read it.
    pub about: &'static str,
    /// Kinds of rig that it runs on; the first one is the default.
    pub kinds: &'static [Kind],
    /// Default of `--seconds`.
    pub seconds: u32,
    /// Default of `--repeats`.
    pub repeats: u32,
    /// Seconds that one run takes, about.
    pub takes: fn(seconds: u32) -> u32,
    /// The cases on a rig, in the order of their turns.
    pub cases: fn(&Rig) -> Vec<Case>,
    /// Measures a case once. Whatever it made in the system is gone when it returns.
    pub measure: fn(&mut Run<'_>) -> Result<Measured>,
    /// What must come out.
    pub bars: fn(&Rig) -> Vec<Bar>,
}

/// One thing to compare.
#[derive(Clone, Debug)]
pub struct Case {
    /// In names of figures.
    pub name: &'static str,
    /// For people.
    pub label: String,
    /// What runs.
    pub with: With,
    /// The case to hold it against.
    pub peer: Option<&'static str>,
}

/// What carries the packets of a case.
#[derive(Clone, Debug)]
pub enum With {
    /// weir, with these keys of its two directions.
    Weir {
        /// From a to b.
        up: String,
        /// From b to a.
        down: String,
    },
    /// weir before a modelled card, or the card alone.
    Model(Box<Plan>),
    /// Nothing between the two ends.
    Bare,
    /// `dpdk-testpmd`, which does not shape: the bare wire.
    Testpmd,
    /// The kernel's own discipline in User-Mode Linux, on the same traffic: arguments of `tc`, DEV for the interface.
    Kernel(&'static [&'static str]),
    /// ns-3's own FqCoDel and TCP, in simulated time.
    Ns3(ns3::Plan),
    /// Something that this machine can never have by itself: why, and how to get it.
    Absent(&'static str),
}

/// One run of one case, and what it may use.
pub struct Run<'a> {
    /// Where.
    pub rig: &'a Rig,
    /// What.
    pub case: &'a Case,
    /// Measured time of each load.
    pub seconds: u32,
    /// For configurations and logs.
    pub folder: &'a Path,
    /// The weir binary.
    pub weir: &'a Path,
    /// PCI ports to take though they are in use.
    pub allowed_ports: &'a [String],
    /// Ends the run.
    pub interrupt: &'a Interrupt,
    /// Filled in by whoever opens ports.
    pub ports: Vec<PortRecord>,
    /// Tells the user what goes on.
    pub say: &'a mut dyn FnMut(&str),
}

/// What one run brought.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Single values.
    pub values: Vec<Value>,
    /// Something over time.
    pub curves: Vec<Curve>,
    /// Many of a kind, for their distribution.
    pub samples: Vec<Samples>,
    /// What witnesses say that do not know of each other.
    pub accounts: Vec<Account>,
    /// What was run, as one would type it.
    pub commands: Vec<String>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// Of weir, at the end.
    pub counters: Option<Counters>,
}

/// A single value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Last part of the figure's name.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Which way is up.
    pub better: Better,
}

/// Something over time.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Where it is drawn.
    pub plot: &'static Plot,
    /// Which one of the case.
    pub label: String,
    /// Seconds and values, ascending.
    pub points: Vec<(f64, f64)>,
}

/// Many values of a kind.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Where their distribution is drawn.
    pub plot: &'static Plot,
    /// Which ones of the case.
    pub label: String,
    /// In any order.
    pub values: Vec<f64>,
}

/// A plot of the report.
#[derive(Debug, PartialEq, Eq)]
pub struct Plot {
    /// Name of its file.
    pub name: &'static str,
    /// Above it.
    pub title: &'static str,
    /// Under its abscissa.
    pub x: &'static str,
    /// Beside its ordinate.
    pub y: &'static str,
    /// The axis of the measured value is logarithmic.
    pub log: bool,
    /// A chart for each case with a line per label; else one for each label with a line per case.
    pub by_case: bool,
}

/// Something that must come out.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The case.
    pub case: &'static str,
    /// The value's name.
    pub value: &'static str,
    /// Where it must lie.
    pub sense: Sense,
    /// Of what.
    pub bound: Bound,
    /// What that means.
    pub is: Is,
    /// In words.
    pub says: String,
}

/// Side of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sense {
    /// At most.
    AtMost,
    /// At least.
    AtLeast,
}

/// A bound.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Known beforehand.
    Fixed(f64),
    /// So many times what another case measured in the same run.
    Times(f64, &'static str, &'static str),
    /// So much more than what another case measured.
    Plus(f64, &'static str, &'static str),
}

/// What it means that a bar is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Is {
    /// The fault shows: without it the rig proves nothing.
    Fault,
    /// The fault is gone.
    Cure,
    /// A promise is kept.
    Promise,
}

impl With {
    /// Why it can't run here, with the remedy.
    pub fn missing(&self) -> Option<String> {
        let absent = |program: &str, package: &str| {
            (!has_program(program)).then(|| format!("no program {program}: apt-get install {package}"))
        };
        match self {
            Self::Weir { .. } | Self::Model(_) | Self::Bare => None,
            Self::Testpmd => absent("dpdk-testpmd", "dpdk"),
            Self::Kernel(_) => absent("linux.uml", "user-mode-linux"),
            Self::Ns3(_) => ns3::missing(),
            Self::Absent(why) => Some((*why).to_owned()),
        }
    }

    /// What the report says about it.
    pub fn settings(&self) -> String {
        match self {
            Self::Weir { up, down } if up == down => format!("weir, both ways {{ {up} }}"),
            Self::Weir { up, down } => format!("weir, up {{ {up} }}, down {{ {down} }}"),
            Self::Model(plan) => serde_json::to_string(plan).unwrap_or_default(),
            Self::Bare => "nothing in between".into(),
            Self::Testpmd => "dpdk-testpmd, io mode: not shaped".into(),
            Self::Kernel(tc) => format!("User-Mode Linux, both ends: tc {}", tc.join("; tc ")),
            Self::Ns3(plan) => format!("ns-3: FqCoDel, {plan}"),
            Self::Absent(_) => "not run".into(),
        }
    }
}

impl Case {
    /// weir with the same keys both ways.
    pub fn weir(name: &'static str, label: &str, qdisc: &str, mbit: u32) -> Self {
        let direction = format!("{qdisc}, bandwidth = \"{mbit}Mbit\"");
        let with = With::Weir { up: direction.clone(), down: direction };
        Self { name, label: label.into(), with, peer: None }
    }

    /// Names the case to hold it against.
    pub fn against(self, peer: &'static str) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// The bare wire.
    pub fn testpmd() -> Self {
        Self { name: "testpmd", label: "testpmd (bare wire)".into(), with: With::Testpmd, peer: None }
    }
}

/// FIFO, fq_codel and cake of weir at the rig's rate, in the words of every scenario that compares them. 1000 packets
/// is Linux's default transmit queue (txqueuelen).
pub fn disciplines(rig: &Rig) -> Vec<Case> {
    let mbit = rig.bandwidth_mbit;
    vec![
        Case::weir("fifo", "FIFO of 1000", "qdisc = \"fifo\", limit = 1000", mbit),
        Case::weir("fq_codel", "fq_codel", "qdisc = \"fq_codel\"", mbit),
        Case::weir("cake", "cake diffserv4", "qdisc = \"cake\", diffserv = \"diffserv4\"", mbit),
    ]
}

/// The same, and the bare wire beside them.
pub fn disciplines_and_wire(rig: &Rig) -> Vec<Case> {
    let mut cases = disciplines(rig);
    cases.push(Case::testpmd());
    cases
}

impl Measured {
    /// Adds a value of which less is better.
    pub fn lower(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.values.push(Value { name: name.into(), value, unit, better: Better::Lower });
    }

    /// Adds what streams had of the link, each second by second in Mbit/s.
    pub fn shares(&mut self, streams: &[Vec<f64>]) {
        let totals: Vec<f64> = streams.iter().map(|seconds| seconds.iter().sum()).collect();
        let seconds = streams.iter().map(Vec::len).min().unwrap_or(0);
        let second = |at: usize| jain(&streams.iter().map(|stream| stream[at]).collect::<Vec<_>>());
        let each: Vec<f64> = (0..seconds).map(second).collect();
        self.higher("jain_second_median", median(&each), "");
        self.higher("jain_second_p1", quantile(&each, 0.01), "");
        self.higher("jain_whole", jain(&totals), "");
        self.lower("most_of_least", quantile(&totals, 1.0) / quantile(&totals, 0.0), "times");
    }

    /// Adds round trips in ms, without load and under it.
    pub fn pings(&mut self, idle: &[f64], loaded: &[f64]) {
        let (idle, middle) = (median(idle), median(loaded));
        self.lower("ping_idle_median", idle, "ms");
        self.lower("ping_median", middle, "ms");
        self.lower("ping_p99", quantile(loaded, 0.99), "ms");
        self.lower("ping_added_median", middle - idle, "ms");
    }

    /// Adds a value of which more is better.
    pub fn higher(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.values.push(Value { name: name.into(), value, unit, better: Better::Higher });
    }
}

/// All scenarios, those that show the most first.
pub fn all() -> Vec<&'static Scenario> {
    vec![
        &fairness::SCENARIO,
        &gso_split::SCENARIO,
        &late_completion::SCENARIO,
        &latency::SCENARIO,
        &tcp_nup::SCENARIO,
        &throughput::SCENARIO,
        &burst::SCENARIO,
        &rate_steps::SCENARIO,
        &link_flap::SCENARIO,
        &probe::SCENARIO,
        &path::SCENARIO,
        &soak::SCENARIO,
    ]
}

/// Kinds of rig that carry the kernel's own traffic, so that iperf3 and ping can run over them.
pub const WITH_KERNEL: &[Kind] = &[Kind::Tap, Kind::Veth, Kind::Pci];
