//! The weir binary: reads a configuration, runs the dataplane, answers questions about it.

mod api;
mod ask;
mod carries;
mod check;
mod cli;
mod events;
mod generate;
mod hist;
mod leftover;
mod live;
mod observe;
mod page;
mod pci;
mod plan;
mod probe;
mod progress;
mod report;
mod run;
mod say;
mod service;
mod setup;
mod show;
mod signals;
mod taken;
mod telemetry;
mod top;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;
use telemetry::delays::Filter;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check { file, explain: true, .. } => check::explain(&file),
        Command::Check { file, json, .. } => check::check(&file, json),
        Command::Run { file, name, verbose } => run::run(&file, name, verbose),
        Command::Show { name, json } => show::show(name.as_deref(), json),
        Command::Probe { port, file, json, force, verbose, eal } => {
            probe::probe(&probe::Request { port, file, eal, json, force, verbose })
        }
        Command::Reload { name, dry_run } => ask::reload(name.as_deref(), dry_run),
        Command::Set { path, value, for_, name, dry_run } => {
            ask::set(name.as_deref(), &path, &value, for_.as_deref(), dry_run)
        }
        Command::History { name, json } => ask::history(name.as_deref(), json),
        Command::Top { name, interval, once, size, svg } => {
            top::top(top::Request { name, interval, once, size, svg })
        }
        Command::Hist { name, link, direction, tin, kind, format, recent, interval, count, plot, out } => {
            let filter = Filter { link, direction, tin, kind };
            hist::hist(&hist::Request { name, filter, format, recent, interval, count, plot, out })
        }
        Command::Keys => check::keys(),
        Command::Setup { file, apply, json, allowed } => {
            setup::setup(&setup::Request { file, apply, json, allowed })
        }
        Command::Man { folder } => generate::man(folder.as_deref()),
        Command::Completions { shell } => generate::completions(shell),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            say::complain(&format!("weir: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
