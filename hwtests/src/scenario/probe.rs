//! `probe`: what a driver says of its completions, and what its card makes of TSO and checksums.

use anyhow::Result;

use super::{Bar, Bound, Case, Is, Measured, Run, Scenario, Sense, With};
use crate::driver::segments::Verdict;
use crate::qemu::probe::probe;
use crate::qemu::rig::Paths;
use crate::rig::{Kind, Rig};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "probe",
    summary: "what a driver says of completions, and whether TSO and checksums are the kernel's to the byte",
    about: "weir probe sends test frames by the port; then a second port on the same wire witnesses what left, and the \
            driver's descriptor status and done-cleanup are held against that. Super-packets left to the card's TSO and \
            those cut by weir are captured and compared with the kernel's own segmentation.",
    kinds: &[Kind::QemuIgb],
    seconds: 1,
    repeats: 1,
    takes: |_| 90,
    cases: |_: &Rig| {
        vec![Case { name: "igb", label: "igb, emulated 82576".into(), with: With::Bare, peer: None }]
    },
    measure,
    bars,
};

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let found = probe(&Paths::beside_this()?, run.say, run.interrupt)?;
    let mut measured = Measured { commands: vec![found.command.clone()], ..Measured::default() };
    let flag = |is: bool| f64::from(u8::from(is));
    measured.higher("descriptor_status_true", flag(found.completions.descriptor_status.is_true()), "");
    measured.higher("done_cleanup_true", flag(found.completions.done_cleanup.is_true()), "");
    measured.lower("reclaim_batch", f64::from(found.completions.reclaim.batch), "frames");
    let share = |verdict: &Verdict| 100.0 * verdict.identical as f64 / verdict.packets.max(1) as f64;
    if let Some(tso) = &found.segments.tso {
        measured.higher("tso_identical", share(tso), "%");
        measured.lower("tso_wrong_checksums", tso.wrong_checksums as f64, "packets");
    }
    measured.higher("checksums_identical", share(&found.segments.checksums), "%");
    measured.higher("splitter_identical", share(&found.segments.splitter), "%");
    measured.notes = found.to_string().lines().map(str::to_owned).collect();
    Ok(measured)
}

fn bars(_: &Rig) -> Vec<Bar> {
    let bar = |value, sense, bound, says: &str| Bar {
        case: "igb",
        value,
        sense,
        bound: Bound::Fixed(bound),
        is: Is::Promise,
        says: says.to_owned(),
    };
    vec![
        bar("descriptor_status_true", Sense::AtLeast, 1.0, "descriptor status tells the truth"),
        bar("done_cleanup_true", Sense::AtLeast, 1.0, "done-cleanup frees what it says"),
        bar("tso_wrong_checksums", Sense::AtMost, 0.0, "the card's TSO leaves no wrong checksum"),
        bar("checksums_identical", Sense::AtLeast, 100.0, "the card's checksums are the kernel's"),
        bar("splitter_identical", Sense::AtLeast, 100.0, "weir cuts as the kernel does, to the byte"),
    ]
}
