//! The scenario `probe` in a machine: what DPDK's igb driver says of completions, and what the card makes of TSO and
//! checksums.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use super::machine::{Card, Job, Machine, Model, Outcome};
use super::rig::{FUNCTIONS, MEMORY, PATIENCE, Paths, image};
use crate::clock::Interrupt;
use crate::driver::Found;

/// Boots a machine with two emulated 82576 ports on one wire and looks at the first from the second; also QEMU as one
/// would type it.
pub fn probe(paths: &Paths, tell: &mut dyn FnMut(&str), interrupt: &Interrupt) -> Result<(Found, String)> {
    let image = image(paths)?;
    let card = Card { model: Model::Igb, wire: 0 };
    let machine = Machine { memory: MEMORY, cards: vec![card; 2] };
    let [port, witness] = [0, 1].map(Machine::address);
    let script = format!("PORT={port} WITNESS={witness}\n{FUNCTIONS}{}", include_str!("guest/probe.sh"));
    let outcome =
        machine.run(&image, &Job { script: &script, files: &[], limit: PATIENCE }, tell, interrupt)?;
    let found = Found {
        weir: outcome.text("weir.txt")?,
        completions: json(&outcome, "completions")?,
        segments: json(&outcome, "segments")?,
    };
    Ok((found, outcome.command))
}

fn json<T: DeserializeOwned>(outcome: &Outcome, name: &str) -> Result<T> {
    serde_json::from_str(&outcome.text(name)?).with_context(|| format!("the report {name} has another shape"))
}

/// Seen with QEMU 10.0.2, and to be read in its `hw/net/net_tx_pkt.c`.
pub const LOST_FLAGS: &str = "QEMU's cards take FIN and PSH off every segment and put them back on none: the emulation's \
    fault, not the driver's. All else of those segments is right.";
