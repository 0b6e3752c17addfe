//! The kernel's side of PCI ports: which driver has one, and giving it to another.
//!
//! After the kernel's sysfs-bus-pci (`driver_override`, `drivers_probe`, `unbind`). What driver a port had before is
//! kept under /run/weir/pci, which a reboot forgets as it does the binding.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The PCI bus in sysfs.
#[derive(Clone, Debug)]
pub struct Bus {
    root: PathBuf,
}

/// Whose driver of a port it is that is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The one that makes a kernel interface of it, for when weir is done with it.
    Kernel,
    /// The one that hands it to weir, for when weir comes back.
    Weir,
}

impl Bus {
    /// The machine's.
    pub fn system() -> Self {
        Self::below(Path::new("/"))
    }

    /// One whose /sys and /run lie below `root`.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Whether there is such a device.
    pub fn has(&self, address: &str) -> bool {
        self.device(address).is_dir()
    }

    /// The driver that it is bound to.
    pub fn driver(&self, address: &str) -> Option<String> {
        let link = fs::read_link(self.device(address).join("driver")).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    }

    /// The kernel's interfaces on it.
    pub fn interfaces(&self, address: &str) -> Vec<String> {
        let entries = fs::read_dir(self.device(address).join("net")).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Gives it to `driver`, or to the one that the kernel chooses. If that fails it goes back to where it was.
    ///
    /// # Errors
    /// No such device, no permission, or the driver does not take it.
    pub fn bind(&self, address: &str, driver: Option<&str>) -> Result<()> {
        ensure!(self.has(address), "no PCI device {address}; `lspci -D` lists them");
        let before = self.driver(address);
        if before.is_some() && before.as_deref() == driver {
            return Ok(());
        }
        let done = self.rebind(address, driver);
        if done.is_err() {
            // The first failure is the one to tell of.
            let _ = self.rebind(address, before.as_deref());
        }
        done
    }

    fn rebind(&self, address: &str, driver: Option<&str>) -> Result<()> {
        let device = self.device(address);
        write(&device.join("driver_override"), driver.unwrap_or("\n"))?;
        if self.driver(address).is_some() {
            write(&device.join("driver/unbind"), address)?;
            self.wait(address, |driver| driver.is_none(), UNBIND)?;
        }
        write(&self.root.join("sys/bus/pci/drivers_probe"), address)?;
        let is_there = |now: Option<&str>| now.is_some() && driver.is_none_or(|driver| now == Some(driver));
        let bound = self.wait(address, is_there, BIND);
        if driver.is_some_and(|driver| !is_for_dpdk(driver)) {
            // The next probe is free again.
            write(&device.join("driver_override"), "\n")?;
        }
        let driver = driver.unwrap_or("any driver of the kernel");
        bound
            .with_context(|| format!("{driver} does not take {address}: is its module loaded, the IOMMU on?"))
    }

    fn wait(&self, address: &str, is_fine: impl Fn(Option<&str>) -> bool, most: Duration) -> Result<()> {
        let end = now() + most;
        loop {
            let driver = self.driver(address);
            if is_fine(driver.as_deref()) {
                return Ok(());
            }
            ensure!(now() < end, "{address} is bound to {}", driver.as_deref().unwrap_or("no driver"));
            pause();
        }
    }

    /// Waits for the one interface that the kernel's driver makes on it.
    ///
    /// # Errors
    /// None within five seconds, or several.
    pub fn interface(&self, address: &str) -> Result<String> {
        let end = now() + BIND;
        loop {
            match self.interfaces(address).as_slice() {
                [one] => return Ok(one.clone()),
                [] if now() < end => pause(),
                [] => bail!("{address}: its driver made no interface"),
                several => bail!("{address} has several interfaces: {}", several.join(", ")),
            }
        }
    }

    /// Notes a driver, to be found by whoever gives the port back.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember(&self, address: &str, whose: Whose, driver: &str) -> Result<()> {
        let path = self.record(address, whose);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::write(&path, format!("{driver}\n")).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The driver that was noted.
    pub fn remembered(&self, address: &str, whose: Whose) -> Option<String> {
        let text = fs::read_to_string(self.record(address, whose)).ok()?;
        Some(text.trim().to_owned()).filter(|name| !name.is_empty())
    }

    /// Forgets what was noted.
    pub fn forget(&self, address: &str, whose: Whose) {
        let _ = fs::remove_file(self.record(address, whose));
    }

    fn record(&self, address: &str, whose: Whose) -> PathBuf {
        let name = match whose {
            Whose::Kernel => "kernel",
            Whose::Weir => "weir",
        };
        self.root.join("run/weir/pci").join(format!("{address}.{name}"))
    }

    /// Its folder in sysfs.
    pub fn device(&self, address: &str) -> PathBuf {
        self.root.join("sys/bus/pci/devices").join(address)
    }

    /// Whether a driver of this name is loaded.
    pub fn has_driver(&self, driver: &str) -> bool {
        self.root.join("sys/bus/pci/drivers").join(driver).is_dir()
    }
}

/// Whether a kernel driver hands its devices to programs such as DPDK.
pub fn is_for_dpdk(driver: &str) -> bool {
    ["vfio-pci", "uio_pci_generic", "igb_uio"].contains(&driver)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| {
        let help = match error.kind() {
            ErrorKind::PermissionDenied => {
                " (root may, where /sys is not read-only: ProtectKernelTunables=no)"
            }
            _ => "",
        };
        anyhow::Error::new(error).context(format!("cannot write {text:?} to {}{help}", path.display()))
    })
}

#[allow(clippy::disallowed_methods, reason = "waits for the kernel, while no packet flows")]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "waits for the kernel, while no packet flows")]
fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}

/// How long a driver may take to let go.
const UNBIND: Duration = Duration::from_secs(2);

/// How long one may take to start a card: firmware is loaded then.
const BIND: Duration = Duration::from_secs(5);

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::JoinHandle;

    pub const PORT: &str = "0000:01:00.0";

    /// A folder like sysfs with one card, bound to igb, and a thread that does what the kernel does when its files
    /// are written.
    pub struct Fake {
        pub root: PathBuf,
        stop: Arc<AtomicBool>,
        kernel: Option<JoinHandle<()>>,
    }

    impl Fake {
        pub fn new(test: &str, drivers: &'static [&'static str]) -> Self {
            let root = std::env::temp_dir().join(format!("weir-pci-{test}-{}", std::process::id()));
            let bus = root.join("sys/bus/pci");
            let device = bus.join("devices").join(PORT);
            fs::create_dir_all(device.join("net/eth7")).unwrap();
            for driver in drivers {
                fs::create_dir_all(bus.join("drivers").join(driver)).unwrap();
                fs::write(bus.join("drivers").join(driver).join("unbind"), "").unwrap();
            }
            fs::write(bus.join("drivers_probe"), "").unwrap();
            fs::write(device.join("driver_override"), "").unwrap();
            symlink(bus.join("drivers/igb"), device.join("driver")).unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let ended = stop.clone();
            let kernel = std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    step(&bus, drivers);
                    pause();
                }
            });
            Self { root, stop, kernel: Some(kernel) }
        }

        pub fn bus(&self) -> Bus {
            Bus::below(&self.root)
        }
    }

    /// The kernel: unbinds what is asked to be, then binds by override.
    fn step(bus: &Path, drivers: &[&str]) {
        let device = bus.join("devices").join(PORT);
        for driver in drivers {
            let unbind = bus.join("drivers").join(driver).join("unbind");
            if fs::read_to_string(&unbind).unwrap() == PORT {
                fs::write(&unbind, "").unwrap();
                fs::remove_file(device.join("driver")).unwrap();
            }
        }
        if fs::read_to_string(bus.join("drivers_probe")).unwrap() == PORT {
            fs::write(bus.join("drivers_probe"), "").unwrap();
            let wish = fs::read_to_string(device.join("driver_override")).unwrap();
            let driver = if wish.trim().is_empty() { "igb" } else { wish.trim() };
            if drivers.contains(&driver) && !device.join("driver").exists() {
                symlink(bus.join("drivers").join(driver), device.join("driver")).unwrap();
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
    fn a_port_goes_to_vfio_and_back_to_the_kernels_choice() {
        let fake = Fake::new("bind", &["igb", "vfio-pci"]);
        let bus = fake.bus();
        assert_eq!(bus.interfaces(PORT), ["eth7"]);
        bus.bind(PORT, Some("vfio-pci")).unwrap();
        assert_eq!(bus.driver(PORT).as_deref(), Some("vfio-pci"));
        bus.bind(PORT, None).unwrap();
        assert_eq!(bus.driver(PORT).as_deref(), Some("igb"));
        let wish = fs::read_to_string(bus.device(PORT).join("driver_override")).unwrap();
        assert_eq!(wish.trim(), "", "the next probe is free again");
        assert!(bus.bind("0000:99:00.0", None).unwrap_err().to_string().contains("no PCI device"));
    }

    #[test]
    fn a_port_that_is_refused_goes_back() {
        let fake = Fake::new("refused", &["igb"]);
        let error = format!("{:#}", fake.bus().bind(PORT, Some("vfio-pci")).unwrap_err());
        assert!(error.contains("vfio-pci does not take") && error.contains("IOMMU"), "{error}");
        assert_eq!(fake.bus().driver(PORT).as_deref(), Some("igb"));
    }

    #[test]
    fn a_driver_is_remembered_until_it_is_forgotten() {
        let fake = Fake::new("remember", &["igb"]);
        let bus = fake.bus();
        assert_eq!(bus.remembered(PORT, Whose::Kernel), None);
        bus.remember(PORT, Whose::Kernel, "igb").unwrap();
        assert_eq!(bus.remembered(PORT, Whose::Kernel).as_deref(), Some("igb"));
        assert_eq!(bus.remembered(PORT, Whose::Weir), None);
        bus.forget(PORT, Whose::Kernel);
        assert_eq!(bus.remembered(PORT, Whose::Kernel), None);
    }
}
