//! E1: TCP streams on a 100 Mbit/s card with TSO, under fq_codel. What lies in the ring is served first
//! come first served, whatever the discipline above thinks.
//!
//! Recorded in 2015 with two streams: with TSO autosizing a limit of 89908 and 62 to 28 Mbit/s; with the
//! limit set to 3000 by hand 45 to 45.

use super::*;
use shaper::packet::DsField;
use shaper::units::Rate;
use sim::net::rig::jain;
use sim::net::sender::{Reno, Source, Supply};
use sim::net::{Rig, Tcp};

/// What was seen in seconds of a run.
struct Seconds {
    /// Bytes of each stream on the wire, by second.
    left: Vec<Vec<f64>>,
}

impl Seconds {
    fn of(rig: &mut Rig, seconds: u64) -> Self {
        let second = |_| {
            rig.measure();
            rig.run(ms(1_000));
            rig.left()
        };
        Self { left: (0..seconds).map(second).collect() }
    }

    /// Jain's index of the least fair of them.
    fn worst(&self) -> f64 {
        self.left.iter().map(|second| jain(second)).fold(1.0, f64::min)
    }

    /// Mbit/s of the first stream and of the least.
    fn rates(&self) -> String {
        let streams = self.left[0].len();
        let sum = |nth: usize| self.left.iter().map(|second| second[nth]).sum::<f64>();
        let rate = |bytes: f64| bytes * 8.0 / self.left.len() as f64 / 1e6;
        let least = (0..streams).map(sum).fold(f64::INFINITY, f64::min);
        format!("{:.1}/{:.1}", rate(sum(0)), rate(least))
    }
}

/// Seven seconds after the first three, and all in all.
fn row(table: &mut Table, name: &str, case: Case) -> (f64, Outcome) {
    let mut rig = case.start();
    rig.run(ms(3_000));
    let seconds = Seconds::of(&mut rig, 7);
    let outcome = case::measure(&mut rig, case.setup.card, ms(3_000));
    table.row([
        name.into(),
        case.streams.to_string(),
        in_bytes(outcome.limit),
        outcome.in_flight.to_string(),
        seconds.rates(),
        format!("{:.4}", seconds.worst()),
        in_mbit(outcome.goodput),
        in_us(outcome.ping),
        outcome.lost.to_string(),
    ]);
    (seconds.worst(), outcome)
}

#[test]
fn streams_are_as_fair_as_the_ring_is_short() {
    let mut table = Table::new(
        "E1: 100 Mbit/s, ring 512, CUBIC, fq_codel; Jain's index of the worst of 7 seconds after the third;\n\
         # limit and bytes in flight (p99), Mbit/s of the first and the least stream, ping beyond idle (p99)",
        &["case", "streams", "limit", "in flight", "Mbit/s each", "worst", "goodput", "ping us", "lost"],
    );
    for streams in [2, 8] {
        let mut row = |name: &str, setup, socket| {
            let case = Case { setup, streams, socket, ping: 0 };
            row(&mut table, name, case)
        };
        let bare = faults(streams, &mut row);
        for (name, socket) in SENDERS {
            let (worst, outcome) = row(&format!("governed{name}"), weir(slow(), fq_codel()), socket);
            check(worst, &outcome, &bare);
        }
        let (worst, outcome) = row("governed, cake", weir(slow(), cake()), remote);
        check(worst, &outcome, &bare);
    }
    snapshot("e1", &[table]);
}

/// What the streams come to without a short ring, and without any scheduler.
fn faults(streams: u64, row: &mut impl FnMut(&str, Setup, Make) -> (f64, Outcome)) -> Outcome {
    let weir = weir(slow(), fq_codel());
    let ring = Setup { split: Split::Never, cutter: Cutter::Card, limit: Limit::Ring, ..weir };
    let (_, bare) = row("no weir", Setup { qdisc: no_qdisc(), ..ring }, local);
    let (whole, _) = row("fault: whole ring", ring, local);
    let (capped, _) = row("fault: whole ring, windows 2:1", ring, capped);
    let (stock, _) = row("stock limits", Setup { limit: Limit::Stock(0), ..ring }, local);
    let recorded = Setup { limit: Limit::Stock(89_908), ..ring };
    let (recorded, _) = row("stock limits, least 89908", recorded, local);
    let by_hand = Setup { limit: Limit::Fixed(3_000), ..weir };
    let (by_hand, _) = row("limit 3000 by hand", by_hand, local);
    row("whole ring outgrown", ring, remote);
    assert!(whole < 0.8 && capped < 0.92 && recorded < 0.8, "{whole} {capped} {recorded}");
    // Eight keep stock limits short themselves.
    assert!(stock < 0.9 || streams == 8, "{stock}");
    assert!(by_hand >= 0.999, "{by_hand}");
    bare
}

fn check(worst: f64, outcome: &Outcome, bare: &Outcome) {
    assert!(worst >= 0.999, "{worst} {outcome:?}");
    assert!(outcome.limit <= 8_886, "{outcome:?}");
    assert!(outcome.goodput >= 0.99 * bare.goodput, "{outcome:?} {bare:?}");
}

/// A card that was late, or fast, and is no longer: a limit that was right once would hide two streams
/// in the ring that never fill it. Within two hold times it is forgotten.
#[test]
fn a_limit_that_was_right_once_is_forgotten() {
    let mut table = Table::new(
        "E1 after a step: 2 streams with windows of 40 and 20 segments; governed, each half second after it",
        &["from Mbit/s, us", "to", "ms", "limit", "resid us", "Jain"],
    );
    for ((mbit, delay), (then, late)) in [((100, 10_000), (100, 50)), ((1_000, 1_500), (100, 50))] {
        let before = nic::Config { delay: us(delay), ..card(mbit, 4_096) };
        let after = nic::Config { delay: us(late), ..card(then, 4_096) };
        let mut rig = Case { setup: weir(before, cake()), streams: 2, socket: small, ping: 0 }.start();
        let flood = Source::paced(1_514, Rate::from_bits_per_sec(2_000_000 * mbit));
        rig.add_probe(flood.in_shifts(ms(3_000), ms(60_000)), DsField::ip(0));
        rig.run(ms(3_000));
        rig.become_like(after);
        for half in 1..=6 {
            let outcome = case::measure(&mut rig, after, ms(500));
            let jain = jain(&rig.left());
            table.row([
                format!("{mbit}, {delay}"),
                format!("{then}, {late}"),
                (half * 500).to_string(),
                in_bytes(outcome.limit),
                in_us(outcome.residence),
                format!("{jain:.4}"),
            ]);
            assert!(half != 1 || jain < 0.95, "the fault is not there: {jain}");
            assert!(half <= 4 || jain >= 0.999 && outcome.limit <= 8_886, "{jain} {outcome:?}");
        }
    }
    snapshot("e1_step", &[table]);
}

/// Ten minutes: no second is unfair, and no minute differs from another.
#[test]
fn two_streams_do_not_drift_in_600_seconds() {
    no_drift(2, "e1_600s_2");
}

#[test]
fn eight_streams_do_not_drift_in_600_seconds() {
    no_drift(8, "e1_600s_8");
}

fn no_drift(streams: u64, name: &str) {
    let mut table = Table::new(
        "E1 for 600 s, governed, free-running CUBIC from other hosts: by the minute, after the third second",
        &["minute", "streams", "Mbit/s each", "worst second", "whole minute", "limit", "lost"],
    );
    let case = Case { setup: weir(slow(), fq_codel()), streams, socket: remote, ping: 0 };
    let mut rig = case.start();
    rig.run(ms(3_000));
    for minute in 1..=10 {
        let (mut limit, mut lost) = (0, 0);
        let mut left = Vec::new();
        for _ in 0..60 {
            left.extend(Seconds::of(&mut rig, 1).left);
            limit = limit.max(rig.seen().limit.most());
            lost += rig.seen().moved.lost;
        }
        let whole: Vec<f64> =
            (0..left[0].len()).map(|nth| left.iter().map(|second| second[nth]).sum()).collect();
        let seconds = Seconds { left };
        table.row([
            minute.to_string(),
            streams.to_string(),
            seconds.rates(),
            format!("{:.6}", seconds.worst()),
            format!("{:.6}", jain(&whole)),
            limit.to_string(),
            lost.to_string(),
        ]);
        assert!(seconds.worst() >= 0.999 && jain(&whole) >= 0.9995 && limit <= 8_886, "minute {minute}");
        assert!(lost > 0, "the windows are those of a sawtooth");
    }
    snapshot(name, &[table]);
}

/// The card of 2015.
fn slow() -> nic::Config {
    card(100, 512)
}

/// Of other hosts: nothing but the window holds them back.
fn remote(_: u64) -> Socket {
    Socket::new(cubic(), Tso::Autosized)
}

/// Of a host that hears of completions.
fn local(nth: u64) -> Socket {
    remote(nth).with(SmallQueue::Millisecond)
}

/// Every second one has half the window of the others (`iperf3 -w`), and all fit into the ring.
fn capped(nth: u64) -> Socket {
    let windows = [80, 40];
    Socket::new(cubic().capped(windows[nth as usize % 2]), Tso::Autosized)
}

/// Windows 2:1, of 90 KB together.
fn small(nth: u64) -> Socket {
    Socket::new(cubic().capped([40, 20][nth as usize % 2]), Tso::Autosized)
}

fn reno(_: u64) -> Socket {
    Socket::new(Tcp::new(Reno::new(), Supply::Bulk), Tso::Autosized)
}

fn whole(_: u64) -> Socket {
    Socket::new(cubic(), Tso::Whole)
}

type Make = fn(u64) -> Socket;

const SENDERS: [(&str, Make); 5] = [
    (", host's own", local),
    (", other hosts", remote),
    (", windows 2:1", capped),
    (", 64 KB packets", whole),
    (", Reno", reno),
];
