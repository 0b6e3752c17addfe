//! The scenario `probe`: what DPDK's igb driver says of completions, and what the card makes of TSO and checksums.

use std::fmt;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::{Card, Job, Machine, Model, Outcome};
use super::rig::{CANNOT_SHOW, FUNCTIONS, MEMORY, PATIENCE, Paths, image};
use crate::clock::Interrupt;
use crate::driver::completions::Completions;
use crate::driver::segments::Segments;

/// What was found, and how to have it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// What `weir probe` says of the port, for people.
    pub weir: String,
    /// The same with its evidence, for programs.
    pub weir_json: Value,
    /// What the driver says of frames that have left.
    pub completions: Completions,
    /// What the card makes of a packet, beside the kernel.
    pub segments: Segments,
    /// What this rig cannot show.
    pub cannot_show: String,
    /// Seconds of real time.
    pub seconds: f64,
    /// QEMU as one would type it.
    pub command: String,
}

/// Boots a machine with two emulated 82576 ports on one wire and looks at the first from the second.
pub fn probe(paths: &Paths, tell: &mut dyn FnMut(&str), interrupt: &Interrupt) -> Result<Probe> {
    let image = image(paths)?;
    let card = Card { model: Model::Igb, wire: 0 };
    let machine = Machine { memory: MEMORY, cards: vec![card; 2] };
    let [port, witness] = [0, 1].map(Machine::address);
    let script = format!("PORT={port} WITNESS={witness}\n{FUNCTIONS}{}", include_str!("guest/probe.sh"));
    let outcome =
        machine.run(&image, &Job { script: &script, files: &[], limit: PATIENCE }, tell, interrupt)?;
    Ok(Probe {
        weir: outcome.text("weir.txt")?,
        weir_json: json(&outcome, "weir.json")?,
        completions: json(&outcome, "completions")?,
        segments: json(&outcome, "segments")?,
        cannot_show: CANNOT_SHOW.to_owned(),
        seconds: outcome.took.as_secs_f64(),
        command: outcome.command,
    })
}

fn json<T: DeserializeOwned>(outcome: &Outcome, name: &str) -> Result<T> {
    serde_json::from_str(&outcome.text(name)?).with_context(|| format!("the report {name} has another shape"))
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.weir.trim_end())?;
        write!(f, "{}{}", self.completions, self.segments)?;
        if self.segments.tso.as_ref().is_some_and(|tso| tso.wrong_flags > 0) {
            writeln!(f, "    {LOST_FLAGS}")?;
        }
        writeln!(f, "  cannot be shown    {}", self.cannot_show)?;
        writeln!(f, "  {:.0} s", self.seconds)
    }
}

/// Seen with QEMU 10.0.2, and to be read in its `hw/net/net_tx_pkt.c`.
const LOST_FLAGS: &str = "QEMU's cards take FIN and PSH off every segment and put them back on none: the emulation's \
    fault, not the driver's. All else of those segments is right.";
