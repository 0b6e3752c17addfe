//! Pieces against frames that an independent builder makes, golden bytes, refusals, fuzz.

pub(crate) mod build;
mod golden;
mod refusals;

use super::*;
use crate::rng::{Rng, SplitMix};
use crate::wire::checksum::Sum;
use build::*;
use core::num::NonZeroU16;
use std::vec;
use std::vec::Vec;

/// All pieces of a super-packet as frames, checksums in software.
pub(crate) fn frames(frame: &[u8], plan: &Plan<'_>, rng: &mut SplitMix) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (index, cut) in plan.cuts().enumerate() {
        let payload = &frame[cut.payload.start as usize..cut.payload.end as usize];
        let mut out = vec![0xee; plan.header_len().into()];
        let written = plan.write(index as u16, Checksums::Software(chunked(payload, rng)), &mut out);
        assert_eq!(written, Some(plan.header_len()));
        out.extend(payload);
        assert_eq!(out.len(), cut.frame_len as usize);
        frames.push(out);
    }
    assert_eq!(frames.len(), usize::from(plan.pieces()));
    frames
}

/// The sum over chunks of arbitrary length, as a chain of buffers has them.
fn chunked(payload: &[u8], rng: &mut SplitMix) -> Sum {
    let (mut sum, mut at) = (Sum::default(), 0);
    while at < payload.len() {
        let end = (at + 1 + usize::from(rng.next_u16() % 999)).min(payload.len());
        sum = sum.at(at, &payload[at..end]);
        at = end;
    }
    sum
}

pub(crate) fn request(mtu: u32, gso_size: u16) -> Request {
    Request { mtu, gso_size, ids: Ids::Increment }
}

fn expected(stack: &[Layer], payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let chunks: Vec<&[u8]> = if payload.is_empty() { vec![payload] } else { payload.chunks(size).collect() };
    let last = chunks.len() - 1;
    let frame = |(i, chunk): (usize, &&[u8])| {
        build(&segment(stack, i as u16, (i * size) as u32, i == 0, i == last), chunk)
    };
    chunks.iter().enumerate().map(frame).collect()
}

#[test]
fn pieces_are_what_an_independent_builder_makes() {
    let mut rng = SplitMix::new(1, 2);
    for _ in 0..15 {
        for stack in stacks(&mut rng) {
            let size = 1 + usize::from(rng.next_u16() % 1600);
            let len = (usize::from(rng.next_u16()) % 12_000).min(size * 50);
            let payload = noise(&mut rng, len);
            let frame = build(&stack, &payload);
            let plan = Plan::new(&frame, frame.len() as u32, &request(9000, size as u16))
                .unwrap_or_else(|refusal| panic!("{refusal:?}: {stack:?}"));
            assert_eq!(usize::from(plan.header_len()), header_len(&stack));
            assert_eq!(frames(&frame, &plan, &mut rng), expected(&stack, &payload, size), "{stack:?}");
        }
    }
}

#[test]
fn cutting_a_piece_again_gives_the_finer_pieces() {
    let mut rng = SplitMix::new(3, 4);
    for round in 0..8 {
        for mut stack in stacks(&mut rng) {
            if let Some(Tcp { flags, urgent, .. }) = stack.last_mut()
                && round % 4 == 0
            {
                (*flags, *urgent) = (*flags | 0x20, rng.next_u16() % 4000);
            }
            let size = 1 + rng.next_u16() % 1600;
            let len = usize::from(rng.next_u16() % 12_000).min(usize::from(size) * 40);
            let payload = noise(&mut rng, len);
            let frame = build(&stack, &payload);
            let plan = Plan::new(&frame, frame.len() as u32, &request(9000, size)).unwrap();
            let k = NonZeroU16::new(1 + rng.next_u16() % 9).unwrap();
            let coarse = plan.with_segs_per_piece(k);
            assert_eq!(coarse.pieces(), plan.segs().div_ceil(k.get()).max(1));
            assert_eq!(coarse.cuts().map(|cut| u32::from(cut.segs)).sum::<u32>(), plan.segs().into());
            let mut again = Vec::new();
            for piece in frames(&frame, &coarse, &mut rng) {
                let plan = Plan::new(&piece, piece.len() as u32, &request(9000, size)).unwrap();
                again.extend(frames(&piece, &plan, &mut rng));
            }
            assert_eq!(again, frames(&frame, &plan, &mut rng), "{stack:?}");
        }
    }
}

#[test]
fn a_piece_of_many_segments_is_a_valid_frame_itself() {
    let mut rng = SplitMix::new(5, 6);
    for stack in stacks(&mut rng) {
        let payload = noise(&mut rng, 20_000);
        let frame = build(&stack, &payload);
        let plan = Plan::new(&frame, frame.len() as u32, &request(9000, 1000)).unwrap();
        let whole = plan.with_segs_per_piece(NonZeroU16::MAX);
        assert_eq!(frames(&frame, &whole, &mut rng), std::slice::from_ref(&frame), "{stack:?}");
        let fours = plan.with_segs_per_piece(NonZeroU16::new(4).unwrap());
        let pieces = frames(&frame, &fours, &mut rng);
        for (i, (piece, cut)) in pieces.iter().zip(fours.cuts()).enumerate() {
            let headers = segment(&stack, 4 * i as u16, 4000 * i as u32, i == 0, i == 4);
            assert_eq!(*piece, build(&headers, &payload[4000 * i..4000 * (i + 1)]));
            assert_eq!((cut.segs, cut.gso_size, cut.header_len), (4, 1000, plan.header_len()));
            let queued = cut.piece((), 0);
            assert_eq!(queued.len(), 4 * (1000 + u32::from(plan.header_len())));
        }
    }
}

#[test]
fn unmarked_tcp_is_cut_to_the_mtu_and_tags_do_not_count() {
    let mut rng = SplitMix::new(7, 8);
    let size = |stack: &[Layer], mtu, gso_size| {
        let frame = build(stack, &[7; 30_000]);
        Plan::new(&frame, frame.len() as u32, &request(mtu, gso_size)).map(|plan| plan.gso_size())
    };
    let v4 = V4 { id: 1, df: true, ds: 0, options: vec![], host: 1 };
    let v6 = V6 { label: 0, ds: 0, extensions: vec![], host: 1 };
    let tcp = Tcp { seq: 1, ack: 2, flags: 0x10, ae: false, urgent: 0, options: timestamps(rng.next_u32()) };
    let udp = Udp { port: 443, sum: true };
    let vlan = Vlan { tpid: 0x8100, id: 1 };
    assert_eq!(size(&[Eth, v4.clone(), tcp.clone()], 1500, 0), Ok(1448));
    assert_eq!(size(&[Eth, v6.clone(), tcp.clone()], 1500, 0), Ok(1428));
    assert_eq!(size(&[Eth, vlan.clone(), vlan, v4.clone(), tcp.clone()], 1500, 0), Ok(1448));
    assert_eq!(size(&[Eth, Pppoe { short: false }, v4.clone(), tcp.clone()], 1500, 0), Ok(1440));
    let vxlan = [Eth, v4.clone(), Udp { port: 4789, sum: false }, Vxlan { vni: 1 }];
    assert_eq!(size(&[&vxlan[..], &[Eth, v4.clone(), tcp.clone()]].concat(), 1500, 0), Ok(1398));
    assert_eq!(size(&[Eth, v4.clone(), tcp.clone()], 1500, 9000), Ok(1448), "marked larger than it fits");
    assert_eq!(size(&[Eth, v4.clone(), tcp.clone()], 1500, 500), Ok(500));
    assert_eq!(size(&[Eth, v4.clone(), udp.clone()], 1500, 1472), Ok(1472));
    assert_eq!(size(&[Eth, v4.clone(), udp.clone()], 1500, 1473), Err(Refusal::SegmentSize));
    assert_eq!(size(&[Eth, v4.clone(), udp.clone()], 1500, 0), Err(Refusal::Unmarked));
    assert_eq!(size(&[Eth, v4.clone(), udp], 30_028, 0), Ok(30_000), "needs no cutting");
    assert_eq!(size(&[Eth, v4, tcp], 52, 0), Err(Refusal::SegmentSize));
}

#[test]
fn datagrams_of_a_program_that_speaks_vxlan_are_not_taken_for_a_tunnel() {
    let mut rng = SplitMix::new(9, 10);
    let outer = [Eth, V4 { id: 1, df: true, ds: 0, options: vec![], host: 1 }, Udp { port: 4789, sum: true }];
    let tcp = Tcp { seq: 1, ack: 2, flags: 0x10, ae: false, urgent: 0, options: vec![] };
    let inner = [Vxlan { vni: 5 }, Eth, V4 { id: 9, df: true, ds: 0, options: vec![], host: 3 }, tcp];
    let datagram = build(&inner, &noise(&mut rng, 500));
    let payload = datagram.repeat(3);
    let frame = build(&outer, &payload);
    let plan = Plan::new(&frame, frame.len() as u32, &request(1500, datagram.len() as u16)).unwrap();
    assert_eq!(frames(&frame, &plan, &mut rng), expected(&outer, &payload, datagram.len()));
}

#[test]
fn padding_is_left_behind_and_a_missing_length_is_filled_in() {
    let mut rng = SplitMix::new(11, 12);
    for v6 in [false, true] {
        let stack = match v6 {
            false => stacks(&mut rng).swap_remove(0),
            true => vec![
                Eth,
                V6 { label: 3, ds: 0, extensions: vec![], host: 1 },
                stacks(&mut rng).swap_remove(1).swap_remove(2),
            ],
        };
        let payload = noise(&mut rng, 5000);
        let right = build(&stack, &payload);
        let padded = [&right[..], &[0; 9]].concat();
        let plan = Plan::new(&padded, padded.len() as u32, &request(1500, 1000)).unwrap();
        assert_eq!(frames(&padded, &plan, &mut rng), expected(&stack, &payload, 1000));
        let mut big = right[..header_len(&stack)].to_vec();
        big[if v6 { 18..20 } else { 16..18 }].fill(0);
        let payload = noise(&mut rng, 180_000);
        big.extend(&payload);
        let plan = Plan::new(&big, big.len() as u32, &request(1500, 1300)).unwrap();
        assert_eq!(frames(&big, &plan, &mut rng), expected(&stack, &payload, 1300));
        let jumbo = Plan::new(&big, big.len() as u32, &request(u32::MAX, 0)).unwrap();
        assert_eq!(u32::from(jumbo.gso_size()) + u32::from(jumbo.header_len()) - 14, 65_535);
        assert_eq!(frames(&big, &jumbo, &mut rng), expected(&stack, &payload, jumbo.gso_size().into()));
        let whole = plan.with_segs_per_piece(NonZeroU16::MAX);
        assert!(whole.cuts().all(|cut| cut.frame_len <= 65_549));
        assert_eq!(whole.pieces(), 3);
    }
}

#[test]
fn identifications_may_stay_as_they_are() {
    let mut rng = SplitMix::new(13, 14);
    let stack = stacks(&mut rng).swap_remove(22);
    let frame = build(&stack, &noise(&mut rng, 5000));
    let ids = Ids::Fixed;
    let plan = Plan::new(&frame, frame.len() as u32, &Request { mtu: 1500, gso_size: 1000, ids }).unwrap();
    let (V4 { id: outer, options, .. }, V4 { id: inner, .. }) = (&stack[1], &stack[2]) else { panic!() };
    let at = 14 + 20 + options.len();
    for (i, frame) in frames(&frame, &plan, &mut rng).iter().enumerate() {
        assert_eq!(frame[18..20], outer.wrapping_add(i as u16).to_be_bytes());
        assert_eq!(frame[at + 4..at + 6], inner.to_be_bytes());
    }
}

#[test]
fn an_urgent_pointer_goes_along_with_the_payload() {
    let mut rng = SplitMix::new(15, 16);
    let mut stack = stacks(&mut rng).swap_remove(0);
    if let Some(Tcp { flags, urgent, .. }) = stack.last_mut() {
        (*flags, *urgent) = (0x38, 2500);
    }
    let payload = noise(&mut rng, 5000);
    let frame = build(&stack, &payload);
    let plan = Plan::new(&frame, frame.len() as u32, &request(1500, 1000)).unwrap();
    let frames = frames(&frame, &plan, &mut rng);
    assert_eq!(frames, expected(&stack, &payload, 1000));
    assert!(!plan.offload().unwrap().segmentation);
}

#[test]
fn offload_writes_the_pseudo_header_and_names_the_lengths() {
    let v4 = V4 { id: 1, df: true, ds: 0, options: vec![], host: 1 };
    let tcp = Tcp { seq: 1, ack: 2, flags: 0x10, ae: false, urgent: 0, options: timestamps(1) };
    let plain = build(&[Eth, v4.clone(), tcp.clone()], &[7; 5000]);
    let plan = Plan::new(&plain, plain.len() as u32, &request(1500, 0)).unwrap();
    let mut out = [0; 66];
    assert_eq!(plan.write(0, Checksums::Offload, &mut out), Some(66));
    let pseudo = |len| Sum::default().pseudo_v4([10, 0, 0, 1], [192, 0, 2, 7], 6, len).fold().to_be_bytes();
    assert_eq!(out[50..52], pseudo(32 + 1448));
    let pairs = plan.with_segs_per_piece(NonZeroU16::new(2).unwrap());
    assert_eq!(pairs.write(0, Checksums::Offload, &mut out), Some(66));
    assert_eq!(out[50..52], pseudo(0));
    let offload = plan.offload().unwrap();
    assert_eq!((offload.l2_len, offload.l3_len, offload.l4_len), (14, 20, 32));
    assert_eq!((offload.outer_l2_len, offload.outer_l3_len, offload.tunnel), (0, 0, Tunnel::None));
    assert!(offload.segmentation && offload.checksum && offload.ipv4);

    let v6 = V6 { label: 0, ds: 0, extensions: vec![], host: 1 };
    let udp = Udp { port: 4789, sum: false };
    let vlan = Vlan { tpid: 0x8100, id: 1 };
    let stack = [Eth, vlan, v6, udp, Vxlan { vni: 1 }, Eth, v4.clone(), tcp.clone()];
    let frame = build(&stack, &[7; 5000]);
    let offload = Plan::new(&frame, frame.len() as u32, &request(1500, 0)).unwrap().offload().unwrap();
    assert_eq!((offload.outer_l2_len, offload.outer_l3_len), (18, 40));
    assert_eq!((offload.l2_len, offload.l3_len, offload.l4_len), (8 + 8 + 14, 20, 32));
    assert_eq!((offload.tunnel, offload.outer_ipv4, offload.ipv4), (Tunnel::Vxlan, false, true));

    for link in [Pppoe { short: false }, Mpls { label: 99, bottom: true }] {
        let frame = build(&[Eth, link, v4.clone(), tcp.clone()], &[7; 5000]);
        let plan = Plan::new(&frame, frame.len() as u32, &request(1500, 0)).unwrap();
        assert_eq!(plan.offload(), None);
    }
}

#[test]
fn two_tunnels_are_not_left_to_a_nic() {
    let v4 = V4 { id: 1, df: true, ds: 0, options: vec![], host: 1 };
    let tcp = Tcp { seq: 1, ack: 2, flags: 0x10, ae: false, urgent: 0, options: vec![] };
    for (stack, wanted) in [
        (vec![Eth, v4.clone(), v4.clone(), tcp.clone()], true),
        (vec![Eth, v4.clone(), v4.clone(), v4, tcp], false),
    ] {
        let frame = build(&stack, &[7; 5000]);
        let plan = Plan::new(&frame, frame.len() as u32, &request(1500, 0)).unwrap();
        assert_eq!(plan.offload().is_some(), wanted);
    }
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_ones_inside_and_outside() {
    let mut rng = SplitMix::new(19, 20);
    let v4 = V4 { id: 1, df: true, ds: 0, options: vec![], host: 1 };
    let v6 = V6 { label: 0, ds: 0, extensions: vec![], host: 1 };
    let summed = |port| Udp { port, sum: true };
    let tunnel = [Eth, v6.clone(), summed(4789), Vxlan { vni: 1 }];
    let cases = [
        (vec![Eth, v4.clone(), summed(443)], 14 + 20 + 6),
        (vec![Eth, v6, summed(443)], 14 + 40 + 6),
        ([&tunnel[..], &[Eth, v4, summed(443)]].concat(), 14 + 40 + 6),
    ];
    for (stack, field) in cases {
        let outer = stack.len() > 3;
        let found = (0..=u16::MAX).find(|tail| {
            // The outer sum does not see the payload but through its length: there the VNI is varied.
            let stack = varied(&stack, *tail);
            let body = if outer { [0; 2] } else { tail.to_be_bytes() };
            build(&stack, &body)[field..field + 2] == [0xff; 2]
        });
        let tail = found.unwrap();
        let stack = varied(&stack, tail);
        let body = if outer { [0; 2] } else { tail.to_be_bytes() };
        let payload = body.repeat(2);
        let frame = build(&stack, &payload);
        let plan = Plan::new(&frame, frame.len() as u32, &request(1500, 2)).unwrap();
        let pieces = frames(&frame, &plan, &mut rng);
        assert_eq!(pieces[0][field..field + 2], [0xff; 2], "{stack:?}");
        assert_eq!(pieces, expected(&stack, &payload, 2));
    }
}

fn varied(stack: &[Layer], tail: u16) -> Vec<Layer> {
    let mut stack = stack.to_vec();
    for layer in &mut stack {
        if let Vxlan { vni } = layer {
            *vni = tail.into();
        }
    }
    stack
}

#[test]
fn a_buffer_too_short_and_a_piece_too_many_are_refused() {
    let mut rng = SplitMix::new(17, 18);
    let frame = build(&stacks(&mut rng)[0], &[7; 5000]);
    let plan = Plan::new(&frame, frame.len() as u32, &request(1500, 1000)).unwrap();
    let mut out = [0; 256];
    let len = usize::from(plan.header_len());
    assert_eq!(plan.write(0, Checksums::Offload, &mut out[..len - 1]), None);
    assert_eq!(plan.write(5, Checksums::Offload, &mut out), None);
    assert_eq!(plan.cut(5), None);
    assert!(plan.write(4, Checksums::Offload, &mut out).is_some());
}
