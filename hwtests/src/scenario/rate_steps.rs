//! `rate-steps`: an unresponsive flow steps through rates below and above the link's, a ping beside it.
//!
//! On a rig whose wire has a rate of its own the wire steps instead; here the shaped rate stands and the load steps.

use std::time::Duration;

use super::latency::PING;
use super::{Bar, Bound, Curve, Is, Measured, Plot, Run, Scenario, Sense, WITH_KERNEL, disciplines};
use crate::bed::Bed;
use crate::clock::{now, unix_seconds};
use crate::iperf::{DATAGRAM, Transfer};
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
        let arrived = step(run, &bed, percent)?;
        let to = from + f64::from(run.seconds);
        // What an unresponsive flow has left in its queue is no business of the next step.
        let drained = drain(run, &bed)?;
        steps.push(Step { name: format!("{}_at_{percent}", at + 1), span: from..to, arrived, drained });
    }
    let mut measured = Measured { counters: bed.forwarder.counters()?, ..Measured::default() };
    let answers = probes.stop()?;
    bed.forwarder.stop()?;
    let points = answers.points(EF.name, &(began..unix_seconds()));
    measured.curves.push(Curve { plot: &PING, label: EF.name.into(), points });
    let mut delivered = Vec::new();
    for Step { name, span, arrived: Arrived { rate, lost }, drained } in steps {
        let share = rate / (f64::from(run.rig.bandwidth_mbit) * 1e4);
        measured.higher(format!("delivered_{name}"), share, "%");
        measured.lower(format!("lost_{name}"), lost, "%");
        measured.lower(format!("drained_after_{name}"), drained, "ms");
        let rtt = answers.within(EF.name, &span);
        measured.lower(format!("ping_{name}_median"), median(&rtt), "ms");
        measured.lower(format!("ping_{name}_p99"), quantile(&rtt, 0.99), "ms");
        delivered.extend([(span.start - began, rate / 1e6), (span.end - began, rate / 1e6)]);
    }
    measured.curves.push(Curve { plot: &DELIVERED, label: "delivered".into(), points: delivered });
    measured.commands.push(format!(
        "iperf3 --client PEER --udp --length 1400 --bitrate RATE --time {} --json",
        run.seconds
    ));
    Ok(measured)
}

struct Step {
    name: String,
    span: std::ops::Range<f64>,
    arrived: Arrived,
    /// ms.
    drained: f64,
}

/// What came out at the other end while a step lasted.
struct Arrived {
    /// Frames, bit/s.
    rate: f64,
    /// Percent of the datagrams, when all had come that would.
    lost: f64,
}

fn step(run: &Run<'_>, bed: &Bed, percent: u64) -> Result<Arrived> {
    let payload = f64::from(DATAGRAM) / f64::from(DATAGRAM + HEADERS);
    let rate = (u64::from(run.rig.bandwidth_mbit) * percent) as f64 * 1e4 * payload;
    let mut transfer =
        Transfer::start_udp(bed.host(0), bed.host(1), rate as u64, run.seconds, run.interrupt)?;
    let (began, first) = (now(), bed.bytes()?[1].received);
    let mut rate = f64::NAN;
    loop {
        let passed = now().duration_since(began).as_secs_f64();
        if passed <= f64::from(run.seconds) {
            rate = (bed.bytes()?[1].received - first) as f64 * 8.0 / passed;
        }
        if let Some(received) = transfer.result()? {
            return Ok(Arrived { rate, lost: received.lost_percent.unwrap_or(f64::NAN) });
        }
        ensure!(
            passed < f64::from(run.seconds) + PATIENCE.as_secs_f64(),
            "iperf3 did not end within {PATIENCE:?} after its time"
        );
        run.interrupt.sleep(Duration::from_millis(20))?;
    }
}

/// Waits until nothing is queued; ms.
fn drain(run: &Run<'_>, bed: &Bed) -> Result<f64> {
    let began = now();
    while bed.forwarder.counters()?.is_some_and(|counters| counters.backlog > 0) {
        ensure!(now() < began + PATIENCE, "the queue is not empty {PATIENCE:?} after its load");
        run.interrupt.sleep(Duration::from_millis(10))?;
    }
    Ok(now().duration_since(began).as_secs_f64() * 1e3)
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
                    bound: Bound::Fixed(97.0),
                    is: Is::Promise,
                    says: "the rate is delivered at twice its load".into(),
                },
            ]
        })
        .collect()
}

const PERCENT: [u64; 5] = [50, 90, 120, 200, 50];
/// Ethernet, IPv4 and UDP, bytes.
const HEADERS: u32 = 42;
const PATIENCE: Duration = Duration::from_secs(15);
static DELIVERED: Plot = Plot {
    name: "delivered",
    title: "Delivered of the stepping flow",
    x: "seconds since the first step",
    y: "Mbit/s",
    log: false,
    by_case: false,
};
