//! What fq_codel costs per packet, without DPDK, parsing or hashing.
//!
//! `cargo run --release -p sim --example fq_codel_bench` prints, per case, the median and the
//! least of several rounds in nanoseconds; the cases take turns, so that noise meets all of them.
//! A word as argument leaves only the cases whose names contain it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and may panic"
)]

use shaper::packet::{Arrival, DsField, Piece};
use shaper::qdisc::fq_codel::{FqCodel, Params};
use shaper::rng::{Rng, SplitMix};
use shaper::time::Instant;
use std::hint::black_box;

/// What stands for an mbuf: one cache line that the packet path reads and writes.
#[repr(align(64))]
struct Descriptor {
    hash: u32,
    len: u32,
    sent: u32,
}

struct Bench {
    name: &'static str,
    qdisc: FqCodel<u64>,
    descriptors: Vec<Descriptor>,
    /// Order in which descriptors arrive.
    order: Vec<u32>,
    next: usize,
    now: u64,
    dropped: u64,
    enqueues_per_dequeue: usize,
    results: Vec<f64>,
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let mut benches = [
        Bench::new("64 flows, hash ready: enqueue + dequeue", 64, 256, 1_024, Params::default(), 1),
        Bench::new("1000 flows, 65536 descriptors, 4000 queued", 1_000, 4_000, 65_536, Params::default(), 1),
        Bench::new("64 flows, overload: 2 enqueues, 1 drop, 1 dequeue", 64, 1_024, 2_048, overload(), 2),
    ]
    .into_iter()
    .filter(|bench| bench.name.contains(&wanted))
    .collect::<Vec<_>>();
    for _ in 0..ROUNDS {
        for bench in &mut benches {
            bench.round();
        }
    }
    for bench in &mut benches {
        bench.report();
    }
}

/// `limit` is what stands queued, so that each surplus packet costs a search for a victim.
fn overload() -> Params {
    Params { limit: 1_024, drop_batch: 1, ..Params::default() }
}

impl Bench {
    fn new(
        name: &'static str,
        flows: u32,
        backlog: usize,
        descriptors: u32,
        params: Params,
        enqueues_per_dequeue: usize,
    ) -> Self {
        let mut rng = SplitMix::new(1, 2);
        let hashes: Vec<u32> = (0..flows).map(|_| rng.next_u32()).collect();
        let hash = |index: u32| hashes[(index % flows) as usize];
        let mut order: Vec<u32> = (0..descriptors).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, rng.next_u32() as usize % (last + 1));
        }
        let mut bench = Self {
            name,
            qdisc: FqCodel::new(&params, params.limit as usize + 1).unwrap(),
            descriptors: (0..descriptors).map(|i| Descriptor { hash: hash(i), len: 64, sent: 0 }).collect(),
            order,
            next: 0,
            now: 1_000_000_000,
            dropped: 0,
            enqueues_per_dequeue,
            results: Vec::new(),
        };
        for _ in 0..backlog {
            bench.enqueue();
        }
        bench
    }

    fn round(&mut self) {
        self.pass(WARM_UP);
        let before = std::time::Instant::now();
        self.pass(PACKETS);
        self.results.push(before.elapsed().as_nanos() as f64 / PACKETS as f64);
    }

    fn pass(&mut self, packets: usize) {
        for _ in 0..packets {
            for _ in 0..self.enqueues_per_dequeue {
                self.enqueue();
            }
            self.dequeue();
        }
    }

    #[inline]
    fn enqueue(&mut self) {
        let index = self.order[self.next];
        self.next = (self.next + 1) % self.order.len();
        let descriptor = &self.descriptors[index as usize];
        let arrival = Arrival {
            flow_hash: descriptor.hash,
            ds: DsField::ip(0),
            network_offset: 14,
            ..Arrival::default()
        };
        let piece = Piece::single(u64::from(index), descriptor.len, 2_304);
        let dropped = &mut self.dropped;
        let result = self.qdisc.enqueue(
            Instant::from_nanos(self.now),
            &arrival,
            std::iter::once(piece),
            &mut |packet, _| *dropped += packet | 1,
        );
        black_box(result);
    }

    #[inline]
    fn dequeue(&mut self) {
        self.now += 50;
        let dropped = &mut self.dropped;
        let now = Instant::from_nanos(self.now);
        let delivery = self.qdisc.dequeue(now, &mut |packet, _| *dropped += packet | 1).unwrap();
        self.descriptors[delivery.packet as usize].sent += delivery.len;
    }

    fn report(&mut self) {
        self.results.sort_by(f64::total_cmp);
        let (median, least) = (self.results[ROUNDS / 2], self.results[0]);
        let stats = self.qdisc.stats();
        println!("{:52} median {median:6.1} ns  least {least:6.1} ns", self.name);
        println!(
            "{:52} sent {} dropped {} queued {}, {} new flows",
            "", stats.sent_pkts, stats.drops, stats.qlen, stats.new_flow_count
        );
    }
}

const ROUNDS: usize = 1_501;
/// Dequeues per round before it is timed: the cases before it have emptied the cache.
const WARM_UP: usize = 2_000;
/// Dequeues per round: half a millisecond or so, cold or not: far less than a time slice, so that a
/// busy machine spoils some rounds and not all.
const PACKETS: usize = 4_000;
