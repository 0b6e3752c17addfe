//! Four bulk flows and a sparse one: what the sparse one has to wait.

use super::*;

#[test]
fn four_bulk_flows_and_a_sparse_one() {
    let mut table = Table::new(
        "20 Mbit/s, 20 ms: 2 CUBIC and 2 Reno flows beside a call (214 bytes every 20 ms), 30 s after 10 s",
        &["queue", "bulk Mbit/s", "least/most", "bulk p50 ms", "call p50 ms", "call p99 ms", "call lost"],
    );
    for kind in KINDS {
        let mut world = world(kind.at(mbit(20), Params::default()));
        let bulk: Vec<usize> =
            [cubic(), cubic(), reno(), reno()].map(|sender| world.add(flow(sender))).into();
        let call = world.add(flow(call(1)));
        settle_and_measure(&mut world, ms(10_000), ms(30_000));
        let rates: Vec<f64> = bulk.iter().map(|&it| world.record(it).goodput(ms(30_000))).collect();
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        let sparse = world.record(call);
        table.row([
            kind.name().into(),
            in_mbit(rates.iter().sum()),
            format!("{:.2}", least / most),
            in_ms(world.record(bulk[0]).sojourn(0.5)),
            in_ms(sparse.sojourn(0.5)),
            in_ms(sparse.sojourn(0.99)),
            sparse.lost.to_string(),
        ]);
        assert!(rates.iter().sum::<f64>() > 0.98 * 20e6 - 85_600.0, "{kind:?} {rates:?}");
        if kind != Kind::Fifo {
            // Who fills its share takes no more than it; Reno does not fill it always.
            assert!(most <= 1.06 * 20e6 / 4.0 && least > 0.9 * most, "{kind:?} {rates:?}");
            // The frame that has begun, and that of a bulk flow that starts anew.
            assert!(sparse.sojourn(0.99) <= Duration::from_micros(2 * 606), "{kind:?}");
            assert_eq!(sparse.lost, 0);
        }
    }
    snapshot("sparse", &table);
}

/// Starts and ends of bulk flows do not hurt a sparse one.
#[test]
fn a_sparse_flow_beside_on_and_off_traffic() {
    let mut table = Table::new(
        "20 Mbit/s, 40 ms: a call beside 5 CUBIC flows of 400-segment bursts, 1 s apart, and a source of \
         30 Mbit/s, 200 ms on, 800 ms off; 30 s",
        &["queue", "bursts Mbit/s", "source lost", "call p50 ms", "call p99 ms", "call lost"],
    );
    for kind in KINDS {
        let mut world = world(kind.at(mbit(20), Params::default()));
        let supply = Supply::Bursts { segments: 400, pause: ms(1_000) };
        let bursts: Vec<usize> = (0..5)
            .map(|nth| {
                let sender = Sender::Tcp(Box::new(Tcp::new(Cubic::new(), supply)));
                world.add(FlowSpec {
                    rtt: ms(40),
                    start: Instant::ZERO + ms(nth * 217),
                    destination: nth as u32,
                    ..flow(sender)
                })
            })
            .collect();
        let source = Source::paced(1_514, mbit(30)).jittered(2).in_shifts(ms(200), ms(800));
        let source =
            world.add(FlowSpec { destination: 300, ds: DsField::ip(0), ..flow(Sender::Source(source)) });
        let call = world.add(flow(call(1)));
        settle_and_measure(&mut world, ms(0), ms(30_000));
        let sparse = world.record(call);
        table.row([
            kind.name().into(),
            in_mbit(bursts.iter().map(|&it| world.record(it).goodput(ms(30_000))).sum()),
            world.record(source).lost.to_string(),
            in_ms(sparse.sojourn(0.5)),
            in_ms(sparse.sojourn(0.99)),
            sparse.lost.to_string(),
        ]);
        if kind != Kind::Fifo {
            assert_eq!(sparse.lost, 0);
            assert!(sparse.sojourn(0.99) <= ms(5), "{kind:?}");
        }
    }
    snapshot("on_off", &table);
}
