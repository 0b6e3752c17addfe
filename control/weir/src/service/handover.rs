//! `on-stop = "bridge"`: while weir is stopped the kernel bridges the ports, and at a start weir takes them back.
//!
//! A bridge is known to be weir's by its alias; others are never touched. A start that fails gives the ports back to
//! the bridge that it took them from. After a crash there is no bridge: the line is dark until weir runs again.

use super::netlink::Netlink;
use crate::pci::{Bus, Whose, is_for_dpdk};
use crate::say::{complain, say};
use anyhow::{Context, Result, bail};
use config::device::Device;
use config::model::{Config, Link, OnStop};

/// Hands the ports over when it is dropped, which must be after they are closed.
#[derive(Debug)]
pub struct Handover(Option<Config>);

impl Handover {
    /// Takes the ports of `config` back from the kernel, before they are opened. Where it bridged them, it
    /// shall again, unless weir comes to run.
    ///
    /// # Errors
    /// A bridge is in the way that is not weir's, or the kernel refuses.
    pub fn take_back(config: &Config) -> Result<Self> {
        let (netlink, bus) = (Netlink::open()?, Bus::system());
        let mut handover = Self(None);
        for link in &config.links {
            let was_bridged = take_back(&netlink, &bus, link).with_context(|| {
                format!("link {:?}: cannot take its ports back from the kernel", link.name)
            })?;
            if was_bridged {
                handover.0 = Some(config.clone());
            }
        }
        Ok(handover)
    }

    /// weir has stopped in order, and this is what it ran by: its word on what comes now.
    pub fn arm(&mut self, config: &Config) {
        self.0 = Some(config.clone());
    }

    /// weir runs: if it crashes from here on, nothing is handed over.
    pub fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        let Some(config) = self.0.take() else { return };
        for link in config.links.iter().filter(|link| link.on_stop == OnStop::Bridge) {
            let name = &link.name;
            match hand_over(&Bus::system(), link) {
                // Nobody is left to tell if standard output is gone.
                Ok([a, b]) => drop(say(&format!("link {name:?}: bridged by the kernel: {a}, {b}\n"))),
                Err(error) => {
                    complain(&format!("weir: link {name:?}: not bridged, nothing passes: {error:#}"))
                }
            }
        }
    }
}

/// `true` if weir's bridge was there.
fn take_back(netlink: &Netlink, bus: &Bus, link: &Link) -> Result<bool> {
    let mut was_bridged = false;
    if let Some(bridge) = netlink.find(&link.bridge())? {
        was_bridged = bridge.alias.starts_with(ALIAS);
        if was_bridged {
            netlink.remove(bridge.index)?;
        } else if link.on_stop == OnStop::Bridge {
            bail!("interface {} is not weir's: rename it, or the link whose name is in it", link.bridge());
        }
    }
    for device in [&link.a.device, &link.b.device] {
        if let Some(interface) = device.interface() {
            was_bridged |= leave_renamed(netlink, interface)?;
        }
        if let Some(driver) = bus.remembered(device.name(), Whose::Weir) {
            bus.bind(device.name(), Some(&driver))?;
            bus.forget(device.name(), Whose::Weir);
        }
    }
    Ok(was_bridged)
}

/// A link may have had another name when it was bridged.
fn leave_renamed(netlink: &Netlink, interface: &str) -> Result<bool> {
    let Some(master) = netlink.find(interface)?.and_then(|link| link.master) else { return Ok(false) };
    let is_ours = netlink.link(master)?.alias.starts_with(ALIAS);
    if is_ours {
        netlink.remove(master)?;
    }
    Ok(is_ours)
}

/// The interfaces that are bridged now.
fn hand_over(bus: &Bus, link: &Link) -> Result<[String; 2]> {
    let interfaces = [interface(bus, &link.a.device)?, interface(bus, &link.b.device)?];
    let netlink = Netlink::open()?;
    let bridge = netlink.add_bridge(&link.bridge(), &format!("{ALIAS} link {}", link.name))?.index;
    let join = || {
        for name in &interfaces {
            let port = netlink.find(name)?.with_context(|| format!("{name}: no such interface"))?;
            if port.master.is_some() {
                bail!("{name} is part of another bridge or bond already");
            }
            netlink
                .set_master(port.index, bridge)
                .with_context(|| format!("{name}: cannot join the bridge"))?;
            netlink.set_up(port.index).with_context(|| format!("{name}: cannot be set up"))?;
        }
        netlink.set_up(bridge).context("the bridge cannot be set up")
    };
    if let Err(error) = join() {
        // Half a bridge would look like one.
        let _ = netlink.remove(bridge);
        return Err(error);
    }
    Ok(interfaces)
}

/// The kernel's interface of a port; a PCI port goes back to its driver for it.
fn interface(bus: &Bus, device: &Device) -> Result<String> {
    if let Some(interface) = device.interface() {
        return Ok(interface.to_owned());
    }
    let port = device.name();
    if let Some(driver) = bus.driver(port).filter(|driver| is_for_dpdk(driver)) {
        bus.remember(port, Whose::Weir, &driver)?;
        bus.bind(port, bus.remembered(port, Whose::Kernel).as_deref())?;
    }
    bus.interface(port)
}

/// How the alias of each bridge begins that weir makes.
const ALIAS: &str = "weir on-stop:";
