//! `gso-split-1g`: cake at 1 Gbit/s without a rate of its own, super-packets left whole, split, or split by time.

use std::sync::OnceLock;

use super::{Bar, Bound, Case, Is, Measured, Run, Scenario, Sense, With};
use crate::model::{Governor, Plan, SplitGso, Weir};
use crate::model_bed;
use crate::rig::{Kind, Rig};
use anyhow::{Result, bail};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "gso-split-1g",
    summary: "E2: cake at 1 Gbit/s, 4 streams of super-packets, split-gso false, true and auto",
    about: "Four kernel TCP streams through cake without a rate, governed, into a card of 1 Gbit/s that cuts super-packets \
            itself. Left whole, one super-packet is 0.5 ms of wire that nothing can pass; split, the queue in the card \
            shrinks and pings halve; auto should do nearly as well with far fewer pieces. The rate is 1 Gbit/s or, where \
            this rig does not carry that without weir, the highest of 800, 650, 500, 250 and 100 Mbit/s that it does: it \
            fills the wire, loses nothing and is hardly ever away from it. The row \"rate\" says which, the notes why.",
    kinds: &[Kind::Model],
    seconds: 6,
    repeats: 3,
    takes: |seconds| seconds + 8,
    cases,
    measure,
    bars,
};

fn cases(_: &Rig) -> Vec<Case> {
    let case = |name, label: &str, split: Option<SplitGso>| {
        let keys = "qdisc = \"cake\", diffserv = \"besteffort\"";
        let weir = split.map(|split| Weir { keys: keys.into(), split, governor: Governor::On });
        let with = With::Model(Box::new(plan(1_000, weir)));
        Case { name, label: label.into(), with, peer: (name != "bare").then_some("bare") }
    };
    vec![
        case("bare", "card alone", None),
        case("whole", "split-gso = false", Some(SplitGso::False)),
        case("split", "split-gso = true", Some(SplitGso::True)),
        case("auto", "split-gso = auto", Some(SplitGso::Auto)),
    ]
}

fn plan(rate_mbit: u32, weir: Option<Weir>) -> Plan {
    Plan { weir, rate_mbit, ring: 1_024, delay_us: 0, tx_usecs: 0, tx_frames: 1 }
}

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let With::Model(wanted) = &run.case.with else { bail!("no case of this rig") };
    let Carried { rate, trials } = match CARRIED.get() {
        Some(carried) => carried,
        None => {
            let carried = highest(run)?;
            CARRIED.get_or_init(|| carried)
        }
    };
    let plan = Plan { rate_mbit: *rate, ..*wanted.clone() };
    let seen = model_bed::load(run, &plan, &[(STREAMS, None)])?;
    let mut measured = seen.measured();
    measured.higher("rate", f64::from(*rate), "Mbit/s");
    measured.lower("limit_bound", limit_bound(*rate), "bytes");
    measured.notes.extend(trials.iter().cloned());
    Ok(measured)
}

/// What the rig itself carries.
struct Carried {
    /// Mbit/s.
    rate: u32,
    /// How that was found.
    trials: Vec<String>,
}

/// The highest rate of the wire that kernel and card fill without weir, and without a loss of their own.
fn highest(run: &mut Run<'_>) -> Result<Carried> {
    let seconds = std::mem::replace(&mut run.seconds, CALIBRATION);
    let mut carried = Carried { rate: RATES[RATES.len() - 1], trials: Vec::new() };
    for rate in RATES {
        (run.say)(&format!("is {rate} Mbit/s carried without weir?"));
        let record = model_bed::load(run, &plan(rate, None), &[(STREAMS, None)])?.record;
        let (away, ..) = record.away;
        let is_carried = record.wire_share >= FILLED && record.undelivered == 0 && away <= AWAY;
        carried.trials.push(format!(
            "{rate} Mbit/s without weir: wire {:.1} % busy, {} frames lost by the rig, its thread away {:.1} % of the time: {}",
            record.wire_share * 100.0,
            record.undelivered,
            away * 100.0,
            if is_carried { "taken" } else { "too fast for this rig" }
        ));
        if is_carried {
            carried.rate = rate;
            break;
        }
    }
    run.seconds = seconds;
    Ok(carried)
}

/// Two windows of the wire and three frames, bytes.
fn limit_bound(rate_mbit: u32) -> f64 {
    2.0 * f64::from(rate_mbit) / 8.0 * WINDOW_US + 3.0 * FRAME
}

fn bars(_: &Rig) -> Vec<Bar> {
    let bar =
        |case, value, sense, bound, is, says: &str| Bar { case, value, sense, bound, is, says: says.into() };
    use Sense::{AtLeast, AtMost};
    vec![
        bar(
            "whole",
            "in_flight_p99",
            AtLeast,
            Bound::Times(3.0, "split", "in_flight_p99"),
            Is::Fault,
            "whole super-packets put three times as much into the card",
        ),
        bar(
            "split",
            "ping_added_median",
            AtMost,
            Bound::Times(0.5, "whole", "ping_added_median"),
            Is::Cure,
            "splitting halves the added ping",
        ),
        bar(
            "split",
            "tcp",
            AtLeast,
            Bound::Times(0.99, "whole", "tcp"),
            Is::Promise,
            "no throughput is lost",
        ),
        bar(
            "split",
            "wire_idle_while_there",
            AtMost,
            Bound::Fixed(1.0),
            Is::Promise,
            "the wire is not idle while the machine lets weir run",
        ),
        bar(
            "split",
            "limit_p99",
            AtMost,
            Bound::Times(1.0, "split", "limit_bound"),
            Is::Promise,
            "the limit is no more than two windows of 100 us and three frames",
        ),
        bar(
            "auto",
            "ping_p99",
            AtMost,
            Bound::Plus(BUDGET_MS, "split", "ping_p99"),
            Is::Promise,
            "auto adds no more than its budget to the ping",
        ),
        bar(
            "auto",
            "residence_p99",
            AtMost,
            Bound::Plus(BUDGET_MS, "split", "residence_p99"),
            Is::Promise,
            "nor to the time in the card",
        ),
        bar(
            "auto",
            "pieces",
            AtMost,
            Bound::Times(0.25, "split", "pieces"),
            Is::Promise,
            "with at most a quarter of the pieces",
        ),
    ]
}

const STREAMS: u32 = 4;
const RATES: [u32; 6] = [1_000, 800, 650, 500, 250, 100];
/// Share of the wire that counts as full.
const FILLED: f64 = 0.97;
/// Share of the time that the rig's thread may be away: weir's own work comes on top of it.
const AWAY: f64 = 0.05;
/// The governor's decision window.
const WINDOW_US: f64 = 100.0;
/// Bytes on the wire.
const FRAME: f64 = 1_538.0;
const CALIBRATION: u32 = 2;
/// Default of `gso-budget`.
const BUDGET_MS: f64 = 0.1;
/// Found once in a run of this program.
static CARRIED: OnceLock<Carried> = OnceLock::new();
