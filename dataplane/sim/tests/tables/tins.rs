//! diffserv4 with a flooded Voice tin.

use super::*;
use shaper::qdisc::cake::Diffserv;

/// Voice is flooded far above its quarter: it keeps what is left over, and no more, and neither the
/// video nor the best effort traffic starves.
#[test]
fn a_flooded_voice_tin() {
    let mut table = Table::new(
        "20 Mbit/s, 20 ms: EF flood, AF41 CUBIC, best-effort CUBIC, CS1 CUBIC; calls in EF and best effort; \
         20 s after 10 s",
        &["queue", "flood", "Voice", "Video", "Best Effort", "Bulk", "EF call p99 ms", "BE call p99 ms"],
    );
    let cake = |diffserv| Params { diffserv, ..Params::default() };
    let rows = [
        ("cake diffserv4", Kind::Cake, cake(Diffserv::Diffserv4)),
        ("cake besteffort", Kind::Cake, cake(Diffserv::BestEffort)),
        ("fq_codel", Kind::FqCodel, Params::default()),
        ("fifo 1000p", Kind::Fifo, Params::default()),
    ];
    for (name, kind, params) in rows {
        for flood_rate in [4, 40] {
            let mut world = world(kind.at(mbit(20), params));
            let marked = |sender, dscp: u8, host| FlowSpec {
                ds: DsField::ip(dscp << 2 | ECT0),
                source: host,
                destination: 50 + host,
                ..flow(sender)
            };
            let flood = marked(flood(mbit(flood_rate), 3), EF, 1);
            let voice = world.add(FlowSpec { ds: DsField::ip(EF << 2), ..flood });
            let video = world.add(marked(cubic(), AF41, 2));
            let best_effort = world.add(marked(cubic(), 0, 3));
            let bulk = world.add(marked(cubic(), CS1, 4));
            let ef_call = world.add(marked(call(5), EF, 5));
            let be_call = world.add(marked(call(6), 0, 6));
            settle_and_measure(&mut world, ms(10_000), ms(20_000));
            let rate = |it| world.record(it).goodput(ms(20_000));
            let wait = |it| world.record(it).sojourn(0.99);
            table.row([
                name.into(),
                flood_rate.to_string(),
                in_mbit(rate(voice)),
                in_mbit(rate(video)),
                in_mbit(rate(best_effort)),
                in_mbit(rate(bulk)),
                in_ms(wait(ef_call)),
                in_ms(wait(be_call)),
            ]);
            if name != "cake diffserv4" {
                continue;
            }
            let near = |rate: f64, share: f64| (rate - share * 20e6).abs() <= 0.03 * share * 20e6;
            // A sixteenth, and what best effort leaves when its one flow has slowed down.
            let bulk_is_near = (0.97..1.1).contains(&(rate(bulk) * 16.0 / 20e6));
            let voice_share = if flood_rate == 4 { 0.2 } else { 0.25 };
            assert!(near(rate(voice), voice_share), "{}", rate(voice));
            assert!(near(rate(video), 0.5), "half is the threshold of Video: {}", rate(video));
            assert!(bulk_is_near, "{}", rate(bulk));
            let rest = 1.0 - voice_share - 0.5 - 1.0 / 16.0 - 2.0 * 85_600.0 / 20e6;
            // One CUBIC flow does not fill it always.
            assert!((0.9..1.03).contains(&(rate(best_effort) / rest / 20e6)), "{}", rate(best_effort));
            let total: f64 = [voice, video, best_effort, bulk].map(rate).iter().sum();
            assert!(total > 0.98 * (20e6 - 2.0 * 85_600.0), "{total}");
            let bound = if flood_rate == 4 { ms(3) } else { ms(10) };
            assert!(wait(ef_call) <= bound, "{:?}", wait(ef_call));
        }
    }
    snapshot("tins", &table);
}

const EF: u8 = 46;
const AF41: u8 = 34;
const CS1: u8 = 8;
