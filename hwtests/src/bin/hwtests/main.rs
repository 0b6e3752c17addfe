//! `hwtests`: what a NIC, a driver, a rig does to latency, and what weir makes of it.
//!
//! Exit status: 0 when everything was measured (whether or not a bar holds), 1 when something could not be, 2 for a
//! command line that is wrong, 128 and the signal when interrupted.

mod cli;
mod list;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use hwtests::campaign::{self, Finished, Wish};
use hwtests::clock::{Interrupt, exit_code};
use hwtests::progress::Progress;
use hwtests::record::{Environment, Record};
use hwtests::report::Report;
use hwtests::rig::{self, Rig};
use hwtests::scenario::{self, Scenario};
use hwtests::{compare, model, page, ring};

use crate::cli::{Choice, Cli, Command, Settings};

fn main() -> ExitCode {
    exit_code("hwtests", hwtests(&Cli::parse()))
}

fn hwtests(cli: &Cli) -> Result<()> {
    match &cli.command {
        Command::List { scenario } => {
            let rigs = rig::load_all(&rig::folder(cli.rigs.as_deref())?)?;
            print(&list::list(scenario.as_deref(), &rigs, &beside("weir")?)?);
            Ok(())
        }
        Command::Run { scenario, settings } => {
            let scenario = find(scenario)?;
            let name = settings.rig.clone().unwrap_or_else(|| scenario.kinds[0].to_string());
            let rig = rig_called(cli, &name, settings)?;
            run(&[(scenario, rig)], settings)
        }
        Command::All { settings } => run(&everything(cli, settings)?, settings),
        Command::Model { spec } => model::run(&model::Spec::read(spec)?, &Interrupt::install()?),
        Command::RingTrial { keys, size, trial_ms } => {
            let interrupt = Interrupt::install()?;
            ring::run(keys.as_deref(), size, *trial_ms, &interrupt, |line| print(&format!("{line}\n")))
        }
        Command::Compare { a, b } => {
            print(&compare::compare(a, b)?);
            Ok(())
        }
    }
}

/// Every scenario but the soak on the rig named, or on the one that shows most of it.
fn everything(cli: &Cli, settings: &Settings) -> Result<Vec<(&'static Scenario, Rig)>> {
    ensure!(settings.choice.case.is_empty(), "--case belongs to one scenario: use hwtests run");
    let mut pairs = Vec::new();
    for scenario in scenario::all().into_iter().filter(|scenario| scenario.name != "soak") {
        let name = settings.rig.clone().unwrap_or_else(|| scenario.kinds[0].to_string());
        let rig = rig_called(cli, &name, settings)?;
        if scenario.kinds.contains(&rig.kind) {
            pairs.push((scenario, rig));
        } else {
            eprintln!("hwtests: {} does not run on {}: left out", scenario.name, rig.name);
        }
    }
    ensure!(!pairs.is_empty(), "no scenario runs on this rig; hwtests list shows which run where");
    Ok(pairs)
}

fn run(pairs: &[(&'static Scenario, Rig)], settings: &Settings) -> Result<()> {
    let Choice { case, repeats, seconds } = &settings.choice;
    let environment = Environment::look();
    let wish = Wish {
        cases: case.clone(),
        seconds: *seconds,
        repeats: *repeats,
        folder: settings.out.join("runs"),
        weir: settings.weir.clone().map_or_else(|| beside("weir"), Ok)?,
        allowed_ports: settings.yes_this_port.clone(),
    };
    let interrupt = Interrupt::install()?;
    let mut progress = Progress::new();
    let mut finished = Vec::new();
    for (scenario, rig) in pairs {
        finished.push(campaign::run(scenario, rig, &wish, &mut progress, &interrupt)?);
    }
    drop(progress);
    report(finished, environment, settings)
}

fn report(finished: Vec<Finished>, environment: Environment, settings: &Settings) -> Result<()> {
    let (mut figures, mut experiments, mut repeats) =
        (Vec::new(), Vec::new(), std::collections::BTreeMap::new());
    for one in finished {
        figures.extend(one.figures);
        experiments.push(one.experiment);
        repeats.extend(one.repeats);
    }
    let record = Record { report: Report::new(figures)?, environment, repeats, experiments };
    let path = page::write(&record, &settings.out)?;
    let text = match settings.json {
        true => {
            fs::read_to_string(settings.out.join("result.json")).context("cannot read result.json again")?
        }
        false => format!("{}\n{}\n", page::text(&record), path.display()),
    };
    print(&text);
    campaign::verdict_of_runs(&record.experiments)
}

fn find(name: &str) -> Result<&'static Scenario> {
    let all = scenario::all();
    let names: Vec<_> = all.iter().map(|scenario| scenario.name).collect();
    match all.iter().find(|scenario| scenario.name == name) {
        Some(scenario) => Ok(scenario),
        None => bail!("no scenario {name:?}; there are: {}", names.join(", ")),
    }
}

/// The rig with what the command line says of its ports and its rate.
fn rig_called(cli: &Cli, name: &str, settings: &Settings) -> Result<Rig> {
    let mut rig = rig::find(&rig::folder(cli.rigs.as_deref())?, name)?;
    if let Some(mbit) = settings.bandwidth_mbit {
        rig.bandwidth_mbit = mbit;
    }
    if settings.port.is_none() && settings.peer.is_none() {
        return Ok(rig);
    }
    let Some(ports) = &mut rig.pci else { bail!("--port and --peer belong to a pci rig, {name} is none") };
    ports.port = settings.port.clone().or_else(|| ports.port.clone());
    ports.peer = settings.peer.clone().or_else(|| ports.peer.clone());
    Ok(rig)
}

fn beside(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this binary")?;
    Ok(own.parent().unwrap_or(Path::new(".")).join(program))
}

/// A closed pipe is no failure: everything is on disk by then.
fn print(text: &str) {
    let _ = stdout().write_all(text.as_bytes());
}
