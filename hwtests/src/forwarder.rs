//! The program under test: a bump in the wire between two taps.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::clock::Interrupt;
use crate::process::{Process, Signal, command, run};

/// Which program forwards.
#[derive(Clone, Debug)]
pub enum Program {
    /// `weir run FILE`: this binary.
    Weir(PathBuf),
    /// `dpdk-testpmd` in io mode: no shaping, to see what rig and driver do by themselves.
    Testpmd,
}

/// What to forward between, and how.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// Names for the two tap interfaces; up runs from the first to the second.
    pub taps: [&'a str; 2],
    /// Inline table of the qdisc for both directions, without its `bandwidth`.
    pub qdisc: &'a str,
    /// Rate of each direction in Mbit/s.
    pub rate: u32,
    /// CPU for the polling thread; the rest of the program shares CPU 0.
    pub poll_cpu: usize,
    /// Where configuration and log go, as NAME.toml and NAME.log.
    pub folder: &'a Path,
    /// NAME.
    pub name: &'a str,
}

/// What the forwarder counted; absent where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Packets dropped, both directions.
    pub drops: Option<u64>,
    /// Packets marked CE, both directions.
    pub marks: Option<u64>,
    /// Gaps between two polls of more than 1 ms.
    pub poll_gaps: Option<u64>,
    /// The longest gap in ms.
    pub poll_gap_max_ms: Option<f64>,
}

/// A forwarder that is up; ends when dropped.
#[derive(Debug)]
pub struct Forwarder {
    process: Process,
    show: Option<(PathBuf, PathBuf)>,
    // After the process: it can only go once nothing uses it.
    _runtime: RuntimeFolder,
}

impl Forwarder {
    /// Starts the program and returns once it forwards and both taps are there.
    pub fn start(program: &Program, setup: &Setup<'_>, interrupt: &Interrupt) -> Result<Self> {
        let config = setup.folder.join(format!("{}.toml", setup.name));
        let log = setup.folder.join(format!("{}.log", setup.name));
        let runtime = RuntimeFolder(Path::new("/run/dpdk").join(file_prefix()));
        let (mut start, ready, show) = match program {
            Program::Weir(binary) => {
                fs::write(&config, weir_config(setup))
                    .with_context(|| format!("cannot write {}", config.display()))?;
                let mut start = command(binary);
                start.arg("run").arg(&config);
                (start, "ready", Some((binary.clone(), config)))
            }
            Program::Testpmd => (testpmd(setup), "Logical Core", None),
        };
        let mut process = Process::spawn("forwarder", &mut start, Some(&log))?;
        process
            .wait_for(ready, Duration::from_secs(30), interrupt)
            .with_context(|| format!("the forwarder did not come up; its log: {}", log.display()))?;
        Ok(Self { process, show, _runtime: runtime })
    }

    /// The counters so far.
    pub fn counters(&self) -> Result<Counters> {
        let Some((binary, config)) = &self.show else { return Ok(Counters::default()) };
        let text = run(Command::new(binary).args(["show", "--json"]).arg(config))?;
        let value = serde_json::from_str(&text).context("weir show --json printed no JSON")?;
        Ok(parse_counters(&value))
    }

    /// Ends it as an operator would; an error unless it exits with 0 in time.
    pub fn stop(self) -> Result<()> {
        let (status, lines) = self.process.stop(Signal::INT, Duration::from_secs(10))?;
        ensure!(status.success(), "the forwarder stopped badly ({status}): {}", lines.join("\n  "));
        Ok(())
    }
}

fn weir_config(setup: &Setup<'_>) -> String {
    let Setup { taps: [a, b], qdisc, rate, poll_cpu, .. } = setup;
    let prefix = file_prefix();
    let direction = format!("{{ {qdisc}, bandwidth = \"{rate}Mbit\" }}");
    format!(
        "# Written by the demo: what `weir run` was given.\n\
         [eal]\nargs = [\"--no-huge\", \"-m\", \"512\", \"--no-pci\", \"-l\", \"0,{poll_cpu}\", \
         \"--file-prefix\", \"{prefix}\"]\n\n\
         [[link]]\nname = \"demo\"\na = \"net_tap0,iface={a}\"\nb = \"net_tap1,iface={b}\"\n\
         up = {direction}\ndown = {direction}\n"
    )
}

fn testpmd(setup: &Setup<'_>) -> Command {
    let [a, b] = setup.taps;
    // Its lines come at once only to a terminal, unless stdbuf says otherwise.
    let mut testpmd = command("stdbuf");
    testpmd.args(["-oL", "dpdk-testpmd", "-l", &format!("0,{}", setup.poll_cpu)]);
    testpmd.args("--no-huge -m 256 --no-shconf --no-telemetry --no-pci --file-prefix".split(' '));
    testpmd.args([&file_prefix(), "--vdev", &format!("net_tap0,iface={a}")]);
    testpmd.args(["--vdev", &format!("net_tap1,iface={b}")]);
    // A period of statistics keeps it running without a terminal.
    testpmd.args("-- --forward-mode=io --total-num-mbufs=8192 --stats-period=3600".split(' '));
    testpmd
}

/// Of DPDK's runtime folder: one forwarder at a time, any number of rigs side by side.
fn file_prefix() -> String {
    format!("hwtests-{}", std::process::id())
}

/// Sums the counters of all directions.
fn parse_counters(show: &Value) -> Counters {
    let total = |key: &str| {
        let mut found = Vec::new();
        collect(show, key, &mut found);
        (!found.is_empty()).then(|| found.iter().sum())
    };
    Counters {
        drops: total("dropped"),
        marks: total("ecn_mark"),
        poll_gaps: total("poll_gaps_over_1ms"),
        poll_gap_max_ms: None,
    }
}

fn collect(value: &Value, key: &str, found: &mut Vec<u64>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get(key).and_then(Value::as_u64));
            map.values().for_each(|inner| collect(inner, key, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect(inner, key, found)),
        _ => {}
    }
}

/// DPDK leaves an empty folder behind, and its sockets too when it is killed.
#[derive(Debug)]
struct RuntimeFolder(PathBuf);

impl Drop for RuntimeFolder {
    fn drop(&mut self) {
        // Absent when the program took it away itself.
        let _ = fs::remove_dir_all(&self.0);
    }
}
