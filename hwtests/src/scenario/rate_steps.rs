//! `rate-steps`: an unresponsive flow steps through rates below and above the link's, a ping beside it; then the flow
//! stands, and the shaped rate steps under it, in the weir that runs (`weir set`).

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
    summary: "a UDP flow of 50, 90, 120, 200 and again 50 % of the rate, then the rate stepped live: what another flow feels",
    about: "Each step is a UDP flow that does not react to loss. Above the rate the rate must still be delivered, and a \
            ping of another flow should not feel it; after it, nothing of the overload should be left. Then a flow of 120 % \
            stands while the rate goes to 25, 50 and again 100 % in the running weir: how long the change takes, when \
            what is delivered is what was set, what a ping beside it feels.",
    kinds: WITH_KERNEL,
    seconds: 3,
    repeats: 2,
    takes: |seconds| 8 * (seconds + 1) + 5,
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
    let turns = live(run, &bed)?;
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
    for Turn { percent, at, set_ms, rates } in turns {
        let name = format!("rate_{}_to_{percent}", at + 1);
        let wanted = f64::from(run.rig.bandwidth_mbit) * f64::from(percent) / 100.0;
        measured.lower(format!("set_{name}"), set_ms, "ms");
        measured.lower(format!("followed_{name}"), followed(&rates, wanted) * 1e3, "ms");
        let settled: Vec<_> = rates.iter().skip(rates.len() / 2).map(|(_, rate)| *rate).collect();
        measured.higher(format!("delivered_{name}"), median(&settled) / wanted * 100.0, "%");
        let Some(((first, _), (last, _))) = rates.first().zip(rates.last()) else { continue };
        let rtt = answers.within(EF.name, &(*first..*last));
        measured.lower(format!("ping_{name}_median"), median(&rtt), "ms");
        measured.lower(format!("ping_{name}_p99"), quantile(&rtt, 0.99), "ms");
        delivered.extend(rates.iter().skip(1).map(|(at, rate)| (at - began, *rate)));
    }
    measured.curves.push(Curve { plot: &DELIVERED, label: "delivered".into(), points: delivered });
    measured.commands.push("weir set up.bandwidth RATE".into());
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

/// The shaped rate after one change.
struct Turn {
    at: usize,
    /// Of the rig's rate.
    percent: u32,
    /// How long the command took, ms.
    set_ms: f64,
    /// Mbit/s by the end of each [`SLICE`], seconds since 1970; the first is when the command was given.
    rates: Vec<(f64, f64)>,
}

/// The rate steps in the running weir, under a flow that it is always too small for.
fn live(run: &mut Run<'_>, bed: &Bed) -> Result<Vec<Turn>> {
    let full = run.rig.bandwidth_mbit;
    let payload = f64::from(DATAGRAM) / f64::from(DATAGRAM + HEADERS);
    let load = (f64::from(full) * 1.2e6 * payload) as u64;
    let seconds = LIVE.len() as u32 * (run.seconds + 1);
    let mut transfer = Transfer::start_udp(bed.host(0), bed.host(1), load, seconds, run.interrupt)?;
    run.interrupt.sleep(SETTLE)?;
    let mut turns = Vec::new();
    for (at, percent) in LIVE.into_iter().enumerate() {
        (run.say)(&format!("the rate to {percent} %, live"));
        let (from, began) = (unix_seconds(), now());
        let kbit = u64::from(full) * u64::from(percent) * 10;
        bed.forwarder.set("up.bandwidth", &format!("{kbit}kbit"))?;
        let set_ms = now().duration_since(began).as_secs_f64() * 1e3;
        turns.push(Turn { at, percent, set_ms, rates: watch(run, bed, from)? });
    }
    let end = now() + PATIENCE;
    while transfer.result()?.is_none() {
        ensure!(now() < end, "iperf3 did not end within {PATIENCE:?} after its time");
        run.interrupt.sleep(SLICE)?;
    }
    drain(run, bed)?;
    Ok(turns)
}

/// What arrives in each slice of the measured time.
fn watch(run: &Run<'_>, bed: &Bed, from: f64) -> Result<Vec<(f64, f64)>> {
    let (began, mut last) = (now(), now());
    let mut before = bed.bytes()?[1].received;
    let mut rates = vec![(from, 0.0)];
    while now().duration_since(began) < Duration::from_secs(run.seconds.into()) {
        run.interrupt.sleep(SLICE)?;
        let (at, received) = (now(), bed.bytes()?[1].received);
        rates.push((
            unix_seconds(),
            (received - before) as f64 * 8e-6 / at.duration_since(last).as_secs_f64(),
        ));
        (last, before) = (at, received);
    }
    Ok(rates)
}

/// Seconds from the command until a slice brought what was set, within a tenth: no better than a slice.
fn followed(rates: &[(f64, f64)], wanted: f64) -> f64 {
    let Some((from, _)) = rates.first() else { return f64::NAN };
    let reached = rates.iter().skip(1).find(|(_, rate)| (rate - wanted).abs() < wanted / 10.0);
    reached.map_or(f64::NAN, |(at, _)| at - from)
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

/// The shaped rate, percent of the rig's, one after the other.
const LIVE: [u32; 3] = [25, 50, 100];
/// Too short for one more datagram to matter.
const SLICE: Duration = Duration::from_millis(50);
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
