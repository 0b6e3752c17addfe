//! `soak`: the same load for a long time, looked at in ten parts: what drifts?

use super::latency::RATE;
use super::{Bar, Bound, Case, Curve, Is, Measured, Plot, Run, Scenario, Sense, WITH_KERNEL, disciplines};
use crate::bed::Bed;
use crate::rig::Rig;
use crate::stats::{jain, median, quantile};
use crate::traffic::{self, BEST_EFFORT, PING_INTERVAL, Probes};
use anyhow::Result;

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "soak",
    summary: "eight TCP streams for ten minutes: does rate, fairness, ping or memory drift?",
    about: "Eight TCP streams up and a ping beside them, in ten equal parts. What the last part shows should be what the \
            first did, and weir's memory should not grow.",
    kinds: WITH_KERNEL,
    seconds: 600,
    repeats: 1,
    takes: |seconds| seconds + 6,
    cases: |rig: &Rig| disciplines(rig).into_iter().filter(|case: &Case| case.name != "fifo").collect(),
    measure,
    bars,
};

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let bed = Bed::new(run, "")?;
    let memory_before = bed.forwarder.resident_kib()?;
    let probes = Probes::start(&bed, &[BEST_EFFORT], PING_INTERVAL)?;
    let load = traffic::tcp(run, &bed, &[0], STREAMS)?;
    let memory_after = bed.forwarder.resident_kib()?;
    let mut measured = Measured { counters: bed.forwarder.counters()?, ..Measured::default() };
    let answers = probes.stop()?;
    bed.forwarder.stop()?;
    let received = &load.received[0];
    measured.higher("tcp", received.total / 1e6, "Mbit/s");
    measured.higher("jain", jain(&received.streams), "");
    measured.lower("memory_grown", memory_after as f64 - memory_before as f64, "KiB");
    let part = (load.span.end - load.span.start) / f64::from(PARTS);
    let (mut p99, mut rates) = (Vec::new(), Vec::new());
    for index in 0..PARTS {
        let from = load.span.start + part * f64::from(index);
        let rtt = answers.within(BEST_EFFORT.name, &(from..from + part));
        p99.push((part * (f64::from(index) + 0.5), quantile(&rtt, 0.99)));
        let within = |at: f64| at > part * f64::from(index) && at <= part * f64::from(index + 1) + 0.5;
        let seconds = received.seconds.iter().flatten().filter(|second| within(second.at));
        let all: Vec<_> = seconds.map(|second| second.rate / 1e6).collect();
        rates.push(median(&all) * f64::from(STREAMS));
    }
    measured.lower("ping_p99_first", p99[0].1, "ms");
    measured.lower("ping_p99_last", p99[p99.len() - 1].1, "ms");
    measured.higher("rate_last_of_first", rates[rates.len() - 1] / rates[0] * 100.0, "%");
    measured.curves.push(Curve { plot: &DRIFT, label: "p99".into(), points: p99 });
    for (at, stream) in received.seconds.iter().enumerate() {
        let points = stream.iter().map(|second| (second.at, second.rate / 1e6)).collect();
        measured.curves.push(Curve { plot: &RATE, label: format!("stream {}", at + 1), points });
    }
    measured.commands = traffic::typed(run.seconds, STREAMS);
    Ok(measured)
}

fn bars(_: &Rig) -> Vec<Bar> {
    let bar = |case, value, sense, bound, says: &str| Bar {
        case,
        value,
        sense,
        bound: Bound::Fixed(bound),
        is: Is::Promise,
        says: says.to_owned(),
    };
    ["fq_codel", "cake"]
        .into_iter()
        .flat_map(|case| {
            [
                bar(case, "memory_grown", Sense::AtMost, 4096.0, "memory does not grow"),
                bar(case, "rate_last_of_first", Sense::AtLeast, 97.0, "the rate does not drift"),
                bar(case, "jain", Sense::AtLeast, 0.999, "the streams share alike over the whole time"),
            ]
        })
        .collect()
}

const STREAMS: u32 = 8;
const PARTS: u32 = 10;
static DRIFT: Plot = Plot {
    name: "ping-drift",
    title: "p99 of the ping, part by part",
    x: "seconds since the load began",
    y: "ms",
    log: false,
    by_case: false,
};
