//! `probe`: what a driver says of its completions, and what its card makes of TSO and checksums.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

use super::{Bar, Bound, Case, Is, Measured, Run, Scenario, Sense, With};
use crate::clock::now;
use crate::driver::Found;
use crate::driver::segments::Verdict;
use crate::forwarder::RuntimeFolder;
use crate::netns::Netns;
use crate::process::{Process, Signal, typed};
use crate::qemu::probe::{LOST_FLAGS, probe};
use crate::qemu::rig::Paths;
use crate::rig::pci::Bus;
use crate::rig::{Kind, Rig};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "probe",
    summary: "what a driver says of completions, and whether TSO and checksums are the kernel's to the byte",
    about: "weir probe sends test frames by the port; then a second port on the same wire witnesses what left, and the \
            driver's descriptor status and done-cleanup are held against that. Super-packets left to the card's TSO and \
            those cut by weir are captured and compared with the kernel's own segmentation.",
    kinds: &[Kind::QemuIgb, Kind::Pci],
    seconds: 1,
    repeats: 1,
    takes: |_| 90,
    cases: |rig: &Rig| {
        let label = match rig.kind {
            Kind::QemuIgb => "igb, emulated 82576",
            _ => "the port",
        };
        vec![Case { name: "port", label: label.into(), with: With::Bare, peer: None }]
    },
    measure,
    bars,
};

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let (found, commands) = match run.rig.kind {
        Kind::Pci => on_this_machine(run)?,
        _ => {
            (run.say)("booting");
            let (found, command) = probe(&Paths::beside_this()?, run.say, run.interrupt)?;
            (found, vec![command])
        }
    };
    run.ports = vec![found.completions.port.clone()];
    let mut measured = Measured { commands, ..Measured::default() };
    let flag = |is: bool| f64::from(u8::from(is));
    measured.higher("descriptor_status_true", flag(found.completions.descriptor_status.is_true()), "");
    measured.higher("done_cleanup_true", flag(found.completions.done_cleanup.is_true()), "");
    measured.lower("reclaim_batch", f64::from(found.completions.reclaim.batch), "frames");
    let share = |part: usize, verdict: &Verdict| 100.0 * part as f64 / verdict.packets.max(1) as f64;
    if let Some(tso) = &found.segments.tso {
        measured.higher("tso_identical", share(tso.identical, tso), "%");
        measured.higher("tso_identical_but_flags", share(tso.identical + tso.wrong_flags, tso), "%");
        measured.lower("tso_wrong_checksums", tso.wrong_checksums as f64, "packets");
    }
    let Verdict { identical, .. } = found.segments.checksums;
    measured.higher("checksums_identical", share(identical, &found.segments.checksums), "%");
    let Verdict { identical, .. } = found.segments.splitter;
    measured.higher("splitter_identical", share(identical, &found.segments.splitter), "%");
    measured.notes = found.to_string().lines().map(str::to_owned).collect();
    if run.rig.kind == Kind::QemuIgb && found.segments.tso.is_some_and(|tso| tso.wrong_flags > 0) {
        measured.notes.push(LOST_FLAGS.to_owned());
    }
    Ok(measured)
}

/// Takes both ports of a PCI rig and looks at the first from the second.
fn on_this_machine(run: &mut Run<'_>) -> Result<(Found, Vec<String>)> {
    let ports = run.rig.pci.clone().unwrap_or_default();
    let (port, peer) = (ports.port.context("no port named")?, ports.peer.context("no peer named")?);
    ensure!(
        Path::new(VHOST_NET).exists(),
        "no {VHOST_NET}, for the kernel's own segments: modprobe vhost_net"
    );
    let bus = Bus::system();
    bus.check_free(&port, run.allowed_ports)?;
    bus.check_free(&peer, run.allowed_ports)?;
    let _taken = [bus.take(&port, &ports.bind, run.interrupt)?, bus.take(&peer, &ports.bind, run.interrupt)?];
    // Its taps shall be nobody else's.
    let home = Netns::new("the place of the probe", None, run.interrupt)?;
    let check = std::env::current_exe().context("cannot find this binary")?.with_file_name("nic-check");
    ensure!(check.is_file(), "no {}: build it (cargo build --release -p hwtests)", check.display());
    let (mut commands, binary) = (Vec::new(), run.weir);
    let mut tell = |program: &Path, arguments: &[&str]| -> Result<String> {
        let mut command = home.command_anywhere(program);
        command.args(arguments);
        commands.push(typed(&command));
        finish(run, Process::spawn(arguments[0], &mut command, None)?, arguments[0])
    };
    let weir = tell(binary, &["probe", &port])?;
    let allow = [&port, &peer].map(|address| format!("--eal=--allow={address}"));
    let mut look = |what: &str| {
        let eal = ["--eal=--no-huge", "--eal=--no-shconf", "--eal=-m", "--eal=256"];
        tell(&check, &[&[what, &port, &peer, &allow[0], &allow[1]][..], &eal].concat())
    };
    let (completions, segments) = (json(&look("completions")?)?, json(&look("segments")?)?);
    Ok((Found { weir, completions, segments }, commands))
}

/// What a program printed between the lines of DPDK.
fn json<T: DeserializeOwned>(printed: &str) -> Result<T> {
    let from = printed.lines().skip_while(|line| *line != "{");
    let text: String = from.flat_map(|line| [line, "\n"]).collect();
    let document = serde_json::Deserializer::from_str(&text).into_iter().next();
    document
        .context("nic-check printed no JSON")?
        .with_context(|| format!("nic-check has another shape: {text}"))
}

/// Waits for the end of a program; what it printed.
fn finish(run: &mut Run<'_>, mut process: Process, what: &str) -> Result<String> {
    let _runtime = RuntimeFolder::of(&format!("nic-check-{}", process.pid()));
    let end = now() + PATIENCE;
    while process.ended()?.is_none() {
        ensure!(now() < end, "{what} did not end within {PATIENCE:?}");
        (run.say)(what);
        run.interrupt.sleep(Duration::from_millis(100))?;
    }
    let (status, lines) = process.stop(Signal::TERM, Duration::from_secs(2))?;
    ensure!(status.success(), "{what} failed ({status}):\n  {}", lines.join("\n  "));
    Ok(lines.join("\n"))
}

fn bars(rig: &Rig) -> Vec<Bar> {
    let bar = |value, sense, bound, says: &str| Bar {
        case: "port",
        value,
        sense,
        bound: Bound::Fixed(bound),
        is: Is::Promise,
        says: says.to_owned(),
    };
    let tso = match rig.kind {
        Kind::QemuIgb => "the card's TSO is the kernel's to the byte (QEMU's loses FIN and PSH)",
        _ => "the card's TSO is the kernel's to the byte",
    };
    vec![
        bar("descriptor_status_true", Sense::AtLeast, 1.0, "descriptor status tells the truth"),
        bar("done_cleanup_true", Sense::AtLeast, 1.0, "done-cleanup frees what it says"),
        bar("tso_identical", Sense::AtLeast, 100.0, tso),
        bar(
            "tso_identical_but_flags",
            Sense::AtLeast,
            100.0,
            "the card's TSO cuts where the kernel cuts, with its headers and checksums, flags of TCP aside",
        ),
        bar("tso_wrong_checksums", Sense::AtMost, 0.0, "the card's TSO leaves no wrong checksum"),
        bar("checksums_identical", Sense::AtLeast, 100.0, "the card's checksums are the kernel's"),
        bar("splitter_identical", Sense::AtLeast, 100.0, "weir cuts as the kernel does, to the byte"),
    ]
}

const VHOST_NET: &str = "/dev/vhost-net";
const PATIENCE: Duration = Duration::from_secs(180);
