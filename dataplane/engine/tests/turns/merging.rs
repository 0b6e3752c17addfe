//! GRO: what follows each other in a burst is merged, and cut again into the same bytes.

use crate::frames::{ACK, PSH, Tcp, udp};
use crate::rig::{Plan, Rig, ms};
use dpdk::testing::eal;
use shaper::gso::Split;
use shaper::rng::{Rng, SplitMix};

/// Fits 1500 bytes with IPv6 and timestamps.
const MSS: usize = 1428;

fn merging(split: Split) -> Plan {
    Plan { gro: true, split, ..Plan::default() }
}

#[test]
fn a_burst_of_segments_is_merged_and_cut_into_the_same_bytes() {
    let eal = eal();
    let mut rng = SplitMix::new(1, 2);
    for split in [Split::Always, Split::Never] {
        for (v6, fixed_ids, tag) in [(false, false, None), (false, true, None), (true, false, Some(7))] {
            for single_buffer in [false, true] {
                let mut rig = Rig::one(&eal, Plan { single_buffer, ..merging(split) });
                let tcp =
                    Tcp { v6, tag, flags: ACK | PSH, ..Tcp::noise(3, 40 * MSS, &mut || rng.next_u16()) };
                let mut frames = Vec::new();
                for mut segment in tcp.segments(MSS) {
                    if fixed_ids {
                        segment.id = tcp.id;
                    }
                    frames.push(segment.frame());
                }
                frames.iter().for_each(|frame| assert!(rig.lanes[0].feed(frame)));
                rig.settle(ms(1));
                assert!(rig.lanes[0].take() == frames, "v6 {v6} fixed {fixed_ids}");
                let supers = rig.counters(0).supers;
                assert_eq!((supers.merged, supers.received.packets), (39, 1));
                let queued: u64 = supers.pieces.iter().sum();
                let whole = split == Split::Never && !fixed_ids && !single_buffer;
                assert_eq!(queued, if whole { 1 } else { 40 });
                rig.finish();
            }
        }
    }
}

/// Flows mixed with each other and with what is not merged: nothing of a flow is overtaken.
#[test]
fn flows_side_by_side_keep_their_order() {
    let eal = eal();
    let mut rng = SplitMix::new(3, 4);
    for _ in 0..20 {
        let mut rig = Rig::one(&eal, merging(Split::AUTO));
        let mut flows: Vec<_> = (0..4)
            .map(|flow| Tcp::noise(flow, 14 * 1448, &mut || rng.next_u16()).segments(1448).into_iter())
            .collect();
        let mut fed: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 5];
        for _ in 0..60 {
            let flow = usize::from(rng.next_u16() % 5);
            let frame = match flows.get_mut(flow) {
                Some(segments) => segments.next().map(|segment| segment.frame()),
                None => Some(udp(9, rng.next_u32(), 200, 0)),
            };
            let Some(mut frame) = frame else { continue };
            if rng.next_u16().is_multiple_of(10) && flow < 4 {
                // Damaged, and forwarded as it is.
                frame[100] ^= 1;
            }
            rig.lanes[0].feed(&frame);
            fed[flow].push(frame);
        }
        rig.settle(ms(1));
        let mut got: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 5];
        for frame in rig.lanes[0].take() {
            let port = u16::from_be_bytes([frame[34], frame[35]]) - 1024;
            got[if port == 9 { 4 } else { usize::from(port) }].push(frame);
        }
        assert!(got == fed);
        assert!(rig.counters(0).supers.merged > 10);
        rig.finish();
    }
}

#[test]
fn nothing_is_merged_unless_asked_for() {
    let eal = eal();
    let mut rng = SplitMix::new(5, 6);
    let mut rig = Rig::one(&eal, Plan::default());
    for segment in Tcp::noise(1, 10 * 1448, &mut || rng.next_u16()).segments(1448) {
        rig.lanes[0].feed(&segment.frame());
    }
    rig.settle(ms(1));
    assert_eq!(rig.counters(0).supers, Default::default());
    assert_eq!(rig.lanes[0].take().len(), 10);
    rig.finish();
}
