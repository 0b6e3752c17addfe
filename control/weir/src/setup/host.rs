//! The machine as /proc and /sys show it, below a root folder; elsewhere in tests.

use crate::carries::{addresses, uses_of};
use crate::pci::Bus;
use crate::plan::{Machine, cpu_list};
use std::collections::BTreeMap;
use std::fs;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

/// The machine.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    /// Addresses of each interface; `None`: those that it has on this machine.
    addresses: Option<BTreeMap<String, Vec<String>>>,
}

impl Host {
    /// This machine.
    pub fn system() -> Self {
        Self { root: "/".into(), addresses: None }
    }

    /// The one below `root`, with these addresses.
    #[cfg(test)]
    pub fn with(root: &Path, addresses: BTreeMap<String, Vec<String>>) -> Self {
        Self { root: root.to_owned(), addresses: Some(addresses) }
    }

    /// Where a path of the machine is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// What a file says, without the line's end; nothing if it is not there.
    pub fn read(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// A number in a file.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// The names in a folder, sorted.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }

    /// The last name of what a link points to.
    pub fn link(&self, path: &str) -> Option<String> {
        Some(fs::read_link(self.path(path)).ok()?.file_name()?.to_string_lossy().into_owned())
    }

    /// The CPUs that a list in a file names.
    pub fn cpus(&self, path: &str) -> Vec<u32> {
        self.read(path).and_then(|list| cpu_list(&list)).unwrap_or_default()
    }

    /// A value of /proc/meminfo; sizes in KiB.
    pub fn meminfo(&self, name: &str) -> Option<u64> {
        let text = self.read("/proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Its PCI bus.
    pub fn bus(&self) -> Bus {
        Bus::below(&self.root)
    }

    /// As the choice of defaults sees it.
    pub fn machine(&self) -> Machine {
        let online = self.cpus("/sys/devices/system/cpu/online");
        let huge = self.meminfo("HugePages_Free").zip(self.meminfo("Hugepagesize"));
        Machine {
            cpus: online.clone(),
            online,
            free_hugepages: huge.map_or(0, |(pages, kibibytes)| (pages * kibibytes) << 10),
            memory: self.meminfo("MemAvailable").map_or(u64::MAX, |kibibytes| kibibytes << 10),
        }
    }

    /// What the kernel uses a PCI port for.
    pub fn uses_of(&self, port: &str) -> Vec<String> {
        let interfaces = self.bus().interfaces(port);
        let mut uses = uses_of(interfaces.clone(), &self.root, &|interface| match &self.addresses {
            Some(known) => known.get(interface).cloned().unwrap_or_default(),
            None => addresses(interface),
        });
        uses.extend(interfaces.iter().filter_map(|interface| {
            let master = self.link(&format!("/sys/class/net/{interface}/master"))?;
            Some(format!("{interface} is part of {master}"))
        }));
        uses
    }
}
