//! The runner: cases in turn, repeats, time left, verdicts.
//!
//! Cases take turns within each repeat, so that a busy machine hits them alike, and each repeat begins with another
//! case. A run that fails is recorded and the others go on; a signal ends everything at once, and every run has
//! taken away what it made by then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::clock::{Interrupt, Interrupted, now};
use crate::progress::Progress;
use crate::record::{CaseRecord, Experiment, Median, PortRecord, Verdict};
use crate::report::{Better, Figure};
use crate::rig::Rig;
use crate::scenario::{Bar, Bound, Case, Is, Measured, Run, Samples, Scenario, Sense};
use crate::stats::{median, spread};
use crate::witness::Account;

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Names of cases, or none for all.
    pub cases: Vec<String>,
    /// Instead of the scenario's default.
    pub seconds: Option<u32>,
    /// Instead of the scenario's default.
    pub repeats: Option<u32>,
    /// For configurations and logs.
    pub folder: PathBuf,
    /// The weir binary.
    pub weir: PathBuf,
    /// PCI ports to take though they are in use.
    pub allowed_ports: Vec<String>,
}

/// An experiment that is over: what to report, and its figures.
#[derive(Debug)]
pub struct Finished {
    /// What to report.
    pub experiment: Experiment,
    /// With the names `SCENARIO.RIG.CASE.VALUE`.
    pub figures: Vec<Figure>,
    /// Every repeat of each figure.
    pub repeats: BTreeMap<String, Vec<f64>>,
}

/// All runs of one case.
struct Runs {
    case: Case,
    not_available: Option<String>,
    failures: Vec<String>,
    done: Vec<Measured>,
    /// Of each of these.
    ports: Vec<Vec<PortRecord>>,
}

/// Runs a scenario on a rig.
///
/// # Errors
/// [`Interrupted`]; an unknown case; a folder that cannot be made. What is missing, or fails, is in the record.
pub fn run(
    scenario: &Scenario,
    rig: &Rig,
    wish: &Wish,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> Result<Finished> {
    let (seconds, repeats) =
        (wish.seconds.unwrap_or(scenario.seconds), wish.repeats.unwrap_or(scenario.repeats));
    let missing = missing(scenario, rig, &wish.weir);
    let mut runs = chosen(scenario, rig, &wish.cases)?;
    if missing.is_empty() {
        let folder = wish.folder.join(format!("{}-{}", scenario.name, rig.name));
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut turns = Turns { scenario, rig, wish, folder: &folder, seconds, progress, interrupt };
        turns.all(&mut runs, repeats)?;
    }
    Ok(finish(scenario, rig, seconds, repeats, missing, runs))
}

/// Why a scenario can't run on a rig here; empty if it can.
pub fn missing(scenario: &Scenario, rig: &Rig, weir: &Path) -> Vec<String> {
    if !scenario.kinds.contains(&rig.kind) {
        let kinds: Vec<_> = scenario.kinds.iter().map(ToString::to_string).collect();
        return vec![format!(
            "{} does not run on a rig of kind {}: choose one of kind {}",
            scenario.name,
            rig.kind,
            kinds.join(", ")
        )];
    }
    let mut missing = rig.missing();
    if !weir.is_file() {
        missing.push(format!(
            "no {}: build it (cargo build --release -p weir) or name it with --weir FILE",
            weir.display()
        ));
    }
    missing
}

fn chosen(scenario: &Scenario, rig: &Rig, names: &[String]) -> Result<Vec<Runs>> {
    let cases = (scenario.cases)(rig);
    for name in names {
        let known: Vec<_> = cases.iter().map(|case| case.name).collect();
        ensure!(
            known.contains(&name.as_str()),
            "{} has no case {name:?}; there are: {}",
            scenario.name,
            known.join(", ")
        );
    }
    let wanted = |case: &Case| names.is_empty() || names.iter().any(|name| name == case.name);
    let runs = cases.into_iter().filter(wanted);
    Ok(runs
        .map(|case| Runs {
            not_available: case.with.missing(),
            case,
            failures: Vec::new(),
            done: Vec::new(),
            ports: Vec::new(),
        })
        .collect())
}

/// Where a campaign is.
struct Turns<'a> {
    scenario: &'a Scenario,
    rig: &'a Rig,
    wish: &'a Wish,
    folder: &'a Path,
    seconds: u32,
    progress: &'a mut Progress,
    interrupt: &'a Interrupt,
}

impl Turns<'_> {
    fn all(&mut self, runs: &mut [Runs], repeats: u32) -> Result<()> {
        let ready: Vec<usize> = (0..runs.len()).filter(|&at| runs[at].not_available.is_none()).collect();
        let total = ready.len() * repeats as usize;
        let (began, mut done) = (now(), 0);
        for repeat in 0..repeats as usize {
            for turn in 0..ready.len() {
                let at = ready[(turn + repeat) % ready.len()];
                // Measured times so far know more than the estimate.
                let each = match done {
                    0 => f64::from((self.scenario.takes)(self.seconds)),
                    done => now().duration_since(began).as_secs_f64() / done as f64,
                };
                let left = Duration::from_secs_f64(each * (total - done) as f64);
                self.one(&mut runs[at], repeat, &format!("{}/{total}", done + 1), left)?;
                done += 1;
            }
        }
        Ok(())
    }

    fn one(&mut self, runs: &mut Runs, repeat: usize, which: &str, left: Duration) -> Result<()> {
        let end = now() + left;
        let head = format!(
            "[{which}] {} on {}: {} #{}",
            self.scenario.name,
            self.rig.name,
            runs.case.name,
            repeat + 1
        );
        let progress = &mut *self.progress;
        let mut stage = String::new();
        let mut say = |what: &str| {
            let left = end.saturating_duration_since(now()).as_secs();
            let line = format!("{head}: {what}; about {}:{:02} left", left / 60, left % 60);
            // Where nobody watches, figures that change are printed now and then, a new stage always.
            let words: String = what.chars().filter(|letter| letter.is_alphabetic()).collect();
            if words == stage {
                progress.tick(&line)
            } else {
                progress.stage(&line)
            }
            stage = words;
        };
        let mut run = Run {
            rig: self.rig,
            case: &runs.case,
            seconds: self.seconds,
            folder: self.folder,
            weir: &self.wish.weir,
            allowed_ports: &self.wish.allowed_ports,
            interrupt: self.interrupt,
            ports: Vec::new(),
            say: &mut say,
        };
        let measured = (self.scenario.measure)(&mut run);
        let ports = run.ports;
        match measured {
            Ok(measured) => {
                runs.ports.push(ports);
                runs.done.push(measured);
            }
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => runs.failures.push(format!("#{}: {error:#}", repeat + 1)),
        }
        self.interrupt.check()
    }
}

fn finish(
    scenario: &Scenario,
    rig: &Rig,
    seconds: u32,
    repeats: u32,
    missing: Vec<String>,
    runs: Vec<Runs>,
) -> Finished {
    let peers: Vec<_> = runs.iter().map(|runs| runs.case.peer).collect();
    let all: BTreeMap<String, Vec<f64>> = runs.iter().flat_map(|runs| by_name(scenario, rig, runs)).collect();
    let cases: Vec<_> = runs.into_iter().map(Runs::record).collect();
    let verdicts: Vec<_> = (scenario.bars)(rig).iter().filter_map(|bar| verdict(bar, &cases)).collect();
    let mut figures = Vec::new();
    for (case, peer) in cases.iter().zip(peers) {
        for median in &case.medians {
            let name = format!("{}.{}.{}.{}", scenario.name, rig.name, case.name, median.name);
            let mut figure =
                Figure::new(name, median.value, median.unit, median.better).spread(median.spread);
            if let Some(verdict) = verdicts.iter().find(|verdict| verdict.is_about(case, median)) {
                (figure.bar, figure.holds) = (verdict.bound, verdict.met);
            }
            if let Some((peer, value)) =
                peer.and_then(|peer| Some((peer, value_of(&cases, peer, &median.name)?)))
            {
                figure = figure.peer(peer, value);
            }
            figures.push(figure);
        }
    }
    let experiment = Experiment {
        scenario: scenario.name.into(),
        about: scenario.about.into(),
        rig: rig.clone(),
        seconds,
        repeats,
        missing,
        cases,
        verdicts,
    };
    Finished { experiment, figures, repeats: all }
}

impl Verdict {
    /// Whether a figure's own bar is this one: that of a fault is no bar of the figure, it lies the other way.
    fn is_about(&self, case: &CaseRecord, median: &Median) -> bool {
        let way = match median.better {
            Better::Lower => Sense::AtMost,
            Better::Higher => Sense::AtLeast,
        };
        self.is != Is::Fault && self.sense == way && self.case == case.name && self.value_name == median.name
    }
}

fn by_name<'a>(
    scenario: &'a Scenario,
    rig: &'a Rig,
    runs: &'a Runs,
) -> impl Iterator<Item = (String, Vec<f64>)> + 'a {
    runs.names().into_iter().map(move |name| {
        let values = runs.values(&name);
        (format!("{}.{}.{}.{name}", scenario.name, rig.name, runs.case.name), values)
    })
}

impl Runs {
    /// Names of values in the order of the first run.
    fn names(&self) -> Vec<String> {
        self.done
            .first()
            .map_or(Vec::new(), |run| run.values.iter().map(|value| value.name.clone()).collect())
    }

    fn values(&self, name: &str) -> Vec<f64> {
        let found = self.done.iter().flat_map(|run| &run.values).filter(|value| value.name == name);
        found.map(|value| value.value).collect()
    }

    fn record(self) -> CaseRecord {
        let medians = self.done.first().map_or(Vec::new(), |first| {
            let sum = |value: &crate::scenario::Value| {
                let values = self.values(&value.name);
                Median {
                    name: value.name.clone(),
                    value: median(&values),
                    spread: spread(&values),
                    unit: value.unit,
                    better: value.better,
                }
            };
            first.values.iter().map(sum).collect()
        });
        let (counters, accounts) = (self.counters(), self.accounts());
        let mut record = CaseRecord {
            name: self.case.name.into(),
            label: self.case.label.clone(),
            settings: self.case.with.settings(),
            not_available: self.not_available,
            failures: self.failures,
            medians,
            accounts,
            counters,
            ports: self.ports.into_iter().next().unwrap_or_default(),
            ..CaseRecord::default()
        };
        for (at, run) in self.done.into_iter().enumerate() {
            run.samples.into_iter().for_each(|samples| record.add(samples));
            if at == 0 {
                (record.curves, record.commands, record.notes) = (run.curves, run.commands, run.notes);
            }
        }
        record
    }

    fn accounts(&self) -> Vec<Account> {
        let first = self.done.first().map_or(&[][..], |run| &run.accounts);
        let same = |account: &Account| {
            let all = self.done.iter().flat_map(|run| &run.accounts);
            let same = all.filter(|found| found.of == account.of && found.by == account.by);
            median(&same.map(|found| found.value).collect::<Vec<_>>())
        };
        first.iter().map(|account| Account { value: same(account), ..*account }).collect()
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for counters in self.done.iter().filter_map(|run| run.counters) {
            let mut add = |name: &str, value| *sums.entry(name.to_owned()).or_insert(0) += value;
            add("drops", counters.drops);
            add("marks", counters.marks);
            add("missed", counters.missed);
            add("poll_gaps_over_1ms", counters.poll_gaps);
            let longest = sums.entry("poll_gap_max_us".to_owned()).or_insert(0);
            *longest = counters.poll_gap_max_us.max(*longest);
        }
        sums
    }
}

impl CaseRecord {
    fn add(&mut self, samples: Samples) {
        let same = |found: &&mut Samples| found.plot == samples.plot && found.label == samples.label;
        match self.samples.iter_mut().find(same) {
            Some(found) => found.values.extend(samples.values),
            None => self.samples.push(samples),
        }
    }
}

fn value_of(cases: &[CaseRecord], case: &str, name: &str) -> Option<f64> {
    let case = cases.iter().find(|found| found.name == case)?;
    case.medians.iter().find(|median| median.name == name).map(|median| median.value)
}

/// None when the user left the case out.
fn verdict(bar: &Bar, cases: &[CaseRecord]) -> Option<Verdict> {
    let case = cases.iter().find(|case| case.name == bar.case)?;
    let median = case.medians.iter().find(|median| median.name == bar.value);
    let value = median.map(|median| median.value);
    let bound = match bar.bound {
        Bound::Fixed(bound) => Some(bound),
        Bound::Times(factor, case, name) => value_of(cases, case, name).map(|other| factor * other),
        Bound::Plus(more, case, name) => value_of(cases, case, name).map(|other| other + more),
    };
    let met = value.zip(bound).map(|(value, bound)| match bar.sense {
        Sense::AtMost => value <= bound,
        Sense::AtLeast => value >= bound,
    });
    Some(Verdict {
        says: bar.says.clone(),
        is: bar.is,
        case: bar.case.into(),
        value_name: bar.value.into(),
        value,
        unit: median.map_or("", |median| median.unit).into(),
        sense: bar.sense,
        bound,
        met,
    })
}

/// An error that lists every run that failed and every rig that could not run, if there is one.
///
/// # Errors
/// That.
pub fn verdict_of_runs(experiments: &[Experiment]) -> Result<()> {
    let failures: Vec<_> = experiments
        .iter()
        .flat_map(|experiment| {
            let name = format!("{} on {}", experiment.scenario, experiment.rig.name);
            let missing = experiment.missing.iter().map(|what| format!("{name}: {what}")).collect::<Vec<_>>();
            let failed = experiment.cases.iter().flat_map(|case| {
                case.failures.iter().map(|why| format!("{name}, {} {why}", case.name)).collect::<Vec<_>>()
            });
            missing.into_iter().chain(failed).collect::<Vec<_>>()
        })
        .collect();
    if failures.is_empty() {
        return Ok(());
    }
    bail!("not everything could be measured:\n  {}", failures.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Kind;
    use crate::scenario::With;
    use std::cell::RefCell;

    thread_local! {
        static ORDER: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    static SCENARIO: Scenario = Scenario {
        name: "try",
        summary: "",
        about: "",
        kinds: &[Kind::Tap],
        seconds: 1,
        repeats: 3,
        takes: |seconds| seconds,
        cases: |rig| {
            vec![
                Case::weir("bad", "bad", "qdisc = \"fifo\"", rig.bandwidth_mbit),
                Case::weir("good", "good", "", 1).against("bad"),
                Case { name: "far", label: "far".into(), with: With::Absent("buy one"), peer: None },
            ]
        },
        measure: |run| {
            let at = ORDER.with_borrow_mut(|order| {
                order.push(run.case.name);
                order.len() as f64
            });
            anyhow::ensure!(at < 6.0, "the last one breaks");
            let mut measured = Measured::default();
            measured.lower("delay", if run.case.name == "bad" { 100.0 + at } else { at }, "ms");
            Ok(measured)
        },
        bars: |_| {
            let bar =
                |case, sense, bound, is| Bar { case, value: "delay", sense, bound, is, says: "s".into() };
            vec![
                bar("bad", Sense::AtLeast, Bound::Fixed(50.0), Is::Fault),
                bar("good", Sense::AtMost, Bound::Times(0.1, "bad", "delay"), Is::Cure),
                bar("far", Sense::AtMost, Bound::Fixed(1.0), Is::Promise),
            ]
        },
    };

    fn finished() -> Finished {
        let text = "name = \"tap\"\nkind = \"tap\"\nsummary = \"s\"\ncannot-show = []\n[needs]\n";
        let rig = Rig::parse(Path::new("tap.toml"), text).unwrap();
        let folder = std::env::temp_dir().join(format!("hwtests-campaign-{}", std::process::id()));
        let wish = Wish {
            cases: vec![],
            seconds: None,
            repeats: None,
            folder: folder.clone(),
            weir: "/bin/sh".into(),
            allowed_ports: vec![],
        };
        let finished =
            run(&SCENARIO, &rig, &wish, &mut Progress::new(), &Interrupt::install().unwrap()).unwrap();
        fs::remove_dir_all(folder).unwrap();
        finished
    }

    #[test]
    fn cases_take_turns_and_every_bar_gets_its_word() {
        let finished = finished();
        let order = ORDER.with_borrow(Clone::clone);
        assert_eq!(order, ["bad", "good", "good", "bad", "bad", "good"]);
        let words: Vec<_> = finished.experiment.verdicts.iter().map(Verdict::word).collect();
        assert_eq!(words, ["shown", "cured", "not measured"]);
        let names: Vec<_> = finished.figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["try.tap.bad.delay", "try.tap.good.delay"]);
        let (bad, good) = (&finished.figures[0], &finished.figures[1]);
        assert_eq!(
            (bad.value, bad.spread, bad.bar),
            (104.0, Some(4.0), None),
            "a fault is no bar of the figure"
        );
        assert_eq!((good.value, good.holds), (2.5, Some(true)));
        assert_eq!(good.peer.as_ref().unwrap().value, 104.0);
        assert_eq!(finished.repeats["try.tap.good.delay"], [2.0, 3.0]);
        let cases = &finished.experiment.cases;
        assert_eq!(cases[1].failures, ["#3: the last one breaks"]);
        assert_eq!(cases[2].not_available.as_deref(), Some("buy one"));
        let error = verdict_of_runs(&[finished.experiment]).unwrap_err().to_string();
        assert!(error.contains("try on tap, good #3: the last one breaks"), "{error}");
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let text = "name = \"ring\"\nkind = \"ring\"\nsummary = \"s\"\ncannot-show = []\n[needs]\n";
        let rig = Rig::parse(Path::new("ring.toml"), text).unwrap();
        let missing = missing(&SCENARIO, &rig, Path::new("/no/weir"));
        assert_eq!(missing, ["try does not run on a rig of kind ring: choose one of kind tap"]);
        let Err(unknown) = chosen(&SCENARIO, &rig, &["ugly".into()]) else { panic!("an unknown case") };
        assert_eq!(unknown.to_string(), "try has no case \"ugly\"; there are: bad, good, far");
    }
}
