//! ns-3 as a peer: experiment E1 with its FqCoDel, dynamic queue limits and TCP, an independent implementation of all
//! that the model rig has, in simulated time.
//!
//! The program is `peers/ns3-e1.cc`, compiled into the run's folder when it is first wanted there.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::clock::now;
use crate::process::{Process, Signal, background, typed};
use crate::rig::has_program;
use crate::scenario::{Measured, Run};

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Dynamic queue limits between FqCoDel and the device's ring.
    pub dql: bool,
    /// Bytes in flight of the first stream, the second has half; 0: no limit.
    pub window: u32,
    /// Packets that the device holds.
    pub ring: u32,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dql, window, ring } = self;
        write!(f, "{} over a ring of {ring}", if *dql { "DQL" } else { "no DQL" })?;
        if *window > 0 { write!(f, ", windows {window} and {}", window / 2) } else { Ok(()) }
    }
}

/// What the program prints.
#[derive(Debug, Deserialize)]
struct Seen {
    stream1_mbit: Vec<f64>,
    stream2_mbit: Vec<f64>,
    ping_idle_ms: Vec<f64>,
    ping_ms: Vec<f64>,
    limit_max: u32,
}

/// Why it can't run here, with the remedy.
pub fn missing() -> Option<String> {
    let is_there = has_program(COMPILER) && Path::new(HEADER).is_file();
    (!is_there).then(|| "no ns-3 to build with: apt-get install libns3-dev g++".to_owned())
}

/// Compiles the program if need be and runs it.
///
/// # Errors
/// It does not compile, or does not end within its time.
pub fn measure(run: &mut Run<'_>, plan: Plan) -> Result<Measured> {
    let mut program = background(compiled(run)?);
    program.args([
        format!("--dql={}", u8::from(plan.dql)),
        format!("--seconds={}", run.seconds),
        format!("--rate={}", run.rig.bandwidth_mbit),
        format!("--ring={}", plan.ring),
        format!("--window={}", plan.window),
    ]);
    let command = typed(&program);
    // Two seconds here take one of simulated time where the machine is busy.
    let limit = PATIENCE + Duration::from_secs(u64::from(run.seconds) * 20);
    let lines = finish(run, Process::spawn("ns-3", &mut program, None)?, "simulating", limit)?;
    let seen: Seen = serde_json::from_str(&lines.join("\n"))
        .with_context(|| format!("ns-3 printed something else: {}", lines.join("\n  ")))?;
    Ok(measured(&seen, plan, command))
}

fn measured(seen: &Seen, plan: Plan, command: String) -> Measured {
    let streams = [seen.stream1_mbit.clone(), seen.stream2_mbit.clone()];
    let total: f64 = streams.iter().flatten().sum();
    let note = "simulated time, single segments: ns-3's TCP hands over no super-packets";
    let mut measured =
        Measured { commands: vec![command], notes: vec![note.to_owned()], ..Measured::default() };
    measured.higher("tcp", total / streams[0].len() as f64, "Mbit/s");
    measured.shares(&streams);
    measured.pings(&seen.ping_idle_ms, &seen.ping_ms);
    if plan.dql {
        measured.lower("limit_p99", f64::from(seen.limit_max), "bytes");
    }
    measured
}

/// The program in the run's folder, of this very source.
fn compiled(run: &mut Run<'_>) -> Result<PathBuf> {
    let folder = fs::canonicalize(run.folder).context("cannot find the run's folder")?;
    let [source, draft, program] = ["ns3-e1.cc", "ns3-e1.new", "ns3-e1"].map(|name| folder.join(name));
    if program.is_file() && fs::read_to_string(&source).is_ok_and(|text| text == SOURCE) {
        return Ok(program);
    }
    fs::write(&source, SOURCE).with_context(|| format!("cannot write {}", source.display()))?;
    // Its own programs end with the compiler driver, also when that is told to stop: timeout tells all of them.
    let mut compiler = background("timeout");
    compiler.args(["300", COMPILER, "-O1", "-o"]).arg(&draft).arg(&source).args(LIBRARIES);
    compiler.env("TMPDIR", &folder);
    finish(run, Process::spawn(COMPILER, &mut compiler, None)?, "compiling ns-3's side", PATIENCE)?;
    fs::rename(&draft, &program)?;
    Ok(program)
}

/// Waits for its end; its lines.
fn finish(run: &mut Run<'_>, mut process: Process, stage: &str, limit: Duration) -> Result<Vec<String>> {
    let began = now();
    while process.ended()?.is_none() {
        ensure!(now() < began + limit, "{stage} did not end within {limit:?}");
        (run.say)(&format!("{stage}, {:.0} s", now().duration_since(began).as_secs_f64()));
        run.interrupt.sleep(Duration::from_millis(200))?;
    }
    let (status, lines) = process.stop(Signal::TERM, Duration::from_secs(2))?;
    ensure!(status.success(), "{stage} failed ({status}):\n  {}", lines.join("\n  "));
    Ok(lines)
}

const SOURCE: &str = include_str!("../peers/ns3-e1.cc");
const COMPILER: &str = "g++";
const HEADER: &str = "/usr/include/ns3/point-to-point-module.h";
/// Not as pkg-config has them: that names libraries of ns-3's own needs which libns3-dev does not bring.
const LIBRARIES: &[&str] = &[
    "-Wl,--as-needed",
    "-lns3-applications",
    "-lns3-internet-apps",
    "-lns3-point-to-point",
    "-lns3-traffic-control",
    "-lns3-internet",
    "-lns3-network",
    "-lns3-stats",
    "-lns3-core",
];
/// For a compiler that takes ten seconds by itself, and for a simulator to start.
const PATIENCE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_prints_becomes_the_rigs_figures() {
        let text = r#"{"stream1_mbit": [60.0, 64.0], "stream2_mbit": [30.0, 32.0], "ping_idle_ms": [0.1],
            "ping_ms": [7.0, 9.0], "limit_max": 3004}"#;
        let seen: Seen = serde_json::from_str(text).unwrap();
        let plan = Plan { dql: true, window: 80_000, ring: 512 };
        let found = measured(&seen, plan, "ns3-e1".into());
        let value = |name: &str| found.values.iter().find(|value| value.name == name).unwrap().value;
        assert_eq!((value("tcp"), value("most_of_least"), value("limit_p99")), (93.0, 2.0, 3004.0));
        assert!((value("jain_second_median") - 0.9).abs() < 1e-9);
        let without = measured(&seen, Plan { dql: false, ..plan }, String::new());
        assert!(without.values.iter().all(|value| value.name != "limit_p99"), "there is no limit");
    }
}
