//! What happens to tins, clocks and waiting packets when parameters change.
//!
//! [`Cake::change`] does all of it in one call. [`Cake::begin`] leaves the packets that wait to
//! `moving`, some at a time.

use super::ack_filter::Acks;
use super::enqueue::Losses;
use super::moving::{Old, Tables};
use super::overflow::{Backlogs, QueueId};
use super::rate::{ByteTime, LOWEST_RATE};
use super::tin::{Settings, Tin};
use super::{AckFilter, Cake, Diffserv, MAX_TINS, Params, QUEUES, Shared};
use crate::conformance::{Conformance, Weir};
use crate::packet::DropReason;
use crate::rng::Rng;
use crate::time::Instant;
use crate::units::Rate;
use alloc::boxed::Box;

impl<P, C: Conformance> Cake<P, C> {
    /// Sets new parameters while packets wait; none of them is lost, and the order inside a flow
    /// is kept. (Fault 24: those in tins that the new mode lacks are doomed as
    /// [`DropReason::Change`].)
    ///
    /// Another diffserv or flow mode builds the tins anew: flows keep their queues and their AQM, and
    /// start as sparse. A changed flow mode hashes packets that arrive from now on; what waits stays
    /// with the queue it is in, and a flow that has another hash now may overtake it.
    pub fn change(&mut self, now: Instant, params: &Params, doomed: &mut impl FnMut(P, DropReason)) {
        let mut tables = Tables::between(&self.shared.params, params, false, self.shared.slots.capacity());
        self.set(now, params, &mut tables);
        if let Some(old) = self.old.take() {
            self.rehome_all(old);
        }
        self.reconfigure(now, doomed);
    }

    /// Sets new parameters while packets wait, without allocating or freeing: `tables` has what
    /// [`Tables::between`] has made for this change, and takes what is not needed any more. Packets
    /// that wait and have another place now, or exceed a memory limit that is lower now, are left to
    /// [`Cake::proceed`].
    ///
    /// An earlier change must have been carried out: [`Cake::is_changing`].
    pub fn begin(&mut self, now: Instant, params: &Params, tables: &mut Tables<C>) {
        self.set(now, params, tables);
        self.configure(now);
        self.lower_memory_limit();
    }

    /// Drops at most `most` packets that a lower memory limit has left no room for; says how many.
    pub(super) fn trim(
        &mut self,
        now: Instant,
        most: usize,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> usize {
        let asked = u64::from(self.shared.memory_asked());
        let mut losses = Losses::default();
        while (losses.packets as usize) < most
            && self.shared.memory > asked
            && self.lose_one(now, None, &mut losses, doomed)
        {}
        self.shared.tell_parent(losses.packets.into(), losses.bytes.into());
        self.lower_memory_limit();
        losses.packets as usize
    }

    /// The memory limit is what was asked for, or what is occupied if that is more.
    fn lower_memory_limit(&mut self) {
        let occupied = u32::try_from(self.shared.memory).unwrap_or(u32::MAX);
        self.shared.memory_limit = self.shared.memory_asked().max(occupied);
    }

    /// All of a change but rates and packets.
    fn set(&mut self, now: Instant, params: &Params, tables: &mut Tables<C>) {
        self.shared.spend_wakeup(now);
        let old = core::mem::replace(&mut self.shared.params, *params);
        let counted_from = |params: &Params| (params.overhead.bytes, params.overhead.ip_length);
        if counted_from(&old) != counted_from(params) {
            self.restart_length_stats();
        }
        self.shared.exchange_acks(tables);
        let is_other_rate = old.bandwidth != params.bandwidth;
        let is_switched_on = params.autorate_ingress && !old.autorate_ingress;
        if !C::CAKE_AUTORATE_STALE && (is_other_rate || is_switched_on) {
            self.shared.autorate.start(now, params.bytes_per_sec());
        }
        if C::CAKE_CHANGE_IN_PLACE && (old.diffserv != params.diffserv || old.flow_mode != params.flow_mode) {
            self.shared.mode = params.diffserv.mode();
            self.tins.iter_mut().for_each(|tin| tin.set_mode(params.flow_mode));
        } else if let Some((tins, backlogs)) = tables.tins.take() {
            self.replace_tins(old.diffserv, tins, backlogs, tables);
        }
    }

    /// Forgets the shortest and longest lengths, as tc does whenever an overhead is given, be it
    /// the same.
    pub fn restart_length_stats(&mut self) {
        self.shared.lengths.restart::<C>();
    }

    /// Tins that must exist.
    pub(super) fn tins_needed(params: &Params) -> usize {
        if C::CAKE_CHANGE_IN_PLACE { MAX_TINS } else { params.diffserv.mode().tins }
    }

    /// Another rate, from autorate.
    pub(super) fn set_rate(&mut self, now: Instant, rate: u64, doomed: &mut impl FnMut(P, DropReason)) {
        let rate = if C::CAKE_TIN_RATE_ZERO { rate } else { rate.max(LOWEST_RATE) };
        self.shared.params.bandwidth = (rate != 0).then(|| Rate::from_bytes_per_sec(rate));
        self.reconfigure(now, doomed);
    }

    /// Rates, quanta and AQM parameters of the tins in use, the global rate, and the memory limit.
    pub(super) fn configure(&mut self, now: Instant) {
        let (rtt, target) = self.shared.params.micros();
        let bandwidth = self.shared.params.bytes_per_sec();
        let old = self.shared.byte_time;
        for (tin, (rate, quantum)) in self.tins.iter_mut().zip(self.shared.mode.shares(bandwidth)) {
            let is_low = bandwidth != 0 && rate < LOWEST_RATE && !C::CAKE_TIN_RATE_ZERO;
            let rate = if is_low { LOWEST_RATE } else { rate };
            let before = tin.byte_time;
            tin.configure(&Settings { rate, quantum, rtt, target, max_frame: self.shared.params.max_frame });
            if !C::CAKE_CLOCKS_STALE {
                tin.clock = tin.byte_time.rescale(before, tin.clock, now);
            }
        }
        self.shared.byte_time = self.tins.first().map_or(ByteTime::default(), |tin| tin.byte_time);
        self.shared.clocks.rest = 0;
        if !C::CAKE_CLOCKS_STALE {
            self.shared.clocks.next = self.shared.byte_time.rescale(old, self.shared.clocks.next, now);
            self.shared.clocks.failsafe =
                self.shared.byte_time.rescale(old, self.shared.clocks.failsafe, now);
        }
        if !C::CAKE_CLOCKS_STALE && !self.shared.is_empty() {
            self.shared.wakeup = Some(self.shared.clocks.due().max(now));
        }
        if !C::CAKE_DEFICIT_SPENT_SHAPED && old.is_unlimited() != self.shared.byte_time.is_unlimited() {
            self.tins.iter_mut().for_each(|tin| tin.deficit = 0);
        }
        self.shared.memory_limit = self.shared.memory_asked();
    }

    fn reconfigure(&mut self, now: Instant, doomed: &mut impl FnMut(P, DropReason)) {
        self.configure(now);
        if !C::CAKE_CHANGE_IN_PLACE {
            return;
        }
        let mtu_time = self.tins.first().map(|tin| tin.aqm.mtu_time).unwrap_or_default();
        for tin in self.shared.mode.tins..self.tins.len() {
            self.shared.empty_tin(&mut self.tins[tin], tin, DropReason::Change, doomed);
            self.tins[tin].aqm.mtu_time = mtu_time;
            self.shared.turn = tin;
        }
    }

    /// New tins take over; the old ones are kept until they are empty.
    fn replace_tins(
        &mut self,
        diffserv: Diffserv,
        tins: Box<[Tin<C>]>,
        backlogs: Backlogs<C>,
        tables: &mut Tables<C>,
    ) {
        let tins = core::mem::replace(&mut self.tins, tins);
        let backlogs = core::mem::replace(&mut self.shared.backlogs, backlogs);
        self.shared.mode = self.shared.params.diffserv.mode();
        self.shared.turn = 0;
        for (tin, old) in self.tins.iter_mut().zip(&tins) {
            tin.inherit(old);
        }
        self.old = Some(Old::new(tins, backlogs, diffserv, tables));
    }

    fn rehome_all(&mut self, mut old: Old<C>) {
        let stays = old.diffserv == self.shared.params.diffserv;
        for (number, tin) in old.tins.iter_mut().enumerate() {
            for queue in 0..QUEUES {
                let bytes = old.backlogs.get(QueueId::new(number, queue));
                self.rehome(tin, queue, stays.then_some(number), bytes);
            }
        }
    }

    /// Moves what waits in a queue of a tin that goes away to where it belongs now: to `tin`, or
    /// where the DSCP of its first packet says, which is the default tin where that was washed.
    fn rehome(&mut self, from: &mut Tin<C>, queue: usize, tin: Option<usize>, bytes: u32) {
        let old = &mut from.flows[queue];
        let Some(head) = self.shared.slots.head(&old.queue) else { return };
        let by_dscp = || self.shared.mode.by_dscp[usize::from(head.ds.dscp()) % 64].into();
        let number = tin.unwrap_or_else(by_dscp);
        let waiting = core::mem::take(&mut old.queue);
        let tin = &mut self.tins[number];
        let queue = tin.receive(from, queue);
        self.shared.slots.splice(&mut tin.flows[queue].queue, waiting);
        tin.stats.backlog_bytes = tin.stats.backlog_bytes.wrapping_add(bytes);
        tin.wake(queue, &mut Even);
        self.shared.backlogs.arrived(QueueId::new(number, queue), bytes, 0);
    }
}

impl<P, C: Conformance> Shared<P, C> {
    /// The memory limit by the parameters.
    pub(super) fn memory_asked(&self) -> u32 {
        memory_limit::<C>(&self.params)
    }

    /// Records for the ACK filter, where it is on or a later change can look back at what came before.
    pub(super) fn provide_acks(&mut self) {
        if self.params.ack_filter != AckFilter::Off || C::CAKE_CHANGE_IN_PLACE {
            self.acks = Some(Acks::new(self.slots.capacity()));
        }
    }

    /// The same at a change. Records of queues that go away are of no use.
    fn exchange_acks(&mut self, tables: &mut Tables<C>) {
        let is_off = self.params.ack_filter == AckFilter::Off && !C::CAKE_CHANGE_IN_PLACE;
        if is_off || tables.acks.is_some() {
            core::mem::swap(&mut self.acks, &mut tables.acks);
        }
    }

    /// Dooms all packets of a tin and says how many there were. They count as drops nowhere.
    pub(super) fn empty_tin(
        &mut self,
        tin: &mut Tin<C>,
        number: usize,
        reason: DropReason,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> usize {
        let before = self.slots.used();
        if before == 0 {
            return 0;
        }
        for queue in 0..QUEUES {
            while let Some((packet, _)) = self.take(tin, QueueId::new(number, queue)) {
                doomed(packet, reason);
            }
        }
        before - self.slots.used()
    }
}

impl Params {
    /// The bytes of packet memory that packets may occupy in all: `memlimit`, or what bandwidth and
    /// rtt make of it.
    pub fn memory_limit(&self) -> u32 {
        memory_limit::<Weir>(self)
    }
}

/// The middle of all chances: a change has no need of randomness.
pub(super) struct Even;

impl Rng for Even {
    fn next_u16(&mut self) -> u16 {
        1 << 15
    }

    fn next_u32(&mut self) -> u32 {
        1 << 31
    }
}

/// Four times what the rate carries in an rtt, at least 4 MiB, at most 10240 frames unless more is
/// asked for.
fn memory_limit<C: Conformance>(params: &Params) -> u32 {
    let asked = params.memlimit.unwrap_or(0);
    let rate = params.bytes_per_sec();
    let limit = if asked != 0 {
        asked
    } else if rate == 0 {
        u32::MAX
    } else if C::CAKE_MEMLIMIT_CUT {
        (rate.wrapping_mul(params.micros().0) / MEMORY_DIVISOR) as u32
    } else {
        let bytes = u128::from(rate) * u128::from(params.micros().0) / u128::from(MEMORY_DIVISOR);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    };
    let automatic = if asked == 0 { limit.max(LEAST_MEMORY) } else { limit };
    automatic.min(asked.max(params.max_frame.saturating_mul(MOST_FRAMES)))
}

const MEMORY_DIVISOR: u64 = 250_000;
const LEAST_MEMORY: u32 = 4 << 20;
const MOST_FRAMES: u32 = 10_240;
