//! A fixed load for counting instructions: `.ci/instructions` runs it under callgrind.
//!
//! `instructions CASE PACKETS` queues and sends that many packets and nothing else of note. The
//! instructions of a run with more packets less those of a run with fewer, over the difference in
//! packets, are the cost of a packet: set-up cancels out, and no clock is involved. The same binary
//! and input give the same number on any machine.

use shaper::flow::dissect::dissect;
use shaper::flow::hash::FlowHasher;
use shaper::packet::{Arrival, DropReason, DsField, Piece};
use shaper::qdisc::cake::{self, Cake};
use shaper::qdisc::fq_codel::{self, FqCodel};
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::hint::black_box;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let run = match args.first().map(String::as_str) {
        Some("dissect") => dissect_and_hash,
        Some("fq_codel") => fq_codel,
        Some("cake") => cake,
        Some("cake_besteffort") => cake_besteffort,
        _ => return usage(),
    };
    match args.get(1).and_then(|packets| packets.parse().ok()) {
        Some(packets) => run(packets),
        None => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: instructions dissect|fq_codel|cake|cake_besteffort PACKETS");
    ExitCode::from(2)
}

/// Parse a TCP/IPv4 frame and compute the flow's and both hosts' hashes.
fn dissect_and_hash(packets: u32) {
    let hasher = FlowHasher::new(*b"known, as nobody");
    let mut frame = [0_u8; 66];
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 6]);
    frame[26..34].copy_from_slice(&[192, 0, 2, 1, 198, 51, 100, 1]);
    for packet in 0..packets {
        frame[34..38].copy_from_slice(&packet.to_be_bytes());
        let seen = dissect(black_box(&frame), frame.len());
        black_box((hasher.flow(&seen.key), hasher.hosts(&seen.key)));
    }
}

/// Enqueue and dequeue with 64 flows and 256 packets waiting.
fn fq_codel(packets: u32) {
    let Ok(mut qdisc) = FqCodel::<u32>::new(&fq_codel::Params::default(), SLOTS) else { return };
    for packet in 0..packets {
        let (now, doomed) = (at(packet), &mut |packet: u32, _: DropReason| {
            black_box(packet);
        });
        qdisc.enqueue(now, &arrival(packet), std::iter::once(piece(packet)), doomed);
        if packet >= WAITING {
            black_box(qdisc.dequeue(now, doomed));
        }
    }
}

/// The same through cake with four tins and fairness between hosts and flows.
fn cake(packets: u32) {
    run_cake(&cake::Params { diffserv: cake::Diffserv::Diffserv4, ..cake::Params::default() }, packets);
}

/// The same with one tin and fairness between flows only, shaped at a rate that delays nothing.
fn cake_besteffort(packets: u32) {
    let params = cake::Params {
        bandwidth: Some(Rate::from_bits_per_sec(1_000_000_000_000)),
        diffserv: cake::Diffserv::BestEffort,
        flow_mode: cake::FlowMode::Flows,
        ..cake::Params::default()
    };
    run_cake(&params, packets);
}

fn run_cake(params: &cake::Params, packets: u32) {
    let mut qdisc = Cake::<u32>::new(params, SLOTS);
    let mut rng = SplitMix::new(1, 2);
    for packet in 0..packets {
        let (now, doomed) = (at(packet), &mut |packet: u32, _: DropReason| {
            black_box(packet);
        });
        qdisc.enqueue(now, &mut rng, &arrival(packet), std::iter::once(piece(packet)), doomed);
        if packet >= WAITING {
            black_box(qdisc.dequeue(now, &mut rng, doomed));
        }
    }
}

fn arrival(packet: u32) -> Arrival<'static> {
    let flow = packet % FLOWS;
    Arrival {
        flow_hash: flow.wrapping_mul(0x9e37_79b9),
        src_hash: (flow % 8).wrapping_mul(0x85eb_ca6b),
        dst_hash: (flow / 8).wrapping_mul(0xc2b2_ae35),
        ds: DsField::ip(if flow.is_multiple_of(16) { 0xb8 } else { 0 }),
        network_offset: 14,
        ..Arrival::default()
    }
}

fn piece(packet: u32) -> Piece<u32> {
    Piece::single(packet, 1514, 2304)
}

/// Packets 100 ns apart: 256 of them wait for 26 µs, far below any target.
fn at(packet: u32) -> Instant {
    Instant::ZERO + Duration::from_nanos(1_000_000_000 + 100 * u64::from(packet))
}

const FLOWS: u32 = 64;
const WAITING: u32 = 4 * FLOWS;
const SLOTS: usize = 1024;
