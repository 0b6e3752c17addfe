//! A tin: flow queues and hosts of one traffic class, and the DRR++ rounds among them.
//!
//! Contract. The owner takes packets in and out of the flows' queues; the tin says which queue a
//! packet belongs to ([`Tin::choose_queue`]), keeps sets, lists and counts in step with it
//! ([`Tin::wake`], [`Tin::refill`], [`Tin::settle`]), and names the queue whose turn it is
//! ([`Tin::first`]). A queue is on a list unless its set is [`Set::None`]; the counts are those of
//! the sets; each flow that is not idle holds its hosts, each bulk flow counts in them.

use super::QUEUES;
use super::flow::{Flow, List, Lists, Set};
use super::host::{Hosts, ways};
use super::params::FlowMode;
use super::rate::ByteTime;
use super::stats::{TinStats, ewma};
use crate::codel::cobalt;
use crate::conformance::Conformance;
use crate::packet::Arrival;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use core::marker::PhantomData;

#[derive(Debug)]
pub(super) struct Tin<C> {
    pub(super) flows: Box<[Flow; QUEUES]>,
    /// The hash that a queue belongs to.
    tags: Box<[u32; QUEUES]>,
    /// Flows that share the queue, which is their home, as long as it holds packets: one bit for
    /// each 32nd of all hashes.
    guests: Box<[u32; QUEUES]>,
    pub(super) lists: Lists,
    src: Hosts,
    dst: Hosts,
    mode: FlowMode,
    pub(super) byte_time: ByteTime,
    /// When the tin's next packet is due at the threshold rate.
    pub(super) clock: Instant,
    /// What `clock` lacks, in parts of a nanosecond as [`ByteTime`] counts them.
    pub(super) rest: u64,
    pub(super) aqm: cobalt::Params,
    /// Bytes that may still be sent before the turn passes on (unlimited mode).
    pub(super) deficit: i32,
    /// Counters; those of [`TinStats`] that are state are kept here and nowhere else.
    pub(super) stats: TinStats,
    conformance: PhantomData<C>,
}

/// What a tin is asked to keep to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Bytes per second, 0 for unlimited.
    pub(super) rate: u64,
    pub(super) quantum: u16,
    /// Microseconds.
    pub(super) rtt: u64,
    /// Microseconds.
    pub(super) target: u64,
    pub(super) max_frame: u32,
}

/// The hashes of an arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hashes {
    pub(super) flow: u32,
    pub(super) src: u32,
    pub(super) dst: u32,
}

impl Hashes {
    #[inline]
    pub(super) fn of(arrival: &Arrival<'_>) -> Self {
        Self { flow: arrival.flow_hash, src: arrival.src_hash, dst: arrival.dst_hash }
    }
}

impl<C: Conformance> Tin<C> {
    /// Memory of a tin, bytes.
    pub(super) const FOOTPRINT: usize = size_of::<Self>()
        + QUEUES * (size_of::<Flow>() + 2 * size_of::<u32>())
        + Lists::FOOTPRINT
        + 2 * Hosts::FOOTPRINT;

    pub(super) fn new(mode: FlowMode) -> Self {
        Self {
            flows: Box::new([Flow::new::<C>(); QUEUES]),
            tags: Box::new([0; QUEUES]),
            guests: Box::new([0; QUEUES]),
            lists: Lists::new(),
            src: Hosts::new(),
            dst: Hosts::new(),
            mode,
            byte_time: ByteTime::default(),
            clock: Instant::ZERO,
            rest: 0,
            aqm: cobalt::Params {
                target: Duration::ZERO,
                interval: Duration::ZERO,
                mtu_time: Duration::ZERO,
            },
            deficit: 0,
            stats: TinStats::default(),
            conformance: PhantomData,
        }
    }

    pub(super) fn configure(&mut self, settings: &Settings) {
        let Settings { rate, quantum, rtt, target, max_frame } = *settings;
        self.byte_time = ByteTime::new(rate);
        self.rest = 0;
        let mtu_time = self.byte_time.of(max_frame).as_nanos();
        let aqm_target = (mtu_time * 3 / 2).max(target * NANOS_PER_MICRO);
        let interval = (rtt * NANOS_PER_MICRO + aqm_target - target * NANOS_PER_MICRO).max(2 * aqm_target);
        self.aqm = cobalt::Params {
            target: Duration::from_nanos(aqm_target),
            interval: Duration::from_nanos(interval),
            mtu_time: Duration::from_nanos(mtu_time),
        };
        self.stats.threshold_rate = rate;
        self.stats.tin_quantum = quantum;
        self.stats.flow_quantum = if rate == 0 {
            WHOLE_FRAME
        } else {
            (rate >> 12).clamp(LEAST_QUANTUM.into(), WHOLE_FRAME.into()) as u16
        };
    }

    /// Takes over what `old`, the tin of the same number before a change, has counted and its place
    /// in time. Flows come one by one, by [`Tin::receive`].
    pub(super) fn inherit(&mut self, old: &Self) {
        self.byte_time = old.byte_time;
        self.clock = old.clock;
        self.stats = TinStats {
            backlog_bytes: 0,
            sparse_flows: 0,
            bulk_flows: 0,
            decaying_flows: 0,
            unresponsive_flows: 0,
            ..old.stats
        };
    }

    /// The queue for a flow that was in queue `from` of `old`, with its AQM unless it has to share.
    pub(super) fn receive(&mut self, old: &Self, from: usize) -> usize {
        let (tag, flow) = (old.tags[from % QUEUES], &old.flows[from % QUEUES]);
        let src = if old.mode.isolates_src() { old.src.tag(flow.src) } else { tag };
        let dst = if old.mode.isolates_dst() { old.dst.tag(flow.dst) } else { tag };
        let queue = if self.mode == FlowMode::FlowBlind {
            0
        } else {
            self.find_queue(tag, Hashes { flow: tag, src, dst })
        };
        if queue == from {
            self.guests[queue % QUEUES] |= old.guests[queue % QUEUES];
        }
        self.adopt(queue, flow);
        queue
    }

    /// What is known of `flow`, an old queue, holds for `queue`, unless that is in use.
    pub(super) fn adopt(&mut self, queue: usize, flow: &Flow) {
        let own = &mut self.flows[queue % QUEUES];
        if own.set == Set::None {
            (own.aqm, own.dropped) = (flow.aqm, flow.dropped);
            self.stats.unresponsive_flows += u16::from(own.aqm.is_unresponsive());
        }
    }

    /// The queue that holds packets of this flow, or may.
    pub(super) fn holding(&self, hashes: Hashes) -> Option<usize> {
        let holds = |at: &usize| !self.flows[*at].queue.is_empty();
        let Some(hash) = self.mode.queue_hash(hashes.flow, hashes.src, hashes.dst) else {
            return Some(0).filter(holds);
        };
        let home = hash as usize % QUEUES;
        let is_guest = self.guests[home] & guest_bit(hash) != 0;
        ways(home)
            .find(|&at| self.tags[at] == hash && holds(&at))
            .or(Some(home).filter(holds).filter(|_| is_guest))
    }

    /// A changed flow mode; nothing is rehashed or recounted.
    pub(super) fn set_mode(&mut self, mode: FlowMode) {
        self.mode = mode;
    }

    /// Flows that take part in the rounds.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.stats.sparse_flows != 0 || self.stats.bulk_flows != 0
    }

    /// The queue of a packet with these hashes.
    #[inline]
    pub(super) fn choose_queue(&mut self, hashes: Hashes) -> usize {
        let Some(hash) = self.mode.queue_hash(hashes.flow, hashes.src, hashes.dst) else {
            return 0;
        };
        let home = hash as usize % QUEUES;
        if self.tags[home] == hash && self.flows[home].set != Set::None {
            self.stats.way_direct_hits += 1;
            return home;
        }
        self.find_queue(hash, hashes)
    }

    /// The queue that bears `hash` as its tag, else an idle one, else one to share.
    pub(super) fn find_queue(&mut self, hash: u32, hashes: Hashes) -> usize {
        let home = hash as usize % QUEUES;
        let queue = if let Some(known) = ways(home).find(|&at| self.tags[at] == hash) {
            self.stats.way_indirect_hits += u64::from(known != home);
            if self.flows[known].set != Set::None {
                return known;
            }
            known
        } else if self.guests[home] & guest_bit(hash) != 0 && !self.flows[home].queue.is_empty() {
            self.stats.way_collisions += 1;
            return home;
        } else if let Some(idle) = ways(home).find(|&at| self.flows[at].set == Set::None) {
            self.stats.way_misses += 1;
            idle
        } else {
            self.stats.way_collisions += 1;
            let Some(queue) = self.take_over(home) else {
                self.guests[home] |= guest_bit(hash);
                return home;
            };
            queue
        };
        self.tags[queue] = hash;
        self.claim_hosts(queue, hashes);
        queue
    }

    /// A queue for a newcomer where all of the set are in use: one without packets, whose owner
    /// loses nothing by it. `None` when all hold packets: were the tag of such a queue moved, later
    /// packets of its owner would go elsewhere and overtake those that wait (fault 44). The
    /// newcomer becomes a guest then, and stays one while the queue holds packets, perhaps its own.
    fn take_over(&mut self, home: usize) -> Option<usize> {
        let queue = if C::CAKE_COLLISION_MOVES_TAG {
            home
        } else {
            ways(home).find(|&at| self.flows[at].queue.is_empty())?
        };
        if self.flows[queue].set == Set::Bulk {
            self.lower_hosts(queue);
        }
        self.release_hosts(queue);
        self.guests[queue] = 0;
        Some(queue)
    }

    /// A packet was queued in `queue`: an idle queue or a decaying one starts as sparse, one that
    /// had waited for more becomes bulk.
    #[inline]
    pub(super) fn wake(&mut self, queue: usize, rng: &mut impl Rng) {
        if !matches!(self.flows[queue % QUEUES].set, Set::Sparse | Set::Bulk) {
            self.start(queue, rng);
        }
    }

    fn start(&mut self, queue: usize, rng: &mut impl Rng) {
        match self.flows[queue % QUEUES].set {
            Set::None => self.lists.append(List::New, queue),
            Set::Decaying => {
                self.stats.decaying_flows = self.stats.decaying_flows.wrapping_sub(1);
                self.lists.requeue(List::New, queue);
            }
            Set::SparseWait => {
                self.stats.sparse_flows = self.stats.sparse_flows.wrapping_sub(1);
                return self.become_bulk(queue);
            }
            Set::Sparse | Set::Bulk => return,
        }
        self.stats.sparse_flows = self.stats.sparse_flows.wrapping_add(1);
        let quantum = self.quantum(queue, rng);
        let flow = &mut self.flows[queue % QUEUES];
        flow.set = Set::Sparse;
        flow.deficit = quantum;
    }

    /// The queue whose turn it is. `decaying_first` lets one decaying queue go ahead of all.
    #[inline]
    pub(super) fn first(&self, decaying_first: bool) -> Option<usize> {
        let decaying = self.lists.first(List::Decaying);
        if decaying_first && decaying.is_some() {
            return decaying;
        }
        self.lists.first(List::New).or_else(|| self.lists.first(List::Old)).or(decaying)
    }

    /// Gives a queue that has spent its deficit a new one, and passes the turn. False when there
    /// was some left.
    #[inline]
    pub(super) fn refill(&mut self, queue: usize, rng: &mut impl Rng) -> bool {
        if self.flows[queue % QUEUES].deficit > 0 {
            return false;
        }
        self.pass_turn(queue, rng);
        true
    }

    #[inline(never)] // once a quantum, and a packet would pay for its registers
    fn pass_turn(&mut self, queue: usize, rng: &mut impl Rng) {
        let flow = &mut self.flows[queue % QUEUES];
        if flow.set == Set::Sparse {
            if flow.queue.is_empty() {
                flow.set = Set::SparseWait;
            } else {
                self.stats.sparse_flows = self.stats.sparse_flows.wrapping_sub(1);
                self.become_bulk(queue);
            }
        }
        let quantum = self.quantum(queue, rng);
        let flow = &mut self.flows[queue % QUEUES];
        flow.deficit = flow.deficit.wrapping_add(quantum);
        self.lists.requeue(List::Old, queue);
    }

    /// The turn of an empty queue: it decays until its AQM is at rest, and then is idle.
    pub(super) fn settle(&mut self, queue: usize, now: Instant) {
        let flow = &mut self.flows[queue % QUEUES];
        self.guests[queue % QUEUES] = 0;
        let turn = flow.aqm.on_empty::<C>(&self.aqm, now);
        let rests = flow.aqm.at_rest::<C>(now);
        let left = flow.set;
        flow.set = if rests { Set::None } else { Set::Decaying };
        self.note(turn);
        match left {
            Set::Bulk => {
                self.stats.bulk_flows = self.stats.bulk_flows.wrapping_sub(1);
                self.lower_hosts(queue);
            }
            Set::Sparse | Set::SparseWait => {
                self.stats.sparse_flows = self.stats.sparse_flows.wrapping_sub(1);
            }
            Set::Decaying => self.stats.decaying_flows = self.stats.decaying_flows.wrapping_sub(1),
            Set::None => (),
        }
        if rests {
            self.lists.remove(queue);
            self.release_hosts(queue);
        } else {
            self.stats.decaying_flows = self.stats.decaying_flows.wrapping_add(1);
            self.lists.requeue(List::Decaying, queue);
        }
    }

    /// Counts a flow that begins or ceases to be unresponsive.
    pub(super) fn note(&mut self, turn: cobalt::Turn) {
        let flows = &mut self.stats.unresponsive_flows;
        match turn {
            cobalt::Turn::None => (),
            cobalt::Turn::Unresponsive => *flows = flows.wrapping_add(1),
            cobalt::Turn::Responsive => *flows = flows.wrapping_sub(1),
        }
    }

    /// Counts a packet that waited for `sojourn` and is delivered now.
    #[inline]
    pub(super) fn note_delay(&mut self, sojourn: Duration) {
        let stats = &mut self.stats;
        if !C::CAKE_AVERAGES_FROM_ZERO && stats.avg_delay == Duration::ZERO {
            stats.avg_delay = sojourn;
            stats.peak_delay = sojourn;
            stats.base_delay = sojourn;
            return;
        }
        let average =
            |old: Duration, shift| Duration::from_nanos(ewma(old.as_nanos(), sojourn.as_nanos(), shift));
        stats.avg_delay = average(stats.avg_delay, 8);
        stats.peak_delay = average(stats.peak_delay, if sojourn > stats.peak_delay { 2 } else { 8 });
        stats.base_delay = average(stats.base_delay, if sojourn < stats.base_delay { 2 } else { 8 });
    }

    /// Bytes of one turn: the flow quantum shared among the bulk flows of the host that has more.
    /// The fraction is made up for by chance.
    #[inline]
    fn quantum(&self, queue: usize, rng: &mut impl Rng) -> i32 {
        let flow = &self.flows[queue % QUEUES];
        let src = if self.mode.isolates_src() { self.src.bulk(flow.src) } else { 0 };
        let dst = if self.mode.isolates_dst() { self.dst.bulk(flow.dst) } else { 0 };
        let share = SHARES[usize::from(src.max(dst)) % SHARES.len()];
        let bytes = (u32::from(self.stats.flow_quantum) * u32::from(share) + u32::from(rng.next_u16())) >> 16;
        if C::CAKE_QUANTUM_ZERO { bytes as i32 } else { bytes.max(1) as i32 }
    }

    /// Each flow that is not idle holds its hosts, each bulk flow counts in them.
    #[cfg(test)]
    pub(super) fn check_hosts(&self) {
        let (mut src, mut dst) = ([(0, 0); QUEUES], [(0, 0); QUEUES]);
        for flow in self.flows.iter().filter(|flow| flow.set != Set::None) {
            let count = |(bulk, holders): &mut (u16, u16), is_on: bool| {
                *bulk += u16::from(is_on && flow.set == Set::Bulk);
                *holders += u16::from(is_on);
            };
            count(&mut src[usize::from(flow.src)], self.mode.isolates_src());
            count(&mut dst[usize::from(flow.dst)], self.mode.isolates_dst());
        }
        self.src.check(&src);
        self.dst.check(&dst);
    }

    fn become_bulk(&mut self, queue: usize) {
        self.stats.bulk_flows = self.stats.bulk_flows.wrapping_add(1);
        self.flows[queue % QUEUES].set = Set::Bulk;
        self.raise_hosts(queue);
    }

    fn claim_hosts(&mut self, queue: usize, hashes: Hashes) {
        let flow = &mut self.flows[queue % QUEUES];
        if self.mode.isolates_src() {
            flow.src = self.src.claim::<C>(hashes.src);
        }
        if self.mode.isolates_dst() {
            flow.dst = self.dst.claim::<C>(hashes.dst);
        }
        if flow.set == Set::Bulk {
            self.raise_hosts(queue);
        }
    }

    fn release_hosts(&mut self, queue: usize) {
        let flow = &self.flows[queue % QUEUES];
        if self.mode.isolates_src() {
            self.src.release(flow.src);
        }
        if self.mode.isolates_dst() {
            self.dst.release(flow.dst);
        }
    }

    fn raise_hosts(&mut self, queue: usize) {
        let flow = &self.flows[queue % QUEUES];
        if self.mode.isolates_src() {
            self.src.raise(flow.src);
        }
        if self.mode.isolates_dst() {
            self.dst.raise(flow.dst);
        }
    }

    fn lower_hosts(&mut self, queue: usize) {
        let flow = &self.flows[queue % QUEUES];
        if self.mode.isolates_src() {
            self.src.lower(flow.src);
        }
        if self.mode.isolates_dst() {
            self.dst.lower(flow.dst);
        }
    }
}

#[inline]
fn guest_bit(hash: u32) -> u32 {
    1 << (hash >> 27)
}

/// Parts of 65535 that each of so many bulk flows gets, 0 counted as 1. A table, because a turn would
/// wait 10 cycles for a division; twice as long as a host can need, so that a mask is its bound.
static SHARES: [u16; 2 * QUEUES] = {
    let mut shares = [u16::MAX; 2 * QUEUES];
    let mut load = 1;
    while load < shares.len() {
        shares[load] = (65535 / load) as u16;
        load += 1;
    }
    shares
};
/// Device MTU and Ethernet header: the quantum of a fast tin.
const WHOLE_FRAME: u16 = 1514;
/// The quantum of a slow tin: small, so that small packets get their turn between large ones.
const LEAST_QUANTUM: u16 = 300;
const NANOS_PER_MICRO: u64 = 1_000;
