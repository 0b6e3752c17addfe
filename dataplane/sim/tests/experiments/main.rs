//! The three field experiments with real senders, in virtual time: fault first, then cure. Each test
//! prints a table, compares it with the one in `tests/experiments/tables`, and asserts the bars.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p sim --test experiments` writes the tables anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod explore;

use shaper::gso::Split;
use shaper::packet::DsField;
use shaper::qdisc::{self, cake, fifo, fq_codel};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use sim::net::rig::{Limit, Path, Release, Rig, Setup};
use sim::net::sender::{Cubic, Socket, Source, Supply, Tso};
use sim::net::{Table, Tcp};
use sim::nic;

/// An experiment: streams through a port, and a ping beside them.
#[derive(Clone, Copy)]
struct Case {
    setup: Setup,
    streams: usize,
    socket: fn(usize) -> Socket,
    /// DS field of the ping.
    ping: u8,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Share of the wire's time that was used.
    share: f64,
    /// Payload that arrived, in bits per second.
    goodput: f64,
    /// Bytes: the largest limit, and the 99th percentile and the most in flight.
    limit: u32,
    in_flight: u32,
    most: u32,
    /// Nanoseconds, 99th percentile: from submission to the last bit on the wire.
    residence: u64,
    /// Nanoseconds that a round trip took longer than on an idle path: mean and 99th percentile.
    ping: u64,
    mean: u64,
    /// Of the streams, and segments of each.
    pieces: u64,
    each: f64,
    lost: u64,
}

impl Case {
    fn start(self) -> Rig {
        let path = Path { one_way: us(100), rx_usecs: us(50) };
        let mut rig = Rig::new(self.setup, path).unwrap();
        for nth in 0..self.streams {
            rig.add_stream(Instant::ZERO + ms(7 * nth as u64), (self.socket)(nth), DsField::ip(0));
        }
        rig.add_probe(Source::every(98, ms(1)).jittered(3), DsField::ip(self.ping));
        rig
    }

    /// Lets it settle for `before`, and measures for `span`.
    fn run(self, before: Duration, span: Duration) -> Outcome {
        let mut rig = self.start();
        rig.run(before);
        measure(&mut rig, self.setup.card, span)
    }
}

fn measure(rig: &mut Rig, card: nic::Config, span: Duration) -> Outcome {
    rig.measure();
    rig.run(span);
    let seconds = span.as_nanos() as f64 / 1e9;
    let (ping, mean) = (rig.added(0).quantile(0.99), rig.added(0).mean());
    let goodput = rig.arrived() as f64 * 8.0 / seconds;
    let now = rig.now();
    let seen = rig.seen();
    Outcome {
        share: seen.wire_bytes as f64 * 8.0 / seconds / card.rate.bits_per_sec() as f64,
        goodput,
        limit: seen.limit.most(),
        in_flight: seen.in_flight.quantile(now, 0.99),
        most: seen.in_flight.most(),
        residence: seen.residence.quantile(0.99),
        ping,
        mean,
        pieces: seen.taken_in.pieces,
        each: seen.taken_in.segments as f64 / seen.taken_in.pieces.max(1) as f64,
        lost: seen.taken_in.lost,
    }
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn fq_codel() -> qdisc::Params {
    qdisc::Params::FqCodel(fq_codel::Params::for_mtu(1_514))
}

fn cake() -> qdisc::Params {
    qdisc::Params::Cake(cake::Params::default())
}

/// Nothing above the card.
fn no_qdisc() -> qdisc::Params {
    qdisc::Params::Fifo(fifo::Params { limit: 12_000, limit_bytes: u64::MAX })
}

/// A card of `mbit` that tells of each frame at once.
fn card(mbit: u64, ring: u32) -> nic::Config {
    nic::Config {
        rate: Rate::from_bits_per_sec(mbit * 1_000_000),
        ring,
        delay: Duration::ZERO,
        tx_usecs: Duration::ZERO,
        tx_frames: 1,
    }
}

fn cubic() -> Tcp {
    Tcp::new(Cubic::new(), Supply::Bulk)
}
