//! fq_codel (RFC 8290, tc-fq_codel(8)): flows hashed into queues, served by deficit round robin
//! with new flows first, CoDel on each.
//!
//! One way in and one way out: [`FqCodel::enqueue`] appends and, when a limit is exceeded, drops
//! from the head of the longest queue, so that the arriving packet always gets in;
//! [`FqCodel::dequeue`] takes the first flow with credit and lets CoDel judge its head.
//!
//! Linux's behaviour to the packet under its conformance, faults 1 to 9 mended under [`Weir`].
//!
//! Work per packet is O(1), except that an overload drop searches the longest queue (see
//! `longest.rs`) and that one dequeue turns the list as often as the largest queued packet has
//! quanta.

#[cfg(test)]
mod faults;
mod flow;
mod longest;
#[cfg(test)]
mod model;
mod params;
#[cfg(test)]
mod tests;

pub use flow::FlowReport;
pub use params::Params;

use super::ParamError;
use crate::codel::codel;
use crate::conformance::{Conformance, Weir};
use crate::flow::slots::{Slots, Waiting};
use crate::packet::{Arrival, Delivery, DropReason, Enqueued, Piece, Verdict};
use crate::time::Instant;
use alloc::vec::Vec;
use flow::{CodelLine, Flow, Line, List, On};
use longest::Longest;

/// Every statistic of tc-fq_codel(8) and of `tc -s qdisc`. All but the gauges are monotonic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Gauge: packets that wait.
    pub qlen: u32,
    /// Gauge: bytes that wait.
    pub backlog: u64,
    /// Packets lost, whatever the reason.
    pub drops: u64,
    /// Bytes of the packets lost.
    pub dropped_bytes: u64,
    /// Packets handed out, counted per segment on the wire.
    pub sent_pkts: u64,
    /// Bytes handed out.
    pub sent_bytes: u64,
    /// Length in bytes of the largest packet CoDel has looked at.
    pub maxpacket: u32,
    /// Packets dropped because a limit was exceeded, the memory limit included.
    pub drop_overlimit: u64,
    /// The part of `drop_overlimit` that happened while the memory limit was exceeded.
    pub drop_overmemory: u64,
    /// Packets dropped by CoDel.
    pub drop_codel: u64,
    /// Packets a change of limits left no room for.
    pub drop_change: u64,
    /// Packets thrown away when the discipline was emptied.
    pub drop_flush: u64,
    /// Packets marked in place of a drop.
    pub ecn_mark: u64,
    /// Packets marked because they waited longer than `ce_threshold`.
    pub ce_mark: u64,
    /// How often an idle flow became new.
    pub new_flow_count: u64,
    /// Gauge: flows on the list of new flows.
    pub new_flows_len: u32,
    /// Gauge: flows on the list of old flows.
    pub old_flows_len: u32,
    /// Gauge: memory in bytes that waits.
    pub memory_usage: u64,
    /// Packets that a parent discipline, which counts its own, was told to subtract.
    pub tree_n: i64,
    /// The same in bytes.
    pub tree_len: i64,
}

/// The discipline.
#[derive(Debug)]
pub struct FqCodel<P, C: Conformance = Weir> {
    params: Params,
    limits: Limits,
    settings: codel::Settings<C>,
    slots: Slots<P>,
    flows: Vec<Flow<C>>,
    longest: Longest,
    new: List,
    old: List,
    stats: Stats,
    codel_stats: codel::Stats,
}

/// What may wait: `limit` and `memory_limit`, or more while a change has not lowered it to that yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    packets: usize,
    memory: u64,
}

/// What one enqueue did.
struct Enqueue {
    queue: u32,
    queued: Sum,
    cut: Sum,
    /// Packets of the arrival's own queue were cut.
    own: bool,
}

/// A number of packets and their bytes.
#[derive(Clone, Copy, Default)]
struct Sum {
    packets: u32,
    bytes: u64,
}

impl<P, C: Conformance> FqCodel<P, C> {
    /// An empty discipline with room for `slots` packets: `limit`, plus one for the packet that
    /// exceeds it, plus what a later change may raise it to. The only allocation.
    ///
    /// # Errors
    /// `flows` or `quantum` out of range.
    pub fn new(params: &Params, slots: usize) -> Result<Self, ParamError> {
        let params = params.checked()?;
        let mut flows = Vec::new();
        flows.resize_with(params.flows as usize, Flow::default);
        Ok(Self {
            params,
            limits: Limits::of(&params),
            settings: codel::Settings::new(&params.codel),
            slots: Slots::new(slots),
            flows,
            longest: Longest::new(params.flows),
            new: List::default(),
            old: List::default(),
            stats: Stats::default(),
            codel_stats: codel::Stats::default(),
        })
    }

    /// Appends all `pieces` of one arrival to its flow, then drops from the longest queue until
    /// the limits hold again, as [`DropReason::OverMemory`] while the memory limit is exceeded,
    /// else as [`DropReason::OverLimit`].
    ///
    /// [`Verdict::Congested`] says that packets of *this flow's queue* were dropped, mostly older
    /// ones: the arriving packet itself may well be queued. Its fate shows in `doomed` alone.
    /// [`Verdict::Dropped`] says that nothing was queued: no pieces were given, or the pool has
    /// no slots at all.
    pub fn enqueue(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        pieces: impl Iterator<Item = Piece<P>>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Enqueued {
        let queue = self.classify(arrival);
        let mut call = Enqueue { queue, queued: Sum::default(), cut: Sum::default(), own: false };
        for piece in pieces {
            if self.slots.is_full() {
                call.cut(self.drop_batch(DropReason::OverLimit, doomed));
            }
            let waiting = Waiting::new(now, &piece, arrival.ds, false);
            match self.append(queue, piece.packet, waiting) {
                Ok(()) => call.queued.add(waiting.len),
                Err(packet) => {
                    self.stats.lost(waiting.len, DropReason::OverLimit);
                    doomed(packet, DropReason::OverLimit);
                }
            }
        }
        if call.queued.packets > 0 {
            self.enlist(queue);
        }
        while let Some(reason) = self.exceeded() {
            let found_some = call.cut(self.drop_batch(reason, doomed));
            if C::FQ_ONE_BATCH || !found_some {
                break;
            }
        }
        let (packets, bytes) = call.news_for_parent();
        self.stats.tell_parent(packets, bytes);
        Enqueued { verdict: call.verdict(), tin: 0, queue }
    }

    /// The next packet to send; CE marks are in [`Delivery::ds`]. Packets that CoDel drops on the
    /// way are doomed as [`DropReason::Codel`].
    #[inline(always)] // or the delivery is stored, and read back in other pieces: 5 ns (Zen 4)
    pub fn dequeue(&mut self, now: Instant, doomed: &mut impl FnMut(P, DropReason)) -> Option<Delivery<P>> {
        loop {
            let (index, on) = match (self.new.first(), self.old.first()) {
                (Some(index), _) => (index, On::New),
                (None, Some(index)) => (index, On::Old),
                (None, None) => return None,
            };
            let flow = self.flows.get_mut(index as usize)?;
            if flow.deficit <= 0 {
                flow.deficit = flow.deficit.wrapping_add(self.params.quantum as i32);
                self.retire(index, on);
                continue;
            }
            let line = Line {
                index,
                queue: &mut flow.queue,
                qlen: &mut flow.qlen,
                slots: &mut self.slots,
                longest: &mut self.longest,
                stats: &mut self.stats,
            };
            let mut line = CodelLine { line, doomed };
            if let Some(head) = flow.codel.dequeue(now, &self.settings, &mut self.codel_stats, &mut line) {
                flow.deficit = flow.deficit.wrapping_sub(head.len as i32);
                self.stats.sent_pkts += u64::from(head.segs);
                self.stats.sent_bytes += u64::from(head.len);
                return Some(head.delivery());
            }
            if on == On::New && !self.old.is_empty() {
                self.retire(index, on);
            } else {
                self.unlist(index, on);
            }
        }
    }

    /// Sets new parameters. Packets that no longer fit are doomed as [`DropReason::Change`], one
    /// by one from the head of the longest queue, past CoDel, and count as `drop_change`. CoDel's
    /// state, deficits and lists persist; `handle` and the MTU are not changed.
    ///
    /// # Errors
    /// `quantum` out of range, or a different number of `flows`; then nothing was changed.
    pub fn change(
        &mut self,
        now: Instant,
        params: &Params,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Result<(), ParamError> {
        self.set(params)?;
        self.limits = Limits::of(&self.params);
        while self.exceeded().is_some() {
            if C::FQ_CHANGE_DEQUEUES {
                let Some(sent) = self.dequeue(now, doomed) else { break };
                doomed(sent.packet, DropReason::Change);
                self.stats.tell_parent(1, i64::from(sent.len));
            } else if !self.drop_one(doomed) {
                break;
            }
        }
        Ok(())
    }

    /// The same, but leaves it to [`FqCodel::proceed`] to drop what exceeds a lower limit. Meanwhile what
    /// waits is the limit.
    ///
    /// # Errors
    /// As [`FqCodel::change`].
    pub fn begin(&mut self, params: &Params) -> Result<(), ParamError> {
        self.set(params)?;
        self.limits = self.limits_now();
        Ok(())
    }

    /// Drops at most `most` of the packets that a lower limit has left no room for; says how many.
    pub fn proceed(&mut self, most: usize, doomed: &mut impl FnMut(P, DropReason)) -> usize {
        let mut dropped = 0;
        while dropped < most && self.is_trimming() && self.drop_one(doomed) {
            dropped += 1;
            self.limits = self.limits_now();
        }
        self.limits = self.limits_now();
        dropped
    }

    /// Whether a lower limit is not reached yet: call [`FqCodel::proceed`].
    #[inline]
    pub fn is_trimming(&self) -> bool {
        self.limits != Limits::of(&self.params)
    }

    fn set(&mut self, params: &Params) -> Result<(), ParamError> {
        let mut params = params.checked()?;
        params.replaces(&self.params)?;
        params.handle = self.params.handle;
        params.codel.mtu = self.params.codel.mtu;
        self.params = params;
        self.settings = codel::Settings::new(&params.codel);
        Ok(())
    }

    /// The limits asked for, or what waits if that is more.
    fn limits_now(&self) -> Limits {
        let asked = Limits::of(&self.params);
        Limits { packets: asked.packets.max(self.len()), memory: asked.memory.max(self.stats.memory_usage) }
    }

    fn drop_one(&mut self, doomed: &mut impl FnMut(P, DropReason)) -> bool {
        let victim = self.longest.find();
        let dropped = self.line(victim).and_then(|mut line| line.drop_head(DropReason::Change, doomed));
        dropped.inspect(|len| self.stats.tell_parent(1, i64::from(*len))).is_some()
    }

    /// Empties all queues and forgets CoDel's state; every packet is doomed as
    /// [`DropReason::Flush`]. The parent, who asked for it, is not told.
    pub fn flush(&mut self, doomed: &mut impl FnMut(P, DropReason)) {
        for index in 0..self.params.flows {
            if let Some(mut line) = self.line(index) {
                while line.drop_head(DropReason::Flush, doomed).is_some() {}
            }
        }
        for flow in &mut self.flows {
            flow.codel = codel::Vars::default();
            flow.on = On::Neither;
        }
        self.new = List::default();
        self.old = List::default();
    }

    /// Packets that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.used()
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that wait.
    #[inline]
    pub fn backlog(&self) -> u64 {
        self.stats.backlog
    }

    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The counters and gauges as they are now.
    pub fn stats(&self) -> Stats {
        Stats {
            qlen: self.slots.used() as u32,
            maxpacket: self.codel_stats.maxpacket,
            ecn_mark: self.codel_stats.ecn_mark,
            ce_mark: self.codel_stats.ce_mark,
            new_flows_len: self.new.len(),
            old_flows_len: self.old.len(),
            ..self.stats
        }
    }

    /// Every flow that is not idle, by index.
    pub fn flows(&self, now: Instant) -> impl Iterator<Item = FlowReport> + '_ {
        let busy = (0..).zip(&self.flows).filter(|(_, flow)| flow.on != On::Neither);
        busy.map(move |(queue, flow)| FlowReport {
            queue,
            deficit: flow.deficit,
            backlog: self.longest.get(queue),
            qlen: flow.qlen,
            codel: flow.codel.report(now),
        })
    }

    /// The queue for an arrival: its class where that names one, else its hash.
    #[inline]
    fn classify(&self, arrival: &Arrival<'_>) -> u32 {
        let (handle, class) = ((arrival.priority >> 16) as u16, arrival.priority & 0xffff);
        if self.params.handle == Some(handle) && (1..=self.params.flows).contains(&class) {
            return class - 1;
        }
        ((u64::from(arrival.flow_hash) * u64::from(self.params.flows)) >> 32) as u32
    }

    #[inline]
    fn append(&mut self, index: u32, packet: P, waiting: Waiting) -> Result<(), P> {
        let Some(flow) = self.flows.get_mut(index as usize) else { return Err(packet) };
        self.slots.push(&mut flow.queue, packet, waiting)?;
        flow.qlen += 1;
        self.longest.add(index, waiting.len);
        self.stats.backlog += u64::from(waiting.len);
        self.stats.memory_usage += u64::from(waiting.truesize);
        Ok(())
    }

    /// An idle flow becomes new. One that is still on the old list, though empty, does not.
    #[inline]
    fn enlist(&mut self, index: u32) {
        let Some(flow) = self.flows.get_mut(index as usize) else { return };
        if flow.on == On::Neither {
            flow.on = On::New;
            flow.deficit = self.params.quantum as i32;
            self.new.push(&mut self.flows, index);
            self.stats.new_flow_count += 1;
        }
    }

    /// The first flow of the list `on` goes to the end of the old flows.
    #[inline]
    fn retire(&mut self, index: u32, on: On) {
        self.unlist(index, on);
        if let Some(flow) = self.flows.get_mut(index as usize) {
            flow.on = On::Old;
        }
        self.old.push(&mut self.flows, index);
    }

    /// The first flow of the list `on` leaves it.
    #[inline]
    fn unlist(&mut self, index: u32, on: On) {
        let list = if on == On::New { &mut self.new } else { &mut self.old };
        list.pop(&self.flows);
        if let Some(flow) = self.flows.get_mut(index as usize) {
            flow.on = On::Neither;
        }
    }

    /// The limit that is exceeded, by the name of its drops.
    #[inline]
    fn exceeded(&self) -> Option<DropReason> {
        if self.stats.memory_usage > self.limits.memory {
            Some(DropReason::OverMemory)
        } else if self.len() > self.limits.packets {
            Some(DropReason::OverLimit)
        } else {
            None
        }
    }

    /// Drops from the head of the longest queue: `drop_batch` packets or half of its bytes,
    /// whichever comes first, and one at least.
    #[cold]
    fn drop_batch(&mut self, reason: DropReason, doomed: &mut impl FnMut(P, DropReason)) -> (u32, Sum) {
        let victim = self.longest.find();
        let half = u64::from(self.longest.get(victim) >> 1);
        let most = self.params.drop_batch;
        let mut cut = Sum::default();
        if let Some(mut line) = self.line(victim) {
            while let Some(len) = line.drop_head(reason, doomed) {
                cut.add(len);
                if cut.packets >= most || cut.bytes >= half {
                    break;
                }
            }
        }
        if let Some(flow) = self.flows.get_mut(victim as usize) {
            flow.codel.overload_drops(cut.packets);
        }
        (victim, cut)
    }

    fn line(&mut self, index: u32) -> Option<Line<'_, P>> {
        let flow = self.flows.get_mut(index as usize)?;
        Some(Line {
            index,
            queue: &mut flow.queue,
            qlen: &mut flow.qlen,
            slots: &mut self.slots,
            longest: &mut self.longest,
            stats: &mut self.stats,
        })
    }
}

impl Limits {
    fn of(params: &Params) -> Self {
        Self { packets: params.limit as usize, memory: params.memory_limit.into() }
    }
}

impl Stats {
    /// Counts a lost packet of `len` bytes.
    #[inline]
    fn lost(&mut self, len: u32, reason: DropReason) {
        self.drops += 1;
        self.dropped_bytes += u64::from(len);
        match reason {
            DropReason::OverMemory => {
                self.drop_overlimit += 1;
                self.drop_overmemory += 1;
            }
            DropReason::Codel => self.drop_codel += 1,
            DropReason::Change => self.drop_change += 1,
            DropReason::Flush => self.drop_flush += 1,
            _ => self.drop_overlimit += 1,
        }
    }

    #[inline]
    fn tell_parent(&mut self, packets: i64, bytes: i64) {
        self.tree_n += packets;
        self.tree_len += bytes;
    }
}

impl Enqueue {
    /// A batch was dropped from the queue `victim`; whether there was anything to drop.
    fn cut(&mut self, (victim, cut): (u32, Sum)) -> bool {
        self.cut.packets += cut.packets;
        self.cut.bytes += cut.bytes;
        self.own |= victim == self.queue && cut.packets > 0;
        cut.packets > 0
    }

    #[inline]
    fn verdict(&self) -> Verdict {
        match (self.queued.packets, self.own) {
            (0, _) => Verdict::Dropped,
            (_, true) => Verdict::Congested,
            (_, false) => Verdict::Ok,
        }
    }

    /// Packets and bytes that a parent has to subtract. On [`Verdict::Congested`] it does not
    /// count the arrival in the first place.
    #[inline]
    fn news_for_parent(&self) -> (i64, i64) {
        let uncounted = if self.own { self.queued } else { Sum::default() };
        (
            i64::from(self.cut.packets) - i64::from(uncounted.packets),
            self.cut.bytes as i64 - uncounted.bytes as i64,
        )
    }
}

impl Sum {
    #[inline]
    fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }
}
