//! The ACK filter on asymmetric links.

use super::*;
use shaper::qdisc::cake::AckFilter;

/// 50 Mbit/s of full frames are some 2060 ACKs per second: 2.6 Mbit/s on a cell link. That is half
/// of an uplink of a tenth, and five times one of a hundredth.
#[test]
fn downloads_over_a_slow_way_back() {
    let mut table = Table::new(
        "50 Mbit/s down, uplink with conservative overhead, 30 ms: 4 CUBIC down, 1 up; 20 s after 10 s",
        &["uplink", "Mbit/s", "down Mbit/s", "up Mbit/s", "ACKs", "filtered %", "lost %", "up p50 ms"],
    );
    let cake = |ack_filter| {
        let overhead = "conservative".parse().unwrap();
        (Kind::Cake, Params { ack_filter, overhead, ..Params::default() })
    };
    let rows = [
        ("cake no-ack-filter", cake(AckFilter::Off)),
        ("cake ack-filter", cake(AckFilter::Conservative)),
        ("cake ack-filter-aggressive", cake(AckFilter::Aggressive)),
        ("fq_codel", (Kind::FqCodel, Params::default())),
        ("fifo 1000p", (Kind::Fifo, Params::default())),
    ];
    for up_rate in [kbit(5_000), kbit(500)] {
        let results = rows.map(|(name, (kind, params))| {
            let result = run(kind.at(up_rate, params));
            let percent = |part: u64| format!("{:.1}", 100.0 * part as f64 / result.acks as f64);
            table.row([
                name.into(),
                in_mbit(up_rate.bits_per_sec() as f64),
                in_mbit(result.down),
                in_mbit(result.up),
                result.acks.to_string(),
                percent(result.filtered),
                percent(result.lost),
                in_ms(result.wait),
            ]);
            result
        });
        let [off, conservative, aggressive, ..] = &results;
        assert!(aggressive.down > 0.95 * conservative.down);
        if up_rate == kbit(500) {
            assert!(conservative.down > 1.5 * off.down && conservative.down > 0.8 * 50e6);
        } else {
            assert!(off.down > 0.97 * 50e6 && conservative.down > 0.97 * 50e6);
            assert!(aggressive.up > 1.3 * off.up, "what the filter takes, the upload has");
        }
    }
    snapshot("acks", &table);
}

/// What came of it, over the four downloads and the upload.
struct Outcome {
    down: f64,
    up: f64,
    acks: u64,
    filtered: u64,
    lost: u64,
    wait: Duration,
}

fn run(uplink: Box<dyn Discipline>) -> Outcome {
    let downlink = Line::new(Kind::Cake.at(mbit(50), Params::default()));
    let mut world = World::new(downlink, Line::new(uplink));
    let slow = |spec| FlowSpec { rtt: ms(30), ..spec };
    let downs: Vec<usize> = (0..4).map(|_| world.add(slow(flow(cubic())))).collect();
    let direction = Direction::Up;
    let up = world.add(FlowSpec { direction, source: 200, destination: 100, ..slow(flow(cubic())) });
    settle_and_measure(&mut world, ms(10_000), ms(20_000));
    let sum = |of: fn(&sim::net::Record) -> u64| downs.iter().map(|&it| of(world.record(it))).sum::<u64>();
    let up = world.record(up);
    Outcome {
        down: downs.iter().map(|&it| world.record(it).goodput(ms(20_000))).sum(),
        up: up.goodput(ms(20_000)),
        acks: sum(|record| record.acks),
        filtered: sum(|record| record.filtered),
        lost: sum(|record| record.acks_lost),
        wait: up.sojourn(0.5),
    }
}
