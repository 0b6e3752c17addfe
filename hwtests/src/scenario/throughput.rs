//! `throughput`: the highest rate without loss for each frame size (RFC 2544 section 26.1) and for IMIX.

use std::time::Duration;

use super::{Bar, Case, Measured, Run, Scenario, With};
use crate::clock::now;
use crate::forwarder::RuntimeFolder;
use crate::process::{Process, Signal, command, typed};
use crate::rig::{Kind, Rig};
use crate::ring::{Found, IMIX};
use anyhow::{Context, Result, ensure};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "throughput",
    summary: "the highest loss-free rate at 64 to 9000 bytes and IMIX (RFC 2544), nothing shaped",
    about: "For each frame size the rate is halved towards the highest at which not one frame is lost. Generator, weir \
            and sink share one lcore, so that the bare rings (without weir) are the ceiling; what weir costs is the \
            difference of the times per packet. Trials are short (RFC 2544 asks for 60 s), and their clock stands \
            while other work has the CPU: the share of it is the row \"away\".",
    kinds: &[Kind::Ring],
    seconds: 3,
    repeats: 2,
    takes: |seconds| SIZES.len() as u32 * (seconds + 1),
    cases,
    measure,
    bars: |_: &Rig| Vec::<Bar>::new(),
};

fn cases(_: &Rig) -> Vec<Case> {
    let weir = |name, label: &str, keys: &str| {
        let with = With::Weir { up: keys.into(), down: keys.into() };
        Case { name, label: label.into(), with, peer: Some("bare") }
    };
    vec![
        weir("fifo", "FIFO", "qdisc = \"fifo\", limit = 10000"),
        weir("fq_codel", "fq_codel", "qdisc = \"fq_codel\""),
        weir("cake", "cake diffserv4", "qdisc = \"cake\", diffserv = \"diffserv4\""),
        Case { name: "bare", label: "bare rings".into(), with: With::Bare, peer: None },
    ]
}

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let own = std::env::current_exe().context("cannot find this binary")?;
    let mut trial = command(own);
    trial.args(["ring-trial", "--trial-ms", &(run.seconds * 1_000 / TRIALS).to_string()]);
    trial.args(SIZES.iter().flat_map(|size| ["--size".to_owned(), size.to_string()]));
    if let With::Weir { up, .. } = &run.case.with {
        trial.args(["--keys", up]);
    }
    let mut measured = Measured { commands: vec![typed(&trial)], ..Measured::default() };
    let log = run.folder.join(format!("{}.log", run.case.name));
    let _runtime = RuntimeFolder::of(&format!("hwtests-rig-{}", std::process::id()));
    let mut trial = Process::spawn("the ring rig", &mut trial, Some(&log))?;
    let end = now() + Duration::from_secs(u64::from((SCENARIO.takes)(run.seconds))) + PATIENCE;
    let mut found = Vec::new();
    while trial.ended()?.is_none() {
        ensure!(now() < end, "the search did not end; {}", log.display());
        found.extend(trial.ready_lines().filter_map(|line| serde_json::from_str::<Found>(&line).ok()));
        run.interrupt.sleep(Duration::from_millis(100))?;
        (run.say)(&format!("{} of {} sizes", found.len(), SIZES.len()));
    }
    let (status, lines) = trial.stop(Signal::TERM, PATIENCE)?;
    ensure!(status.success(), "the ring rig failed ({status}): {}", lines.join("\n  "));
    found.extend(lines.iter().filter_map(|line| serde_json::from_str::<Found>(line).ok()));
    ensure!(
        found.len() == SIZES.len(),
        "{} sizes measured of {}; {}",
        found.len(),
        SIZES.len(),
        log.display()
    );
    for found in &found {
        let size = if found.size == IMIX { "imix".into() } else { found.size.to_string() };
        measured.higher(format!("loss_free_{size}"), found.pps / 1e6, "Mpps");
        measured.lower(format!("time_{size}"), 1e9 / found.pps, "ns per packet");
    }
    let imix = found.iter().filter(|found| found.size == IMIX).map(|found| found.bps / 1e9);
    imix.for_each(|rate| measured.higher("loss_free_imix_rate", rate, "Gbit/s"));
    let away = found.iter().map(|found| found.away).sum::<f64>() / found.len() as f64;
    measured.lower("away", away, "% of the time");
    Ok(measured)
}

/// RFC 2544 section 9.1, one jumbo frame, and the mix.
const SIZES: [u32; 9] = [64, 128, 256, 512, 1024, 1280, 1518, 9000, IMIX];
/// That a search takes, about: `--seconds` are those of one size.
const TRIALS: u32 = 6;
const PATIENCE: Duration = Duration::from_secs(60);
