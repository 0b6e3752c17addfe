//! cake as a whole: each fault of the list shown under [`Linux`] and mended under [`Weir`].

use super::*;
use crate::conformance::Linux;
use crate::packet::{Arrival, Delivery, DsField, Enqueued, Piece};
use crate::rate::Overhead;
use crate::rng::SplitMix;
use crate::time::Duration;
use crate::units::Rate;
use std::vec::Vec;

/// cake with a clock of its own; packets are numbered as they arrive.
pub(super) struct Line<C: Conformance> {
    pub(super) cake: Cake<u32, C>,
    rng: SplitMix,
    pub(super) now: Instant,
    next: u32,
    pub(super) doomed: Vec<(u32, DropReason)>,
}

#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) flow: u32,
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) len: u32,
    pub(super) ds: u8,
    pub(super) truesize: u32,
    pub(super) network: &'a [u8],
}

impl Default for Packet<'_> {
    fn default() -> Self {
        Self { flow: 1, src: 1, dst: 1, len: 1_000, ds: 0, truesize: 2_304, network: &[] }
    }
}

impl<C: Conformance> Line<C> {
    pub(super) fn new(params: Params) -> Self {
        Self::with_slots(params, 4_096)
    }

    pub(super) fn with_slots(params: Params, slots: usize) -> Self {
        Self {
            cake: Cake::new(&params, slots),
            rng: SplitMix::new(1, 2),
            now: Instant::from_nanos(1_000_000_000),
            next: 0,
            doomed: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, packet: Packet<'_>) -> Enqueued {
        let piece = Piece::single(self.next, packet.len, packet.truesize);
        self.put_pieces(packet, std::iter::once(piece))
    }

    pub(super) fn put_pieces(
        &mut self,
        packet: Packet<'_>,
        pieces: impl Iterator<Item = Piece<u32>>,
    ) -> Enqueued {
        self.next += 1;
        let arrival = Arrival {
            flow_hash: packet.flow,
            src_hash: packet.src,
            dst_hash: packet.dst,
            ds: DsField::ip(packet.ds),
            network_offset: 14,
            network: packet.network,
            ..Arrival::default()
        };
        let doomed = &mut self.doomed;
        self.cake.enqueue(self.now, &mut self.rng, &arrival, pieces, &mut |id, why| doomed.push((id, why)))
    }

    pub(super) fn get(&mut self) -> Option<Delivery<u32>> {
        let doomed = &mut self.doomed;
        self.cake.dequeue(self.now, &mut self.rng, &mut |id, why| doomed.push((id, why)))
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Params)) {
        let mut params = *self.cake.params();
        change(&mut params);
        let doomed = &mut self.doomed;
        self.cake.change(self.now, &params, &mut |id, why| doomed.push((id, why)));
    }

    pub(super) fn flush(&mut self) {
        let doomed = &mut self.doomed;
        self.cake.flush(&mut |id, why| doomed.push((id, why)));
    }

    pub(super) fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    /// Takes what is due until `end`, at every wake-up.
    pub(super) fn run_to(&mut self, end: Instant) -> Vec<(Instant, Delivery<u32>)> {
        let mut sent = Vec::new();
        loop {
            while let Some(delivery) = self.get() {
                sent.push((self.now, delivery));
            }
            match self.cake.next_wakeup() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
        }
        self.now = end;
        sent
    }

    pub(super) fn run_for(&mut self, span: Duration) -> Vec<(Instant, Delivery<u32>)> {
        self.run_to(self.now + span)
    }
}

fn mbit(rate: u64) -> Option<Rate> {
    Some(Rate::from_bits_per_sec(rate * 1_000_000))
}

fn besteffort(rate: u64) -> Params {
    Params {
        bandwidth: mbit(rate),
        diffserv: Diffserv::BestEffort,
        flow_mode: FlowMode::Flows,
        ..Params::default()
    }
}

fn ids(sent: &[(Instant, Delivery<u32>)]) -> Vec<u32> {
    sent.iter().map(|(_, delivery)| delivery.packet).collect()
}

const MS: Duration = ms(1);

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const EF: u8 = 46 << 2;
const CS1: u8 = 8 << 2;
const CS7: u8 = 56 << 2;

/// 24: what waits in tins that go away is sent from those that stay, each flow in its order.
fn sent_after_losing_tins<C: Conformance>() -> (Vec<u32>, usize) {
    let mut line = Line::<C>::new(Params { diffserv: Diffserv::Diffserv4, ..besteffort(10) });
    for turn in 0..40 {
        line.put(Packet {
            flow: 1 + turn % 4,
            ds: [0, EF, CS1, CS7][turn as usize % 4],
            ..Packet::default()
        });
    }
    line.change(|params| params.diffserv = Diffserv::BestEffort);
    assert_eq!(line.cake.shared.slots.used(), line.cake.len());
    let mut sent = ids(&line.run_for(ms(100)));
    for flow in 0..4 {
        assert!(sent.iter().filter(|&&id| id % 4 == flow).is_sorted(), "flow {flow}: {sent:?}");
    }
    assert_eq!(line.cake.backlog(), 0);
    sent.sort_unstable();
    (sent, line.doomed.iter().filter(|(_, reason)| *reason == DropReason::Change).count())
}

#[test]
fn fault_24_packets_of_removed_tins_are_kept() {
    assert_eq!(sent_after_losing_tins::<Weir>(), ((0..40).collect(), 0));
    assert_eq!(sent_after_losing_tins::<Linux>().1, 30);
}

/// 25: the shortest time between two rates that autorate sets.
fn shortest_between_rates<C: Conformance>() -> Duration {
    let mut line = Line::<C>::new(Params { autorate_ingress: true, ..besteffort(10) });
    let (mut rate, mut since, mut shortest) = (line.cake.params().bandwidth, Instant::ZERO, Duration::MAX);
    for turn in 0..3_000 {
        line.put(Packet::default());
        line.put(Packet::default());
        if line.cake.params().bandwidth != rate {
            shortest = shortest.min(line.now.since(since));
            (rate, since) = (line.cake.params().bandwidth, line.now);
        }
        line.pass(Duration::from_micros(if turn % 8 == 0 { 1_800 } else { 900 }));
        while line.get().is_some() {}
    }
    shortest
}

#[test]
fn fault_25_autorate_takes_its_time() {
    assert!((ms(250)..ms(1_000)).contains(&shortest_between_rates::<Weir>()));
    assert!(shortest_between_rates::<Linux>() < ms(10));
}

/// 26: the first estimate, in bytes per second, after autorate is switched on at 1000 s.
fn first_estimate<C: Conformance>() -> u64 {
    let mut line = Line::<C>::new(besteffort(10));
    line.pass(ms(1_000_000));
    line.put(Packet::default());
    line.change(|params| params.autorate_ingress = true);
    for turn in 0..40 {
        line.pass(Duration::from_micros(if turn % 10 == 9 { 2_000 } else { 800 }));
        line.put(Packet::default());
        while line.get().is_some() {}
    }
    line.cake.stats().capacity_estimate
}

#[test]
fn fault_26_autorate_starts_when_switched_on() {
    let estimate = first_estimate::<Weir>();
    assert!((1_100_000..1_300_000).contains(&estimate), "{estimate} of 1250000");
    assert!(first_estimate::<Linux>() < 1_250_000 - 1_250_000 / 300);
    let follows = |estimate: u64| estimate == 2_500_000;
    let mut weir = Line::<Weir>::new(besteffort(10));
    weir.change(|params| params.bandwidth = mbit(20));
    assert!(follows(weir.cake.stats().capacity_estimate));
    let mut linux = Line::<Linux>::new(besteffort(10));
    linux.change(|params| params.bandwidth = mbit(20));
    assert!(!follows(linux.cake.stats().capacity_estimate));
}

/// 28: bytes of two flows of two hosts, after one of them had eight bulk flows when the mode changed.
fn shares_after_mode_changes<C: Conformance>() -> (usize, usize) {
    let mut line = Line::<C>::new(Params { flow_mode: FlowMode::DualSrcHost, ..besteffort(100) });
    for _ in 0..20 {
        for flow in 0..8 {
            line.put(Packet { flow: 1_001 + flow, src: 7, ..Packet::default() });
        }
    }
    line.run_for(ms(2));
    line.change(|params| params.flow_mode = FlowMode::Flows);
    line.run_for(ms(1_000));
    line.put(Packet { flow: 1_001, src: 7, ..Packet::default() });
    line.run_for(ms(10));
    line.change(|params| params.flow_mode = FlowMode::DualSrcHost);
    let mut counts = (0, 0);
    for _ in 0..200 {
        line.put(Packet { flow: 2_001, src: 7, dst: 70, ..Packet::default() });
        line.put(Packet { flow: 3_001, src: 8, dst: 80, ..Packet::default() });
    }
    let first = line.next - 400;
    for id in ids(&line.run_for(ms(8))) {
        if (id - first).is_multiple_of(2) { counts.0 += 1 } else { counts.1 += 1 }
    }
    counts
}

#[test]
fn fault_28_a_mode_change_leaves_no_load_behind() {
    let (loaded, other) = shares_after_mode_changes::<Weir>();
    assert!(loaded.abs_diff(other) <= 3, "{loaded} {other}");
    let (loaded, other) = shares_after_mode_changes::<Linux>();
    assert!(other > 3 * loaded, "{loaded} {other}");
}

/// 29: of the first hundred packets after shaping is switched off, those of the busy tin.
fn busy_tin_served<C: Conformance>() -> usize {
    let mut line = Line::<C>::new(Params { diffserv: Diffserv::Diffserv3, ..besteffort(10) });
    for _ in 0..1_000 {
        line.put(Packet::default());
        line.run_for(MS);
    }
    line.change(|params| params.bandwidth = None);
    for _ in 0..200 {
        line.put(Packet::default());
        line.put(Packet { flow: 2, ds: EF, ..Packet::default() });
    }
    (0..100).filter(|_| line.get().is_some_and(|delivery| delivery.tin == 0)).count()
}

#[test]
fn fault_29_shaping_leaves_no_debt() {
    assert!(busy_tin_served::<Weir>() > 50, "quanta 1024 and 256: four to one");
    assert_eq!(busy_tin_served::<Linux>(), 0);
}

/// 30 and 31: the tin whose turn it is, and the flows tin 7 has, after it was away.
fn tin_seven_comes_back<C: Conformance>() -> (usize, u16) {
    let mut line = Line::<C>::new(Params { diffserv: Diffserv::Diffserv8, ..besteffort(10) });
    line.put(Packet { ds: CS7, ..Packet::default() });
    line.change(|params| params.diffserv = Diffserv::BestEffort);
    let turn = line.cake.shared.turn;
    line.run_for(ms(100));
    line.change(|params| params.diffserv = Diffserv::Diffserv8);
    (turn, line.cake.stats().all_tins[7].sparse_flows)
}

#[test]
fn faults_30_and_31_removed_tins_leave_nothing() {
    assert_eq!(tin_seven_comes_back::<Weir>(), (0, 0));
    assert_eq!(tin_seven_comes_back::<Linux>(), (7, 1));
}

/// 32: flows that are not idle some seconds after the last packet.
fn flows_after_a_rest<C: Conformance>() -> u16 {
    let mut line = Line::<C>::new(besteffort(1));
    for turn in 0..300 {
        line.put(Packet { flow: 1 + turn % 3, ..Packet::default() });
    }
    line.run_for(ms(30_000));
    assert!(line.cake.is_empty());
    assert_eq!(line.cake.next_wakeup(), None, "there is an end to it");
    let stats = line.cake.stats().all_tins[0];
    stats.sparse_flows + stats.bulk_flows + stats.decaying_flows
}

#[test]
fn fault_32_flows_decay_while_nothing_arrives() {
    assert_eq!(flows_after_a_rest::<Weir>(), 0);
    assert_ne!(flows_after_a_rest::<Linux>(), 0);
}

#[test]
fn fault_33_no_share_is_unlimited() {
    let params = Params {
        bandwidth: Some(Rate::from_bytes_per_sec(10)),
        diffserv: Diffserv::Diffserv3,
        ..besteffort(1)
    };
    let rates = |stats: Stats| stats.all_tins.map(|tin| tin.threshold_rate);
    assert_eq!(rates(Cake::<u32, Weir>::new(&params, 1).stats())[..3], [64, 64, 64]);
    assert_eq!(rates(Cake::<u32, Linux>::new(&params, 1).stats())[..3], [10, 0, 2]);
}

#[test]
fn fault_34_the_memory_limit_saturates() {
    let bandwidth = Some(Rate::from_bytes_per_sec(1 << 30));
    let params = Params { bandwidth, rtt: ms(1_000), ..Params::default() };
    assert_eq!(Cake::<u32, Weir>::new(&params, 1).stats().memory_limit, 15_503_360);
    assert_eq!(Cake::<u32, Linux>::new(&params, 1).stats().memory_limit, 4_194_304);
}

/// A pure ACK with `options`, from 10.0.0.1 to 10.0.0.2.
pub(super) fn ack(number: u32, options: &[u8]) -> Vec<u8> {
    let length = 40 + options.len() as u8;
    let mut bytes = std::vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes.extend([0, 80, 0, 81, 0, 0, 0, 0]);
    bytes.extend(number.to_be_bytes());
    bytes.extend([(5 + options.len() as u8 / 4) << 4, 0x10, 0, 0, 0, 0, 0, 0]);
    bytes.extend(options);
    bytes
}

/// 35: whether an ACK with `options` gives way to a later one without.
fn gives_way<C: Conformance>(options: &[u8]) -> bool {
    let mut line = Line::<C>::new(Params { ack_filter: AckFilter::Aggressive, ..besteffort(1) });
    line.put(Packet { network: &ack(1_000, options), len: 66, ..Packet::default() });
    line.put(Packet { network: &ack(2_000, &[]), len: 66, ..Packet::default() });
    assert_eq!(line.cake.stats().all_tins[0].ack_drops, line.doomed.len() as u64);
    line.doomed == [(0, DropReason::AckFilter)]
}

#[test]
fn fault_35_options_are_read_strictly() {
    let stamped = [1, 1, 8, 10, 0x90, 0, 0, 0, 0x90, 0, 0, 0];
    let malformed = [19, 40, 0, 0];
    assert!(gives_way::<Weir>(&[]) && gives_way::<Linux>(&[]));
    assert!(!gives_way::<Weir>(&stamped) && gives_way::<Linux>(&stamped));
    assert!(!gives_way::<Weir>(&malformed) && gives_way::<Linux>(&malformed));
}

/// 36: flows counted after a super-packet that could not be cut.
fn misses_of_the_uncuttable<C: Conformance>() -> (u64, u64) {
    let mut line = Line::<C>::new(besteffort(10));
    let result = line.put_pieces(Packet::default(), std::iter::empty());
    assert_eq!(result.verdict, crate::packet::Verdict::Dropped);
    let stats = line.cake.stats();
    (stats.drops, stats.all_tins[0].way_misses)
}

#[test]
fn fault_36_what_cannot_be_cut_takes_no_flow() {
    assert_eq!(misses_of_the_uncuttable::<Weir>(), (1, 0));
    assert_eq!(misses_of_the_uncuttable::<Linux>(), (1, 1));
}

/// 37 and 38: least delay, and average header offset, of packets that all wait 10 ms.
fn averages<C: Conformance>() -> (Duration, u32) {
    let mut line = Line::<C>::new(besteffort(10));
    for _ in 0..5 {
        line.put(Packet { ds: 2, ..Packet::default() });
        line.pass(ms(10));
        while line.get().is_some() {}
    }
    let stats = line.cake.stats();
    (stats.all_tins[0].base_delay, stats.avg_hdr_offset)
}

#[test]
fn faults_37_and_38_averages_start_with_the_first_sample() {
    assert_eq!(averages::<Weir>(), (ms(10), 14));
    let (delay, offset) = averages::<Linux>();
    assert!(delay < MS && offset < 1);
}

/// 39: drops, and those by overflow, of a full tin and of the one that arrivals to it overflow.
fn overflow_of_two_tins<C: Conformance>() -> [(u64, u64); 2] {
    let params = Params { diffserv: Diffserv::Diffserv3, memlimit: Some(20 * 2_304), ..besteffort(1) };
    let mut line = Line::<C>::new(params);
    for _ in 0..20 {
        line.put(Packet::default());
    }
    for _ in 0..5 {
        line.put(Packet { flow: 2, ds: EF, ..Packet::default() });
    }
    let tins = line.cake.stats().all_tins;
    [(tins[0].drops, tins[0].drop_overlimit), (tins[2].drops, tins[2].drop_overlimit)]
}

#[test]
fn fault_39_overflow_is_charged_to_the_victim() {
    assert_eq!(overflow_of_two_tins::<Weir>(), [(5, 5), (0, 0)]);
    assert_eq!(overflow_of_two_tins::<Linux>(), [(5, 0), (0, 5)]);
}

/// 40: overlimits of a caller that polls while one packet waits twice for the shaper.
fn overlimits<C: Conformance>() -> u64 {
    let mut line = Line::<C>::new(besteffort(1));
    for _ in 0..3 {
        line.put(Packet::default());
    }
    while !line.cake.is_empty() {
        line.get();
        line.pass(Duration::from_micros(100));
    }
    line.cake.stats().overlimits
}

#[test]
fn fault_40_overlimits_counts_waits() {
    assert_eq!(overlimits::<Weir>(), 2);
    assert!(overlimits::<Linux>() > 100);
}

/// 41: marks counted for packets that are CE already.
fn marks_of_marked<C: Conformance>() -> u64 {
    let mut line = Line::<C>::new(besteffort(1));
    for _ in 0..100 {
        line.put(Packet { ds: 3, ..Packet::default() });
    }
    assert!(line.run_for(ms(2_000)).iter().all(|(_, delivery)| !delivery.rewrite));
    line.cake.stats().all_tins[0].ecn_mark
}

#[test]
fn fault_41_only_real_marks_count() {
    assert_eq!(marks_of_marked::<Weir>(), 0);
    assert_ne!(marks_of_marked::<Linux>(), 0);
}

#[test]
fn fault_42_long_lengths_are_shown_whole() {
    fn longest<C: Conformance>() -> u32 {
        let mut line = Line::<C>::new(besteffort(1));
        line.put(Packet { len: 70_000, ..Packet::default() });
        line.cake.stats().max_adj_size
    }
    assert_eq!(longest::<Weir>(), 70_000);
    assert_eq!(longest::<Linux>(), 70_000 - 65_536);
}

/// 43: how long the second packet waits after the rate is raised a thousandfold.
fn wait_after_raise<C: Conformance>() -> Duration {
    let params = Params { bandwidth: Some(Rate::from_bytes_per_sec(1_000)), ..besteffort(1) };
    let mut line = Line::<C>::new(params);
    line.put(Packet::default());
    line.put(Packet { flow: 2, ..Packet::default() });
    assert!(line.get().is_some() && line.get().is_none());
    line.change(|params| params.bandwidth = mbit(8));
    let start = line.now;
    assert!(line.get().is_none());
    line.run_for(ms(2_000)).first().map_or(Duration::MAX, |(at, _)| at.since(start))
}

#[test]
fn fault_43_a_raised_rate_counts_at_once() {
    assert_eq!(wait_after_raise::<Weir>(), MS);
    assert_eq!(wait_after_raise::<Linux>(), ms(1_000));
}

/// 44: whether the packets of two flows that collide stay in order when all queues of their set are
/// taken and one of them falls idle: of the one that came first, and of the other.
fn colliding_in_order<C: Conformance>() -> (bool, bool) {
    let mut line = Line::<C>::new(besteffort(8));
    let (owner, guest) = (8, 8 + 1_024);
    let mut of = [Vec::new(), Vec::new()];
    let mut put = |line: &mut Line<C>, which: usize| {
        of[which].push(line.next);
        line.put(Packet { flow: [owner, guest][which], ..Packet::default() });
    };
    line.put(Packet { flow: 9, ..Packet::default() });
    for _ in 0..300 {
        put(&mut line, 0);
    }
    for flow in 10..16 {
        line.put(Packet { flow, ..Packet::default() });
    }
    for _ in 0..30 {
        put(&mut line, 1);
    }
    // An interval after their packets have left, the other queues are idle.
    let mut sent = ids(&line.run_for(ms(150)));
    put(&mut line, 1);
    put(&mut line, 0);
    sent.extend(ids(&line.run_for(ms(400))));
    let is_sorted = |of: &[u32]| {
        let sent: Vec<u32> = sent.iter().filter(|id| of.contains(id)).copied().collect();
        assert!(sent.len() > 10);
        sent.is_sorted()
    };
    (is_sorted(&of[0]), is_sorted(&of[1]))
}

#[test]
fn fault_44_a_collision_does_not_reorder() {
    assert_eq!(colliding_in_order::<Weir>(), (true, true));
    assert_ne!(colliding_in_order::<Linux>(), (true, true));
}

/// 45: the deficit of a flow that lost packets to overflow in ingress mode, less what it was.
fn spent_by_overflow<C: Conformance>() -> i32 {
    let params = Params { ingress: true, memlimit: Some(10 * 2_304), ..besteffort(1) };
    let mut line = Line::<C>::new(params);
    let queue = line.put(Packet::default()).queue as usize;
    let before = line.cake.tins[0].flows[queue].deficit;
    for _ in 0..12 {
        line.put(Packet::default());
    }
    before - line.cake.tins[0].flows[queue].deficit
}

#[test]
fn fault_45_drops_in_ingress_mode_are_charged_alike() {
    assert_eq!(spent_by_overflow::<Weir>(), 3_000);
    assert_eq!(spent_by_overflow::<Linux>(), 0);
}

/// 46: what autorate settles at when 10 Mbit/s of ATM cells arrive, in bytes per second.
fn capacity_of_cells<C: Conformance>() -> u64 {
    let overhead: Overhead = "conservative".parse().unwrap();
    let mut line = Line::<C>::new(Params { autorate_ingress: true, overhead, ..besteffort(10) });
    let cells = Piece::single(0, 100, 0);
    let span = Duration::from_nanos(800 * u64::from(overhead.adjust(&cells, 14, |_, _| ())));
    for turn in 0..20_000 {
        line.put(Packet { len: 100, ..Packet::default() });
        line.pass(if turn % 10 == 0 { span + span } else { span });
        while line.get().is_some() {}
    }
    line.cake.stats().capacity_estimate
}

#[test]
fn fault_46_capacity_is_that_of_the_wire() {
    let weir = capacity_of_cells::<Weir>();
    assert!((1_000_000..=1_250_000).contains(&weir), "{weir}");
    assert!(capacity_of_cells::<Linux>() < 850_000);
}

#[test]
fn tables_fit_their_budget() {
    let tables = |diffserv| {
        let params = Params { diffserv, ..besteffort(10) };
        Cake::<core::num::NonZeroU64>::footprint(&params, 1_000)
    };
    let besteffort = tables(Diffserv::BestEffort);
    assert!(besteffort.tables <= 200 << 10, "{besteffort:?}");
    assert!(tables(Diffserv::Diffserv4).tables <= 600 << 10);
    assert_eq!((besteffort.slots, besteffort.acks), (64_000, 0));
}
