//! `link-flap`: the link of one end goes down and comes back while TCP runs.

use std::time::Duration;

use super::latency::{PING, RATE};
use super::{Bar, Bound, Case, Curve, Is, Measured, Run, Scenario, Sense, disciplines};
use crate::bed::Bed;
use crate::clock::{now, unix_seconds};
use crate::iperf::{Load, Transfer};
use crate::process::run as run_command;
use crate::rig::{Kind, Rig};
use crate::traffic::{BEST_EFFORT, CONGESTION, PING_INTERVAL, Probes, SETTLE};
use anyhow::{Result, ensure};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "link-flap",
    summary: "the far link goes down for a second, three times, under TCP: does all of it come back?",
    about: "Four TCP streams up; three times the receiver's interface goes down for a second. While it is down nothing \
            should be sent into it; afterwards pings should be back within a second (TCP itself waits out its \
            retransmission timer), and no packet should be stuck.",
    kinds: &[Kind::Tap, Kind::Pci],
    seconds: 12,
    repeats: 2,
    takes: |seconds| seconds + 6,
    cases: |rig: &Rig| disciplines(rig).into_iter().filter(|case: &Case| case.name != "fifo").collect(),
    measure,
    bars,
};

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let bed = Bed::new(run, "link-down-hold = \"200ms\"\n")?;
    let probes = Probes::start(&bed, &[BEST_EFFORT], PING_INTERVAL)?;
    run.interrupt.sleep(SETTLE)?;
    let seconds = run.seconds.max(SHORTEST);
    let load = Load { streams: STREAMS, seconds, omit: 0, congestion: CONGESTION };
    let mut transfer = Transfer::start(bed.host(0), bed.host(1), load, run.interrupt)?;
    let began = unix_seconds();
    let quarter = Duration::from_secs(seconds.into()) / (FLAPS + 1);
    let mut ups = Vec::new();
    for flap in 1..=FLAPS {
        run.interrupt.sleep(quarter.saturating_sub(DOWN))?;
        (run.say)(&format!("link down, {flap} of {FLAPS}"));
        link(&bed, "down")?;
        run.interrupt.sleep(DOWN)?;
        link(&bed, "up")?;
        ups.push(unix_seconds());
    }
    let end = now() + quarter + PATIENCE;
    let received = loop {
        if let Some(received) = transfer.result()? {
            break received;
        }
        ensure!(now() < end, "iperf3 did not end: TCP did not come back");
        run.interrupt.sleep(Duration::from_millis(50))?;
    };
    let ended = unix_seconds();
    let counters = bed.forwarder.counters()?;
    let answers = probes.stop()?;
    bed.forwarder.stop()?;
    let mut measured = Measured { counters, ..Measured::default() };
    let points = answers.points(BEST_EFFORT.name, &(began..ended));
    // From the interface's coming up to the first ping that was sent and answered after it.
    let back = |up: &f64| {
        let sent = points.iter().map(|(at, rtt)| (began + at, rtt / 1e3)).filter(|(sent, _)| sent > up);
        sent.map(|(sent, rtt)| sent + rtt - up).fold(f64::INFINITY, f64::min) * 1e3
    };
    measured.lower("back_worst", ups.iter().map(back).fold(0.0, f64::max), "ms");
    measured.lower("silence_longest", answers.longest_silence(BEST_EFFORT.name), "ms");
    measured.higher("tcp", received.total / 1e6, "Mbit/s");
    measured.curves.push(Curve { plot: &PING, label: "be".into(), points });
    for (at, stream) in received.seconds.iter().enumerate() {
        let points = stream.iter().map(|second| (second.at, second.rate / 1e6)).collect();
        measured.curves.push(Curve { plot: &RATE, label: format!("stream {}", at + 1), points });
    }
    measured
        .commands
        .push("ip link set INTERFACE down; sleep 1; ip link set INTERFACE up (at the receiver)".into());
    Ok(measured)
}

fn link(bed: &Bed, state: &str) -> Result<()> {
    run_command(bed.host(1).netns.command("ip").args(["link", "set", bed.interface(1), state])).map(drop)
}

fn bars(_: &Rig) -> Vec<Bar> {
    let bar = |case| {
        Bar {
        case,
        value: "back_worst",
        sense: Sense::AtMost,
        bound: Bound::Fixed(1500.0),
        is: Is::Promise,
        says: "pings are back within 1.5 s of the link (weir looks at links every 100 ms, neighbours are asked for anew \
               each second)"
            .into(),
    }
    };
    vec![bar("fq_codel"), bar("cake")]
}

const STREAMS: u32 = 4;
const FLAPS: u32 = 3;
/// Seconds that hold three flaps with some time between them.
const SHORTEST: u32 = 8;
const DOWN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(30);
