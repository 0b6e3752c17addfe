//! The way out: shaper, tin, flow, AQM, delivery.

use super::super::delivery;
use super::moving::Unmoved;
use super::overflow::QueueId;
use super::{Cake, Shared, Tin};
use crate::conformance::Conformance;
use crate::flow::slots::Waiting;
use crate::packet::{Delivery, DropReason};
use crate::rng::Rng;
use crate::time::Instant;

impl<P, C: Conformance> Cake<P, C> {
    /// The next packet to send, `None` when there is none or none is due: then
    /// [`Cake::next_wakeup`] says when.
    #[inline(always)] // or the delivery is stored, and read back in other pieces: 5 ns (Zen 4)
    pub fn dequeue(
        &mut self,
        now: Instant,
        rng: &mut impl Rng,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Option<Delivery<P>> {
        self.shared.spend_wakeup(now);
        let mut decaying_first = true;
        while self.shared.may_send(&mut self.tins, now) {
            let (tins, shared) = (&mut self.tins, &mut self.shared);
            let Some(number) = shared.choose_tin(tins, now) else {
                match self.go_on_unmoved(now)? {
                    Unmoved::Moved => continue,
                    Unmoved::Sent(tin, packet, waiting) => {
                        return Some(Delivery { tin, ..delivery(packet, &waiting) });
                    }
                }
            };
            let sent = shared.serve(&mut tins[number], number, now, &mut decaying_first, rng, doomed);
            if sent.is_some() {
                if shared.is_empty() {
                    shared.wake_for_rest(tins, now);
                }
                return sent;
            }
        }
        None
    }
}

impl<P, C: Conformance> Shared<P, C> {
    /// Something waits, and the shaper lets it go.
    #[inline]
    fn may_send(&mut self, tins: &mut [Tin<C>], now: Instant) -> bool {
        if self.is_empty() {
            self.rest(tins, now);
            return false;
        }
        if self.clocks.is_blocked(now) {
            self.refuse();
            return false;
        }
        true
    }

    #[inline]
    fn choose_tin(&mut self, tins: &mut [Tin<C>], now: Instant) -> Option<usize> {
        if self.byte_time.is_unlimited() {
            return self.tin_by_deficit(tins);
        }
        match tins {
            [only] => only.is_active().then_some(0),
            tins => self.tin_by_schedule(tins, now),
        }
    }

    /// Unlimited: deficit round robin. The round ends when no tin is active.
    fn tin_by_deficit(&mut self, tins: &mut [Tin<C>]) -> Option<usize> {
        let (mut wrapped, mut empty) = (false, true);
        loop {
            let tin = &mut tins[self.turn];
            if tin.deficit >= 0 && tin.is_active() {
                return Some(self.turn);
            }
            if tin.deficit <= 0 {
                tin.deficit = tin.deficit.wrapping_add(tin.stats.tin_quantum.into());
            }
            empty &= !tin.is_active();
            self.turn += 1;
            if self.turn >= self.mode.tins {
                self.turn = 0;
                if wrapped && empty {
                    return None;
                }
                wrapped = true;
            }
        }
    }

    /// Shaped: the last of the tins that are on schedule, else the one that will be first.
    #[inline]
    fn tin_by_schedule(&mut self, tins: &[Tin<C>], now: Instant) -> Option<usize> {
        let mut choice = None;
        let mut earliest = i64::MAX;
        for (number, tin) in tins.iter().take(self.mode.tins).enumerate() {
            if !tin.is_active() {
                continue;
            }
            let wait = tin.clock.as_nanos().wrapping_sub(now.as_nanos()) as i64;
            if wait <= 0 || wait <= earliest {
                earliest = wait;
                choice = Some(number);
            }
        }
        self.turn = choice.unwrap_or(0);
        choice
    }

    /// Lets the flows of a tin have their turns until one sends. `None` when the tin has to be
    /// chosen anew: a flow was found empty, or there is none. Every turn passed on is worth a byte
    /// at least, so the rounds are bounded by the longest packet.
    #[inline]
    fn serve(
        &mut self,
        tin: &mut Tin<C>,
        number: usize,
        now: Instant,
        decaying_first: &mut bool,
        rng: &mut impl Rng,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Option<Delivery<P>> {
        loop {
            let queue = tin.first(core::mem::take(decaying_first))?;
            if tin.refill(queue, rng) {
                continue;
            }
            let id = QueueId::new(number, queue);
            loop {
                let Some((packet, mut waiting)) = self.take(tin, id) else {
                    tin.settle(queue, now);
                    return None;
                };
                let Some(reason) = self.decide(tin, id, &mut waiting, now, rng) else {
                    self.deliver(tin, id, &waiting, now);
                    let tin = number as u8;
                    return Some(Delivery { tin, ..delivery(packet, &waiting) });
                };
                self.drop_by_aqm(tin, id, &waiting, now);
                doomed(packet, reason);
                if self.params.ingress {
                    break;
                }
            }
        }
    }

    /// Asks the AQM whether to drop, and marks. The last packet of a queue is delivered whatever it
    /// says.
    #[inline]
    fn decide(
        &self,
        tin: &mut Tin<C>,
        id: QueueId,
        waiting: &mut Waiting,
        now: Instant,
        rng: &mut impl Rng,
    ) -> Option<DropReason> {
        let flow = &mut tin.flows[id.queue()];
        let bulk_flows = if self.params.ingress { tin.stats.bulk_flows.into() } else { 0 };
        let decision = flow.aqm.on_dequeue::<C>(&tin.aqm, now, waiting.enqueued, bulk_flows, waiting.ds, rng);
        if decision.drop.is_some() && !flow.queue.is_empty() {
            return decision.drop;
        }
        tin.stats.ecn_mark += u64::from(decision.marked);
        waiting.rewrite |= decision.ds != waiting.ds;
        waiting.ds = decision.ds;
        None
    }

    fn drop_by_aqm(&mut self, tin: &mut Tin<C>, id: QueueId, waiting: &Waiting, now: Instant) {
        let flow = &mut tin.flows[id.queue()];
        flow.dropped = flow.dropped.wrapping_add(1);
        tin.stats.drops += 1;
        self.counters.drops += 1;
        if self.params.ingress {
            self.charge(tin, waiting.adjusted, now, true);
            self.spend(tin, id, waiting.adjusted);
        }
        self.tell_parent(1, waiting.len.into());
    }

    #[inline]
    pub(super) fn deliver(&mut self, tin: &mut Tin<C>, id: QueueId, waiting: &Waiting, now: Instant) {
        tin.note_delay(now.since(waiting.enqueued));
        self.counters.bytes += u64::from(waiting.len);
        self.counters.packets += u64::from(waiting.segs);
        self.is_blocked = false;
        self.charge(tin, waiting.adjusted, now, false);
        self.spend(tin, id, waiting.adjusted);
        if self.clocks.next > now && !self.is_empty() {
            self.wakeup = Some(self.clocks.due());
        }
        self.backlogs.delivered();
    }

    /// Flows that have emptied decay, also while nothing arrives: come back for them.
    pub(super) fn wake_for_rest(&mut self, tins: &[Tin<C>], now: Instant) {
        let is_restless =
            |tin: &&Tin<C>| tin.stats.decaying_flows != 0 || !C::CAKE_IDLE_NO_DECAY && tin.is_active();
        if let Some(tin) = tins.iter().take(self.mode.tins).find(is_restless) {
            self.wakeup = Some(now + tin.aqm.target);
        }
    }

    /// Nothing waits: every flow on a list is empty. A bounded number of them get their turns.
    #[cold]
    fn rest(&mut self, tins: &mut [Tin<C>], now: Instant) {
        if C::CAKE_IDLE_NO_DECAY || self.wakeup.is_some() {
            return;
        }
        for tin in tins.iter_mut() {
            for _ in 0..RESTS {
                let Some(queue) = tin.first(true) else { break };
                tin.settle(queue, now);
            }
        }
        self.wake_for_rest(tins, now);
    }
}

/// Flows of a tin looked after in one idle call: some 10 ns each.
const RESTS: usize = 64;
