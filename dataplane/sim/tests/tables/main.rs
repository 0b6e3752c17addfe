//! Disciplines under modelled traffic in virtual time: each test prints a table, compares it with
//! the one in `tests/snapshots`, and asserts the facts that matter beside it.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p sim --test tables` writes the tables anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod acks;
mod hosts;
mod paths;
mod rates;
mod sparse;
mod tins;

use shaper::conformance::Weir;
use shaper::packet::DsField;
use shaper::qdisc::cake::Params;
use shaper::qdisc::fq_codel;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use sim::net::sender::{Congestion, Cubic, Reno, Supply};
use sim::net::{Direction, Discipline, FlowSpec, Line, Sender, Source, Table, Tcp, World};
use std::path::Path;

/// A discipline by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// With the parameters of the scenario.
    Cake,
    FqCodel,
    /// A thousand packets: Linux's default queue.
    Fifo,
}

const KINDS: [Kind; 3] = [Kind::Cake, Kind::FqCodel, Kind::Fifo];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Cake => "cake",
            Self::FqCodel => "fq_codel",
            Self::Fifo => "fifo 1000p",
        }
    }

    fn at(self, rate: Rate, params: Params) -> Box<dyn Discipline> {
        match self {
            Self::Cake => sim::net::cake::<Weir>(&Params { bandwidth: Some(rate), ..params }),
            Self::FqCodel => sim::net::fq_codel::<Weir>(rate, &fq_codel::Params::default()).unwrap(),
            Self::Fifo => sim::net::fifo(rate, 1_000).unwrap(),
        }
    }
}

/// `discipline` towards the hosts, and a free way back.
fn world(discipline: Box<dyn Discipline>) -> World {
    World::new(Line::new(discipline), Line::new(sim::net::unshaped()))
}

/// A flow from host 100 to host 200, down, best effort, ECN-capable, 20 ms, from the start.
fn flow(sender: Sender) -> FlowSpec {
    FlowSpec {
        sender,
        direction: Direction::Down,
        source: 100,
        destination: 200,
        ds: DsField::ip(ECT0),
        rtt: ms(20),
        start: Instant::ZERO,
    }
}

fn tcp(congestion: impl Congestion + 'static) -> Sender {
    Sender::Tcp(Box::new(Tcp::new(congestion, Supply::Bulk)))
}

fn cubic() -> Sender {
    tcp(Cubic::new())
}

fn reno() -> Sender {
    tcp(Reno::new())
}

/// A small packet every 20 ms or so, as a call sends them.
fn call(seed: u64) -> Sender {
    Sender::Source(Source::every(214, ms(20)).jittered(seed))
}

/// Full frames at `rate`, whatever becomes of them.
fn flood(rate: Rate, seed: u64) -> Sender {
    Sender::Source(Source::paced(1_514, rate).jittered(seed))
}

/// Lets the flows settle for `before`, and measures for `span`.
fn settle_and_measure(world: &mut World, before: Duration, span: Duration) {
    world.run(before);
    world.measure();
    world.run(span);
    assert_eq!(world.unaccounted(), 0);
}

/// Fails unless the table is the stored one.
fn snapshot(name: &str, table: &Table) {
    let text = table.to_string();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name).with_extension("txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        stored,
        text,
        "{} differs; if that is meant: UPDATE_SNAPSHOTS=1 cargo test -p sim --test tables",
        path.display()
    );
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_sec(rate * 1_000_000)
}

fn kbit(rate: u64) -> Rate {
    Rate::from_bits_per_sec(rate * 1_000)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Milliseconds with two decimals.
fn in_ms(span: Duration) -> String {
    format!("{:.2}", span.as_nanos() as f64 / 1e6)
}

/// Mbit/s with two decimals.
fn in_mbit(rate: f64) -> String {
    format!("{:.2}", rate / 1e6)
}

const ECT0: u8 = 2;
