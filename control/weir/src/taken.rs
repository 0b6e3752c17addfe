//! What a driver would refuse in words that name no cause, or not refuse at all: interfaces that are not there, and
//! taps that another process holds. The kernel lets several hold one tap and deals its packets out among them, so a
//! second instance would halve the traffic of the first, and nobody would say so.

use anyhow::{Result, bail};
use config::model::Config;
use nix::net::if_::if_nametoindex;
use std::path::Path;

/// Refuses a configuration that names an interface that is not there, or a tap of another process. Best effort: what `/proc` does not
/// show is not seen.
///
/// # Errors
/// The device and the interface; or the tap and the process.
pub fn check(config: &Config) -> Result<()> {
    for port in config.links.iter().flat_map(|link| [&link.a, &link.b]) {
        let devargs = port.device.devargs();
        if let Some(interface) = port.device.interface().filter(|name| if_nametoindex(*name).is_err()) {
            bail!(
                "device {devargs}: there is no interface {interface}\n  help: `ip link` lists those of this network \
                 namespace"
            );
        }
        let Some(tap) = tap(&devargs).filter(|tap| if_nametoindex(*tap).is_ok()) else { continue };
        if let Some(process) = holder(tap) {
            bail!(
                "device {devargs}: process {process} holds the tap {tap} already, and each would get a part of \
                 its packets\n  help: stop that process, or give another iface"
            );
        }
    }
    Ok(())
}

/// The interface that a `net_tap` device is told to make.
fn tap(devargs: &str) -> Option<&str> {
    let (_, args) = devargs.split_once(',').filter(|(name, _)| name.starts_with("net_tap"))?;
    args.split(',').find_map(|arg| arg.strip_prefix("iface="))
}

/// The first other process with a descriptor of a tap of this name.
fn holder(tap: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("fdinfo"))))
        .find(|(process, fdinfo)| *process != std::process::id() && holds(fdinfo, tap))
        .map(|(process, _)| process)
}

fn holds(fdinfo: &Path, tap: &str) -> bool {
    let descriptors = std::fs::read_dir(fdinfo).into_iter().flatten().flatten();
    descriptors
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .any(|text| text.lines().filter_map(|line| line.strip_prefix("iff:")).any(|name| name.trim() == tap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let with = |a: &str| {
            let text = format!("[[link]]\nname = \"x\"\na = \"{a}\"\nb = \"net_null1\"\n");
            check(&config::parse("test.toml", &text).unwrap().config)
        };
        for driver in ["net_af_packet0", "net_af_xdp0"] {
            let said = with(&format!("{driver},iface=weir-none")).unwrap_err().to_string();
            assert!(said.contains("no interface weir-none\n"), "{said}");
            // The only interface that is everywhere.
            assert!(with(&format!("{driver},iface=lo")).is_ok());
        }
        assert!(with("net_tap0,iface=weir-none").is_ok(), "it is made");
    }
}
