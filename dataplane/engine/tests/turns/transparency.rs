//! A bump in the wire: frames pass byte for byte, and the packets of a flow in their order.

use crate::frames::{self, ethernet, ip_udp, ipv4, ipv6, mpls, pppoe, udp, vlan};
use crate::rig::{Plan, Rig, ms};
use dpdk::testing::eal;
use shaper::rng::{Rng, SplitMix};
use std::collections::BTreeMap;

/// Frames of every encapsulation, and of none.
fn kinds() -> Vec<Vec<u8>> {
    let packet = ip_udp(1, 2, 100, 0xb8);
    let tagged = |ethertype| ethernet(ethertype, &vlan(0x2005, 0x0800, &packet));
    let gre = ipv4(47, 0, 64, 0, &[&[0, 0, 8, 0][..], &packet].concat());
    let mut kinds = vec![
        ethernet(0x0800, &packet),
        ethernet(0x86dd, &ipv6(6, 0x28, 64, &[7; 60])),
        ethernet(0x86dd, &ipv6(0, 0, 64, &[&[6, 0, 5, 2, 0, 0, 1, 0][..], &[9; 40]].concat())),
        tagged(0x8100),
        tagged(0x9100),
        ethernet(0x88a8, &vlan(5, 0x8100, &vlan(6, 0x0800, &packet))),
        ethernet(0x8864, &pppoe(9, &packet)),
        ethernet(0x8100, &vlan(7, 0x8864, &pppoe(9, &packet))),
        ethernet(0x8863, &[0x11, 9, 0, 0, 0, 0]),
        ethernet(0x8847, &mpls(1, &packet)),
        ethernet(0x8847, &mpls(12, &packet)),
        ethernet(0x0800, &gre),
        ethernet(0x0800, &ipv4(4, 1, 64, 0, &packet)),
        ethernet(0x0800, &ipv4(50, 0, 64, 0, &[1; 80])),
        ethernet(0x0800, &ipv4(17, 0, 64, 0x2000, &[2; 64])),
        ethernet(0x88f7, &[3; 50]),
        ethernet(0x88b5, &[4; 1_500]),
        ethernet(40, &[0xaa; 46]),
        udp(3, 4, 1_514, 0),
        ethernet(0x8100, &vlan(8, 0x0800, &ip_udp(3, 4, 1_500, 0))),
    ];
    kinds.extend((1..=60).map(|len| ethernet(0x0800, &packet)[..len].to_vec()));
    kinds.extend(frames::control().into_iter().map(|(_, frame)| frame));
    kinds
}

fn sorted(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.sort();
    frames
}

#[test]
fn every_kind_of_frame_passes_unchanged() {
    let eal = eal();
    for plan in [Plan::default(), Plan::fifo(1_000), Plan::default().at(100_000_000)] {
        let mut rig = Rig::one(&eal, plan);
        let kinds = kinds();
        kinds.iter().for_each(|frame| assert!(rig.lanes[0].feed(frame)));
        for millis in 0..100 {
            rig.turn(ms(millis));
        }
        assert!(sorted(rig.lanes[0].take()) == sorted(kinds));
        assert_eq!(rig.counters(0).rewritten, 0);
        rig.finish();
    }
}

/// Also frames whose headers are spread over segments, at every place where they can be cut.
#[test]
fn chains_pass_unchanged_and_hash_as_if_they_were_whole() {
    let eal = eal();
    let frame = ethernet(0x88a8, &vlan(5, 0x8100, &vlan(6, 0x0800, &ip_udp(1, 2, 400, 0))));
    let mut rig = Rig::one(&eal, Plan { mbufs: 4_095, ..Plan::default() });
    rig.set_link(0, false);
    rig.turn(ms(0));
    let mut fed = vec![frame.clone()];
    rig.lanes[0].feed(&frame);
    for cut in 1..=60 {
        for parts in [vec![&frame[..cut], &frame[cut..]], frame.chunks(cut.max(5)).collect()] {
            let chain = rig.lanes[0].chain(&parts);
            assert!(rig.lanes[0].feed_mbuf(chain));
            fed.push(frame.clone());
        }
    }
    let jumble = frame.chunks(7).collect::<Vec<_>>();
    let with_empty: Vec<&[u8]> = std::iter::once(&[][..]).chain(jumble).collect();
    let chain = rig.lanes[0].chain(&with_empty);
    assert!(rig.lanes[0].feed_mbuf(chain));
    fed.push(frame.clone());
    rig.turn(ms(1));
    rig.turn(ms(1));
    let stats = rig.fq_codel(0);
    assert_eq!((stats.qlen as usize, stats.new_flows_len), (fed.len(), 1), "all in one flow");
    rig.set_link(0, true);
    rig.turn(ms(2));
    rig.settle(ms(2));
    assert!(rig.lanes[0].take() == fed);
    rig.finish();
}

#[test]
fn random_bytes_pass_unchanged() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default());
    let mut rng = SplitMix::new(9, 10);
    for round in 0..400 {
        let fed: Vec<Vec<u8>> = (0..50)
            .map(|_| {
                let mut frame: Vec<u8> = (0..rng.next_u16() % 300).map(|_| rng.next_u16() as u8).collect();
                let kinds = [[8, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0x64], [0x88, 0x47], [0x45, 0]];
                if let Some(ethertype) = frame.get_mut(12..14) {
                    ethertype.copy_from_slice(&kinds[usize::from(rng.next_u16()) % kinds.len()]);
                }
                frame
            })
            .collect();
        fed.iter().for_each(|frame| assert!(rig.lanes[0].feed(frame)));
        rig.settle(ms(round));
        assert!(sorted(rig.lanes[0].take()) == sorted(fed));
    }
    rig.finish();
}

/// Across queueing, drops and a driver that takes bursts only in part.
#[test]
fn the_order_of_a_flow_is_kept() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan { outlet: 64, ..Plan::default() }.at(20_000_000));
    let mut rng = SplitMix::new(11, 12);
    let mut next = [0u32; 20];
    let mut last = BTreeMap::new();
    for step in 0..20_000 {
        for _ in 0..rng.next_u16() % 4 {
            let flow = rng.next_u16() % 20;
            let len = 64 + usize::from(rng.next_u16()) % 1_400;
            if rig.lanes[0].feed(&udp(flow, next[usize::from(flow)], len, 0)) {
                next[usize::from(flow)] += 1;
            }
        }
        rig.turn(ms(step));
        if rng.next_u16().is_multiple_of(64) {
            for frame in rig.lanes[0].take() {
                let before = last.insert(frames::flow(&frame), frames::seq(&frame));
                assert!(before.is_none_or(|before| before < frames::seq(&frame)), "flow overtaken");
            }
        }
    }
    assert!(rig.counters(0).short_bursts > 100);
    assert!(last.len() == 20 && rig.counters(0).losses.total().packets > 100);
    rig.finish();
}

/// The first fragment has ports, the others have not: all wait in one queue, apart from other flows.
#[test]
fn fragments_of_a_datagram_stay_together() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default());
    let whole = ip_udp(1, 0, 1_220, 0);
    let fragments: Vec<Vec<u8>> = whole[20..]
        .chunks(400)
        .enumerate()
        .map(|(at, part)| {
            let more = if at < 2 { 0x2000 } else { 0 };
            ethernet(0x0800, &ipv4(17, 0, 64, more | (at as u16 * 50), part))
        })
        .collect();
    rig.set_link(0, false);
    rig.turn(ms(0));
    fragments.iter().for_each(|frame| assert!(rig.lanes[0].feed(frame)));
    rig.turn(ms(1));
    assert_eq!(rig.fq_codel(0).new_flow_count, 1);
    rig.lanes[0].feed(&udp(2, 0, 100, 0));
    rig.set_link(0, true);
    rig.turn(ms(2));
    assert_eq!(rig.fq_codel(0).new_flow_count, 2);
    rig.settle(ms(3));
    assert!(rig.lanes[0].take()[..3] == fragments[..]);
    rig.finish();
}
