//! `weir check` and `weir keys`.

use crate::plan::{Machine, environment, plan};
use crate::say::{complain, say};
use anyhow::{Result, bail};
use config::{Loaded, schema::Schema};
use dpdk::Eal;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Loads a configuration; warnings go to standard error.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn load(file: &Path) -> Result<Loaded> {
    let loaded = config::load(file)?;
    for warning in &loaded.warnings {
        complain(&warning.to_string());
    }
    let (links, most) = (loaded.config.links.len(), Eal::MAX_PORTS);
    if 2 * links > most {
        bail!(
            "{}: {links} links have {} ports, and this DPDK holds at most {most} (RTE_MAX_ETHPORTS)\n  \
             help: run more instances, each with a part of the links, or a DPDK built with -Dmax_ethports=N",
            file.display(),
            2 * links
        );
    }
    Ok(loaded)
}

/// Prints what a configuration means.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn check(file: &Path, json: bool) -> Result<ExitCode> {
    let config = load(file)?.config;
    let machine = Machine::look();
    let environment = environment(&config, &machine);
    let effective = config.to_toml();
    if json {
        let value: serde_json::Value = serde_json::to_value(effective.parse::<toml::Table>()?)?;
        say(&format!("{value:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text =
        format!("# {} is right. With all defaults filled in it says:\n\n{effective}\n", file.display());
    writeln!(text, "# EAL arguments on this machine: {}", environment.args.join(" "))?;
    writeln!(text, "# Packet memory:")?;
    for link in plan(&config, [0; 16]).links {
        let pools = link.pools(environment.lcores);
        for (port, sum) in [&link.a, &link.b].into_iter().zip(pools) {
            let mebibytes = sum.bytes(environment.hugepages) as f64 / f64::from(1 << 20);
            writeln!(text, "#   {} {}: {sum}, {mebibytes:.1} MiB", link.name, port.devargs)?;
        }
    }
    let kind = if environment.hugepages { "hugepages" } else { "ordinary memory" };
    let together = environment.packet_memory as f64 / f64::from(1 << 20);
    writeln!(text, "#   together {together:.1} MiB of {kind}")?;
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Lists every key.
///
/// # Errors
/// Standard output takes no more.
pub fn keys() -> Result<ExitCode> {
    say(&Schema.to_string())?;
    Ok(ExitCode::SUCCESS)
}
