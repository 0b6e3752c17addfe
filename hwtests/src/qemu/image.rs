//! The initramfs of the machine: programs of this system with their libraries, drivers of DPDK, modules of a kernel.
//!
//! Made of what is installed here, so that a run measures the same binaries that `make build` made and Debian
//! shipped. It is kept, and made again when a file that went in, or the list of them, has changed.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::archive::Archive;
use crate::process::run;

/// What a machine has inside.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// Programs: names to look for on the path, or paths; each lands in `/usr/bin` under its name.
    pub programs: &'a [PathBuf],
    /// Drivers of DPDK by the middle of their file's name: `net_e1000` of `librte_net_e1000.so`.
    pub drivers: &'a [&'a str],
    /// Modules of the kernel, loaded at boot in this order, each after what it depends on.
    pub modules: &'a [&'a str],
    /// The folder that `.ci/setup-vm` filled: `vmlinuz`, `modules/`.
    pub kernel: &'a Path,
    /// What runs as process 1.
    pub init: &'a str,
}

/// An image on disk.
#[derive(Clone, Debug)]
pub struct Image {
    /// The archive.
    pub initramfs: PathBuf,
    /// The kernel.
    pub vmlinuz: PathBuf,
}

impl Image {
    /// The image of `contents` in the folder `cache`, made if it is not there.
    pub fn of(contents: &Contents<'_>, cache: &Path) -> Result<Self> {
        let mut files = BTreeSet::new();
        let programs = contents.programs.iter().map(|program| found(program)).collect::<Result<Vec<_>>>()?;
        for program in &programs {
            libraries(program, &mut files)?;
        }
        for driver in contents.drivers {
            for file in driver_files(driver)? {
                libraries(&file, &mut files)?;
                files.insert(file);
            }
        }
        let modules = modules(contents)?;
        let image = Self { initramfs: cache.join("initramfs"), vmlinuz: contents.kernel.join("vmlinuz") };
        let inputs = || files.iter().chain(&programs).chain(&modules);
        let key = key(inputs(), contents.init)?;
        let key_file = cache.join("initramfs.key");
        if image.initramfs.is_file() && fs::read_to_string(&key_file).is_ok_and(|kept| kept == key) {
            return Ok(image);
        }
        fs::create_dir_all(cache).with_context(|| format!("cannot create {}", cache.display()))?;
        let bytes = archive(&files, &programs, &modules, contents.init)?;
        // Renamed when it is whole: another run may be reading the old one, and this one may be stopped.
        let draft = cache.join(format!("initramfs.{}", std::process::id()));
        fs::write(&draft, bytes).with_context(|| format!("cannot write {}", draft.display()))?;
        fs::rename(&draft, &image.initramfs)?;
        fs::write(&key_file, key)?;
        Ok(image)
    }
}

fn archive(
    files: &BTreeSet<PathBuf>,
    programs: &[PathBuf],
    modules: &[PathBuf],
    init: &str,
) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    // Else it is open to all, and DPDK loads nothing from there.
    archive.folder(".")?;
    // What Debian 12 has merged.
    for folder in ["bin", "sbin", "lib", "lib64"] {
        archive.folder(&format!("usr/{folder}"))?;
        archive.link(folder, &format!("usr/{folder}"))?;
    }
    for folder in ["proc", "sys", "dev", "run", "tmp", "etc", "root"] {
        archive.folder(folder)?;
    }
    archive.link("var/run", "/run")?;
    archive.device("dev/console", 5, 1)?;
    archive.file("init", 0o755, init.as_bytes())?;
    archive.link("usr/bin/sh", "dash")?;
    for program in programs {
        let name = program.file_name().with_context(|| format!("{} has no name", program.display()))?;
        archive.file(&format!("usr/bin/{}", name.display()), 0o755, &read(program)?)?;
    }
    for path in files {
        add(&mut archive, path)?;
    }
    let mut order = String::new();
    for path in modules {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = format!("modules/{}", name.trim_end_matches(".ko"));
        // insmod would unpack it inside the machine, ten times slower.
        let content = match path.extension() {
            Some(xz) if xz == "xz" => unpacked(path)?,
            _ => read(path)?,
        };
        archive.file(&name, 0o644, &content)?;
        order += &format!("/{name}\n");
    }
    archive.file("modules/order", 0o644, order.as_bytes())?;
    archive.finish()
}

/// Adds a file of this system under its own path; of a link also what it points to.
fn add(archive: &mut Archive, path: &Path) -> Result<()> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { break };
        let folder = folder.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
        let place = folder.join(name);
        let text = place.to_string_lossy().into_owned();
        if !place.is_symlink() {
            return archive.file(&text, 0o755, &read(&place)?);
        }
        let target = fs::read_link(&place)?;
        archive.link(&text, &target.to_string_lossy())?;
        path = folder.join(target);
    }
    bail!("{} is a link without an end", path.display())
}

/// The libraries that the loader will want for `file`.
fn libraries(file: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    let text = run(Command::new("ldd").arg(file)).or_else(|error| {
        // What needs no library is "not a dynamic executable", and ldd calls that a failure.
        let text = format!("{error:#}");
        if text.contains("not a dynamic executable") { Ok(String::new()) } else { Err(error) }
    })?;
    for line in text.lines() {
        ensure!(!line.contains("not found"), "{} needs a library that is not here: {line}", file.display());
        if let Some(path) = line.split_whitespace().find(|word| word.starts_with('/')) {
            found.insert(PathBuf::from(path));
        }
    }
    Ok(())
}

/// All names of a driver: DPDK looks for one, the loader for another.
fn driver_files(driver: &str) -> Result<Vec<PathBuf>> {
    let start = format!("librte_{driver}.so");
    let folders = fs::read_dir(DRIVERS).with_context(|| format!("no {DRIVERS}: apt-get install dpdk"))?;
    let mut files = Vec::new();
    for folder in folders.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"pmds-"))
    {
        let entries = fs::read_dir(folder.path())?.flatten();
        files.extend(
            entries.map(|entry| entry.path()).filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start))
            }),
        );
    }
    ensure!(!files.is_empty(), "no {start} under {DRIVERS}: apt-get install dpdk");
    files.sort();
    Ok(files)
}

/// The modules asked for and what they depend on, in the order of loading.
fn modules(contents: &Contents<'_>) -> Result<Vec<PathBuf>> {
    let folder = contents.kernel.join("modules");
    let table = fs::read_to_string(folder.join("modules.dep"))
        .with_context(|| format!("no modules in {}: run .ci/setup-vm", folder.display()))?;
    let mut order: Vec<PathBuf> = Vec::new();
    for wanted in contents.modules {
        let line =
            dependencies(&table, wanted).with_context(|| format!("this kernel has no module {wanted}"))?;
        for path in line.into_iter().map(|path| folder.join(path)) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    Ok(order)
}

/// What modules.dep says of a module: the last to load stands first there.
fn dependencies<'a>(table: &'a str, module: &str) -> Option<Vec<&'a str>> {
    table.lines().find_map(|line| {
        let (path, needs) = line.split_once(':')?;
        let name = path.rsplit('/').next()?.split('.').next()?;
        (name == module).then(|| needs.split_whitespace().rev().chain([path]).collect())
    })
}

/// A program by its path, or by its name as a shell of root finds it.
fn found(program: &Path) -> Result<PathBuf> {
    if program.components().count() > 1 {
        return program.canonicalize().with_context(|| format!("no {}", program.display()));
    }
    let places = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map(|folder| Path::new(folder).join(program));
    let place = places.into_iter().find(|place| place.is_file());
    place.with_context(|| format!("{} is not installed", program.display()))
}

/// Changes with every file that goes in.
fn key<'a>(files: impl Iterator<Item = &'a PathBuf>, init: &str) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    (init, FORMAT).hash(&mut hasher);
    for file in files {
        let about = fs::metadata(file).with_context(|| format!("cannot find {}", file.display()))?;
        (file, about.len(), about.mtime(), about.mtime_nsec()).hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let output = Command::new("xz").args(["--decompress", "--stdout"]).arg(path).output();
    let output = output.context("cannot run xz: apt-get install xz-utils")?;
    ensure!(output.status.success(), "xz cannot unpack {}", path.display());
    Ok(output.stdout)
}

const DRIVERS: &str = "/usr/lib/x86_64-linux-gnu/dpdk";
/// As many as the kernel follows.
const LINKS_MAX: usize = 40;
/// To be raised when what this file makes of the same inputs changes.
const FORMAT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "kernel/net/sched/sch_cake.ko.xz:\n\
        kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/pci/vfio-pci-core.ko.xz kernel/drivers/vfio/vfio.ko.xz\n";

    #[test]
    fn a_module_loads_after_what_it_needs() {
        let pci = ["kernel/drivers/vfio/vfio.ko.xz", "kernel/drivers/vfio/pci/vfio-pci-core.ko.xz"];
        let order = dependencies(TABLE, "vfio-pci").unwrap();
        assert_eq!(order[..2], pci);
        assert_eq!(order[2], "kernel/drivers/vfio/pci/vfio-pci.ko.xz");
        assert_eq!(dependencies(TABLE, "sch_cake").unwrap(), ["kernel/net/sched/sch_cake.ko.xz"]);
        assert_eq!(dependencies(TABLE, "vfio"), None);
    }

    #[test]
    fn the_key_follows_the_files() {
        let file = std::env::temp_dir().join(format!("hwtests-image-{}", std::process::id()));
        fs::write(&file, "one").unwrap();
        let first = key([&file].into_iter(), "init").unwrap();
        assert_eq!(key([&file].into_iter(), "init").unwrap(), first);
        assert_ne!(key([&file].into_iter(), "another").unwrap(), first);
        fs::write(&file, "other").unwrap();
        assert_ne!(key([&file].into_iter(), "init").unwrap(), first);
        fs::remove_file(&file).unwrap();
        assert!(key([&file].into_iter(), "init").is_err());
    }
}
