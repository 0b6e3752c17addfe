//! fq_codel under test.

use super::Call;
use super::books::{Books, Token};
use super::bytes::Bytes;
use shaper::conformance::Conformance;
use shaper::packet::{Arrival, Delivery, DropReason, Enqueued, Piece};
use shaper::qdisc::fq_codel::{FqCodel, Params};
use shaper::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Subject<C: Conformance> {
    queue: FqCodel<Token, C>,
    is_changed: bool,
}

impl<C: Conformance> Subject<C> {
    pub(super) fn new(bytes: &mut Bytes<'_>) -> Self {
        let slots = [1, 3, 40, 1_024][bytes.below(4) as usize];
        let flows = [1, 7, 1_024][bytes.below(3) as usize];
        let params = Params { flows, ..draw(bytes) };
        let queue = FqCodel::new(&params, slots);
        assert!(queue.is_ok(), "{params:?}");
        let Ok(queue) = queue else { unreachable!("asserted above") };
        Self { queue, is_changed: false }
    }
}

fn draw(bytes: &mut Bytes<'_>) -> Params {
    let mut params = Params {
        limit: [0, 1, 5, 50, 10_240][bytes.below(5) as usize],
        quantum: [0, 300, 1_514, 1 << 20][bytes.below(4) as usize],
        drop_batch: [0, 1, 64][bytes.below(3) as usize],
        memory_limit: [0, 3_000, 50_000, u32::MAX][bytes.below(4) as usize],
        handle: bytes.is_set().then_some(0x8001),
        ..Params::default()
    };
    params.codel.target = Duration::from_nanos(bytes.span());
    params.codel.interval = Duration::from_nanos(bytes.span());
    params.codel.ecn = bytes.is_set();
    params.codel.ce_threshold = bytes.is_set().then(|| Duration::from_nanos(bytes.span()));
    params
}

impl<C: Conformance> super::Subject for Subject<C> {
    fn enqueue(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        pieces: Vec<Piece<Token>>,
        doomed: &mut dyn FnMut(Token, DropReason),
    ) -> Enqueued {
        self.queue.enqueue(now, arrival, pieces.into_iter(), &mut |token, reason| doomed(token, reason))
    }

    fn dequeue(
        &mut self,
        now: Instant,
        doomed: &mut dyn FnMut(Token, DropReason),
    ) -> Option<Delivery<Token>> {
        self.queue.dequeue(now, &mut |token, reason| doomed(token, reason))
    }

    fn change(&mut self, now: Instant, bytes: &mut Bytes<'_>, doomed: &mut dyn FnMut(Token, DropReason)) {
        let params = Params { flows: self.queue.params().flows, ..draw(bytes) };
        let result = self.queue.change(now, &params, &mut |token, reason| doomed(token, reason));
        assert!(result.is_ok(), "{params:?}");
        self.is_changed = true;
    }

    fn flush(&mut self, doomed: &mut dyn FnMut(Token, DropReason)) {
        self.queue.flush(&mut |token, reason| doomed(token, reason));
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn backlog(&self) -> u64 {
        self.queue.backlog()
    }

    fn charge(&self, piece: &Piece<u32>, _network_offset: u16) -> u32 {
        piece.adjusted
    }

    fn washes(&self) -> bool {
        false
    }

    fn keeps_order(&self) -> bool {
        // A class chooses another queue for the same flow.
        self.queue.params().handle.is_none()
    }

    fn may_lose(&self, call: Call, reason: DropReason) -> bool {
        match (call, reason) {
            (Call::Enqueue, DropReason::OverLimit | DropReason::OverMemory)
            | (Call::Dequeue, DropReason::Codel)
            | (Call::Change, DropReason::Change)
            | (Call::Flush, DropReason::Flush) => true,
            (Call::Change, DropReason::Codel) => C::FQ_CHANGE_DEQUEUES,
            _ => false,
        }
    }

    fn parent_counts(&self, pieces: u32) -> i64 {
        pieces.into()
    }

    fn tells_parent(&self, reason: DropReason) -> bool {
        reason != DropReason::Flush
    }

    fn told_parent(&self) -> i64 {
        self.queue.stats().tree_n
    }

    fn check_stats(&self, books: &Books) {
        let stats = self.queue.stats();
        assert_eq!((stats.qlen as usize, stats.backlog), (books.waiting(), books.bytes()));
        assert_eq!(stats.memory_usage, books.memory());
        let flows: Vec<_> = self.queue.flows(Instant::ZERO).collect();
        assert_eq!(flows.iter().map(|flow| u64::from(flow.backlog)).sum::<u64>(), books.bytes());
        assert_eq!(flows.iter().map(|flow| flow.qlen as usize).sum::<usize>(), books.waiting());
        assert_eq!(flows.len(), (stats.new_flows_len + stats.old_flows_len) as usize);
        assert_eq!(stats.drop_codel, books.lost(&[DropReason::Codel]));
        assert_eq!(stats.drop_overmemory, books.lost(&[DropReason::OverMemory]));
        assert_eq!(stats.drop_overlimit, books.lost(&[DropReason::OverLimit, DropReason::OverMemory]));
        assert_eq!(stats.drop_flush, books.lost(&[DropReason::Flush]));
        if C::FQ_CHANGE_DEQUEUES && self.is_changed {
            return;
        }
        assert_eq!((stats.sent_pkts, stats.sent_bytes), books.sent());
        assert_eq!(stats.drop_change, books.lost(&[DropReason::Change]));
        assert_eq!(
            stats.drops,
            stats.drop_codel + stats.drop_overlimit + stats.drop_change + stats.drop_flush
        );
        assert_eq!(stats.dropped_bytes, books.lost_bytes());
        if !C::CODEL_COUNTS_CE_ARRIVALS {
            assert!(stats.ecn_mark.max(stats.ce_mark) <= books.marked());
            assert!(stats.ecn_mark + stats.ce_mark >= books.marked());
        }
    }

    fn check_limits(&self, books: &Books) {
        let params = self.queue.params();
        if !C::FQ_ONE_BATCH {
            assert!(books.waiting() <= params.limit as usize, "{params:?}");
            assert!(books.memory() <= params.memory_limit.into(), "{params:?}");
        }
    }
}
