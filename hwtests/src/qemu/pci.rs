//! The rig `pci` in a machine: taken ports and their way back to the kernel's igb driver, for the tests.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::machine::{Card, Job, Machine, Model};
use super::rig::{FUNCTIONS, MEMORY, PATIENCE, Paths, image};
use crate::clock::Interrupt;

/// Boots a machine with two emulated 82576 ports on one wire and runs `hwtests run SCENARIO --rig pci` in it in all ways
/// in which it may end; what each stage reported, by its name.
///
/// # Errors
/// The machine does not do its job.
pub fn pci(
    paths: &Paths,
    tell: &mut dyn FnMut(&str),
    interrupt: &Interrupt,
) -> Result<BTreeMap<String, String>> {
    let image = image(paths)?;
    let card = Card { model: Model::Igb, wire: 0 };
    let machine = Machine { memory: MEMORY, cards: vec![card; 2] };
    let [port, peer] = [0, 1].map(Machine::address);
    let script = format!("PORT={port} PEER={peer}\n{FUNCTIONS}{}", include_str!("guest/pci.sh"));
    let files = [("pci.toml", include_str!("../../../configs/rigs/pci.toml"))];
    let outcome =
        machine.run(&image, &Job { script: &script, files: &files, limit: PATIENCE }, tell, interrupt)?;
    let reports = outcome.reports.keys().map(|name| Ok((name.clone(), outcome.text(name)?)));
    reports.collect::<Result<_>>().context("a report is missing")
}
