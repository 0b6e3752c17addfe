//! What neither the recorded vectors nor the model reach: classes, super-packets, refusals, reports.

use super::{FqCodel, Params};
use crate::codel::codel;
use crate::packet::{Arrival, DropReason, DsField, Piece, Verdict};
use crate::qdisc::{self, ParamError, Qdisc};
use crate::rng::SplitMix;
use crate::time::{Duration, Instant};

fn queue_of(qdisc: &mut FqCodel<u32>, flow_hash: u32, priority: u32) -> u32 {
    let arrival = Arrival { flow_hash, priority, ..Arrival::default() };
    let piece = core::iter::once(Piece::single(0, 100, 2_304));
    qdisc.enqueue(Instant::ZERO, &arrival, piece, &mut |_, _| ()).queue
}

#[test]
fn a_class_of_our_handle_chooses_the_queue_and_all_else_is_hashed() {
    let params = Params { handle: Some(0x8001), flows: 16, ..Params::default() };
    let mut qdisc = FqCodel::new(&params, 100).unwrap();
    let half = 1 << 31;
    for (priority, queue) in
        [(0, 8), (0x8001_0000, 8), (0x8001_0001, 0), (0x8001_0010, 15), (0x8001_0011, 8), (0x8002_0001, 8)]
    {
        assert_eq!(queue_of(&mut qdisc, half, priority), queue, "priority {priority:#x}");
    }
    assert_eq!(queue_of(&mut qdisc, u32::MAX, 0), 15);
    let mut without = FqCodel::new(&Params { handle: None, ..params }, 100).unwrap();
    assert_eq!(queue_of(&mut without, half, 1), 8, "no handle, no classes");
}

#[test]
fn a_super_packet_counts_its_headers_and_segments() {
    let mut qdisc = FqCodel::<_>::new(&Params::default(), 100).unwrap();
    let piece = Piece { segs: 4, header_len: 54, ..Piece::single(7, 5_846, 8_448) };
    let arrival = Arrival { ds: DsField::ip(0xb8), ..Arrival::default() };
    qdisc.enqueue(Instant::ZERO, &arrival, core::iter::once(piece), &mut |_, _| ());
    assert_eq!((qdisc.backlog(), qdisc.stats().memory_usage), (6_008, 8_448));
    let delivery = qdisc.dequeue(Instant::ZERO, &mut |_, _| ()).unwrap();
    assert_eq!((delivery.packet, delivery.len, delivery.segs, delivery.rewrite), (7, 6_008, 4, false));
    assert_eq!((qdisc.stats().sent_pkts, qdisc.stats().sent_bytes), (4, 6_008));
}

#[test]
fn a_full_pool_drops_from_the_longest_queue_and_the_arrival_gets_in() {
    let mut qdisc = FqCodel::<_>::new(&Params { drop_batch: 1, ..Params::default() }, 3).unwrap();
    let mut lost = std::vec::Vec::new();
    for (id, len, flow_hash) in [(1, 100, 0), (2, 1_000, 1 << 31), (3, 1_000, 1 << 31), (4, 100, 0)] {
        let arrival = Arrival { flow_hash, ..Arrival::default() };
        let piece = core::iter::once(Piece::single(id, len, 2_304));
        let result = qdisc.enqueue(Instant::ZERO, &arrival, piece, &mut |id, why| lost.push((id, why)));
        assert_eq!(result.verdict, Verdict::Ok);
    }
    assert_eq!(lost, [(2, DropReason::OverLimit)]);
    assert_eq!((qdisc.len(), qdisc.stats().drop_overlimit), (3, 1));
}

#[test]
fn what_is_out_of_range_is_refused_or_brought_in() {
    let new = |params: Params| FqCodel::<u32>::new(&params, 1).map(|qdisc| *qdisc.params());
    let default = Params::default();
    assert_eq!(new(Params { flows: 0, ..default }), Err(ParamError::Flows(0)));
    assert_eq!(new(Params { flows: 65_537, ..default }), Err(ParamError::Flows(65_537)));
    assert_eq!(new(Params { quantum: 1_048_577, ..default }), Err(ParamError::Quantum(1_048_577)));
    let low = Params { flows: 65_536, quantum: 0, drop_batch: 0, memory_limit: u32::MAX, ..default };
    let raised = Params { quantum: 256, drop_batch: 1, memory_limit: 1 << 31, ..low };
    assert_eq!(new(low), Ok(raised));
    let jumbo = Params::for_mtu(u32::MAX);
    assert_eq!((jumbo.quantum, jumbo.codel.mtu), (1 << 20, 1 << 20));
}

#[test]
fn a_refused_change_changes_nothing() {
    let params = Params { handle: Some(1), ..Params::default() };
    let mut qdisc = FqCodel::<u32>::new(&params, 1).unwrap();
    let mut change = |params: Params| qdisc.change(Instant::ZERO, &params, &mut |_, _| ());
    let more = Params { flows: 2_048, limit: 5, ..params };
    assert_eq!(change(more), Err(ParamError::FlowsFixed { now: 1_024, asked: 2_048 }));
    assert_eq!(change(Params { quantum: u32::MAX, limit: 5, ..params }), Err(ParamError::Quantum(u32::MAX)));
    let codel = codel::Params { mtu: 9_014, ..params.codel };
    assert_eq!(change(Params { handle: None, codel, limit: 5, ..params }), Ok(()));
    assert_eq!(*qdisc.params(), Params { limit: 5, ..params }, "handle and MTU are fixed");
}

#[test]
fn the_report_of_a_flow_shows_codel_at_work() {
    let mut qdisc = FqCodel::<_>::new(&Params::default(), 1_000).unwrap();
    for id in 0..1_000 {
        let piece = core::iter::once(Piece::single(id, 1_514, 2_304));
        qdisc.enqueue(Instant::ZERO, &Arrival::default(), piece, &mut |_, _| ());
    }
    let (mut now, mut dropped) = (Instant::ZERO, 0);
    while dropped < 2 {
        now += Duration::from_millis(1);
        qdisc.dequeue(now, &mut |_, why| {
            assert_eq!(why, DropReason::Codel);
            dropped += 1;
        });
    }
    let flow = qdisc.flows(now).next().unwrap();
    assert_eq!(u64::from(flow.qlen) + qdisc.stats().sent_pkts + 2, 1_000);
    assert_eq!(u64::from(flow.backlog), qdisc.backlog());
    assert_eq!((flow.codel.ldelay, flow.codel.count), (now.as_nanos() / 1_000, 2));
    let due = flow.codel.drop_next.unwrap();
    assert!((69_000..71_000).contains(&due), "100 ms / sqrt(2) after the second, not {due} us");
}

#[test]
fn the_common_face_reaches_every_discipline() {
    let mut rng = SplitMix::new(1, 2);
    let fq_codel = qdisc::Params::FqCodel(Params::default());
    let fifo = qdisc::Params::Fifo(qdisc::fifo::Params::default());
    let cake = qdisc::Params::Cake(qdisc::cake::Params::default());
    for (params, other) in [(&fifo, &fq_codel), (&fq_codel, &cake), (&cake, &fifo)] {
        let mut qdisc = Qdisc::new(params, 10).unwrap();
        for id in 0..3 {
            let piece = core::iter::once(Piece::single(id, 100, 2_304));
            qdisc.enqueue(Instant::ZERO, &mut rng, &Arrival::default(), piece, &mut |_, _| ());
        }
        assert_eq!((qdisc.len(), qdisc.backlog(), qdisc.next_wakeup()), (3, 300, None));
        let first = qdisc.dequeue(Instant::ZERO, &mut rng, &mut |_, _| ());
        assert_eq!(first.map(|delivery| delivery.packet), Some(0));
        assert_eq!(qdisc.change(Instant::ZERO, other, &mut |_, _| ()), Err(ParamError::OtherDiscipline));
        assert_eq!(qdisc.change(Instant::ZERO, params, &mut |_, _| ()), Ok(()));
        let mut flushed = 0;
        qdisc.flush(&mut |_, why| flushed += u32::from(why == DropReason::Flush));
        let sent = match qdisc.stats() {
            qdisc::Stats::Fifo(stats) => stats.sent_pkts,
            qdisc::Stats::FqCodel(stats) => stats.sent_pkts,
            qdisc::Stats::Cake(stats) => stats.packets,
        };
        assert_eq!((flushed, sent, qdisc.is_empty()), (2, 1, true));
    }
}
