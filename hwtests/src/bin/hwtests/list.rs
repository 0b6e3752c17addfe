//! `hwtests list`.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use hwtests::campaign::missing;
use hwtests::rig::Rig;
use hwtests::scenario::{self, Bound, Is, Scenario, Sense};

use crate::find;

/// Everything there is, or one scenario in full.
pub(crate) fn list(scenario: Option<&str>, rigs: &[Rig], weir: &Path) -> Result<String> {
    match scenario {
        Some(name) => Ok(one(find(name)?, rigs, weir)),
        None => Ok(all(rigs, weir)),
    }
}

fn all(rigs: &[Rig], weir: &Path) -> String {
    let mut text = "Scenarios (hwtests list SCENARIO for its cases):\n".to_owned();
    for scenario in scenario::all() {
        let kinds: Vec<_> = scenario.kinds.iter().map(ToString::to_string).collect();
        let _ =
            writeln!(text, "  {:<20}{}\n{:22}on {}", scenario.name, scenario.summary, "", kinds.join(", "));
    }
    text.push_str("\nRigs:\n");
    for rig in rigs {
        let _ = writeln!(text, "  {:<20}{}", rig.name, rig.summary);
        let missing = rig.missing();
        let state = if missing.is_empty() { "can run here" } else { "can't run here:" };
        let _ = writeln!(text, "{:22}{state}", "");
        for what in missing {
            let _ = writeln!(text, "{:24}{what}", "");
        }
        if let Some(driver) = &rig.driver {
            let _ = writeln!(text, "{:22}{driver}", "");
        }
        for blind in &rig.cannot_show {
            let _ = writeln!(text, "{:22}can't show {blind}", "");
        }
    }
    if !weir.is_file() {
        let _ = writeln!(text, "\nno {}: build it (cargo build --release -p weir)", weir.display());
    }
    text
}

fn one(scenario: &Scenario, rigs: &[Rig], weir: &Path) -> String {
    let mut text = format!(
        "{}: {}\n\n{}\n\n{} s each, {} repeats\n",
        scenario.name, scenario.summary, scenario.about, scenario.seconds, scenario.repeats
    );
    for rig in rigs.iter().filter(|rig| scenario.kinds.contains(&rig.kind)) {
        let cases = (scenario.cases)(rig);
        let minutes =
            f64::from((scenario.takes)(scenario.seconds) * scenario.repeats) * cases.len() as f64 / 60.0;
        let _ = writeln!(text, "\nOn {} (about {minutes:.0} min):", rig.name);
        for what in missing(scenario, rig, weir) {
            let _ = writeln!(text, "  can't run here: {what}");
        }
        for case in cases {
            let _ = writeln!(text, "  {:<18}{}", case.name, case.with.settings());
            if let Some(why) = case.with.missing() {
                let _ = writeln!(text, "{:20}not available here: {why}", "");
            }
        }
        for bar in (scenario.bars)(rig) {
            let kind = match bar.is {
                Is::Fault => "fault to show",
                Is::Cure => "cure",
                Is::Promise => "promise",
            };
            let sign = if bar.sense == Sense::AtMost { "<=" } else { ">=" };
            let bound = match bar.bound {
                Bound::Fixed(bound) => bound.to_string(),
                Bound::Times(factor, case, value) => format!("{factor} x {value} of {case}"),
                Bound::Plus(more, case, value) => format!("{value} of {case} + {more}"),
            };
            let _ = writeln!(text, "  {kind}: {} {} {sign} {bound}: {}", bar.case, bar.value, bar.says);
        }
    }
    text
}
