//! Directions that share a worker do not share their troubles.

use crate::frames::udp;
use crate::rig::{Plan, Rig, ms};
use dpdk::Burst;
use dpdk::testing::eal;
use shaper::time::Duration;

/// Every packet of a quiet direction is sent in the turn in which it comes, whatever the other does.
fn quiet_is_served(rig: &mut Rig<'_>, turns: u64, mut other: impl FnMut(&mut Rig<'_>)) {
    for turn in 0..turns {
        other(rig);
        assert!(rig.lanes[1].feed(&udp(1, turn as u32, 100, 0)));
        rig.turn(ms(turn));
        assert_eq!(rig.lanes[1].drain().packets, 1, "turn {turn}");
    }
    assert_eq!(rig.lanes[1].missed, 0);
}

#[test]
fn a_flooded_direction() {
    let eal = eal();
    let mut rig = Rig::new(&eal, &[Plan::default(); 2]);
    quiet_is_served(&mut rig, 1_000, |rig| {
        while rig.lanes[0].inlet.len() < 900 && rig.lanes[0].feed(&udp(1, 0, 1_000, 0)) {}
        rig.lanes[0].drain();
    });
    assert!(rig.counters(0).received.packets >= 64_000, "and the flood had its bursts");
    rig.finish();
}

#[test]
fn a_direction_whose_driver_takes_nothing() {
    let eal = eal();
    let mut rig = Rig::new(&eal, &[Plan { outlet: 64, ..Plan::default() }, Plan::default()]);
    quiet_is_served(&mut rig, 1_000, |rig| _ = rig.lanes[0].feed(&udp(1, 0, 1_000, 0)));
    assert!(rig.waiting(0) > 500);
    rig.finish();
}

/// All mbufs of one direction stand in its queue, so that its receive fails; the other's never does.
#[test]
fn a_direction_that_has_used_up_its_pool() {
    let eal = eal();
    let bloated = Plan { mbufs: 255, ..Plan::fifo(10_000) }.at(64_000);
    let mut rig = Rig::new(&eal, &[bloated, Plan::default()]);
    quiet_is_served(&mut rig, 1_000, |rig| {
        (0..4).for_each(|_| _ = rig.lanes[0].feed(&udp(1, 0, 1_000, 0)));
        rig.lanes[0].drain();
    });
    assert!(rig.lanes[0].missed > 3_000 && rig.lanes[0].pool.available() == 0);
    rig.finish();
}

/// However long the backlog: a burst out and one in while they come full, else two out; then it is the next
/// direction's turn.
#[test]
fn a_turn_moves_a_bounded_number_of_packets() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default());
    rig.set_link(0, false);
    rig.turn(ms(0));
    (0..900).for_each(|seq| assert!(rig.lanes[0].feed(&udp(1, seq, 100, 0))));
    let burst = Burst::CAPACITY;
    (0..10).for_each(|_| assert_eq!(rig.turn(ms(1)), burst));
    rig.set_link(0, true);
    rig.turn(ms(2));
    assert_eq!(rig.turn(ms(2)), 2 * burst);
    assert_eq!(rig.lanes[0].drain().packets, burst as u64);
    while !rig.lanes[0].inlet.is_empty() {
        rig.turn(ms(2));
    }
    rig.lanes[0].drain();
    assert_eq!(rig.turn(ms(2)), 2 * burst);
    assert_eq!(rig.lanes[0].drain().packets, 2 * burst as u64);
    rig.finish();
}

/// Four saturated directions at different rates, each at its own.
#[test]
fn each_direction_has_its_rate() {
    let eal = eal();
    let rates = [1_000_000, 10_000_000, 40_000_000, 100_000_000];
    let plans = rates.map(|rate| Plan { mbufs: 511, ..Plan::fifo(300) }.at(rate));
    let mut rig = Rig::new(&eal, &plans);
    rig.run(ms(0), ms(2_000), Duration::from_micros(100), |rig, _| {
        for lane in &mut rig.lanes {
            while lane.inlet.len() < 4 && lane.feed(&udp(1, 0, 1_000, 0)) {}
            lane.drain();
        }
    });
    for (lane, rate) in rates.into_iter().enumerate() {
        let sent = rig.counters(lane).sent.bytes;
        // The last turn is 100 us before the end.
        let ideal = rate / 8 * 2 - rate / 80_000;
        assert!((ideal..=ideal + 1_000).contains(&sent), "{rate}: {sent} of {ideal}");
    }
    rig.finish();
}
