//! Nanoseconds per segment of cutting super-packets, per packet of merging, and of checksums.
//!
//! `cargo run --release -p shaper --example gso_bench`
//!
//! Every figure is the median over rounds that alternate between all cases, so that a busy machine
//! hits them alike. Super-packets are 64 KB of TCP with timestamps, cut into 1448 bytes of payload;
//! each pass takes another of several buffers, so that payload comes from the second-level cache.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // A benchmark owns its clock and its input.

use shaper::gro::{Gro, GroLimits, Received};
use shaper::gso::{Checksums, Ids, Plan, Request};
use shaper::wire::checksum::Sum;
use std::hint::black_box;
use std::time::Instant;

/// What is measured; returns how many segments or packets it was.
struct Case {
    name: &'static str,
    run: Box<dyn FnMut() -> usize>,
    rounds: Vec<f64>,
}

fn main() {
    let mut cases = cases();
    for round in 0..ROUNDS + 1 {
        for case in &mut cases {
            let start = Instant::now();
            let count: usize = (0..PASSES).map(|_| (case.run)()).sum();
            let ns = start.elapsed().as_nanos() as f64 / count as f64;
            if round > 0 {
                case.rounds.push(ns);
            }
        }
    }
    println!("{:<56} {:>8} {:>8}", "ns per segment or packet", "median", "min");
    for case in &mut cases {
        case.rounds.sort_by(f64::total_cmp);
        println!("{:<56} {:>8.1} {:>8.1}", case.name, case.rounds[ROUNDS / 2], case.rounds[0]);
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (v6, names) in [(false, V4_NAMES), (true, V6_NAMES)] {
        let [headers, copied, summed] = names;
        cases.push(case(
            headers,
            cutting(v6, |plan, index, _, out| {
                plan.write(index, Checksums::Offload, out);
            }),
        ));
        cases.push(case(
            copied,
            cutting(v6, |plan, index, payload, out| {
                let len = usize::from(plan.write(index, Checksums::Offload, out).unwrap());
                out[len..][..payload.len()].copy_from_slice(payload);
            }),
        ));
        cases.push(case(
            summed,
            cutting(v6, |plan, index, payload, out| {
                let sum = Sum::default().bytes(payload);
                let len = usize::from(plan.write(index, Checksums::Software(sum), out).unwrap());
                out[len..][..payload.len()].copy_from_slice(payload);
            }),
        ));
    }
    let payload = vec![0xa5; PAYLOAD];
    cases.push(case("checksum of 1448 bytes", move || {
        for _ in 0..45 {
            black_box(Sum::default().bytes(black_box(&payload[..1448])).fold());
        }
        45
    }));
    for (name, v6, flows) in [
        ("merge 32 x TCP/IPv4, 1 flow", false, 1),
        ("merge 32 x TCP/IPv6, 1 flow", true, 1),
        ("merge 32 x TCP/IPv4, 8 flows", false, 8),
        ("merge 32 x TCP/IPv4, 32 flows (nothing to merge)", false, 32),
    ] {
        cases.push(case(name, merging(v6, flows)));
    }
    cases
}

fn case(name: &'static str, run: impl FnMut() -> usize + 'static) -> Case {
    Case { name, run: Box::new(run), rounds: Vec::new() }
}

fn cutting(v6: bool, write: fn(&Plan<'_>, u16, &[u8], &mut [u8])) -> impl FnMut() -> usize {
    let frames: Vec<Vec<u8>> =
        (0..4).map(|i| [headers(v6, i, 0, PAYLOAD), vec![i; PAYLOAD]].concat()).collect();
    let mut buffers = vec![[0u8; 2048]; 64];
    let mut turn = 0;
    move || {
        turn += 1;
        let frame = black_box(&frames[turn % frames.len()]);
        let request = Request { mtu: 1500, gso_size: 1448 - 20 * u16::from(v6), ids: Ids::Increment };
        let plan = Plan::new(frame, frame.len() as u32, &request).unwrap();
        for (index, (cut, out)) in plan.cuts().zip(&mut buffers).enumerate() {
            let payload = &frame[cut.payload.start as usize..cut.payload.end as usize];
            write(&plan, index as u16, payload, out);
        }
        black_box(&buffers);
        plan.segs().into()
    }
}

fn merging(v6: bool, flows: u8) -> impl FnMut() -> usize {
    let frame = |i: u8| headers(v6, i % flows, i / flows, 1448);
    let burst: Vec<Vec<u8>> = (0..32).map(frame).collect();
    let mut gro = Gro::<64>::new(GroLimits { max_segs: 64, max_len: 65_549 });
    let merged: usize = 32 - usize::from(flows);
    move || {
        gro.clear();
        for (i, head) in black_box(&burst).iter().enumerate() {
            let packet = Received {
                index: i as u16,
                head,
                frame_len: head.len() as u32 + 1448,
                flow_hash: u32::from(head[25 + 4 * usize::from(v6)]) ^ u32::from(i as u8 % flows),
                checksums_good: true,
            };
            black_box(gro.offer(&packet));
        }
        let gone: usize = gro.merged().map(|merged| usize::from(merged.segs) - 1).sum();
        assert_eq!(gone, merged);
        32
    }
}

/// Headers of segment `i` of a flow.
fn headers(v6: bool, flow: u8, i: u8, payload: usize) -> Vec<u8> {
    let mut head = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let len = |more: usize| ((payload + 32 + more) as u16).to_be_bytes();
    if v6 {
        head.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        head.extend(len(0));
        head.extend([6, 64]);
        head.extend([0x20; 15]);
        head.extend([flow]);
        head.extend([0x20; 16]);
    } else {
        head.extend([8, 0, 0x45, 0]);
        head.extend(len(20));
        head.extend([0, i, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, flow, 192, 0, 2, 1]);
    }
    head.extend([0x9c, 0x40, 1, 0xbb]);
    head.extend((u32::from(i) * 1448).to_be_bytes());
    head.extend([0, 0, 0, 9, 0x80, 0x10, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    head
}

const V4_NAMES: [&str; 3] = [
    "TCP/IPv4 64 KB, plan and headers",
    "TCP/IPv4 64 KB, plan, headers and copy",
    "TCP/IPv4 64 KB, plan, headers, copy and checksum",
];
const V6_NAMES: [&str; 3] = [
    "TCP/IPv6 64 KB, plan and headers",
    "TCP/IPv6 64 KB, plan, headers and copy",
    "TCP/IPv6 64 KB, plan, headers, copy and checksum",
];
const PAYLOAD: usize = 65_160;
const PASSES: usize = 200;
const ROUNDS: usize = 31;
