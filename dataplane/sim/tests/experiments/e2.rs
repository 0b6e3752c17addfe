//! E2: super-packets of 64 KB through unshaped cake, split or not, and the same at 10 Gbit/s.
//!
//! Recorded in 2018 at 1 Gbit/s with 4 uploads: not split, a limit of 131966 and a ping of 1.67 ms;
//! split, 42392 to 45420 and 0.83 ms; 941 Mbit/s either way.

use super::*;

#[test]
fn super_packets_at_a_gigabit() {
    let mut table = table("E2: 1 Gbit/s");
    let weir = weir(card(1_000, 4_096), cake());
    let stock = Setup { cutter: Cutter::Card, limit: Limit::Stock(0), ..weir };
    let mut row = |name, setup| row(&mut table, name, setup, ms(1_000));
    let bql_whole = row("stock limits, not split", Setup { split: Split::Never, ..stock });
    let bql_cut = row("stock limits, split", Setup { split: Split::Always, ..stock });
    let whole = row("governed, not split", Setup { split: Split::Never, cutter: Cutter::Card, ..weir });
    let cut = row("governed, split", Setup { split: Split::Always, ..weir });
    row("governed, auto, whole to the card", Setup { cutter: Cutter::Card, ..weir });
    let auto = row("governed, auto", weir);
    let by_loop = row("governed, auto, cut in software", Setup { cutter: Cutter::Loop, ..weir });

    for (fault, cure) in [(&bql_whole, &bql_cut), (&whole, &cut), (&whole, &auto), (&bql_whole, &auto)] {
        assert!(fault.in_flight >= 3 * cure.in_flight, "{fault:?} {cure:?}");
        assert!(fault.mean_ping >= 2 * cure.mean_ping && fault.ping >= 2 * cure.ping, "{fault:?} {cure:?}");
        assert!(cure.goodput >= 0.999 * fault.goodput, "{fault:?} {cure:?}");
    }
    assert!((120_000..150_000).contains(&bql_whole.limit), "as recorded: {bql_whole:?}");
    for auto in [&auto, &by_loop] {
        no_worse_than_split(auto, &cut, 4, wire_time(8, 1_000));
    }
    for outcome in [&cut, &auto, &by_loop] {
        within_two_windows(outcome, 1_000);
    }
    snapshot("e2", &[table]);
}

#[test]
fn super_packets_at_ten_gigabit() {
    let mut table = table("E2 at 10 Gbit/s");
    let weir = weir(card(10_000, 4_096), cake());
    let mut row = |name, setup| row(&mut table, name, setup, ms(200));
    row("governed, not split", Setup { split: Split::Never, cutter: Cutter::Card, ..weir });
    let cut = row("governed, split", Setup { split: Split::Always, ..weir });
    let auto = row("governed, auto", weir);
    no_worse_than_split(&auto, &cut, 20, wire_time(45, 10_000));
    for outcome in [&cut, &auto] {
        within_two_windows(outcome, 10_000);
    }
    snapshot("e2_10g", &[table]);
}

fn table(title: &str) -> Table {
    let title = format!(
        "{title}, ring 4096, 4 CUBIC streams of 64 KB super-packets, cake unshaped;\n\
         # limit and bytes in flight (p99), residence (p99), ping beyond idle; pieces through cake, frames to the card"
    );
    Table::new(
        &title,
        &["case", "limit", "in flight", "resid us", "ping us", "p99 us", "Mbit/s", "pieces/s", "frames/s"],
    )
}

fn row(table: &mut Table, name: &str, setup: Setup, span: Duration) -> Outcome {
    let socket = |_| Socket::new(cubic(), Tso::Whole);
    let outcome = Case { setup, streams: 4, socket, ping: 0 }.run(ms(1_200), span);
    let rate = |count: u64| (count * 1_000_000 / span.as_micros()).to_string();
    table.row([
        name.into(),
        in_bytes(outcome.limit),
        outcome.in_flight.to_string(),
        in_us(outcome.residence),
        in_us(outcome.mean_ping),
        in_us(outcome.ping),
        in_mbit(outcome.goodput),
        rate(outcome.pieces),
        rate(outcome.frames),
    ]);
    outcome
}

/// No more waiting than split to single segments and the wire time of a piece, which is at most a
/// `gso-budget`; and so many times fewer pieces.
fn no_worse_than_split(auto: &Outcome, cut: &Outcome, fewer: u64, piece: u64) {
    assert!(piece <= us(100).as_nanos());
    assert!(auto.ping <= cut.ping + piece, "{auto:?} {cut:?}");
    assert!(auto.residence <= cut.residence + piece, "{auto:?} {cut:?}");
    assert!(auto.pieces * fewer <= cut.pieces, "{auto:?} {cut:?}");
    assert!(auto.goodput >= 0.999 * cut.goodput, "{auto:?} {cut:?}");
}

/// Nanoseconds that so many full frames take.
fn wire_time(frames: u64, mbit: u64) -> u64 {
    frames * 1_538 * 8_000 / mbit
}

/// Two decision windows of 100 us and three frames.
fn within_two_windows(outcome: &Outcome, mbit: u32) {
    assert!(outcome.limit <= 2 * mbit * 100 / 8 + 3 * 1_538, "{outcome:?}");
}
