//! The ACK filter on a link whose way back is ten times slower than its ACKs would need.

use super::*;
use shaper::qdisc::cake::AckFilter;

/// 50 Mbit/s of full frames are some 2060 ACKs per second, 1.2 Mbit/s with the overhead of a cell
/// link, against an uplink of 500 kbit/s with an upload of its own.
#[test]
fn downloads_over_a_slow_way_back() {
    let mut table = Table::new(
        "50 Mbit/s down, 500 kbit/s up (conservative overhead), 30 ms: 4 CUBIC down, 1 up; 20 s after 10 s",
        &["uplink", "down Mbit/s", "up kbit/s", "ACKs", "filtered %", "lost %", "up p50 ms"],
    );
    let filters = [
        ("no-ack-filter", AckFilter::Off),
        ("ack-filter", AckFilter::Conservative),
        ("ack-filter-aggressive", AckFilter::Aggressive),
    ];
    let mut down_rates = Vec::new();
    let mut run = |name: &str, kind: Kind, params: Params| {
        let down = Line::new(Kind::Cake.at(mbit(50), Params::default()));
        let mut world = World::new(down, Line::new(kind.at(kbit(500), params)));
        let slow = |spec| FlowSpec { rtt: ms(30), ..spec };
        let downs: Vec<usize> = (0..4).map(|_| world.add(slow(flow(cubic())))).collect();
        let up = world.add(FlowSpec {
            direction: Direction::Up,
            source: 200,
            destination: 100,
            ..slow(flow(cubic()))
        });
        settle_and_measure(&mut world, ms(10_000), ms(20_000));
        let sum =
            |of: fn(&sim::net::Record) -> u64| downs.iter().map(|&it| of(world.record(it))).sum::<u64>();
        let rate: f64 = downs.iter().map(|&it| world.record(it).goodput(ms(20_000))).sum();
        let acks = sum(|record| record.acks);
        let percent = |part: u64| format!("{:.1}", 100.0 * part as f64 / acks as f64);
        table.row([
            name.into(),
            in_mbit(rate),
            format!("{:.0}", world.record(up).goodput(ms(20_000)) / 1e3),
            acks.to_string(),
            percent(sum(|record| record.filtered)),
            percent(sum(|record| record.acks_lost)),
            in_ms(world.record(up).sojourn(0.5)),
        ]);
        down_rates.push(rate);
    };
    for (name, ack_filter) in filters {
        let overhead = "conservative".parse().unwrap();
        run(&format!("cake {name}"), Kind::Cake, Params { ack_filter, overhead, ..Params::default() });
    }
    run("fq_codel", Kind::FqCodel, Params::default());
    run("fifo 1000p", Kind::Fifo, Params::default());
    snapshot("acks", &table);
    let [off, conservative, aggressive, ..] = down_rates[..] else { panic!() };
    assert!(conservative > 1.5 * off && aggressive >= 0.95 * conservative, "{down_rates:?}");
    assert!(conservative > 0.8 * 50e6, "{conservative}");
}
