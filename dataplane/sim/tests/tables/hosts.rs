//! One flow against ten, under each isolation mode.

use super::*;
use shaper::qdisc::cake::{Diffserv, FlowMode};

const MODES: [(&str, FlowMode); 8] = [
    ("flowblind", FlowMode::FlowBlind),
    ("srchost", FlowMode::SrcHost),
    ("dsthost", FlowMode::DstHost),
    ("hosts", FlowMode::Hosts),
    ("flows", FlowMode::Flows),
    ("dual-srchost", FlowMode::DualSrcHost),
    ("dual-dsthost", FlowMode::DualDstHost),
    ("triple-isolate", FlowMode::TripleIsolate),
];

/// Shares of the ten flows' host in the whole.
fn share_of_ten(discipline: Box<dyn Discipline>, sources: [u32; 2], destinations: [u32; 2]) -> (f64, f64) {
    let mut world = world(discipline);
    let of =
        |host: usize| FlowSpec { source: sources[host], destination: destinations[host], ..flow(cubic()) };
    let one = world.add(of(0));
    let ten: Vec<usize> = (0..10).map(|_| world.add(of(1))).collect();
    settle_and_measure(&mut world, ms(10_000), ms(30_000));
    let one = world.record(one).goodput(ms(30_000));
    let ten: f64 = ten.iter().map(|&it| world.record(it).goodput(ms(30_000))).sum();
    (ten / (one + ten), one + ten)
}

#[test]
fn one_flow_against_ten_in_each_mode() {
    let mut table = Table::new(
        "50 Mbit/s, 20 ms, CUBIC: share in % of the host with 10 flows beside the host with 1, where two \
         hosts receive from one, two send to one, and two pairs; 30 s after 10 s",
        &["queue", "receivers", "senders", "pairs", "Mbit/s"],
    );
    let mut run = |name: &str, discipline: &dyn Fn() -> Box<dyn Discipline>| {
        let results = HOSTS.map(|[sources, destinations]| share_of_ten(discipline(), sources, destinations));
        let mut cells = vec![name.to_string()];
        cells.extend(results.map(|(share, _)| format!("{:.1}", 100.0 * share)));
        cells.push(in_mbit(results[2].1));
        table.row(cells);
        results
    };
    for (name, flow_mode) in MODES {
        let params = Params { flow_mode, diffserv: Diffserv::BestEffort, ..Params::default() };
        let results = run(&format!("cake {name}"), &|| Kind::Cake.at(mbit(50), params));
        for ((share, total), expected) in results.into_iter().zip(expected(flow_mode)) {
            assert!(total > 0.97 * 50e6, "{name} {total}");
            let expected = expected.unwrap_or(share);
            assert!((share - expected).abs() <= 0.03 * expected, "{name}: {share} for {expected}");
        }
    }
    for kind in [Kind::FqCodel, Kind::Fifo] {
        run(kind.name(), &|| kind.at(mbit(50), Params::default()));
    }
    snapshot("hosts", &table);
}

/// What the host with ten flows shall have; `None` where all share a queue, so that it is up to the
/// senders.
fn expected(mode: FlowMode) -> [Option<f64>; 3] {
    let (fair, by_flow) = (Some(0.5), Some(10.0 / 11.0));
    match mode {
        FlowMode::FlowBlind => [None, None, None],
        FlowMode::SrcHost => [None, fair, fair],
        FlowMode::DstHost => [fair, None, fair],
        FlowMode::Hosts => [fair, fair, fair],
        FlowMode::Flows => [by_flow, by_flow, by_flow],
        FlowMode::DualSrcHost => [by_flow, fair, fair],
        FlowMode::DualDstHost => [fair, by_flow, fair],
        // The host on the side that is shared has the most flows, and is the same for all of them.
        FlowMode::TripleIsolate => [by_flow, by_flow, fair],
    }
}

/// Sources and destinations of the one flow and of the ten.
const HOSTS: [[[u32; 2]; 2]; 3] = [[[1, 1], [2, 3]], [[1, 4], [2, 2]], [[1, 4], [2, 3]]];
