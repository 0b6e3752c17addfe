//! The governor in the loop: a backlogged discipline before a ring whose consumer is a wire.

use crate::frames::udp;
use crate::rig::{Plan, Rig, ms};
use dpdk::testing::eal;
use engine::gate::GatePage;
use engine::plan::GovernorPlan;
use shaper::time::{Duration, Instant};
use std::collections::VecDeque;

/// A wire behind an outlet: takes a frame when the one before it has left, and frees it `delay` after
/// it has left.
struct Wire {
    bits_per_sec: u64,
    delay: Duration,
    idle: Instant,
    leaving: VecDeque<(Instant, dpdk::Mbuf)>,
    sent: u64,
}

impl Wire {
    fn new(bits_per_sec: u64, delay: Duration) -> Self {
        Self { bits_per_sec, delay, idle: Instant::ZERO, leaving: VecDeque::new(), sent: 0 }
    }

    /// What happens in the ring until `now`.
    fn step(&mut self, rig: &mut Rig<'_>, now: Instant) {
        while self.idle <= now
            && let Some(frame) = rig.lanes[0].take_one()
        {
            let len = u64::from(frame.pkt_len());
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

const STEP: Duration = Duration::from_micros(5);

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
            assert!(rig.lanes[0].feed(&udp((now.as_nanos() % 50) as u16, 0, 1_472, 0)));
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
