//! What an experiment is made of, and what comes of it.

use super::*;
use shaper::packet::DsField;
use shaper::qdisc::{self, fifo};
use shaper::units::Rate;
use sim::net::Tcp;
use sim::net::rig::{self, Rig};
use sim::net::sender::{Cubic, Source, Supply};

/// Streams through a port, and a ping beside them.
#[derive(Clone, Copy)]
pub struct Case {
    pub setup: Setup,
    pub streams: u64,
    /// Of the stream with this number.
    pub socket: fn(u64) -> Socket,
    /// DS field of the ping: 98 bytes every millisecond or so.
    pub ping: u8,
}

/// What came of it. Times in nanoseconds; percentiles are the 99th.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Share of the wire's time that was used.
    pub share: f64,
    /// Payload that arrived, in bits per second.
    pub goodput: f64,
    /// The most that might be in flight, and the percentile that was, in bytes.
    pub limit: u32,
    pub in_flight: u32,
    /// From submission to the last bit on the wire.
    pub residence: u64,
    /// What a round trip of the ping took longer than on an idle path.
    pub ping: u64,
    pub mean_ping: u64,
    /// Pieces into the discipline, frames to the card, and segments lost.
    pub pieces: u64,
    pub frames: u64,
    pub lost: u64,
}

impl Case {
    pub fn start(self) -> Rig {
        let path = rig::Path { one_way: us(100), rx_usecs: us(50) };
        let mut rig = Rig::new(self.setup, path).unwrap();
        for nth in 0..self.streams {
            rig.add_stream(Instant::ZERO + ms(7 * nth), (self.socket)(nth), DsField::ip(0));
        }
        rig.add_probe(Source::every(98, ms(1)).jittered(3), DsField::ip(self.ping));
        rig
    }

    /// Lets it settle for `before`, and measures for `span`.
    pub fn run(self, before: Duration, span: Duration) -> Outcome {
        let mut rig = self.start();
        rig.run(before);
        measure(&mut rig, self.setup.card, span)
    }
}

/// Measures for `span`, in front of `card`.
pub fn measure(rig: &mut Rig, card: nic::Config, span: Duration) -> Outcome {
    rig.measure();
    rig.run(span);
    let seconds = span.as_nanos() as f64 / 1e9;
    let (ping, mean_ping) = (rig.added(0).quantile(0.99), rig.added(0).mean());
    let goodput = rig.arrived() as f64 * 8.0 / seconds;
    let now = rig.now();
    assert_eq!(rig.unaccounted(), 0);
    let seen = rig.seen();
    Outcome {
        share: seen.wire_bytes as f64 * 8.0 / seconds / card.rate.bits_per_sec() as f64,
        goodput,
        limit: seen.limit.most(),
        in_flight: seen.in_flight.quantile(now, 0.99),
        residence: seen.residence.quantile(0.99),
        ping,
        mean_ping,
        pieces: seen.moved.pieces,
        frames: seen.moved.frames,
        lost: seen.moved.lost,
    }
}

/// weir with its defaults in front of `card`.
pub fn weir(card: nic::Config, qdisc: qdisc::Params) -> Setup {
    Setup {
        card,
        qdisc,
        split: Split::AUTO,
        cutter: Cutter::CardByGrain,
        limit: Limit::Governed,
        release: Release::Completion,
    }
}

/// A card of `mbit` that tells of each frame at once.
pub fn card(mbit: u64, ring: u32) -> nic::Config {
    nic::Config { rate: Rate::from_bits_per_sec(mbit * 1_000_000), ring, ..nic::Config::default() }
}

pub fn fq_codel() -> qdisc::Params {
    qdisc::Params::FqCodel(qdisc::fq_codel::Params::for_mtu(1_514))
}

pub fn cake() -> qdisc::Params {
    qdisc::Params::Cake(qdisc::cake::Params::default())
}

/// Nothing that schedules above the card.
pub fn no_qdisc() -> qdisc::Params {
    qdisc::Params::Fifo(fifo::Params { limit: 12_000, limit_bytes: u64::MAX })
}

pub fn cubic() -> Tcp {
    Tcp::new(Cubic::new(), Supply::Bulk)
}
