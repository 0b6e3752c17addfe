//! Pictures at the usual sizes, and what the keys make of them.

use super::*;
use crate::report::{
    Count, DirectionFlows, DirectionReport, FlowReport, FlowsReport, HostReport, LinkReport, Load, PollGaps,
    PortReport, Report, TinReport, TxQueueReport, WorkerReport, snapshot,
};
use crate::telemetry::delays::{Delay, Delays, Kind as Took};
use crate::top::fetch::Reading;
use crate::top::picture::{Endpoint, TalkerRow};
use crate::top::state::{Kind, Pane, Sort};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use std::collections::BTreeMap;

const TINS: [&str; 4] = ["Bulk", "Best Effort", "Video", "Voice"];

/// An instance that has sent `seconds` seconds of traffic: 20 Mbit/s up, 95 Mbit/s down.
fn reading(links: &[&str], seconds: u64) -> Reading {
    let report = Report {
        name: "home".into(),
        pid: 4_711,
        uptime_s: seconds as f64,
        links: links.iter().map(|name| link(name, seconds)).collect(),
        workers: vec![worker(1, seconds), worker(2, seconds)],
        ..Report::default()
    };
    Reading {
        report,
        delays: Delays {
            histograms: links.iter().flat_map(|name| delays(name, seconds)).collect(),
            ..Delays::default()
        },
        flows: FlowsReport { at: 0.0, directions: links.iter().flat_map(|name| flows(name)).collect() },
    }
}

/// Of each direction and tin; what was recorded before the last second took an hour.
fn delays(link: &str, seconds: u64) -> Vec<Delay> {
    let delay = |direction: &str, tin: Option<&str>, kind, times: [u64; 3]| {
        let [most, few, rare] = times.map(|micros| micros * 1_000);
        let old = 3_600_000_000_000;
        let later = 1_000 * seconds.saturating_sub(3_600);
        let buckets =
            vec![(most, later - later / 50), (few, later / 50 - later / 500), (rare, later / 500), (old, 99)];
        let (link, direction, tin) = (link.to_owned(), direction.to_owned(), tin.map(str::to_owned));
        Delay { link, direction, tin, ..Delay::of(kind, buckets) }
    };
    let mut all = Vec::new();
    for direction in ["up", "down"] {
        all.push(delay(direction, None, Took::Sojourn, [4_100, 6_250, 12_000]));
        all.extend(TINS.map(|tin| delay(direction, Some(tin), Took::Sojourn, [900, 5_000, 8_000])));
        all.push(delay(direction, None, Took::Residence, [130, 250, 300]));
    }
    all
}

fn link(name: &str, seconds: u64) -> LinkReport {
    let port = |limit| PortReport {
        device: "0000:01:00.0".into(),
        link_up: true,
        tx_queues: vec![TxQueueReport {
            binds: limit > 0,
            limit,
            in_flight: 3_028,
            drain_rate: Some(98_400_000),
            source: "held-reference".into(),
            ..TxQueueReport::default()
        }],
        ..PortReport::default()
    };
    LinkReport {
        name: name.into(),
        a: port(0),
        b: port(12_543),
        directions: vec![direction("up", 20, seconds), direction("down", 95, seconds)],
    }
}

fn direction(name: &str, mbit: u64, seconds: u64) -> DirectionReport {
    let bytes = mbit * 125_000 * seconds;
    let tin = |(number, name): (u64, &&str)| TinReport {
        name: (*name).to_owned(),
        threshold_rate: (mbit * 125_000) >> number,
        delivered_bytes: bytes >> (number + 1),
        backlog_bytes: 15_140 * number,
        sent_packets: 1_000 * seconds,
        drops: number * seconds,
        ecn_mark: 2 * number * seconds,
        ..TinReport::default()
    };
    DirectionReport {
        direction: name.into(),
        kind: "cake".into(),
        bandwidth: Some(mbit * 1_000_000),
        sent: Count { packets: 1_700 * seconds, bytes },
        dropped: Count { packets: 6 * seconds, bytes: 9_000 * seconds },
        backlog: Count { packets: 60, bytes: 90_840 },
        tins: (0..).zip(&TINS).map(tin).collect(),
        qdisc: BTreeMap::from([("overlimits".to_owned(), 9)]),
        ..DirectionReport::default()
    }
}

fn worker(lcore: u32, seconds: u64) -> WorkerReport {
    WorkerReport {
        lcore,
        generation: 0,
        clock: "tsc".into(),
        turns: 1,
        idle_turns: 0,
        sleeps: 0,
        poll_gaps: PollGaps { over_50us: seconds / 2, over_1ms: 0, max_us: 1_234, total_us: 500 * seconds },
        time_us: 1_000_000 * seconds,
        busy_us: 40_000 * seconds,
        packets: 180_000 * seconds,
        tsc_hz: 2_600_000_000,
        clock_backward: 0,
        clock_jumps: 0,
    }
}

fn flows(link: &str) -> Vec<DirectionFlows> {
    let load = |share: f64, delay: u64| Load {
        rate: (20e6 * share) as u64,
        error: (1e6 * share) as u64,
        share,
        samples: 100,
        delay_mean_us: delay,
        delay_max_us: 3 * delay,
    };
    let flow = |source: &str, destination: &str, port, load| FlowReport {
        source: source.into(),
        source_port: Some(port),
        destination: destination.into(),
        destination_port: Some(443),
        protocol: "tcp".into(),
        load,
        ..FlowReport::default()
    };
    let ipv6 = "2001:db8:1234:5678:9abc:def0:1234:5678";
    let up = DirectionFlows {
        link: link.into(),
        direction: "up".into(),
        window_s: 1.0,
        flows: vec![
            flow("192.168.100.200", "203.0.113.200", 50_000, load(0.5, 4_000)),
            flow("192.168.100.201", "203.0.113.200", 50_001, load(0.25, 9_000)),
            flow(ipv6, "2001:db8:ffff:ffff:ffff:ffff:ffff:fffe", 50_002, load(1.0, 200)),
            FlowReport {
                source: "192.168.100.9".into(),
                destination: "203.0.113.9".into(),
                protocol: "esp".into(),
                id: Some(0xbeef),
                scope: "vlan 100.7".into(),
                load: load(0.1, 100),
                ..FlowReport::default()
            },
        ],
        senders: vec![HostReport {
            host: "192.168.100.200".into(),
            scope: "vlan 7".into(),
            load: load(0.75, 5_000),
        }],
        receivers: vec![HostReport {
            host: "203.0.113.200".into(),
            scope: String::new(),
            load: load(0.8, 5_000),
        }],
        ..DirectionFlows::default()
    };
    let down = DirectionFlows {
        link: link.into(),
        direction: "down".into(),
        flows: (0..40)
            .map(|flow_number| flow("203.0.113.200", "192.168.100.200", 1_000 + flow_number, load(0.02, 50)))
            .collect(),
        ..DirectionFlows::default()
    };
    vec![up, down]
}

/// Two readings a second apart.
fn state(links: &[&str]) -> State {
    let mut state = State::new(Duration::from_secs(1), true);
    state.take(Ok(reading(links, 3_600)));
    state.take(Ok(reading(links, 3_601)));
    state
}

fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\t' => KeyCode::Tab,
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            other => KeyCode::Char(other),
        };
        assert_eq!(state.key(KeyEvent::new(code, KeyModifiers::NONE)), Action::Stay, "{key:?}");
    }
}

fn picture(state: &State, columns: u16, rows: u16) -> String {
    text(&draw(state, columns, rows).unwrap())
}

#[test]
fn the_usual_sizes() {
    let state = state(&["home"]);
    snapshot("top_80x24.txt", &picture(&state, 80, 24));
    snapshot("top_120x40.txt", &picture(&state, 120, 40));
}

#[test]
fn every_line_is_whole_at_any_size() {
    for links in [&["home"][..], &["subscribers-north", "subscribers-south"]] {
        let mut state = state(links);
        for keys in ["", "\t", "\t", "\t", "h", "h", "?"] {
            press(&mut state, keys);
            for (columns, rows) in [(20, 5), (40, 12), (60, 20), (80, 24), (81, 24), (132, 50), (500, 200)] {
                let text = picture(&state, columns, rows);
                assert!(text.lines().count() <= rows.into());
                assert!(text.lines().all(|line| line.chars().count() <= columns.into()), "{text}");
            }
        }
    }
    draw(&State::new(Duration::from_secs(1), false), 1, 1).unwrap();
}

#[test]
fn figures_are_of_the_time_between_two_readings() {
    let state = state(&["home"]);
    let picture = state.picture.as_ref().unwrap();
    let up = &picture.queues[0];
    assert_eq!((up.name.as_str(), up.rate, up.limit), ("home/up cake", 20e6, Some(20_000_000)));
    assert_eq!((up.drops, up.marks), (6.0, 12.0));
    let voice = &picture.queues[4];
    assert_eq!((voice.name.as_str(), voice.drops, voice.rate), ("Voice", 3.0, 20e6 / 16.0));
    let lcore = &picture.lcores[0];
    assert_eq!((lcore.busy, lcore.packets, lcore.worst_us), (4.0, 180_000.0, 1_234));
    assert!((lcore.cycles.unwrap() - 577.8).abs() < 0.1 && (lcore.away - 0.05).abs() < 1e-9);
    let sojourn = up.sojourn.unwrap();
    assert_eq!((sojourn.p50, sojourn.p99, sojourn.p999), (4_100_000, 6_250_000, 12_000_000));
    assert_eq!(picture.rings[0].residence.unwrap().p99, 250_000);
}

#[test]
fn an_instance_that_was_started_again_has_no_negative_rates() {
    let mut state = state(&["home"]);
    let mut again = reading(&["home"], 5);
    again.report.pid += 1;
    state.take(Ok(again));
    assert_eq!(state.picture.as_ref().unwrap().queues[0].rate, 0.0);
    state.take(Ok(reading(&["home"], 6)));
    assert_eq!(state.picture.as_ref().unwrap().queues[0].rate, 0.0, "another process again");
}

#[test]
fn an_instance_that_is_gone_is_told_of_above_its_last_picture() {
    let mut state = state(&["home"]);
    state.take(Err(anyhow::anyhow!("no instance named \"home\" is running; start one with `weir run FILE`")));
    let lines = picture(&state, 80, 24);
    assert!(
        lines.lines().next().unwrap().ends_with("no instance named \"home\" is running; waiting"),
        "{lines}"
    );
    assert!(lines.contains("Best Effort"), "{lines}");
    state.take(Ok(reading(&["home"], 3_602)));
    assert!(!picture(&state, 80, 24).contains("waiting"));
}

#[test]
fn talkers_are_sorted_filtered_and_chosen_by_keys() {
    let mut state = state(&["home"]);
    let first = |state: &State| state.talkers()[0].source.clone();
    assert!(first(&state).address.starts_with("2001:"), "the largest rate");
    press(&mut state, "s");
    assert_eq!((state.sort, first(&state).address.as_str()), (Sort::Mean, "192.168.100.201"));
    press(&mut state, "ss");
    assert_eq!((state.sort, first(&state).port), (Sort::Name, Some(50_000)));
    press(&mut state, "s/50001\n");
    assert_eq!((state.talkers().len(), state.is_typing), (1, false));
    assert!(picture(&state, 80, 24).contains("FLOWS /50001"));
    press(&mut state, "\u{1b}/UP");
    assert_eq!(state.talkers().len(), 4, "directions are found too, in whatever case");
    press(&mut state, "q");
    assert_eq!(state.filter, "UPq", "a letter, not the end");
    press(&mut state, "\u{1b}h");
    assert_eq!((state.kind, state.talkers().len()), (Kind::Senders, 1));
    assert_eq!(first(&state).address, "192.168.100.200");
    press(&mut state, "hh");
    assert_eq!(state.kind, Kind::Flows);
}

#[test]
fn the_pane_in_focus_is_given_room_and_scrolls() {
    let mut state = state(&["home", "office"]);
    let rows = |state: &State, name: &str| {
        let lines = picture(state, 80, 24);
        let panes = ["QUEUE", "GOVERNOR", "LCORE", "FLOWS", " q quit"];
        let starts = panes.map(|pane| lines.lines().position(|line| line.starts_with(pane)).unwrap());
        let pane = panes.iter().position(|pane| *pane == name).unwrap();
        starts[pane + 1] - starts[pane] - 1
    };
    assert_eq!(["QUEUE", "GOVERNOR", "LCORE", "FLOWS"].map(|pane| rows(&state, pane)), [14, 1, 1, 2]);
    press(&mut state, "\t\t\t");
    assert_eq!(state.focus, Pane::Talkers);
    assert_eq!(["QUEUE", "GOVERNOR", "LCORE", "FLOWS"].map(|pane| rows(&state, pane)), [3, 1, 1, 13]);
    press(&mut state, "\t");
    assert_eq!(state.focus, Pane::Queues);
    let key = |state: &mut State, code| state.key(KeyEvent::new(code, KeyModifiers::NONE));
    key(&mut state, KeyCode::End);
    assert_eq!(state.selected(Pane::Queues), 19);
    let lines = picture(&state, 80, 24);
    let (first, _) = lines.split_once("GOVERNOR").unwrap();
    assert!(first.trim_end().lines().last().unwrap().starts_with("  Voice"), "the last row: {lines}");
    key(&mut state, KeyCode::Home);
    key(&mut state, KeyCode::PageDown);
    key(&mut state, KeyCode::Up);
    assert_eq!(state.selected(Pane::Queues), 9);
    state.take(Ok(reading(&["home"], 3_602)));
    state.take(Ok(Reading::default()));
    assert_eq!(state.selected(Pane::Queues), 0, "rows that are gone are not chosen");
}

#[test]
fn a_paused_picture_stays_and_the_next_is_of_one_interval() {
    let mut state = state(&["home"]);
    press(&mut state, "p");
    let held = picture(&state, 80, 24);
    assert!(held.lines().next().unwrap().ends_with("paused"));
    state.take(Ok(reading(&["home"], 3_602)));
    assert_eq!(picture(&state, 80, 24), held);
    press(&mut state, "p");
    state.take(Ok(reading(&["home"], 3_603)));
    assert_eq!(state.picture.as_ref().unwrap().queues[0].rate, 20e6);
}

#[test]
fn keys_end_and_suspend() {
    let mut state = state(&["home"]);
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(state.key(control('c')), Action::Quit);
    assert_eq!(state.key(control('z')), Action::Suspend);
    press(&mut state, "?");
    assert!(picture(&state, 80, 24).contains("95 of 100 rates"));
    press(&mut state, "q");
    assert!(!state.is_helping, "any key leaves the help");
    assert_eq!(state.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)), Action::Quit);
    assert_eq!(state.key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)), Action::Quit);
}

#[test]
fn without_colour_there_is_none() {
    let mut state = state(&["home"]);
    let colours = |state: &State| {
        let buffer = draw(state, 80, 24).unwrap();
        buffer.content.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert!(colours(&state) > 0);
    state.has_colour = false;
    assert_eq!(colours(&state), 0);
    let buffer = draw(&state, 80, 24).unwrap();
    assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)), "the chosen row");
}

#[test]
fn long_addresses_lose_their_middle_and_keep_their_ports() {
    let row = TalkerRow {
        source: Endpoint { address: "2001:db8:1234:5678:9abc:def0:1234:5678".into(), port: Some(443) },
        destination: Some(Endpoint { address: "2001:db8:ffff::1".into(), port: Some(50_000) }),
        suffix: "tcp".into(),
        ..TalkerRow::default()
    };
    let label = row.label(49);
    assert_eq!(label, "[2001:d…34:5678]:443 > [2001:d…ffff::1]:50000 tcp");
    let wide = row.label(55);
    assert_eq!(wide, "[2001:db8…1234:5678]:443 > [2001:db8:ffff::1]:50000 tcp");
    assert!(row.label(40).chars().count() <= 40);
}

#[test]
fn the_svg_has_every_line_and_is_well_formed() {
    let state = state(&["home"]);
    let svg = svg::svg(&draw(&state, 80, 24).unwrap());
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("Best Effort") && svg.contains("192.168.100.200:50000 &gt; 203.0.113.200:443 tcp"));
    assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
    assert!(!svg.replace("&gt;", "").replace("&lt;", "").replace("&amp;", "").contains('&'));
}
