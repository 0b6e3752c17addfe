//! `weir check` and `weir keys`.

use crate::plan::{Machine, environment, missing_cpus, plan, too_little_given, too_much_memory};
use crate::say::{complain, say, wrapped};
use crate::service::capabilities::Needs;
use anyhow::{Result, bail};
use config::{Loaded, model::Config, schema::Schema};
use dpdk::Eal;
use engine::plan::Way;
use engine::pool::cake_footprint;
use shaper::qdisc::Params;
use std::fmt::{self, Write as _};
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
    // No mistakes: the file may be meant for another machine.
    let concerns = [
        missing_cpus(&config, &machine),
        too_much_memory(&environment, &machine),
        too_little_given(&environment),
    ];
    for concern in concerns {
        concern.iter().for_each(|concern| complain(&format!("warning: {}: {concern}", file.display())));
    }
    let effective = config.to_toml();
    if json {
        let value: serde_json::Value = serde_json::to_value(effective.parse::<toml::Table>()?)?;
        say(&format!("{value:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let head =
        format!("# {} is right. With all defaults filled in it says:\n\n{effective}\n", file.display());
    let mut text = String::new();
    writeln!(text, "# EAL arguments on this machine: {}", environment.args.join(" "))?;
    writeln!(text, "# Packet memory:")?;
    for link in plan(&config, [0; 16]).links {
        let pools = link.pools(environment.lcores);
        for (port, sum) in [&link.a, &link.b].into_iter().zip(pools) {
            let mebibytes = sum.bytes(environment.hugepages) as f64 / f64::from(1 << 20);
            writeln!(text, "#   {} {}: {sum}, {mebibytes:.1} MiB", link.name, port.devargs)?;
        }
        for (way, sum) in [Way::Up, Way::Down].into_iter().zip(link.piece_pools(environment.lcores)) {
            let Some(sum) = sum else { continue };
            // Which of the two it takes shows when the port is open.
            let bytes = [true, false].map(|by_reference| sum.bytes(by_reference, environment.hugepages));
            let [shared, copied] = bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
            let (link, way) = (&link.name, way.name());
            writeln!(text, "#   {link} {way}: {sum}, {shared:.1} MiB, or copies, {copied:.1} MiB")?;
        }
    }
    let kind = if environment.hugepages { "hugepages" } else { "ordinary memory" };
    let together = environment.packet_memory as f64 / f64::from(1 << 20);
    writeln!(text, "#   together {together:.1} MiB of {kind}")?;
    write_disciplines(&mut text, &config)?;
    let Needs { start, kept } = Needs::of(&config);
    writeln!(text, "# Capabilities: to start {start}; kept while it runs {kept}")?;
    // The part above is TOML, where a line cannot be broken anywhere.
    say(&(head + &wrapped(&text)))?;
    Ok(ExitCode::SUCCESS)
}

/// What cake takes beside the packets it holds.
fn write_disciplines(text: &mut String, config: &Config) -> fmt::Result {
    for link in &config.links {
        for (way, direction) in [("up", &link.up), ("down", &link.down)] {
            let Some(Params::Cake(params)) = direction.as_ref().map(|direction| direction.qdisc) else {
                continue;
            };
            let of = cake_footprint(&params);
            let [tables, slots, acks] = [of.tables, of.slots, of.acks].map(|bytes| bytes.div_ceil(1 << 10));
            writeln!(
                text,
                "# cake of {} {way}: tins and flows {tables} KiB, packet slots {slots} KiB, ACK filter {acks} KiB",
                link.name
            )?;
        }
    }
    Ok(())
}

/// Prints each direction in both forms: as a line of tc and in keys.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn explain(file: &Path) -> Result<ExitCode> {
    say(&explained(&load(file)?.config)?)?;
    Ok(ExitCode::SUCCESS)
}

fn explained(config: &Config) -> Result<String> {
    let mut text = String::new();
    for link in &config.links {
        for (way, direction) in [("up", &link.up), ("down", &link.down)] {
            let Some(direction) = direction else { continue };
            let rules = if direction.rules.is_empty() { "" } else { ", its rules beside" };
            writeln!(text, "# {way} of link \"{}\" as tc has it{rules}:", link.name)?;
            writeln!(text, "[link.{way}]\ntc = \"{}\"", direction.to_tc())?;
            writeln!(text, "# For which tc has no words:")?;
            for (key, value) in direction.beside_tc() {
                writeln!(text, "{key} = {value}")?;
            }
            writeln!(text, "\n# The same in keys:\n[link.{way}]\n{}", direction.to_toml(way))?;
        }
    }
    Ok(text)
}

/// Lists every key.
///
/// # Errors
/// Standard output takes no more.
pub fn keys() -> Result<ExitCode> {
    say(&Schema.to_string())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::snapshot;

    #[test]
    fn a_direction_is_explained_in_both_forms() {
        let text = "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = \"net_null1\"\n\
            up = { tc = \"cake bandwidth 20mbit no-split-gso\", gro = true }\n\
            down = { bandwidth = \"1Gbit\", gso-budget = \"200us\" }\n";
        let explained = explained(&config::parse("test.toml", text).unwrap().config).unwrap();
        snapshot("explain.txt", &explained);
    }
}
