//! A DPDK device as one names it: PCI address, device on another bus, or virtual device with arguments.
//!
//! Reads no more than it must: which device it is, so that two links cannot take the same one, and what its
//! driver cannot do without. The arguments themselves are the driver's business.

use std::fmt;

use crate::error::nearest;

/// A device and its arguments, checked for form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    name: String,
    args: String,
    bus: Bus,
}

/// How DPDK finds a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Bound to a driver and found on the PCI bus: goes to EAL as `--allow`.
    Pci,
    /// On a bus named in front (`auxiliary:`, `vmbus:`, ...): `--allow` too.
    Other,
    /// Made by its driver on demand: `--vdev`.
    Vdev,
}

/// A virtual device's driver and what it needs.
struct Driver {
    name: &'static str,
    /// At least one of these arguments must be given; empty where all are optional.
    needs: &'static [&'static str],
    /// The argument that names a thing which only one device can have.
    owns: Option<&'static str>,
}

impl Device {
    /// Reads `devargs`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(devargs: &str) -> Result<Self, String> {
        if let Some(bad) = devargs.chars().find(|c| c.is_whitespace() || c.is_control() || *c == '"') {
            return Err(format!("it contains {bad:?}"));
        }
        let mut parts = devargs.split(',');
        let name = parts.next().unwrap_or_default();
        let args = devargs.get(name.len() + 1..).unwrap_or_default();
        if let Some(bad) = parts.find(|pair| !is_argument(pair)) {
            return Err(format!("\"{bad}\" is not an argument of the form key=value"));
        }
        let (name, bus) = match pci_address(name) {
            Some(address) => (address, Bus::Pci),
            None if OTHER_BUSES.iter().any(|bus| is_on_bus(name, bus)) => (name.to_owned(), Bus::Other),
            None if name.starts_with(VDEV_PREFIX) => (name.to_owned(), Bus::Vdev),
            None if is_interface(name) => {
                return Err(format!(
                    "if {name} is an interface of the kernel, write \"net_af_packet0,iface={name}\""
                ));
            }
            None => return Err(format!("\"{name}\" is neither a PCI address nor a vdev")),
        };
        let device = Self { name, args: args.to_owned(), bus };
        device.check_driver()?;
        Ok(device)
    }

    /// The name that EAL knows it by: `0000:01:00.0`, `net_tap0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name and arguments, for `--vdev` or `--allow`.
    pub fn devargs(&self) -> String {
        self.to_string()
    }

    /// How DPDK finds it.
    pub fn bus(&self) -> Bus {
        self.bus
    }

    /// Whether it is a virtual device.
    pub fn is_vdev(&self) -> bool {
        self.bus == Bus::Vdev
    }

    /// Whether the kernel has, or can have, an interface of its own on it: a PCI port, or the interface behind
    /// `net_af_packet` and `net_af_xdp`.
    pub fn is_the_kernels(&self) -> bool {
        self.bus == Bus::Pci || self.interface().is_some()
    }

    /// The kernel's interface that it works on through a socket.
    pub fn interface(&self) -> Option<&str> {
        let works_on_one = matches!(self.driver(), Some("net_af_packet" | "net_af_xdp"));
        self.argument("iface").filter(|_| works_on_one)
    }

    /// The driver of a virtual device, if it is one that weir knows: `net_tap`.
    pub fn driver(&self) -> Option<&'static str> {
        self.known_driver().map(|driver| driver.name)
    }

    /// The value of the argument `key`.
    pub fn argument(&self, key: &str) -> Option<&str> {
        self.args.split(',').find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v))
    }

    /// What only one device can have: `iface=lan0` of two net_tap devices.
    pub(crate) fn owned(&self) -> Option<(&'static str, String)> {
        let driver = self.known_driver()?;
        let key = driver.owns?;
        Some((driver.name, format!("{key}={}", self.argument(key)?)))
    }

    /// The drivers that weir knows, in words.
    pub(crate) fn known_drivers() -> impl Iterator<Item = &'static str> {
        DRIVERS.iter().map(|driver| driver.name)
    }

    fn known_driver(&self) -> Option<&'static Driver> {
        DRIVERS.iter().find(|driver| self.bus == Bus::Vdev && stem(&self.name) == driver.name)
    }

    fn check_driver(&self) -> Result<(), String> {
        if self.bus != Bus::Vdev {
            return Ok(());
        }
        let Some(driver) = self.known_driver() else {
            return match nearest(stem(&self.name), Self::known_drivers()) {
                Some(near) => Err(format!("there is no driver \"{}\", perhaps \"{near}\"", stem(&self.name))),
                None => Ok(()),
            };
        };
        if driver.needs.is_empty() || driver.needs.iter().any(|key| self.argument(key).is_some()) {
            return Ok(());
        }
        let needs = driver.needs.join("=... or ");
        Err(format!("{} needs {needs}=...", driver.name))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.args.is_empty() { Ok(()) } else { write!(f, ",{}", self.args) }
    }
}

/// `01:00.0` or `0000:01:00.0`, as the latter.
pub(crate) fn pci_address(text: &str) -> Option<String> {
    let (domain, rest) = match text.matches(':').count() {
        1 => ("0000", text),
        2 => text.split_once(':')?,
        _ => return None,
    };
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let hex = |text: &str, most: usize, below: u32| {
        let is_hex = !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_hexdigit());
        u32::from_str_radix(text, 16).ok().filter(|n| is_hex && *n < below)
    };
    let (domain, bus) = (hex(domain, 8, u32::MAX)?, hex(bus, 2, 0x100)?);
    let (device, function) = (hex(device, 2, 0x20)?, hex(function, 1, 8)?);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

/// A vdev's name without its number: `net_tap` of `net_tap0`.
fn stem(name: &str) -> &str {
    let longest = DRIVERS.iter().filter(|driver| name.starts_with(driver.name)).max_by_key(|d| d.name.len());
    longest.map_or_else(|| name.trim_end_matches(|c: char| c.is_ascii_digit()), |driver| driver.name)
}

/// Whether `name` could be that of a kernel interface (`eth0`, `enp1s0f0`).
fn is_interface(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (2..16).contains(&name.len())
        && name.bytes().all(allowed)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_argument(pair: &str) -> bool {
    pair.split_once('=').is_some_and(|(key, _)| !key.is_empty())
}

fn is_on_bus(name: &str, bus: &str) -> bool {
    name.strip_prefix(bus).and_then(|rest| rest.strip_prefix(':')).is_some_and(|rest| !rest.is_empty())
}

const VDEV_PREFIX: &str = "net_";

/// DPDK's buses besides `pci` and `vdev` on which Ethernet ports are found.
const OTHER_BUSES: [&str; 7] = ["auxiliary", "vmbus", "ifpga", "dpaa", "dpaa_bus", "fslmc", "cdx"];

static DRIVERS: [Driver; 12] = [
    driver("net_tap", &[], Some("iface")),
    driver("net_af_packet", &["iface"], Some("iface")),
    driver("net_af_xdp", &["iface"], Some("iface")),
    driver("net_virtio_user", &["path"], Some("path")),
    driver("net_vhost", &["iface"], Some("iface")),
    driver("net_memif", &[], None),
    driver("net_ring", &[], None),
    driver("net_pcap", &["rx_pcap", "tx_pcap", "iface", "rx_iface", "tx_iface"], Some("iface")),
    driver("net_null", &[], None),
    driver("net_bonding", &["slave", "member"], None),
    driver("net_failsafe", &[], None),
    driver("net_vdev_netvsc", &[], None),
];

const fn driver(name: &'static str, needs: &'static [&'static str], owns: Option<&'static str>) -> Driver {
    Driver { name, needs, owns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_kind() {
        let pci = Device::parse("01:00.0").unwrap();
        assert_eq!((pci.name(), pci.bus(), pci.driver()), ("0000:01:00.0", Bus::Pci, None));
        assert_eq!(
            Device::parse("0000:AF:1f.7,representor=[0]").unwrap().devargs(),
            "0000:af:1f.7,representor=[0]"
        );
        let tap = Device::parse("net_tap0,iface=lan0").unwrap();
        assert_eq!(
            (tap.name(), tap.driver(), tap.argument("iface")),
            ("net_tap0", Some("net_tap"), Some("lan0"))
        );
        assert_eq!(tap.owned(), Some(("net_tap", "iface=lan0".to_owned())));
        assert_eq!(Device::parse("auxiliary:mlx5_core.sf.2").unwrap().bus(), Bus::Other);
        assert_eq!(Device::parse("net_softnic0").unwrap().driver(), None);
        assert_eq!(Device::parse("net_virtio_user_lan,path=/x").unwrap().driver(), Some("net_virtio_user"));
    }

    #[test]
    fn refuses_what_is_no_device() {
        let wrong = [
            "",
            "eth0",
            "01:00",
            "01:00.8",
            "01:20.0",
            "1:2:3:4.0",
            "g1:00.0",
            "net_tap0 iface=x",
            "net_tap0,iface",
            "net_tap0,",
            "net_tpa0",
            "net_af_packet0",
            "net_vhost0",
            "auxiliary:",
            "net_null0,,",
            "+1:00.0",
        ];
        for devargs in wrong {
            assert!(Device::parse(devargs).is_err(), "{devargs}");
        }
    }
}
