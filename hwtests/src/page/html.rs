//! The page.

use std::fmt::Write;

use super::{charts, heard, hearings, machine, measured, remarks, rows, sum};
use crate::chart::{self, escape};
use crate::record::{Experiment, Record, Verdict};
use crate::witness::Quantity;

/// The whole page.
pub(super) fn page(record: &Record) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>weir hwtests, {}</title>\n<style>{}{}</style>\n\
         <h1>weir hwtests</h1>\n<p class=\"where\">{}</p>\n",
        escape(&record.report.date),
        chart::style(),
        STYLE,
        escape(&machine(record))
    );
    let _ = writeln!(page, "<p class=\"sum\">{}</p>", escape(&sum(record)));
    for experiment in &record.experiments {
        let _ = writeln!(page, "<h2>{} on {}</h2>", experiment.scenario, escape(&experiment.rig.name));
        verdicts(&mut page, experiment);
    }
    for experiment in &record.experiments {
        details(&mut page, experiment);
    }
    repeat(&mut page, record);
    page
}

fn verdicts(page: &mut String, experiment: &Experiment) {
    for missing in &experiment.missing {
        let _ = writeln!(page, "<p class=\"bad\">could not run: {}</p>", escape(missing));
    }
    if experiment.verdicts.is_empty() && experiment.missing.is_empty() {
        page.push_str("<p>No bar: reported, not judged.</p>\n");
    }
    page.push_str("<ul class=\"verdicts\">\n");
    for verdict in &experiment.verdicts {
        let _ = writeln!(
            page,
            "<li class=\"{}\"><b>{}</b><span>{} <small>{}</small></span></li>",
            class(verdict),
            verdict.word(),
            escape(&verdict.says),
            escape(&measured(verdict))
        );
    }
    page.push_str("</ul>\n");
}

fn class(verdict: &Verdict) -> &'static str {
    match verdict.met {
        Some(true) => "good",
        Some(false) => "bad",
        None => "open",
    }
}

fn details(page: &mut String, experiment: &Experiment) {
    let _ = writeln!(
        page,
        "<h2>{} on {}: figures</h2>\n<p>{}</p>\n<p>{} s each, {} repeats in turns, medians ± half the spread. \
         This rig can't show:</p>\n<ul>",
        experiment.scenario,
        escape(&experiment.rig.name),
        escape(&experiment.about),
        experiment.seconds,
        experiment.repeats
    );
    for blind in &experiment.rig.cannot_show {
        let _ = writeln!(page, "<li>{}</li>", escape(blind));
    }
    page.push_str("</ul>\n<div class=\"wide\"><table><tr><th></th>");
    for case in &experiment.cases {
        let _ = write!(page, "<th>{}</th>", escape(&case.label));
    }
    page.push_str("</tr>\n");
    for (name, cells) in rows(experiment) {
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(page, "<tr><th>{}</th>{cells}</tr>", escape(&name));
    }
    page.push_str("</table></div>\n");
    witnesses(page, experiment);
    page.push_str("<div class=\"charts\">\n");
    for chart in charts(experiment) {
        page.push_str(&chart::svg(&chart.frame, &chart.lines));
    }
    page.push_str("</div>\n<details><summary>Settings, commands, counters</summary>\n");
    for case in &experiment.cases {
        let _ = writeln!(
            page,
            "<h3>{}</h3>\n<p><code>{}</code></p>",
            escape(&case.label),
            escape(&case.settings)
        );
        for remark in remarks(case) {
            let _ = writeln!(page, "<p>{}</p>", escape(&remark));
        }
        if !case.commands.is_empty() {
            let _ = writeln!(page, "<pre>{}</pre>", escape(&case.commands.join("\n")));
        }
    }
    let rig = toml::to_string(&experiment.rig).unwrap_or_default();
    let _ = writeln!(page, "<h3>Rig</h3>\n<pre>{}</pre>\n</details>", escape(&rig));
}

fn witnesses(page: &mut String, experiment: &Experiment) {
    let hearings = hearings(experiment);
    if hearings.is_empty() {
        return;
    }
    page.push_str("<h3>Witnesses, and where they disagree</h3>\n<div class=\"wide\"><table>\n");
    let labels: String = heard(experiment).map(|case| format!("<th>{}</th>", escape(&case.label))).collect();
    for hearing in &hearings {
        let _ = writeln!(page, "<tr class=\"head\"><th>{}</th>{labels}</tr>", escape(&hearing.title()));
        for (by, cells) in &hearing.rows {
            let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
            let _ = writeln!(page, "<tr><th>{}</th>{cells}</tr>", escape(by));
        }
        let words = hearing.verdicts().into_iter().zip(&hearing.apart);
        let cells = words.map(|(word, apart)| {
            format!("<td{}>{word}</td>", if apart.is_disagreement() { " class=\"bad\"" } else { "" })
        });
        let _ = writeln!(page, "<tr class=\"apart\"><th>apart</th>{}</tr>", cells.collect::<String>());
    }
    page.push_str("</table></div>\n<ul>\n");
    for hearing in hearings {
        let Quantity { name, differ, .. } = hearing.quantity;
        let _ = writeln!(page, "<li>{}: {}.</li>", escape(name), escape(differ));
    }
    page.push_str("</ul>\n");
}

fn repeat(page: &mut String, record: &Record) {
    let tools: Vec<_> =
        record.environment.tools.iter().map(|(name, version)| format!("{name}: {version}")).collect();
    let _ = writeln!(
        page,
        "<h2>To repeat it</h2>\n<pre>{}</pre>\n<p>At commit {}. {}.</p>",
        escape(&record.environment.command.join(" ")),
        escape(&record.report.commit),
        escape(&tools.join("; "))
    );
}

const STYLE: &str = "\
body{font:15px/1.5 sans-serif;color:var(--ink);background:var(--paper);max-width:1280px;margin:2em auto;padding:0 1em}\
h1{margin-bottom:0}.where,small{color:var(--grey)}.sum{font-weight:bold}.verdicts{list-style:none;padding:0}\
.verdicts li{display:grid;grid-template-columns:6.5em 1fr;padding:.3em .6em;margin:.2em 0;border-left:5px solid var(--grey)}\
.good{border-color:var(--good)!important}.good b{color:var(--good)}.bad{border-color:var(--bad)!important}\
.bad,.bad b{color:var(--bad)}li.bad{color:inherit}\
.wide{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.25em .7em;border-bottom:1px solid var(--line)}\
td{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}th{text-align:left}\
tr>th:first-child{position:sticky;left:0;background:var(--paper)}.head th{padding-top:1em}.head th:not(:first-child){text-align:right}\
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(420px,100%),1fr));gap:1em;margin:1em 0}\
pre{overflow-x:auto;border:1px solid var(--line);padding:.6em}";
