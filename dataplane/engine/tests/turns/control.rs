//! What keeps a link alive goes first and is never judged by the AQM, but cannot take the link over.

use crate::frames::{self, arp, udp};
use crate::rig::{Plan, Rig, ms};
use dpdk::testing::eal;
use engine::egress::CONTROL_SLOTS;
use shaper::qdisc::{Params, fq_codel};
use shaper::time::Duration;

#[test]
fn every_kind_goes_before_what_waited_longer() {
    let eal = eal();
    for (name, frame) in frames::control() {
        let mut rig = Rig::one(&eal, Plan::default().at(1_000_000));
        (0..20).for_each(|seq| assert!(rig.lanes[0].feed(&udp(1, seq, 1_250, 0))));
        rig.turn(ms(0));
        assert_eq!(rig.lanes[0].drain().packets, 1, "the first has gone");
        assert!(rig.lanes[0].feed(&frame));
        rig.turn(ms(1));
        rig.turn(ms(10));
        assert_eq!(rig.lanes[0].take(), std::slice::from_ref(&frame), "{name} goes next");
        let sent = rig.page().directions[0].control.sent;
        assert_eq!((sent.packets, sent.bytes), (1, frame.len() as u64), "{name}");
        rig.finish();
    }
}

/// Everything that looks like it but is not: an echo request, a neighbour solicitation that a router
/// forwarded, BFD from afar, another port.
#[test]
fn what_only_looks_like_control_waits_its_turn() {
    let eal = eal();
    let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat();
    let bfd = [&[0xc0, 1, 0x0e, 0xc8, 0, 32, 0, 0][..], &[0; 24]].concat();
    for frame in [
        frames::ethernet(0x0800, &frames::ipv4(1, 0, 64, 0, &[8, 0, 0, 0, 0, 1, 0, 1])),
        frames::ethernet(0x86dd, &frames::ipv6(58, 0, 254, &solicitation)),
        frames::ethernet(0x0800, &frames::ipv4(17, 0xc0, 254, 0, &bfd)),
        udp(1, 0, 60, 0xc0),
    ] {
        let mut rig = Rig::one(&eal, Plan::default());
        rig.lanes[0].feed(&frame);
        rig.settle(ms(0));
        assert_eq!(rig.page().directions[0].control.sent.packets, 0);
        assert_eq!(rig.lanes[0].drain().packets, 1);
        rig.finish();
    }
}

#[test]
fn an_arp_flood_takes_at_most_half_and_spills() {
    let eal = eal();
    let qdisc = Params::FqCodel(fq_codel::Params { limit: 1_000, ..fq_codel::Params::default() });
    let mut rig = Rig::one(&eal, Plan { qdisc, ..Plan::default() }.at(1_000_000));
    let (mut flood, mut data) = (0, 0);
    rig.run(ms(0), ms(5_000), Duration::from_micros(500), |rig, _| {
        (0..3).for_each(|_| _ = rig.lanes[0].feed(&arp()));
        rig.lanes[0].feed(&udp(1, 0, 60, 0));
        rig.lanes[0].each_sent(|mbuf| {
            let is_arp = mbuf.head()[12..14] == [8, 6];
            *(if is_arp { &mut flood } else { &mut data }) += 1;
        });
    });
    let control = rig.page().directions[0].control;
    assert!(control.spilled.packets > 1_000, "{control:?}");
    // 60 bytes are 480 us. In a quarter of the time the flow of the spilled frames has its share too.
    assert!(flood + data > 10_300);
    assert!(control.sent.packets * 2 <= flood + data + 1, "half of the frames at most: {control:?}");
    assert!(
        data * 4 >= flood + data - 200,
        "the other flow has half of the rest: {data} of {}",
        flood + data
    );
    assert!(rig.waiting(0) >= CONTROL_SLOTS as u64);
    rig.finish();
}
