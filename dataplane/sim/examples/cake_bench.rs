//! What cake costs per packet, without DPDK: with all hashes ready, or "from the frame": parsed and
//! hashed as the engine does, flow and both hosts.
//!
//! `cargo run --release -p sim --example cake_bench` prints, per case, the median and the least of
//! several rounds in nanoseconds; the cases take turns, so that noise meets all of them. A word as
//! argument leaves only the cases whose names contain it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and may panic"
)]

use shaper::flow::dissect::{Dissected, dissect_into};
use shaper::flow::hash::FlowHasher;
use shaper::packet::{Arrival, DsField, Piece};
use shaper::qdisc::cake::{AckFilter, Cake, Diffserv, FlowMode, Params};
use shaper::rng::{Rng, SplitMix};
use shaper::time::Instant;
use shaper::units::Rate;
use std::hint::black_box;

/// What stands for an mbuf: one cache line that the packet path reads and writes.
#[repr(align(64))]
struct Descriptor {
    hash: u32,
    host: u32,
    len: u32,
    sent: u32,
    ds: DsField,
    ack: u32,
}

/// A UDP datagram as the classifier sees it.
#[repr(align(64))]
struct Frame([u8; 64]);

struct Bench {
    name: &'static str,
    qdisc: Cake<u64>,
    descriptors: Vec<Descriptor>,
    /// One for each descriptor; none: the hashes are ready.
    frames: Vec<Frame>,
    hasher: FlowHasher,
    /// Order in which descriptors arrive.
    order: Vec<u32>,
    /// Arrivals bear a pure ACK.
    ack: Option<[u8; 52]>,
    rng: SplitMix,
    next: usize,
    now: u64,
    dropped: u64,
    enqueues_per_dequeue: usize,
    results: Vec<f64>,
}

/// How much there is of what.
#[derive(Clone, Copy)]
struct Size {
    flows: u32,
    backlog: usize,
    descriptors: u32,
    enqueues_per_dequeue: usize,
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let warm = Size { flows: 64, backlog: 256, descriptors: 1_024, enqueues_per_dequeue: 1 };
    let cold = Size { flows: 1_000, backlog: 4_000, descriptors: 65_536, enqueues_per_dequeue: 1 };
    let over = Size { flows: 64, backlog: 1_024, descriptors: 2_048, enqueues_per_dequeue: 2 };
    let acks = Size { flows: 1, backlog: 200, descriptors: 1_024, enqueues_per_dequeue: 1 };
    let filter = Params { ack_filter: AckFilter::Conservative, ..besteffort() };
    let overload = Params { memlimit: Some(1_024 * TRUESIZE), ..besteffort() };
    let mut benches = [
        Bench::new("besteffort flows, 64 flows", warm, besteffort()),
        Bench::new("besteffort flows unlimited, 64 flows", warm, Params { bandwidth: None, ..besteffort() }),
        Bench::new("diffserv4 triple-isolate, 64 flows", warm, diffserv4()),
        Bench::new("diffserv4 triple-isolate, 64 flows, from the frame", warm, diffserv4()).with_frames(),
        Bench::new("besteffort flows, cold", cold, besteffort()),
        Bench::new("diffserv4 triple-isolate, cold", cold, diffserv4()),
        Bench::new("diffserv4 triple-isolate, cold, from the frame", cold, diffserv4()).with_frames(),
        Bench::new("overload: 2 enqueues, 1 drop, 1 dequeue", over, overload),
        Bench::new("200 queued ACKs, no-ack-filter", acks, besteffort()).with_acks(),
        Bench::new("200 queued ACKs, with ack-filter", acks, filter).with_acks(),
    ]
    .into_iter()
    .filter(|bench| bench.name.contains(&wanted))
    .collect::<Vec<_>>();
    benches.iter_mut().for_each(Bench::fill);
    for _ in 0..ROUNDS {
        for bench in &mut benches {
            bench.round();
        }
    }
    for bench in &mut benches {
        bench.report();
    }
}

/// So fast that nothing waits for the shaper, which is charged all the same.
fn besteffort() -> Params {
    Params {
        bandwidth: Some(Rate::from_bits_per_sec(100_000_000_000)),
        diffserv: Diffserv::BestEffort,
        flow_mode: FlowMode::Flows,
        ..Params::default()
    }
}

fn diffserv4() -> Params {
    Params { diffserv: Diffserv::Diffserv4, flow_mode: FlowMode::TripleIsolate, ..besteffort() }
}

impl Bench {
    fn new(name: &'static str, size: Size, params: Params) -> Self {
        let mut rng = SplitMix::new(1, 2);
        let hashes: Vec<(u32, u32)> = (0..size.flows).map(|_| (rng.next_u32(), rng.next_u32())).collect();
        let mut order: Vec<u32> = (0..size.descriptors).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, rng.next_u32() as usize % (last + 1));
        }
        let descriptor = |index: u32| {
            let (hash, host) = hashes[(index % size.flows) as usize];
            let ds = DsField::ip([0, 0, 0, 8, 34, 46][(hash % 6) as usize] << 2);
            Descriptor { hash, host, len: 64, sent: 0, ds, ack: 1 }
        };
        Self {
            name,
            qdisc: Cake::new(&params, size.backlog + 64),
            descriptors: (0..size.descriptors).map(descriptor).collect(),
            order,
            frames: Vec::new(),
            hasher: FlowHasher::new(*b"known, as nobody"),
            ack: None,
            rng,
            next: size.backlog,
            now: 1_000_000_000,
            dropped: 0,
            enqueues_per_dequeue: size.enqueues_per_dequeue,
            results: Vec::new(),
        }
    }

    /// A frame of its flow for each descriptor; each flow has hosts of its own.
    fn with_frames(mut self) -> Self {
        self.frames = self.descriptors.iter().map(frame).collect();
        self
    }

    /// Duplicate ACKs, none of which may be removed, so that the queue stays as long as it is.
    fn with_acks(mut self) -> Self {
        let mut bytes = [0; 52];
        bytes[0] = 0x45;
        bytes[3] = 52;
        bytes[9] = 6;
        bytes[32] = 0x80;
        bytes[33] = 0x10;
        bytes[40..44].copy_from_slice(&[1, 1, 8, 10]);
        self.ack = Some(bytes);
        self
    }

    fn fill(&mut self) {
        for _ in 0..std::mem::take(&mut self.next) {
            self.enqueue();
        }
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
        self.fetch(self.order[(self.next + FETCH_AHEAD) % self.order.len()] as usize);
        self.next = (self.next + 1) % self.order.len();
        let descriptor = &self.descriptors[index as usize];
        if let Some(bytes) = &mut self.ack {
            bytes[28..32].copy_from_slice(&descriptor.ack.to_be_bytes());
        }
        let arrival = match self.frames.get(index as usize) {
            Some(frame) => read(&self.hasher, &frame.0),
            None => Arrival {
                flow_hash: descriptor.hash,
                src_hash: descriptor.host,
                dst_hash: !descriptor.host,
                ds: descriptor.ds,
                network_offset: 14,
                network: self.ack.as_ref().map_or(&[], |bytes| bytes.as_slice()),
                ..Arrival::default()
            },
        };
        let piece = Piece::single(u64::from(index), descriptor.len, TRUESIZE);
        let dropped = &mut self.dropped;
        let result = self.qdisc.enqueue(
            Instant::from_nanos(self.now),
            &mut self.rng,
            &arrival,
            std::iter::once(piece),
            &mut |packet, _| *dropped += packet | 1,
        );
        black_box(result);
    }

    /// As the engine prefetches the headers of a burst; a load, as safe code has no prefetch.
    #[inline]
    fn fetch(&self, index: usize) {
        black_box(self.descriptors[index].len);
        if let Some(frame) = self.frames.get(index) {
            black_box(frame.0[0]);
        }
    }

    #[inline]
    fn dequeue(&mut self) {
        self.now += 50;
        let dropped = &mut self.dropped;
        let now = Instant::from_nanos(self.now);
        let delivery =
            self.qdisc.dequeue(now, &mut self.rng, &mut |packet, _| *dropped += packet | 1).unwrap();
        self.descriptors[delivery.packet as usize].sent += delivery.len;
    }

    fn report(&mut self) {
        self.results.sort_by(f64::total_cmp);
        let (median, least) = (self.results[ROUNDS / 2], self.results[0]);
        let stats = self.qdisc.stats();
        println!("{:52} median {median:6.1} ns  least {least:6.1} ns", self.name);
        println!("{:52} sent {} dropped {} queued {}", "", stats.packets, stats.drops, stats.qlen);
    }
}

/// As the engine's classifier.
#[inline]
fn read(hasher: &FlowHasher, frame: &[u8]) -> Arrival<'static> {
    let mut seen = Dissected::NOTHING;
    dissect_into(&mut seen, frame, frame.len());
    let (src_hash, dst_hash) = hasher.hosts(&seen.key);
    Arrival {
        flow_hash: hasher.flow(&seen.key),
        src_hash,
        dst_hash,
        ds: seen.ds,
        is_arp: seen.is_arp(),
        network_offset: seen.network_offset,
        ..Arrival::default()
    }
}

fn frame(descriptor: &Descriptor) -> Frame {
    let mut bytes = [0x5a; 64];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    bytes[14..26].copy_from_slice(&[0x45, descriptor.ds.bits(), 0, 50, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes[26..30].copy_from_slice(&descriptor.host.to_be_bytes());
    bytes[30..34].copy_from_slice(&(!descriptor.host).to_be_bytes());
    bytes[34..36].copy_from_slice(&(descriptor.hash as u16).to_be_bytes());
    bytes[36..42].copy_from_slice(&[0x13, 0x89, 0, 30, 0, 0]);
    Frame(bytes)
}

/// As in the engine.
const FETCH_AHEAD: usize = 4;
const ROUNDS: usize = 301;
/// Dequeues per round before it is timed: the cases before it have emptied the cache.
const WARM_UP: usize = 2_000;
/// Dequeues per round: half a millisecond or so, cold or not: far less than a time slice, so that a
/// busy machine spoils some rounds and not all.
const PACKETS: usize = 4_000;
/// Memory of a small packet: an mbuf of the default size and its header.
const TRUESIZE: u32 = 2_304;
