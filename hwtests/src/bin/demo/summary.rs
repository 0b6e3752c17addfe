//! All runs summed up: figures with their bars, table, plot.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use hwtests::forwarder::Counters;
use hwtests::plot::{PingSeries, ping_over_time, significant};
use hwtests::report::{Better, Figure, Report};
use hwtests::stats::{jain, median, quantile, spread};
use plotters::style::RGBColor;

use crate::rig::{CASES, CONGESTION, OMIT, Plan, Run, STREAMS};

/// The outcome of a demo.
pub(crate) struct Summary {
    title: String,
    cases: Vec<Totals>,
    report: Report,
    series: Vec<PingSeries>,
    /// Where in the plot each load begins.
    marks: Vec<(f64, String)>,
}

/// One case over all its runs.
struct Totals {
    label: &'static str,
    /// Percent of the configured rate, per run; up, down.
    goodput: [Vec<f64>; 2],
    /// Frames, percent of the configured rate; up, down.
    link: [f64; 2],
    /// The worst of all runs and directions.
    jain: f64,
    idle: f64,
    median: f64,
    p95: f64,
    p99: f64,
    /// Median of each run.
    medians: Vec<f64>,
    lost: u32,
    pings: usize,
    /// Sums over the runs, if the forwarder counts.
    counters: Option<Counters>,
}

impl Summary {
    pub(crate) fn new(plan: &Plan, runs: &[Vec<Run>]) -> Result<Self> {
        let cases: Vec<_> =
            CASES.iter().zip(runs).map(|(case, runs)| Totals::new(case.label, plan, runs)).collect();
        let report = Report::new(figures(&cases))?;
        let series = cases.iter().zip(runs).zip(COLOURS).map(|((totals, runs), colour)| PingSeries {
            label: totals.label.to_owned(),
            colour,
            runs: runs.iter().flat_map(|run| run.points.clone()).collect(),
            median: totals.median,
            median_from: f64::from(OMIT),
        });
        let phases: Vec<_> = plan.phases.iter().map(|phase| phase.label).collect();
        let title = format!(
            "Ping through {} Mbit/s under {STREAMS} TCP streams {}",
            plan.rate,
            phases.join(", then ")
        );
        let began = runs.iter().flatten().next().map_or(&[][..], |run| &run.phases);
        let marks =
            began.iter().zip(&phases).map(|(&at, &label)| (at, format!("{STREAMS} TCP streams {label}")));
        Ok(Self { title, series: series.collect(), marks: marks.collect(), cases, report })
    }

    /// Writes `result.json` and `ping.svg`.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        self.report.write(folder)?;
        ping_over_time(&folder.join("ping.svg"), [&self.title, &self.conditions()], &self.series, &self.marks)
    }

    pub(crate) fn json(&self) -> Result<String> {
        self.report.json()
    }

    fn conditions(&self) -> String {
        let machine = &self.report.machine;
        format!(
            "FIFO of 1000 packets; TCP {CONGESTION}; {}, {} cores, Linux {}, DPDK {}, net_tap; {}",
            machine.cpu,
            machine.cores,
            machine.kernel,
            machine.dpdk,
            self.report.date.split('T').next().unwrap_or_default(),
        )
    }

    pub(crate) fn table(&self, folder: &Path) -> String {
        let mut text = format!("{}\n{}\n\n", self.title, self.conditions());
        row(&mut text, "", self.cases.iter().map(|case| case.label.to_owned()));
        for (name, cell) in ROWS {
            row(&mut text, name, self.cases.iter().map(cell));
        }
        text.push('\n');
        for figure in self.report.results.iter().filter(|figure| figure.bar.is_some()) {
            bar_line(&mut text, figure);
        }
        let _ = writeln!(text, "\n{0}/ping.svg, {0}/result.json", folder.display());
        text
    }
}

impl Totals {
    fn new(label: &'static str, plan: &Plan, runs: &[Run]) -> Self {
        let percent = |bits: f64| bits / (f64::from(plan.rate) * 1e6) * 100.0;
        let goodput =
            [0, 1].map(|way| runs.iter().map(|run| percent(run.received[way].total)).collect::<Vec<_>>());
        let link = [0, 1].map(|way| mean(runs.iter().map(|run| percent(run.link[way]))));
        let fairness = runs.iter().flat_map(|run| run.received.iter().map(|way| jain(&way.streams)));
        let loaded: Vec<_> = runs.iter().flat_map(|run| run.loaded.iter().copied()).collect();
        let idle: Vec<_> = runs.iter().flat_map(|run| run.idle.iter().copied()).collect();
        Self {
            label,
            goodput,
            link,
            jain: fairness.fold(f64::INFINITY, f64::min),
            idle: median(&idle),
            median: median(&loaded),
            p95: quantile(&loaded, 0.95),
            p99: quantile(&loaded, 0.99),
            medians: runs.iter().map(|run| median(&run.loaded)).collect(),
            lost: runs.iter().map(|run| run.lost).sum(),
            pings: loaded.len(),
            counters: runs.iter().filter_map(|run| run.counters).reduce(|all, run| Counters {
                drops: all.drops + run.drops,
                marks: all.marks + run.marks,
                missed: all.missed + run.missed,
                poll_gaps: all.poll_gaps + run.poll_gaps,
                poll_gap_max_us: all.poll_gap_max_us.max(run.poll_gap_max_us),
            }),
        }
    }
}

fn figures(cases: &[Totals]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (case, totals) in CASES.iter().zip(cases) {
        let name = |what: &str| format!("demo.{}.{what}", case.name);
        for (way, goodput) in ["up", "down"].into_iter().zip(&totals.goodput) {
            let figure = Figure::new(name(&format!("goodput_{way}")), median(goodput), "%", Better::Higher);
            figures.push(figure.bar(GOODPUT_BAR).spread(spread(goodput)));
        }
        let fairness = Figure::new(name("jain"), totals.jain, "", Better::Higher);
        // A FIFO makes no promise of fairness: its index is shown, not judged.
        figures.push(if case.name == "fq_codel" { fairness.bar(JAIN_BAR) } else { fairness });
        let lower = |what, value| Figure::new(name(what), value, "ms", Better::Lower);
        figures.push(lower("ping_idle_median", totals.idle));
        figures.push(lower("ping_median", totals.median).spread(spread(&totals.medians)));
        figures.push(lower("ping_p95", totals.p95));
        figures.push(lower("ping_p99", totals.p99));
    }
    if let [fifo, fq_codel] = cases {
        let ratio = fifo.median / fq_codel.median;
        let over_idle = fq_codel.median - fq_codel.idle;
        figures.push(Figure::new("demo.ping_median_ratio", ratio, "x", Better::Higher).bar(RATIO_BAR));
        let over_idle = Figure::new("demo.fq_codel.ping_over_idle", over_idle, "ms", Better::Lower);
        figures.push(over_idle.bar(OVER_IDLE_BAR).peer("FIFO over idle", fifo.median - fifo.idle));
    }
    figures
}

fn row(text: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(text, "{name:<26}");
    for cell in cells {
        let _ = write!(text, "{cell:>22}");
    }
    text.push('\n');
}

fn bar_line(text: &mut String, figure: &Figure) {
    let holds = if figure.holds == Some(true) { "holds " } else { "MISSES" };
    let sign = if figure.better == Better::Higher { ">=" } else { "<=" };
    let bar = figure.bar.unwrap_or(f64::NAN);
    let value =
        if figure.unit.is_empty() { format!("{:.4}", figure.value) } else { significant(figure.value) };
    let _ = writeln!(text, "{holds}  {:<30} {value:>7} {:<2} {sign} {bar}", figure.name, figure.unit);
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn counted(case: &Totals, cell: fn(&Counters) -> String) -> String {
    case.counters.as_ref().map_or("-".into(), cell)
}

type Cell = fn(&Totals) -> String;

const ROWS: [(&str, Cell); 12] = [
    ("goodput up", |case| format!("{:.1} %", median(&case.goodput[0]))),
    ("goodput down", |case| format!("{:.1} %", median(&case.goodput[1]))),
    ("link used, up / down", |case| format!("{:.1} / {:.1} %", case.link[0], case.link[1])),
    ("Jain's index, worst", |case| format!("{:.4}", case.jain)),
    ("ping idle, median", |case| format!("{} ms", significant(case.idle))),
    ("ping loaded, median", |case| format!("{} ms", significant(case.median))),
    ("ping loaded, p95 / p99", |case| format!("{} / {} ms", significant(case.p95), significant(case.p99))),
    ("pings, lost", |case| format!("{}, {}", case.pings, case.lost)),
    ("drops", |case| counted(case, |counters| counters.drops.to_string())),
    ("marks", |case| counted(case, |counters| counters.marks.to_string())),
    ("lost before the queue", |case| counted(case, |counters| counters.missed.to_string())),
    ("poll gaps > 1 ms, longest", |case| {
        counted(case, |counters| {
            format!("{}, {} ms", counters.poll_gaps, significant(counters.poll_gap_max_us as f64 / 1e3))
        })
    }),
];

const GOODPUT_BAR: f64 = 92.0;
const JAIN_BAR: f64 = 0.98;
const RATIO_BAR: f64 = 10.0;
const OVER_IDLE_BAR: f64 = 3.0;
const COLOURS: [RGBColor; 2] = [RGBColor(0xd0, 0x4a, 0x1c), RGBColor(0x17, 0x6f, 0xb8)];
