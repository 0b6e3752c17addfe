//! E3: a card that completes late, or tells of completions in batches.
//!
//! Recorded in 2015 on Wi-Fi that completes after 1.5 ms: a sender held to about a millisecond of data
//! below it until completion has 250 to 400 of 620 Mbit/s; released at submission it has all.

use super::*;
use shaper::packet::DsField;
use shaper::units::Rate;
use sim::net::sender::Source;

/// Delay in us, tx-usecs, tx-frames.
const COMPLETIONS: [(u64, u64, usize); 5] =
    [(0, 0, 1), (50, 0, 1), (1_500, 0, 1), (10_000, 0, 1), (0, 1_024, 64)];
const RATES: [u64; 3] = [100, 650, 1_000];

/// What must hold behind `card` for frames of full size.
struct Bars {
    /// Bytes in the limit.
    limit: f64,
    /// Nanoseconds.
    residence: f64,
}

impl Bars {
    /// rate x (1.5 D + 2 B + 2 W) + 3 frames; 0.5 D + 2 B + 2 W + 4 frame times.
    fn of(card: nic::Config) -> Self {
        let rate = card.rate.bits_per_sec() as f64 / 8e9;
        let frame = FRAME / rate;
        let nanos = |span: Duration| span.as_nanos() as f64;
        let batch = nanos(card.tx_usecs).min(card.tx_frames as f64 * frame);
        let (delay, window) = (nanos(card.delay), nanos(us(100)));
        Self {
            limit: rate * (1.5 * delay + 2.0 * batch + 2.0 * window) + 3.0 * FRAME,
            residence: 0.5 * delay + 2.0 * batch + 2.0 * window + 4.0 * frame,
        }
    }

    #[track_caller]
    fn check(&self, card: nic::Config, outcome: &Outcome) {
        let context = format!("{outcome:?} {card:?}");
        assert!(outcome.share >= 0.99, "{context}");
        assert!(f64::from(outcome.limit) <= self.limit, "limit > {}: {context}", self.limit);
        assert!(outcome.residence as f64 <= self.residence, "residence > {}: {context}", self.residence);
        // The ping has its tin and its own queue: it waits for what the card has, a frame and a window.
        let ping = self.residence + us(100).as_nanos() as f64 + FRAME * 8e9 / card.rate.bits_per_sec() as f64;
        assert!(outcome.ping as f64 <= ping, "ping > {ping}: {context}");
    }
}

fn cards() -> impl Iterator<Item = nic::Config> {
    RATES.into_iter().flat_map(|mbit| {
        COMPLETIONS.map(|(delay, tx_usecs, tx_frames)| nic::Config {
            delay: us(delay),
            tx_usecs: us(tx_usecs),
            tx_frames,
            ..card(mbit, RING)
        })
    })
}

fn name(card: nic::Config) -> [String; 3] {
    [
        (card.rate.bits_per_sec() / 1_000_000).to_string(),
        card.delay.as_micros().to_string(),
        format!("{}/{}", card.tx_usecs.as_micros(), card.tx_frames),
    ]
}

/// Five streams of single segments, and a ping in class EF.
fn case(card: nic::Config, limit: Limit, socket: fn(u64) -> Socket) -> Case {
    let setup = Setup { split: Split::Always, limit, ..weir(card, cake()) };
    Case { setup, streams: 5, socket, ping: EF }
}

fn remote(_: u64) -> Socket {
    Socket::new(cubic(), Tso::Off)
}

/// Four together held to a millisecond at `mbit`.
fn held_to(mbit: u64) -> fn(u64) -> Socket {
    fn held<const SEGMENTS: u64>(nth: u64) -> Socket {
        remote(nth).with(SmallQueue::Segments(SEGMENTS))
    }
    // 12500, 81250 and 125000 bytes.
    match mbit {
        100 => held::<2>,
        650 => held::<13>,
        _ => held::<20>,
    }
}

#[test]
fn late_completions_starve_stock_limits_and_not_the_governor() {
    let mut table = Table::new(
        "E3: ring 4096, cake, 5 CUBIC streams of other hosts, split; a ping in EF. Share of the wire in %,\n\
         # limit in bytes, residence and ping beyond idle in us (p99); stock limits and a fixed 1 ms x rate are\n\
         # the faults. The governor's bounds: rate x (1.5 D + 2 B + 2 W) + 3 frames; 0.5 D + 2 B + 2 W + 4 frames",
        &[
            "Mbit/s",
            "delay us",
            "usecs/fr",
            "stock %",
            "limit",
            "1 ms %",
            "governed %",
            "limit",
            "bound",
            "resid us",
            "bound",
            "EF ping",
            "goodput",
        ],
    );
    for card in cards() {
        let millisecond = (card.rate.bits_per_sec() / 8_000) as u32;
        let faulty = |limit| case(card, limit, remote).run(ms(1_000), ms(500));
        let (stock, fixed) = (faulty(Limit::Stock(0)), faulty(Limit::Fixed(millisecond)));
        let governed = case(card, Limit::Governed, remote).run(ms(2_000), ms(1_000));
        let bars = Bars::of(card);
        bars.check(card, &governed);
        let late = card.delay > us(1_000);
        assert!(!late || stock.share < 0.3 && fixed.share < 0.7, "{stock:?} {fixed:?} {card:?}");
        table.row(name(card).into_iter().chain([
            in_percent(stock.share),
            in_bytes(stock.limit),
            in_percent(fixed.share),
            in_percent(governed.share),
            in_bytes(governed.limit),
            format!("{:.0}", bars.limit),
            in_us(governed.residence),
            in_us(bars.residence as u64),
            in_us(governed.ping),
            in_mbit(governed.goodput),
        ]));
    }
    snapshot("e3", &[table]);
}

/// TCP's own limit feels the card as well. The governor cannot help who is not told that the data have
/// gone; `complete-on = "submit"` can, and without the governor the price is the whole ring.
#[test]
fn senders_on_the_host_starve_until_they_are_released_at_submission() {
    let mut table = Table::new(
        "E3: as above, but the streams are the host's own and held to 1 ms x rate in all until they are released;\n\
         # bytes below the scheduler and their residence in us (p99)",
        &[
            "Mbit/s",
            "delay us",
            "usecs/fr",
            "held, ring %",
            "held, gov. %",
            "submit, ring %",
            "bytes",
            "resid us",
            "submit, gov. %",
            "bytes",
            "resid us",
        ],
    );
    for card in cards() {
        let run = |limit, release| {
            let case = case(card, limit, held_to(card.rate.bits_per_sec() / 1_000_000));
            Case { setup: Setup { release, ..case.setup }, streams: 4, ..case }.run(ms(2_000), ms(500))
        };
        let held = run(Limit::Ring, Release::Completion);
        let held_governed = run(Limit::Governed, Release::Completion);
        let submit = run(Limit::Ring, Release::Submit);
        let submit_governed = run(Limit::Governed, Release::Submit);
        if card.delay > us(1_000) {
            assert!(held.share < 0.75 && held_governed.share < 0.75, "{held:?} {held_governed:?} {card:?}");
        }
        assert!(
            submit.share >= 0.99 && submit_governed.share >= 0.99,
            "{submit:?} {submit_governed:?} {card:?}"
        );
        Bars::of(card).check(card, &submit_governed);
        table.row(name(card).into_iter().chain([
            in_percent(held.share),
            in_percent(held_governed.share),
            in_percent(submit.share),
            submit.in_flight.to_string(),
            in_us(submit.residence),
            in_percent(submit_governed.share),
            submit_governed.in_flight.to_string(),
            in_us(submit_governed.residence),
        ]));
    }
    snapshot("e3_held", &[table]);
}

/// Within two hold times after a change all is as if it had always been so.
#[test]
fn a_step_of_delay_or_rate_is_followed() {
    let mut table = Table::new(
        "E3: a step of rate or delay; from two hold times (2 s) after it on, for a second",
        &["from", "to", "share %", "limit", "bound", "resid us", "bound", "EF ping us"],
    );
    let slow = |delay| nic::Config { delay: us(delay), ..card(100, RING) };
    let fast = |delay| nic::Config { delay: us(delay), ..card(1_000, RING) };
    let batched = nic::Config { tx_usecs: us(1_024), tx_frames: 64, ..card(1_000, RING) };
    let steps = [
        (fast(50), slow(50)),
        (slow(50), fast(50)),
        (fast(50), fast(10_000)),
        (fast(10_000), fast(50)),
        (slow(50), slow(10_000)),
        (slow(10_000), slow(50)),
        (fast(0), batched),
        (batched, fast(0)),
        (fast(10_000), slow(10_000)),
    ];
    for (before, after) in steps {
        let mut rig = case(before, Limit::Governed, remote).start();
        rig.run(ms(2_170));
        rig.become_like(after);
        rig.run(ms(2_000));
        let outcome = case::measure(&mut rig, after, ms(1_000));
        let bars = Bars::of(after);
        bars.check(after, &outcome);
        table.row([
            name(before).join(" "),
            name(after).join(" "),
            in_percent(outcome.share),
            in_bytes(outcome.limit),
            format!("{:.0}", bars.limit),
            in_us(outcome.residence),
            in_us(bars.residence as u64),
            in_us(outcome.ping),
        ]);
    }
    snapshot("e3_steps", &[table]);
}

/// Five seconds of a third of the rate, and all of it is there at once when it is wanted.
#[test]
fn light_load_is_no_reason_to_forget() {
    for (mbit, delay) in [(1_000, 10_000), (1_000, 1_500), (100, 10_000)] {
        let card = nic::Config { delay: us(delay), ..card(mbit, RING) };
        let mut rig = Case { streams: 0, ..case(card, Limit::Governed, remote) }.start();
        let source =
            |percent| Source::paced(1_514, Rate::from_bits_per_sec(mbit * percent * 10_000)).jittered(5);
        rig.add_probe(source(30), DsField::ip(0));
        rig.add_probe(source(150).in_shifts(ms(3_000), ms(5_000)), DsField::ip(0));
        rig.run(ms(7_900));
        let light = case::measure(&mut rig, card, ms(100));
        let full = case::measure(&mut rig, card, ms(50));
        assert!(light.share < 0.4 && full.share >= 0.98, "{light:?} {full:?}");
    }
}

const RING: u32 = 4_096;
/// A full frame on the wire in bytes.
const FRAME: f64 = 1_538.0;
/// DSCP 46.
const EF: u8 = 46 << 2;
