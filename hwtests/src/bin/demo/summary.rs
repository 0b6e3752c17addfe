//! All runs summed up: figures with their bars, table, plot.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use hwtests::forwarder::Counters;
use hwtests::model_bed::Seen;
use hwtests::plot::{PingSeries, ping_over_time, significant};
use hwtests::report::{Better, Figure, Report};
use hwtests::stats::{jain, median, quantile, spread};
use plotters::style::RGBColor;

use crate::nic::NicSummary;
use crate::rig::{CASES, CONGESTION, Case, HOST_STREAMS, Hosts, OMIT, Pings, Plan, Run, STREAMS};

/// The outcome of a demo.
pub(crate) struct Summary {
    title: String,
    cases: Vec<Totals>,
    nic: NicSummary,
    report: Report,
    series: Vec<PingSeries>,
    /// Where in the plot each load begins.
    marks: Vec<(f64, String)>,
}

/// One case over all its runs.
struct Totals {
    case: &'static Case,
    /// Percent of the configured rate, per run; up, down.
    goodput: [Vec<f64>; 2],
    /// Frames, percent of the configured rate; up, down.
    link: [f64; 2],
    /// The worst of all runs and directions.
    jain: f64,
    /// Median of best effort, ms.
    idle: f64,
    best_effort: RoundTrips,
    ef: RoundTrips,
    lost: u32,
    pings: usize,
    hosts: Option<HostTotals>,
    /// Sums over the runs, if the forwarder counts.
    counters: Option<Counters>,
}

/// Pings of one class over all runs, ms.
struct RoundTrips {
    median: f64,
    p95: f64,
    p99: f64,
    /// Median of each run.
    medians: Vec<f64>,
}

/// Two hosts over all runs.
struct HostTotals {
    /// Percent of what both had, per run; in the order of [`HOST_STREAMS`].
    shares: [Vec<f64>; 2],
    best_effort: RoundTrips,
    ef: RoundTrips,
}

impl Summary {
    pub(crate) fn new(plan: &Plan, runs: &[Vec<Run>], nic_runs: &[Vec<Seen>]) -> Result<Self> {
        let cases: Vec<_> =
            CASES.iter().zip(runs).map(|(case, runs)| Totals::new(case, plan, runs)).collect();
        let nic = NicSummary::new(plan, nic_runs)?;
        let mut all_figures = figures(&cases);
        all_figures.extend(nic.figures(plan));
        let report = Report::new(all_figures)?;
        let series = cases.iter().zip(runs).zip(COLOURS).map(|((totals, runs), colour)| PingSeries {
            label: totals.case.label.to_owned(),
            colour,
            runs: runs.iter().flat_map(|run| run.points.clone()).collect(),
            median: totals.best_effort.median,
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
        Ok(Self { title, series: series.collect(), marks: marks.collect(), cases, nic, report })
    }

    /// Writes `result.json`, `ping.svg` and `nic.svg`.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        self.report.write(folder)?;
        if !self.cases.is_empty() {
            let titles = [self.title.as_str(), &self.conditions()];
            ping_over_time(&folder.join("ping.svg"), titles, &self.series, &self.marks)?;
        }
        if !self.nic.is_empty() {
            self.nic.write(folder, &self.machine())?;
        }
        Ok(())
    }

    pub(crate) fn json(&self) -> Result<String> {
        self.report.json()
    }

    fn conditions(&self) -> String {
        format!("FIFO of 1000 packets; TCP {CONGESTION}; net_tap; {}", self.machine())
    }

    fn machine(&self) -> String {
        let machine = &self.report.machine;
        format!(
            "{}, {} cores, Linux {}, DPDK {}; {}",
            machine.cpu,
            machine.cores,
            machine.kernel,
            machine.dpdk,
            self.report.date.split('T').next().unwrap_or_default(),
        )
    }

    pub(crate) fn table(&self, folder: &Path) -> String {
        let mut text = String::new();
        if !self.cases.is_empty() {
            let _ = writeln!(text, "{}\n{}\n", self.title, self.conditions());
            row(&mut text, "", self.cases.iter().map(|totals| totals.case.label.to_owned()));
            for (name, cell) in ROWS {
                row(&mut text, name, self.cases.iter().map(cell));
            }
            text.push('\n');
        }
        if !self.nic.is_empty() {
            self.nic.table(&mut text, &self.machine());
        }
        for figure in self.report.results.iter().filter(|figure| figure.bar.is_some()) {
            bar_line(&mut text, figure);
        }
        let plots = [("ping.svg", self.cases.is_empty()), ("nic.svg", self.nic.is_empty())];
        text.push('\n');
        for (plot, _) in plots.iter().filter(|(_, is_absent)| !is_absent) {
            let _ = write!(text, "{}/{plot}, ", folder.display());
        }
        let _ = writeln!(text, "{}/result.json", folder.display());
        text
    }
}

impl Totals {
    fn new(case: &'static Case, plan: &Plan, runs: &[Run]) -> Self {
        let percent = |bits: f64| bits / (f64::from(plan.rate) * 1e6) * 100.0;
        let goodput =
            [0, 1].map(|way| runs.iter().map(|run| percent(run.received[way].total)).collect::<Vec<_>>());
        let link = [0, 1].map(|way| mean(runs.iter().map(|run| percent(run.link[way]))));
        let fairness = runs.iter().flat_map(|run| run.received.iter().map(|way| jain(&way.streams)));
        let loaded: Vec<_> = runs.iter().map(|run| &run.loaded).collect();
        let idle: Vec<_> = runs.iter().flat_map(|run| run.idle.best_effort.iter().copied()).collect();
        let hosts: Vec<_> = runs.iter().filter_map(|run| run.hosts.as_ref()).collect();
        Self {
            case,
            goodput,
            link,
            jain: fairness.fold(f64::INFINITY, f64::min),
            idle: median(&idle),
            best_effort: RoundTrips::new(&loaded, |pings| &pings.best_effort),
            ef: RoundTrips::new(&loaded, |pings| &pings.ef),
            lost: runs.iter().map(|run| run.lost).sum(),
            pings: loaded.iter().map(|pings| pings.best_effort.len() + pings.ef.len()).sum(),
            hosts: (!hosts.is_empty()).then(|| HostTotals::new(&hosts)),
            counters: runs.iter().filter_map(|run| run.counters).reduce(|all, run| Counters {
                drops: all.drops + run.drops,
                marks: all.marks + run.marks,
                backlog: run.backlog,
                missed: all.missed + run.missed,
                poll_gaps: all.poll_gaps + run.poll_gaps,
                poll_gap_max_us: all.poll_gap_max_us.max(run.poll_gap_max_us),
            }),
        }
    }

    fn over_idle(&self) -> f64 {
        self.best_effort.median - self.idle
    }
}

impl RoundTrips {
    fn new(runs: &[&Pings], class: fn(&Pings) -> &Vec<f64>) -> Self {
        let all: Vec<_> = runs.iter().flat_map(|run| class(run).iter().copied()).collect();
        Self {
            median: median(&all),
            p95: quantile(&all, 0.95),
            p99: quantile(&all, 0.99),
            medians: runs.iter().map(|run| median(class(run))).collect(),
        }
    }

    /// What EF may take at the 95th percentile where best effort takes this, ms.
    fn ef_bar(&self) -> f64 {
        1.2 * self.p95 + 0.5
    }
}

impl HostTotals {
    fn new(runs: &[&Hosts]) -> Self {
        let share = |host: usize| {
            runs.iter().map(|run| run.received[host] / run.received.iter().sum::<f64>() * 100.0).collect()
        };
        let pings: Vec<_> = runs.iter().map(|run| &run.pings).collect();
        Self {
            shares: [0, 1].map(share),
            best_effort: RoundTrips::new(&pings, |pings| &pings.best_effort),
            ef: RoundTrips::new(&pings, |pings| &pings.ef),
        }
    }
}

fn figures(cases: &[Totals]) -> Vec<Figure> {
    let mut figures: Vec<_> = cases.iter().flat_map(case_figures).collect();
    let [fifo, fq_codel, cake] = cases else { return figures };
    let ratio = fifo.best_effort.median / fq_codel.best_effort.median;
    figures.push(Figure::new("demo.ping_median_ratio", ratio, "x", Better::Higher).bar(RATIO_BAR));
    for totals in [fq_codel, cake] {
        let name = format!("demo.{}.ping_over_idle", totals.case.name);
        let over_idle = Figure::new(name, totals.over_idle(), "ms", Better::Lower);
        figures.push(over_idle.bar(OVER_IDLE_BAR).peer("FIFO over idle", fifo.over_idle()));
    }
    figures
}

fn case_figures(totals: &Totals) -> Vec<Figure> {
    let mut figures = Vec::new();
    let name = |what: &str| format!("demo.{}.{what}", totals.case.name);
    let higher = |what: &str, value, unit| Figure::new(name(what), value, unit, Better::Higher);
    let lower = |what: &str, value| Figure::new(name(what), value, "ms", Better::Lower);
    for (way, goodput) in ["up", "down"].into_iter().zip(&totals.goodput) {
        let figure = higher(&format!("goodput_{way}"), median(goodput), "%");
        figures.push(figure.bar(GOODPUT_BAR).spread(spread(goodput)));
    }
    let fairness = higher("jain", totals.jain, "");
    figures.push(if totals.case.is_fair { fairness.bar(JAIN_BAR) } else { fairness });
    figures.push(lower("ping_idle_median", totals.idle));
    let best_effort = &totals.best_effort;
    figures.push(lower("ping_median", best_effort.median).spread(spread(&best_effort.medians)));
    figures.push(lower("ping_p95", best_effort.p95));
    figures.push(lower("ping_p99", best_effort.p99));
    figures.push(lower("ef_ping_median", totals.ef.median).spread(spread(&totals.ef.medians)));
    let ef = lower("ef_ping_p95", totals.ef.p95).peer("best effort", best_effort.p95);
    let Some(hosts) = &totals.hosts else {
        figures.push(ef);
        return figures;
    };
    figures.push(ef.bar(best_effort.ef_bar()));
    for (streams, shares) in HOST_STREAMS.iter().zip(&hosts.shares) {
        let figure = higher(&format!("host_share_{streams}"), median(shares), "%");
        figures.push(figure.bar(HOST_SHARE_BAR).spread(spread(shares)));
    }
    figures.push(lower("hosts_ping_p95", hosts.best_effort.p95));
    let ef = lower("hosts_ef_ping_p95", hosts.ef.p95).peer("best effort", hosts.best_effort.p95);
    figures.push(ef.bar(hosts.best_effort.ef_bar()));
    figures
}

pub(crate) fn row(text: &mut String, name: &str, cells: impl Iterator<Item = String>) {
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
    let _ =
        writeln!(text, "{holds}  {:<30} {value:>7} {:<2} {sign} {}", figure.name, figure.unit, bar_text(bar));
}

/// As few digits as say it: some bars are measured themselves.
fn bar_text(bar: f64) -> String {
    let text = format!("{bar:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn tail(pings: &RoundTrips) -> String {
    format!("{} / {} ms", significant(pings.p95), significant(pings.p99))
}

fn counted(case: &Totals, cell: fn(&Counters) -> String) -> String {
    case.counters.as_ref().map_or("-".into(), cell)
}

type Cell = fn(&Totals) -> String;

const ROWS: [(&str, Cell); 15] = [
    ("goodput up", |case| format!("{:.1} %", median(&case.goodput[0]))),
    ("goodput down", |case| format!("{:.1} %", median(&case.goodput[1]))),
    ("link used, up / down", |case| format!("{:.1} / {:.1} %", case.link[0], case.link[1])),
    ("Jain's index, worst", |case| format!("{:.4}", case.jain)),
    ("ping idle, median", |case| format!("{} ms", significant(case.idle))),
    ("ping loaded, median", |case| format!("{} ms", significant(case.best_effort.median))),
    ("ping loaded, p95 / p99", |case| tail(&case.best_effort)),
    ("EF ping loaded, median", |case| format!("{} ms", significant(case.ef.median))),
    ("EF ping loaded, p95 / p99", |case| tail(&case.ef)),
    ("pings of both, lost", |case| format!("{}, {}", case.pings, case.lost)),
    ("hosts with 1 + 8 streams", |case| {
        let shares = |hosts: &HostTotals| hosts.shares.each_ref().map(|shares| median(shares));
        let cell = |[one, other]: [f64; 2]| format!("{one:.1} + {other:.1} %");
        case.hosts.as_ref().map_or("-".into(), |hosts| cell(shares(hosts)))
    }),
    ("drops", |case| counted(case, |counters| counters.drops.to_string())),
    ("marks", |case| counted(case, |counters| counters.marks.to_string())),
    ("lost before the queue", |case| counted(case, |counters| counters.missed.to_string())),
    ("poll gaps > 1 ms, longest", |case| {
        counted(case, |counters| {
            format!("{}, {} ms", counters.poll_gaps, significant(counters.poll_gap_max_us as f64 / 1e3))
        })
    }),
];

pub(crate) const GOODPUT_BAR: f64 = 92.0;
pub(crate) const JAIN_BAR: f64 = 0.98;
pub(crate) const RATIO_BAR: f64 = 10.0;
pub(crate) const OVER_IDLE_BAR: f64 = 3.0;
/// Within 3 % of half: what holds for both hosts bounds each from both sides.
const HOST_SHARE_BAR: f64 = 50.0 * 0.97;
/// Apart in lightness too, for those who see red and green alike.
pub(crate) const COLOURS: [RGBColor; 3] =
    [RGBColor(0xd0, 0x4a, 0x1c), RGBColor(0x17, 0x6f, 0xb8), RGBColor(0x2e, 0x9e, 0x5b)];
