//! Every fault of fq_codel itself: shown under [`Linux`], mended under [`Weir`], by the same body.

use super::{FqCodel, Params};
use crate::codel::codel;
use crate::conformance::{Conformance, Linux, Weir};
use crate::packet::{Arrival, DropReason, DsField, Piece};
use crate::time::{Duration, Instant};

fn enqueue<C: Conformance>(qdisc: &mut FqCodel<u32, C>, now: Instant, ds: DsField, truesize: u32) {
    let arrival = Arrival { ds, ..Arrival::default() };
    let piece = core::iter::once(Piece::single(0, 1_000, truesize));
    qdisc.enqueue(now, &arrival, piece, &mut |_, _| ());
}

#[test]
fn fault_7_the_memory_limit_stays_exceeded() {
    fn shows<C: Conformance>() -> bool {
        let params = Params { memory_limit: 10_000, drop_batch: 1, ..Params::default() };
        let mut qdisc = FqCodel::<_, C>::new(&params, 100).unwrap();
        for truesize in [2_304, 2_304, 2_304, 2_304, 8_000] {
            enqueue(&mut qdisc, Instant::ZERO, DsField::NONE, truesize);
        }
        assert!(qdisc.stats().drop_overmemory > 0);
        qdisc.stats().memory_usage > 10_000
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

#[test]
fn fault_8_what_a_change_cuts_counts_as_sent() {
    fn shows<C: Conformance>() -> bool {
        let mut qdisc = FqCodel::<_, C>::new(&Params::default(), 100).unwrap();
        for _ in 0..50 {
            enqueue(&mut qdisc, Instant::ZERO, DsField::NONE, 2_304);
        }
        let deficits =
            |qdisc: &FqCodel<u32, C>| qdisc.flows(Instant::ZERO).map(|flow| flow.deficit).sum::<i32>();
        let deficit = deficits(&qdisc);
        let mut cut = 0;
        let fewer = Params { limit: 20, ..Params::default() };
        let mut doomed = |_, reason| {
            assert_eq!(reason, DropReason::Change);
            cut += 1;
        };
        assert_eq!(qdisc.change(Instant::ZERO, &fewer, &mut doomed), Ok(()));
        assert_eq!((cut, qdisc.len()), (30, 20));
        let stats = qdisc.stats();
        assert_eq!((stats.tree_n, stats.tree_len), (30, 30_000), "the parent is told either way");
        let wrong = (stats.sent_pkts, stats.drops) != (0, 30);
        assert_eq!(wrong, deficits(&qdisc) != deficit, "a packet not sent spends no deficit");
        wrong
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

#[test]
fn fault_9_packets_that_come_with_ce_count_as_marked() {
    fn shows<C: Conformance>() -> bool {
        let ce_threshold = Some(Duration::from_millis(1));
        let codel = codel::Params { ce_threshold, ..codel::Params::for_mtu(1_514) };
        let mut qdisc = FqCodel::<_, C>::new(&Params { codel, ..Params::default() }, 2_000).unwrap();
        for id in 0..1_000 {
            let ecn = if id < 500 { DsField::CE } else { 2 };
            enqueue(&mut qdisc, Instant::ZERO, DsField::ip(ecn), 2_304);
        }
        let mut rewritten = 0;
        for millis in 0..1_000 {
            let now = Instant::ZERO + Duration::from_millis(millis);
            let delivery = qdisc.dequeue(now, &mut |_, _| panic!("all can be marked")).unwrap();
            assert_eq!(delivery.ds.ecn() == DsField::CE, millis < 500 || delivery.rewrite);
            rewritten += u64::from(delivery.rewrite);
        }
        let stats = qdisc.stats();
        assert!(rewritten > 0);
        stats.ecn_mark + stats.ce_mark != rewritten
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}
