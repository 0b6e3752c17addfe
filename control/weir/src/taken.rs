//! Taps that another process holds. The kernel lets several hold one tap and deals its packets out
//! among them, so a second instance would halve the traffic of the first, and nobody would say so.

use anyhow::{Result, bail};
use config::model::Config;
use nix::net::if_::if_nametoindex;
use std::path::Path;

/// Refuses a configuration that names a tap of another process. Best effort: what `/proc` does not
/// show is not seen.
///
/// # Errors
/// The device, the tap and the process.
pub fn check(config: &Config) -> Result<()> {
    for port in config.links.iter().flat_map(|link| [&link.a, &link.b]) {
        let devargs = port.device.devargs();
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
