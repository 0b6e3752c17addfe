//! How long packets took: each one is in each histogram once, under its tin, with the time that it took.

use crate::frames::{Tcp, arp, udp};
use crate::governor::{STEP, Wire};
use crate::rig::{Plan, Rig, ms};
use crate::supers::{TSO, feed};
use dpdk::testing::eal;
use engine::completion::source::Source;
use engine::plan::GovernorPlan;
use shaper::qdisc::cake::{self, Diffserv};
use shaper::rng::{Rng, SplitMix};
use shaper::time::Duration;
use shaper::units::Rate;

fn diffserv4(bits_per_sec: u64) -> Plan {
    let bandwidth = Some(Rate::from_bits_per_sec(bits_per_sec));
    Plan::cake(cake::Params { bandwidth, diffserv: Diffserv::Diffserv4, ..cake::Params::default() })
}

fn governed(plan: Plan) -> Plan {
    Plan { governor: Some(GovernorPlan::default()), outlet: 1024, ..plan }
}

/// DSCP CS1, best effort, AF41 and EF: a frame for each tin of diffserv4.
const OF_EACH_TIN: [u8; 4] = [8 << 2, 0, 34 << 2, 46 << 2];

#[test]
fn each_packet_is_in_every_histogram_once_under_its_tin() {
    let eal = eal();
    let mut rig = Rig::one(&eal, governed(diffserv4(50_000_000)));
    let mut wire = Wire::new(100_000_000, Duration::from_micros(50));
    let mut rng = SplitMix::new(3, 5);
    rig.run(ms(0), ms(500), STEP, |rig, now| {
        if rng.next_u32().is_multiple_of(8) {
            let tos = OF_EACH_TIN[rng.next_u32() as usize % 4];
            rig.lanes[0].feed(&udp(
                (rng.next_u32() % 20) as u16,
                0,
                300 + (rng.next_u32() % 1_000) as usize,
                tos,
            ));
        }
        if rng.next_u32().is_multiple_of(512) {
            rig.lanes[0].feed(&arp());
        }
        wire.step(rig, now);
    });
    rig.run(ms(500), ms(2_000), STEP, |rig, now| wire.step(rig, now));
    let page = rig.page().directions[0];
    assert_eq!((page.waiting.packets, page.gate.unwrap().in_flight.descriptors), (0, 0), "all have left");
    assert_eq!(page.gate.unwrap().gate.unrecorded, 0);
    assert!(page.control.sent.packets > 10);

    let delays = rig.delays(0);
    let of_tins = page.counters.sent.packets - page.control.sent.packets;
    assert_eq!(delays.sojourn.of_all().packets, of_tins);
    for tin in 0..4 {
        let [sojourn, residence, total] =
            [&delays.sojourn, &delays.residence, &delays.total].map(|kind| kind.of_tin(tin));
        assert!(sojourn.packets > 500, "{sojourn:?}");
        assert_eq!((residence.packets, total.packets), (sojourn.packets, sojourn.packets), "tin {tin}");
        assert!(total.max >= sojourn.max.max(residence.max), "{total:?} {sojourn:?} {residence:?}");
        let bound = sojourn.max.as_nanos() + residence.max.as_nanos() + 2 * STEP.as_nanos();
        assert!(total.max.as_nanos() <= bound * 101 / 100, "{total:?} {sojourn:?} {residence:?}");
    }
    assert_eq!(rig.delays(0).total.of_all().packets, 0, "taken away");
    drop(wire);
    rig.finish();
}

/// Two packets whose times are known: one every 10 ms, the wire takes 1.2 ms, 2 ms later it says so.
#[test]
fn the_times_are_those_that_passed() {
    let eal = eal();
    let mut rig = Rig::one(&eal, governed(Plan::fifo(100)));
    let mut wire = Wire::new(10_000_000, Duration::from_millis(2));
    rig.run(ms(0), ms(1_000), STEP, |rig, now| {
        if now.as_nanos() % 10_000_000 == 0 {
            rig.lanes[0].feed(&udp(1, 0, 1_500, 0));
            rig.lanes[0].feed(&udp(1, 0, 1_500, 0));
        }
        wire.step(rig, now);
    });
    let delays = rig.delays(0);
    let [sojourn, residence, total] =
        [&delays.sojourn, &delays.residence, &delays.total].map(|kind| kind.of_all());
    assert_eq!((sojourn.packets, residence.packets, total.packets), (200, 200, 200));
    // 1500 bytes at 10 Mbit/s are 1.2 ms. The second is behind the first one: in the ring, or before it.
    let millis = |time: Duration| time.as_nanos() as f64 / 1e6;
    assert!((3.1..3.4).contains(&millis(total.p50)), "{total:?}");
    assert!((4.3..4.6).contains(&millis(total.p99)), "{total:?}");
    // At first the limit is one frame, and the second waits until the first is known to have left.
    assert!((6.3..6.6).contains(&millis(total.max)), "{total:?}");
    assert!(residence.p50 <= total.p50 && sojourn.max <= total.max, "{residence:?} {sojourn:?}");
    drop(wire);
    rig.finish();
}

/// A piece, whether it was cut on the way in, late, or by the port, has the arrival of its super-packet.
#[test]
fn a_piece_has_the_arrival_of_its_super_packet() {
    let eal = eal();
    let plan = Plan { offload: TSO, piece_buffers: 8_191, ..governed(Plan::default()) };
    let mut rig = Rig::one(&eal, plan.at(20_000_000));
    let mut wire = Wire::new(100_000_000, Duration::from_micros(50));
    let tcp = Tcp::noise(1, 40 * 1_448, &mut || 1).frame();
    rig.run(ms(0), ms(1_000), STEP, |rig, now| {
        if now.as_nanos() % 50_000_000 == 0 {
            feed(&mut rig.lanes[0], &tcp, 1_448);
        }
        wire.step(rig, now);
    });
    let (counters, delays) = (rig.counters(0), rig.delays(0));
    assert_eq!((counters.supers.received.packets, counters.losses.total().packets), (20, 0));
    assert_eq!(delays.total.of_all().packets, counters.sent.packets);
    assert_eq!(delays.residence.of_all().packets, counters.sent.packets);
    assert!(counters.supers.late_cuts + counters.supers.tso.packets + counters.sent.packets > 100);
    // 40 frames of 1514 bytes take 24.2 ms at 20 Mbit/s: the last one waits as long, and half of them 12 ms.
    let total = delays.total.of_all();
    assert!((23..26).contains(&(total.max.as_micros() / 1_000)), "{total:?}");
    assert!((11..14).contains(&(total.p50.as_micros() / 1_000)), "{total:?}");
    drop(wire);
    rig.finish();
}

/// Where a completion means nothing, the total ends with the hand-over, and there is no residence.
#[test]
fn where_only_the_hand_over_shows_there_is_no_residence() {
    let eal = eal();
    let plan = Plan { into_null: true, source: Source::Submit, ..governed(diffserv4(8_000_000)) };
    let mut rig = Rig::one(&eal, plan);
    for milli in 0..1_000 {
        if milli < 500 {
            OF_EACH_TIN.iter().for_each(|tos| assert!(rig.lanes[0].feed(&udp(1, 0, 200, *tos))));
        }
        // Not Rig::turn: net_null has no outlet to look into.
        rig.worker.turn(ms(milli));
    }
    let (sent, delays) = (rig.counters(0).sent.packets, rig.delays(0));
    assert!(sent > 1_500, "{sent}");
    assert_eq!((delays.residence.of_all().packets, delays.total.of_all().packets), (0, sent));
    assert_eq!(delays.total.of_all(), delays.sojourn.of_all(), "the driver takes all at once");
    assert!((0..4).all(|tin| delays.total.of_tin(tin).packets > 100));
}
