//! The rig `qemu-igb` takes everything away again, whenever it is stopped. Needs what `.ci/setup-vm` installs, and the
//! release binaries: `make vm` runs it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hwtests::clock::{nap, now};
use rustix::process::{Pid, Signal, kill_process};

/// Marks every process that a run under test starts: the environment is inherited.
const MARK: &str = "HWTESTS_MACHINE";

#[test]
#[ignore = "needs QEMU and a kernel: make vm"]
fn a_stopped_run_leaves_neither_machine_nor_files() {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/vm");
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mark = format!("{MARK}={}-{}", std::process::id(), signal.as_raw());
        let (key, value) = mark.split_once('=').unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_qemu-igb"))
            .args(["probe", "--cache", cache.to_str().unwrap(), "--programs"])
            .arg(cache.with_file_name("release"))
            .env(key, value)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(run.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("hub") {
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

fn is_alive(mark: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    })
}
