//! Rigs: what weir is measured on, each described by a TOML file under `configs/rigs/`.
//!
//! Contract: a file that says something unknown is refused with its name, line and what is known; a rig whose needs
//! are not met says each of them with its remedy ([`Rig::missing`]), and never runs half.

pub mod pci;

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// One rig.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rig {
    /// What `--rig` calls it; the file's name without `.toml`.
    pub name: String,
    /// How it is built.
    pub kind: Kind,
    /// One line.
    pub summary: String,
    /// What a measurement on it can't show, for the report.
    pub cannot_show: Vec<String>,
    /// What must be there.
    pub needs: Needs,
    /// Rate of the shaped link each way, Mbit/s.
    #[serde(default = "default_bandwidth")]
    pub bandwidth_mbit: u32,
    /// Of a veth rig: DPDK's driver for the kernel's interfaces.
    pub veth_driver: Option<VethDriver>,
    /// Of a PCI rig: the two ports.
    pub pci: Option<PciPorts>,
    /// What the port's driver can report, where that is known beforehand.
    pub driver: Option<DriverFacts>,
}

/// How a rig is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Kernel TCP with super-packets, weir, and a modelled NIC with a wire, in one process.
    Model,
    /// weir between two net_tap ports.
    Tap,
    /// weir between two veth pairs.
    Veth,
    /// weir between two rings in memory, without the kernel.
    Ring,
    /// A virtual machine with an emulated Intel 82576.
    QemuIgb,
    /// A port of a real NIC.
    Pci,
}

/// DPDK's driver for a veth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VethDriver {
    /// Packet sockets.
    AfPacket,
    /// XDP sockets.
    AfXdp,
}

/// What must be there for a rig to run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// To run as root.
    pub root: bool,
    /// Programs, each with the Debian package that brings it.
    pub tools: BTreeMap<String, String>,
    /// Files and devices, each with how to get it.
    pub files: BTreeMap<String, String>,
}

/// The ports of a PCI rig, by address (`0000:01:00.0`). The command line may name them instead.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PciPorts {
    /// Kernel module that hands the port to DPDK.
    pub bind: String,
    /// The port under test: DPDK drives it.
    pub port: Option<String>,
    /// What it is cabled to: the kernel keeps it, and it is moved into the receiver's namespace.
    pub peer: Option<String>,
}

impl Default for PciPorts {
    fn default() -> Self {
        Self { bind: "vfio-pci".into(), port: None, peer: None }
    }
}

/// What a driver can and can't report.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriverFacts {
    /// DPDK's name for it.
    pub name: String,
    /// Vendor and device, as `lspci -n` prints them; empty where the driver finds its ports another way.
    pub ids: Vec<String>,
    /// `rte_eth_tx_descriptor_status` works.
    pub descriptor_status: bool,
    /// `rte_eth_tx_done_cleanup` works.
    pub done_cleanup: bool,
    /// It cuts TCP super-packets itself.
    pub tso: bool,
    /// When a sent mbuf is given back.
    pub frees: String,
    /// What that means for the governor.
    pub notes: Vec<String>,
}

impl Rig {
    /// Reads `text`, called `file` in messages.
    ///
    /// # Errors
    /// Unknown or missing keys, values out of range, tables that do not belong to the kind.
    pub fn parse(file: &Path, text: &str) -> Result<Self> {
        let rig: Self = toml::from_str(text).with_context(|| format!("{} is no rig", file.display()))?;
        let refuse = |what: String| Err(anyhow::anyhow!("{}: {what}", file.display()));
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        if rig.name != stem {
            return refuse(format!("name = {:?}: must be {stem:?}, as the file is called", rig.name));
        }
        if !(1..=400_000).contains(&rig.bandwidth_mbit) {
            return refuse(format!("bandwidth-mbit = {}: must be 1 to 400000", rig.bandwidth_mbit));
        }
        if rig.pci.is_some() != (rig.kind == Kind::Pci) {
            return refuse("[pci] belongs to kind = \"pci\", and to no other".into());
        }
        if rig.veth_driver.is_some() != (rig.kind == Kind::Veth) {
            return refuse(
                "veth-driver (af_packet or af_xdp) belongs to kind = \"veth\", and to no other".into(),
            );
        }
        Ok(rig)
    }

    /// Every need that is not met, with its remedy; empty when the rig can run.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = self.needs.missing();
        if let Some(ports) = &self.pci {
            missing.extend(pci::missing(ports));
        }
        missing
    }
}

impl fmt::Display for DriverFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, descriptor_status, done_cleanup, tso, frees, .. } = self;
        let can = |is: &bool| if *is { "yes" } else { "no" };
        write!(
            f,
            "driver {name}: descriptor status {}, done-cleanup {}, TSO {}; frees {frees}",
            can(descriptor_status),
            can(done_cleanup),
            can(tso)
        )
    }
}

impl Needs {
    fn missing(&self) -> Vec<String> {
        let root = self.root && !rustix::process::geteuid().is_root();
        let root = root.then(|| "not root: run it with sudo".to_owned());
        let tools = self.tools.iter().filter(|(tool, _)| !has_program(tool));
        let tools = tools.map(|(tool, package)| format!("no program {tool}: apt-get install {package}"));
        let files = self.files.iter().filter(|(path, _)| !Path::new(path).exists());
        let files = files.map(|(path, remedy)| format!("no {path}: {remedy}"));
        root.into_iter().chain(tools).chain(files).collect()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "model",
            Self::Tap => "tap",
            Self::Veth => "veth",
            Self::Ring => "ring",
            Self::QemuIgb => "qemu-igb",
            Self::Pci => "pci",
        })
    }
}

/// Whether `PATH` holds `program`.
pub fn has_program(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// All rigs of a folder, by name.
///
/// # Errors
/// The folder cannot be read, or a file in it is no rig.
pub fn load_all(folder: &Path) -> Result<Vec<Rig>> {
    let entries = fs::read_dir(folder).with_context(|| {
        format!("cannot read the rigs in {} (name their folder with --rigs)", folder.display())
    })?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| load(path)).collect()
}

/// The rig called `name` in `folder`, or the file of that path.
///
/// # Errors
/// There is none: the error names those that there are.
pub fn find(folder: &Path, name: &str) -> Result<Rig> {
    if name.ends_with(".toml") {
        return load(Path::new(name));
    }
    let mut rigs = load_all(folder)?;
    match rigs.iter().position(|rig| rig.name == name) {
        Some(at) => Ok(rigs.swap_remove(at)),
        None => {
            let names: Vec<_> = rigs.iter().map(|rig| rig.name.as_str()).collect();
            bail!("no rig {name:?} in {}; there are: {}", folder.display(), names.join(", "))
        }
    }
}

/// Where the rigs are: `given`, or `configs/rigs` here, or that of the source tree.
///
/// # Errors
/// None of these is a folder.
pub fn folder(given: Option<&Path>) -> Result<PathBuf> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/rigs");
    let places = match given {
        Some(given) => vec![given.to_owned()],
        None => vec![PathBuf::from("configs/rigs"), tree],
    };
    let names: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    let found = places.into_iter().find(|place| place.is_dir());
    ensure!(found.is_some(), "no folder of rigs: {}; name it with --rigs DIR", names.join(", "));
    found.context("no folder")
}

fn load(path: &Path) -> Result<Rig> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Rig::parse(path, &text)
}

fn default_bandwidth() -> u32 {
    100
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAP: &str = "name = \"tap\"\nkind = \"tap\"\nsummary = \"s\"\ncannot-show = []\n[needs]\n";

    fn refusal(text: &str) -> String {
        format!("{:#}", Rig::parse(Path::new("x/tap.toml"), text).unwrap_err())
    }

    #[test]
    fn every_rig_of_the_project_is_right() {
        let rigs = load_all(&folder(None).unwrap()).unwrap();
        for kind in [Kind::Model, Kind::Tap, Kind::Veth, Kind::Ring, Kind::QemuIgb, Kind::Pci] {
            assert!(rigs.iter().any(|rig| rig.kind == kind), "no rig of kind {kind}");
        }
        for rig in &rigs {
            assert!(!rig.cannot_show.is_empty(), "{} shows everything?", rig.name);
            assert!(rig.summary.len() > 10, "{}", rig.name);
        }
        let drivers: Vec<_> = rigs.iter().filter_map(|rig| rig.driver.as_ref()).collect();
        for name in ["net_ark", "net_ipn3ke_afu", "net_sfc_efx"] {
            assert!(drivers.iter().any(|driver| driver.name == name), "no profile for {name}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_file() {
        assert!(Rig::parse(Path::new("x/tap.toml"), TAP).is_ok());
        let unknown = refusal(&TAP.replace("summary", "summery"));
        assert!(unknown.contains("x/tap.toml") && unknown.contains("summery"), "{unknown}");
        let kind = refusal(&TAP.replace("kind = \"tap\"", "kind = \"tape\""));
        assert!(kind.contains("tape") && kind.contains("qemu-igb"), "{kind}");
        assert!(refusal(&TAP.replace("name = \"tap\"", "name = \"tab\"")).contains("must be \"tap\""));
        assert!(
            refusal(&TAP.replace("[needs]", "bandwidth-mbit = 0\n[needs]")).contains("must be 1 to 400000")
        );
        assert!(refusal(&(TAP.to_owned() + "[pci]\n")).contains("belongs to kind = \"pci\""));
        assert!(refusal(&TAP.replace("kind = \"tap\"", "kind = \"veth\"")).contains("veth-driver"));
    }

    #[test]
    fn what_is_missing_comes_with_its_remedy() {
        let text = TAP.to_owned() + "tools = { sh = \"dash\", no-such-tool = \"some-package\" }\n";
        let text = text + "files = { \"/dev/null\" = \"x\", \"/no/such\" = \"modprobe such\" }\n";
        let rig = Rig::parse(Path::new("tap.toml"), &text).unwrap();
        let expected =
            ["no program no-such-tool: apt-get install some-package", "no /no/such: modprobe such"];
        assert_eq!(rig.missing(), expected);
    }

    #[test]
    fn an_unknown_rig_is_answered_with_the_known_ones() {
        let error = find(&folder(None).unwrap(), "tape").unwrap_err().to_string();
        assert!(
            error.contains("\"tape\"") && error.contains("qemu-igb") && error.contains("tap,"),
            "{error}"
        );
    }
}
