//! `path`: kernel TCP through weir between two emulated cards, in counted time.

use anyhow::{Result, bail};

use super::{Bar, Bound, Case, Is, Measured, Run, Scenario, Sense, With, disciplines};
use crate::qemu::path::{Path, Plan, path};
use crate::qemu::rig::Paths;
use crate::rig::{Kind, Rig};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "path",
    summary: "kernel TCP through weir between two emulated cards, up, then down",
    about: "One virtual machine holds all: a namespace with a card of the kernel's on either side, each on one wire with a \
            card of weir's. Four TCP streams up, then down, a ping beside them. Time is counted in instructions, so that \
            the figures repeat themselves to the last digit; both ends of TCP and weir share the one processor.",
    kinds: &[Kind::QemuIgb],
    seconds: 5,
    repeats: 1,
    takes: |seconds| 60 + 16 * seconds,
    cases: |rig: &Rig| disciplines(rig).into_iter().filter(|case: &Case| case.name != "fifo").collect(),
    measure,
    bars,
};

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let With::Weir { up, down } = &run.case.with else { bail!("no case of this rig") };
    let plan = Plan { directions: [up.clone(), down.clone()], seconds: run.seconds };
    (run.say)("booting");
    let found = path(&plan, &Paths::beside_this()?, run.say, run.interrupt)?;
    run.ports = found.ports.clone();
    Ok(measured(&found))
}

fn measured(found: &Path) -> Measured {
    let mut measured = Measured { commands: vec![found.command.clone()], ..Measured::default() };
    measured.higher("tcp_up", found.up, "Mbit/s");
    measured.higher("tcp_down", found.down, "Mbit/s");
    for (name, [_, mean, most]) in
        [("idle", found.idle), ("up", found.loaded_up), ("down", found.loaded_down)]
    {
        measured.lower(format!("ping_{name}_mean"), mean, "ms");
        measured.lower(format!("ping_{name}_max"), most, "ms");
    }
    measured.lower("dropped", found.dropped as f64, "packets");
    measured.lower("missed", found.missed as f64, "packets");
    measured.lower("poll_gap_max", found.poll_gap, "ms");
    measured
}

fn bars(rig: &Rig) -> Vec<Bar> {
    // Of a frame of 1514 bytes, 1448 are TCP's.
    let rate = f64::from(rig.bandwidth_mbit) * 0.98 * 1448.0 / 1514.0;
    let bar = |case, value, sense, bound, says| Bar {
        case,
        value,
        sense,
        bound: Bound::Fixed(bound),
        is: Is::Promise,
        says: String::from(says),
    };
    ["fq_codel", "cake"]
        .into_iter()
        .flat_map(|case| {
            [
                bar(case, "tcp_up", Sense::AtLeast, rate, "98 % of the rate goes up"),
                bar(case, "tcp_down", Sense::AtLeast, rate, "98 % of the rate goes down"),
                bar(case, "missed", Sense::AtMost, 0.0, "no card loses a packet before weir sees it"),
            ]
        })
        .collect()
}
