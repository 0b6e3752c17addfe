//! What the scenarios on this rig share: where things are, what the machine has inside.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::image::{Contents, Image};
use crate::process::require;

/// Where things are.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The folder with the project's programs.
    pub programs: PathBuf,
    /// The folder for kernel and image, kept from run to run.
    pub cache: PathBuf,
}

impl Paths {
    /// The programs beside this one, and `vm` beside their folder: `target/vm` for `target/release`.
    pub fn beside_this() -> Result<Self> {
        let this = std::env::current_exe().context("cannot find this program")?;
        let programs = this.parent().context("this program lies in no folder")?.to_owned();
        let cache = programs.with_file_name("vm");
        Ok(Self { programs, cache })
    }
}

/// The image for all scenarios, made if need be; an error that says what is missing and how to get it.
pub fn image(paths: &Paths) -> Result<Image> {
    require(&[("qemu-system-x86_64", "qemu-system-x86"), ("xz", "xz-utils")])
        .context("this rig needs what .ci/setup-vm installs")?;
    let kernel = paths.cache.join("linux");
    ensure!(
        kernel.join("vmlinuz").is_file(),
        "no kernel in {}: run .ci/setup-vm {}",
        kernel.display(),
        kernel.display()
    );
    let ours = OURS.map(|name| paths.programs.join(name));
    if let Some(missing) = ours.iter().find(|path| !path.is_file()) {
        bail!("no {}: build it (cargo build --release -p weir -p hwtests)", missing.display());
    }
    let programs: Vec<_> = TOOLS.iter().map(PathBuf::from).chain(ours).collect();
    let contents =
        Contents { programs: &programs, drivers: DRIVERS, modules: MODULES, kernel: &kernel, init: INIT };
    Image::of(&contents, &paths.cache).context("cannot make the image of the machine")
}

/// Memory of a machine in MiB: the image twice while it is unpacked, hugepages, and room.
pub(super) const MEMORY: u32 = 1536;
/// Real time that a run may take: ten times what it takes on a machine that has nothing else to do.
pub(super) const PATIENCE: Duration = Duration::from_secs(1200);
/// What the jobs' scripts begin with.
pub(super) const FUNCTIONS: &str = include_str!("guest/functions.sh");

const INIT: &str = include_str!("guest/init.sh");
/// Programs of the project.
const OURS: [&str; 3] = ["weir", "nic-check", "hwtests"];
/// Programs of Debian that init and jobs use. dash: busybox's shell would take its own applets for `ip` and others.
const TOOLS: &[&str] = &[
    "dash", "basename", "cat", "chmod", "date", "env", "ethtool", "insmod", "ip", "iperf3", "kill", "ln",
    "mkdir", "mount", "nsenter", "ping", "readlink", "renice", "setpriv", "setsid", "sleep", "stat", "stty",
    "taskset", "tc", "unshare",
];
/// Of DPDK: the cards' own, and those with which the kernel's segmentation is had beside them.
const DRIVERS: &[&str] =
    &["bus_pci", "bus_vdev", "mempool_ring", "net_e1000", "net_ring", "net_tap", "net_virtio"];
/// e1000e first: its ports are eth0 and eth1 then. igb's are the kernel's until a job gives them to DPDK.
const MODULES: &[&str] = &[
    "e1000e",
    "igb",
    "vfio-pci",
    "vfio_iommu_type1",
    "tun",
    "vhost_net",
    "sch_ingress",
    "cls_matchall",
    "act_mirred",
];
