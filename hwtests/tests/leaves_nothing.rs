//! The demo and the scenarios take everything away again, whenever they are stopped. Needs what they need: root, their
//! tools, and the weir binary beside them (`cargo build -p weir`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use hwtests::clock::{nap, now};
use hwtests::rig::Kind;
use hwtests::{ns3, scenario};
use rustix::process::{Pid, Signal, kill_process};

/// Marks every process that a demo under test starts: the environment is inherited.
const MARK: &str = "HWTESTS_LEAVES_NOTHING";

#[test]
fn interrupted_at_any_stage() {
    for (stage, signal) in [
        ("starting", Signal::INT),
        ("idle ping", Signal::TERM),
        ("slow start", Signal::HUP),
        ("s left", Signal::INT),
    ] {
        let mut demo = Demo::start(&["--seconds", "600"]);
        demo.wait_for(stage);
        demo.signal(signal);
        let (status, errors) = demo.end();
        assert_eq!(status.code(), Some(128 + signal.as_raw()), "{stage}: {errors}");
        assert_eq!(demo.left_behind(), Vec::<String>::new(), "{stage}");
    }
}

#[test]
fn interrupted_before_the_nic_at_any_stage() {
    for (stage, signal) in [
        ("starting", Signal::TERM),
        ("idle ping", Signal::INT),
        ("slow start", Signal::HUP),
        ("s left", Signal::INT),
    ] {
        let mut demo = Demo::start(&["--part", "nic", "--seconds", "600"]);
        demo.wait_for(stage);
        demo.signal(signal);
        let (status, errors) = demo.end();
        assert_eq!(status.code(), Some(128 + signal.as_raw()), "{stage}: {errors}");
        assert_eq!(demo.left_behind(), Vec::<String>::new(), "{stage}");
    }
}

#[test]
fn killed() {
    for part in ["link", "nic"] {
        let mut demo = Demo::start(&["--part", part, "--seconds", "600"]);
        demo.wait_for("s left");
        demo.signal(Signal::KILL);
        assert_eq!(demo.end().0.signal(), Some(Signal::KILL.as_raw()));
        let deadline = now() + Duration::from_secs(20);
        while !demo.left_behind().is_empty() && now() < deadline {
            nap(Duration::from_millis(20));
        }
        assert_eq!(demo.left_behind(), Vec::<String>::new(), "{part}");
    }
}

#[test]
fn scenarios_on_every_rig_interrupted() {
    let runs = [
        ("latency-under-load", "tap", "fq_codel", "starting", Signal::INT),
        ("latency-under-load", "tap", "testpmd", "slow start", Signal::TERM),
        ("tcp-nup", "veth-af-packet", "cake", "to go", Signal::INT),
        ("link-flap", "tap", "cake", "link down", Signal::HUP),
        ("throughput", "ring", "fq_codel", "sizes", Signal::INT),
        ("fairness-100m", "model", "bare", "starting", Signal::INT),
        ("gso-split-1g", "model", "split", "slow start", Signal::TERM),
        ("late-completion", "model", "late", "to go", Signal::HUP),
        ("burst", "veth-af-xdp", "cake", "frames at once", Signal::TERM),
        ("rate-steps", "tap", "fq_codel", "of the rate", Signal::INT),
        ("soak", "veth-af-packet", "cake", "to go", Signal::TERM),
    ];
    // Those in a machine: tests/machine.rs.
    for scenario in scenario::all().into_iter().filter(|scenario| !scenario.kinds.contains(&Kind::QemuIgb)) {
        assert!(runs.iter().any(|(name, ..)| *name == scenario.name), "{} is not interrupted", scenario.name);
    }
    for (scenario, rig, case, stage, signal) in runs {
        let arguments = ["run", scenario, "--rig", rig, "--case", case, "--seconds", "20"];
        interrupt(&arguments, stage, signal);
    }
}

#[test]
fn a_compiler_and_a_simulator_interrupted() {
    if let Some(missing) = ns3::missing() {
        eprintln!("{missing}");
        return;
    }
    let arguments = ["run", "fairness-100m", "--rig", "model", "--case", "ns3_cure", "--seconds", "600"];
    // What an earlier run of this test has compiled is not compiled again.
    let _ = fs::remove_dir_all(out());
    for (stage, signal) in [("compiling", Signal::INT), ("simulating", Signal::TERM)] {
        interrupt(&arguments, stage, signal);
    }
}

#[test]
fn a_guest_kernel_interrupted() {
    if !std::path::Path::new("/usr/bin/linux.uml").exists() {
        // The scenario says the same to its user; there is nothing to leave behind then.
        eprintln!("no linux.uml here: apt-get install user-mode-linux");
        return;
    }
    let arguments = ["run", "latency-under-load", "--rig", "tap", "--case", "kernel_cake", "--seconds", "60"];
    for (stage, signal) in [("booting", Signal::INT), ("User-Mode Linux, ", Signal::TERM)] {
        interrupt(&arguments, stage, signal);
    }
}

#[test]
fn a_rig_that_lacks_something_says_so_and_leaves_nothing() {
    let arguments =
        ["run", "latency-under-load", "--rig", "pci", "--port", "ffff:00:00.0", "--peer", "ffff:00:00.1"];
    let mut run = Demo::start_program(env!("CARGO_BIN_EXE_hwtests"), &arguments);
    let (status, errors) = run.end();
    assert_eq!(status.code(), Some(1), "{errors}");
    assert!(errors.contains("ffff:00:00.0") || errors.contains("modprobe vfio-pci"), "{errors}");
    assert_eq!(run.left_behind(), Vec::<String>::new());
}

#[test]
fn a_forwarder_that_fails() {
    for (script, reason) in [
        ("echo no port; exit 3", "no port"),
        ("echo ready; exit 0", "Cannot find device"),
        ("trap '' TERM; echo ready; while :; do sleep 0.1; done", "Cannot find device"),
    ] {
        let weir = std::env::temp_dir().join(format!("hwtests-weir-{}", std::process::id()));
        fs::write(&weir, format!("#!/bin/sh\n{script}\n")).unwrap();
        Command::new("chmod").arg("+x").arg(&weir).status().unwrap();
        let mut demo = Demo::start(&["--weir", weir.to_str().unwrap()]);
        let (status, errors) = demo.end();
        fs::remove_file(&weir).unwrap();
        assert_eq!(status.code(), Some(1), "{script}: {errors}");
        assert!(errors.contains(reason), "{script}: {errors}");
        assert_eq!(demo.left_behind(), Vec::<String>::new(), "{script}");
    }
}

/// Runs hwtests with these arguments until it says `stage`, sends it the signal, and looks for what it left.
fn interrupt(arguments: &[&str], stage: &str, signal: Signal) {
    let mut run = Demo::start_program(env!("CARGO_BIN_EXE_hwtests"), arguments);
    run.wait_for(stage);
    run.signal(signal);
    let (status, errors) = run.end();
    assert_eq!(status.code(), Some(128 + signal.as_raw()), "{arguments:?}, {stage}: {errors}");
    assert_eq!(run.left_behind(), Vec::<String>::new(), "{arguments:?}, {stage}");
}

/// A folder of this test's own: they run side by side, and a demo writes its forwarder's configuration there.
fn out() -> String {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    format!("{}/leaves-nothing-{test}", env!("CARGO_TARGET_TMPDIR"))
}

struct Demo {
    child: Child,
    mark: String,
    errors: BufReader<Box<dyn Read>>,
}

impl Demo {
    fn start(args: &[&str]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_demo"), args)
    }

    fn start_program(program: &str, args: &[&str]) -> Self {
        let stamp = now();
        let mark = format!("{MARK}={}-{stamp:?}", std::process::id());
        let (key, value) = mark.split_once('=').unwrap();
        let mut command = Command::new(program);
        command
            .args(args)
            .args(["--out", &out()])
            .env(key, value)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors: Box<dyn Read> = Box::new(child.stderr.take().unwrap());
        Self { child, mark, errors: BufReader::new(errors) }
    }

    fn wait_for(&mut self, stage: &str) {
        let mut seen = String::new();
        while !seen.contains(stage) {
            if self.errors.read_line(&mut seen).unwrap() == 0 {
                panic!("the demo ended before \"{stage}\" ({}): {seen}", self.child.wait().unwrap());
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(&mut self) -> (ExitStatus, String) {
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap(), errors)
    }

    /// Processes, interfaces, folders and sockets; the namespaces have no names and live as long as their processes.
    fn left_behind(&self) -> Vec<String> {
        let pid = self.child.id();
        let mut left = Vec::new();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            if environment.split(|&byte| byte == 0).any(|variable| variable == self.mark.as_bytes()) {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                left.push(format!("process {} {}", process.file_name().display(), name.trim()));
            }
        }
        let interfaces = fs::read_to_string("/proc/net/dev").unwrap();
        left.extend(
            ["wa", "wb", "va", "vb", "xva", "xvb", "ma", "mb"]
                .map(|end| format!("{end}{pid}"))
                .into_iter()
                .filter(|tap| interfaces.contains(tap)),
        );
        let files = [
            format!("/run/dpdk/weir-hwtests-{pid}"),
            format!("/run/dpdk/hwtests-{pid}"),
            format!("/run/dpdk/hwtests-rig-{pid}"),
            format!("/run/weir/hwtests-{pid}.sock"),
            format!("/tmp/hwtests{pid}"),
        ];
        left.extend(files.into_iter().filter(|path| fs::exists(path).unwrap()));
        left
    }
}
