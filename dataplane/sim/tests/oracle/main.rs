//! cake against an independent reference: slow and obvious, in floating point, written from what
//! tc-cake(8) promises and not from how cake does it. Long runs must match within 2 %, under both
//! conformances.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod demand;
mod reference;

use demand::{Demand, Load, carried};
use reference::{by_tin, shares};
use shaper::conformance::{Conformance, Linux, Weir};
use shaper::qdisc::cake::{Diffserv, FlowMode, Params};
use shaper::rng::{Rng, SplitMix};
use shaper::units::Rate;

const MODES: [FlowMode; 8] = [
    FlowMode::FlowBlind,
    FlowMode::SrcHost,
    FlowMode::DstHost,
    FlowMode::Hosts,
    FlowMode::Flows,
    FlowMode::DualSrcHost,
    FlowMode::DualDstHost,
    FlowMode::TripleIsolate,
];

const RATE: u64 = 40_000_000;
const SECONDS: u64 = 8;

fn params(diffserv: Diffserv, flow_mode: FlowMode) -> Params {
    Params { bandwidth: Some(Rate::from_bits_per_sec(RATE)), diffserv, flow_mode, ..Params::default() }
}

/// Hosts and flows at random, each with a backlog. Where they share queues all can be marked: a drop
/// costs a packet its place in the queue.
fn backlogs(seed: u64, mode: FlowMode) -> Vec<Load> {
    let is_alone = matches!(
        mode,
        FlowMode::Flows | FlowMode::DualSrcHost | FlowMode::DualDstHost | FlowMode::TripleIsolate
    );
    let mut dice = SplitMix::new(seed, seed);
    let mut below = |bound: u32| dice.next_u32() % bound;
    let (hosts, flows) = (1 + below(4), 2 + below(12));
    (0..flows)
        .map(|_| Load {
            source: below(hosts),
            destination: 100 + below(hosts),
            frame: [300, 700, 1_514][below(3) as usize],
            is_ect: below(3) != 0 || !is_alone,
            dscp: 0,
            demand: Demand::Backlog,
        })
        .collect()
}

fn check<C: Conformance>(what: &str, params: &Params, loads: &[Load], expected: &[f64]) {
    let carried = carried::<C>(params, loads, SECONDS);
    let total: f64 = expected.iter().sum();
    for (nth, (&got, &ideal)) in carried.iter().zip(expected).enumerate() {
        // What the reference starves may have a packet now and then.
        let tolerance = (0.02 * ideal).max(0.0005 * total);
        assert!(
            (got - ideal).abs() <= tolerance,
            "{what}, flow {nth}: {got:.0} bit/s, reference {ideal:.0}\n{loads:#?}\n{carried:?}\n{expected:?}"
        );
    }
}

fn check_both(what: &str, params: &Params, loads: &[Load], expected: &[f64]) {
    check::<Weir>(&format!("{what}, weir"), params, loads, expected);
    check::<Linux>(&format!("{what}, linux"), params, loads, expected);
}

/// Every flow has a backlog: hosts and flows share as each mode says.
#[test]
fn backlogs_share_as_the_mode_says() {
    for mode in MODES {
        for seed in 0..6 {
            let loads = backlogs(seed, mode);
            let expected = shares(mode, RATE as f64, &loads);
            check_both(&format!("{mode:?} {seed}"), &params(Diffserv::BestEffort, mode), &loads, &expected);
        }
    }
}

/// Some hosts ask for less than their share: the others have the rest, as max-min has it.
#[test]
fn what_a_host_leaves_the_others_share() {
    for mode in MODES {
        for seed in 0..6 {
            let mut loads = backlogs(100 + seed, mode);
            for load in loads.iter_mut().filter(|load| load.source == 0) {
                load.demand = Demand::Paced(250_000.0);
                // Alone on both sides, so that no host has flows of either kind.
                load.destination = 99;
            }
            loads.push(Load { source: 7, destination: 107, ..Load::BULK });
            let expected = shares(mode, RATE as f64, &loads);
            check_both(&format!("{mode:?} {seed}"), &params(Diffserv::BestEffort, mode), &loads, &expected);
        }
    }
}

/// Flows that ask for less than their share have it all, be it much or little.
#[test]
fn who_asks_for_less_has_it_all() {
    for part in [0.1, 0.5, 0.8, 0.95] {
        for frame in [300, 1_514] {
            let share = RATE as f64 / 4.0;
            let mut loads = vec![Load { source: 1, ..Load::BULK }; 3];
            loads.push(Load { source: 2, frame, demand: Demand::Paced(part * share), ..Load::BULK });
            let expected = shares(FlowMode::Flows, RATE as f64, &loads);
            let params = params(Diffserv::BestEffort, FlowMode::Flows);
            check_both(&format!("{part} {frame}"), &params, &loads, &expected);
        }
    }
}

/// Tins with a backlog, among them best effort: each has its threshold, the highest first.
#[test]
fn tins_have_their_thresholds() {
    for diffserv in [Diffserv::Diffserv3, Diffserv::Diffserv4, Diffserv::Precedence, Diffserv::Diffserv8] {
        for seed in 0..8 {
            let mut dice = SplitMix::new(seed, 9);
            let mut loads: Vec<Load> = [0_u8, 8, 46, 34, 48].map(|dscp| Load { dscp, ..Load::BULK }).into();
            loads.retain(|load| load.dscp == 0 || dice.next_u32() > u32::MAX / 3);
            if seed % 2 == 1 && loads.len() > 1 {
                loads.last_mut().unwrap().demand = Demand::Paced(1_500_000.0);
            }
            let expected = by_tin(diffserv, RATE as f64, &loads);
            check_both(
                &format!("{diffserv:?} {seed}"),
                &params(diffserv, FlowMode::TripleIsolate),
                &loads,
                &expected,
            );
        }
    }
}

/// Without best effort there is a surplus: no tin has less than its threshold, and all is used.
#[test]
fn tins_share_what_is_left() {
    for dscps in [&[46_u8, 34][..], &[46, 8], &[34, 8], &[46, 34, 8], &[46], &[8]] {
        let loads: Vec<Load> = dscps.iter().map(|&dscp| Load { dscp, ..Load::BULK }).collect();
        let thresholds: Vec<f64> =
            loads.iter().map(|it| reference::threshold(Diffserv::Diffserv4, it)).collect();
        let carried = carried::<Weir>(&params(Diffserv::Diffserv4, FlowMode::Flows), &loads, SECONDS);
        for (got, threshold) in carried.iter().zip(&thresholds) {
            assert!(*got >= 0.98 * threshold * RATE as f64, "{dscps:?} {carried:?}");
        }
        let total: f64 = carried.iter().sum();
        assert!((total / RATE as f64 - 1.0).abs() < 0.001, "{dscps:?} {carried:?}");
    }
}

/// Limited flows beside bulk flows in one host: cake counts bulk flows only, so such a host has more
/// than its share by what its limited flows take. That is DRR++ as it is, not max-min between hosts;
/// the reference without hosts' limits says what it comes to.
#[test]
fn limited_flows_come_on_top_of_their_hosts_share() {
    let limited = Demand::Paced(2_000_000.0);
    let loads = [
        Load { source: 1, frame: 400, demand: limited, ..Load::BULK },
        Load { source: 1, ..Load::BULK },
        Load { source: 2, ..Load::BULK },
    ];
    let carried = carried::<Weir>(&params(Diffserv::BestEffort, FlowMode::DualSrcHost), &loads, SECONDS);
    let fair = shares(FlowMode::DualSrcHost, RATE as f64, &loads);
    let on_top = [2e6, (RATE as f64 - 2e6) / 2.0, (RATE as f64 - 2e6) / 2.0];
    for (got, ideal) in carried.iter().zip(on_top) {
        assert!((got - ideal).abs() < 0.02 * ideal, "{carried:?} {on_top:?}, max-min {fair:?}");
    }
}
