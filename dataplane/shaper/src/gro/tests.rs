//! Merging and cutting again gives the same packets; what must not be merged is not.

use super::*;
use crate::gso::tests::build::*;
use crate::gso::tests::frames;
use crate::gso::{Plan, Request};
use crate::rng::{Rng, SplitMix};
use std::vec;
use std::vec::Vec;

const LIMITS: GroLimits = GroLimits { max_segs: 64, max_len: 65_549 };

/// A burst after merging: each packet that is left, and what it was merged to be.
fn merge(burst: &[Vec<u8>], limits: GroLimits, good: bool) -> Vec<(Vec<u8>, Option<Merged>)> {
    let mut gro = Gro::<32>::new(limits);
    let mut kept: Vec<Option<Vec<u8>>> = Vec::new();
    for (index, frame) in burst.iter().enumerate() {
        let packet = Received {
            index: index as u16,
            head: &frame[..frame.len().min(128)],
            frame_len: frame.len() as u32,
            flow_hash: hash(frame),
            checksums_good: good,
        };
        match gro.offer(&packet) {
            Offer::Keep => kept.push(Some(frame.clone())),
            Offer::Append { first, header_len } => {
                kept[usize::from(first)].as_mut().unwrap().extend(&frame[header_len.into()..]);
                kept.push(None);
            }
        }
    }
    let mut merged: Vec<Option<Merged>> = vec![None; burst.len()];
    for one in gro.merged() {
        let frame = kept[usize::from(one.first)].as_mut().unwrap();
        assert_eq!(frame.len(), one.frame_len as usize);
        one.write(frame);
        merged[usize::from(one.first)] = Some(one);
    }
    kept.into_iter().zip(merged).filter_map(|(frame, merged)| Some((frame?, merged))).collect()
}

/// Depends on the addresses only: flows of the same hosts collide, which must do no harm.
fn hash(frame: &[u8]) -> u32 {
    frame[14..].iter().take(40).position(|&byte| byte == 10).map_or(7, |at| frame[14 + at + 3].into())
}

/// Cuts everything again.
fn split(packets: &[(Vec<u8>, Option<Merged>)]) -> Vec<Vec<u8>> {
    let mut rng = SplitMix::new(1, 1);
    let mut all = Vec::new();
    for (frame, merged) in packets {
        let Some(merged) = merged else {
            all.push(frame.clone());
            continue;
        };
        let request = Request { mtu: 1500, gso_size: merged.gso_size, ids: merged.ids };
        let plan = Plan::new(frame, frame.len() as u32, &request).unwrap();
        assert_eq!(plan.segs(), merged.segs);
        all.extend(frames(frame, &plan, &mut rng));
    }
    all
}

fn v4(id: u16, df: bool) -> Layer {
    V4 { id, df, ds: 2, options: vec![], host: 1 }
}

fn v6() -> Layer {
    V6 { label: 5, ds: 2, extensions: vec![], host: 1 }
}

fn tcp(seq: u32, flags: u8) -> Layer {
    Tcp { seq, ack: 2, flags, ae: false, urgent: 0, options: timestamps(1) }
}

/// `count` segments in order, each changed by `edit`.
fn train(count: u32, v6_: bool, edit: impl Fn(u32, &mut Vec<Layer>)) -> Vec<Vec<u8>> {
    let segment = |i: u32| {
        let ip = if v6_ { v6() } else { v4(100u16.wrapping_add(i as u16), true) };
        let mut stack = vec![Eth, ip, tcp(0xffff_f000u32.wrapping_add(i * 1000), 0x10)];
        edit(i, &mut stack);
        build(&stack, &[i as u8; 1000])
    };
    (0..count).map(segment).collect()
}

fn sizes(burst: &[Vec<u8>]) -> Vec<u16> {
    let packets = merge(burst, LIMITS, true);
    assert_eq!(sorted(split(&packets)), sorted(burst.to_vec()));
    packets.iter().map(|(_, merged)| merged.map_or(1, |merged| merged.segs)).collect()
}

fn sorted(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.sort();
    frames
}

fn set_flags(stack: &mut [Layer], set: u8) {
    if let Some(Tcp { flags, .. }) = stack.last_mut() {
        *flags = set;
    }
}

#[test]
fn a_train_in_order_becomes_one_packet() {
    for v6 in [false, true] {
        assert_eq!(sizes(&train(32, v6, |_, _| ())), [32]);
        let tags = |_, stack: &mut Vec<Layer>| {
            stack.insert(1, Vlan { tpid: 0x8100, id: 9 });
            stack.insert(1, Vlan { tpid: 0x88a8, id: 9 });
        };
        assert_eq!(sizes(&train(32, v6, tags)), [32]);
    }
}

#[test]
fn push_and_fin_end_a_chain_and_come_back_on_the_last() {
    for flags in [0x18, 0x11, 0x19] {
        let last = |i, stack: &mut Vec<Layer>| set_flags(stack, if i % 4 == 3 { flags } else { 0x10 });
        assert_eq!(sizes(&train(10, false, last)), [4, 4, 2]);
        assert_eq!(sizes(&train(3, true, |_, stack| set_flags(stack, flags))), [1, 1, 1]);
    }
}

#[test]
fn congestion_window_reduced_stands_first_and_echo_in_all() {
    let cwr = |at| move |i, stack: &mut Vec<Layer>| set_flags(stack, if i == at { 0x90 } else { 0x10 });
    assert_eq!(sizes(&train(6, false, cwr(0))), [6]);
    assert_eq!(sizes(&train(6, false, cwr(2))), [2, 4]);
    assert_eq!(sizes(&train(6, true, |_, stack| set_flags(stack, 0x50))), [6]);
    let echo = |i, stack: &mut Vec<Layer>| set_flags(stack, if i >= 2 { 0x50 } else { 0x10 });
    assert_eq!(sizes(&train(6, true, echo)), [2, 4]);
}

#[test]
fn other_flags_are_never_merged() {
    for flags in [0x12, 0x14, 0x30, 0x00] {
        assert_eq!(sizes(&train(4, false, |_, stack| set_flags(stack, flags))), [1; 4]);
        let third = |i, stack: &mut Vec<Layer>| set_flags(stack, if i == 2 { flags } else { 0x10 });
        assert_eq!(sizes(&train(6, false, third)), [2, 1, 3], "flags {flags:#x}");
    }
}

#[test]
fn any_field_that_differs_ends_the_chain() {
    type Edit = fn(&mut Layer);
    let tcp: [(&str, Edit); 5] = [
        ("acknowledgement", |layer| {
            if let Tcp { ack, .. } = layer {
                *ack += 1
            }
        }),
        ("timestamp", |layer| {
            if let Tcp { options, .. } = layer {
                options[7] += 1
            }
        }),
        ("options", |layer| {
            if let Tcp { options, .. } = layer {
                options.clear()
            }
        }),
        ("reserved bit", |layer| {
            if let Tcp { ae, .. } = layer {
                *ae = true
            }
        }),
        ("sequence", |layer| {
            if let Tcp { seq, .. } = layer {
                *seq = seq.wrapping_add(1)
            }
        }),
    ];
    let ip: [(&str, Edit); 4] = [
        ("DS field", |layer| {
            if let V4 { ds, .. } | V6 { ds, .. } = layer {
                *ds ^= 4
            }
        }),
        ("congestion mark", |layer| {
            if let V4 { ds, .. } | V6 { ds, .. } = layer {
                *ds |= 3
            }
        }),
        ("address", |layer| {
            if let V4 { host, .. } | V6 { host, .. } = layer {
                *host += 1
            }
        }),
        ("label or DF", |layer| match layer {
            V6 { label, .. } => *label += 1,
            V4 { df, .. } => *df = false,
            _ => {}
        }),
    ];
    for v6 in [false, true] {
        for (at, (what, edit)) in tcp.iter().map(|e| (2, e)).chain(ip.iter().map(|e| (1, e))) {
            let from_third = |i, stack: &mut Vec<Layer>| {
                if i == 2 {
                    edit(&mut stack[at])
                }
            };
            let merged = sizes(&train(6, v6, from_third));
            let wanted: &[&[u16]] = &[&[2, 1, 3], &[5, 1], &[2, 4], &[2, 1, 1, 1, 1]];
            assert!(wanted[..2].contains(&&merged[..]), "{what}: {merged:?}");
        }
    }
}

#[test]
fn bytes_that_the_builder_does_not_vary_count_too() {
    for (v6, at) in [(false, 22), (true, 21), (false, 0), (true, 6), (false, 48), (false, 53), (false, 34)] {
        let mut burst = train(4, v6, |_, _| ());
        burst[2][at] ^= 2;
        let kept = merge(&burst, LIMITS, true);
        assert!(kept.iter().all(|(_, merged)| merged.is_none_or(|merged| merged.segs < 4)), "byte {at}");
    }
}

#[test]
fn identifications_count_up_or_stay_under_dont_fragment() {
    let ids = |df, id: fn(u32) -> u16| {
        sizes(&train(6, false, |i, stack: &mut Vec<Layer>| stack[1] = v4(id(i), df)))
    };
    assert_eq!(ids(true, |_| 0), [6]);
    assert_eq!(ids(false, |_| 0), [1; 6]);
    assert_eq!(ids(false, |i| i as u16), [6]);
    assert_eq!(ids(true, |i| 65_534u16.wrapping_add(i as u16)), [6]);
    assert_eq!(ids(true, |i| 2 * i as u16), [1; 6]);
    assert_eq!(ids(true, |i| if i < 3 { 0 } else { i as u16 - 2 }), [3, 3]);
    assert_eq!(ids(true, |i| 5 + i as u16 % 2), [2, 2, 2]);
    assert_eq!(ids(true, |i| [5, 6, 6, 6, 7, 8][i as usize]), [2, 2, 2]);
}

#[test]
fn a_shorter_segment_is_the_last_and_a_longer_one_begins_anew() {
    let burst = |lens: &[usize]| {
        let (mut seq, mut frames) = (0u32, Vec::new());
        for (i, &len) in lens.iter().enumerate() {
            frames.push(build(&[Eth, v4(i as u16, false), tcp(seq, 0x10)], &vec![i as u8; len]));
            seq += len as u32;
        }
        sizes(&frames)
    };
    assert_eq!(burst(&[1000, 1000, 999, 1000, 1000]), [3, 2]);
    assert_eq!(burst(&[1000, 1001, 1001]), [1, 2]);
    assert_eq!(burst(&[1000, 0, 1000, 1000]), [1, 1, 2], "a bare acknowledgement");
    assert_eq!(burst(&[6, 6, 1]), [3]);
}

#[test]
fn what_else_is_never_merged() {
    let none = |edit: fn(&mut Vec<Layer>)| sizes(&train(3, false, |_, stack| edit(stack)));
    assert_eq!(
        none(|stack| if let V4 { options, .. } = &mut stack[1] {
            *options = vec![1; 4]
        }),
        [1; 3]
    );
    assert_eq!(none(|stack| stack.insert(1, Pppoe { short: false })), [1; 3]);
    assert_eq!(none(|stack| stack.insert(1, Mpls { label: 99, bottom: true })), [1; 3]);
    assert_eq!(none(|stack| stack.insert(1, v4(1, true))), [1; 3]);
    assert_eq!(none(|stack| (0..3).for_each(|_| stack.insert(1, Vlan { tpid: 0x8100, id: 1 }))), [1; 3]);
    assert_eq!(none(|stack| stack[2] = Udp { port: 443, sum: true }), [1; 3]);
    let signed = |stack: &mut Vec<Layer>| {
        if let Some(Tcp { options, .. }) = stack.last_mut() {
            *options = [&[19, 18][..], &[7; 18]].concat();
        }
    };
    assert_eq!(none(signed), [1; 3], "the splitter would refuse it");
    let burst = train(3, false, |_, _| ());
    assert_eq!(merge(&burst, LIMITS, false).len(), 3, "checksums not known to be right");
    let padded: Vec<_> = burst.iter().map(|frame| [&frame[..], &[0]].concat()).collect();
    assert_eq!(merge(&padded, LIMITS, true).len(), 3, "padding would be lost");
    let mut fragments = burst.clone();
    fragments.iter_mut().for_each(|frame| frame[20] |= 0x20);
    assert_eq!(merge(&fragments, LIMITS, true).len(), 3);
}

#[test]
fn limits_hold() {
    let burst = train(32, false, |_, _| ());
    let merged =
        |limits| merge(&burst, limits, true).iter().map(|(_, m)| m.unwrap().segs).collect::<Vec<_>>();
    assert_eq!(merged(GroLimits { max_segs: 10, ..LIMITS }), [10, 10, 10, 2]);
    assert_eq!(merged(GroLimits { max_len: 66 + 16_999, ..LIMITS }), [16, 16]);
    let long: Vec<_> =
        (0..32u32).map(|i| build(&[Eth, v6(), tcp(i * 8000, 0x10)], &vec![i as u8; 8000])).collect();
    let unlimited = GroLimits { max_segs: u16::MAX, max_len: u32::MAX };
    let packets = merge(&long, unlimited, true);
    assert_eq!(packets.iter().map(|(_, m)| m.unwrap().segs).collect::<Vec<_>>(), [8; 4]);
}

#[test]
fn a_full_table_merges_no_more_but_loses_nothing() {
    let burst: Vec<_> = (0..40u8)
        .map(|i| {
            build(&[Eth, V4 { id: 1, df: true, ds: 0, options: vec![], host: i }, tcp(1, 0x10)], &[i; 9])
        })
        .collect();
    assert_eq!(merge(&burst, LIMITS, true).len(), 40);
}

#[test]
fn flows_are_told_apart_and_their_order_is_kept() {
    let mut rng = SplitMix::new(5, 6);
    for _ in 0..300 {
        let mut next = [0u32; 4];
        let mut burst = Vec::new();
        for i in 0..32u16 {
            let flow = usize::from(rng.next_u16() % 4);
            let len =
                if rng.next_u16().is_multiple_of(8) { usize::from(rng.next_u16() % 1000) } else { 1000 };
            let flags = [0x10, 0x10, 0x10, 0x18, 0x90, 0x11][usize::from(rng.next_u16() % 6)];
            let options = if flow == 2 { timestamps(rng.next_u32() % 2) } else { vec![] };
            let ip = match flow {
                3 => v6(),
                _ => V4 {
                    id: i,
                    df: !rng.next_u16().is_multiple_of(16),
                    ds: 2,
                    options: vec![],
                    host: flow as u8,
                },
            };
            let id = if let V4 { df: true, .. } = ip { 0 } else { i };
            let ip =
                if let V4 { df, ds, options, host, .. } = ip { V4 { id, df, ds, options, host } } else { ip };
            let tcp = Tcp { seq: next[flow], ack: 2, flags, ae: false, urgent: 0, options };
            burst.push(build(&[Eth, ip, tcp], &noise(&mut rng, len)));
            next[flow] = next[flow].wrapping_add(len as u32);
        }
        let packets = merge(&burst, LIMITS, true);
        let again = split(&packets);
        for host in 0..4u32 {
            let of = |frames: &[Vec<u8>]| -> Vec<Vec<u8>> {
                let of_flow = |frame: &&Vec<u8>| match frame[12] {
                    8 => u32::from(frame[29]) == host,
                    _ => host == 3,
                };
                frames.iter().filter(of_flow).cloned().collect()
            };
            assert_eq!(of(&again), of(&burst), "flow {host}");
        }
    }
}

#[test]
fn noise_never_panics() {
    let mut rng = SplitMix::new(7, 8);
    for _ in 0..3000 {
        let mut burst = train(6, rng.next_u16() & 1 == 0, |_, _| ());
        for frame in &mut burst {
            let at = usize::from(rng.next_u16()) % 90;
            frame[at] = if rng.next_u16() & 1 == 0 { frame[at] } else { rng.next_u16() as u8 };
            let len = frame.len()
                - usize::from(rng.next_u16().is_multiple_of(3)) * usize::from(rng.next_u16() % 1066);
            frame.truncate(len.max(60));
        }
        for (frame, merged) in merge(&burst, LIMITS, true) {
            if let Some(merged) = merged {
                let request = Request { mtu: 1500, gso_size: merged.gso_size, ids: merged.ids };
                assert!(Plan::new(&frame, frame.len() as u32, &request).is_ok(), "merged and then refused");
            }
        }
    }
}
