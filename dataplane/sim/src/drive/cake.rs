//! cake under test.

use super::Call;
use super::books::{Books, Token};
use super::bytes::Bytes;
use shaper::conformance::Conformance;
use shaper::packet::{Arrival, Delivery, DropReason, Enqueued, Piece};
use shaper::qdisc::cake::{AckFilter, Cake, Diffserv, FlowMode, Params, TinStats};
use shaper::rate::{Framing, Overhead};
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

#[derive(Debug)]
pub(super) struct Subject<C: Conformance> {
    cake: Cake<Token, C>,
    dice: SplitMix,
    /// Arrivals without a piece.
    uncuttable: u64,
    /// Tins have come and gone with what they had counted.
    are_tins_new: bool,
    /// A packet may be in the queue of another flow or tin than its hash and its DSCP say.
    is_reordered: bool,
}

impl<C: Conformance> Subject<C> {
    pub(super) fn new(bytes: &mut Bytes<'_>) -> Self {
        let slots = [1, 3, 40, 1_024][bytes.below(4) as usize];
        let params = draw(bytes);
        Self {
            cake: Cake::new(&params, slots),
            dice: SplitMix::new(bytes.byte().into(), 1),
            uncuttable: 0,
            are_tins_new: false,
            is_reordered: false,
        }
    }
}

fn draw(bytes: &mut Bytes<'_>) -> Params {
    let bandwidth = match bytes.below(8) {
        0 => None,
        1 => Some(u64::from(bytes.wide())),
        choice => {
            Some([64, 128_000, 1_000_000, 20_000_000, 1_000_000_000, 400_000_000_000][choice as usize - 2])
        }
    };
    Params {
        bandwidth: bandwidth.map(Rate::from_bits_per_sec),
        diffserv: DIFFSERV[bytes.below(5) as usize],
        flow_mode: FLOW_MODES[bytes.below(8) as usize],
        rtt: Duration::from_nanos(bytes.span()),
        target: Duration::from_nanos(bytes.span()),
        overhead: Overhead {
            ip_length: bytes.is_set(),
            bytes: [0, -64, 38, 260][bytes.below(4) as usize],
            mpu: [0, 84, 256][bytes.below(3) as usize],
            framing: [Framing::None, Framing::Atm, Framing::Ptm][bytes.below(3) as usize],
        },
        memlimit: [None, Some(1), Some(5_000), Some(100_000)][bytes.below(4) as usize],
        ack_filter: [AckFilter::Off, AckFilter::Conservative, AckFilter::Aggressive][bytes.below(3) as usize],
        wash: bytes.is_set(),
        ingress: bytes.is_set(),
        autorate_ingress: bytes.is_set(),
        fwmark: [0, 0xf, 0x8000_0000][bytes.below(3) as usize],
        handle: Some(0x8001),
        max_frame: [1_514, 64, 9_014, 65_535][bytes.below(4) as usize],
    }
}

impl<C: Conformance> super::Subject for Subject<C> {
    fn enqueue(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        pieces: Vec<Piece<Token>>,
        doomed: &mut dyn FnMut(Token, DropReason),
    ) -> Enqueued {
        self.uncuttable += u64::from(pieces.is_empty());
        let pieces = pieces.into_iter();
        self.cake.enqueue(now, &mut self.dice, arrival, pieces, &mut |token, reason| doomed(token, reason))
    }

    fn dequeue(
        &mut self,
        now: Instant,
        doomed: &mut dyn FnMut(Token, DropReason),
    ) -> Option<Delivery<Token>> {
        let sent = self.cake.dequeue(now, &mut self.dice, &mut |token, reason| doomed(token, reason));
        if let Some(sent) = &sent {
            assert!(usize::from(sent.tin) < self.cake.stats().tin_count);
        }
        sent
    }

    fn change(&mut self, now: Instant, bytes: &mut Bytes<'_>, doomed: &mut dyn FnMut(Token, DropReason)) {
        let old = *self.cake.params();
        let params = draw(bytes);
        self.cake.change(now, &params, &mut |token, reason| doomed(token, reason));
        self.are_tins_new |= old.diffserv != params.diffserv;
        self.is_reordered |= old.diffserv != params.diffserv || old.flow_mode != params.flow_mode;
    }

    fn flush(&mut self, doomed: &mut dyn FnMut(Token, DropReason)) {
        self.cake.flush(&mut |token, reason| doomed(token, reason));
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.cake.next_wakeup()
    }

    fn len(&self) -> usize {
        self.cake.len()
    }

    fn backlog(&self) -> u64 {
        self.cake.backlog()
    }

    fn charge(&self, piece: &Piece<u32>, network_offset: u16) -> u32 {
        self.cake.params().overhead.adjust(piece, network_offset, |_, _| ())
    }

    fn washes(&self) -> bool {
        self.cake.params().wash
    }

    fn keeps_order(&self) -> bool {
        !self.is_reordered
    }

    fn may_lose(&self, call: Call, reason: DropReason) -> bool {
        match (call, reason) {
            (Call::Enqueue, DropReason::Overflow)
            | (Call::Dequeue, DropReason::Codel | DropReason::Blue)
            | (Call::Flush, DropReason::Flush) => true,
            (Call::Enqueue, DropReason::AckFilter) => self.cake.params().ack_filter != AckFilter::Off,
            (Call::Change, DropReason::Change) => C::CAKE_CHANGE_IN_PLACE,
            _ => false,
        }
    }

    fn parent_counts(&self, _pieces: u32) -> i64 {
        1
    }

    fn tells_parent(&self, reason: DropReason) -> bool {
        // Fault 24: what a change loses is told to nobody.
        !matches!(reason, DropReason::Flush | DropReason::Change)
    }

    fn told_parent(&self) -> i64 {
        self.cake.stats().tree_packets
    }

    fn check_stats(&self, books: &Books) {
        use DropReason::{AckFilter, Blue, Codel, Flush, Overflow};
        let stats = self.cake.stats();
        assert_eq!((stats.qlen as usize, stats.backlog), (books.waiting(), books.bytes()));
        assert_eq!(stats.memory_used, books.memory());
        assert!(stats.memory_used <= stats.memory_max);
        assert_eq!((stats.packets, stats.bytes), books.sent());
        assert_eq!(stats.drops, books.lost(&[Codel, Blue, Overflow, AckFilter]) + self.uncuttable);
        assert_eq!(stats.flushed, books.lost(&[Flush]));
        let sum = |of: fn(&TinStats) -> u64| stats.tins().iter().map(of).sum::<u64>();
        assert_eq!(sum(|tin| tin.backlog_bytes.into()), books.bytes());
        if self.are_tins_new {
            return;
        }
        assert_eq!(sum(|tin| tin.drops), books.lost(&[Codel, Blue, Overflow]));
        assert_eq!(sum(|tin| tin.ack_drops), books.lost(&[AckFilter]));
        assert_eq!(sum(|tin| tin.drop_overlimit), books.lost(&[Overflow]));
        if !C::CODEL_COUNTS_CE_ARRIVALS {
            assert_eq!(sum(|tin| tin.ecn_mark), books.marked());
        }
        let entered = books.next_id().into();
        assert_eq!(sum(|tin| tin.sent_packets), entered);
    }

    fn check_limits(&self, books: &Books) {
        if !C::CAKE_HEAP_STALE_KEY {
            let limit = self.cake.stats().memory_limit;
            assert!(books.memory() <= limit.into(), "{} bytes, limit {limit}", books.memory());
        }
    }
}

const DIFFSERV: [Diffserv; 5] = [
    Diffserv::BestEffort,
    Diffserv::Precedence,
    Diffserv::Diffserv3,
    Diffserv::Diffserv4,
    Diffserv::Diffserv8,
];

const FLOW_MODES: [FlowMode; 8] = [
    FlowMode::FlowBlind,
    FlowMode::SrcHost,
    FlowMode::DstHost,
    FlowMode::Hosts,
    FlowMode::Flows,
    FlowMode::DualSrcHost,
    FlowMode::DualDstHost,
    FlowMode::TripleIsolate,
];
