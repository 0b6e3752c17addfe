//! `burst`: full frames back to back into an idle link, and a ping beside them.

use std::time::Duration;

use super::{
    Bar, Bound, Is, Measured, Plot, Run, Samples, Scenario, Sense, WITH_KERNEL, disciplines_and_wire,
};
use crate::bed::Bed;
use crate::clock::{now, unix_seconds};
use crate::ping::{Pinger, Sample};
use crate::process::{Process, Signal};
use crate::rig::Rig;
use crate::stats::{median, quantile};
use crate::traffic::{EF, Probes, SETTLE};
use anyhow::{Result, ensure};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "burst",
    summary: "bursts of 16, 64 and 256 full frames into an idle link: loss, drain time, what a sparse flow feels",
    about: "Each burst is that many echo requests of 1514 bytes at once; the last answer comes when the burst has \
            drained, so its time over frames x 1514 bytes is the rate that the shaper really gave. Nothing should be \
            lost, and a ping of another flow should not wait behind the burst.",
    kinds: WITH_KERNEL,
    seconds: 1,
    repeats: 3,
    takes: |seconds| 3 * (seconds + 1) + 3,
    cases: disciplines_and_wire,
    measure,
    bars,
};

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let bed = Bed::new(run, "")?;
    let probes = Probes::start(&bed, &[EF], SPARSE_INTERVAL)?;
    run.interrupt.sleep(SETTLE)?;
    let mut measured = Measured::default();
    let mut spans = Vec::new();
    for frames in FRAMES {
        (run.say)(&format!("{frames} frames at once"));
        let from = unix_seconds();
        let answers = burst(run, &bed, frames)?;
        spans.push((frames, from..unix_seconds()));
        let rtt: Vec<_> = answers.iter().map(|sample| sample.rtt_ms).collect();
        measured.lower(format!("lost_{frames}"), f64::from(frames) - answers.len() as f64, "frames");
        measured.lower(format!("drain_{frames}"), quantile(&rtt, 1.0), "ms");
        measured.samples.push(Samples { plot: &DRAIN, label: format!("{frames} frames"), values: rtt });
        measured.commands.push(format!("ping -n -c {frames} -l {frames} -s {PAYLOAD} PEER"));
        run.interrupt.sleep(Duration::from_secs(run.seconds.into()))?;
    }
    measured.counters = bed.forwarder.counters()?;
    let sparse = probes.stop()?;
    bed.forwarder.stop()?;
    for (frames, span) in spans {
        let rtt = sparse.within(EF.name, &span);
        measured.lower(format!("sparse_{frames}_median"), median(&rtt), "ms");
    }
    Ok(measured)
}

fn burst(run: &Run<'_>, bed: &Bed, frames: u32) -> Result<Vec<Sample>> {
    let mut ping = bed.host(0).netns.command("ping");
    let count = frames.to_string();
    ping.args(["-D", "-n", "-c", &count, "-l", &count, "-s", &PAYLOAD.to_string(), "-W", "2"]);
    let mut ping = Process::spawn("ping", ping.arg(bed.host(1).address), None)?;
    let end = now() + PATIENCE;
    while ping.ended()?.is_none() {
        ensure!(now() < end, "ping did not end within {PATIENCE:?}");
        run.interrupt.sleep(Duration::from_millis(10))?;
    }
    let (_, lines) = ping.stop(Signal::TERM, PATIENCE)?;
    Ok(lines.iter().filter_map(|line| Pinger::read(line)).collect())
}

fn bars(rig: &Rig) -> Vec<Bar> {
    let wire = 256.0 * 1514.0 * 8.0 / (f64::from(rig.bandwidth_mbit) * 1e3);
    let bar =
        |case, value, sense, bound, says: String| Bar { case, value, sense, bound, is: Is::Promise, says };
    ["fq_codel", "cake"]
        .into_iter()
        .flat_map(|case| {
            [
                bar(
                    case,
                    "lost_64",
                    Sense::AtMost,
                    Bound::Fixed(0.0),
                    "64 frames at once are queued, not lost".into(),
                ),
                bar(
                    case,
                    "drain_256",
                    Sense::AtLeast,
                    Bound::Fixed(wire * 0.95),
                    format!("256 frames leave at the rate, not faster ({wire:.1} ms)"),
                ),
            ]
        })
        .collect()
}

const FRAMES: [u32; 3] = [16, 64, 256];
/// A frame of 1514 bytes.
const PAYLOAD: u32 = 1472;
const SPARSE_INTERVAL: Duration = Duration::from_millis(4);
const PATIENCE: Duration = Duration::from_secs(15);
static DRAIN: Plot = Plot {
    name: "drain-cdf",
    title: "When the frames of a burst were answered",
    x: "round trip, ms",
    y: "share of frames",
    log: true,
    by_case: false,
};
