//! Nothing is lost without a name: received = sent + lost + waiting after every turn (the rig asserts
//! it), and every mbuf comes back.

use crate::frames::{self, arp, ethernet, udp, vlan};
use crate::rig::{MTU, Plan, Rig, ms};
use dpdk::testing::eal;
use engine::counters::{Loss, Tally};
use shaper::gso::Refusal;
use shaper::packet::DropReason;
use shaper::rng::{Rng, SplitMix};
use shaper::time::Duration;

/// Any frame: of many flows and sizes, not IP at all, malformed, too large, for the control queue.
fn any_frame(rng: &mut SplitMix) -> Vec<u8> {
    let flow = rng.next_u16() % 300;
    let len = 60 + usize::from(rng.next_u16()) % 1_455;
    let ds = (rng.next_u16() % 4) as u8;
    let mut frame = match rng.next_u16() % 16 {
        0 => arp(),
        1 => ethernet(0x8100, &vlan(flow, 0x0800, &frames::ip_udp(flow, 0, len - 14, ds))),
        2 => udp(flow, 0, 2_000 + len * 4, ds),
        3 => (0..1 + len % 200).map(|_| rng.next_u16() as u8).collect(),
        4 => ethernet(0x88b5, &vec![0; len]),
        _ => udp(flow, 0, len, ds),
    };
    if rng.next_u16().is_multiple_of(16) {
        frame.truncate(1 + usize::from(rng.next_u16()) % frame.len());
    }
    if rng.next_u16().is_multiple_of(16) {
        let at = usize::from(rng.next_u16()) % frame.len();
        frame[at] ^= rng.next_u16() as u8;
    }
    frame
}

/// How many times as long a run shall be: `make soak` sets it.
fn soak() -> u64 {
    std::env::var("WEIR_SOAK").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// A minute (as many as `WEIR_SOAK` says) of random bursts at about twice the rate on the average, the pool exhausted now and
/// then, the link down for 50 ms (held) and for a second (dropped) now and then.
#[test]
fn a_minute_of_bursts_flaps_and_exhaustion() {
    let eal = eal();
    let plan = Plan { mbufs: 600, ..Plan::default() }.at(2_000_000);
    let mut rig = Rig::one(&eal, plan);
    let mut rng = SplitMix::new(3, 4);
    rig.run(ms(0), ms(60_000 * soak()), Duration::from_micros(1_300), |rig, now| {
        match now.as_nanos() / 1_300_000 % 10_000 {
            1_000 | 5_000 => rig.set_link(0, false),
            1_040 | 5_770 => rig.set_link(0, true),
            _ => {}
        }
        if rng.next_u16().is_multiple_of(50) {
            for _ in 0..rng.next_u16() % 80 {
                rig.lanes[0].feed(&any_frame(&mut rng));
            }
        }
        rig.lanes[0].drain();
    });
    let lane = &rig.lanes[0];
    assert!(lane.missed > 100, "the pool was exhausted: {}", lane.missed);
    let counters = rig.counters(0);
    for loss in [Loss::Uncut(Refusal::Unmarked), Loss::LinkDown, Loss::Qdisc(DropReason::Codel)] {
        assert!(counters.losses.of(loss).packets > 0, "{} was reached", loss.name());
    }
    assert!(counters.rewritten > 0 && counters.sent.packets > 5_000, "{counters:?}");
    rig.finish();
}

/// The limits of each discipline as the way packets are lost.
#[test]
fn overload_of_packets_bytes_and_memory() {
    use shaper::qdisc::{Params, fifo, fq_codel};
    let eal = eal();
    let fq = |limit, memory_limit| {
        Params::FqCodel(fq_codel::Params { limit, memory_limit, ..fq_codel::Params::default() })
    };
    let over = Loss::Qdisc(DropReason::OverLimit);
    for (qdisc, loss) in [
        (fq(50, 32 << 20), over),
        (fq(10_240, 100_000), Loss::Qdisc(DropReason::OverMemory)),
        (Params::Fifo(fifo::Params { limit: 50, limit_bytes: u64::MAX }), over),
        (Params::Fifo(fifo::Params { limit: 1_000, limit_bytes: 20_000 }), over),
    ] {
        let mut rig = Rig::one(&eal, Plan { qdisc, ..Plan::default() }.at(1_000_000));
        let mut rng = SplitMix::new(5, 6);
        rig.run(ms(0), ms(500), Duration::from_millis(1), |rig, _| {
            for _ in 0..20 {
                rig.lanes[0].feed(&any_frame(&mut rng));
            }
            rig.lanes[0].drain();
        });
        assert!(rig.lost(0, loss) > 1_000, "{qdisc:?}: {:?}", rig.counters(0).losses);
        rig.finish();
    }
}

#[test]
fn an_oversize_frame_is_counted_and_one_of_the_mtu_is_not() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default());
    let fits = usize::from(MTU) + 14;
    let lane = &mut rig.lanes[0];
    lane.feed(&udp(1, 0, fits, 0));
    lane.feed(&udp(2, 0, fits + 1, 0));
    lane.feed(&udp(3, 0, 9_014, 0));
    let tagged =
        |len: usize| ethernet(0x88a8, &vlan(5, 0x8100, &vlan(6, 0x0800, &frames::ip_udp(4, 0, len, 0))));
    lane.feed(&tagged(usize::from(MTU)));
    lane.feed(&tagged(usize::from(MTU) + 1));
    // Labels are part of what an MTU bounds, tags are not.
    let labelled = |len: usize| ethernet(0x8847, &frames::mpls(3, &frames::ip_udp(4, 0, len - 12, 0)));
    lane.feed(&labelled(usize::from(MTU)));
    lane.feed(&labelled(usize::from(MTU) + 1));
    lane.feed(&ethernet(0x88b5, &vec![0; usize::from(MTU) + 1]));
    rig.settle(ms(1));
    // Nothing says where a datagram of UDP may be cut.
    let uncut = rig.counters(0).losses.of(Loss::Uncut(Refusal::Unmarked));
    assert_eq!(uncut.packets, 4);
    assert_eq!(uncut.bytes, (fits + 1 + 9_014 + fits + 9 + fits + 1) as u64);
    assert_eq!(rig.counters(0).losses.of(Loss::Oversize), Tally { packets: 1, bytes: fits as u64 + 1 });
    assert_eq!(rig.lanes[0].take().len(), 3);
    rig.finish();
}

/// A driver that sends packets of one segment only: what fits one buffer is copied together, the
/// rest is counted.
#[test]
fn a_chain_that_the_driver_cannot_send_is_counted() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan { into_null: true, ..Plan::default() });
    let frame = udp(1, 0, 1_514, 0);
    let lane = &mut rig.lanes[0];
    let joinable = lane.chain(&[&frame[..40], &frame[40..]]);
    assert!(lane.feed_mbuf(joinable));
    // The first buffer is too full of headroom to take the others.
    let mut full = dpdk::Mbuf::from_bytes(&lane.pool, &[]).unwrap();
    assert!(full.append(2_048).is_ok() && full.adj(2_000));
    full.chain(lane.chain(&[&frame[..1_000]])).unwrap();
    assert!(lane.feed_mbuf(full));
    rig.worker.turn(ms(1));
    let counters = rig.counters(0);
    assert_eq!((counters.received.packets, counters.sent.packets), (2, 1));
    assert_eq!(counters.sent.bytes, 1_514);
    assert_eq!(counters.losses.total().packets, 1, "{:?}", counters.losses);
    assert_eq!(counters.received, counters.sent.plus(counters.losses.total()));
    rig.lanes[0].taken = counters.sent;
    rig.finish();
}
