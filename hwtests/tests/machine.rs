//! The rig `qemu-igb` takes everything away again, whenever it is stopped; the rig `pci` gives its ports back, in a
//! machine. Needs what `.ci/setup-vm` installs, and the release binaries: `make vm` runs it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hwtests::clock::{Interrupt, nap, now};
use hwtests::qemu::pci::pci;
use hwtests::qemu::rig::Paths;
use rustix::process::{Pid, Signal, kill_process};

/// Marks every process that a run under test starts: the environment is inherited.
const MARK: &str = "HWTESTS_MACHINE";

#[test]
#[ignore = "needs QEMU and a kernel: make vm"]
fn a_stopped_run_leaves_neither_machine_nor_files() {
    let Paths { programs, cache } = paths();
    for (scenario, stage, signal) in [
        ("probe", "weir probe", Signal::INT),
        ("path", "starting weir", Signal::TERM),
        ("path", "starting weir", Signal::KILL),
    ] {
        let mark = format!("{MARK}={}-{}", std::process::id(), signal.as_raw());
        let (key, value) = mark.split_once('=').unwrap();
        let mut run = Command::new(programs.join("hwtests"))
            .args([
                "run",
                scenario,
                "--rig",
                "qemu-igb",
                "--out",
                concat!(env!("CARGO_TARGET_TMPDIR"), "/machine"),
            ])
            // The rig's needs are named from the top of the tree.
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .env(key, value)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(run.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(stage) {
            line.clear();
            assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it ended before the machine ran");
        }
        kill_process(Pid::from_child(&run), signal).unwrap();
        let status = run.wait().unwrap();
        let folder = cache.join(format!("run-{}", run.id()));
        if signal == Signal::KILL {
            assert_eq!(status.signal(), Some(signal.as_raw()));
            // The next run sweeps it.
            fs::remove_dir_all(&folder).unwrap();
        } else {
            assert_eq!(status.code(), Some(128 + signal.as_raw()));
            assert!(!folder.exists(), "{}", folder.display());
        }
        let deadline = now() + Duration::from_secs(20);
        while is_alive(&mark) && now() < deadline {
            nap(Duration::from_millis(20));
        }
        assert!(!is_alive(&mark), "QEMU outlives signal {}", signal.as_raw());
    }
}

#[test]
#[ignore = "needs QEMU and a kernel: make vm"]
fn a_taken_port_goes_back_to_the_kernel_however_a_run_ends() {
    let stages = pci(&paths(), &mut |line| eprintln!("{line}"), &Interrupt::install().unwrap()).unwrap();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pci");
    fs::create_dir_all(&kept).unwrap();
    for (name, report) in &stages {
        fs::write(kept.join(name), report).unwrap();
    }
    for (stage, status, says) in [
        ("refused", 1, "carries the address 192.0.2.9/24"),
        ("burst", 0, "drain 256"),
        ("failed", 1, "no port"),
        ("TERM", 128 + 15, "everything it made is gone"),
        ("KILL", 128 + 9, "frames at once"),
        ("probe", 0, "splitter identical"),
    ] {
        let report = &stages[stage];
        assert!(report.contains(says), "{stage}: {report}");
        let expected = format!("status {status}\nport igb, peer igb\noverride (null)\n");
        assert!(report.starts_with(&expected), "{stage}: {report}");
        // IFF_UP, as before; where nobody is left to do it, the kernel brings the peer back down, and the last stage
        // follows that one.
        let is_down = ["KILL", "probe"].contains(&stage);
        let flags = if is_down { "peer flags 0x1002\n" } else { "peer flags 0x1003\n" };
        assert!(report.contains(flags), "{stage}: {report}");
    }
    let page = &stages["burst.md"];
    assert!(page.contains("(net_e1000_igb): link up, 1000 Mbit/s, full duplex"), "{page}");
    assert!(page.contains("(igb, Linux): link up, 1000 Mbit/s, full duplex"), "{page}");
}

/// The programs as `make build` leaves them.
fn paths() -> Paths {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").canonicalize().unwrap();
    Paths { programs: target.join("release"), cache: target.join("vm") }
}

fn is_alive(mark: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    })
}
