//! Low rates, and rates that change.

use super::*;
use shaper::qdisc::cake::Diffserv;

/// At 128 kbit/s a full frame takes 95 ms; targets grow with it, or nothing would get through.
#[test]
fn low_rates() {
    let mut table = Table::new(
        "128 kbit/s, 40 ms: 2 CUBIC beside a call (214 bytes every 200 ms), 120 s after 30 s",
        &["queue", "bulk kbit/s", "bulk p50 ms", "call p50 ms", "call p99 ms", "call lost"],
    );
    let besteffort = Params { diffserv: Diffserv::BestEffort, ..Params::default() };
    let rows = [
        ("cake besteffort", Kind::Cake, besteffort),
        ("cake diffserv3", Kind::Cake, Params::default()),
        ("fq_codel", Kind::FqCodel, besteffort),
        ("fifo 1000p", Kind::Fifo, besteffort),
    ];
    for (name, kind, params) in rows {
        let mut world = world(kind.at(kbit(128), params));
        let bulk: Vec<usize> = (0..2)
            .map(|nth| world.add(FlowSpec { destination: nth, rtt: ms(40), ..flow(cubic()) }))
            .collect();
        let sparse = Source::every(214, ms(200)).jittered(1);
        let call = world.add(FlowSpec { destination: 7, ..flow(Sender::Source(sparse)) });
        settle_and_measure(&mut world, ms(30_000), ms(120_000));
        let rate: f64 = bulk.iter().map(|&it| world.record(it).goodput(ms(120_000))).sum();
        let sparse = world.record(call);
        table.row([
            name.into(),
            format!("{:.1}", rate / 1e3),
            in_ms(world.record(bulk[0]).sojourn(0.5)),
            in_ms(sparse.sojourn(0.5)),
            in_ms(sparse.sojourn(0.99)),
            sparse.lost.to_string(),
        ]);
        if kind != Kind::Fifo {
            assert!(rate > 0.95 * (128e3 - 8_560.0), "{name} {rate}");
            // The frame on the wire, and half of another for the round that the call came in.
            assert!(sparse.sojourn(0.99) <= ms(200), "{name} {:?}", sparse.sojourn(0.99));
        }
    }
    snapshot("low_rates", &table);
}

/// 50 Mbit/s to 5, to 100: how the queue looks in each second.
#[test]
fn rate_steps() {
    let mut table = Table::new(
        "20 ms, 4 CUBIC and a call: 50 Mbit/s for 10 s, 5 for 10 s, 100 for 10 s; per second around the steps",
        &["queue", "second", "Mbit/s", "bulk p50 ms", "bulk p99 ms", "call p99 ms"],
    );
    let second = ms(1_000);
    for kind in KINDS {
        let mut world = world(kind.at(mbit(50), Params::default()));
        let bulk: Vec<usize> = (0..4).map(|_| world.add(flow(cubic()))).collect();
        let call = world.add(flow(call(1)));
        for number in 0..30_u32 {
            let rate = [50, 5, 100][number as usize / 10];
            world.set_rate(Direction::Down, mbit(rate));
            settle_and_measure(&mut world, ms(0), second);
            let goodput: f64 = bulk.iter().map(|&it| world.record(it).goodput(second)).sum();
            let (data, sparse) = (world.record(bulk[0]), world.record(call));
            if [9, 10, 11, 12, 19, 20, 21, 22, 29].contains(&number) {
                table.row([
                    kind.name().into(),
                    number.to_string(),
                    in_mbit(goodput),
                    in_ms(data.sojourn(0.5)),
                    in_ms(data.sojourn(0.99)),
                    in_ms(sparse.sojourn(0.99)),
                ]);
            }
            if kind == Kind::Fifo {
                continue;
            }
            let is_settled = number % 10 >= 3;
            if is_settled {
                let least = if rate == 100 { 0.85 } else { 0.93 };
                assert!(goodput > least * rate as f64 * 1e6, "{kind:?} {number}: {goodput}");
                assert!(data.sojourn(0.5) <= ms(25), "{kind:?} {number}: {:?}", data.sojourn(0.5));
            }
            // A frame of each bulk flow that starts or starts anew, and the one that has begun; some
            // of it before the step.
            let slowest = rate.min([50, 5, 100][(number as usize).saturating_sub(1) / 10]);
            let bound = Duration::from_nanos(5 * 1_514 * 8_000 / slowest);
            assert!(sparse.sojourn(0.99) <= bound, "{kind:?} {number}: {:?}", sparse.sojourn(0.99));
        }
    }
    snapshot("rate_steps", &table);
}
