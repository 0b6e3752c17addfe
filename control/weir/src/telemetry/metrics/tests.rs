//! The text as others read it: an independent reader, `promtool`, the dashboard and the alerts of `configs/`.

mod reader;
mod sample;

use super::text;
use crate::report::{Report, snapshot};
use crate::telemetry::delays::Until;
use reader::{read, value};
use sample::{ODD, delays, hdr, report};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn whole() -> String {
    let (report, counts) = (report(2, false), hdr(1_800));
    text(&report, &delays(&report, &counts))
}

#[test]
fn values_are_those_of_the_report_in_base_units() {
    let families = read(&whole());
    let up = [("link", ODD), ("direction", "up")];
    let of = |name: &str, more: &[(&str, &str)]| value(&families, name, &[&up[..], more].concat());
    assert_eq!(of("weir_sent_bytes_total", &[]), 4_900_000.0);
    assert_eq!(of("weir_backlog_packets", &[]), 40.0);
    assert_eq!(of("weir_bandwidth_bytes_per_second", &[]), 12_500_000.0);
    assert_eq!(of("weir_limiter_lost_seconds_total", &[]), 2.5);
    assert_eq!(of("weir_dropped_packets_total", &[("reason", "codel")]), 40.0);
    assert_eq!(of("weir_dropped_packets_total", &[("reason", "link-down")]), 0.0, "there before it happens");
    assert_eq!(of("weir_ecn_marks_total", &[("tin", "Tin 7")]), 17.0);
    assert_eq!(of("weir_tin_queued_packets_total", &[("tin", "Tin 2")]), 1_002.0);
    assert_eq!(of("weir_super_pieces_total", &[("segments", "2-3")]), 9.0);
    assert_eq!(of("weir_bql_limit_bytes", &[("port", "b"), ("queue", "0")]), 12_500.0);
    let down = |name: &str, more: (&str, &str)| {
        value(&families, name, &[("link", ODD), ("direction", "down"), more])
    };
    assert_eq!(down("weir_ecn_marks_total", ("tin", "all")), 77.0, "fq_codel has no tins");
    assert_eq!(down("weir_bql_inflight_bytes", ("port", "a")), 4_542.0);
    let b = [("link", "link1"), ("port", "b")];
    assert_eq!(value(&families, "weir_port_speed_bytes_per_second", &b), 1.25e9);
    assert_eq!(value(&families, "weir_port_missed_packets_total", &b), 17.0);
    assert_eq!(value(&families, "weir_mbuf_pool_in_use", &b), 512.0);
    let lcore = [("lcore", "2")];
    assert_eq!(value(&families, "weir_poll_gap_seconds_total", &lcore), 0.009);
    assert_eq!(value(&families, "weir_lcore_busy_seconds_total", &lcore), 0.5);
    assert_eq!(value(&families, "weir_lcore_turns_total", &lcore), (1_u64 << 60) as f64);
    assert_eq!(value(&families, "weir_build_info", &[("version", "0.1.0"), ("dpdk", "DPDK 22.11.11")]), 1.0);
    assert_eq!(value(&families, "weir_uptime_seconds", &[]), 12.25);
}

#[test]
fn what_is_lost_adds_up_over_the_reasons() {
    let families = read(&whole());
    let dropped = &families["weir_dropped_packets_total"].samples;
    let of_up = dropped.iter().filter(|s| s.labels["link"] == ODD && s.labels["direction"] == "up");
    assert_eq!(of_up.map(|sample| sample.value).sum::<f64>(), 60.0);
    let reasons: BTreeSet<_> = dropped.iter().map(|sample| &sample.labels["reason"]).collect();
    assert_eq!(reasons.len(), engine::counters::Loss::ALL.len());
}

#[test]
fn histograms_are_cumulative_and_counted_once() {
    let report = report(1, false);
    // 5 of 20 us, 3 of 4 ms, 1 beyond the last bound.
    let counts = [(20_000, 5), (4_005_887, 3), (12_000_000_000, 1)];
    let families = read(&text(&report, &delays(&report, &counts)));
    let name = "weir_sojourn_seconds_bucket";
    let tin = [("link", ODD), ("direction", "up"), ("tin", "Tin 3")];
    for (bound, expected) in
        [("0.00001", 0.0), ("0.00002", 5.0), ("0.002", 5.0), ("0.005", 8.0), ("10", 8.0), ("+Inf", 9.0)]
    {
        assert_eq!(value(&families, name, &[&tin[..], &[("le", bound)]].concat()), expected, "{bound}");
    }
    assert_eq!(value(&families, "weir_sojourn_seconds_count", &tin), 9.0);
    let sum = value(&families, "weir_sojourn_seconds_sum", &tin);
    assert!((sum / 12.012_118 - 1.0).abs() < 0.01, "{sum}");
    for family in ["weir_sojourn_seconds", "weir_nic_residence_seconds", "weir_total_seconds"] {
        let all: Vec<_> = families[family].samples.iter().filter(|s| s.name.ends_with("_count")).collect();
        // Eight tins up, none down; never the sum of tins beside them.
        assert_eq!(all.len(), 9, "{family}");
        assert_eq!(
            all.iter().filter(|s| s.labels["tin"] == "all" && s.labels["direction"] == "down").count(),
            1
        );
        for series in families[family].samples.chunk_by(|a, b| a.name == b.name && !a.name.ends_with("_sum"))
        {
            let buckets: Vec<_> = series.iter().filter(|sample| sample.name.ends_with("_bucket")).collect();
            assert!(buckets.is_sorted_by(|a, b| a.value <= b.value), "{family}");
        }
    }
}

#[test]
fn what_is_not_seen_has_no_sample() {
    let (report, none) = (report(1, true), []);
    let mut delays = delays(&report, &none);
    for delay in &mut delays {
        delay.until = if delay.direction == "up" { Until::Submission } else { Until::Completion };
    }
    let families = read(&text(&report, &delays));
    let directions = |family: &str| -> BTreeSet<_> {
        families[family].samples.iter().map(|sample| sample.labels["direction"].clone()).collect()
    };
    assert_eq!(directions("weir_sojourn_seconds").len(), 2, "nothing has waited, which is known");
    assert_eq!(directions("weir_nic_residence_seconds"), BTreeSet::from(["down".to_owned()]));
}

#[test]
fn each_family_has_the_name_and_the_help_of_its_type() {
    for (name, family) in read(&whole()) {
        assert!(name.starts_with("weir_"), "{name}");
        assert!(family.help.ends_with('.'), "{name}: {}", family.help);
        assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name} is a {}", family.kind);
        assert!(["counter", "gauge", "histogram"].contains(&family.kind.as_str()), "{name}");
        assert!(!family.samples.is_empty(), "{name}");
    }
}

#[test]
fn promtool_has_nothing_to_say() {
    promtool(&["check", "metrics"], &whole());
    promtool(&["check", "metrics"], &text(&Report::default(), &[]));
}

#[test]
fn alerts_are_right_and_fire_when_they_should() {
    let rules = configs("prometheus/weir.rules.yml");
    promtool(&["check", "rules", "--lint=all", "--lint-fatal", &rules.display().to_string()], "");
    promtool(&["test", "rules", &configs("prometheus/weir.test.yml").display().to_string()], "");
    let tested = std::fs::read_to_string(configs("prometheus/weir.test.yml")).unwrap();
    let rules = std::fs::read_to_string(rules).unwrap();
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 5);
    for alert in alerts {
        assert!(tested.contains(&format!("- name: {alert}\n")), "no test sees {alert} fire");
        assert!(tested.contains(&format!("alertname: {alert}, exp_alerts: []")), "no test sees {alert} rest");
    }
}

#[test]
fn dashboard_and_alerts_name_what_is_there() {
    let there: BTreeSet<_> = read(&whole())
        .into_values()
        .flat_map(|family| family.samples.into_iter().map(|sample| sample.name))
        .collect();
    for file in ["grafana/weir.json", "prometheus/weir.rules.yml", "prometheus/weir.test.yml"] {
        let text = std::fs::read_to_string(configs(file)).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let named: BTreeSet<_> = words.filter(|word| word.starts_with("weir_")).collect();
        assert!(named.len() > 5, "{file}");
        for name in named {
            assert!(there.contains(name), "{file} names {name}, which does not exist");
        }
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let text = std::fs::read_to_string(configs("grafana/weir.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut cells, mut rules) =
        (BTreeSet::new(), BTreeSet::new(), "groups:\n- name: x\n  rules:\n".to_owned());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let place = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        let [x, y, w, h] = place;
        assert!(x + w <= 24, "{title}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} lies over another panel");
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            let query = query.replace("$instance", ".*").replace("$link", ".*");
            assert!(!query.contains('$'), "{title}: {query}");
            rules += &format!("  - record: x{}\n    expr: {}\n", rules.len(), Value::String(query));
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "instance", "link"]);
    let file = std::env::temp_dir().join(format!("weir-panels-{}.yml", std::process::id()));
    std::fs::write(&file, rules).unwrap();
    promtool(&["check", "rules", "--lint=none", &file.display().to_string()], "");
    std::fs::remove_file(file).unwrap();
}

/// One line for each family in the order of the text: what a user reads to write a query.
#[test]
fn every_family_is_documented() {
    let text = whole();
    let families = read(&text);
    let mut table = include_str!("tests/METRICS.head.md").to_owned();
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        let family = &families[name];
        let labels: Vec<_> = family.samples[0].labels.keys().filter(|label| *label != "le").collect();
        let labels: Vec<_> = labels.into_iter().map(|label| format!("`{label}`")).collect();
        table += &format!("| `{name}` | {} | {} | {} |\n", family.kind, labels.join(" "), family.help);
    }
    snapshot("../../../../configs/prometheus/METRICS.md", &table);
}

/// What the text costs of eight links, eight tins each way, with a worker for each link and histograms of 1,800
/// buckets: `cargo test --release -p weir -- --ignored --nocapture cost_of_metrics`.
#[test]
#[ignore = "prints a timing, asserts none"]
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn cost_of_metrics() {
    let (report, counts) = (report(8, true), hdr(1_800));
    let delays = delays(&report, &counts);
    let once = || {
        let start = std::time::Instant::now();
        std::hint::black_box(text(&report, &delays));
        start.elapsed().as_secs_f64() * 1e3
    };
    let mut millis: Vec<_> = (0..500).map(|_| once()).collect();
    millis.sort_by(f64::total_cmp);
    let (median, p99, bytes) = (millis[250], millis[495], text(&report, &delays).len());
    println!("{bytes} bytes, {} histograms read: median {median:.2} ms, p99 {p99:.2} ms", delays.len());
}

/// Fails with what promtool says unless it succeeds in silence.
fn promtool(args: &[&str], input: &str) {
    let mut child = Command::new("promtool")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is in Debian's package prometheus: make setup");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "promtool {args:?}: {}", String::from_utf8_lossy(&said));
}

fn configs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs").join(file)
}
