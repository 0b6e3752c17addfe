//! A sparse flow beside many bulk streams: what the discipline, the limit and the card cost it.

use super::*;

/// Sixteen streams at 100 Mbit/s: the wire time of the limit and one frame, two frames and a window.
#[test]
fn a_ping_under_sixteen_streams() {
    let mut table = Table::new(
        "cake, 16 CUBIC streams of other hosts, TSO: ping beyond idle",
        &["case", "Mbit/s", "limit", "mean us", "p99 us", "bound us", "goodput"],
    );
    for mbit in [100, 1_000] {
        let setup = weir(card(mbit, 4_096), cake());
        let socket = |_| Socket::new(cubic(), Tso::Autosized);
        let mut row = |name: &str, setup: Setup| {
            let outcome = Case { setup, streams: 16, socket, ping: 0 }.run(ms(2_000), ms(2_000));
            let bytes = u64::from(outcome.limit) + 3 * 1_538;
            let bound = bytes * 8_000 / mbit + us(100).as_nanos();
            let is_ring = outcome.limit == u32::MAX;
            table.row([
                name.into(),
                mbit.to_string(),
                in_bytes(outcome.limit),
                in_us(outcome.mean_ping),
                in_us(outcome.ping),
                if is_ring { "-".into() } else { in_us(bound) },
                in_mbit(outcome.goodput),
            ]);
            (outcome, bound)
        };
        let (fault, _) = row("whole ring", Setup { limit: Limit::Ring, ..setup });
        let (split, bound) = row("governed, split", Setup { split: Split::Always, ..setup });
        assert!(split.ping <= bound && split.ping * 10 < fault.ping, "{split:?} {bound}");
        let (auto, _) = row("governed, auto", setup);
        assert!(auto.ping <= bound + us(100).as_nanos(), "{auto:?} {bound}");
        assert!(mbit != 100 || split.ping.max(auto.ping) <= us(800).as_nanos(), "{split:?} {auto:?}");
    }
    snapshot("sparse", &[table]);
}
