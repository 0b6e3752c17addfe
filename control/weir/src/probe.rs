//! `weir probe`: what a port says of the frames that it was given, and how far that can be believed.

use crate::carries::use_of;
use crate::check::load;
use anyhow::{Context, Result, anyhow, bail};
use config::device::Device;
use config::model::{Config, Port};
use std::path::PathBuf;

/// What `weir probe` was asked.
#[derive(Debug)]
pub struct Request {
    /// A device, or `LINK/a`, `LINK/b` of `file`.
    pub port: String,
    /// The configuration that has the port.
    pub file: Option<PathBuf>,
    /// Arguments for the EAL beside those of `file`.
    pub eal: Vec<String>,
    /// Print JSON.
    pub json: bool,
    /// Send although the machine uses the interface.
    pub force: bool,
    /// Let DPDK say what it does.
    pub verbose: bool,
}

/// A configuration of one link that has the port on both sides: nothing else is opened, and what is said
/// of EAL arguments and memory holds for it.
fn config(request: &Request) -> Result<Config> {
    let (mut config, wanted) = match &request.file {
        Some(file) => (load(file)?.config, request.port.as_str()),
        None => (of_device(&request.port)?, "probe/a"),
    };
    let port = find(&config, wanted)?;
    config.links.truncate(1);
    for link in &mut config.links {
        link.a = port.clone();
        link.b.device = Device::parse(NOWHERE).map_err(|error| anyhow!(error))?;
    }
    config.eal.args.extend(request.eal.iter().cloned());
    // Once more as text: the arguments may not suit the device or each other.
    let mut config = config::parse(COMMAND_LINE, &config.to_toml())?.config;
    config.links.iter_mut().for_each(|link| link.b = port.clone());
    Ok(config)
}

fn of_device(device: &str) -> Result<Config> {
    let a = toml::Value::String(device.to_owned());
    let text = format!("[[link]]\nname = \"probe\"\na = {a}\nb = \"{NOWHERE}\"\n");
    let is_name = device.ends_with("/a") || device.ends_with("/b");
    let hint = if is_name { "name the configuration file behind LINK/a or LINK/b" } else { "" };
    config::parse(COMMAND_LINE, &text).map(|loaded| loaded.config).map_err(|errors| match hint {
        "" => anyhow!(errors),
        hint => anyhow!("{errors}\n  help: {hint}"),
    })
}

/// The port called `LINK/a`, `LINK/b`, or as its device is.
fn find(config: &Config, wanted: &str) -> Result<Port> {
    let ports = || {
        config.links.iter().flat_map(|link| {
            [("a", &link.a), ("b", &link.b)].map(|(side, port)| (format!("{}/{side}", link.name), port))
        })
    };
    let found = ports().find(|(name, port)| {
        name == wanted || port.device.name() == wanted || port.device.devargs() == wanted
    });
    let known = || ports().map(|(name, port)| format!("{name} ({})", port.device)).collect::<Vec<_>>();
    found
        .map(|(_, port)| port.clone())
        .with_context(|| format!("there is no port {wanted:?}\n  help: the file has {}", known().join(", ")))
}

/// Refuses to send by an interface that this machine uses itself.
fn harmless(port: &Port, force: bool) -> Result<()> {
    let uses = use_of(&port.device);
    if !force && !uses.is_empty() {
        bail!(
            "port {}: {}: a probe sends frames by it, and its driver may take it away from the kernel\n  \
             help: probe a port that carries nothing, or give --force",
            port.device,
            uses.join(", ")
        );
    }
    Ok(())
}

/// What messages call the file that the arguments stand for.
const COMMAND_LINE: &str = "(command line)";

/// The other side of a link that has none; never opened.
const NOWHERE: &str = "net_null_of_probe";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(port: &str, file: Option<PathBuf>, eal: &[&str]) -> Request {
        let eal = eal.iter().map(|arg| (*arg).to_owned()).collect();
        Request { port: port.to_owned(), file, eal, json: false, force: false, verbose: false }
    }

    fn example(name: &str) -> Option<PathBuf> {
        Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../configs").join(name))
    }

    #[test]
    fn a_port_is_given_by_its_device_or_by_its_place_in_a_file() {
        let config = config(&request("01:00.0", None, &["-m", "64"])).unwrap();
        assert_eq!(config.eal.args, ["-m", "64"]);
        let link = &config.links[0];
        assert_eq!((link.a.device.name(), &link.a), ("0000:01:00.0", &link.b));
        for name in ["access/b", "0000:01:00.1"] {
            let config = self::config(&request(name, example("pci.toml"), &[])).unwrap();
            let (port, lcores) = (&config.links[0].a, config.eal.lcores.unwrap());
            assert_eq!((port.device.name(), port.mtu, lcores.main), ("0000:01:00.1", 9_000, 0), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_probed_is_told_with_what_can() {
        let said = |request: Request| config(&request).unwrap_err().to_string();
        let unknown = said(request("access/c", example("pci.toml"), &[]));
        assert!(unknown.contains("access/a (0000:01:00.0), access/b (0000:01:00.1)"), "{unknown}");
        let place = said(request("access/a", None, &[]));
        assert!(place.contains("name the configuration file behind"), "{place}");
        assert!(said(request("net_tpa0", None, &[])).contains("net_tap"));
        let argument = said(request("net_null0", None, &["--file-prefix", "x"]));
        assert!(argument.contains("--file-prefix cannot be passed on"), "{argument}");
    }

    #[test]
    fn an_interface_in_use_is_left_alone_unless_told() {
        let port = config(&request("net_af_packet0,iface=lo", None, &[])).unwrap().links[0].a.clone();
        let said = harmless(&port, false).unwrap_err().to_string();
        assert!(said.contains("lo has 127.0.0.1") && said.contains("--force"), "{said}");
        harmless(&port, true).unwrap();
        harmless(&config(&request("net_null0", None, &[])).unwrap().links[0].a, false).unwrap();
    }
}
