//! The governor in the loop: a backlogged discipline before a ring whose consumer is a wire.

use crate::frames::{Tcp, udp};
use crate::rig::{Plan, Rig, ms};
use crate::supers::{TSO, feed};
use dpdk::testing::eal;
use engine::completion::Amount;
use engine::completion::source::{From, Source};
use engine::completion::watch::{AT_ONCE, Contradiction};
use engine::counters::Loss;
use engine::flight::{Flight, Kind, Total};
use engine::frame::wire_len;
use engine::gate::{Gate, GatePage};
use engine::page::Page;
use engine::plan::{CompleteOn, GovernorPlan};
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::collections::VecDeque;

/// A wire behind an outlet: takes a frame when the one before it has left, and frees it `delay` after
/// it has left.
pub struct Wire {
    bits_per_sec: u64,
    delay: Duration,
    idle: Instant,
    leaving: VecDeque<(Instant, dpdk::Mbuf)>,
    sent: u64,
}

impl Wire {
    pub fn new(bits_per_sec: u64, delay: Duration) -> Self {
        Self { bits_per_sec, delay, idle: Instant::ZERO, leaving: VecDeque::new(), sent: 0 }
    }

    /// What happens in the ring until `now`.
    pub fn step(&mut self, rig: &mut Rig<'_>, now: Instant) {
        while self.idle <= now
            && let Some(frame) = rig.lanes[0].take_one()
        {
            let len = u64::from(wire_len(&frame));
            let start = self.idle.max(Instant::from_nanos(now.as_nanos().saturating_sub(STEP.as_nanos())));
            self.idle = start + Duration::from_nanos(len * 8_000_000_000 / self.bits_per_sec);
            self.sent += len;
            self.leaving.push_back((self.idle + self.delay, frame));
        }
        while self.leaving.front().is_some_and(|(gone, _)| *gone <= now) {
            self.leaving.pop_front();
        }
    }
}

pub const STEP: Duration = Duration::from_micros(10);

fn governed(governor: GovernorPlan) -> Plan {
    Plan { governor: Some(governor), outlet: 1024, ..Plan::fifo(400) }
}

fn gate(rig: &Rig<'_>) -> GatePage {
    rig.page().directions[0].gate.unwrap()
}

/// Runs a backlog through the wire for `millis`, from `from` on.
fn backlog(rig: &mut Rig<'_>, wire: &mut Wire, from: u64, millis: u64) {
    rig.run(ms(from), ms(from + millis), STEP, |rig, now| {
        while rig.waiting(0) + u64::from(rig.lanes[0].inlet.len()) < 300 {
            assert!(rig.lanes[0].feed(&udp((now.as_nanos() % 50) as u16, 0, 1_514, 0)));
        }
        wire.step(rig, now);
    });
}

#[test]
fn the_standing_queue_is_above_the_ring() {
    let eal = eal();
    for (bits_per_sec, delay) in [(100_000_000, 50), (1_000_000_000, 50), (1_000_000_000, 1_500)] {
        let delay = Duration::from_micros(delay);
        let mut rig = Rig::one(&eal, governed(GovernorPlan::default()));
        let mut wire = Wire::new(bits_per_sec, delay);
        backlog(&mut rig, &mut wire, 0, 2_500);
        let before = wire.sent;
        backlog(&mut rig, &mut wire, 2_500, 500);
        let share = (wire.sent - before) as f64 * 8.0 / (bits_per_sec as f64 * 0.5);
        let page = gate(&rig);
        let bytes_per_sec = bits_per_sec as f64 / 8.0;
        let bar = bytes_per_sec * (1.5 * delay.as_nanos() as f64 + 4e5) / 1e9 + 3.0 * 1_514.0;
        println!("{bits_per_sec} bit/s, {} us: share {share:.4}, {page:?}, bar {bar:.0}", delay.as_micros());
        assert!(share > 0.985, "{share} of the wire, {page:?}");
        assert!(f64::from(page.limit) < bar && (page.in_flight.bytes as f64) < bar, "{page:?} above {bar}");
        assert_eq!((page.governor.excess, page.watch.given_up), (0, 0));
        drop(wire);
        rig.finish();
    }
}

/// Segmentation is left to the port: the ring is given grains, so that what lies in it exceeds the limit
/// by one of them at most, and the wire is full.
#[test]
fn pieces_for_the_port_to_cut_wait_above_the_ring_too() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan { offload: TSO, ..governed(GovernorPlan::default()) });
    let mut wire = Wire::new(1_000_000_000, Duration::from_micros(50));
    let tcp = Tcp::noise(1, 40 * 1_448, &mut || 1).frame();
    let (mut start, mut limit, mut in_flight, mut rate) = (0, 0, 0, 0);
    rig.run(ms(0), ms(3_000), STEP, |rig, now| {
        while rig.waiting(0) < 40 && rig.lanes[0].inlet.is_empty() {
            feed(&mut rig.lanes[0], &tcp, 1_448);
        }
        let page = rig.worker.directions()[0].gate().map(Gate::report).unwrap();
        if now >= ms(2_500) {
            limit = limit.max(page.limit.into());
            (in_flight, rate) = (page.in_flight.bytes.max(in_flight), page.rate.max(rate));
        } else {
            start = wire.sent;
        }
        wire.step(rig, now);
    });
    let (share, supers) = ((wire.sent - start) as f64 / 62_500_000.0, rig.counters(0).supers);
    println!("share {share:.4}, {in_flight} bytes in flight, limit {limit}, {supers:?}");
    assert!(share > 0.99, "{share} of the wire");
    assert!((limit..=limit + rate / 30_000).contains(&in_flight), "{in_flight}: {limit} and a grain");
    assert!(supers.tso.packets > 100_000 && supers.late_cuts > 10_000, "{supers:?}");
    drop(wire);
    rig.finish();
}

/// Random bursts, a wire of a changing rate that frees in portions, a ring that takes less than its
/// descriptors promise, frames whose first segment somebody else holds, a link that is down for a
/// moment or for good: what is in flight is never less than what the wire has not freed, returns to
/// zero, and every mbuf comes back.
#[test]
fn what_is_in_flight_returns_to_zero_whatever_happens() {
    let eal = eal();
    let (mut reheaded, mut short, mut flushed, mut unrecorded) = (0, 0, 0, 0);
    for seed in 0..6 {
        let mut rng = SplitMix::new(seed, 11);
        let mut pick = move |below: u32| rng.next_u32() % below;
        let plan = Plan { outlet: if seed % 2 == 0 { 16 } else { 512 }, ..governed(GovernorPlan::default()) };
        let mut rig = Rig::one(&eal, plan);
        let (mut wire, mut held) = (VecDeque::new(), VecDeque::new());
        rig.run(ms(0), ms(4_000), Duration::from_micros(100), |rig, now| {
            if now.as_nanos() % 100_000_000 < 30_000_000 && pick(3) == 0 {
                for _ in 0..pick(12) {
                    let Ok(mut mbuf) =
                        dpdk::Mbuf::from_bytes(&rig.lanes[0].pool, &udp(1, 0, 60 + pick(1_400) as usize, 0))
                    else {
                        break;
                    };
                    if pick(4) == 0 {
                        held.extend(mbuf.hold());
                    }
                    rig.lanes[0].feed_mbuf(mbuf);
                }
            }
            match pick(4_000) {
                0 | 1 => rig.set_link(0, false),
                2..20 => rig.set_link(0, true),
                _ => {}
            }
            let frames =
                (0..pick(1 << (now.as_nanos() / 100_000_000 % 6))).map_while(|_| rig.lanes[0].take_one());
            wire.extend(frames);
            for _ in 0..pick(1 + wire.len() as u32) {
                wire.pop_front();
            }
            let in_ring = wire.len() as u64 + u64::from(rig.lanes[0].outlet.len());
            let page = gate(rig);
            assert!(page.in_flight.descriptors >= in_ring || rig.lost(0, Loss::LinkDown) > 0, "too early");
            assert_eq!(page.governor.excess, 0);
            if held.len() > 20 {
                held.clear();
            }
        });
        rig.set_link(0, true);
        rig.run(ms(4_000), ms(4_100), Duration::from_micros(100), |rig, _| {
            wire.clear();
            rig.lanes[0].drain();
        });
        let page = gate(&rig);
        assert_eq!((page.in_flight.bytes, page.in_flight.descriptors), (0, 0), "seed {seed}: {page:?}");
        assert_eq!(rig.worker.directions()[0].gate().unwrap().governor().in_flight(), 0);
        assert_eq!((page.gate.unheld, page.watch.given_up), (0, 0));
        let delays = rig.delays(0);
        let recorded = delays.residence.of_all().packets;
        assert_eq!(recorded + page.gate.unrecorded, rig.counters(0).sent.packets, "seed {seed}: {page:?}");
        assert_eq!(delays.total.of_all().packets, recorded);
        unrecorded += page.gate.unrecorded;
        reheaded += page.gate.reheaded;
        short += rig.counters(0).short_bursts;
        flushed += rig.lost(0, Loss::LinkDown);
        held.clear();
        rig.finish();
    }
    assert!(unrecorded < 25, "{unrecorded}: only what the link took with it");
    assert!(reheaded > 25 && short > 25 && flushed > 25, "{reheaded} {short} {flushed}: it was all reached");
}

/// The peer stops for as long as pause frames may stop it; then it goes on, and so do we.
#[test]
fn a_stopped_wire_goes_on() {
    let eal = eal();
    let mut rig = Rig::one(&eal, governed(GovernorPlan::default()));
    let mut wire = Wire::new(100_000_000, Duration::from_micros(50));
    backlog(&mut rig, &mut wire, 0, 500);
    let (before, limit) = (rig.counters(0).sent, gate(&rig).limit);
    rig.run(ms(500), ms(836), STEP, |_, _| ());
    let sent = rig.counters(0).sent.packets - before.packets;
    assert!(sent <= 64 + 2, "{sent} frames went into a ring that does not move");
    assert_eq!(gate(&rig).watch.given_up, 0);
    wire.idle = ms(836);
    backlog(&mut rig, &mut wire, 836, 1_000);
    let start = wire.sent;
    backlog(&mut rig, &mut wire, 1_836, 1_000);
    assert!((wire.sent - start) * 8 > 98_500_000, "{} bits in a second", (wire.sent - start) * 8);
    assert!(gate(&rig).limit < 2 * limit + 10_000, "{:?} after {limit}", gate(&rig));
    drop(wire);
    rig.finish();
}

/// Some drivers report a batch, or nothing at all: a limit that starts from one frame gets there.
#[test]
fn a_device_that_reports_in_batches_is_not_waited_for_in_vain() {
    let eal = eal();
    let mut rig = Rig::one(&eal, governed(GovernorPlan::default()));
    let mut batch = Vec::new();
    let mut sent = 0;
    rig.run(ms(0), ms(3_000), Duration::from_micros(12), |rig, now| {
        while rig.waiting(0) + u64::from(rig.lanes[0].inlet.len()) < 300 {
            rig.lanes[0].feed(&udp((now.as_nanos() % 50) as u16, 0, 1_514, 0));
        }
        batch.extend(rig.lanes[0].take_one());
        if batch.len() == 32 {
            sent += if now >= ms(2_000) { 32 } else { 0 };
            batch.clear();
        }
    });
    let page = gate(&rig);
    assert!(page.watch.extra >= 31 && page.watch.given_up == 0, "{page:?}");
    assert!(sent > 82_000, "{sent} frames of 83333 in the last second, {page:?}");
    drop(batch);
    rig.finish();
}

#[test]
fn a_source_that_says_nothing_is_given_up_and_tried_again() {
    let eal = eal();
    // net_ring knows nothing of descriptors: the call fails, as on a driver without it.
    let source = Source::Status(From::Tail);
    for wire_rate in [None, Some(100_000_000)] {
        let plan = Plan { source, wire: wire_rate, ..governed(GovernorPlan::default()) };
        let mut rig = Rig::one(&eal, plan);
        let mut wire = Wire::new(100_000_000, Duration::ZERO);
        backlog(&mut rig, &mut wire, 0, 1_500);
        let page = gate(&rig);
        let next = wire_rate.map_or(Source::Submit, |bits| Source::Clock(Rate::from_bits_per_sec(bits)));
        assert_eq!((page.source, page.watch.last), (next, Some(Contradiction::Never)), "{page:?}");
        let start = wire.sent;
        backlog(&mut rig, &mut wire, 1_500, 1_000);
        assert!((wire.sent - start) * 8 > 98_500_000, "{} bits in a second", (wire.sent - start) * 8);
        let in_ring = u64::from(rig.lanes[0].outlet.len());
        assert!(in_ring < 20 || wire_rate.is_none(), "{in_ring} frames below the scheduler");
        // The next try, after 10 s, ends like the first.
        rig.run(ms(2_500), ms(13_000), Duration::from_micros(500), |rig, now| {
            while rig.waiting(0) + u64::from(rig.lanes[0].inlet.len()) < 100 {
                rig.lanes[0].feed(&udp((now.as_nanos() % 50) as u16, 0, 1_514, 0));
            }
            wire.step(rig, now);
        });
        assert_eq!(gate(&rig).watch.given_up, 2, "{:?}", gate(&rig));
        drop(wire);
        rig.finish();
    }
}

#[test]
fn a_device_that_copies_is_not_governed() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan { into_null: true, ..governed(GovernorPlan::default()) });
    let mut sent = 0;
    for turn in 0..1_000 {
        rig.lanes[0].feed(&udp(1, 0, 1_000, 0));
        rig.worker.turn(Instant::from_nanos(turn * 20_000));
        sent += 1;
        let page = gate(&rig);
        assert_eq!(page.source == Source::Submit, sent >= AT_ONCE, "{sent}: {page:?}");
    }
    let page = gate(&rig);
    assert_eq!((page.watch.last, page.binds), (Some(Contradiction::AtOnce), false));
    assert_eq!(page.in_flight, Amount::default());
    assert_eq!(rig.counters(0).sent.packets, 1_000);
}

/// Governed by submission: nothing is held back, and the page tells what that costs.
#[test]
fn completion_on_submit_has_its_price() {
    let eal = eal();
    let plan = GovernorPlan { complete_on: CompleteOn::Submit, ..GovernorPlan::default() };
    let mut rig = Rig::one(&eal, governed(plan));
    let mut wire = Wire::new(100_000_000, Duration::from_micros(50));
    backlog(&mut rig, &mut wire, 0, 1_000);
    let page = gate(&rig);
    assert!(!page.binds && page.in_flight.descriptors > 1_000, "the ring is full: {page:?}");
    let mut total = Total::default();
    total.take(&mut rig.worker.directions()[0].gate().unwrap().flight().clone());
    let residence = total.of(Kind::Residence);
    assert!(residence.p50 > 100_000_000, "a frame waits for 1023 others at 121 us each: {residence:?}");
    drop(wire);
    rig.finish();
}

/// What a page tells of frames in flight is what happened.
#[test]
fn the_histograms_tell_what_happened() {
    let eal = eal();
    let mut rig = Rig::one(&eal, governed(GovernorPlan { limit_max: 6_056, ..GovernorPlan::default() }));
    let mut wire = Wire::new(100_000_000, Duration::from_micros(50));
    backlog(&mut rig, &mut wire, 0, 1_000);
    rig.page();
    let mut empty = Page::new(1);
    empty.flight.push(Flight::new());
    rig.worker.exchange_histograms(&mut empty);
    backlog(&mut rig, &mut wire, 1_000, 1_000);
    let mut page = Page::new(1);
    page.flight.push(Flight::new());
    rig.worker.exchange_histograms(&mut page);
    let mut total = Total::default();
    total.take(&mut page.flight[0]);
    let [limit, in_flight, batch, residence, lateness] = Kind::ALL.map(|kind| total.of(kind));
    assert!(limit.max <= 6_100 && in_flight.max <= 6_056 + 1_514, "{limit:?} {in_flight:?}");
    assert!((8_000..8_300).contains(&residence.count), "one for each frame: {residence:?}");
    assert!(residence.p50 < 800_000 && residence.p50 > 120_000, "{residence:?}");
    assert_eq!((batch.p50, batch.max), (1, 1), "each frame by itself");
    assert!(lateness.p50 < 200_000, "{lateness:?}");
    drop(wire);
    rig.finish();
}
