//! cake: a shaper, traffic classes, host and flow fairness, and an AQM in one discipline, as
//! tc-cake(8) describes it.
//!
//! Reading order: [`params`] what it is asked to do; `enqueue` and `dequeue` the two ways a packet
//! goes; `tin` a traffic class with its rounds; `flow` and `host` what those rounds are about;
//! `overflow`, `ack_filter` and `autorate` the three helpers at enqueue; `change` what happens to
//! all of it when parameters change, and `moving` to packets whose tin goes away meanwhile; `stats`
//! what it counts.
//!
//! Contract, beyond that of all disciplines ([`super`]):
//! * Every packet queued is in exactly one flow queue of one tin; bytes in = out + doomed + queued.
//! * [`Cake::next_wakeup`] says when to call [`Cake::dequeue`] again although nothing arrives.
//! * Memory is allocated by [`Cake::new`], and by [`Cake::change`] where tins or the ACK filter
//!   are added; a change while packets fly takes [`Tables`] and [`Cake::begin`].
//! * ECT(1) is treated as classic ECN: there is no L4S queue.

mod ack_filter;
mod autorate;
mod change;
mod dequeue;
mod diffserv;
mod enqueue;
mod flow;
mod host;
#[cfg(test)]
mod model;
mod moving;
mod overflow;
pub mod params;
mod rate;
mod stats;
#[cfg(test)]
mod tests;
mod tin;

pub use moving::Tables;
pub use params::{AckFilter, Diffserv, FlowMode, Params};
pub use stats::{Stats, TinStats};

use crate::conformance::{Conformance, Weir};
use crate::flow::slots::{Slots, Waiting};
use crate::packet::DropReason;
use crate::time::Instant;
use ack_filter::Acks;
use alloc::boxed::Box;
use autorate::Autorate;
use diffserv::Mode;
use enqueue::Lengths;
use moving::Old;
use overflow::{Backlogs, QueueId};
use rate::{ByteTime, Clocks};
use tin::Tin;

/// The discipline. `P` is the packet, never looked into; `C` chooses which faults are reproduced.
#[derive(Debug)]
pub struct Cake<P, C: Conformance = Weir> {
    tins: Box<[Tin<C>]>,
    shared: Shared<P, C>,
    /// Tins of before a change, until all that waited there has moved.
    old: Option<Old<C>>,
}

/// What the tins share. Its methods are given the one tin they are about.
#[derive(Debug)]
struct Shared<P, C: Conformance> {
    params: Params,
    mode: &'static Mode,
    slots: Slots<P>,
    backlogs: Backlogs<C>,
    /// Only with the filter on (or where a later change may look back at what came before).
    acks: Option<Acks<C>>,
    byte_time: ByteTime,
    clocks: Clocks,
    /// The tin served last.
    turn: usize,
    memory: u64,
    memory_limit: u32,
    wakeup: Option<Instant>,
    /// The shaper makes packets wait, and that is counted.
    is_blocked: bool,
    autorate: Autorate,
    lengths: Lengths,
    counters: Counters,
}

/// Memory of an instance, in bytes. It is allocated at once and never grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Tins, flow and host tables, backlogs.
    pub tables: usize,
    /// Packet slots, without the packets.
    pub slots: usize,
    /// Records of the ACK filter; 0 while it is off.
    pub acks: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    bytes: u64,
    packets: u64,
    drops: u64,
    overlimits: u64,
    memory_max: u64,
    flushed: u64,
    tree_packets: i64,
    tree_bytes: i64,
}

impl<P, C: Conformance> Cake<P, C> {
    /// cake with room for `slots` packets.
    pub fn new(params: &Params, slots: usize) -> Self {
        let tins = Self::tins_needed(params);
        let shared = Shared {
            params: *params,
            mode: params.diffserv.mode(),
            slots: Slots::new(slots),
            backlogs: Backlogs::new(tins),
            acks: None,
            byte_time: ByteTime::default(),
            clocks: Clocks::default(),
            turn: 0,
            memory: 0,
            memory_limit: 0,
            wakeup: None,
            is_blocked: false,
            autorate: Autorate::new(params.bytes_per_sec()),
            lengths: Lengths::new::<C>(),
            counters: Counters::default(),
        };
        let tins = (0..tins).map(|_| Tin::new(params.flow_mode)).collect();
        let mut this = Self { tins, shared, old: None };
        this.shared.provide_acks();
        this.configure(Instant::ZERO);
        this
    }

    /// What [`Cake::new`] with the same arguments allocates.
    pub fn footprint(params: &Params, slots: usize) -> Footprint {
        let per_tin = Tin::<C>::FOOTPRINT + Backlogs::<C>::FOOTPRINT;
        let is_filtering = C::CAKE_CHANGE_IN_PLACE || params.ack_filter != AckFilter::Off;
        Footprint {
            tables: size_of::<Self>() + Self::tins_needed(params) * per_tin,
            slots: Slots::<P>::footprint(slots),
            acks: if is_filtering { Acks::<C>::footprint(slots) } else { 0 },
        }
    }

    /// The parameters in force; with `autorate-ingress` the bandwidth is the present one.
    pub fn params(&self) -> &Params {
        &self.shared.params
    }

    /// Packets that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.slots.used()
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Bytes that wait: a sum over the tins.
    pub fn backlog(&self) -> u64 {
        let old = self.old.iter().flat_map(|old| &old.tins);
        self.tins.iter().chain(old).map(|tin| u64::from(tin.stats.backlog_bytes)).sum()
    }

    /// When to call [`Cake::dequeue`] again although nothing arrives; `None` for never.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.shared.wakeup
    }

    /// When the shaper lets the next packet go.
    #[inline]
    pub fn due(&self) -> Instant {
        if self.shared.byte_time.is_unlimited() { Instant::ZERO } else { self.shared.clocks.due() }
    }

    /// Charges the shaper for a frame of `adjusted` bytes, overhead included, that leaves `now` past
    /// the queues and so counts in no tin.
    #[inline]
    pub fn charge(&mut self, now: Instant, adjusted: u32) {
        let shared = &mut self.shared;
        if shared.byte_time.is_unlimited() {
            return;
        }
        if shared.is_empty() {
            shared.clocks.start(now);
        }
        shared.clocks.charge::<C>(shared.byte_time, adjusted, false);
    }

    /// Everything counted, as of now.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let counters = &shared.counters;
        let mut stats = Stats {
            bytes: counters.bytes,
            packets: counters.packets,
            drops: counters.drops,
            overlimits: counters.overlimits,
            backlog: self.backlog(),
            qlen: shared.slots.used() as u32,
            memory_used: shared.memory,
            memory_max: counters.memory_max,
            memory_limit: shared.memory_limit,
            capacity_estimate: shared.autorate.peak,
            min_network_size: shared.lengths.min_net,
            max_network_size: shared.lengths.max_net,
            min_adj_size: shared.lengths.min_adjusted,
            max_adj_size: shared.lengths.max_adjusted,
            avg_hdr_offset: shared.lengths.network_offset(),
            rate_ns: shared.byte_time.nanos,
            rate_shift: shared.byte_time.shift,
            flushed: counters.flushed,
            tree_packets: counters.tree_packets,
            tree_bytes: counters.tree_bytes,
            tin_count: shared.mode.tins,
            all_tins: [TinStats::default(); MAX_TINS],
        };
        for (entry, tin) in stats.all_tins.iter_mut().zip(&self.tins) {
            let aqm = &tin.aqm;
            *entry =
                TinStats { target: aqm.target, interval: aqm.interval, mtu_time: aqm.mtu_time, ..tin.stats };
        }
        stats
    }

    /// Empties the discipline; every packet is doomed as [`DropReason::Flush`].
    pub fn flush(&mut self, doomed: &mut impl FnMut(P, DropReason)) {
        for tin in 0..self.tins.len() {
            let flushed = self.shared.empty_tin(&mut self.tins[tin], tin, DropReason::Flush, doomed);
            self.shared.counters.flushed += flushed as u64;
        }
        self.flush_old(doomed);
    }
}

impl<P, C: Conformance> Shared<P, C> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.slots.used() == 0
    }

    /// Removes the head of a queue from all accounts.
    #[inline]
    fn take(&mut self, tin: &mut Tin<C>, id: QueueId) -> Option<(P, Waiting)> {
        let queue = &mut tin.flows[id.queue()].queue;
        if let Some(acks) = &mut self.acks
            && let Some(slot) = queue.head()
        {
            acks.left(slot);
        }
        let (packet, waiting) = self.slots.pop(queue)?;
        tin.stats.backlog_bytes = tin.stats.backlog_bytes.wrapping_sub(waiting.len);
        self.memory = self.memory.wrapping_sub(waiting.truesize.into());
        self.backlogs.taken(id, waiting.len);
        Some((packet, waiting))
    }

    /// Charges the clocks of tin and shaper with `adjusted` bytes.
    #[inline]
    fn charge(&mut self, tin: &mut Tin<C>, adjusted: u32, now: Instant, is_drop: bool) {
        if self.byte_time.is_unlimited() {
            return;
        }
        let span = tin.byte_time.charge::<C>(adjusted, &mut tin.rest);
        if tin.clock < now {
            tin.clock += span;
        } else if tin.clock < now + span {
            tin.clock = now + span;
        }
        self.clocks.charge::<C>(self.byte_time, adjusted, is_drop);
    }

    /// Charges a dropped packet in ingress mode: it has used the link already.
    fn charge_drop(&mut self, tin: &mut Tin<C>, id: QueueId, adjusted: u32, now: Instant) {
        self.charge(tin, adjusted, now, true);
        if !C::CAKE_INGRESS_CLOCKS_ONLY {
            self.spend(tin, id, adjusted);
        }
    }

    /// Charges the deficits of flow and tin.
    #[inline]
    fn spend(&mut self, tin: &mut Tin<C>, id: QueueId, adjusted: u32) {
        let flow = &mut tin.flows[id.queue()];
        flow.deficit = flow.deficit.wrapping_sub(adjusted as i32);
        if C::CAKE_DEFICIT_SPENT_SHAPED || self.byte_time.is_unlimited() {
            tin.deficit = tin.deficit.wrapping_sub(adjusted as i32);
        }
    }

    /// Tells the caller's own account, as it were, that `packets` and `bytes` are not here any more.
    #[inline]
    fn tell_parent(&mut self, packets: i64, bytes: i64) {
        self.counters.tree_packets += packets;
        self.counters.tree_bytes += bytes;
    }

    /// The shaper is ahead of time: come back when it is not.
    #[inline]
    fn refuse(&mut self) {
        if C::CAKE_OVERLIMITS_EVERY_CALL || !self.is_blocked {
            self.counters.overlimits += 1;
        }
        self.is_blocked = true;
        self.wakeup = Some(self.clocks.due());
    }

    /// A wake-up whose time has come is spent by whatever call comes.
    #[inline]
    fn spend_wakeup(&mut self, now: Instant) {
        if self.wakeup.is_some_and(|at| at <= now) {
            self.wakeup = None;
        }
    }
}

/// Queues, and host entries per side, of a tin.
const QUEUES: usize = 1024;
/// Queues, or hosts, among which a hash may choose.
const WAYS: usize = 8;
/// Most tins of any mode.
pub const MAX_TINS: usize = 8;
