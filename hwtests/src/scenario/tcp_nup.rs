//! `tcp-nup`: 1, 4 and 16 TCP streams up, one after the other (flent's tcp_nup).

use std::time::Duration;

use super::latency::{PING, RATE};
use super::{Bar, Bound, Curve, Is, Measured, Run, Scenario, Sense, WITH_KERNEL, disciplines_and_wire};
use crate::bed::Bed;
use crate::rig::Rig;
use crate::stats::{jain, median, quantile};
use crate::traffic::{self, BEST_EFFORT, PING_INTERVAL, Probes, SETTLE};
use anyhow::Result;

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "tcp-nup",
    summary: "1, 4 and 16 TCP streams up: goodput, fairness, ping",
    about: "One after the other on the same rig, a ping of best effort beside them. Goodput should not depend on the \
            number of streams, the ping should not grow with it, and 16 streams should share alike.",
    kinds: WITH_KERNEL,
    seconds: 6,
    repeats: 2,
    takes: |seconds| 3 * (seconds + 4) + 3,
    cases: disciplines_and_wire,
    measure,
    bars,
};

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let bed = Bed::new(run, "")?;
    let probes = Probes::start(&bed, &[BEST_EFFORT], PING_INTERVAL)?;
    run.interrupt.sleep(SETTLE)?;
    let mut loads = Vec::new();
    for streams in STREAMS {
        (run.say)(&format!("{streams} streams"));
        loads.push((streams, traffic::tcp(run, &bed, &[0], streams)?));
        run.interrupt.sleep(REST)?;
    }
    let mut measured = Measured { counters: bed.forwarder.counters()?, ..Measured::default() };
    let answers = probes.stop()?;
    bed.forwarder.stop()?;
    for (streams, load) in &loads {
        let received = &load.received[0];
        measured.commands.extend(traffic::typed(run.seconds, *streams));
        measured.higher(format!("tcp_{streams}"), received.total / 1e6, "Mbit/s");
        measured.higher(format!("jain_{streams}"), jain(&received.streams), "");
        let rtt = answers.within(BEST_EFFORT.name, &load.span);
        measured.lower(format!("ping_{streams}_median"), median(&rtt), "ms");
        measured.lower(format!("ping_{streams}_p99"), quantile(&rtt, 0.99), "ms");
        let points = answers.points(BEST_EFFORT.name, &load.span);
        measured.curves.push(Curve { plot: &PING, label: format!("{streams} streams"), points });
        for (at, stream) in received.seconds.iter().enumerate() {
            let points = stream.iter().map(|second| (second.at, second.rate / 1e6)).collect();
            let label = format!("{} of {streams}", at + 1);
            measured.curves.push(Curve { plot: &RATE, label, points });
        }
    }
    Ok(measured)
}

fn bars(_: &Rig) -> Vec<Bar> {
    let bar = |case, value, sense, bound, says: &str| Bar {
        case,
        value,
        sense,
        bound,
        is: Is::Promise,
        says: says.to_owned(),
    };
    ["fq_codel", "cake"]
        .into_iter()
        .flat_map(|case| {
            let goodput = Bound::Times(0.97, "fifo", "tcp_16");
            [
                bar(
                    case,
                    "tcp_1",
                    Sense::AtLeast,
                    goodput,
                    "one stream fills the link as sixteen fill a FIFO",
                ),
                bar(case, "jain_16", Sense::AtLeast, Bound::Fixed(0.99), "sixteen streams share alike"),
            ]
        })
        .collect()
}

const STREAMS: [u32; 3] = [1, 4, 16];
/// For queues to drain.
const REST: Duration = Duration::from_millis(500);
