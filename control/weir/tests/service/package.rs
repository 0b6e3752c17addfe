//! The unit and the Debian package, as systemd's, Debian's and a user's own tools see them.

use crate::WEIR;
use crate::children::run;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn systemd_finds_no_fault_in_the_unit_and_little_that_is_exposed() {
    let folder = Folder::new("unit");
    let unit = folder.0.join("weir@.service");
    // The binary must be there to be verified.
    let text = fs::read_to_string(source("weir@.service")).unwrap().replace("/usr/bin/weir", WEIR);
    fs::write(&unit, text).unwrap();
    let said = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let complaints = String::from_utf8_lossy(&said.stderr).into_owned();
    let about_it: Vec<_> = complaints.lines().filter(|line| line.contains("weir")).collect();
    assert!(said.status.success() && about_it.is_empty(), "{complaints}");
    // In tenths: 3.1 as it is; above 4 it fails.
    let mut security = Command::new("systemd-analyze");
    let said = run(security.args(["security", "--offline=true", "--no-pager", "--threshold=40"]).arg(&unit));
    println!("{}", said.lines().last().unwrap_or_default());
}

#[test]
fn every_drop_in_that_is_shipped_is_understood() {
    for name in ["vfio-user.conf", "ambient-user.conf", "bridge-pci.conf", "guest-sockets.conf"] {
        let folder = Folder::new(name);
        let unit = folder.0.join("weir@.service");
        let text = fs::read_to_string(source("weir@.service")).unwrap().replace("/usr/bin/weir", WEIR);
        fs::write(&unit, text).unwrap();
        let drop_ins = folder.0.join("weir@.service.d");
        fs::create_dir(&drop_ins).unwrap();
        fs::copy(source(name), drop_ins.join(name)).unwrap();
        let said = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
        let complaints = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!complaints.lines().any(|line| line.contains("weir")), "{name}: {complaints}");
    }
}

#[test]
fn the_debian_package_is_in_order_and_what_it_installs_runs() {
    let folder = Folder::new("deb");
    let deb = run(Command::new(source("deb")).args(["--binary", WEIR, "--out"]).arg(&folder.0));
    let deb = deb.trim();
    run(Command::new("lintian").args(["--allow-root", "--fail-on", "error", deb]));
    // Into a system of its own, as there is a weir of the machine's perhaps; its libraries are the machine's.
    let root = folder.0.join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |action: &str, what: &str| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display())).arg("--log=/dev/null");
        run(dpkg.args(["--force-script-chrootless,depends", action, what]));
    };
    dpkg("--install", deb);
    let weir = root.join("usr/bin/weir");
    assert!(run(Command::new(&weir).arg("--version")).starts_with("weir "));
    let config = root.join("etc/weir/weir.toml");
    let told = run(Command::new(&weir).arg("check").arg(&config));
    assert!(told.contains("on-stop = \"bridge\"") && told.contains("CAP_NET_RAW"), "{told}");
    for file in [
        "lib/systemd/system/weir@.service",
        "usr/share/man/man1/weir.1.gz",
        "usr/share/man/man1/weir-run.1.gz",
        "usr/share/bash-completion/completions/weir",
        "usr/share/zsh/vendor-completions/_weir",
        "usr/share/fish/vendor_completions.d/weir.fish",
        "usr/share/doc/weir/examples/home.toml",
        "usr/share/doc/weir/copyright",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    run(Command::new("bash").arg("-n").arg(root.join("usr/share/bash-completion/completions/weir")));
    assert!(!root.join("etc/systemd").exists(), "nothing is enabled");
    // A file that was changed outlives its package.
    fs::write(&config, "# mine\n").unwrap();
    dpkg("--remove", "weir");
    assert!(!weir.exists() && config.exists());
    dpkg("--purge", "weir");
    assert!(!config.exists());
    // All that it depends on can be had.
    run(Command::new("dpkg").args(["--no-act", "--install", deb]));
}

#[test]
fn the_manual_names_every_command_and_the_completions_know_them() {
    let page = run(Command::new(WEIR).arg("man"));
    for shell in ["bash", "zsh", "fish"] {
        let script = run(Command::new(WEIR).args(["completions", shell]));
        for command in ["check", "run", "show", "reload", "set", "setup"] {
            assert!(script.contains(command), "{shell}: {command}");
            assert!(page.contains(&format!("weir\\-{command}(1)")), "{command}\n{page}");
        }
    }
}

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-package-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("package").join(name)
}
