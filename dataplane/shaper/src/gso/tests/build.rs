//! Frames written the slow and obvious way: layer by layer from the inside out, every length counted,
//! every checksum summed word by word. Shares no code with what it tests.

use crate::rng::{Rng, SplitMix};
use std::vec;
use std::vec::Vec;

/// One header of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Layer {
    Eth,
    Vlan { tpid: u16, id: u16 },
    Pppoe { short: bool },
    Mpls { label: u32, bottom: bool },
    V4 { id: u16, df: bool, ds: u8, options: Vec<u8>, host: u8 },
    V6 { label: u32, ds: u8, extensions: Vec<u8>, host: u8 },
    Udp { port: u16, sum: bool },
    Vxlan { vni: u32 },
    Gre { sum: bool, key: bool },
    Tcp { seq: u32, ack: u32, flags: u8, ae: bool, urgent: u16, options: Vec<u8> },
}

pub(crate) use Layer::{Eth, Gre, Mpls, Pppoe, Tcp, Udp, V4, V6, Vlan, Vxlan};

/// The frame with these headers and this payload.
pub(crate) fn build(stack: &[Layer], payload: &[u8]) -> Vec<u8> {
    let mut body = payload.to_vec();
    for (i, layer) in stack.iter().enumerate().rev() {
        let around = i.checked_sub(1).map(|i| &stack[i]);
        let mut header = header(layer, stack.get(i + 1), body.len());
        let field = match layer {
            Udp { sum: true, .. } => Some(6),
            Tcp { .. } => Some(16),
            Gre { sum: true, .. } => Some(4),
            _ => None,
        };
        if let Some(at) = field {
            let mut covered = match layer {
                Gre { .. } => Vec::new(),
                _ => pseudo(around.unwrap(), layer, header.len() + body.len()),
            };
            covered.extend(&header);
            covered.extend(&body);
            let mut sum = checksum(&covered);
            if sum == 0 && matches!(layer, Udp { .. }) {
                sum = 0xffff;
            }
            header[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        header.extend(body);
        body = header;
    }
    body
}

/// Length of all headers.
pub(crate) fn header_len(stack: &[Layer]) -> usize {
    build(stack, &[]).len()
}

/// The headers that segment `index` must have, which starts `offset` bytes into the payload.
pub(crate) fn segment(stack: &[Layer], index: u16, offset: u32, first: bool, last: bool) -> Vec<Layer> {
    let mut stack = stack.to_vec();
    for layer in &mut stack {
        match layer {
            V4 { id, .. } => *id = id.wrapping_add(index),
            Tcp { seq, flags, urgent, .. } => {
                *seq = seq.wrapping_add(offset);
                if !first {
                    *flags &= !0x80;
                }
                if !last {
                    *flags &= !0x09;
                }
                if *flags & 0x20 != 0 && offset > 0 {
                    *urgent = u32::from(*urgent).saturating_sub(offset) as u16;
                    *flags &= if *urgent == 0 { !0x20 } else { 0xff };
                }
            }
            _ => {}
        }
    }
    stack
}

/// Every kind of stack that is supported, with contents drawn from `rng`.
pub(crate) fn stacks(rng: &mut SplitMix) -> Vec<Vec<Layer>> {
    let v4 = |rng: &mut SplitMix| V4 {
        id: rng.next_u16(),
        df: rng.next_u16() & 1 == 0,
        ds: rng.next_u16() as u8,
        options: if rng.next_u16() & 7 == 0 { vec![1; 4 * (rng.next_u16() as usize % 11)] } else { vec![] },
        host: rng.next_u16() as u8,
    };
    let v6 = |rng: &mut SplitMix| V6 {
        label: rng.next_u32() >> 12,
        ds: rng.next_u16() as u8,
        extensions: if rng.next_u16() & 7 == 0 { vec![0, 60] } else { vec![] },
        host: rng.next_u16() as u8,
    };
    let tcp = |rng: &mut SplitMix| Tcp {
        seq: rng.next_u32(),
        ack: rng.next_u32(),
        flags: rng.next_u16() as u8 & !0x26 | 0x10,
        ae: rng.next_u16() & 3 == 0,
        urgent: 0,
        options: [vec![], timestamps(rng.next_u32()), vec![1; 4 * (rng.next_u16() as usize % 11)]]
            [rng.next_u16() as usize % 3]
            .clone(),
    };
    let udp = |rng: &mut SplitMix| Udp { port: 443, sum: rng.next_u16() & 3 != 0 };
    let summed = || Udp { port: 443, sum: true };
    let outer = |sum| Udp { port: 4789, sum };
    let vxlan = |rng: &mut SplitMix| Vxlan { vni: rng.next_u32() >> 8 };
    let r = rng;
    let qinq = [Vlan { tpid: 0x88a8, id: 7 }, Vlan { tpid: 0x8100, id: 9 }];
    let [q, t] = qinq;
    vec![
        vec![Eth, v4(r), tcp(r)],
        vec![Eth, v6(r), tcp(r)],
        vec![Eth, v4(r), udp(r)],
        vec![Eth, v6(r), summed()],
        vec![Eth, t.clone(), v4(r), tcp(r)],
        vec![Eth, q.clone(), t.clone(), v6(r), tcp(r)],
        vec![Eth, q.clone(), t.clone(), v4(r), udp(r)],
        vec![Eth, Pppoe { short: false }, v4(r), tcp(r)],
        vec![Eth, t.clone(), Pppoe { short: false }, v6(r), tcp(r)],
        vec![Eth, Pppoe { short: true }, v4(r), udp(r)],
        vec![Eth, Mpls { label: 99, bottom: true }, v4(r), tcp(r)],
        vec![Eth, Mpls { label: 16, bottom: false }, Mpls { label: 99, bottom: true }, v6(r), tcp(r)],
        vec![Eth, v4(r), outer(false), vxlan(r), Eth, v4(r), tcp(r)],
        vec![Eth, v4(r), outer(true), vxlan(r), Eth, v6(r), tcp(r)],
        vec![Eth, v6(r), outer(true), vxlan(r), Eth, t.clone(), v4(r), tcp(r)],
        vec![Eth, v6(r), outer(true), vxlan(r), Eth, v4(r), summed()],
        vec![Eth, v4(r), outer(true), vxlan(r), Eth, Pppoe { short: true }, v4(r), tcp(r)],
        vec![Eth, v4(r), Udp { port: 8472, sum: false }, vxlan(r), Eth, v4(r), udp(r)],
        vec![Eth, v4(r), Gre { sum: false, key: false }, v4(r), tcp(r)],
        vec![Eth, v4(r), Gre { sum: true, key: true }, v6(r), tcp(r)],
        vec![Eth, v6(r), Gre { sum: true, key: false }, Eth, t, v4(r), summed()],
        vec![Eth, v6(r), Gre { sum: false, key: true }, Mpls { label: 99, bottom: true }, v4(r), tcp(r)],
        vec![Eth, v4(r), v4(r), tcp(r)],
        vec![Eth, v4(r), v6(r), tcp(r)],
        vec![Eth, v6(r), v4(r), udp(r)],
        vec![Eth, v6(r), v6(r), tcp(r)],
        vec![Eth, v4(r), Gre { sum: true, key: false }, v4(r), outer(true), vxlan(r), Eth, v6(r), tcp(r)],
        vec![Eth, q, v4(r), v4(r), Gre { sum: false, key: true }, v6(r), udp(r)],
    ]
}

pub(crate) fn timestamps(value: u32) -> Vec<u8> {
    [&[1, 1, 8, 10][..], &value.to_be_bytes(), &[0, 0, 0, 9]].concat()
}

pub(crate) fn noise(rng: &mut SplitMix, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next_u16() as u8).collect()
}

fn header(layer: &Layer, next: Option<&Layer>, body: usize) -> Vec<u8> {
    let be = |value: usize| (value as u16).to_be_bytes();
    match layer {
        Eth => [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype(next)].concat(),
        Vlan { id, .. } => [id.to_be_bytes(), ethertype(next)].concat(),
        Pppoe { short } => {
            let protocol = match next.unwrap() {
                V4 { .. } if *short => vec![0x21],
                V4 { .. } => vec![0, 0x21],
                V6 { .. } => vec![0, 0x57],
                _ => vec![2, 0x81],
            };
            [&[0x11, 0, 0, 77][..], &be(body + protocol.len()), &protocol].concat()
        }
        Mpls { label, bottom } => (label << 12 | u32::from(*bottom) << 8 | 64).to_be_bytes().to_vec(),
        V4 { id, df, ds, options, host } => {
            let len = 20 + options.len();
            let mut header = vec![0x40 | (len / 4) as u8, *ds];
            header.extend([be(len + body), id.to_be_bytes()].concat());
            header.extend([
                if *df { 0x40 } else { 0 },
                0,
                64,
                protocol(next),
                0,
                0,
                10,
                0,
                0,
                *host,
                192,
                0,
                2,
                7,
            ]);
            header.extend(options);
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        V6 { label, ds, extensions, host } => {
            let word = 6 << 28 | u32::from(*ds) << 20 | label;
            let mut header = word.to_be_bytes().to_vec();
            header.extend(be(8 * extensions.len() + body));
            header.extend([*extensions.first().unwrap_or(&protocol(next)), 64]);
            header.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, *host]);
            header.extend([0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8]);
            for i in 0..extensions.len() {
                let after = *extensions.get(i + 1).unwrap_or(&protocol(next));
                header.extend([after, 0, 1, 4, 0, 0, 0, 0]);
            }
            header
        }
        Udp { port, .. } => [0xc001u16.to_be_bytes(), port.to_be_bytes(), be(8 + body), [0, 0]].concat(),
        Vxlan { vni } => [&[8, 0, 0, 0][..], &(vni << 8).to_be_bytes()].concat(),
        Gre { sum, key } => {
            let flags = u8::from(*sum) << 7 | u8::from(*key) << 5;
            let mut header = [&[flags, 0][..], &ethertype(next)].concat();
            header.extend(vec![0; if *sum { 4 } else { 0 }]);
            header.extend(vec![0xab; if *key { 4 } else { 0 }]);
            header
        }
        Tcp { seq, ack, flags, ae, urgent, options } => {
            let words = (20 + options.len()) as u8 / 4;
            let mut header = [0x9c40u16.to_be_bytes(), 443u16.to_be_bytes()].concat();
            header.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
            header.extend([words << 4 | u8::from(*ae), *flags, 1, 2, 0, 0]);
            header.extend(urgent.to_be_bytes());
            header.extend(options);
            header
        }
    }
}

fn ethertype(next: Option<&Layer>) -> [u8; 2] {
    match next.unwrap() {
        Vlan { tpid, .. } => tpid.to_be_bytes(),
        Pppoe { .. } => [0x88, 0x64],
        Mpls { .. } => [0x88, 0x47],
        V4 { .. } => [8, 0],
        V6 { .. } => [0x86, 0xdd],
        Eth => [0x65, 0x58],
        other => unreachable!("{other:?} has no EtherType"),
    }
}

fn protocol(next: Option<&Layer>) -> u8 {
    match next.unwrap() {
        V4 { .. } => 4,
        V6 { .. } => 41,
        Tcp { .. } => 6,
        Udp { .. } => 17,
        Gre { .. } => 47,
        other => unreachable!("{other:?} has no protocol number"),
    }
}

fn pseudo(around: &Layer, layer: &Layer, len: usize) -> Vec<u8> {
    let protocol = protocol(Some(layer));
    let ip = header(&around.clone(), Some(layer), 0);
    match around {
        V4 { .. } => [&ip[12..20], &[0, protocol], &(len as u16).to_be_bytes()].concat(),
        V6 { .. } => [&ip[8..40], &(len as u32).to_be_bytes(), &[0, 0, 0, protocol]].concat(),
        other => unreachable!("{other:?} has no pseudo header"),
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
