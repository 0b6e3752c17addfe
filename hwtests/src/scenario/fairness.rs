//! `fairness-100m`: two TCP streams into a card of 100 Mbit/s whose ring holds all that they have in flight.
//!
//! The field experiment of 2015: below the scheduler order is first come first served, so that streams share as their
//! windows are, whatever fq_codel does above. The fault needs the bytes in flight to fit in the ring: windows of 2:1
//! make sure of it. Free-running CUBIC is reported, not judged.

use super::latency::kernels;
use super::{Bar, Bound, Case, Is, Measured, Run, Scenario, Sense, With};
use crate::iperf::Second;
use crate::model::{Governor, Plan, SplitGso, Weir};
use crate::model_bed::{self, Streams};
use crate::ns3;
use crate::rig::{Kind, Rig};
use crate::traffic::{self, BEST_EFFORT};
use crate::uml::{self, Traffic};
use anyhow::{Context, Result, bail};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "fairness-100m",
    summary: "E1: two TCP streams at 100 Mbit/s with super-packets, governor off and on",
    about: "Two kernel TCP streams hand over super-packets; weir shapes nothing (fq_codel) and the card has 512 descriptors \
            at 100 Mbit/s. Ungoverned, all that TCP has in flight lies in the ring and the streams share as their windows \
            are, 2:1; governed, the queue stands in fq_codel and they share alike. Shares are from the wire's own log.",
    kinds: &[Kind::Model],
    seconds: 8,
    repeats: 2,
    takes: |seconds| seconds + 8,
    cases,
    measure,
    bars,
};

fn cases(rig: &Rig) -> Vec<Case> {
    let weir = |governor| Weir { keys: "qdisc = \"fq_codel\"".into(), split: SplitGso::Auto, governor };
    let case = |name, label: &str, weir| Case {
        name,
        label: label.into(),
        with: With::Model(Box::new(plan(rig, weir))),
        peer: (name != "bare").then_some("bare"),
    };
    let mut cases = vec![
        case("bare", "card alone", None),
        case("fault", "fq_codel, no governor, windows 2:1", Some(weir(Governor::Off))),
        case("cure", "the same, governed", Some(weir(Governor::On))),
        case("free_fault", "no governor, free CUBIC", Some(weir(Governor::Off))),
        case("free_cure", "governed, free CUBIC", Some(weir(Governor::On))),
        case("eight_cure", "governed, 8 free streams", Some(weir(Governor::On))),
        ns3("ns3_fault", "ns-3 FqCoDel, windows 2:1", false),
        ns3("ns3_cure", "ns-3 FqCoDel + DQL, windows 2:1", true),
    ];
    cases.extend(kernels(rig));
    cases.push(Case { with: With::Absent(NO_TESTPMD), ..Case::testpmd() });
    cases
}

fn ns3(name: &'static str, label: &str, dql: bool) -> Case {
    let plan = ns3::Plan { dql, window: WINDOWS_NS3, ring: RING };
    Case { name, label: label.into(), with: With::Ns3(plan), peer: None }
}

/// A card of 512 descriptors that tells each completion at once.
fn plan(rig: &Rig, weir: Option<Weir>) -> Plan {
    Plan { weir, rate_mbit: rig.bandwidth_mbit, ring: RING, delay_us: 0, tx_usecs: 0, tx_frames: 1 }
}

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let plan = match &run.case.with {
        With::Model(plan) => plan,
        With::Ns3(plan) => return ns3::measure(run, *plan),
        With::Kernel(tc) => return in_kernel(run, tc),
        other => bail!("{} runs elsewhere", other.settings()),
    };
    let groups: &[Streams] = match run.case.name {
        "fault" | "cure" => &WINDOWS,
        "eight_cure" => &[(8, None)],
        _ => &[(2, None)],
    };
    Ok(model_bed::load(run, plan, groups)?.measured())
}

/// Two free streams up; the kernel shapes to the rate by itself, as its guest has no card with a ring.
fn in_kernel(run: &mut Run<'_>, tc: &[&str]) -> Result<Measured> {
    let seen = uml::tcp(run, tc, Traffic { classes: &[BEST_EFFORT], up: 2, down: 0 })?;
    let note = "User-Mode Linux has no card with a ring: its own shaper sets the rate; shares as the senders saw them";
    let mut measured = Measured { notes: vec![note.to_owned()], ..Measured::default() };
    measured.commands = traffic::typed(run.seconds, 2);
    let received = seen.loaded.received.first().context("nothing was received")?;
    measured.higher("tcp", received.total / 1e6, "Mbit/s");
    let mbit = |stream: &Vec<Second>| stream.iter().map(|second| second.rate / 1e6).collect();
    measured.shares(&received.seconds.iter().map(mbit).collect::<Vec<_>>());
    let within = |span| seen.answers.within(BEST_EFFORT.name, span);
    measured.pings(&within(&seen.idle), &within(&seen.loaded.span));
    Ok(measured)
}

fn bars(_: &Rig) -> Vec<Bar> {
    let bar =
        |case, value, sense, bound, is, says: &str| Bar { case, value, sense, bound, is, says: says.into() };
    use Sense::{AtLeast, AtMost};
    let mut bars = vec![
        bar(
            "fault",
            "most_of_least",
            AtLeast,
            Bound::Fixed(1.7),
            Is::Fault,
            "without a governor the streams share as their windows are, 2:1",
        ),
        bar("cure", "most_of_least", AtMost, Bound::Fixed(1.05), Is::Cure, "governed, they share 1:1"),
        bar(
            "ns3_fault",
            "most_of_least",
            AtLeast,
            Bound::Fixed(1.7),
            Is::Fault,
            "ns-3 shows the same without byte limits",
        ),
        bar(
            "ns3_cure",
            "most_of_least",
            AtMost,
            Bound::Fixed(1.05),
            Is::Cure,
            "and the same cure with its own",
        ),
    ];
    for case in ["cure", "free_cure", "eight_cure"] {
        bars.extend([
            bar(
                case,
                "jain_second_median",
                AtLeast,
                Bound::Fixed(0.999),
                Is::Cure,
                "Jain's index, median of the seconds",
            ),
            bar(case, "jain_second_p1", AtLeast, Bound::Fixed(0.99), Is::Cure, "Jain's index, worst second"),
            bar(case, "jain_whole", AtLeast, Bound::Fixed(0.9995), Is::Cure, "Jain's index, whole run"),
            bar(
                case,
                "limit_p99",
                AtMost,
                Bound::Fixed(8886.0),
                Is::Cure,
                "the limit stays at or below 8886 bytes",
            ),
        ]);
    }
    for case in ["free_cure", "eight_cure"] {
        let idle = "the wire is not idle while the machine lets weir run";
        bars.push(bar(case, "wire_idle_while_there", AtMost, Bound::Fixed(1.0), Is::Promise, idle));
        let says = "goodput at least 99 % of the card alone";
        bars.push(bar(case, "tcp", AtLeast, Bound::Times(0.99, "bare", "tcp"), Is::Promise, says));
    }
    bars
}

/// Descriptors of the card.
const RING: u32 = 512;
/// Of the first stream; the ring holds both.
const WINDOWS_NS3: u32 = 80_000;
const NO_TESTPMD: &str = "the modelled card has no port that testpmd could open: \"card alone\" is the bare wire here, and \
    latency-under-load has testpmd on a tap";
/// Half of each is what the kernel advertises of twice as much: about 80 and 40 KB in flight, less than the ring.
const WINDOWS: [Streams; 2] = [(1, Some(80_000)), (1, Some(40_000))];
