//! A standing queue marks what can be marked, in the outermost IP header, and drops the rest.

use crate::frames::{self, CE, ECT0, ethernet, ip_udp, ipv4, ipv6, mpls, pppoe, sum, vlan};
use crate::rig::{Plan, Rig, ms};
use dpdk::testing::eal;
use engine::counters::Loss;
use shaper::packet::DropReason;
use shaper::time::Duration;

/// An encapsulation and where the outermost IP header lies in it.
fn encapsulations(ds: u8) -> Vec<(&'static str, usize, Vec<u8>)> {
    let packet = ip_udp(1, 0, 1_000, ds);
    let inner = ip_udp(1, 0, 900, ECT0);
    vec![
        ("plain", 14, ethernet(0x0800, &packet)),
        ("vlan", 18, ethernet(0x8100, &vlan(5, 0x0800, &packet))),
        ("qinq", 22, ethernet(0x88a8, &vlan(5, 0x8100, &vlan(6, 0x0800, &packet)))),
        ("pppoe", 22, ethernet(0x8864, &pppoe(9, &packet))),
        ("vlan pppoe", 26, ethernet(0x8100, &vlan(5, 0x8864, &pppoe(9, &packet)))),
        ("mpls", 22, ethernet(0x8847, &mpls(2, &packet))),
        ("ipip", 14, ethernet(0x0800, &ipv4(4, ds, 64, 0, &inner))),
        ("ipv6", 14, ethernet(0x86dd, &ipv6(17, ds, 64, &[0; 900]))),
    ]
}

/// The frame as it has to look after a mark in the header at `at`.
fn marked(frame: &[u8], at: usize) -> Vec<u8> {
    let mut marked = frame.to_vec();
    if marked[at] >> 4 == 6 {
        marked[at + 1] |= CE << 4;
        return marked;
    }
    marked[at + 1] |= CE;
    marked[at + 10..at + 12].fill(0);
    let checksum = !sum(&marked[at..at + 20]);
    marked[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
    marked
}

/// Two seconds of one flow at twice the rate.
fn congest(rig: &mut Rig<'_>, frame: &[u8]) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    rig.run(ms(0), ms(2_000), Duration::from_millis(1), |rig, now| {
        if now.as_nanos() % 4_000_000 == 0 {
            rig.lanes[0].feed(frame);
        }
        sent.extend(rig.lanes[0].take());
    });
    sent.extend(rig.lanes[0].take());
    sent
}

#[test]
fn capable_packets_leave_with_ce_and_a_right_checksum() {
    let eal = eal();
    for (name, at, frame) in encapsulations(ECT0 | 0xb8) {
        let mut rig = Rig::one(&eal, Plan::default().at(1_000_000));
        let sent = congest(&mut rig, &frame);
        let (ce, rest): (Vec<_>, Vec<_>) = sent.iter().partition(|sent| **sent != frame);
        assert!(ce.len() >= 5 && rest.len() >= 5, "{name}: {} marked, {} not", ce.len(), rest.len());
        assert!(ce.iter().all(|ce| **ce == marked(&frame, at)), "{name}: nothing else is touched");
        let (stats, counters) = (rig.fq_codel(0), rig.counters(0));
        assert_eq!(stats.ecn_mark, ce.len() as u64, "{name}");
        assert_eq!((counters.rewritten, counters.rewrite_failed), (ce.len() as u64, 0), "{name}");
        assert_eq!(counters.losses.total().packets, 0, "{name}: marked, not dropped");
        rig.finish();
    }
}

#[test]
fn packets_that_are_not_capable_are_dropped() {
    let eal = eal();
    for (name, _, frame) in encapsulations(0xb8) {
        let mut rig = Rig::one(&eal, Plan::default().at(1_000_000));
        let sent = congest(&mut rig, &frame);
        assert!(sent.iter().all(|sent| *sent == frame), "{name}");
        let (stats, counters) = (rig.fq_codel(0), rig.counters(0));
        assert!(stats.drop_codel >= 5, "{name}");
        assert_eq!(rig.lost(0, Loss::Qdisc(DropReason::Codel)), stats.drop_codel, "{name}");
        assert_eq!(counters.losses.total().packets, stats.drops, "{name}");
        assert_eq!((stats.ecn_mark, counters.rewritten, counters.rewrite_failed), (0, 0, 0), "{name}");
        rig.finish();
    }
}

/// A header that does not lie in one segment cannot be written in place: it is counted, and the
/// frame stays whole.
#[test]
fn a_mark_that_cannot_be_written_is_counted() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default().at(1_000_000));
    let frame = frames::udp(1, 0, 1_000, ECT0);
    rig.run(ms(0), ms(2_000), Duration::from_millis(4), |rig, _| {
        let chain = rig.lanes[0].chain(&[&frame[..20], &frame[20..]]);
        rig.lanes[0].feed_mbuf(chain);
        assert!(rig.lanes[0].take().iter().all(|sent| *sent == frame));
    });
    let counters = rig.counters(0);
    assert!(counters.rewrite_failed >= 5 && counters.rewritten == 0);
    assert_eq!(rig.fq_codel(0).ecn_mark, counters.rewrite_failed);
    rig.finish();
}
