//! What is not cut, and that nothing ever panics.

use super::*;

fn v4() -> Layer {
    V4 { id: 1, df: true, ds: 0, options: vec![], host: 1 }
}

fn v6(extensions: &[u8]) -> Layer {
    V6 { label: 0, ds: 0, extensions: extensions.to_vec(), host: 1 }
}

fn tcp(flags: u8, options: &[u8]) -> Layer {
    Tcp { seq: 1, ack: 2, flags, ae: false, urgent: 0, options: options.to_vec() }
}

fn refusal(stack: &[Layer], edit: impl FnOnce(&mut Vec<u8>)) -> Option<Refusal> {
    let mut frame = build(stack, &[7; 5000]);
    edit(&mut frame);
    Plan::new(&frame, frame.len() as u32, &request(1500, 1000)).err()
}

#[test]
fn each_refusal_has_its_cause() {
    let plain = [Eth, v4(), tcp(0x10, &[])];
    let none = |_: &mut Vec<u8>| ();
    let at = |at: usize, value: u8| move |frame: &mut Vec<u8>| frame[at] = value;
    assert_eq!(refusal(&plain, none), None);
    assert_eq!(refusal(&plain, at(12, 9)), Some(Refusal::Protocol), "EtherType");
    assert_eq!(refusal(&plain, at(14, 0x44)), Some(Refusal::Malformed), "IPv4 header length");
    assert_eq!(refusal(&plain, at(23, 132)), Some(Refusal::Protocol), "SCTP");
    assert_eq!(refusal(&plain, at(20, 0x20)), Some(Refusal::Fragment), "more fragments");
    assert_eq!(refusal(&plain, at(21, 1)), Some(Refusal::Fragment), "fragment offset");
    assert_eq!(refusal(&plain, at(16, 0x7f)), Some(Refusal::Malformed), "longer than the frame");
    assert_eq!(refusal(&plain, at(46, 0x40)), Some(Refusal::Malformed), "TCP data offset");
    assert_eq!(refusal(&plain, |frame| frame.truncate(50)), Some(Refusal::Malformed));
    for flag in [0x02, 0x04] {
        assert_eq!(refusal(&[Eth, v4(), tcp(0x10 | flag, &[])], none), Some(Refusal::Flags));
    }
    for options in [[5, 1, 0, 0], [5, 5, 0, 0], [1, 1, 1, 8]] {
        assert_eq!(refusal(&[Eth, v4(), tcp(0x10, &options)], none), Some(Refusal::Options), "{options:?}");
    }
    for kind in [19, 29] {
        let signature = [&[kind, 18][..], &[0; 18]].concat();
        assert_eq!(refusal(&[Eth, v4(), tcp(0x10, &signature)], none), Some(Refusal::Signed));
    }
    assert_eq!(refusal(&[Eth, v6(&[0]), tcp(0x10, &[])], |f| f[18..20].fill(0)), Some(Refusal::Extension));
    for (kind, wanted) in [(43, Refusal::Extension), (51, Refusal::Extension), (44, Refusal::Fragment)] {
        assert_eq!(refusal(&[Eth, v6(&[kind]), tcp(0x10, &[])], at(57, 4)), Some(wanted), "{kind}");
    }
    assert_eq!(refusal(&[Eth, v6(&[0; 9]), tcp(0x10, &[])], none), Some(Refusal::TooDeep));
    let deep = [Eth, v4(), v4(), v4(), v4(), tcp(0x10, &[])];
    assert_eq!(refusal(&deep, none), Some(Refusal::TooDeep));
    let long = V4 { id: 1, df: true, ds: 0, options: vec![1; 40], host: 1 };
    let long = [Eth, Vlan { tpid: 0x8100, id: 1 }, long.clone(), long.clone(), long, tcp(0x10, &[1; 40])];
    assert_eq!(refusal(&long, none), Some(Refusal::HeaderTooLong));
}

#[test]
fn tunnels_that_cannot_be_repeated_are_refused() {
    let none = |_: &mut Vec<u8>| ();
    let gre = Gre { sum: true, key: false };
    let sequence = |frame: &mut Vec<u8>| frame[34] |= 0x10;
    assert_eq!(refusal(&[Eth, v4(), gre.clone(), v4(), tcp(0x10, &[])], sequence), Some(Refusal::Tunnel));
    let bare = Udp { port: 443, sum: false };
    assert_eq!(refusal(&[Eth, v4(), gre, v4(), bare], none), Some(Refusal::Tunnel));
    assert_eq!(refusal(&[Eth, v4(), Udp { port: 6081, sum: false }], none), Some(Refusal::Tunnel));
    let short = |frame: &mut Vec<u8>| frame.extend([0; 4]);
    assert_eq!(refusal(&[Eth, v4(), v4(), tcp(0x10, &[])], short), None, "padding of the outer packet");
    let inner = |frame: &mut Vec<u8>| frame[37] ^= 1;
    assert_eq!(refusal(&[Eth, v4(), v4(), tcp(0x10, &[])], inner), Some(Refusal::Malformed));
}

#[test]
fn one_segment_may_have_any_flags() {
    let frame = build(&[Eth, v4(), tcp(0x17, &[])], &[7; 100]);
    let mut rng = SplitMix::new(1, 1);
    let plan = Plan::new(&frame, frame.len() as u32, &request(1500, 1000)).unwrap();
    assert_eq!(frames(&frame, &plan, &mut rng), std::slice::from_ref(&frame));
}

#[test]
fn too_many_segments_are_refused() {
    let mut frame = build(&[Eth, v4(), tcp(0x10, &[])], &[]);
    frame[16..18].fill(0);
    let planned = |payload: u32| Plan::new(&frame, 54 + payload, &request(1500, 1)).map(|plan| plan.segs());
    assert_eq!(planned(65_535), Ok(65_535));
    assert_eq!(planned(65_536), Err(Refusal::TooManySegments));
    assert_eq!(planned(u32::MAX - 54), Err(Refusal::TooManySegments));
}

#[test]
fn headers_that_are_cut_off_are_refused_and_nothing_else() {
    let mut rng = SplitMix::new(19, 20);
    for stack in stacks(&mut rng) {
        let frame = build(&stack, &[7; 3000]);
        for len in 0..header_len(&stack) {
            let refused = Plan::new(&frame[..len], frame.len() as u32, &request(1500, 1000)).err();
            let cut = refused == Some(Refusal::Truncated);
            // Nothing but the first bytes of an IP header says that there is one under a label.
            let unknown =
                refused == Some(Refusal::Protocol) && stack.iter().any(|layer| matches!(layer, Mpls { .. }));
            assert!(cut || unknown, "{refused:?}: {len} bytes of {stack:?}");
        }
        let head = &frame[..header_len(&stack)];
        assert!(Plan::new(head, frame.len() as u32, &request(1500, 1000)).is_ok());
    }
}

#[test]
fn noise_never_panics_and_pieces_stay_inside_the_frame() {
    let mut rng = SplitMix::new(21, 22);
    let (mut planned, mut refused) = (0, [0u32; Refusal::ALL.len()]);
    for round in 0..150 {
        for stack in stacks(&mut rng) {
            let mut frame = build(&stack, &[7; 3000]);
            for _ in 0..1 + round % 3 {
                let at = usize::from(rng.next_u16()) % header_len(&stack);
                frame[at] = rng.next_u16() as u8;
            }
            let head = usize::from(rng.next_u16() % 300).max(usize::from(round % 2 == 0) * 300);
            let frame_len = frame.len() as u32 - rng.next_u32() % 8 / 7 * 3;
            let asked = request(rng.next_u32() % 2000, rng.next_u16() % 2000);
            match Plan::new(&frame[..head], frame_len, &asked) {
                Ok(plan) => {
                    planned += 1;
                    let k = NonZeroU16::new(rng.next_u16()).unwrap_or(NonZeroU16::MIN);
                    check(&plan.with_segs_per_piece(k), frame_len);
                    check(&plan, frame_len);
                }
                Err(refusal) => refused[refusal as usize] += 1,
            }
        }
    }
    assert!(planned > 1000, "{planned} planned, {refused:?}");
    assert!(refused.iter().filter(|&&count| count > 0).count() >= 8, "{refused:?}");
}

fn check(plan: &Plan<'_>, frame_len: u32) {
    let mut at = u32::from(plan.header_len());
    let mut out = [0; MAX_HEADER_LEN as usize];
    for (index, cut) in plan.cuts().enumerate() {
        assert_eq!(cut.payload.start, at);
        at = cut.payload.end;
        assert!(plan.write(index as u16, Checksums::Software(Sum::default()), &mut out).is_some());
        assert!(plan.write(index as u16, Checksums::Offload, &mut out).is_some());
    }
    assert_eq!(at, u32::from(plan.header_len()) + plan.payload_len());
    assert!(at <= frame_len);
    plan.offload();
}

#[test]
fn names_of_counters_are_in_order_and_differ() {
    for (i, refusal) in Refusal::ALL.iter().enumerate() {
        assert_eq!(*refusal as usize, i);
        assert!(Refusal::ALL[..i].iter().all(|other| other.name() != refusal.name()));
    }
}
