//! cake in the real loop: its own rate, its tins by rule, its ACK filter, its hosts.

use crate::frames::{self, ECT0, arp, ethernet, ip_udp, mpls, seq, udp, vlan};
use crate::rig::{Plan, Rig, ms};
use allocation_counter::measure;
use dpdk::testing::eal;
use engine::counters::Loss;
use engine::delays::{ByKind, Recorder, Totals};
use engine::mailbox::Command;
use engine::page::Page;
use shaper::flow::rules::Rule;
use shaper::packet::DropReason;
use shaper::qdisc::cake::{AckFilter, Diffserv, FlowMode, Params, TinStats};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

fn at(bits_per_sec: u64) -> Params {
    Params { bandwidth: Some(Rate::from_bits_per_sec(bits_per_sec)), ..Params::default() }
}

fn feed(rig: &mut Rig<'_>, frames: impl Iterator<Item = Vec<u8>>) {
    for frame in frames {
        assert!(rig.lanes[0].feed(&frame));
    }
}

/// A TCP ACK without payload from port 5000 of 192.0.2.1.
fn ack(number: u32) -> Vec<u8> {
    let mut tcp = vec![0x13, 0x88, 0, 80, 0, 0, 0, 1];
    tcp.extend(number.to_be_bytes());
    tcp.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frames::ipv4(6, 0, 64, 0, &tcp)
}

/// `frame` as the host 192.0.2.`host` would send it.
fn from_host(host: u8, mut frame: Vec<u8>) -> Vec<u8> {
    frame[29] = host;
    frame
}

#[test]
fn the_rate_is_cakes_own_and_includes_the_overhead() {
    let eal = eal();
    let overhead = "ethernet".parse().unwrap();
    let mut rig = Rig::one(&eal, Plan::cake(Params { overhead, ..at(10_000_000) }));
    let mut sent = 0;
    rig.run(ms(0), ms(1_000), Duration::from_micros(100), |rig, now| {
        if now.as_nanos() % 1_000_000 == 0 {
            feed(rig, (0..2).map(|flow| udp(flow, 0, 1_514, 0)));
            rig.lanes[0].feed(&arp());
        }
        for frame in rig.lanes[0].take() {
            sent += (frame.len() as u64 - 14 + 38).max(84);
        }
        let wire = now.as_nanos() * 10 / 8_000;
        assert!(sent <= wire + 1_538, "{sent} bytes on the wire after {wire} bytes of time");
    });
    assert!(sent + 2 * 1_538 > 1_250_000, "the link was kept busy: {sent}");
    let control = rig.page().directions[0].control;
    assert!(control.sent.packets > 400, "ARP has not waited in cake: {control:?}");
    assert!(rig.page().directions[0].limiter.is_none() && rig.cake(0).overlimits > 0);
    rig.finish();
}

#[test]
fn rules_choose_the_tin_and_leave_the_packet_alone() {
    const RULES: &[Rule] = &[
        Rule { pcp: Some(5), set_dscp: Some(46), ..NOTHING },
        Rule { exp: Some(0), set_dscp: Some(8), ..NOTHING },
        Rule { vlan: Some(7), mark: 0x30, ..NOTHING },
        Rule { dscp: Some(46), mark: 0x10, ..NOTHING },
    ];
    let eal = eal();
    let params = Params { diffserv: Diffserv::Diffserv4, fwmark: 0xf0, ..Params::default() };
    let mut rig = Rig::one(&eal, Plan { rules: RULES, ..Plan::cake(params) });
    let packet = ip_udp(1, 0, 500, 0);
    let tagged = |tci| ethernet(0x8100, &vlan(tci, 0x0800, &packet));
    // Bulk, Best Effort, Video, Voice.
    let cases = [
        (udp(1, 0, 500, 0), 1),
        (tagged(5 << 13 | 9), 3),
        (ethernet(0x8847, &mpls(2, &packet)), 0),
        (tagged(7), 2),
        (udp(1, 0, 500, 46 << 2), 0),
        (udp(1, 0, 500, 40 << 2), 3),
    ];
    for (now, (frame, tin)) in cases.into_iter().enumerate() {
        let before = rig.cake(0);
        rig.lanes[0].feed(&frame);
        rig.settle(ms(now as u64));
        assert_eq!(rig.lanes[0].take(), [frame], "forwarded as it came");
        let after = rig.cake(0);
        let number = usize::from(Diffserv::Diffserv4.tin_order()[tin]);
        let packets = |tins: &[TinStats]| tins[number].sent_packets;
        assert_eq!(packets(after.tins()), packets(before.tins()) + 1, "case {now}");
    }
    rig.finish();
}

const NOTHING: Rule = Rule {
    source: None,
    destination: None,
    vlan: None,
    dscp: None,
    pcp: None,
    exp: None,
    mark: 0,
    set_dscp: None,
};

#[test]
fn superfluous_acks_are_dropped_behind_any_link_header() {
    let eal = eal();
    type Wrap = fn(&[u8]) -> Vec<u8>;
    let wraps: [Wrap; 3] = [
        |packet| ethernet(0x0800, packet),
        |packet| ethernet(0x8100, &vlan(5, 0x0800, packet)),
        |packet| ethernet(0x8864, &frames::pppoe(9, packet)),
    ];
    for wrap in wraps {
        for (ack_filter, kept) in [(AckFilter::Off, 20), (AckFilter::Aggressive, 1)] {
            let mut rig = Rig::one(&eal, Plan::cake(Params { ack_filter, ..at(64_000) }));
            // The first two frames put the shaper ahead of time, so that all ACKs meet in the queue.
            feed(&mut rig, (0..2).map(|n| udp(9, n, 1_514, 0)));
            rig.settle(ms(0));
            feed(&mut rig, (0..20).map(|n| wrap(&ack(1_000 * n))));
            rig.settle(ms(1));
            rig.run(ms(1), ms(2_000), Duration::from_millis(1), |_, _| ());
            let acks: Vec<_> = rig.lanes[0].take().into_iter().filter(|frame| frame.len() < 100).collect();
            assert_eq!(acks.len(), kept);
            assert_eq!(acks.last(), Some(&wrap(&ack(19_000))), "the last one says it all");
            assert_eq!(rig.lost(0, Loss::Qdisc(DropReason::AckFilter)), 20 - kept as u64);
            rig.finish();
        }
    }
}

#[test]
fn hosts_get_equal_shares_whatever_their_number_of_flows() {
    let eal = eal();
    for (flow_mode, share) in [(FlowMode::DualSrcHost, 0.5), (FlowMode::Flows, 1.0 / 9.0)] {
        let mut rig = Rig::one(&eal, Plan::cake(Params { flow_mode, ..at(20_000_000) }));
        let (mut one, mut all) = (0_u32, 0_u32);
        rig.run(ms(0), ms(4_000), Duration::from_micros(250), |rig, now| {
            if now.as_nanos() % 1_000_000 == 0 {
                rig.lanes[0].feed(&from_host(1, udp(0, 0, 1_500, ECT0)));
                rig.lanes[0].feed(&from_host(1, udp(0, 0, 1_500, ECT0)));
                for flow in 0..8 {
                    rig.lanes[0].feed(&from_host(2, udp(1 + flow, 1, 1_500, ECT0)));
                }
            }
            for frame in rig.lanes[0].take() {
                all += 1;
                one += u32::from(seq(&frame) == 0);
            }
        });
        let got = f64::from(one) / f64::from(all);
        assert!((got - share).abs() < 0.03 * share, "{flow_mode:?}: {got} for {share}");
        rig.finish();
    }
}

#[test]
fn a_wash_clears_the_dscp_and_keeps_the_ecn_bits() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::cake(Params { wash: true, ..Params::default() }));
    feed(&mut rig, [udp(1, 0, 500, 46 << 2 | ECT0), udp(1, 0, 500, ECT0), arp()].into_iter());
    rig.settle(ms(0));
    let mut sent = rig.lanes[0].take();
    sent.sort_by_key(Vec::len);
    assert_eq!(sent, [arp(), udp(1, 0, 500, ECT0), udp(1, 0, 500, ECT0)]);
    assert_eq!((rig.counters(0).rewritten, rig.counters(0).rewrite_failed), (1, 0));
    rig.finish();
}

/// Rules, ACK filter, hosts, tins, marks, overload and full pages: nothing allocates.
#[test]
fn nothing_allocates_and_waiting_times_are_handed_over_by_exchange() {
    const RULES: &[Rule] = &[Rule { vlan: Some(3), mark: 1, ..NOTHING }];
    let eal = eal();
    let params = Params {
        ack_filter: AckFilter::Conservative,
        wash: true,
        fwmark: 0xff,
        memlimit: Some(1 << 20),
        ..at(2_000_000)
    };
    let plan = Plan { rules: RULES, ..Plan::cake(params) };
    let mut rig = Rig::one(&eal, plan);
    let mut fed: Vec<_> = (0..40).map(|n| ethernet(0x0800, &ack(n * 500))).collect();
    fed.extend(
        (0..60).map(|flow| from_host(flow as u8 % 5, udp(flow % 9, 0, 1_000, (flow as u8 * 4) | ECT0))),
    );
    fed.push(ethernet(0x8100, &vlan(3, 0x0800, &ip_udp(1, 0, 500, 0))));
    fed.extend([arp(), vec![0xff; 9]]);
    let page = || Page { delays: vec![ByKind::<Recorder>::new(8)], ..Page::new(1) };
    let mut pages: Vec<Box<Page>> = (0..5).map(|_| Box::new(page())).collect();
    let mut turns = 0;
    let info = measure(|| {
        rig.run(ms(0), ms(10_000), Duration::from_millis(1), |rig, _| {
            turns += 1;
            for n in 0..2 {
                rig.lanes[0].feed(&fed[(2 * turns + n) % fed.len()]);
            }
            rig.lanes[0].drain();
            if turns % 2_000 == 0
                && let Some(page) = pages.pop()
            {
                let _ = rig.control.send(Command::Report(page));
            }
        });
    });
    assert_eq!((info.count_total, info.bytes_total), (0, 0), "{info:?}");
    let (mut total, mut fetched) = (ByKind::<Totals>::default(), 0);
    while let Some(mut page) = rig.control.page() {
        page.delays.iter_mut().for_each(|delays| total.take(delays));
        fetched += 1;
    }
    assert_eq!(fetched, 5 - pages.len());
    let waited = total.sojourn.of_all();
    assert!(waited.packets > 1_000 && waited.p50 > Duration::from_millis(1) && waited.p50 <= waited.p99);
    let stats = rig.cake(0);
    assert!(rig.counters(0).rewritten > 0 && stats.tins().iter().any(|tin| tin.ecn_mark > 0), "{stats:?}");
    assert!(rig.lost(0, Loss::Qdisc(DropReason::AckFilter)) > 0);
    rig.finish();
}

/// A worker that naps wakes when cake's shaper says so.
#[test]
fn the_next_wake_up_is_when_the_shaper_lets_a_packet_go() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::cake(at(1_000_000)));
    feed(&mut rig, (0..3).map(|n| udp(1, n, 1_000, 0)));
    let mut now = ms(1);
    rig.settle(now);
    for sent in 1..=2 {
        assert_eq!(rig.lanes[0].drain().packets, 1);
        assert_eq!(rig.waiting(0), 3 - sent);
        let next = rig.worker.directions()[0].next_wakeup().unwrap();
        assert_eq!(next, now + Duration::from_millis(8), "8000 bits at 1 Mbit/s");
        rig.settle(Instant::from_nanos(next.as_nanos() - 1));
        assert_eq!(rig.lanes[0].drain().packets, 0);
        now = next;
        rig.settle(now);
    }
    rig.finish();
}
