//! `latency-under-load`: four TCP streams each way at once, and what a ping of each of four classes has of it.
//!
//! After flent's RRUL test (Realtime Response Under Load), with TCP of best effort both ways and ICMP probes in four
//! DSCP classes.

use super::{Bar, Bound, Case, Curve, Is, Measured, Plot, Run, Samples, Scenario, Sense, WITH_KERNEL, With};
use crate::bed::Bed;
use crate::clock::unix_seconds;
use crate::rig::Rig;
use crate::stats::{jain, median, quantile};
use crate::traffic::{self, Answers, BEST_EFFORT, Class, EF, IDLE, Loaded, PING_INTERVAL, Probes, SETTLE};
use crate::uml::{self, Traffic};
use crate::witness::Quantity;
use anyhow::Result;

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "latency-under-load",
    summary: "four TCP streams each way, pings in four DSCP classes (rrul-like)",
    about: "Idle pings first, then four TCP streams each way at once with a ping of best effort, CS1, CS5 and EF beside \
            them. What a ping takes longer under load than idle is what the queues add; a good discipline adds a few \
            milliseconds, a FIFO its whole depth.",
    kinds: WITH_KERNEL,
    seconds: 8,
    repeats: 2,
    takes: |seconds| seconds + 7,
    cases,
    measure,
    bars,
};

fn cases(rig: &Rig) -> Vec<Case> {
    let mut cases: Vec<_> = super::disciplines(rig);
    for case in &mut cases {
        case.peer = match case.name {
            "fq_codel" => Some("kernel_fq_codel"),
            "cake" => Some("kernel_cake"),
            _ => None,
        };
    }
    cases.extend(kernels(rig));
    cases.push(Case::testpmd());
    cases
}

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    if let With::Kernel(tc) = run.case.with {
        return in_kernel(run, tc);
    }
    let bed = Bed::new(run, "")?;
    let probes = Probes::start(&bed, &CLASSES, PING_INTERVAL)?;
    (run.say)("idle ping");
    run.interrupt.sleep(SETTLE)?;
    let idle_from = unix_seconds();
    run.interrupt.sleep(IDLE)?;
    let idle = idle_from..unix_seconds();
    let loaded = traffic::tcp(run, &bed, &[0, 1], STREAMS)?;
    let sojourns = bed.forwarder.sojourns()?;
    let counters = bed.forwarder.counters()?;
    let answers = probes.stop()?;
    bed.forwarder.stop()?;
    let mut measured = Measured { counters, commands: commands(run), ..Measured::default() };
    delays(&mut measured, &answers, &idle, &loaded);
    rates(&mut measured, &loaded);
    accounts(&mut measured, &loaded);
    for (way, [median, p99]) in ["up", "down"].into_iter().zip(sojourns.into_iter().flatten()) {
        measured.lower(format!("sojourn_{way}_median"), median, "ms");
        measured.lower(format!("sojourn_{way}_p99"), p99, "ms");
    }
    Ok(measured)
}

/// What the interfaces and iperf3 say of the same bytes.
fn accounts(measured: &mut Measured, loaded: &Loaded) {
    for (way, (of, received)) in [&UP, &DOWN].into_iter().zip(&loaded.received).enumerate() {
        measured.accounts.push(of.by("interface, received", loaded.link[way] / 1e6));
        measured.accounts.push(of.by("iperf3, receiver", received.total * FRAME / PAYLOAD / 1e6));
    }
}

fn in_kernel(run: &mut Run<'_>, tc: &[&str]) -> Result<Measured> {
    let seen = uml::tcp(run, tc, Traffic { classes: &CLASSES, up: STREAMS, down: STREAMS })?;
    let note =
        "the kernel of User-Mode Linux with one virtual CPU: its idle ping is another, compare what is added";
    let mut measured = Measured { commands: commands(run), notes: vec![note.into()], ..Measured::default() };
    delays(&mut measured, &seen.answers, &seen.idle, &seen.loaded);
    rates(&mut measured, &seen.loaded);
    Ok(measured)
}

fn delays(measured: &mut Measured, answers: &Answers, idle: &std::ops::Range<f64>, loaded: &Loaded) {
    let idle = median(&answers.within("be", idle));
    measured.lower("ping_idle_median", idle, "ms");
    for class in CLASSES {
        let rtt = answers.within(class.name, &loaded.span);
        measured.lower(format!("ping_{}_median", class.name), median(&rtt), "ms");
        measured.lower(format!("ping_{}_p99", class.name), quantile(&rtt, 0.99), "ms");
        let points = answers.points(class.name, &loaded.span);
        measured.curves.push(Curve { plot: &PING, label: class.name.into(), points });
        measured.samples.push(Samples { plot: &PING_CDF, label: class.name.into(), values: rtt });
    }
    measured.lower("ping_added_median", median(&answers.within("be", &loaded.span)) - idle, "ms");
    measured.lower("pings_lost", f64::from(answers.lost()), "pings");
}

fn rates(measured: &mut Measured, loaded: &Loaded) {
    for (way, received) in ["up", "down"].into_iter().zip(&loaded.received) {
        measured.higher(format!("tcp_{way}"), received.total / 1e6, "Mbit/s");
        measured.higher(format!("jain_{way}"), jain(&received.streams), "");
        for (at, stream) in received.seconds.iter().enumerate() {
            let points = stream.iter().map(|second| (second.at, second.rate / 1e6)).collect();
            measured.curves.push(Curve { plot: &RATE, label: format!("{way} {}", at + 1), points });
        }
    }
}

fn commands(run: &Run<'_>) -> Vec<String> {
    let mut commands = traffic::typed(run.seconds, STREAMS);
    commands.extend(CLASSES.map(|class| format!("ping -D -n -Q {} -i 0.020 PEER", class.dscp << 2)));
    commands
}

fn bars(rig: &Rig) -> Vec<Bar> {
    // A full queue of 1000 frames of 1514 bytes at the rate.
    let full = 1000.0 * 1514.0 * 8.0 / (f64::from(rig.bandwidth_mbit) * 1e6) * 1e3;
    let mut bars = vec![Bar {
        case: "fifo",
        value: "ping_be_median",
        sense: Sense::AtLeast,
        bound: Bound::Fixed(full / 4.0),
        is: Is::Fault,
        says: format!("a FIFO of 1000 makes a ping wait at least a quarter of its depth ({full:.0} ms)"),
    }];
    for case in ["fq_codel", "cake"] {
        bars.push(Bar {
            case,
            value: "ping_be_median",
            sense: Sense::AtMost,
            bound: Bound::Times(0.1, "fifo", "ping_be_median"),
            is: Is::Cure,
            says: format!("{case} takes nine tenths of it away"),
        });
    }
    bars
}

/// A full segment with time stamps, without FCS, and its payload, bytes.
const FRAME: f64 = 1_514.0;
const PAYLOAD: f64 = 1_448.0;
static UP: Quantity = rate_of("rate up");
static DOWN: Quantity = rate_of("rate down");

const fn rate_of(name: &'static str) -> Quantity {
    let differ = "the interface counts frames, with the acknowledgements of the other way and the pings, iperf3 the \
                  receiver's payload, here times 1514/1448";
    Quantity { name, unit: "Mbit/s", grain: 1.0, differ }
}

/// The kernel's own fq_codel and cake, where they are at the rate of the rig.
pub(super) fn kernels(rig: &Rig) -> [Case; 2] {
    let kernel = |name, label: &str, tc| {
        let with = match rig.bandwidth_mbit {
            MBIT => With::Kernel(tc),
            _ => With::Absent("its commands are for 100 Mbit/s: leave out --bandwidth-mbit"),
        };
        Case { name, label: label.into(), with, peer: None }
    };
    [
        kernel("kernel_fq_codel", "Linux htb + fq_codel", HTB_FQ_CODEL),
        kernel("kernel_cake", "Linux cake diffserv4", CAKE),
    ]
}

/// Of the rigs as the project ships them, and of the commands below.
const MBIT: u32 = 100;
const CAKE: &[&str] = &["qdisc add dev DEV root cake bandwidth 100mbit diffserv4"];
const HTB_FQ_CODEL: &[&str] = &[
    "qdisc add dev DEV root handle 1: htb default 1",
    "class add dev DEV parent 1: classid 1:1 htb rate 100mbit",
    "qdisc add dev DEV parent 1:1 fq_codel",
];
/// Flent's four: best effort, background, video, voice.
pub const CLASSES: [Class; 4] =
    [BEST_EFFORT, Class { name: "cs1", dscp: 8 }, Class { name: "cs5", dscp: 40 }, EF];
/// TCP streams each way.
pub const STREAMS: u32 = 4;
/// Round trips over time.
pub static PING: Plot = Plot {
    name: "ping",
    title: "Round trip under load",
    x: "seconds since the load began",
    y: "ping, ms",
    log: true,
    by_case: false,
};
/// Their distribution.
pub static PING_CDF: Plot = Plot {
    name: "ping-cdf",
    title: "Distribution of round trips under load",
    x: "ping, ms",
    y: "share of pings",
    log: true,
    by_case: false,
};
/// Rates of streams.
pub static RATE: Plot = Plot {
    name: "rate",
    title: "Rate of each TCP stream",
    x: "seconds since the load began",
    y: "Mbit/s",
    log: false,
    by_case: true,
};
