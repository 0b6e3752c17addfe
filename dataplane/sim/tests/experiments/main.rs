//! The three field experiments with real senders, in virtual time: fault first, then cure.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod e1;

use shaper::gso::Split;
use shaper::packet::DsField;
use shaper::qdisc::{self, cake, fifo, fq_codel};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use sim::net::rig::{Limit, Path, Release, Rig, Setup};
use sim::net::sender::{Cubic, Socket, Source, Supply, Tso};
use sim::net::{Table, Tcp};
use sim::nic;

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
