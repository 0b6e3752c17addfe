//! Where the interface of a `net_tap` port is. Its driver asks for the link state in the network
//! namespace that it was started in: of an interface that was moved to another one it says "down"
//! for ever, while frames pass; and of one that was deleted it says no more than that.

use nix::net::if_;
use std::path::{Path, PathBuf};

/// The interface of a tap port.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    index: u32,
    /// What the kernel says of one of the descriptors by which the driver holds the interface: its
    /// name, wherever it is and however it was renamed, and nothing once it is deleted.
    fdinfo: Option<PathBuf>,
}

impl Tap {
    /// The tap with this index, while it is still here.
    pub(crate) fn find(index: u32) -> Self {
        let fdinfo = if_::if_indextoname(index).ok().and_then(|name| {
            let name = name.to_str().ok()?;
            let entries = std::fs::read_dir("/proc/self/fdinfo").ok()?;
            entries.flatten().map(|entry| entry.path()).find(|path| interface(path).as_deref() == Some(name))
        });
        Self { index, fdinfo }
    }

    /// Whether it exists, in another network namespace than this one.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let here =
            if_::if_nameindex().map_or(true, |here| here.iter().any(|other| other.index() == self.index));
        let exists = self.fdinfo.as_deref().is_none_or(|path| interface(path).is_some());
        !here && exists
    }
}

/// The interface behind a descriptor, by its file in `/proc/self/fdinfo`.
fn interface(fdinfo: &Path) -> Option<String> {
    let text = std::fs::read_to_string(fdinfo).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("iff:"))?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
