//! The kernel's interface behind a port, for drivers that do not know its state.
//!
//! * `net_tap` asks for the link state in the network namespace that it was started in: of an
//!   interface that was moved to another one it says "down" for ever, while frames pass; and of one
//!   that was deleted it says no more than that.
//! * `net_af_packet` and `net_af_xdp` say "up" for ever, and take frames that the kernel refuses.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{self, InterfaceFlags};
use std::path::{Path, PathBuf};

/// An interface whose state the kernel is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Interface {
    /// Held by `net_tap`.
    Tap {
        index: u32,
        /// What the kernel says of one of the descriptors by which the driver holds the interface:
        /// its name, wherever it is and however it was renamed, and nothing once it is deleted.
        fdinfo: Option<PathBuf>,
    },
    /// Used through a socket, by `net_af_packet` or `net_af_xdp`.
    Socket { index: u32 },
}

impl Interface {
    /// The one behind a port of this driver that was opened just now; `None` when the driver knows.
    pub(crate) fn find(driver: &str, index: u32) -> Option<Self> {
        match driver {
            "net_tap" => Some(Self::Tap { index, fdinfo: descriptor(index) }),
            "net_af_packet" | "net_af_xdp" => Some(Self::Socket { index }),
            _ => None,
        }
    }

    /// Whether frames pass, given what the driver says. May cost a list of all interfaces, on the
    /// control thread.
    pub(crate) fn is_up(&self, driver: bool) -> bool {
        match self {
            Self::Tap { index, fdinfo } => driver || is_elsewhere(*index, fdinfo.as_deref()),
            Self::Socket { index } => driver && is_running(*index),
        }
    }
}

/// Whether it exists, in another network namespace than this one.
fn is_elsewhere(index: u32, fdinfo: Option<&Path>) -> bool {
    let here = if_::if_nameindex().map_or(true, |here| here.iter().any(|other| other.index() == index));
    !here && fdinfo.is_none_or(|path| tap_of(path).is_some())
}

/// Whether it is here, up, and has a carrier; `true` when the kernel does not answer.
fn is_running(index: u32) -> bool {
    let running = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let Ok(mut all) = getifaddrs() else { return true };
    all.any(|one| {
        one.flags.contains(running)
            && if_::if_nametoindex(one.interface_name.as_str()).is_ok_and(|other| other == index)
    })
}

/// The file in `/proc/self/fdinfo` of a descriptor that holds the tap with this index.
fn descriptor(index: u32) -> Option<PathBuf> {
    let name = if_::if_indextoname(index).ok()?;
    let entries = std::fs::read_dir("/proc/self/fdinfo").ok()?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths.find(|path| tap_of(path).as_deref() == name.to_str().ok())
}

/// The tap behind a descriptor.
fn tap_of(fdinfo: &Path) -> Option<String> {
    let text = std::fs::read_to_string(fdinfo).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("iff:"))?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
