//! Runs a scenario of the rig `qemu-igb` by hand.

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use hwtests::clock::{Interrupt, exit_code};
use hwtests::qemu::machine::{Card, Job, Machine, Model, Time};
use hwtests::qemu::rig::{Paths, image};

fn main() -> ExitCode {
    exit_code("qemu-igb", run())
}

fn run() -> Result<()> {
    let interrupt = Interrupt::install()?;
    let image = image(&Paths::beside_this()?)?;
    let machine = Machine {
        memory: 1024,
        time: Time::Counted(2),
        cards: vec![Card { model: Model::Igb, wire: 0 }, Card { model: Model::Igb, wire: 0 }, Card { model: Model::E1000e, wire: 0 }],
    };
    let script = std::fs::read_to_string(std::env::args().nth(1).unwrap_or_default())?;
    let job = Job { script: &script, files: &[], limit: Duration::from_secs(400) };
    let outcome = machine.run(
        &image,
        &job,
        &mut |line| {
            let _ = writeln!(stderr(), "| {line}");
        },
        &interrupt,
    )?;
    let _ = writeln!(stderr(), "{}\n{:?}", outcome.command, outcome.took);
    for (name, bytes) in &outcome.reports {
        let _ = writeln!(stderr(), "== {name}\n{}", String::from_utf8_lossy(bytes));
    }
    Ok(())
}
