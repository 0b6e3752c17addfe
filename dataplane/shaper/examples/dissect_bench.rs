//! Nanoseconds per packet of dissection and hashing, over frames of several kinds.
//!
//! `cargo run --release -p shaper --example dissect_bench`
//!
//! Every figure is the median over rounds that alternate between all cases, so that a busy machine
//! hits them alike. The frames of a case differ in addresses and ports and fit the first-level cache.
#![allow(clippy::disallowed_methods)] // A benchmark owns its clock.

use shaper::flow::dissect::dissect;
use shaper::flow::hash::FlowHasher;
use std::hint::black_box;
use std::time::Instant;

/// One kind of frame and what is measured on it.
struct Case {
    name: &'static str,
    frames: Vec<Vec<u8>>,
    run: fn(&FlowHasher, &[u8]) -> u32,
    rounds: Vec<f64>,
}

fn main() {
    let hasher = FlowHasher::new(*b"a secret of 16 B");
    let mut cases = cases();
    for round in 0..ROUNDS + 1 {
        for case in &mut cases {
            let ns = measure(&hasher, case);
            if round > 0 {
                case.rounds.push(ns);
            }
        }
    }
    println!("{:<44} {:>8} {:>8}", "ns/packet", "median", "min");
    for case in &mut cases {
        case.rounds.sort_by(f64::total_cmp);
        println!("{:<44} {:>8.1} {:>8.1}", case.name, case.rounds[ROUNDS / 2], case.rounds[0]);
    }
}

fn measure(hasher: &FlowHasher, case: &Case) -> f64 {
    let start = Instant::now();
    for _ in 0..PASSES {
        for frame in &case.frames {
            black_box((case.run)(hasher, black_box(frame)));
        }
    }
    start.elapsed().as_nanos() as f64 / (PASSES * case.frames.len()) as f64
}

fn cases() -> Vec<Case> {
    let case = |name, frame: fn(u8) -> Vec<u8>, run| Case {
        name,
        frames: (0..FRAMES).map(frame).collect(),
        run,
        rounds: Vec::new(),
    };
    let tcp4 = |i| [ethernet(0x0800), ipv4(6, 20, i), tcp(i)].concat();
    let tcp6 = |i| [ethernet(0x86dd), ipv6(6, 20, i), tcp(i)].concat();
    let qinq = |i| [ethernet(0x88a8), vec![0, 100, 0x81, 0, 0, i, 8, 0], ipv4(6, 20, i), tcp(i)].concat();
    let pppoe = |i| [ethernet(0x8864), vec![0x11, 0, 0, i, 0, 42, 0, 0x21], ipv4(6, 20, i), tcp(i)].concat();
    let vxlan = |i| {
        let inner = [ethernet(0x0800), ipv4(6, 20, i), tcp(i)].concat();
        let udp = vec![0xc0, i, 0x12, 0xb5, 0, 70, 0, 0, 8, 0, 0, 0, 0, 0, i, 0];
        [ethernet(0x0800), ipv4(17, 70, i), udp, inner].concat()
    };
    vec![
        case("empty call", tcp4, |_, frame| frame.len() as u32),
        case("TCP/IPv4, dissect", tcp4, |_, frame| dissect(frame, frame.len()).key.id),
        case("TCP/IPv4, dissect + flow hash", tcp4, flow_only),
        case("TCP/IPv4, dissect + 3 hashes", tcp4, three_hashes),
        case("TCP/IPv6, dissect + flow hash", tcp6, flow_only),
        case("TCP/IPv6, dissect + 3 hashes", tcp6, three_hashes),
        case("QinQ TCP/IPv4, dissect + 3 hashes", qinq, three_hashes),
        case("PPPoE TCP/IPv4, dissect + 3 hashes", pppoe, three_hashes),
        case("VXLAN TCP/IPv4, dissect + 3 hashes", vxlan, three_hashes),
    ]
}

fn flow_only(hasher: &FlowHasher, frame: &[u8]) -> u32 {
    let dissected = dissect(frame, frame.len());
    hasher.flow(&dissected.key) ^ u32::from(dissected.network_offset)
}

fn three_hashes(hasher: &FlowHasher, frame: &[u8]) -> u32 {
    let dissected = dissect(frame, frame.len());
    let (source, destination) = hasher.hosts(&dissected.key);
    hasher.flow(&dissected.key) ^ source ^ destination ^ u32::from(dissected.network_offset)
}

fn ethernet(ethertype: u16) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype.to_be_bytes()].concat()
}

fn ipv4(protocol: u8, len: u8, i: u8) -> Vec<u8> {
    vec![0x45, 0, 0, 20 + len, 0, i, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, i, 192, 0, 2, i / 2]
}

fn ipv6(next: u8, len: u8, i: u8) -> Vec<u8> {
    let mut head = vec![0x60, 0, 0, 0, 0, len, next, 64];
    head.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, i]);
    head.extend([0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, i / 2]);
    head
}

fn tcp(i: u8) -> Vec<u8> {
    vec![0x9c, i, 0x01, 0xbb, 0, 0, 0, i, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]
}

const FRAMES: u8 = 64;
const PASSES: usize = 2000;
const ROUNDS: usize = 31;
