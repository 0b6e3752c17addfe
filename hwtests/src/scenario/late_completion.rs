//! `late-completion`: a card that completes 1.5 ms late, and one that coalesces (tx-usecs 1024, tx-frames 64).
//!
//! The field experiment of 2015. A limit of 1 ms x rate, right for a card that completes at once, starves the wire of
//! one that does not, and so do dynamic queue limits as Linux has them, which learn from the moments at which the queue
//! runs dry but know nothing of late completions; the governor learns what the card needs, and no more. That TCP's
//! small-queue limit starves it too is shown in the simulator: a TAP releases the sender at once.

use super::{Bar, Bound, Case, Is, Measured, Run, Scenario, Sense, With};
use crate::model::{Governor, Plan, SplitGso, Weir};
use crate::model_bed;
use crate::rig::{Kind, Rig};
use anyhow::{Result, bail};

/// The scenario.
pub static SCENARIO: Scenario = Scenario {
    name: "late-completion",
    summary: "E3: completions 1.5 ms late, and coalesced over 1 ms: fixed limit, stock DQL, governor, submit",
    about: "Four kernel TCP streams through fq_codel into a card of 100 Mbit/s whose completions are late. A fixed limit of \
            1 ms x rate starves the wire, and stock dynamic queue limits (BQL) miss what a late card needs, one way or the \
            other; the governor fills it with a limit of no more than delay, batch and window ask for; complete-on = submit fills it \
            too, and its price is the whole ring: see the residence.",
    kinds: &[Kind::Model],
    seconds: 6,
    repeats: 2,
    takes: |seconds| seconds + 8,
    cases,
    measure,
    bars,
};

/// A card that is late in some way.
struct Cell {
    /// Names of the cases: fixed limit, stock limits, governed, submit.
    names: [&'static str; 4],
    label: &'static str,
    delay_us: u64,
    tx_usecs: u64,
    tx_frames: usize,
}

fn cases(rig: &Rig) -> Vec<Case> {
    let mut cases = vec![case(rig, "bare", "card alone".into(), None, &CELLS[0])];
    for cell in &CELLS {
        let fixed = rig.bandwidth_mbit * 125;
        let governors = [Governor::Fixed(fixed), Governor::Stock, Governor::On, Governor::Submit];
        let words =
            [format!("limit fixed at {fixed} B"), "stock DQL".into(), "governed".into(), SUBMIT.into()];
        for ((name, governor), words) in cell.names.into_iter().zip(governors).zip(words) {
            let weir = Weir { keys: "qdisc = \"fq_codel\"".into(), split: SplitGso::Auto, governor };
            cases.push(case(rig, name, format!("{}, {words}", cell.label), Some(weir), cell));
        }
    }
    cases
}

fn case(rig: &Rig, name: &'static str, label: String, weir: Option<Weir>, cell: &Cell) -> Case {
    let Cell { delay_us, tx_usecs, tx_frames, .. } = *cell;
    let plan = Plan { weir, rate_mbit: rig.bandwidth_mbit, ring: 512, delay_us, tx_usecs, tx_frames };
    Case { name, label, with: With::Model(Box::new(plan)), peer: (name != "bare").then_some("bare") }
}

fn measure(run: &mut Run<'_>) -> Result<Measured> {
    let With::Model(plan) = &run.case.with else { bail!("no case of this rig") };
    let seen = model_bed::load(run, plan, &[(STREAMS, None)])?;
    let mut measured = seen.measured();
    let [limit, ..] = seen.record.limit;
    if limit > 0 {
        let need = needed(plan);
        measured.lower("limit_off_need", (limit as f64 - need).abs() / need * 100.0, "%");
    }
    Ok(measured)
}

/// Bytes that keep the wire busy until a completion is told: the delay, the batch and the one that is filled meanwhile,
/// and a frame.
fn needed(plan: &Plan) -> f64 {
    let batch = if plan.tx_frames > 1 { plan.tx_usecs } else { 0 };
    f64::from(plan.rate_mbit) / 8.0 * (plan.delay_us + 2 * batch) as f64 + FRAME
}

fn bars(rig: &Rig) -> Vec<Bar> {
    CELLS.iter().flat_map(|cell| bars_of(rig, cell)).collect()
}

fn bars_of(rig: &Rig, cell: &Cell) -> Vec<Bar> {
    let bar = |case, value, sense, bound, is, says: String| Bar { case, value, sense, bound, is, says };
    let [fixed, stock, governed, _] = cell.names;
    // Bytes a microsecond; D, and B of the cell.
    let rate = f64::from(rig.bandwidth_mbit) / 8.0;
    let batch = if cell.tx_frames > 1 { cell.tx_usecs as f64 } else { 0.0 };
    let delay = cell.delay_us as f64;
    let limit = rate * (1.5 * delay + 2.0 * batch + 2.0 * WINDOW_US) + 3.0 * FRAME;
    let residence = 0.5 * delay + 2.0 * batch + 2.0 * WINDOW_US + 4.0 * (FRAME + 24.0) / rate;
    use Sense::{AtLeast, AtMost};
    let label = cell.label;
    let astray = bar(
        stock,
        "limit_off_need",
        AtLeast,
        Bound::Fixed(50.0),
        Is::Fault,
        format!(
            "{label}: stock dynamic queue limits do not find what the card needs: they starve the wire, or learn from each \
             gap in the polling and let a queue stand in the card"
        ),
    );
    let found = "the governor's limit is within half of what the card needs";
    let found =
        bar(governed, "limit_off_need", AtMost, Bound::Fixed(50.0), Is::Cure, format!("{label}: {found}"));
    // Where a batch is told at once, they learn what it needs.
    let mut bars = if cell.delay_us > 0 { vec![astray, found] } else { Vec::new() };
    bars.extend([
        bar(
            fixed,
            "wire_busy",
            AtMost,
            Bound::Times(0.99, "bare", "wire_busy"),
            Is::Fault,
            format!("{label}: a limit of 1 ms x rate starves the wire"),
        ),
        bar(
            governed,
            "wire_busy",
            AtLeast,
            Bound::Times(0.99, "bare", "wire_busy"),
            Is::Cure,
            format!("{label}: governed, the wire is as full as without weir"),
        ),
        bar(
            governed,
            "limit_p99",
            AtMost,
            Bound::Fixed(limit),
            Is::Cure,
            format!("{label}: the limit is no more than rate x (1.5 D + 2 B + 2 W) + 3 frames"),
        ),
        bar(
            governed,
            "residence_p99",
            AtMost,
            Bound::Fixed(residence / 1e3),
            Is::Cure,
            format!("{label}: time in the card p99 is no more than 0.5 D + 2 B + 2 W + 4 frames"),
        ),
        bar(
            governed,
            "wire_idle_while_there",
            AtMost,
            Bound::Fixed(1.0),
            Is::Promise,
            format!("{label}: governed, the wire is not idle while the machine lets weir run"),
        ),
    ]);
    bars
}

const SUBMIT: &str = "complete-on = submit";
const STREAMS: u32 = 4;
const CELLS: [Cell; 2] = [
    Cell {
        names: ["late_fixed", "late_stock", "late", "late_submit"],
        label: "1.5 ms late",
        delay_us: 1_500,
        tx_usecs: 0,
        tx_frames: 1,
    },
    Cell {
        names: ["coalesced_fixed", "coalesced_stock", "coalesced", "coalesced_submit"],
        label: "tx-usecs 1024, tx-frames 64",
        delay_us: 0,
        tx_usecs: 1_024,
        tx_frames: 64,
    },
];
/// The governor's decision window.
const WINDOW_US: f64 = 100.0;
const FRAME: f64 = 1_514.0;
