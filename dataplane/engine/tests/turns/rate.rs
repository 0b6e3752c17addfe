//! The real loop keeps the schedule of an ideal wire: never ahead by more than the frame in hand,
//! behind by nothing that a turn could have sent.

use crate::frames::udp;
use crate::rig::{Plan, Rig, ms};
use dpdk::testing::eal;
use shaper::codel::codel;
use shaper::qdisc::{Params, fq_codel};
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};

const RATES: [u64; 9] = [
    64_000,
    1_000_000,
    10_000_000,
    100_000_000,
    950_000_000,
    1_000_000_000,
    9_999_999_937,
    10_000_000_000,
    40_000_000_000,
];

/// The backlog that keeps a direction busy for one turn more.
const BACKLOG: u64 = 150;

/// Keeps the lane's backlog standing with frames of random sizes of some flows.
fn feed(rig: &mut Rig<'_>, rng: &mut SplitMix) {
    while rig.waiting(0) + u64::from(rig.lanes[0].inlet.len()) < BACKLOG {
        let len = 60 + usize::from(rng.next_u16()) % 1_455;
        rig.lanes[0].feed(&udp(rng.next_u16() % 4, 0, len, 0));
    }
}

/// Bytes times 8e9 that an ideal wire of `rate` bit/s has sent in `span`.
fn ideal(rate: u64, span: Duration) -> u128 {
    u128::from(rate) * u128::from(span.as_nanos())
}

fn scaled(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}

#[test]
fn within_one_frame_of_the_ideal_at_every_rate() {
    let eal = eal();
    // No drops by CoDel: a queue that they empty between two turns leaves the wire without work.
    let patient = codel::Params { target: Duration::from_millis(1_000_000), ..codel::Params::for_mtu(1_514) };
    let qdisc = Params::FqCodel(fq_codel::Params { codel: patient, ..fq_codel::Params::default() });
    for plan in [Plan::fifo(1_000), Plan { qdisc, ..Plan::default() }] {
        for rate in RATES {
            let frame = 1_514 * 8_000_000_000 / rate;
            let catch_up = plan.catch_up.max(Duration::from_nanos(5 * frame));
            let mut rig = Rig::one(&eal, Plan { catch_up, ..plan }.at(rate));
            let mut rng = SplitMix::new(rate, 1);
            feed(&mut rig, &mut rng);
            let start = ms(1_000);
            let mut now = start;
            let mut last_len = 0;
            for _ in 0..1_000 {
                rig.turn(now);
                rig.lanes[0].each_sent(|mbuf| last_len = u64::from(mbuf.pkt_len()));
                let sent = rig.counters(0).sent.bytes;
                assert!(rig.waiting(0) > 0, "busy all the time");
                let ideal = ideal(rate, now.since(start));
                assert!(scaled(sent) > ideal, "{rate} bit/s: behind at {now:?} with {sent} bytes");
                assert!(scaled(sent - last_len) <= ideal, "{rate} bit/s: ahead at {now:?} with {sent} bytes");
                feed(&mut rig, &mut rng);
                // Up to four frames' time, by far less than a turn may send.
                now += Duration::from_nanos(u64::from(rng.next_u32()) % (4 * frame + 1));
            }
            let page = rig.page();
            assert_eq!(page.directions[0].limiter.unwrap().lost, Duration::ZERO);
            rig.finish();
        }
    }
}

/// A late turn is made up, as far as the catch-up goes; the rest is counted as lost time.
#[test]
fn late_turns_are_made_up_and_beyond_that_counted() {
    let eal = eal();
    let rate = 100_000_000;
    let mut rig = Rig::one(&eal, Plan { mbufs: 4_095, ..Plan::fifo(3_000) }.at(rate));
    let start = ms(1_000);
    let serve = |rig: &mut Rig<'_>, now: Instant| {
        while rig.turn(now) > 0 {
            rig.lanes[0].drain();
        }
    };
    for _ in 0..3 {
        (0..900).for_each(|_| assert!(rig.lanes[0].feed(&udp(1, 0, 1_250, 0))));
        serve(&mut rig, start);
    }
    // 1250 bytes are 100 us here; the first left at the start.
    assert_eq!(rig.counters(0).sent.packets, 1);
    serve(&mut rig, start + Duration::from_millis(9));
    assert_eq!(rig.counters(0).sent.packets, 1 + 90, "9 ms late: all made up");
    serve(&mut rig, start + Duration::from_millis(19));
    assert_eq!(rig.counters(0).sent.packets, 1 + 190, "just the catch-up: all made up");
    assert_eq!(rig.page().directions[0].limiter.unwrap().lost, Duration::ZERO);
    serve(&mut rig, start + Duration::from_millis(69));
    let stats = rig.page().directions[0].limiter.unwrap();
    // The next frame was due at 19.1 ms: 49.9 ms late, of which 10 ms are made up.
    assert_eq!(stats.lost, Duration::from_micros(39_900));
    assert_eq!((stats.losses, stats.late_max), (1, Duration::from_micros(49_900)));
    assert_eq!(rig.counters(0).sent.packets, 1 + 190 + 101);
    serve(&mut rig, start + Duration::from_millis(70));
    assert_eq!(rig.counters(0).sent.packets, 1 + 190 + 101 + 10, "and on at the rate");
    rig.finish();
}

#[test]
fn idle_time_is_no_credit() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default().at(1_000_000));
    for start in [ms(0), ms(10_000), ms(20_000)] {
        (0..10).for_each(|_| assert!(rig.lanes[0].feed(&udp(1, 0, 125, 0))));
        for step in 0..10 {
            rig.turn(start + Duration::from_millis(step));
            assert_eq!(rig.lanes[0].drain().packets, 1, "one frame a millisecond");
        }
    }
    rig.finish();
}

/// What the loop says about its next wake-up is when it sends next: not before, not after.
#[test]
fn sends_at_the_wakeup_it_names() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default().at(3_000_001));
    let mut rng = SplitMix::new(7, 8);
    feed(&mut rig, &mut rng);
    rig.turn(ms(1));
    for _ in 0..500 {
        rig.lanes[0].drain();
        let due = rig.worker.directions()[0].next_wakeup().unwrap();
        rig.turn(Instant::from_nanos(due.as_nanos() - 1));
        assert_eq!(rig.lanes[0].drain().packets, 0);
        rig.turn(due);
        assert_eq!(rig.lanes[0].drain().packets, 1);
        feed(&mut rig, &mut rng);
        rig.turn(due);
    }
    rig.finish();
}
