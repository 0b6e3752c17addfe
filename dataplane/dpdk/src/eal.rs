//! The environment abstraction layer: one per process, for ever (DPDK cannot start it again).
//!
//! [`Eal`] is a counted handle. Everything that DPDK owns memory for (pools, rings, ports) holds
//! one, so `rte_eal_cleanup` runs when the last of them is gone, and never under somebody's feet.

use std::ffi::{CStr, CString, NulError, c_char};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::device::Devargs;
use crate::errno::Errno;
use crate::port::{has_port, registry};
use crate::{log, signals};

/// A running EAL.
#[derive(Clone, Debug)]
pub struct Eal(#[allow(dead_code, reason = "held for its Drop")] Arc<Running>);

/// How to start it.
#[derive(Clone, Debug)]
pub struct EalConfig {
    /// `--file-prefix`: instances with different prefixes coexist on one machine.
    pub file_prefix: String,
    /// What DPDK may say on standard error.
    pub log_level: LogLevel,
    /// Further EAL arguments, passed through as they are.
    pub args: Vec<String>,
}

/// The levels of `rte_log`, quietest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Only what ends the process.
    Critical,
    /// Errors only.
    Error,
    /// Errors and warnings.
    #[default]
    Warning,
    /// Normal but significant.
    Notice,
    /// What DPDK says by default.
    Info,
    /// Everything that was compiled in.
    Debug,
}

/// Why the EAL did not start, or a device could not be attached or detached.
#[derive(Debug, Error)]
pub enum EalError {
    /// The EAL of this process runs, has run, or failed to start.
    #[error("the EAL was already started in this process, and DPDK cannot start it twice; run a new process")]
    AlreadyStarted,
    /// An argument holds a NUL byte.
    #[error("EAL argument {0:?} holds a NUL byte; remove it")]
    Nul(String),
    /// The thread for the drivers' signals could not be started.
    #[error("cannot set up signals for the drivers: {0}")]
    Signals(#[source] std::io::Error),
    /// `rte_eal_init` failed.
    #[error("rte_eal_init({args}) failed: {errno}; {remedy}{said}")]
    Init {
        /// The arguments as one line.
        args: String,
        /// What it returned.
        errno: Errno,
        /// What the EAL logged while it failed, each line after a line break; may be empty.
        said: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A device string cannot be understood.
    #[error(
        "device {0:?} is not NAME[,KEY=VALUE…]; give a PCI address (0000:01:00.0) or a vdev name (net_tap0,iface=tap0)"
    )]
    Devargs(String),
    /// The bus or the driver refused the device.
    #[error("device {device}: cannot attach: {errno}; {remedy}{said}")]
    Attach {
        /// The device string.
        device: String,
        /// What it returned.
        errno: Errno,
        /// What EAL and driver logged while it failed, each line after a line break; may be empty.
        said: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The device cannot be removed.
    #[error("device {device}: cannot detach: {errno}; check the name, it must be one that was attached")]
    Detach {
        /// The device's name.
        device: String,
        /// What it returned.
        errno: Errno,
    },
    /// A port of the device is still open.
    #[error("device {device}: cannot detach while its port is open; close the port first")]
    InUse {
        /// The device's name.
        device: String,
    },
}

impl EalConfig {
    /// Warnings only, no further arguments.
    pub fn new(file_prefix: impl Into<String>) -> Self {
        Self { file_prefix: file_prefix.into(), log_level: LogLevel::default(), args: Vec::new() }
    }

    /// The folder that DPDK makes for the file prefix: under /var/run for root, under the user's
    /// run-time directory for others. DPDK leaves it behind; [`Eal`] removes it with its last handle.
    pub fn runtime_folder(&self) -> PathBuf {
        // SAFETY: always succeeds and touches no memory.
        let root = unsafe { libc::getuid() } == 0;
        let base = match std::env::var_os("XDG_RUNTIME_DIR") {
            _ if root => PathBuf::from("/var/run"),
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from("/tmp"),
        };
        base.join("dpdk").join(&self.file_prefix)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    fn argv(&self) -> Vec<String> {
        let mut argv = vec![
            "dpdk".to_owned(),
            format!("--file-prefix={}", self.file_prefix),
            format!("--log-level={}", self.log_level.number()),
            // Its warning at every start (DPDK 22.11) is about a socket that nobody asked for.
            "--log-level=lib.telemetry:4".to_owned(),
        ];
        argv.extend(self.args.iter().cloned());
        argv
    }
}

impl LogLevel {
    const fn number(self) -> u32 {
        match self {
            Self::Critical => 3,
            Self::Error => 4,
            Self::Warning => 5,
            Self::Notice => 6,
            Self::Info => 7,
            Self::Debug => 8,
        }
    }
}

impl Eal {
    /// Starts the EAL. The calling thread becomes the main lcore and is pinned to its core, and
    /// threads that it starts later inherit the pinning; real-time signals are blocked in it.
    ///
    /// # Errors
    /// [`EalError::AlreadyStarted`], also after a failed start; [`EalError::Init`] with what DPDK said.
    pub fn init(config: &EalConfig) -> Result<Self, EalError> {
        let args = config.argv();
        let mut started = lock(&STARTED);
        if *started {
            return Err(EalError::AlreadyStarted);
        }
        let mut argv = Argv::new(&args)?;
        *started = true;
        signals::divert().map_err(EalError::Signals)?;
        log::hush();
        // SAFETY: argc and argv describe a NULL-terminated array of C strings that is never freed;
        // STARTED makes this the only call in the life of the process.
        let init = || unsafe { dpdk_sys::rte_eal_init(argv.count, argv.pointers()) };
        let (ret, said) = log::catch(|| log::without_stdout(init));
        if ret < 0 {
            let errno = Errno::last();
            return Err(EalError::Init {
                args: args[1..].join(" "),
                errno,
                said: log::below(&said),
                remedy: init_remedy(errno),
            });
        }
        if config.log_level > LogLevel::Warning {
            // Where it would have gone; a closed standard error is no reason to stop.
            let _ = std::io::stderr().write_all(said.as_bytes());
            log::unhush();
        }
        Ok(Self(Arc::new(Running { folder: config.runtime_folder() })))
    }

    /// The version of the DPDK that runs, for example `DPDK 22.11.11`.
    pub fn version() -> String {
        // SAFETY: returns a static C string.
        unsafe { CStr::from_ptr(dpdk_sys::rte_version()) }.to_string_lossy().into_owned()
    }

    /// Whether packet memory lies in hugepages.
    pub fn has_hugepages(&self) -> bool {
        // SAFETY: reads the EAL's configuration.
        unsafe { dpdk_sys::rte_eal_has_hugepages() != 0 }
    }

    /// The name of the device that a device string is about, as DPDK writes it: to open its port
    /// and to detach it by.
    ///
    /// # Errors
    /// [`EalError::Devargs`].
    pub fn device_name(devargs: &str) -> Result<String, EalError> {
        Devargs::parse(devargs)
            .map(|device| device.name.into_owned())
            .ok_or_else(|| EalError::Devargs(devargs.into()))
    }

    /// Most ports that this DPDK can hold at a time (`RTE_MAX_ETHPORTS`, set when it was built).
    pub const MAX_PORTS: usize = dpdk_sys::SHIM_MAX_ETHPORTS as usize;

    /// Attaches a device: `0000:01:00.0`, `net_tap0,iface=tap0`, `pci:…`, `vdev:…`. Returns its
    /// name, see [`Eal::device_name`]. What the EAL found when it started is attached already.
    ///
    /// # Errors
    /// [`EalError::Devargs`] or [`EalError::Attach`].
    pub fn attach(&self, devargs: &str) -> Result<String, EalError> {
        let device = Devargs::parse(devargs).ok_or_else(|| EalError::Devargs(devargs.into()))?;
        let (bus, name, args) = device.c_strings().map_err(|_| EalError::Devargs(devargs.into()))?;
        let refused = |errno, said: &str| EalError::Attach {
            device: devargs.into(),
            errno,
            said: log::below(said),
            remedy: attach_remedy(errno),
        };
        let _control = registry::control();
        if has_port(&device.name) {
            return Err(refused(Errno::EEXIST, ""));
        }
        // SAFETY: three C strings that outlive the call; no port can be opened or closed meanwhile.
        let add = || unsafe { dpdk_sys::rte_eal_hotplug_add(bus.as_ptr(), name.as_ptr(), args.as_ptr()) };
        let (ret, said) = log::catch(add);
        Errno::check(ret).map_err(|errno| refused(errno, &said))?;
        // The call succeeds for a device whose port was closed and which was not detached: nothing
        // is probed then, and no port appears.
        if has_port(&device.name) { Ok(device.name.into_owned()) } else { Err(refused(Errno::EEXIST, &said)) }
    }

    /// As [`Eal::attach`], or the name alone of a device that is attached already: of the devices on a bus, those
    /// that the EAL found when it started.
    ///
    /// # Errors
    /// As [`Eal::attach`].
    pub fn find_or_attach(&self, devargs: &str) -> Result<String, EalError> {
        let name = Self::device_name(devargs)?;
        let is_attached = {
            let _control = registry::control();
            has_port(&name)
        };
        if is_attached { Ok(name) } else { self.attach(devargs) }
    }

    /// Detaches a device by name.
    ///
    /// # Errors
    /// [`EalError::InUse`] while a port of the device is open, or [`EalError::Detach`].
    pub fn detach(&self, name: &str) -> Result<(), EalError> {
        let device = Devargs::parse(name).ok_or_else(|| EalError::Devargs(name.into()))?;
        let (bus, c_name, _) = device.c_strings().map_err(|_| EalError::Devargs(name.into()))?;
        let control = registry::control();
        if control.device_in_use(&device.name) {
            return Err(EalError::InUse { device: name.into() });
        }
        // SAFETY: C strings that outlive the call; no port of the device is open, and none can be
        // opened while `control` is held.
        let ret = unsafe { dpdk_sys::rte_eal_hotplug_remove(bus.as_ptr(), c_name.as_ptr()) };
        Errno::check(ret).map(|_| ()).map_err(|errno| EalError::Detach { device: name.into(), errno })
    }
}

/// Cleans up when the last handle goes.
#[derive(Debug)]
struct Running {
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: rte_eal_init succeeded, and every owner of DPDK memory holds a handle: none is left.
        unsafe { dpdk_sys::rte_eal_cleanup() };
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// `argv` for C. EAL keeps pointers into it, so it is leaked on purpose: once per process.
struct Argv {
    count: i32,
    pointers: &'static mut [*mut c_char],
}

impl Argv {
    fn new(args: &[String]) -> Result<Self, EalError> {
        let strings: Vec<CString> = args
            .iter()
            .map(|arg| CString::new(arg.as_str()))
            .collect::<Result<_, NulError>>()
            .map_err(|error| EalError::Nul(String::from_utf8_lossy(&error.into_vec()).into_owned()))?;
        let count = i32::try_from(strings.len()).unwrap_or(i32::MAX);
        let mut pointers: Vec<*mut c_char> = strings.into_iter().map(CString::into_raw).collect();
        pointers.push(std::ptr::null_mut());
        Ok(Self { count, pointers: pointers.leak() })
    }

    fn pointers(&mut self) -> *mut *mut c_char {
        self.pointers.as_mut_ptr()
    }
}

fn init_remedy(errno: Errno) -> &'static str {
    match errno.value() {
        libc::EACCES | libc::EPERM => "run as root, or give the process access to hugepages and devices",
        libc::EINVAL => "check the EAL arguments; `--no-huge` and `--in-memory` exclude each other",
        libc::ENOMEM | libc::ENODEV => {
            "reserve hugepages (dpdk-hugepages.py --setup 1G), or pass --no-huge -m 512"
        }
        libc::EALREADY => "DPDK cannot be started twice in one process",
        _ => "see what the EAL said, or raise the log level",
    }
}

fn attach_remedy(errno: Errno) -> &'static str {
    match errno.value() {
        libc::EEXIST => "it is attached already; open its port, or close that and detach the device first",
        libc::ENODEV | libc::ENOENT => {
            "no such device or no driver for it: check the name, that the driver's plugin is installed, and that a PCI device is bound to vfio-pci"
        }
        // net_af_packet and others return -1, which is EPERM, for whatever went wrong.
        libc::EPERM => {
            "run as root; as root it means that the driver failed: check that the interface or file in the device's arguments exists"
        }
        libc::EACCES => "run as root",
        libc::ENOMEM => {
            "give the EAL more memory (-m), unless DPDK's table of ports is full (RTE_MAX_ETHPORTS)"
        }
        _ => "check the device's arguments against the driver's guide",
    }
}

/// Takes a lock whose holder may have panicked: what it guards is consistent at every point.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static STARTED: Mutex<bool> = Mutex::new(false);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_in_the_order_eal_wants() {
        let config = EalConfig::new("left").arg("--no-pci");
        let argv = ["dpdk", "--file-prefix=left", "--log-level=5", "--log-level=lib.telemetry:4", "--no-pci"];
        assert_eq!(config.argv(), argv);
    }

    #[test]
    fn a_nul_byte_is_refused_before_dpdk_sees_it() {
        let error = Eal::init(&EalConfig::new("a").arg("-m\0")).unwrap_err();
        assert!(matches!(error, EalError::Nul(ref arg) if arg == "-m\0"), "{error}");
    }
}
