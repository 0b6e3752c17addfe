//! What a campaign leaves: figures, verdicts, and everything that it takes to repeat and to judge them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::netns::Netns;
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
    /// The ports of the first run, and their links.
    pub ports: Vec<PortRecord>,
    /// Sums of weir's counters over the runs.
    pub counters: BTreeMap<String, u64>,
    /// Curves of the first run.
    #[serde(skip)]
    pub curves: Vec<Curve>,
    /// Samples of all runs.
    #[serde(skip)]
    pub samples: Vec<Samples>,
}

/// A port and its link, as its driver tells of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRecord {
    /// DPDK's name of it, or the kernel's.
    pub device: String,
    /// The driver.
    pub driver: String,
    /// Version of the card's firmware.
    #[serde(default)]
    pub firmware: Option<String>,
    /// Whether frames pass.
    pub link_up: bool,
    /// Mbit/s.
    pub speed_mbps: Option<u32>,
    /// Full duplex.
    #[serde(default)]
    pub full_duplex: Option<bool>,
    /// Speed and duplex were negotiated.
    #[serde(default)]
    pub autoneg: Option<bool>,
}

impl PortRecord {
    /// A port of the kernel's inside a namespace, as ethtool(8) tells of it.
    ///
    /// # Errors
    /// There is no ethtool, or it knows nothing of the interface.
    pub fn of_kernel(netns: &Netns, interface: &str) -> Result<Self> {
        let tell = |arguments: &[&str]| run(netns.command("ethtool").args(arguments).arg(interface));
        Ok(Self::read(interface, &tell(&["-i"])?, &tell(&[])?))
    }

    fn read(interface: &str, driver: &str, link: &str) -> Self {
        let value = |text: &str, key: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
            line.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty() && value != "N/A")
        };
        Self {
            device: interface.to_owned(),
            driver: value(driver, "driver").unwrap_or_default() + ", Linux",
            firmware: value(driver, "firmware-version"),
            link_up: value(link, "Link detected").is_some_and(|detected| detected == "yes"),
            speed_mbps: value(link, "Speed").and_then(|speed| speed.strip_suffix("Mb/s")?.parse().ok()),
            full_duplex: value(link, "Duplex").map(|duplex| duplex == "Full"),
            autoneg: value(link, "Auto-negotiation").map(|state| state == "on"),
        }
    }
}

impl fmt::Display for PortRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, driver, firmware, link_up, speed_mbps, full_duplex, autoneg } = self;
        write!(f, "port {device} ({driver}): link {}, ", if *link_up { "up" } else { "down" })?;
        match speed_mbps {
            Some(speed) => write!(f, "{speed} Mbit/s")?,
            None => f.write_str("speed unknown")?,
        }
        if let Some(full) = full_duplex {
            write!(f, ", {} duplex", if *full { "full" } else { "half" })?;
        }
        if let Some(negotiated) = autoneg {
            f.write_str(if *negotiated { ", negotiated" } else { ", not negotiated" })?;
        }
        match firmware {
            Some(firmware) => write!(f, "; firmware {firmware}"),
            None => f.write_str("; no firmware told"),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethtool_is_read() {
        let driver = "driver: igb\nversion: 6.12.1\nfirmware-version: 0. 6-1\nexpansion-rom-version: \n";
        let link = "Settings for eth1:\n\tSupported ports: [ TP ]\n\tSpeed: 1000Mb/s\n\tDuplex: Full\n\
                    \tAuto-negotiation: on\n\tLink detected: yes\n";
        let port = PortRecord::read("eth1", driver, link);
        let said = "port eth1 (igb, Linux): link up, 1000 Mbit/s, full duplex, negotiated; firmware 0. 6-1";
        assert_eq!(port.to_string(), said);
        let unknown = PortRecord::read("eth1", "driver: veth\nfirmware-version: \n", "\tSpeed: Unknown!\n");
        assert_eq!((unknown.firmware, unknown.speed_mbps, unknown.link_up), (None, None, false));
    }
}
