//! The governor in the loop before the card, in lockstep: real packets, ports and completions in virtual time.
//!
//! Bounds, with D the delay of a completion, B the time that a batch of completions takes, W the governor's window:
//! limit and bytes in flight ≤ rate × (1.5 D + 2 B + 2 W) + 3 frames, residence ≤ 0.5 D + 2 B + 2 W + 4 frame times at
//! the 99th percentile, 99 % of what the ring can carry of the wire.

use crate::rig::{Behind, FULL, Rig, card, ms};
use dpdk::testing::{TestEal, eal};
use engine::completion::source::{From, Source};
use hwtests::nic::DOORWAY;
use shaper::time::Duration;
use sim::nic::{Config, LinkDown, on_wire};

/// What one run came to.
struct Outcome {
    /// Share of the wire's time that was used.
    share: f64,
    /// The most bytes that might be, and were, in flight.
    limit: f64,
    in_flight: f64,
    /// From submission to the last bit on the wire: 99th percentile in nanoseconds.
    residence: f64,
}

/// The bounds that must hold.
struct Bars {
    bytes: f64,
    residence: f64,
    /// What the ring can carry of the wire.
    share: f64,
}

/// Every wire with every kind of completion, and a ring without a governor beside it.
#[test]
fn the_wire_is_full_and_the_ring_is_short() {
    let eal = eal();
    let mut table = String::from(HEAD);
    for (rate, warm_up, span) in RATES {
        for completion in COMPLETIONS {
            let config = config(rate, completion);
            let mut rig = Rig::governed(&eal, config);
            rig.run(ms(if completion.delay > 1_000 { 1_200 } else { warm_up }));
            let outcome = measure(&mut rig, ms(span));
            rig.finish();
            table += &row(config, &outcome, full_ring(&eal, config));
            check(config, &outcome);
        }
    }
    compare(&table);
}

/// The same bounds where completions are read from descriptors.
#[test]
fn descriptor_status_serves_as_well() {
    let eal = eal();
    for completion in COMPLETIONS {
        let config = config(1_000, completion);
        let mut rig = Rig::new(&eal, Behind::Rings, config, Some(Source::Status(From::Tail)));
        rig.run(ms(1_200));
        check(config, &measure(&mut rig, ms(300)));
        assert_eq!(
            rig.weir.gate().report().source,
            Source::Status(From::Tail),
            "it was trusted all the time"
        );
        rig.finish();
    }
}

/// A card that completes every thirty-second descriptor, and never those behind it unless more frames come.
#[test]
fn descriptors_that_complete_in_batches() {
    let eal = eal();
    for rate in [100, 1_000] {
        let config = Config { rs_thresh: 32, ..config(rate, PLAIN) };
        let mut rig = Rig::governed(&eal, config);
        rig.run(ms(1_200));
        check(config, &measure(&mut rig, ms(2_000)));
        rig.finish();
    }
}

/// A wire or a delay that changes: within two hold times the bounds hold again.
#[test]
fn a_step_is_followed_within_two_hold_times() {
    let eal = eal();
    let [soon, late] = [50, 10_000].map(|delay| Completion { delay, ..PLAIN });
    let [fast, slow, fast_late] =
        [(1_000, soon), (100, soon), (1_000, late)].map(|(mbit, it)| config(mbit, it));
    for (before, after) in [(fast, slow), (slow, fast), (fast, fast_late), (fast_late, fast)] {
        let mut rig = Rig::governed(&eal, before);
        rig.run(ms(1_000));
        rig.card.become_like(rig.now, after).unwrap();
        rig.run(ms(2_000));
        check(after, &measure(&mut rig, ms(500)));
        rig.finish();
    }
}

/// Gaps in weir's polling, while the card goes on: the limit is that of the card all the same.
#[test]
fn a_late_lcore_is_not_taken_for_a_late_card() {
    let eal = eal();
    for completion in COMPLETIONS {
        let config = config(1_000, completion);
        let mut rig = Rig::governed(&eal, config);
        rig.run(ms(1_000));
        let quiet = rig.weir.gate().governor().stats().late_polls;
        rig.with_gaps();
        let outcome = measure(&mut rig, ms(1_500));
        assert!(outcome.limit <= 1.1 * bars(config).bytes, "{} bytes: {config:?}", outcome.limit);
        let stats = *rig.weir.gate().governor().stats();
        assert!(stats.late_polls > quiet + 5 && stats.late_time > ms(50), "{stats:?}");
        rig.finish();
    }
}

/// A link that goes down with frames in the ring, whether the card keeps or flushes them, and a card that stalls.
#[test]
fn what_stops_goes_on() {
    let eal = eal();
    for link_down in [LinkDown::Keep, LinkDown::Flush] {
        let config = Config { link_down, ..config(1_000, Completion { delay: 50, ..PLAIN }) };
        let mut rig = Rig::governed(&eal, config);
        rig.run(ms(500));
        rig.card.nic().set_link(rig.now, false);
        rig.weir.set_link(false);
        rig.run(ms(50));
        rig.card.nic().set_link(rig.now, true);
        rig.weir.set_link(true);
        rig.run(ms(200));
        let (now, until) = (rig.now, rig.now + ms(20));
        rig.card.nic().stall(now, until);
        rig.run(ms(2_200));
        check(config, &measure(&mut rig, ms(500)));
        rig.finish();
    }
}

/// The residence in a ring that nothing keeps short.
fn full_ring(eal: &TestEal, config: Config) -> Duration {
    let through =
        Duration::from_nanos((1.2 * f64::from(config.ring) * frame_time(config)) as u64) + config.delay;
    let mut rig = Rig::ungoverned(eal, config);
    rig.run(through);
    rig.card.measure(rig.now);
    rig.run(through);
    let residence = rig.card.truth().residence(99.0);
    rig.finish();
    residence
}

fn measure(rig: &mut Rig<'_>, span: Duration) -> Outcome {
    rig.card.measure(rig.now);
    let (mut limit, mut in_flight) = (0, 0);
    rig.run_with(span, |rig| {
        limit = limit.max(rig.weir.gate().governor().limit());
        in_flight = in_flight.max(rig.card.bytes_in_card());
    });
    let truth = rig.card.truth();
    Outcome {
        share: truth.share(rig.now, rig.card.rate()),
        limit: limit.into(),
        in_flight: in_flight as f64,
        residence: truth.residence(99.0).as_nanos() as f64,
    }
}

#[track_caller]
fn check(config: Config, outcome: &Outcome) {
    let Bars { bytes, residence, share } = bars(config);
    assert!(outcome.share >= 0.99 * share, "{} of {share}: {config:?}", outcome.share);
    // Where the ring is the limit, it is full.
    if share == 1.0 {
        assert!(outcome.limit <= bytes, "limit {} > {bytes}: {config:?}", outcome.limit);
        assert!(outcome.in_flight <= bytes, "{} in flight > {bytes}: {config:?}", outcome.in_flight);
        assert!(outcome.residence <= residence, "{} ns > {residence}: {config:?}", outcome.residence);
    }
}

fn bars(config: Config) -> Bars {
    let rate = config.rate.bits_per_sec() as f64 / 8e9;
    let frame = frame_time(config);
    let delay = config.delay.as_nanos() as f64;
    let coalesced = (config.tx_usecs.as_nanos() as f64).min(config.tx_frames as f64 * frame);
    let batch = coalesced.max(f64::from(config.rs_thresh - 1) * frame);
    let window = 100e3_f64.min(f64::from(config.ring) / 4.0 * frame);
    Bars {
        bytes: rate * (1.5 * delay + 2.0 * batch + 2.0 * window + 3.0 * frame),
        residence: 0.5 * delay + 2.0 * batch + 2.0 * window + 4.0 * frame,
        share: (f64::from(config.ring - DOORWAY) * frame / (delay + frame)).min(1.0),
    }
}

/// Of a full frame in nanoseconds.
fn frame_time(config: Config) -> f64 {
    f64::from(on_wire(FULL)) * 8e9 / config.rate.bits_per_sec() as f64
}

fn row(config: Config, outcome: &Outcome, ungoverned: Duration) -> String {
    let Bars { bytes, residence, .. } = bars(config);
    let micros = |nanos: f64| nanos / 1e3;
    format!(
        "{:>6} {:>6} {:>5}/{:<2} | {:>6.2} {:>9} {:>9} {:>9.0} {:>7.1} {:>7.1} | {:>9.1}\n",
        config.rate.bits_per_sec() / 1_000_000,
        config.delay.as_micros(),
        config.tx_usecs.as_micros(),
        config.tx_frames,
        outcome.share * 100.0,
        outcome.limit,
        outcome.in_flight,
        bytes,
        micros(outcome.residence),
        micros(residence),
        micros(ungoverned.as_nanos() as f64),
    )
}

/// The committed table is what comes out; `UPDATE_SNAPSHOTS=1` writes it anew.
fn compare(table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nic/governed.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, table).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == table, "{path} differs from what comes out:\n{table}");
}

/// How a card completes.
#[derive(Clone, Copy)]
struct Completion {
    /// In microseconds.
    delay: u64,
    tx_usecs: u64,
    tx_frames: usize,
}

fn config(mbit: u64, completion: Completion) -> Config {
    Config {
        ring: 4096,
        delay: Duration::from_micros(completion.delay),
        tx_usecs: Duration::from_micros(completion.tx_usecs),
        tx_frames: completion.tx_frames,
        ..card(mbit * 1_000_000)
    }
}

/// Mbit/s, and milliseconds to settle and to measure: what is fast settles fast, but for late completions.
const RATES: [(u64, u64, u64); 5] =
    [(100, 1_200, 1_000), (650, 1_200, 500), (1_000, 1_200, 500), (10_000, 600, 100), (100_000, 200, 20)];

const PLAIN: Completion = Completion { delay: 0, tx_usecs: 0, tx_frames: 1 };

const COMPLETIONS: [Completion; 5] = [
    PLAIN,
    Completion { delay: 50, ..PLAIN },
    Completion { delay: 1_500, ..PLAIN },
    Completion { delay: 10_000, ..PLAIN },
    Completion { tx_usecs: 1_024, tx_frames: 64, ..PLAIN },
];

const HEAD: &str = "\
weir with the governor on its defaults, cake above, in front of the modelled card behind net_ring, ring 4096; completions
by held references; always backlogged with frames of 1514 bytes, polled every 2 to 8 us, in virtual time. Shares of the
wire's time in percent, bytes on the wire, microseconds; residence (submitted to left the wire) is the 99th percentile,
beside it that of the same ring without a governor. In the rows whose bound is more than the ring, the ring is the limit;
bytes in flight are there without those of the 127 frames in the doorway.

                         governor                                                 | no governor
  Mbit  delay usecs/fr |  share     limit in flight     bound residnc   bound |   residnc
";
