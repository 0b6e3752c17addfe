//! What shares ought to be.

use super::demand::{Demand, Load};
use shaper::qdisc::cake::{Diffserv, FlowMode};
use std::collections::BTreeMap;

/// Bits per second for each flow in one tin of `capacity`.
pub fn shares(mode: FlowMode, capacity: f64, loads: &[Load]) -> Vec<f64> {
    match mode {
        FlowMode::FlowBlind => in_one_queue(loads, &(0..loads.len()).collect::<Vec<_>>(), capacity),
        FlowMode::SrcHost => nested(loads, capacity, |load| (load.source, 0), in_one_queue),
        FlowMode::DstHost => nested(loads, capacity, |load| (load.destination, 0), in_one_queue),
        FlowMode::Hosts => nested(loads, capacity, |load| (load.source, load.destination), in_one_queue),
        FlowMode::Flows => nested(loads, capacity, |_| (0, 0), each_its_share),
        FlowMode::DualSrcHost => nested(loads, capacity, |load| (load.source, 0), each_its_share),
        FlowMode::DualDstHost => nested(loads, capacity, |load| (load.destination, 0), each_its_share),
        FlowMode::TripleIsolate => triple(loads, capacity),
    }
}

/// Max-min between groups of flows, and then as `inside` says.
fn nested(
    loads: &[Load],
    capacity: f64,
    group_of: impl Fn(&Load) -> (u32, u32),
    inside: fn(&[Load], &[usize], f64) -> Vec<f64>,
) -> Vec<f64> {
    let mut groups = BTreeMap::<_, Vec<usize>>::new();
    for (flow, load) in loads.iter().enumerate() {
        groups.entry(group_of(load)).or_default().push(flow);
    }
    let demands: Vec<f64> =
        groups.values().map(|flows| flows.iter().map(|&it| demand(&loads[it])).sum()).collect();
    let levels = fill(capacity, &demands, &vec![1.0; demands.len()]);
    let mut shares = vec![0.0; loads.len()];
    for (flows, level) in groups.values().zip(levels) {
        for (&flow, share) in flows.iter().zip(inside(loads, flows, level)) {
            shares[flow] = share;
        }
    }
    shares
}

/// Max-min between flows.
fn each_its_share(loads: &[Load], flows: &[usize], capacity: f64) -> Vec<f64> {
    let demands: Vec<f64> = flows.iter().map(|&flow| demand(&loads[flow])).collect();
    fill(capacity, &demands, &vec![1.0; flows.len()])
}

/// First in, first out: who keeps as many packets waiting as another sends as many; who sends by the
/// clock gets all through, as the backlog makes way for it.
fn in_one_queue(loads: &[Load], flows: &[usize], capacity: f64) -> Vec<f64> {
    let is_backlog = |flow: &&usize| loads[**flow].demand == Demand::Backlog;
    let paced: f64 = flows.iter().filter(|flow| !is_backlog(flow)).map(|&flow| demand(&loads[flow])).sum();
    let frames: f64 = flows.iter().filter(is_backlog).map(|&flow| f64::from(loads[flow].frame)).sum();
    let share = |flow: &usize| match loads[*flow].demand {
        Demand::Paced(rate) => rate,
        Demand::Backlog => (capacity - paced) * f64::from(loads[*flow].frame) / frames,
    };
    flows.iter().map(share).collect()
}

/// A flow counts for as much as the host of it with more backlogged flows lets it.
fn triple(loads: &[Load], capacity: f64) -> Vec<f64> {
    let is_bulk = |load: &&Load| load.demand == Demand::Backlog;
    let weight = |load: &Load| {
        let of_source = loads.iter().filter(is_bulk).filter(|other| other.source == load.source).count();
        let to_destination =
            loads.iter().filter(is_bulk).filter(|other| other.destination == load.destination).count();
        1.0 / of_source.max(to_destination).max(1) as f64
    };
    let weights: Vec<f64> = loads.iter().map(weight).collect();
    let demands: Vec<f64> = loads.iter().map(demand).collect();
    fill(capacity, &demands, &weights)
}

/// Water-filling: the level rises evenly by weight, and who has enough takes no more.
fn fill(capacity: f64, demands: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut shares = vec![0.0; demands.len()];
    let mut open: Vec<usize> = (0..demands.len()).collect();
    let mut left = capacity;
    loop {
        let level = left / open.iter().map(|&it| weights[it]).sum::<f64>();
        let (content, hungry): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&it| demands[it] <= level * weights[it]);
        if content.is_empty() {
            hungry.iter().for_each(|&it| shares[it] = level * weights[it]);
            return shares;
        }
        for it in content {
            shares[it] = demands[it];
            left -= demands[it];
        }
        open = hungry;
    }
}

/// One flow per DSCP; flows of one tin share it evenly. Best effort has a backlog, so no tin gets
/// more than its threshold, and the highest come first.
pub fn by_tin(diffserv: Diffserv, capacity: f64, loads: &[Load]) -> Vec<f64> {
    let mut tins = BTreeMap::<u8, Vec<usize>>::new();
    for (flow, load) in loads.iter().enumerate() {
        tins.entry(rank(diffserv, load.dscp)).or_default().push(flow);
    }
    let mut shares = vec![0.0; loads.len()];
    let mut left = capacity;
    for flows in tins.values().rev() {
        let threshold = threshold(diffserv, &loads[flows[0]]) * capacity;
        let asked: f64 = flows.iter().map(|&flow| demand(&loads[flow])).sum();
        let given = asked.min(threshold).min(left);
        for (&flow, share) in flows.iter().zip(each_its_share(loads, flows, given)) {
            shares[flow] = share;
        }
        left -= given;
    }
    shares
}

/// The part of the bandwidth up to which a tin has precedence: tc-cake(8).
pub fn threshold(diffserv: Diffserv, load: &Load) -> f64 {
    let sevenths = |steps: i32| 0.875_f64.powi(steps);
    match (diffserv, rank(diffserv, load.dscp)) {
        (Diffserv::BestEffort, _) => 1.0,
        (Diffserv::Diffserv3, rank) => [1.0, 1.0 / 16.0, 0.25][usize::from(rank)],
        (Diffserv::Diffserv4, rank) => [1.0, 1.0 / 16.0, 0.5, 0.25][usize::from(rank)],
        (Diffserv::Precedence | Diffserv::Diffserv8, rank) => sevenths(rank.into()),
    }
}

/// Tins of the DSCPs used here, the first to be served last: CS0, CS1, AF41, EF, CS6.
fn rank(diffserv: Diffserv, dscp: u8) -> u8 {
    let column = [0, 8, 34, 46, 48].iter().position(|&it| it == dscp).unwrap();
    match diffserv {
        Diffserv::BestEffort => 0,
        Diffserv::Diffserv3 => [0, 1, 0, 2, 2][column],
        Diffserv::Diffserv4 => [0, 1, 2, 3, 3][column],
        Diffserv::Precedence => [0, 1, 4, 5, 6][column],
        Diffserv::Diffserv8 => [2, 1, 3, 6, 7][column],
    }
}

fn demand(load: &Load) -> f64 {
    match load.demand {
        Demand::Backlog => f64::INFINITY,
        Demand::Paced(rate) => rate,
    }
}
