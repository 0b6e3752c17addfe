//! cake against an oracle that is slow and obvious: a shaper in floating point and max-min shares
//! found by filling. In long runs every flow must get within 2 % of what the oracle gives it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use shaper::packet::{Arrival, DsField, Piece};
use shaper::qdisc::cake::{Cake, Diffserv, FlowMode, Params};
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

/// A sender at a constant rate that listens to nobody.
#[derive(Clone, Copy, Debug)]
struct Sender {
    src: u32,
    dst: u32,
    /// Frame length, bytes.
    len: u32,
    /// Bytes per second.
    demand: f64,
    dscp: u8,
}

/// What each sender gets of `capacity` bytes per second under `mode`: nobody more than it asks
/// for, and of those who get less, each by its weight as much as the others.
fn shares(capacity: f64, mode: FlowMode, senders: &[Sender]) -> Vec<f64> {
    let mut is_satisfied = vec![false; senders.len()];
    loop {
        let bulk: Vec<&Sender> =
            senders.iter().zip(&is_satisfied).filter(|(_, done)| !**done).map(|(sender, _)| sender).collect();
        let weight = |sender: &Sender| weight(mode, sender, &bulk);
        let taken: f64 = senders
            .iter()
            .zip(&is_satisfied)
            .filter(|(_, done)| **done)
            .map(|(sender, _)| sender.demand)
            .sum();
        let level = (capacity - taken) / bulk.iter().map(|sender| weight(sender)).sum::<f64>();
        let next: Vec<bool> = senders
            .iter()
            .zip(&is_satisfied)
            .map(|(sender, done)| *done || sender.demand <= level * weight(sender))
            .collect();
        if next == is_satisfied {
            let share = |(sender, done): (&Sender, &bool)| {
                if *done { sender.demand } else { level * weight(sender) }
            };
            return senders.iter().zip(&is_satisfied).map(share).collect();
        }
        is_satisfied = next;
    }
}

/// One over the number of those with whom a sender shares what one unit of fairness is.
fn weight(mode: FlowMode, sender: &Sender, bulk: &[&Sender]) -> f64 {
    let count =
        |same: &dyn Fn(&Sender) -> bool| bulk.iter().filter(|other| same(other)).count().max(1) as f64;
    let of_src = count(&|other| other.src == sender.src);
    let of_dst = count(&|other| other.dst == sender.dst);
    match mode {
        FlowMode::FlowBlind | FlowMode::Flows => 1.0,
        FlowMode::SrcHost | FlowMode::DualSrcHost => 1.0 / of_src,
        FlowMode::DstHost | FlowMode::DualDstHost => 1.0 / of_dst,
        FlowMode::Hosts => 1.0 / count(&|other| (other.src, other.dst) == (sender.src, sender.dst)),
        FlowMode::TripleIsolate => 1.0 / of_src.max(of_dst),
    }
}

/// Bytes per second, as charged, that each sender gets through cake in the second half of `span`.
fn run(params: &Params, senders: &[Sender], span: Duration) -> Vec<f64> {
    let mut cake: Cake<usize> = Cake::new(params, 20_000);
    let mut rng = SplitMix::new(5, 6);
    let hash = |number: u32| SplitMix::new(0, u64::from(number)).next_u32();
    let start = 1_000_000_000_u64;
    let mut next: Vec<f64> = (0..senders.len()).map(|i| start as f64 + i as f64 * 997.0).collect();
    let half = Instant::from_nanos(start + span.as_nanos() / 2);
    let end = Instant::from_nanos(start + span.as_nanos());
    let mut now = Instant::from_nanos(start);
    let mut bytes = vec![0_u64; senders.len()];
    while now < end {
        while let Some(delivery) = cake.dequeue(now, &mut rng, &mut |_, _| ()) {
            if now >= half {
                bytes[delivery.packet] += u64::from(delivery.adjusted);
            }
        }
        let (who, at) = next.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let arrival_at = Instant::from_nanos(at as u64);
        if let Some(wakeup) = cake.next_wakeup().filter(|wakeup| *wakeup < arrival_at) {
            now = wakeup;
            continue;
        }
        now = arrival_at;
        let sender = &senders[who];
        next[who] += f64::from(sender.len) / sender.demand * 1e9;
        let arrival = Arrival {
            flow_hash: hash(1_000 + who as u32),
            src_hash: hash(10_000 + sender.src),
            dst_hash: hash(20_000 + sender.dst),
            ds: DsField::ip(sender.dscp << 2),
            network_offset: 14,
            ..Arrival::default()
        };
        let piece = Piece::single(who, sender.len, 2_304);
        cake.enqueue(now, &mut rng, &arrival, std::iter::once(piece), &mut |_, _| ());
    }
    bytes.iter().map(|bytes| *bytes as f64 * 2e9 / span.as_nanos() as f64).collect()
}

fn compare(what: &str, expected: &[f64], got: &[f64]) {
    for (number, (expected, got)) in expected.iter().zip(got).enumerate() {
        let error = (got - expected).abs() / expected;
        assert!(error <= 0.02, "{what}: sender {number} got {got:.0} of {expected:.0} bytes/s");
    }
}

fn bytes_per_sec(rate: Rate) -> f64 {
    rate.bits_per_sec() as f64 / 8.0
}

/// Time for `packets` of full size.
fn span(rate: Rate, packets: f64) -> Duration {
    Duration::from_nanos((packets * 1_514.0 / bytes_per_sec(rate) * 1e9) as u64)
}

#[test]
fn hosts_and_flows_share_as_the_mode_says() {
    let modes = [FlowMode::Flows, FlowMode::DualSrcHost, FlowMode::DualDstHost, FlowMode::TripleIsolate];
    let mut dice = SplitMix::new(7, 8);
    for mbit in [1, 10, 1_000] {
        for mode in modes {
            let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
            let capacity = bytes_per_sec(rate);
            let mut below = |bound: u32| dice.next_u32() % bound;
            let greedy = 4 + below(8);
            let mut senders: Vec<Sender> = (0..greedy)
                .map(|_| Sender {
                    src: below(3),
                    dst: below(3),
                    len: [300, 576, 1_000, 1_514][below(4) as usize],
                    demand: capacity * 1.3,
                    dscp: 0,
                })
                .collect();
            let sparse = Sender { src: 0, dst: 1, len: 200, demand: capacity / 200.0, dscp: 0 };
            senders.extend([sparse, Sender { src: 9, dst: 9, ..sparse }]);
            let params = Params {
                bandwidth: Some(rate),
                diffserv: Diffserv::BestEffort,
                flow_mode: mode,
                memlimit: Some(4 << 20),
                ..Params::default()
            };
            let got = run(&params, &senders, span(rate, 12_000.0));
            compare(&format!("{mode:?} {mbit} Mbit/s"), &shares(capacity, mode, &senders), &got);
        }
    }
}

#[test]
fn queues_of_hosts_share_as_the_mode_says() {
    for mode in [FlowMode::SrcHost, FlowMode::DstHost, FlowMode::Hosts] {
        let rate = Rate::from_bits_per_sec(10_000_000);
        let sender = |src, dst| Sender { src, dst, len: 1_000, demand: bytes_per_sec(rate) * 1.1, dscp: 0 };
        let senders = [sender(0, 0), sender(0, 1), sender(1, 0), sender(2, 2), sender(2, 1)];
        let params = Params {
            bandwidth: Some(rate),
            diffserv: Diffserv::BestEffort,
            flow_mode: mode,
            ..Params::default()
        };
        let got = run(&params, &senders, span(rate, 20_000.0));
        // Inside a queue it is first in, first out: alike only on the average, so hosts are compared.
        let per_queue = |values: &[f64]| {
            let mut sums = std::collections::BTreeMap::<(u32, u32), f64>::new();
            for (sender, value) in senders.iter().zip(values) {
                let key = match mode {
                    FlowMode::SrcHost => (sender.src, 0),
                    FlowMode::DstHost => (0, sender.dst),
                    _ => (sender.src, sender.dst),
                };
                *sums.entry(key).or_default() += value;
            }
            sums.into_values().collect::<Vec<f64>>()
        };
        let expected = shares(bytes_per_sec(rate), mode, &senders);
        compare(&format!("{mode:?}"), &per_queue(&expected), &per_queue(&got));
    }
}

/// Every tin floods: each above the lowest gets its threshold, and the lowest what is left.
#[test]
fn tins_get_their_thresholds() {
    for (diffserv, dscps, parts) in [
        (Diffserv::Diffserv3, &[0, 8, 46][..], &[11.0 / 16.0, 1.0 / 16.0, 1.0 / 4.0][..]),
        (Diffserv::Diffserv4, &[0, 8, 34, 46], &[3.0 / 16.0, 1.0 / 16.0, 1.0 / 2.0, 1.0 / 4.0]),
    ] {
        let rate = Rate::from_bits_per_sec(20_000_000);
        let capacity = bytes_per_sec(rate);
        let senders: Vec<Sender> = (0..)
            .zip(dscps)
            .map(|(host, &dscp)| Sender { src: host, dst: host, len: 1_000, demand: capacity, dscp })
            .collect();
        let params = Params { bandwidth: Some(rate), diffserv, ..Params::default() };
        let got = run(&params, &senders, span(rate, 20_000.0));
        let expected: Vec<f64> = parts.iter().map(|part| part * capacity).collect();
        compare(&format!("{diffserv:?}"), &expected, &got);
    }
}

/// The wire is full and never fuller than it is, whatever the framing.
#[test]
fn the_rate_is_that_of_the_wire() {
    for kbit in [128, 10_000, 1_000_000, 40_000_000_u64] {
        for words in ["", "ethernet", "pppoe-vcmux", "pppoe-ptm ether-vlan"] {
            let rate = Rate::from_bits_per_sec(kbit * 1_000);
            let capacity = bytes_per_sec(rate);
            let sender = Sender { src: 0, dst: 0, len: 90, demand: capacity, dscp: 0 };
            let senders = [sender, Sender { src: 1, dst: 1, len: 1_514, ..sender }];
            let params = Params {
                bandwidth: Some(rate),
                overhead: words.parse().unwrap(),
                diffserv: Diffserv::BestEffort,
                ..Params::default()
            };
            let got: f64 = run(&params, &senders, span(rate, 4_000.0)).iter().sum();
            let frames = (got - capacity).abs() * span(rate, 4_000.0).as_nanos() as f64 / 2e9 / 1_700.0;
            assert!(frames <= 1.0, "{kbit} kbit/s, `{words}`: {got:.0} of {capacity:.0}, {frames} frames");
        }
    }
}
