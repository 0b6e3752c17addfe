//! `rate-steps`: an unresponsive flow steps through rates below and above the link's, a ping beside it.
//!
//! On a rig whose wire has a rate of its own the wire steps instead; here the shaped rate stands and the load steps.

use std::time::Duration;

use super::latency::PING;
use super::{Bar, Bound, Curve, Is, Measured, Plot, Run, Scenario, Sense, WITH_KERNEL, disciplines};
use crate::bed::Bed;
use crate::clock::{now, unix_seconds};
use crate::iperf::{Received, Transfer};
use crate::rig::Rig;
use crate::stats::{median, quantile};
use crate::traffic::{EF, PING_INTERVAL, Probes, SETTLE};
use anyhow::{Result, ensure};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "rate-steps",
    summary: "a UDP flow of 50, 90, 120, 200 and again 50 % of the rate: delivered, lost, what another flow feels",
    about: "Each step is a UDP flow that does not react to loss. Above the rate the rate must still be delivered, and a \
            ping of another flow should not feel it; after it, nothing of the overload should be left.",
    kinds: WITH_KERNEL,
    seconds: 3,
    repeats: 2,
    takes: |seconds| 5 * (seconds + 1) + 4,
    cases: disciplines,
    measure,
    bars,
};

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let bed = Bed::new(run, "")?;
    let probes = Probes::start(&bed, &[EF], PING_INTERVAL)?;
    run.interrupt.sleep(SETTLE)?;
    let began = unix_seconds();
    let mut steps = Vec::new();
    for (at, percent) in PERCENT.into_iter().enumerate() {
        (run.say)(&format!("{percent} % of the rate"));
        let from = unix_seconds();
        let received = step(run, &bed, percent)?;
        steps.push((at + 1, percent, from..unix_seconds(), received));
    }
    let mut measured = Measured { counters: bed.forwarder.counters()?, ..Measured::default() };
    let answers = probes.stop()?;
    bed.forwarder.stop()?;
    let points = answers.points(EF.name, &(began..unix_seconds()));
    measured.curves.push(Curve { plot: &PING, label: EF.name.into(), points });
    let mut delivered = Vec::new();
    for (at, percent, span, received) in steps {
        let name = format!("{at}_at_{percent}");
        let share = received.total / (f64::from(run.rig.bandwidth_mbit) * 1e4);
        measured.higher(format!("delivered_{name}"), share, "%");
        measured.lower(format!("lost_{name}"), received.lost_percent.unwrap_or(0.0), "%");
        let rtt = answers.within(EF.name, &span);
        measured.lower(format!("ping_{name}_median"), median(&rtt), "ms");
        measured.lower(format!("ping_{name}_p99"), quantile(&rtt, 0.99), "ms");
        let rate = received.total / 1e6;
        delivered.extend([(span.start - began, rate), (span.end - began, rate)]);
    }
    measured.curves.push(Curve { plot: &DELIVERED, label: "delivered".into(), points: delivered });
    measured.commands.push(format!(
        "iperf3 --client PEER --udp --length 1400 --bitrate RATE --time {} --json",
        run.seconds
    ));
    Ok(measured)
}

fn step(run: &Run<'_>, bed: &Bed, percent: u64) -> Result<Received> {
    let rate = u64::from(run.rig.bandwidth_mbit) * percent * 10_000;
    let mut transfer = Transfer::start_udp(bed.host(0), bed.host(1), rate, run.seconds, run.interrupt)?;
    let end = now() + Duration::from_secs(run.seconds.into()) + PATIENCE;
    loop {
        if let Some(received) = transfer.result()? {
            return Ok(received);
        }
        ensure!(now() < end, "iperf3 did not end within {PATIENCE:?} after its time");
        run.interrupt.sleep(Duration::from_millis(50))?;
    }
}

fn bars(_: &Rig) -> Vec<Bar> {
    ["fq_codel", "cake"]
        .into_iter()
        .flat_map(|case| {
            [
                Bar {
                    case,
                    value: "ping_4_at_200_median",
                    sense: Sense::AtMost,
                    bound: Bound::Times(0.1, "fifo", "ping_4_at_200_median"),
                    is: Is::Cure,
                    says: "twice the rate of another flow is not felt as behind a FIFO".into(),
                },
                Bar {
                    case,
                    value: "delivered_4_at_200",
                    sense: Sense::AtLeast,
                    // 1400 bytes of 1442 are payload.
                    bound: Bound::Fixed(95.0),
                    is: Is::Promise,
                    says: "the rate is delivered at twice its load".into(),
                },
            ]
        })
        .collect()
}

const PERCENT: [u64; 5] = [50, 90, 120, 200, 50];
const PATIENCE: Duration = Duration::from_secs(15);
static DELIVERED: Plot = Plot {
    name: "delivered",
    title: "Delivered of the stepping flow",
    x: "seconds since the first step",
    y: "Mbit/s",
    log: false,
};
