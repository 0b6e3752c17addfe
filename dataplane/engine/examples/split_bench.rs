//! What super-packets cost on the packet path: nanoseconds per segment cut, per packet merged.
//!
//! `cargo run --release -p engine --example split_bench -- --rounds 31` prints a table and, as its last
//! line, the medians as JSON. Every figure is the median over rounds that alternate between all cases, so that a
//! busy machine hits them alike. Buffers come from mempools with a
//! cache, super-packets of 65160 bytes of TCP with timestamps lie in buffers of 2 KiB, and are cut into
//! 1448 bytes of payload (IPv6: 1428). What is cut and merged is checked once, before the clock runs.
//!
//! * `refer`: headers written, payload by reference, checksum left to the port.
//! * `copy`: headers written, payload copied, checksum left to the port.
//! * `… + checksum`: the same with the checksum computed; `checksum`: what that takes more, in the same round.
//! * `rte_gso`: DPDK's library, which computes no checksum; IPv4 only.
//! * `free`: giving the pieces back, which is in none of the others. Where they are copies: not much less.
//! * `merge`: GRO of bursts of 32, checksums checked by the port, by us, or nothing to merge.
//! * `merged`: which share of the packets of such a burst of one flow, in order, went into another, as counted:
//!   the first one never does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a benchmark")]

use dpdk::mbuf::flags;
use dpdk::testing::dpdk_gso;
use dpdk::{Burst, Eal, EalConfig, Mbuf, Mempool, MempoolConfig, TxOffload};
use engine::counters::Counters;
use engine::pool::{BUFFER, PieceSum};
use engine::split::offload::Offload;
use engine::split::{Build, Merger, Outcome, Pieces, Policy};
use shaper::gso::{Ids, Request, Split};
use shaper::packet::Piece;
use shaper::wire::checksum::Sum;
use std::hint::black_box;

fn main() {
    let rounds = rounds();
    let eal = Eal::init(&eal_config()).expect("the EAL starts");
    let bench = Bench::new(&eal);
    let mut cases = Cases::default();
    for round in 0..=rounds {
        cases.keep = round > 0;
        for v6 in [false, true] {
            bench.cutting(&mut cases, v6);
        }
        bench.merging(&mut cases);
    }
    assert_eq!(bench.data.in_use() + bench.headers.in_use() + bench.copies.in_use(), 0, "every mbuf is back");
    cases.print();
}

struct Bench {
    data: Mempool,
    headers: Mempool,
    copies: Mempool,
}

/// Figures by name, in the order in which they came.
#[derive(Default)]
struct Cases {
    figures: Vec<(String, Vec<f64>)>,
    keep: bool,
    /// Percent.
    merged: f64,
}

impl Bench {
    fn new(eal: &Eal) -> Self {
        let pool = |name: &str, count, data_room| {
            let config = MempoolConfig { cache: 256, data_room, ..MempoolConfig::new(name, count) };
            Mempool::create(eal, &config).unwrap()
        };
        Self {
            data: pool("data", 16_383, BUFFER as u16),
            headers: pool("headers", 16_383, PieceSum::data_room(true)),
            copies: pool("copies", 8_191, PieceSum::data_room(false)),
        }
    }

    fn cutting(&self, cases: &mut Cases, v6: bool) {
        let frame = frame(v6, 0, 0, PAYLOAD);
        let version = if v6 { "IPv6" } else { "IPv4" };
        let port = Offload { tcp_checksum: true, ..Offload::NONE };
        for (name, by_reference, offload) in [
            ("refer", true, port),
            ("copy", false, port),
            ("refer + checksum", true, Offload::NONE),
            ("copy + checksum", false, Offload::NONE),
        ] {
            let pool = if by_reference { &self.headers } else { &self.copies };
            let mut pieces = Pieces::new(pool.clone(), by_reference);
            let mut built: Vec<Piece<Mbuf>> = Vec::with_capacity(64);
            let (mut cut, mut free, mut segs) = (0, 0, 0);
            for _ in 0..PASSES {
                let packet = Mbuf::from_bytes(&self.data, &frame).unwrap();
                // The sender's bytes are as far away as a port's DMA puts them: not in the nearest cache.
                let start = nanos();
                let policy = Policy::new(Split::Always, None, &offload);
                let request = Request { mtu: 1500, gso_size: mss(v6), ids: Ids::Increment };
                let build = Build::new(packet, request, &policy, &pieces).unwrap();
                let outcome = build.advance(&mut pieces, &offload, &mut 64, &mut built);
                assert!(matches!(outcome, Outcome::Done));
                let between = nanos();
                segs += built.len();
                black_box(&built).first().unwrap();
                built.clear();
                cut += between - start;
                free += nanos() - between;
            }
            cases.add(&format!("cut {version}, {name}"), cut, segs);
            if offload == port {
                cases.add(&format!("free {version}, {name}"), free, segs);
            }
        }
        for name in ["refer", "copy"] {
            cases.difference(&format!("checksum {version}, {name}"), &format!("cut {version}, {name}"));
        }
        if !v6 {
            self.reference(cases, &frame);
        }
    }

    fn reference(&self, cases: &mut Cases, frame: &[u8]) {
        let (mut cut, mut free, mut segs) = (0, 0, 0);
        for _ in 0..PASSES {
            let mut packet = Mbuf::from_bytes(&self.data, frame).unwrap();
            packet.set_ol_flags(flags::TX_TCP_SEG | flags::TX_IPV4);
            packet.set_tx_offload(TxOffload { l2_len: 14, l3_len: 20, l4_len: 32, ..TxOffload::default() });
            let mut out = Burst::new();
            let start = nanos();
            let count = dpdk_gso(&mut packet, 66 + 1448, &self.headers, &self.headers, &mut out);
            drop(packet);
            let between = nanos();
            assert_eq!(count, PAYLOAD / 1448);
            segs += count;
            out.clear();
            cut += between - start;
            free += nanos() - between;
        }
        cases.add("cut IPv4, rte_gso (no checksum)", cut, segs);
        cases.add("free IPv4, rte_gso", free, segs);
    }

    fn merging(&self, cases: &mut Cases) {
        let mut merger = Merger::new();
        for (name, v6, flows, checked) in [
            ("merge IPv4, checked by the port", false, 1, true),
            ("merge IPv6, checked by the port", true, 1, true),
            ("merge IPv4, checked here", false, 1, false),
            ("merge IPv4, 32 flows: nothing to merge", false, 32, true),
        ] {
            let frames: Vec<_> = (0..32).map(|i| frame(v6, i % flows, i / flows, mss(v6).into())).collect();
            let (mut merge, mut packets, mut counters) = (0, 0, Counters::default());
            for _ in 0..PASSES {
                let mut burst = Burst::new();
                for frame in &frames {
                    let mut packet = Mbuf::from_bytes(&self.data, frame).unwrap();
                    if checked {
                        packet.set_ol_flags(flags::RX_IP_CKSUM_GOOD | flags::RX_L4_CKSUM_GOOD);
                    }
                    burst.push(packet).unwrap();
                }
                let start = nanos();
                merger.merge(&mut burst, &mut counters);
                merge += nanos() - start;
                packets += frames.len();
                assert_eq!(burst.len(), usize::from(flows), "merged");
            }
            cases.add(name, merge, packets);
            if name == "merge IPv4, checked by the port" {
                cases.merged = counters.supers.merged as f64 / packets as f64 * 100.0;
            }
        }
    }
}

impl Cases {
    fn add(&mut self, name: &str, nanos: u64, count: usize) {
        if !self.keep {
            return;
        }
        self.record(name, nanos as f64 / count as f64);
    }

    /// What the checksum took more in this round.
    fn difference(&mut self, name: &str, without: &str) {
        if !self.keep {
            return;
        }
        let last = |name: &str| {
            let (_, figures) = self.figures.iter().find(|(known, _)| known == name).unwrap();
            *figures.last().unwrap()
        };
        let figure = last(&format!("{without} + checksum")) - last(without);
        self.record(name, figure);
    }

    fn record(&mut self, name: &str, figure: f64) {
        match self.figures.iter_mut().find(|(known, _)| known == name) {
            Some((_, figures)) => figures.push(figure),
            None => self.figures.push((name.to_owned(), vec![figure])),
        }
    }

    fn print(mut self) {
        println!("{:<44} {:>8} {:>8}", "ns per segment cut or freed, packet merged", "median", "min");
        let mut json = Vec::new();
        for (name, figures) in &mut self.figures {
            figures.sort_by(f64::total_cmp);
            let median = figures[figures.len() / 2];
            println!("{name:<44} {median:>8.1} {:>8.1}", figures[0]);
            json.push(format!(r#""{name}": {median:.1}"#));
        }
        let merged = "merged IPv4 of one burst in order";
        println!("{merged:<44} {:>8.1} %", self.merged);
        json.push(format!(r#""{merged}": {:.1}"#, self.merged));
        println!("{{{}}}", json.join(", "));
    }
}

/// A TCP segment of a flow, number `i`, all checksums right.
fn frame(v6: bool, flow: u8, i: u8, payload: usize) -> Vec<u8> {
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
        let checksum = Sum::default().bytes(&head[14..34]).checksum();
        head[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    let tcp = head.len();
    head.extend([0x9c, 0x40, 1, 0xbb]);
    head.extend((u32::from(i) * payload as u32).to_be_bytes());
    head.extend([0, 0, 0, 9, 0x80, 0x10, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    head.resize(head.len() + payload, flow);
    let addresses = if v6 { &head[22..54] } else { &head[26..34] };
    let sum = Sum::default().bytes(addresses).word(6).word((head.len() - tcp) as u16);
    let checksum = sum.bytes(&head[tcp..]).checksum();
    head[tcp + 16..tcp + 18].copy_from_slice(&checksum.to_be_bytes());
    head
}

fn mss(v6: bool) -> u16 {
    if v6 { 1428 } else { 1448 }
}

/// Nanoseconds since the first call. Reading the clock costs 25 ns, half a nanosecond a segment; a round in
/// which something else had the CPU is outvoted by the others.
fn nanos() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

fn eal_config() -> EalConfig {
    EalConfig::new(format!("split-bench-{}", std::process::id()))
        .arg("--no-huge")
        .arg("-m")
        .arg("256")
        .arg("--no-shconf")
        .arg("--no-pci")
        .arg("-l")
        .arg("0")
}

fn rounds() -> usize {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rounds = match args.as_slice() {
        [] => Some(31),
        [name, value] if name == "--rounds" => value.parse().ok().filter(|rounds| *rounds > 0),
        _ => None,
    };
    rounds.unwrap_or_else(|| {
        eprintln!("usage: split_bench [--rounds N], N at least 1");
        std::process::exit(2)
    })
}

const PAYLOAD: usize = 65_160;
/// Super-packets, or bursts, of each case in a round.
const PASSES: usize = 50;
