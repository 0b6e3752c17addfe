//! The report of a campaign for people: one HTML page without any outside resource, and the same in Markdown.
//!
//! Verdict first, then a table per experiment, plots, and what it takes to repeat it.

mod html;
mod markdown;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::chart::{self, Frame, Line, distribution};
use crate::plot::significant;
use crate::record::{CaseRecord, Experiment, Record, Verdict};
use crate::scenario::{Is, Plot, Sense};
use crate::witness::{AGREED, Quantity};

/// Writes `result.json`, `report.html`, `report.md` and the plots into `folder`; the page's path.
///
/// # Errors
/// A file cannot be written.
pub fn write(record: &Record, folder: &Path) -> Result<PathBuf> {
    let save = |path: PathBuf, text: String| {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display())).map(|()| path)
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    save(folder.join("result.json"), serde_json::to_string_pretty(record)? + "\n")?;
    save(folder.join("report.md"), markdown::page(record))?;
    for experiment in &record.experiments {
        for chart in charts(experiment) {
            save(folder.join(chart.file), chart::file(&chart.frame, &chart.lines))?;
        }
    }
    save(folder.join("report.html"), html::page(record))
}

/// The verdicts and tables as plain text, for the terminal.
pub fn text(record: &Record) -> String {
    markdown::summary(record)
}

/// One chart of an experiment.
struct Chart {
    file: String,
    frame: Frame,
    lines: Vec<Line>,
}

/// All charts of an experiment, in order.
fn charts(experiment: &Experiment) -> Vec<Chart> {
    let mut charts = Vec::new();
    for plot in plots(experiment) {
        let labels = labels(experiment, plot);
        if !plot.by_case {
            for label in &labels {
                let pick = |case: &CaseRecord| {
                    lines_of(case, plot).into_iter().filter(|(of, _)| of == label).collect()
                };
                let cases = experiment.cases.iter().enumerate();
                let lines = cases.flat_map(|(at, case)| named(at, &case.label, pick(case)));
                charts.push(chart(experiment, plot, label, lines.collect()));
            }
        } else {
            for case in &experiment.cases {
                let lines = lines_of(case, plot).into_iter().enumerate();
                let lines =
                    lines.flat_map(|(at, (label, points))| named(at, &label.clone(), vec![(label, points)]));
                charts.push(chart(experiment, plot, &case.label, lines.collect()));
            }
        }
    }
    charts.retain(|chart| !chart.lines.is_empty());
    charts
}

type Labelled = (String, Vec<(f64, f64)>);

fn named(colour: usize, label: &str, lines: Vec<Labelled>) -> Vec<Line> {
    let line = |(_, points)| Line { colour, label: label.to_owned(), points };
    lines.into_iter().map(line).collect()
}

/// Lines of a case in a plot, each with its label.
fn lines_of(case: &CaseRecord, plot: &Plot) -> Vec<Labelled> {
    let curves = case.curves.iter().filter(|curve| curve.plot == plot);
    let curves = curves.map(|curve| (curve.label.clone(), curve.points.clone()));
    let samples = case.samples.iter().filter(|samples| samples.plot == plot);
    let samples = samples.map(|samples| (samples.label.clone(), distribution(&samples.values)));
    curves.chain(samples).collect()
}

fn plots(experiment: &Experiment) -> Vec<&'static Plot> {
    let mut plots: Vec<&'static Plot> = Vec::new();
    for case in &experiment.cases {
        let curves = case.curves.iter().map(|curve| curve.plot);
        for plot in curves.chain(case.samples.iter().map(|samples| samples.plot)) {
            if !plots.contains(&plot) {
                plots.push(plot);
            }
        }
    }
    plots
}

fn labels(experiment: &Experiment, plot: &Plot) -> Vec<String> {
    let mut labels = Vec::new();
    for (label, _) in experiment.cases.iter().flat_map(|case| lines_of(case, plot)) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

fn chart(experiment: &Experiment, plot: &Plot, part: &str, lines: Vec<Line>) -> Chart {
    let is_distribution =
        experiment.cases.iter().any(|case| case.samples.iter().any(|samples| samples.plot == plot));
    let letters = part.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let part_name: String = letters.collect();
    Chart {
        file: format!("{}-{}-{}-{part_name}.svg", experiment.scenario, experiment.rig.name, plot.name),
        frame: Frame {
            title: format!("{}: {part}", plot.title),
            x: plot.x.into(),
            y: plot.y.into(),
            log_x: plot.log && is_distribution,
            log_y: plot.log && !is_distribution,
        },
        lines,
    }
}

/// Rows of the table of an experiment: the value with its unit, and a cell for each case.
fn rows(experiment: &Experiment) -> Vec<(String, Vec<String>)> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for median in experiment.cases.iter().flat_map(|case| &case.medians) {
        if !names.iter().any(|(name, _)| *name == median.name) {
            names.push((&median.name, median.unit));
        }
    }
    let row = |(at, (name, unit)): (usize, (&str, &str))| {
        let one = |case: &CaseRecord| match case.not_available {
            // Said once is enough.
            Some(_) if at > 0 => "–".into(),
            _ => cell(case, name, experiment.repeats),
        };
        let cells = experiment.cases.iter().map(one).collect();
        let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
        (format!("{}{unit}", name.replace('_', " ")), cells)
    };
    names.into_iter().enumerate().map(row).collect()
}

fn cell(case: &CaseRecord, name: &str, repeats: u32) -> String {
    if case.not_available.is_some() {
        return "not available here".into();
    }
    match case.medians.iter().find(|median| median.name == name) {
        Some(median) if repeats > 1 => {
            format!("{} ± {}", figure(median.value), significant(median.spread / 2.0))
        }
        Some(median) => figure(median.value),
        None if case.medians.is_empty() && !case.failures.is_empty() => "failed".into(),
        None => "–".into(),
    }
}

/// What witnesses of one quantity say in each case, and how far they are apart.
struct Hearing {
    quantity: &'static Quantity,
    /// Witness, and a cell for each case.
    rows: Vec<(&'static str, Vec<String>)>,
    apart: Vec<Apart>,
}

/// How far witnesses are apart in one case.
#[derive(Clone, Copy)]
struct Apart(Option<f64>);

impl Apart {
    fn is_disagreement(self) -> bool {
        self.0.is_some_and(|share| share > AGREED)
    }

    /// Empty where nobody or one alone was heard.
    fn words(self, heard: usize) -> String {
        match self.0 {
            Some(share) if self.is_disagreement() => format!("≠ {:.0} %", share * 100.0),
            Some(share) => format!("{:.1} %", share * 100.0),
            None if heard > 1 => "agree".into(),
            None => "–".into(),
        }
    }
}

/// The cases that witnesses saw.
fn heard(experiment: &Experiment) -> impl Iterator<Item = &CaseRecord> {
    experiment.cases.iter().filter(|case| !case.accounts.is_empty())
}

/// Every quantity that a witness saw, with a column for each case of [`heard`].
fn hearings(experiment: &Experiment) -> Vec<Hearing> {
    let mut found: Vec<(&'static Quantity, Vec<&'static str>)> = Vec::new();
    for account in heard(experiment).flat_map(|case| &case.accounts) {
        match found.iter_mut().find(|(quantity, _)| *quantity == account.of) {
            Some((_, witnesses)) if witnesses.contains(&account.by) => {}
            Some((_, witnesses)) => witnesses.push(account.by),
            None => found.push((account.of, vec![account.by])),
        }
    }
    let hearing = |(quantity, witnesses): (&'static Quantity, Vec<&'static str>)| {
        let value = |case: &CaseRecord, by: &str| {
            let same = case.accounts.iter().find(|account| account.of == quantity && account.by == by);
            same.map(|account| account.value).filter(|value| value.is_finite())
        };
        let cells = |by: &'static str| {
            let cells = heard(experiment).map(|case| value(case, by).map_or("–".into(), figure));
            (by, cells.collect())
        };
        let apart = |case: &CaseRecord| {
            let values: Vec<_> = witnesses.iter().filter_map(|by| value(case, by)).collect();
            Apart(quantity.apart(&values))
        };
        let apart = heard(experiment).map(apart).collect();
        Hearing { quantity, rows: witnesses.iter().copied().map(cells).collect(), apart }
    };
    found.into_iter().map(hearing).collect()
}

impl Hearing {
    /// The last row: a word for each case.
    fn verdicts(&self) -> Vec<String> {
        let heard = |at: usize| self.rows.iter().filter(|(_, cells)| cells[at] != "–").count();
        self.apart.iter().enumerate().map(|(at, apart)| apart.words(heard(at))).collect()
    }

    fn title(&self) -> String {
        match self.quantity.unit {
            "" => self.quantity.name.into(),
            unit => format!("{}, {unit}", self.quantity.name),
        }
    }
}

/// Shares near one need more digits than three.
fn figure(value: f64) -> String {
    if value.is_nan() {
        "–".into()
    } else if value.fract() == 0.0 && value.abs() < 1e7 {
        format!("{value:.0}")
    } else if (0.9..1.0).contains(&value) {
        format!("{value:.4}")
    } else {
        significant(value)
    }
}

/// What a verdict's bar is, and what was measured.
fn measured(verdict: &Verdict) -> String {
    let sign = if verdict.sense == Sense::AtMost { "≤" } else { "≥" };
    let number = |value: Option<f64>| value.map_or("–".to_owned(), figure);
    let name = verdict.value_name.replace('_', " ");
    format!(
        "{} {name}: {} {} (bar {sign} {})",
        verdict.case,
        number(verdict.value),
        verdict.unit,
        number(verdict.bound)
    )
}

/// How many bars of each kind hold, in one line.
fn sum(record: &Record) -> String {
    let verdicts = || record.experiments.iter().flat_map(|experiment| &experiment.verdicts);
    let kind = |is, words: &str| {
        let of = || verdicts().filter(|verdict| verdict.is == is);
        let met = of().filter(|verdict| verdict.met == Some(true)).count();
        (of().count() > 0).then(|| format!("{met} of {} {words}", of().count()))
    };
    let kinds = [(Is::Fault, "faults shown"), (Is::Cure, "cures hold"), (Is::Promise, "promises kept")];
    let known: Vec<_> = kinds.into_iter().filter_map(|(is, words)| kind(is, words)).collect();
    let open = verdicts().filter(|verdict| verdict.met.is_none()).count();
    let open = (open > 0).then(|| format!("{open} not measured"));
    known.into_iter().chain(open).collect::<Vec<_>>().join(", ")
}

/// What is said of the machine, in one line.
fn machine(record: &Record) -> String {
    let machine = &record.report.machine;
    let place = if record.environment.virtual_machine { ", virtual machine" } else { "" };
    format!(
        "{}, {} cores, {} MiB{place}, Linux {}, DPDK {}; load before {}; {}; weir {}",
        machine.cpu,
        machine.cores,
        record.environment.memory_mib,
        machine.kernel,
        machine.dpdk,
        record.environment.load_before,
        record.report.date,
        record.report.commit
    )
}

/// What a case says beside its figures.
fn remarks(case: &CaseRecord) -> Vec<String> {
    let absent = case.not_available.iter().map(|why| format!("not available here: {why}"));
    let failed = case.failures.iter().map(|why| format!("run {why}"));
    let counters: Vec<_> = case.counters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let counters = (!counters.is_empty()).then(|| format!("counted: {}", counters.join(", ")));
    let ports = case.ports.iter().map(ToString::to_string);
    absent.chain(failed).chain(case.notes.iter().cloned()).chain(ports).chain(counters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Environment, Median};
    use crate::report::{Better, Report};
    use crate::rig::Rig;
    use crate::scenario::{Curve, Samples};
    use crate::witness::RATE;
    use std::collections::BTreeMap;

    static TIME: Plot = Plot { name: "ping", title: "Ping", x: "s", y: "ms", log: true, by_case: false };
    static SHARE: Plot = Plot { name: "cdf", title: "Share", x: "ms", y: "share", log: true, by_case: false };

    fn record() -> Record {
        let text = "name = \"tap\"\nkind = \"tap\"\nsummary = \"s\"\ncannot-show = [\"a <ring>\"]\n[needs]\n";
        let case = |name: &str, value: f64| CaseRecord {
            name: name.into(),
            label: name.to_uppercase(),
            medians: vec![Median {
                name: "ping_p99".into(),
                value,
                spread: 0.5,
                unit: "ms",
                better: Better::Lower,
            }],
            curves: vec![Curve { plot: &TIME, label: "be".into(), points: vec![(0.0, 1.0), (1.0, value)] }],
            samples: vec![Samples { plot: &SHARE, label: "be".into(), values: vec![value, 1.0] }],
            commands: vec!["ping PEER".into()],
            accounts: vec![RATE.by("iperf3", 100.0), RATE.by("weir", 100.0 - value / 10.0)],
            ..CaseRecord::default()
        };
        let far = CaseRecord {
            name: "far".into(),
            not_available: Some("apt-get install far".into()),
            ..case("far", 0.0)
        };
        let far = CaseRecord { medians: vec![], accounts: vec![], curves: vec![], samples: vec![], ..far };
        let verdict = Verdict {
            says: "<it> waits".into(),
            is: Is::Fault,
            case: "fifo".into(),
            value_name: "ping_p99".into(),
            value: Some(99.0),
            unit: "ms".into(),
            sense: Sense::AtLeast,
            bound: Some(25.0),
            met: Some(true),
        };
        let experiment = Experiment {
            scenario: "try".into(),
            about: "tries".into(),
            rig: Rig::parse(Path::new("tap.toml"), text).unwrap(),
            seconds: 1,
            repeats: 2,
            missing: vec![],
            cases: vec![case("fifo", 99.0), case("cake", 1.5), far],
            verdicts: vec![verdict],
        };
        Record {
            report: Report::new(vec![]).unwrap(),
            environment: Environment::look(),
            repeats: BTreeMap::new(),
            experiments: vec![experiment],
        }
    }

    #[test]
    fn the_page_is_whole_and_by_itself() {
        let page = html::page(&record());
        for expected in [
            "shown",
            "1 of 1 faults shown",
            "&lt;it&gt; waits",
            "99 ± 0.25",
            "apt-get install far",
            "a &lt;ring&gt;",
            "ping PEER",
        ] {
            assert!(page.contains(expected), "{expected} is missing");
        }
        let verdict = page.find("&lt;it&gt; waits").unwrap();
        assert!(verdict < page.find("<table").unwrap(), "the verdict comes first");
        for outside in ["src=", "href=\"http", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("prefers-color-scheme:dark"));
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn witnesses_that_disagree_are_shown() {
        let record = record();
        let hearings = hearings(&record.experiments[0]);
        assert_eq!(hearings.len(), 1);
        assert_eq!(hearings[0].rows[1].1, ["90.1", "99.8"], "far was not heard");
        assert_eq!(hearings[0].verdicts(), ["≠ 10 %", "agree"]);
        for page in [html::page(&record), markdown::page(&record)] {
            assert!(page.contains("where they disagree") && page.contains("≠ 10 %"), "{page}");
        }
    }

    #[test]
    fn files_say_the_same() {
        let folder = std::env::temp_dir().join(format!("hwtests-page-{}", std::process::id()));
        let page = write(&record(), &folder).unwrap();
        assert!(page.ends_with("report.html") && page.is_file());
        let markdown = fs::read_to_string(folder.join("report.md")).unwrap();
        assert!(
            markdown.contains("| ping p99, ms | 99 ± 0.25 | 1.50 ± 0.25 | not available here |"),
            "{markdown}"
        );
        assert!(markdown.contains("try-tap-ping-be.svg") && folder.join("try-tap-ping-be.svg").is_file());
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.join("result.json")).unwrap()).unwrap();
        for key in ["machine", "date", "commit", "results", "environment", "repeats", "experiments"] {
            assert!(!json[key].is_null(), "{key}");
        }
        assert_eq!(json["experiments"][0]["verdicts"][0]["is"], "fault");
        fs::remove_dir_all(folder).unwrap();
    }
}
