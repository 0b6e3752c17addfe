//! Ports on the PCI bus: what may be taken from the kernel, taking it, and giving it back.
//!
//! After the kernel's sysfs-bus-pci (`driver_override`, `drivers_probe`, `unbind`). Contract: a device that is no network
//! controller, and a port that carries the default route or an address or that another interface stands on (a bridge,
//! a bond, a VLAN), is refused unless its address was named on purpose; a port that was taken goes back to the driver it
//! had when its [`Taken`] is dropped, and also when this process is killed: the giving back is done by a child that
//! outlives it just long enough.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::PciPorts;
use crate::clock::{Interrupt, nap, now};
use crate::process::{Process, Signal, command, run};

/// What keeps a port from being taken, or is missing for it; for `hwtests list`.
pub fn missing(ports: &PciPorts) -> Vec<String> {
    let unnamed = [("port", &ports.port), ("peer", &ports.peer)];
    let unnamed = unnamed.into_iter().filter(|(_, address)| address.is_none()).map(|(key, _)| {
        format!("no {key} named: --{key} ADDRESS (dpdk-devbind.py --status lists them), or [pci] of the rig")
    });
    let bind = &ports.bind;
    let absent = !Path::new("/sys/bus/pci/drivers").join(bind).exists();
    let absent = absent.then(|| {
        let iommu = if bind == VFIO { ", with intel_iommu=on or amd_iommu=on at boot" } else { "" };
        format!("no kernel driver {bind}: modprobe {bind}{iommu}")
    });
    let device = ports.port.as_ref().map(|port| (port, Bus::system().device(port)));
    let alone =
        device.filter(|(_, device)| bind == VFIO && device.is_dir() && !device.join("iommu_group").exists());
    let alone = alone.map(|(port, _)| {
        format!("port {port} is in no IOMMU group: boot with intel_iommu=on or amd_iommu=on (and VT-d or AMD-Vi on in the BIOS)")
    });
    unnamed.chain(absent).chain(alone).collect()
}

/// The part of sysfs that lists PCI devices; elsewhere in tests.
#[derive(Clone, Debug)]
pub struct Bus(PathBuf);

impl Bus {
    /// The machine's.
    pub fn system() -> Self {
        Self("/sys/bus/pci".into())
    }

    /// Refuses a port that the machine may need, unless `allowed` names it.
    ///
    /// # Errors
    /// No such port, or what it carries and how to insist.
    pub fn check_free(&self, address: &str, allowed: &[String]) -> Result<()> {
        self.check_exists(address)?;
        if allowed.iter().any(|port| port == address) {
            return Ok(());
        }
        let insist = format!("choose another, or insist with --yes-this-port {address}");
        let class = self.class(address);
        ensure!(
            class.starts_with(NETWORK),
            "{address} is no network controller (class {class}), taking it may cost this machine a disk or a screen; {insist}"
        );
        for interface in self.interfaces(address) {
            let used = match stood_on(&self.device(address), &interface) {
                None => carries(&interface)?,
                used => used,
            };
            if let Some(used) = used {
                bail!("port {address} ({interface}) {used}: taking it may cut this machine off; {insist}");
            }
        }
        Ok(())
    }

    /// PCI class, as `0x020000` for Ethernet.
    fn class(&self, address: &str) -> String {
        fs::read_to_string(self.device(address).join("class")).unwrap_or_default().trim().to_owned()
    }

    /// The kernel's interfaces on a port.
    pub fn interfaces(&self, address: &str) -> Vec<String> {
        let entries = fs::read_dir(self.device(address).join("net")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// The driver that a port is bound to.
    pub fn driver(&self, address: &str) -> Option<String> {
        let link = fs::read_link(self.device(address).join("driver")).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    }

    /// Binds a port to `driver` until the value is dropped; one that is bound to it already stays so.
    ///
    /// # Errors
    /// The kernel does not bind it within five seconds; the port is then back where it was.
    pub fn take(&self, address: &str, driver: &str, interrupt: &Interrupt) -> Result<Taken> {
        self.check_exists(address)?;
        let before = self.driver(address);
        if before.as_deref() == Some(driver) {
            return Ok(Taken { guard: None, bus: self.clone(), address: address.to_owned(), before });
        }
        // From here on the port goes back, whatever happens.
        let taken = Taken {
            guard: Some(self.guard(address, before.as_deref(), interrupt)?),
            bus: self.clone(),
            address: address.to_owned(),
            before: before.clone(),
        };
        self.write(&self.device(address).join("driver_override"), driver)?;
        if before.is_some() {
            self.write(&self.device(address).join("driver/unbind"), address)?;
            self.wait(address, None)?;
        }
        self.write(&self.0.join("drivers_probe"), address)?;
        self.wait(address, Some(driver)).with_context(|| {
            format!("{driver} does not take {address}: is its module loaded, and the IOMMU on?")
        })?;
        Ok(taken)
    }

    /// A child that gives the port back when it is told to stop, or when this process dies.
    fn guard(&self, address: &str, before: Option<&str>, interrupt: &Interrupt) -> Result<Process> {
        let mut shell = command("sh");
        shell.args(["-c", GIVE_BACK, "sh"]).arg(&self.0).args([address, before.unwrap_or("")]);
        let mut guard = Process::spawn("the guard of a PCI port", &mut shell, None)?;
        guard.wait_for("armed", Duration::from_secs(10), interrupt)?;
        Ok(guard)
    }

    fn check_exists(&self, address: &str) -> Result<()> {
        ensure!(
            self.device(address).is_dir(),
            "no PCI device {address}; dpdk-devbind.py --status lists them, in the form 0000:01:00.0"
        );
        Ok(())
    }

    fn wait(&self, address: &str, driver: Option<&str>) -> Result<()> {
        let end = now() + BIND_TIMEOUT;
        loop {
            let bound = self.driver(address);
            if bound.as_deref() == driver {
                return Ok(());
            }
            ensure!(now() < end, "{address} is bound to {bound:?}, not to {driver:?}");
            nap(Duration::from_millis(5));
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<()> {
        fs::write(path, text).with_context(|| format!("cannot write {text:?} to {}", path.display()))
    }

    fn device(&self, address: &str) -> PathBuf {
        self.0.join("devices").join(address)
    }
}

/// A port that is away from its kernel driver; dropping this gives it back.
#[derive(Debug)]
pub struct Taken {
    guard: Option<Process>,
    bus: Bus,
    address: String,
    before: Option<String>,
}

impl Taken {
    /// Gives the port back now.
    ///
    /// # Errors
    /// The kernel did not take it.
    pub fn give_back(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        guard.stop(Signal::TERM, BIND_TIMEOUT)?;
        self.bus
            .wait(&self.address, self.before.as_deref())
            .with_context(|| format!("{} did not go back to its driver", self.address))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("hwtests: {error:#}; by hand: dpdk-devbind.py --bind=DRIVER {}", self.address);
        }
    }
}

/// What the kernel uses an interface for, if anything.
fn carries(interface: &str) -> Result<Option<String>> {
    let routes = ip(&["-4", "route", "show", "default"])? + "\n" + &ip(&["-6", "route", "show", "default"])?;
    Ok(carried(interface, &routes, &ip(&["-o", "address", "show", "dev", interface])?))
}

fn carried(interface: &str, routes: &str, addresses: &str) -> Option<String> {
    let route = |line: &str| line.split_whitespace().any(|word| word == interface);
    if routes.lines().any(route) {
        return Some("carries the default route".into());
    }
    // An fe80 address comes by itself with every interface that is up.
    let own = addresses.lines().filter(|line| !line.contains("scope link"));
    let address = own.filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("inet"));
        words.nth(1)
    });
    address.into_iter().next().map(|address| format!("carries the address {address}"))
}

/// What another interface makes of it: a bridge, a bond, a VLAN, a macvlan.
fn stood_on(device: &Path, interface: &str) -> Option<String> {
    let entries = fs::read_dir(device.join("net").join(interface)).ok()?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let upper = names.filter_map(|name| name.strip_prefix("upper_").map(str::to_owned)).min()?;
    Some(format!("is under {upper}"))
}

/// A port of the kernel's that is lent to a namespace; dropping this brings it back, up if it was.
#[derive(Debug)]
pub struct Lent {
    interface: String,
    was_up: bool,
    /// A process in the namespace.
    inside: u32,
}

impl Lent {
    /// Moves an interface into the namespace of a process.
    ///
    /// # Errors
    /// The kernel does not move it.
    pub fn to(interface: &str, inside: u32) -> Result<Self> {
        let flags = fs::read_to_string(format!("/sys/class/net/{interface}/flags")).unwrap_or_default();
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(0);
        ip(&["link", "set", interface, "netns", &inside.to_string()])?;
        Ok(Self { interface: interface.to_owned(), was_up: flags & IFF_UP != 0, inside })
    }

    fn back(&self) -> Result<()> {
        let home = std::process::id().to_string();
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/proc/{}/ns/net", self.inside));
        run(inside.args(["ip", "link", "set", &self.interface, "netns", &home]))?;
        if self.was_up { ip(&["link", "set", &self.interface, "up"]).map(drop) } else { Ok(()) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Err(error) = self.back() {
            eprintln!(
                "hwtests: {error:#}; {} comes back, down, with the end of its namespace",
                self.interface
            );
        }
    }
}

fn ip(arguments: &[&str]) -> Result<String> {
    run(Command::new("ip").args(arguments))
}

/// $1 the bus, $2 the port, $3 the driver that it had, or nothing.
const GIVE_BACK: &str = r#"
bus=$1 port=$2 driver=$3
back() {
    trap '' TERM INT HUP
    [ -e "$bus/devices/$port/driver" ] && printf %s "$port" >"$bus/devices/$port/driver/unbind"
    printf '%s' "$driver" >"$bus/devices/$port/driver_override"
    [ -n "$driver" ] && printf %s "$port" >"$bus/drivers_probe"
    printf '\n' >"$bus/devices/$port/driver_override"
    kill $!
    exit 0
}
trap back TERM INT HUP
sleep infinity >/dev/null 2>&1 &
echo armed
while :; do wait; done
"#;
const BIND_TIMEOUT: Duration = Duration::from_secs(5);
const VFIO: &str = "vfio-pci";
/// Start of the PCI class of network controllers.
const NETWORK: &str = "0x02";
/// Of an interface's flags, netdevice(7).
const IFF_UP: u32 = 1;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{self, JoinHandle};

    use super::*;

    const PORT: &str = "0000:01:00.0";

    /// A folder like sysfs, and a thread that does what the kernel does when its files are written.
    struct Fake {
        root: PathBuf,
        stop: Arc<AtomicBool>,
        kernel: Option<JoinHandle<()>>,
    }

    impl Fake {
        fn new(test: &str, drivers: &'static [&'static str]) -> Self {
            let root = std::env::temp_dir().join(format!("hwtests-pci-{test}-{}", std::process::id()));
            let device = root.join("devices").join(PORT);
            fs::create_dir_all(device.join("net/eth7")).unwrap();
            for driver in drivers {
                fs::create_dir_all(root.join("drivers").join(driver)).unwrap();
                fs::write(root.join("drivers").join(driver).join("unbind"), "").unwrap();
            }
            fs::write(root.join("drivers_probe"), "").unwrap();
            fs::write(device.join("driver_override"), "").unwrap();
            fs::write(device.join("class"), "0x020000\n").unwrap();
            symlink(root.join("drivers/igb"), device.join("driver")).unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let (folder, ended) = (root.clone(), stop.clone());
            let kernel = thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    step(&folder, drivers);
                    nap(Duration::from_millis(1));
                }
                step(&folder, drivers);
            });
            Self { root, stop, kernel: Some(kernel) }
        }

        fn bus(&self) -> Bus {
            Bus(self.root.clone())
        }
    }

    /// The kernel: unbinds what is asked to be, then binds by override.
    fn step(root: &Path, drivers: &[&str]) {
        let device = root.join("devices").join(PORT);
        for driver in drivers {
            let unbind = root.join("drivers").join(driver).join("unbind");
            if fs::read_to_string(&unbind).unwrap() == PORT {
                fs::write(&unbind, "").unwrap();
                fs::remove_file(device.join("driver")).unwrap();
            }
        }
        if fs::read_to_string(root.join("drivers_probe")).unwrap() == PORT {
            fs::write(root.join("drivers_probe"), "").unwrap();
            let wish = fs::read_to_string(device.join("driver_override")).unwrap();
            let driver = if wish.trim().is_empty() { "igb" } else { wish.trim() };
            if drivers.contains(&driver) && !device.join("driver").exists() {
                symlink(root.join("drivers").join(driver), device.join("driver")).unwrap();
            }
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            let _ = self.kernel.take().unwrap().join();
            fs::remove_dir_all(&self.root).unwrap();
        }
    }

    #[test]
    fn a_port_goes_to_vfio_and_back() {
        let fake = Fake::new("bind", &["igb", "vfio-pci"]);
        let interrupt = Interrupt::install().unwrap();
        let taken = fake.bus().take(PORT, "vfio-pci", &interrupt).unwrap();
        assert_eq!(fake.bus().driver(PORT).as_deref(), Some("vfio-pci"));
        taken.give_back().unwrap();
        assert_eq!(fake.bus().driver(PORT).as_deref(), Some("igb"));
        let wish = fs::read_to_string(fake.root.join("devices").join(PORT).join("driver_override")).unwrap();
        assert_eq!(wish.trim(), "", "the next probe is free again");
    }

    #[test]
    fn a_port_that_is_there_already_stays() {
        let fake = Fake::new("there", &["igb", "vfio-pci"]);
        let interrupt = Interrupt::install().unwrap();
        fake.bus().take(PORT, "igb", &interrupt).unwrap().give_back().unwrap();
        assert_eq!(fake.bus().driver(PORT).as_deref(), Some("igb"));
    }

    #[test]
    fn a_port_that_vfio_refuses_goes_back() {
        let fake = Fake::new("refused", &["igb"]);
        let interrupt = Interrupt::install().unwrap();
        let error = format!("{:#}", fake.bus().take(PORT, "vfio-pci", &interrupt).unwrap_err());
        assert!(error.contains("vfio-pci does not take") && error.contains("IOMMU"), "{error}");
        assert_eq!(fake.bus().driver(PORT).as_deref(), Some("igb"));
    }

    #[test]
    fn a_killed_run_gives_the_port_back_too() {
        let fake = Fake::new("killed", &["igb", "vfio-pci"]);
        let interrupt = Interrupt::install().unwrap();
        let mut taken = fake.bus().take(PORT, "vfio-pci", &interrupt).unwrap();
        // What the kernel does for a dead parent.
        taken.guard.as_mut().unwrap().signal(Signal::TERM).unwrap();
        fake.bus().wait(PORT, Some("igb")).unwrap();
    }

    #[test]
    fn a_port_in_use_is_refused_unless_named() {
        let routes = "default via 192.0.2.254 dev eth0 proto dhcp\n";
        let link_local = "3: eth7    inet6 fe80::1/64 scope link\n";
        let address = "3: eth7    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth7\n";
        assert_eq!(carried("eth0", routes, ""), Some("carries the default route".into()));
        assert_eq!(carried("eth7", routes, link_local), None);
        assert_eq!(
            carried("eth7", routes, &(link_local.to_owned() + address)).unwrap(),
            "carries the address 192.0.2.7/24"
        );
        let fake = Fake::new("used", &["igb"]);
        let device = fake.root.join("devices").join(PORT);
        assert_eq!(stood_on(&device, "eth7"), None);
        symlink("../../eth7.10", device.join("net/eth7/upper_eth7.10")).unwrap();
        assert_eq!(stood_on(&device, "eth7").unwrap(), "is under eth7.10");
        let refusal = fake.bus().check_free(PORT, &[]).unwrap_err().to_string();
        assert!(
            refusal.contains("(eth7) is under eth7.10") && refusal.contains("--yes-this-port"),
            "{refusal}"
        );
        assert!(fake.bus().check_free(PORT, &[PORT.to_owned()]).is_ok());
        fs::write(device.join("class"), "0x010802\n").unwrap();
        let refusal = fake.bus().check_free(PORT, &[]).unwrap_err().to_string();
        assert!(refusal.contains("no network controller (class 0x010802)"), "{refusal}");
        assert!(
            fake.bus().check_free("0000:99:00.0", &[]).unwrap_err().to_string().contains("no PCI device")
        );
    }
}
