//! Long paths: a second there and back, and short ones beside long ones.

use super::*;

/// `rtt` is what lets a long path fill the link.
#[test]
fn a_second_there_and_back() {
    let mut table = Table::new(
        "10 Mbit/s, 1 s: 2 CUBIC and 2 Reno beside a call, 120 s after 60 s",
        &["queue", "Mbit/s", "bulk p50 ms", "bulk p99 ms", "call p99 ms"],
    );
    let satellite = Params { rtt: ms(1_000), target: ms(50), ..Params::default() };
    let rows = [
        ("cake rtt 100ms", Kind::Cake, Params::default()),
        ("cake satellite", Kind::Cake, satellite),
        ("fq_codel", Kind::FqCodel, Params::default()),
        ("fifo 1000p", Kind::Fifo, Params::default()),
    ];
    let mut rates = Vec::new();
    for (name, kind, params) in rows {
        let mut world = world(kind.at(mbit(10), params));
        let bulk: Vec<usize> = [cubic(), cubic(), reno(), reno()]
            .map(|sender| world.add(FlowSpec { rtt: ms(1_000), ..flow(sender) }))
            .into();
        let call = world.add(FlowSpec { rtt: ms(1_000), ..flow(call(1)) });
        settle_and_measure(&mut world, ms(60_000), ms(120_000));
        let rate: f64 = bulk.iter().map(|&it| world.record(it).goodput(ms(120_000))).sum();
        let data = world.record(bulk[0]);
        let wait = world.record(call).sojourn(0.99);
        table.row([
            name.into(),
            in_mbit(rate),
            in_ms(data.sojourn(0.5)),
            in_ms(data.sojourn(0.99)),
            in_ms(wait),
        ]);
        if kind != Kind::Fifo {
            assert!(wait <= Duration::from_micros(2_500), "{name} {wait:?}");
        }
        rates.push(rate);
    }
    snapshot("long_path", &table);
    assert!(rates[1] > 0.85 * 10e6 && rates[1] > rates[0], "{rates:?}");
}
