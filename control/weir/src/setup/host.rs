//! The machine as /proc and /sys show it, below a root folder; elsewhere in tests.

use crate::pci::Bus;
use crate::plan::{Machine, cpu_list};
use nix::ifaddrs::getifaddrs;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The machine.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    /// Addresses of each interface, those that every interface has left out.
    pub addresses: BTreeMap<String, Vec<String>>,
}

impl Host {
    /// The machine below `root`, with the addresses of this one.
    pub fn look(root: &Path) -> Self {
        Self { root: root.to_owned(), addresses: addresses() }
    }

    /// One with these addresses.
    #[cfg(test)]
    pub fn with(root: &Path, addresses: BTreeMap<String, Vec<String>>) -> Self {
        Self { root: root.to_owned(), addresses }
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

    /// What the kernel uses an interface for, if anything.
    pub fn use_of(&self, interface: &str) -> Option<String> {
        if self.default_routes().iter().any(|name| name == interface) {
            return Some("carries the default route".to_owned());
        }
        if let Some(address) = self.addresses.get(interface).and_then(|addresses| addresses.first()) {
            return Some(format!("carries the address {address}"));
        }
        let master = self.link(&format!("/sys/class/net/{interface}/master"))?;
        Some(format!("is part of {master}"))
    }

    /// Interfaces that default routes leave by.
    fn default_routes(&self) -> Vec<String> {
        let table = |path, is_default: fn(&[&str]) -> bool, interface: usize| {
            let text = self.read(path).unwrap_or_default();
            let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let found = lines.filter(|words| is_default(words));
            found.filter_map(|words| words.get(interface).map(|name| (*name).to_owned())).collect::<Vec<_>>()
        };
        // Destination and mask, or destination and prefix length. The kernel lists "unreachable" as one of lo.
        let mut names =
            table("/proc/net/route", |words| words.get(1) == Some(&NO_IPV4) && words.get(7) == Some(&NO_IPV4), 0);
        names.extend(table(
            "/proc/net/ipv6_route",
            |words| words.first() == Some(&NO_IPV6) && words.get(1) == Some(&"00") && words.last() != Some(&"lo"),
            9,
        ));
        names
    }
}

/// The addresses of this machine's interfaces. An fe80 address comes by itself with every interface that is up.
fn addresses() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in getifaddrs().into_iter().flatten() {
        let address = one.address.as_ref();
        let v4 = address.and_then(|address| address.as_sockaddr_in()).map(|address| address.ip().to_string());
        let v6 = address.and_then(|address| address.as_sockaddr_in6()).map(|address| address.ip());
        let v6 = v6.filter(|address| !address.is_unicast_link_local()).map(|address| address.to_string());
        if let Some(address) = v4.or(v6) {
            found.entry(one.interface_name).or_default().push(address);
        }
    }
    found
}

const NO_IPV4: &str = "00000000";
const NO_IPV6: &str = "00000000000000000000000000000000";
