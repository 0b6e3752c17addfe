//! Link loss, a driver that takes nothing, and the end.

use crate::frames::{self, udp};
use crate::rig::{HOLD, Plan, Rig, ms};
use dpdk::testing::eal;
use engine::clock::Clock;
use engine::counters::Loss;
use engine::mailbox::Command;
use engine::sender::REFUSAL_BOUND;
use engine::worker::Poll;
use shaper::time::{Duration, Instant};

fn feed(rig: &mut Rig<'_>, seqs: std::ops::Range<u32>) {
    seqs.for_each(|seq| assert!(rig.lanes[0].feed(&udp(1, seq, 100, 0))));
}

fn seqs(rig: &mut Rig<'_>) -> Vec<u32> {
    rig.lanes[0].take().iter().map(|frame| frames::seq(frame)).collect()
}

#[test]
fn packets_are_held_for_a_link_that_comes_back() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default());
    rig.set_link(0, false);
    rig.turn(ms(0));
    feed(&mut rig, 0..50);
    for millis in 1..=100 {
        rig.turn(ms(millis));
        assert_eq!(rig.waiting(0), 50);
    }
    let wakeup = rig.worker.directions()[0].next_wakeup();
    assert_eq!(wakeup, Some(ms(1) + HOLD), "counted from the first turn that saw it");
    rig.set_link(0, true);
    rig.turn(ms(101));
    rig.turn(ms(101));
    assert_eq!(seqs(&mut rig), (0..50).collect::<Vec<_>>());
    assert_eq!(rig.counters(0).losses.total().packets, 0);
    rig.finish();
}

#[test]
fn packets_are_dropped_for_a_link_that_stays_away_and_traffic_resumes() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default().at(1_000_000));
    feed(&mut rig, 0..50);
    rig.lanes[0].feed(&frames::arp());
    rig.turn(ms(0));
    rig.set_link(0, false);
    rig.turn(ms(1));
    let waiting = rig.waiting(0);
    for step in 2..=102 {
        rig.turn(ms(step));
        assert_eq!(rig.waiting(0), waiting, "held at {step} ms");
    }
    rig.turn(ms(103));
    assert_eq!((rig.waiting(0), rig.lost(0, Loss::LinkDown)), (0, waiting));
    assert!(!rig.page().directions[0].link_up);
    feed(&mut rig, 100..110);
    rig.turn(ms(104));
    rig.turn(ms(105));
    assert_eq!(rig.lost(0, Loss::LinkDown), waiting + 10, "late-comers are not held again");
    rig.set_link(0, true);
    rig.turn(ms(5_000));
    seqs(&mut rig);
    feed(&mut rig, 200..203);
    for step in 0..3 {
        rig.turn(ms(5_001 + step));
        assert_eq!(seqs(&mut rig), [200 + step as u32], "at the rate, without credit for the time away");
    }
    rig.finish();
}

#[test]
fn a_short_flap_does_not_add_up_with_the_one_before() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::fifo(100).at(64_000));
    feed(&mut rig, 0..60);
    for start in (0..1_000).step_by(100) {
        rig.set_link(0, false);
        rig.run(ms(start), ms(start + 90), Duration::from_millis(1), |_, _| ());
        rig.set_link(0, true);
        rig.run(ms(start + 90), ms(start + 100), Duration::from_millis(1), |_, _| ());
    }
    assert_eq!(rig.counters(0).losses.total().packets, 0);
    assert!(rig.lanes[0].drain().packets > 0);
    rig.finish();
}

/// The ring is full and nobody empties it: one frame is given up per bound, counted; nothing leaks,
/// and when the driver comes back everything goes on in order.
#[test]
fn a_driver_that_takes_nothing_loses_one_frame_per_bound() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan { outlet: 64, ..Plan::fifo(1_000) });
    feed(&mut rig, 0..300);
    rig.run(ms(0), ms(400), Duration::from_millis(1), |_, _| ());
    assert_eq!(rig.counters(0).sent.packets, 63);
    assert_eq!(rig.lost(0, Loss::Refused), 0);
    rig.run(ms(400), ms(5_000), Duration::from_millis(1), |_, _| ());
    let lost = rig.lost(0, Loss::Refused);
    assert_eq!(lost, (5_000 - 1) / (REFUSAL_BOUND.as_nanos() / 1_000_000 + 2));
    assert_eq!(rig.waiting(0), 300 - 63 - lost);
    assert_eq!(seqs(&mut rig), (0..63).collect::<Vec<_>>());
    let mut rest = Vec::new();
    for _ in 0..10 {
        rig.turn(ms(5_001));
        rest.extend(seqs(&mut rig));
    }
    assert!(rest.is_sorted() && rest.last() == Some(&299), "{rest:?}");
    assert_eq!(rest.len() as u64, 300 - 63 - lost);
    rig.finish();
}

/// The time that the link was down is not held against the frame at the head.
#[test]
fn a_link_that_comes_back_begins_the_bound_anew() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan { outlet: 64, ..Plan::fifo(1_000) });
    feed(&mut rig, 0..100);
    rig.run(ms(0), ms(450), Duration::from_millis(1), |_, _| ());
    rig.set_link(0, false);
    rig.run(ms(450), ms(540), Duration::from_millis(1), |_, _| ());
    rig.set_link(0, true);
    rig.run(ms(540), ms(1_040), Duration::from_millis(1), |_, _| ());
    assert_eq!(rig.counters(0).losses.total().packets, 0);
    rig.run(ms(1_040), ms(1_100), Duration::from_millis(1), |_, _| ());
    assert_eq!(rig.lost(0, Loss::Refused), 1);
    rig.finish();
}

/// A driver that takes a little now and then is slow, not dead.
#[test]
fn a_slow_driver_loses_nothing() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan { outlet: 64, ..Plan::fifo(1_000) });
    feed(&mut rig, 0..200);
    let mut sent = Vec::new();
    rig.run(ms(0), ms(100_000), Duration::from_millis(10), |rig, now| {
        if now.as_nanos() % 400_000_000 == 0 {
            rig.lanes[0].each_sent_up_to(1, |mbuf| sent.push(frames::seq(mbuf.head())));
        }
    });
    sent.extend(seqs(&mut rig));
    assert_eq!(sent, (0..200).collect::<Vec<_>>());
    assert_eq!(rig.counters(0).losses.total().packets, 0);
    rig.finish();
}

#[test]
fn a_stopping_worker_receives_no_more_and_counts_what_is_left() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default().at(1_000_000));
    feed(&mut rig, 0..50);
    rig.turn(ms(0));
    rig.control.send(Command::Stop).unwrap();
    rig.turn(ms(0));
    feed(&mut rig, 50..60);
    for step in 1..=10 {
        rig.turn(ms(step));
    }
    // 100 bytes are 800 us.
    let sent = 1 + 10_000 / 800;
    let counters = rig.counters(0);
    assert_eq!((counters.received.packets, counters.sent.packets), (50, sent));
    rig.worker.flush();
    rig.check();
    assert_eq!(rig.lost(0, Loss::Stop), 50 - sent);
    assert_eq!(rig.lanes[0].inlet.len(), 10, "they were never received");
    rig.finish();
}

/// The loop under its own clock: told to stop, it sends all that is due and returns with the ports.
#[test]
fn run_drains_and_returns() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default());
    feed(&mut rig, 0..200);
    rig.turn(Instant::ZERO);
    assert!(rig.waiting(0) + u64::from(rig.lanes[0].inlet.len()) > 0);
    rig.control.send(Command::Stop).unwrap();
    let clock = Clock::start(&eal);
    rig = rig.map_worker(|worker| worker.run(clock, Poll::Busy));
    rig.check();
    let counters = rig.counters(0);
    assert_eq!(counters.received, counters.sent);
    rig.finish();
}
