//! Super-packets: taken apart into what the sender would have sent, all or nothing, a bounded number of
//! pieces a turn; cut once more on the way out where that is due.

use crate::frames::{self, ACK, CWR, FIN, PSH, Tcp, udp};
use crate::rig::{Lane, Plan, Rig, ms};
use dpdk::mbuf::flags;
use dpdk::testing::eal;
use dpdk::{Mbuf, TxOffload};
use engine::counters::Loss;
use engine::frame;
use engine::mailbox::Command;
use engine::split::offload::Offload;
use shaper::gso::{Refusal, Split};
use shaper::qdisc::{Params, cake, fq_codel};
use shaper::rng::{Rng, SplitMix};
use shaper::time::Duration;

const MSS: usize = 1448;

/// A port that cuts TCP.
pub const TSO: Offload = Offload { tso_v4: true, tso_v6: true, ..Offload::NONE };

/// The packet as a port with LRO delivers it.
fn marked(mut packet: Mbuf, mss: usize) -> Mbuf {
    packet.set_ol_flags(flags::RX_LRO | flags::RX_L4_CKSUM_GOOD);
    packet.set_tx_offload(TxOffload { tso_segsz: mss as u16, ..TxOffload::default() });
    packet
}

/// Lets a super-packet arrive that is marked with its segment size.
pub fn feed(lane: &mut Lane, frame: &[u8], mss: usize) {
    let packet = Mbuf::from_bytes(&lane.pool, frame).unwrap();
    assert!(lane.feed_mbuf(marked(packet, mss)));
}

/// The frame in buffers of arbitrary lengths, empty ones among them.
fn chopped(lane: &Lane, frame: &[u8], rng: &mut SplitMix) -> Mbuf {
    let (mut parts, mut rest) = (Vec::new(), frame);
    while !rest.is_empty() {
        let len = match rng.next_u16() % 8 {
            0 => 0,
            1 => 1 + usize::from(rng.next_u16() % 40),
            _ => 1 + usize::from(rng.next_u16() % 2048),
        };
        let (part, after) = rest.split_at(len.min(rest.len()));
        parts.push(part);
        rest = after;
    }
    lane.chain(&parts)
}

fn any_super(rng: &mut SplitMix, mss: usize) -> Tcp {
    let len = 1 + usize::from(rng.next_u16()) % 60_000;
    let flow = rng.next_u16() % 50;
    let mut tcp = Tcp::noise(flow, len.min(mss * 60), &mut || rng.next_u16());
    tcp.v6 = rng.next_u16().is_multiple_of(2);
    tcp.tag = (rng.next_u16().is_multiple_of(4)).then_some(5);
    tcp.flags = ACK | (rng.next_u16() as u8 & (CWR | PSH | FIN | 0x40));
    tcp
}

/// Every discipline, way of building and setting: the frames are byte for byte those of a sender without
/// offload, in order.
#[test]
fn the_frames_are_what_the_sender_would_have_sent() {
    let eal = eal();
    let fq = Params::FqCodel(fq_codel::Params::default());
    let cake = Params::Cake(cake::Params::default());
    let mut rng = SplitMix::new(1, 2);
    for qdisc in [fq, cake] {
        for split in [Split::Always, Split::Never, Split::AUTO] {
            for single_buffer in [false, true] {
                let plan = Plan { qdisc, split, single_buffer, ..Plan::default() };
                let rate = if qdisc == fq { Some(1_000_000_000) } else { None };
                let mut rig = Rig::one(&eal, Plan { bits_per_sec: rate, ..plan });
                for round in 0..12 {
                    let mss = 200 + usize::from(rng.next_u16()) % 1_228;
                    let tcp = any_super(&mut rng, mss);
                    let packet = chopped(&rig.lanes[0], &tcp.frame(), &mut rng);
                    assert!(rig.lanes[0].feed_mbuf(marked(packet, mss)));
                    rig.run(ms(10 * round), ms(10 * round + 5), Duration::from_micros(50), |_, _| ());
                    let expected: Vec<_> = tcp.segments(mss).iter().map(Tcp::frame).collect();
                    let got = rig.lanes[0].take();
                    assert_eq!(got.len(), expected.len());
                    assert!(
                        got == expected,
                        "{qdisc:?} {split:?} single buffer: {single_buffer} round {round}"
                    );
                }
                rig.finish();
            }
        }
    }
}

/// A port that cuts gets frames that say how; pieces hold as many segments as the rate allows.
#[test]
fn a_port_that_cuts_is_told_how() {
    let eal = eal();
    for (v6, rate, per_piece) in
        [(false, 1_000_000_000, 8), (true, 1_000_000_000, 8), (false, 100_000_000, 1)]
    {
        let plan = Plan { offload: TSO, ..Plan::default() }.at(rate);
        let mut rig = Rig::one(&eal, plan);
        let mut rng = SplitMix::new(3, 4);
        let tcp = Tcp { v6, flags: ACK | PSH | CWR, ..Tcp::noise(1, 40 * 1400, &mut || rng.next_u16()) };
        feed(&mut rig.lanes[0], &tcp.frame(), 1400);
        let (mut payload, mut segs) = (Vec::<u8>::new(), Vec::new());
        for step in 0..2_000 {
            rig.turn(ms(0) + Duration::from_micros(50 * step));
            rig.lanes[0].each_sent(|mbuf| {
                let bytes: Vec<u8> = mbuf.segments().flatten().copied().collect();
                let made_of = frame::segments(mbuf);
                segs.push(made_of.map_or(1, |made_of| made_of.segs));
                if let Some(made_of) = made_of {
                    let wanted = TxOffload {
                        l2_len: 14,
                        l3_len: if v6 { 40 } else { 20 },
                        l4_len: 32,
                        tso_segsz: 1400,
                        ..TxOffload::default()
                    };
                    assert_eq!(mbuf.tx_offload(), wanted);
                    let network = if v6 { flags::TX_IPV6 } else { flags::TX_IPV4 };
                    assert_eq!(mbuf.ol_flags(), flags::TX_TCP_SEG | network);
                    assert_eq!(usize::from(made_of.header_len), tcp.header_len());
                }
                payload.extend(&bytes[tcp.header_len()..]);
            });
        }
        assert!(payload == tcp.payload);
        assert_eq!(segs, vec![per_piece; 40 / usize::from(per_piece)]);
        let supers = rig.counters(0).supers;
        let class = if per_piece == 8 { 3 } else { 0 };
        assert_eq!(supers.pieces[class], segs.len() as u64);
        assert_eq!(supers.tso.packets, if per_piece == 1 { 0 } else { segs.len() as u64 });
        assert_eq!(rig.counters(0).sent.bytes, (40 * (1400 + tcp.header_len())) as u64);
        rig.finish();
    }
}

/// The pool of pieces is short by one more buffer each time.
#[test]
fn all_pieces_or_none_wherever_the_pool_runs_dry() {
    let eal = eal();
    let mut rng = SplitMix::new(5, 6);
    let tcp = Tcp::noise(1, 20 * MSS, &mut || rng.next_u16());
    let expected = tcp.segments(MSS).len();
    for single_buffer in [false, true] {
        let (mut lost, mut sent) = (0, 0);
        for piece_buffers in 1..70 {
            let plan = Plan { piece_buffers, single_buffer, split: Split::Always, ..Plan::default() };
            let mut rig = Rig::one(&eal, plan);
            feed(&mut rig.lanes[0], &tcp.frame(), MSS);
            rig.lanes[0].feed(&udp(2, 0, 100, 0));
            rig.settle(ms(1));
            let no_buffer = rig.lost(0, Loss::NoBuffer);
            assert_eq!(rig.lanes[0].take().len(), if no_buffer == 1 { 1 } else { expected + 1 });
            lost += no_buffer;
            sent += 1 - no_buffer;
            rig.finish();
        }
        assert!(lost > 10 && sent > 5, "{lost} lost, {sent} sent");
    }
}

/// Three super-packets of 45 segments and one ordinary packet arrive at once.
#[test]
fn what_a_turn_has_no_pieces_for_waits_in_order() {
    let eal = eal();
    let mut rng = SplitMix::new(7, 8);
    let mut rig = Rig::one(&eal, Plan { split: Split::Always, ..Plan::default() });
    let mut expected = Vec::new();
    for _ in 0..3 {
        let tcp = Tcp::noise(1, 45 * MSS - 7, &mut || rng.next_u16());
        expected.extend(tcp.segments(MSS).iter().map(Tcp::frame));
        feed(&mut rig.lanes[0], &tcp.frame(), MSS);
    }
    let last = Tcp::noise(1, 100, &mut || rng.next_u16()).frame();
    rig.lanes[0].feed(&last);
    expected.push(last);
    let mut waits = Vec::new();
    for turn in 0..6 {
        rig.turn(ms(turn));
        waits.push(rig.counters(0).supers.deferred);
    }
    assert_eq!(waits[..4], [1, 2, 2, 2], "64, 64, 7 and one more");
    rig.settle(ms(10));
    assert!(rig.lanes[0].take() == expected);
    rig.finish();
}

#[test]
fn what_waits_on_the_receive_side_is_lost_by_name_and_drained_at_the_end() {
    let eal = eal();
    let mut rng = SplitMix::new(9, 10);
    for stop in [false, true] {
        let mut rig = Rig::one(&eal, Plan { split: Split::Always, ..Plan::default() });
        for _ in 0..4 {
            let tcp = Tcp::noise(1, 45 * MSS, &mut || rng.next_u16());
            feed(&mut rig.lanes[0], &tcp.frame(), MSS);
        }
        if stop {
            rig.control.send(Command::Stop).unwrap();
        }
        rig.turn(ms(0));
        assert!(rig.waiting(0) >= 3);
        if stop {
            rig.settle(ms(1));
            assert_eq!(rig.lanes[0].take().len(), 4 * 45);
        } else {
            rig.worker.flush();
            assert_eq!(rig.waiting(0), 0);
            assert!(rig.lost(0, Loss::Stop) >= 3);
        }
        rig.finish();
    }
}

/// Pieces of eight segments wait when it is asked for single ones.
#[test]
fn pieces_that_wait_are_cut_again_when_the_setting_changes() {
    let eal = eal();
    let mut rng = SplitMix::new(11, 12);
    for split in [Split::Always, Split::Auto(Duration::from_micros(30))] {
        let plan = Plan { offload: TSO, outlet: 4, ..Plan::default() }.at(1_000_000_000);
        let mut rig = Rig::one(&eal, plan);
        let tcp = Tcp::noise(1, 40 * MSS, &mut || rng.next_u16());
        feed(&mut rig.lanes[0], &tcp.frame(), MSS);
        rig.turn(ms(0));
        assert_eq!(rig.counters(0).supers.pieces, [0, 0, 0, 5, 0, 0]);
        rig.control.send(Command::Split { direction: 0, split }).unwrap();
        let (mut segs, mut payload) = (Vec::new(), Vec::<u8>::new());
        for step in 0..4_000 {
            rig.turn(ms(0) + Duration::from_micros(20 * step));
            // Three at a time, so that the driver takes a part of most bursts.
            rig.lanes[0].each_sent_up_to(3, |mbuf| {
                segs.push(frame::segments(mbuf).map_or(1, |made_of| made_of.segs));
                let bytes: Vec<u8> = mbuf.segments().flatten().copied().collect();
                payload.extend(&bytes[tcp.header_len()..]);
            });
        }
        assert!(payload == tcp.payload);
        let largest = if split == Split::Always { 1 } else { 2 };
        assert!(segs.iter().skip(1).all(|segs| *segs <= largest), "{segs:?}");
        let counters = rig.counters(0);
        assert_eq!((counters.supers.late_cuts, counters.supers.tso.packets > 0), (4, true));
        assert!(counters.short_bursts > 0, "the driver took a part");
        rig.finish();
    }
}

/// A piece is sent from the buffers that its payload lies in, of which a port takes so many.
#[test]
fn a_segment_in_too_many_buffers_for_the_port_is_lost_by_name() {
    let eal = eal();
    for (part, lost) in [(1_000, 0), (400, 4)] {
        let offload = Offload { max_buffers: 4, ..Offload::NONE };
        let mut rig = Rig::one(&eal, Plan { offload, ..Plan::default() });
        let frame = Tcp::noise(1, 4 * MSS, &mut || 1).frame();
        let parts: Vec<&[u8]> = frame.chunks(part).collect();
        let packet = marked(rig.lanes[0].chain(&parts), MSS);
        assert!(rig.lanes[0].feed_mbuf(packet));
        rig.settle(ms(1));
        assert_eq!(rig.lost(0, Loss::Segments), lost);
        assert_eq!(rig.counters(0).sent.packets, 4 - lost);
        rig.finish();
    }
}

/// Nobody says how they are to be cut: TCP by the MTU, all else not at all; nothing damaged leaves whole.
#[test]
fn unmarked_super_packets_are_cut_to_the_mtu_or_lost_by_name() {
    let eal = eal();
    let mut rng = SplitMix::new(13, 14);
    for v6 in [false, true] {
        let mut rig = Rig::one(&eal, Plan::default());
        let tcp = Tcp { v6, ..Tcp::noise(1, 30_000, &mut || rng.next_u16()) };
        rig.lanes[0].feed(&tcp.frame());
        rig.settle(ms(1));
        let mss = if v6 { 1428 } else { 1448 };
        let expected: Vec<_> = tcp.segments(mss).iter().map(Tcp::frame).collect();
        assert!(rig.lanes[0].take() == expected);

        let mut damaged = tcp.frame();
        damaged[20_000] ^= 1;
        rig.lanes[0].feed(&damaged);
        let mut reset = Tcp { flags: 4, ..tcp }.frame();
        rig.lanes[0].feed(&reset);
        reset.truncate(1_000);
        rig.lanes[0].feed(&reset);
        rig.lanes[0].feed(&udp(1, 0, 5_000, 0));
        rig.settle(ms(2));
        assert_eq!(rig.lanes[0].take(), [reset], "a frame that makes no sense but fits");
        for refusal in [Refusal::Malformed, Refusal::Flags, Refusal::Unmarked] {
            assert_eq!(rig.lost(0, Loss::Uncut(refusal)), 1, "{}", refusal.name());
        }
        rig.finish();
    }
}

/// Many datagrams as one packet (USO): one frame each, with a checksum of its own if the first has one.
#[test]
fn datagrams_are_cut_where_their_sender_says() {
    let eal = eal();
    for split in [Split::Always, Split::Never] {
        let mut rig = Rig::one(&eal, Plan { split, ..Plan::default() });
        let whole = udp(1, 7, 14 + 20 + 8 + 5 * 1_000 + 300, 0);
        feed(&mut rig.lanes[0], &whole, 1_000);
        rig.settle(ms(1));
        let mut expected = Vec::new();
        for (index, payload) in whole[42..].chunks(1_000).enumerate() {
            let mut packet = frames::ip_udp(1, 0, 28 + payload.len(), 0);
            packet[28..].copy_from_slice(payload);
            packet[4..6].copy_from_slice(&(0x1234 + index as u16).to_be_bytes());
            packet[10..12].fill(0);
            let checksum = !frames::sum(&packet[..20]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            expected.push(frames::ethernet(0x0800, &packet));
        }
        assert_eq!(rig.lanes[0].take(), expected);
        rig.finish();
    }
}

/// A guest leaves the checksum of its segments to the port (`RX_L4_CKSUM_NONE`).
#[test]
fn partial_checksums_are_completed_or_left_to_the_port() {
    let eal = eal();
    let mut rng = SplitMix::new(15, 16);
    for port_does in [false, true] {
        let offload = Offload { tcp_checksum: port_does, ..Offload::NONE };
        let mut rig = Rig::one(&eal, Plan { offload, ..Plan::default() });
        let tcp = Tcp::noise(1, 999, &mut || rng.next_u16());
        let mut frame = tcp.frame();
        frame[50..52].copy_from_slice(&[0xab, 0xcd]);
        let mut packet = Mbuf::from_bytes(&rig.lanes[0].pool, &frame).unwrap();
        packet.set_ol_flags(flags::RX_L4_CKSUM_NONE);
        rig.lanes[0].feed_mbuf(packet);
        rig.turn(ms(0));
        let mut left_to_the_port = None;
        rig.lanes[0].each_sent(|mbuf| {
            left_to_the_port = Some(mbuf.ol_flags() & flags::TX_L4_MASK != 0);
            let bytes: Vec<u8> = mbuf.segments().flatten().copied().collect();
            assert_eq!(bytes == tcp.frame(), !port_does);
        });
        assert_eq!(left_to_the_port, Some(port_does));
        let supers = rig.counters(0).supers;
        assert_eq!((supers.completed, supers.checksum_offload), (1, u64::from(port_does)));
        assert_eq!(supers.received.packets, 0);
        rig.finish();
    }
}

/// The same of a datagram, which has no segment size and needs none.
#[test]
fn a_datagram_without_its_checksum_gets_it() {
    let eal = eal();
    let mut whole = udp(1, 7, 301, 0);
    let pseudo = [&whole[26..34], &[0, 17], &whole[38..40]].concat();
    let padded = [&pseudo[..], &whole[34..], &[0]].concat();
    whole[40..42].copy_from_slice(&(!frames::sum(&padded)).to_be_bytes());
    for port_does in [false, true] {
        let offload = Offload { udp_checksum: port_does, ..Offload::NONE };
        let mut rig = Rig::one(&eal, Plan { offload, ..Plan::default() });
        let mut frame = whole.clone();
        frame[40..42].copy_from_slice(&frames::sum(&pseudo).to_be_bytes());
        let mut packet = Mbuf::from_bytes(&rig.lanes[0].pool, &frame).unwrap();
        packet.set_ol_flags(flags::RX_L4_CKSUM_NONE);
        rig.lanes[0].feed_mbuf(packet);
        rig.turn(ms(0));
        let mut sent = 0;
        rig.lanes[0].each_sent(|mbuf| {
            sent += 1;
            let bytes: Vec<u8> = mbuf.segments().flatten().copied().collect();
            let is_left = mbuf.ol_flags() & flags::TX_L4_MASK == flags::TX_UDP_CKSUM;
            assert_eq!((is_left, &bytes), (port_does, if port_does { &frame } else { &whole }));
        });
        assert_eq!((sent, rig.counters(0).supers.completed), (1, 1));
        rig.finish();
    }
}

/// Fewer pieces pass the queue of a faster line.
#[test]
fn auto_queues_far_fewer_pieces_than_segments() {
    let eal = eal();
    let mut rng = SplitMix::new(17, 18);
    let tcp = Tcp::noise(1, 45 * MSS, &mut || rng.next_u16());
    let pieces = |rate, split| {
        let mut rig = Rig::one(&eal, Plan { offload: TSO, split, ..Plan::default() }.at(rate));
        feed(&mut rig.lanes[0], &tcp.frame(), MSS);
        rig.run(ms(0), ms(5), Duration::from_micros(20), |rig, _| {
            rig.lanes[0].drain();
        });
        let supers = rig.counters(0).supers;
        rig.finish();
        supers.pieces.iter().sum::<u64>()
    };
    assert_eq!(pieces(1_000_000_000, Split::Always), 45);
    assert!(pieces(1_000_000_000, Split::AUTO) * 4 <= 45);
    assert!(pieces(10_000_000_000, Split::AUTO) * 20 <= 45);
    assert_eq!(pieces(100_000_000, Split::AUTO), 45);
}

/// Two seconds of everything at once; the rig does the books after every turn.
#[test]
fn two_seconds_of_everything() {
    let eal = eal();
    for (offload, gro, single_buffer) in
        [(TSO, false, false), (Offload::NONE, true, false), (Offload::NONE, true, true)]
    {
        let mut rng = SplitMix::new(19, 20);
        let plan = Plan { offload, gro, single_buffer, outlet: 32, piece_buffers: 511, ..Plan::default() };
        let mut rig = Rig::one(&eal, plan.at(300_000_000));
        rig.run(ms(0), ms(2_000), Duration::from_micros(4_000), |rig, now| {
            for _ in 0..rng.next_u16() % 4 {
                let mss = 100 + usize::from(rng.next_u16()) % (MSS - 100);
                let tcp = any_super(&mut rng, mss);
                let mut frame = tcp.frame();
                if rng.next_u16().is_multiple_of(8) {
                    let at = usize::from(rng.next_u16()) % 70.min(frame.len());
                    frame[at] ^= rng.next_u16() as u8;
                }
                let lane = &mut rig.lanes[0];
                if lane.pool.available() < 300 {
                    continue;
                }
                let packet = chopped(lane, &frame, &mut rng);
                let is_marked = !rng.next_u16().is_multiple_of(8);
                lane.feed_mbuf(if is_marked { marked(packet, mss) } else { packet });
                for segment in any_super(&mut rng, mss).segments(mss).iter().take(9) {
                    lane.feed(&segment.frame());
                }
            }
            match now.as_nanos() / 4_000_000 {
                50 | 200 => rig.set_link(0, false),
                60 | 260 => rig.set_link(0, true),
                300 => {
                    let split = Split::Always;
                    rig.control.send(Command::Split { direction: 0, split }).unwrap();
                }
                400 => rig.control.send(Command::Split { direction: 0, split: Split::AUTO }).unwrap(),
                _ => {}
            }
            if !rng.next_u16().is_multiple_of(3) {
                rig.lanes[0].drain();
            }
        });
        let counters = rig.counters(0);
        assert!(counters.supers.received.packets > 200 && counters.sent.packets > 2_000, "{counters:?}");
        assert!(
            counters.supers.deferred > 0 && counters.losses.of(Loss::NoBuffer).packets > 0,
            "{counters:?}"
        );
        assert_eq!(counters.supers.merged > 200, gro, "{counters:?}");
        rig.finish();
    }
}
