//! The queue in the NIC: weir's cake without a rate above a modelled NIC, with and without the governor.
//!
//! The rig is that of `hwtests run fairness-100m`: kernel TCP that hands over super-packets, weir, and a card whose
//! ring holds 512 full frames and which sends at the demo's rate. Nothing is shaped, so that whatever the card does not
//! need yet should wait in cake, and without the governor fills the ring instead.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use hwtests::clock::Interrupt;
use hwtests::model::{self, Governor, SplitGso, Weir};
use hwtests::model_bed::{self, Seen};
use hwtests::plot::{PingSeries, ping_over_time, significant};
use hwtests::report::{Better, Figure};
use hwtests::rig::Rig;
use hwtests::scenario::{self, With};
use hwtests::stats::{jain, median, quantile, spread};

use crate::rig::{CONGESTION, OMIT, Plan, STREAMS, Teller};
use crate::summary::{COLOURS, GOODPUT_BAR, JAIN_BAR, OVER_IDLE_BAR, RATIO_BAR, row};

/// A governor to look at.
pub(crate) struct NicCase {
    /// In `result.json`.
    name: &'static str,
    /// For people.
    pub(crate) label: &'static str,
    governor: Governor,
}

/// In the order of their turns.
pub(crate) const NIC_CASES: [NicCase; 2] = [
    NicCase { name: "nic_ungoverned", label: "governor off", governor: Governor::Off },
    NicCase { name: "nic_governed", label: "governor on", governor: Governor::On },
];

/// What the rig lacks here.
pub(crate) fn preflight() -> Result<()> {
    let missing = rig()?.missing();
    ensure!(missing.is_empty(), "{}", missing.join("\n"));
    model_bed::program().map(drop)
}

/// Measures `case` once; whatever it made in the system is gone when it returns.
pub(crate) fn run(
    plan: &Plan,
    case: &NicCase,
    teller: &mut Teller<'_>,
    interrupt: &Interrupt,
) -> Result<Seen> {
    let weir = Weir { keys: CAKE.into(), split: SplitGso::Auto, governor: case.governor };
    let card = model::Plan {
        weir: Some(weir),
        rate_mbit: plan.rate,
        ring: RING,
        delay_us: 0,
        tx_usecs: 0,
        tx_frames: 1,
    };
    let with = With::Model(Box::new(card.clone()));
    let case = scenario::Case { name: case.name, label: case.label.into(), with, peer: None };
    let mut run = scenario::Run {
        rig: &rig()?,
        case: &case,
        seconds: plan.seconds,
        folder: &plan.folder,
        // It runs within the rig.
        weir: Path::new(""),
        allowed_ports: &[],
        interrupt,
        ports: Vec::new(),
        say: &mut |what| teller.say(plan, what),
    };
    let seen = model_bed::load(&mut run, &card, &[(STREAMS, None)])?;
    teller.phases_after -= 1;
    Ok(seen)
}

/// Both cases over all their runs.
pub(crate) struct NicSummary {
    title: String,
    cases: Vec<Totals>,
    series: Vec<PingSeries>,
}

/// One case over all its runs.
struct Totals {
    case: &'static NicCase,
    /// Percent of the card's rate, per run.
    goodput: Vec<f64>,
    /// The worst run's.
    jain: f64,
    /// Median, ms.
    idle: f64,
    ping: f64,
    ping_p99: f64,
    /// Of each run.
    medians: Vec<f64>,
    pings: usize,
    lost: u32,
    /// From weir's hand to the last bit on the wire, ms: median, p99; of the runs' the median.
    residence: [f64; 2],
    /// Bytes, p99 of each run; nothing where nothing binds.
    limit: Option<Vec<f64>>,
    /// Bytes in flight, p99 of each run.
    in_flight: Vec<f64>,
    drops: u64,
    /// Of the thread that is weir and the card: percent of the time, times, the longest in ms.
    away: (f64, u64, f64),
}

impl NicSummary {
    pub(crate) fn new(plan: &Plan, runs: &[Vec<Seen>]) -> Result<Self> {
        let cases = NIC_CASES.iter().zip(runs).map(|(case, runs)| Totals::new(case, plan, runs));
        let cases = cases.collect::<Result<Vec<_>>>()?;
        let series = cases.iter().zip(runs).zip(SERIES).map(|((totals, runs), colour)| PingSeries {
            label: totals.case.label.to_owned(),
            colour: COLOURS[colour],
            runs: runs.iter().map(points).collect(),
            median: totals.ping,
            median_from: f64::from(OMIT),
        });
        let title = format!(
            "Ping through a NIC of {} Mbit/s and {RING} descriptors under {STREAMS} TCP streams",
            plan.rate
        );
        Ok(Self { title, series: series.collect(), cases })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Writes `nic.svg`.
    pub(crate) fn write(&self, folder: &Path, machine: &str) -> Result<()> {
        let mark = [(f64::from(OMIT), format!("{STREAMS} TCP streams up"))];
        ping_over_time(&folder.join("nic.svg"), [&self.title, &conditions(machine)], &self.series, &mark)
    }

    pub(crate) fn table(&self, text: &mut String, machine: &str) {
        *text += &format!("{}\n{}\n\n", self.title, conditions(machine));
        row(text, "", self.cases.iter().map(|totals| totals.case.label.to_owned()));
        for (name, cell) in ROWS {
            row(text, name, self.cases.iter().map(cell));
        }
        text.push('\n');
    }

    pub(crate) fn figures(&self, plan: &Plan) -> Vec<Figure> {
        let mut figures: Vec<_> = self.cases.iter().flat_map(|totals| totals.figures(plan)).collect();
        let [off, on] = &self.cases[..] else { return figures };
        let ratio = Figure::new("demo.nic_ping_median_ratio", off.ping / on.ping, "x", Better::Higher);
        figures.push(ratio.bar(RATIO_BAR));
        let over_idle =
            Figure::new("demo.nic_governed.ping_over_idle", on.ping - on.idle, "ms", Better::Lower);
        figures.push(over_idle.bar(OVER_IDLE_BAR).peer("ungoverned over idle", off.ping - off.idle));
        figures
    }
}

impl Totals {
    fn new(case: &'static NicCase, plan: &Plan, runs: &[Seen]) -> Result<Self> {
        let mut goodput = Vec::new();
        let mut fairness = f64::INFINITY;
        for run in runs {
            let [received] = &run.received[..] else { bail!("{} loads, not 1", run.received.len()) };
            goodput.push(received.total / (f64::from(plan.rate) * 1e6) * 100.0);
            fairness = fairness.min(jain(&received.streams));
        }
        let idle: Vec<_> = runs.iter().flat_map(|run| run.idle.iter().copied()).collect();
        let rtt = |run: &Seen| run.loaded.iter().map(|(_, rtt)| *rtt).collect::<Vec<_>>();
        let loaded: Vec<_> = runs.iter().flat_map(rtt).collect();
        let each =
            |value: fn(&model::Record) -> f64| runs.iter().map(|run| value(&run.record)).collect::<Vec<_>>();
        let limit = each(|record| record.limit[1] as f64);
        let sum = |value: fn(&model::Record) -> f64| each(value).iter().sum::<f64>();
        Ok(Self {
            case,
            goodput,
            jain: fairness,
            idle: median(&idle),
            ping: median(&loaded),
            ping_p99: quantile(&loaded, 0.99),
            medians: runs.iter().map(|run| median(&rtt(run))).collect(),
            pings: loaded.len(),
            lost: runs.iter().map(|run| run.lost).sum(),
            residence: [
                median(&each(|record| record.residence_us[0] / 1e3)),
                median(&each(|record| record.residence_us[1] / 1e3)),
            ],
            limit: matches!(case.governor, Governor::On).then_some(limit),
            in_flight: each(|record| record.in_flight[1] as f64),
            drops: runs.iter().map(|run| run.record.dropped).sum(),
            away: (
                sum(|record| record.away.0 * record.seconds) / sum(|record| record.seconds) * 100.0,
                runs.iter().map(|run| run.record.away.1).sum(),
                quantile(&each(|record| record.away.2 / 1e3), 1.0),
            ),
        })
    }

    fn figures(&self, plan: &Plan) -> Vec<Figure> {
        let figure = |what: &str, value, unit, better| {
            Figure::new(format!("demo.{}.{what}", self.case.name), value, unit, better)
        };
        let lower = |what: &str, value| figure(what, value, "ms", Better::Lower);
        let goodput = figure("goodput", median(&self.goodput), "%", Better::Higher);
        let fairness = figure("jain", self.jain, "", Better::Higher);
        let mut figures = vec![
            goodput.bar(GOODPUT_BAR).spread(spread(&self.goodput)),
            if self.limit.is_some() { fairness.bar(JAIN_BAR) } else { fairness },
            lower("ping_idle_median", self.idle),
            lower("ping_median", self.ping).spread(spread(&self.medians)),
            lower("ping_p99", self.ping_p99),
            lower("residence_median", self.residence[0]),
            lower("residence_p99", self.residence[1]),
            figure("away", self.away.0, "%", Better::Lower),
        ];
        if let Some(limits) = &self.limit {
            let limit = figure("limit_p99", median(limits), "bytes", Better::Lower).spread(spread(limits));
            figures.push(if plan.rate == LIMIT_BAR_MBIT { limit.bar(LIMIT_BAR) } else { limit });
            let in_flight = figure("in_flight_p99", median(&self.in_flight), "bytes", Better::Lower);
            figures.push(in_flight.spread(spread(&self.in_flight)));
        }
        figures
    }
}

type Cell = fn(&Totals) -> String;

const ROWS: [(&str, Cell); 9] = [
    ("goodput", |case| format!("{:.1} %", median(&case.goodput))),
    ("Jain's index, worst", |case| format!("{:.4}", case.jain)),
    ("ping idle, median", |case| format!("{} ms", significant(case.idle))),
    ("ping loaded, median / p99", |case| {
        format!("{} / {} ms", significant(case.ping), significant(case.ping_p99))
    }),
    ("pings, lost", |case| format!("{}, {}", case.pings, case.lost)),
    ("in the NIC, median / p99", |case| {
        let [median, p99] = case.residence.map(significant);
        format!("{median} / {p99} ms")
    }),
    ("limit, p99", |case| {
        case.limit.as_ref().map_or("-".into(), |limits| format!("{:.0} B", median(limits)))
    }),
    ("drops", |case| case.drops.to_string()),
    ("CPU away, times, longest", |case| {
        let (share, times, longest) = case.away;
        format!("{share:.1} %, {times}, {} ms", significant(longest))
    }),
];

/// The rig that `hwtests` knows by this name.
fn rig() -> Result<Rig> {
    Rig::parse(Path::new("model.toml"), include_str!("../../../../configs/rigs/model.toml"))
}

/// In the time of the demo's other plot: slow start is part of the load.
fn points(run: &Seen) -> Vec<(f64, f64)> {
    run.pings.iter().map(|(at, rtt)| (at + f64::from(OMIT), *rtt)).collect()
}

fn conditions(machine: &str) -> String {
    format!("cake without a rate above a modelled NIC; TCP {CONGESTION}; {machine}")
}

/// Left at its defaults: `bandwidth` is "unlimited".
const CAKE: &str = "qdisc = \"cake\"";
/// weir's default of `tx-ring`. A piece of a super-packet takes two descriptors, for its headers and for its payload,
/// so that this is 63 ms of full frames at 100 Mbit/s.
const RING: u32 = 1_024;
/// Bytes. What a kernel's driver was left with, at 100 Mbit/s, when its streams had become equal (2015).
const LIMIT_BAR: f64 = 8_886.0;
const LIMIT_BAR_MBIT: u32 = 100;
/// Of [`COLOURS`]: those of the FIFO and of cake.
const SERIES: [usize; 2] = [0, 2];
