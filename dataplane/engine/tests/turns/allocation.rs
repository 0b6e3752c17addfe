//! No allocation on the packet path after start, whatever happens on it.

use crate::frames::{self, Tcp, arp, udp};
use crate::rig::{Plan, Rig, ms};
use allocation_counter::measure;
use dpdk::mbuf::flags;
use dpdk::testing::eal;
use dpdk::{Mbuf, TxOffload};
use engine::counters::Loss;
use engine::mailbox::Command;
use engine::page::Page;
use engine::plan::{CompleteOn, GovernorPlan};
use engine::split::offload::Offload;
use shaper::gso::{Refusal, Split};
use shaper::packet::DropReason;
use shaper::rng::{Rng, SplitMix};
use shaper::time::Duration;

#[test]
fn thousands_of_turns_allocate_nothing() {
    let eal = eal();
    let governor = Some(GovernorPlan { complete_on: CompleteOn::Submit, ..GovernorPlan::default() });
    let slow = Plan { outlet: 64, governor, ..Plan::default() };
    let governed = Plan { governor: Some(GovernorPlan::default()), ..Plan::default() };
    let mut rig = Rig::new(&eal, &[governed.at(2_000_000), slow, Plan::fifo(50).at(1_000_000)]);
    let mut fed = vec![arp(), udp(1, 0, 3_000, 0), vec![0xff; 7], Vec::new()];
    fed.extend(frames::control().into_iter().map(|(_, frame)| frame));
    fed.extend((0..100).map(|flow| udp(flow % 7, 0, 1_000, (flow % 4) as u8)));
    let tagged = frames::vlan(1, 0x0800, &frames::ip_udp(1, 0, 500, frames::ECT0));
    fed.push(frames::ethernet(0x8100, &tagged));
    let mut pages: Vec<Box<Page>> = (0..10).map(|_| Box::new(Page::new(3))).collect();

    let mut at = 0;
    let info = measure(|| {
        rig.run(ms(0), ms(20_000), Duration::from_millis(2), |rig, now| {
            let turn = now.as_nanos() / 2_000_000;
            for _ in 0..3 {
                at = (at + 1) % fed.len();
                for lane in &mut rig.lanes {
                    lane.feed(&fed[at]);
                }
            }
            let chain = rig.lanes[0].pool.alloc().ok().zip(rig.lanes[0].pool.alloc().ok());
            if let Some((mut head, tail)) = chain {
                let _ = head.append(60).map(|bytes| bytes.fill(8));
                let _ = head.chain(tail);
                rig.lanes[0].feed_mbuf(head);
            }
            match turn % 2_000 {
                100 | 400 => rig.set_link(0, false),
                120 | 600 => rig.set_link(0, true),
                n if n % 200 == 50 => {
                    if let Some(page) = pages.pop() {
                        let _ = rig.control.send(Command::Report(page));
                    }
                }
                _ => {}
            }
            rig.lanes[0].drain();
            rig.lanes[2].drain();
            if turn % 100 == 0 {
                rig.lanes[1].drain();
            }
        });
        rig.worker.flush();
    });
    assert_eq!((info.count_total, info.bytes_total), (0, 0), "{info:?}");

    // The measure is one of a loop that did everything it can do.
    let (first, second) = (rig.counters(0), rig.counters(1));
    assert!(first.rewritten > 0 && second.short_bursts > 0);
    for loss in [Loss::Uncut(Refusal::Unmarked), Loss::LinkDown, Loss::Qdisc(DropReason::Codel), Loss::Stop] {
        assert!(rig.lost(0, loss) > 0, "{}", loss.name());
    }
    assert!(rig.lost(2, Loss::Qdisc(DropReason::OverLimit)) > 0);
    assert!(rig.page().directions[0].control.sent.packets > 0 && rig.control.page().is_some());
    rig.finish();
}

/// Cut on the way in and late, deferred, left to the port, merged, lost for want of buffers.
#[test]
fn super_packets_allocate_nothing() {
    let eal = eal();
    let tso = Offload { tso_v4: true, ..Offload::NONE };
    let cut = Plan { offload: tso, piece_buffers: 127, outlet: 64, ..Plan::default() }.at(1_000_000_000);
    let mut rig = Rig::new(&eal, &[cut, Plan { gro: true, ..Plan::default() }]);
    let mut rng = SplitMix::new(1, 2);
    let large = Tcp::noise(1, 40 * 1_448, &mut || rng.next_u16());
    let (whole, segments): (_, Vec<_>) =
        (large.frame(), large.segments(1_448).iter().map(Tcp::frame).collect());
    let info = measure(|| {
        rig.run(ms(0), ms(200), Duration::from_micros(100), |rig, now| {
            let turn = now.as_nanos() / 100_000;
            if turn % 5 == 0 {
                for _ in 0..1 + turn % 3 {
                    let Ok(mut packet) = Mbuf::from_bytes(&rig.lanes[0].pool, &whole) else { continue };
                    packet.set_ol_flags(flags::RX_LRO);
                    packet.set_tx_offload(TxOffload { tso_segsz: 1_448, ..TxOffload::default() });
                    rig.lanes[0].feed_mbuf(packet);
                }
                segments.iter().for_each(|segment| assert!(rig.lanes[1].feed(segment)));
            }
            let split = match turn % 400 {
                100 => Some(Split::Always),
                200 => Some(Split::AUTO),
                _ => None,
            };
            if let Some(split) = split {
                let _ = rig.control.send(Command::Split { direction: 0, split });
            }
            rig.lanes.iter_mut().for_each(|lane| {
                lane.drain();
            });
        });
        rig.worker.flush();
    });
    assert_eq!((info.count_total, info.bytes_total), (0, 0), "{info:?}");
    let supers = rig.counters(0).supers;
    assert!(supers.deferred > 0 && supers.late_cuts > 0 && supers.tso.packets > 0, "{supers:?}");
    assert!(rig.lost(0, Loss::NoBuffer) > 0 && rig.counters(1).supers.merged > 1_000);
    rig.finish();
}

/// The counter counts: a test of it that cannot fail would prove nothing.
#[test]
fn the_counter_sees_an_allocation() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1u64)))).count_total, 1);
}
