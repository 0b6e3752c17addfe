//! The same in Markdown, and its first half for the terminal.

use std::fmt::Write;

use super::{charts, heard, hearings, machine, measured, remarks, rows, sum};
use crate::record::{Experiment, Record};

/// The whole report.
pub(super) fn page(record: &Record) -> String {
    let mut page = format!("# weir hwtests\n\n{}\n", summary(record));
    for experiment in &record.experiments {
        details(&mut page, experiment);
    }
    let _ = writeln!(
        page,
        "\n## To repeat it\n\nAt commit {}:\n\n    {}",
        record.report.commit,
        record.environment.command.join(" ")
    );
    page
}

/// Machine, verdicts and tables.
pub(super) fn summary(record: &Record) -> String {
    let mut text = format!("{}\n\n{}\n", machine(record), sum(record));
    for experiment in &record.experiments {
        let _ = writeln!(text, "\n## {} on {}\n", experiment.scenario, experiment.rig.name);
        for missing in &experiment.missing {
            let _ = writeln!(text, "* could not run: {missing}");
        }
        for verdict in &experiment.verdicts {
            let _ = writeln!(text, "* **{}**: {}; {}", verdict.word(), verdict.says, measured(verdict));
        }
        for case in &experiment.cases {
            for remark in case.not_available.iter().chain(&case.failures) {
                let _ = writeln!(text, "* {}: {remark}", case.label);
            }
        }
        table(&mut text, experiment);
    }
    text
}

fn table(text: &mut String, experiment: &Experiment) {
    let rows = rows(experiment);
    if rows.is_empty() {
        return;
    }
    let labels: Vec<_> = experiment.cases.iter().map(|case| case.label.as_str()).collect();
    let _ = writeln!(text, "\n| | {} |\n|---|{}", labels.join(" | "), "---:|".repeat(labels.len()));
    for (name, cells) in rows {
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
}

fn details(page: &mut String, experiment: &Experiment) {
    let _ = writeln!(
        page,
        "\n## {} on {}: more\n\n{}\n",
        experiment.scenario, experiment.rig.name, experiment.about
    );
    let _ = writeln!(
        page,
        "{} s each, {} repeats. This rig can't show:\n",
        experiment.seconds, experiment.repeats
    );
    for blind in &experiment.rig.cannot_show {
        let _ = writeln!(page, "* {blind}");
    }
    witnesses(page, experiment);
    page.push('\n');
    for chart in charts(experiment) {
        let _ = writeln!(page, "![{}]({})", chart.frame.title, chart.file);
    }
    for case in &experiment.cases {
        let _ = writeln!(page, "\n### {}\n\n`{}`\n", case.label, case.settings);
        for remark in remarks(case) {
            let _ = writeln!(page, "* {remark}");
        }
        if !case.commands.is_empty() {
            let _ = writeln!(page, "\n    {}", case.commands.join("\n    "));
        }
    }
}

fn witnesses(page: &mut String, experiment: &Experiment) {
    let hearings = hearings(experiment);
    if hearings.is_empty() {
        return;
    }
    page.push_str("\nWitnesses, and where they disagree:\n");
    let labels: Vec<_> = heard(experiment).map(|case| case.label.as_str()).collect();
    for hearing in &hearings {
        let (title, differ) = (hearing.title(), hearing.quantity.differ);
        let _ =
            writeln!(page, "\n| {title} | {} |\n|---|{}", labels.join(" | "), "---:|".repeat(labels.len()));
        for (by, cells) in &hearing.rows {
            let _ = writeln!(page, "| {by} | {} |", cells.join(" | "));
        }
        let _ = writeln!(page, "| **apart** | {} |\n\n({differ})", hearing.verdicts().join(" | "));
    }
}
