//! The sending half of a direction: from an [`Egress`] into the transmit queue.
//!
//! The out-box holds packets that were due but that the driver has not taken yet, in order.

use crate::counters::{Counters, Loss, Losses, Tally};
use crate::egress::Egress;
use crate::frame;
use crate::gate::{Budget, Gate};
use crate::outbox::{Outbox, Stamp};
use crate::talkers::Talkers;
use dpdk::{Mbuf, TxQueue};
use shaper::packet::Delivery;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use shaper::wire::ecn::{self, Rewrite};

mod late_cut;

pub(crate) use late_cut::LateCut;

/// Sends packets.
#[derive(Debug)]
pub(crate) struct Sender {
    tx: TxQueue,
    outbox: Outbox,
    outbox_bytes: u64,
    /// Pieces of several segments, and what stands behind one that the driver refused.
    late: LateCut,
    refused_since: Option<Instant>,
    /// What keeps the ring short; without, it is filled as far as it goes.
    gate: Option<Gate>,
    /// Who sends most, of what leaves here.
    talkers: Talkers,
}

/// How long one frame may stand at the head of the out-box while the link is up. A full ring at
/// the slowest wire (10 Mbit/s, 1514 bytes) takes a frame every 1.2 ms, pause frames hold a
/// transmitter for at most 336 ms at 100 Mbit/s; whatever stands longer is a frame the driver
/// will never take, and everything behind it must move on.
pub const REFUSAL_BOUND: Duration = Duration::from_millis(500);

impl Sender {
    /// A sender with nothing under way.
    pub(crate) fn new(tx: TxQueue, late: LateCut) -> Self {
        Self {
            tx,
            outbox: Outbox::new(),
            outbox_bytes: 0,
            late,
            refused_since: None,
            gate: None,
            talkers: Talkers::default(),
        }
    }

    pub(crate) fn into_queue(self) -> TxQueue {
        self.tx
    }

    /// Keeps the ring short from now on.
    pub(crate) fn govern(&mut self, gate: Gate) {
        self.gate = Some(gate);
    }

    /// What keeps the ring short.
    pub(crate) const fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    /// The same, to take its histograms away.
    pub(crate) const fn gate_mut(&mut self) -> Option<&mut Gate> {
        self.gate.as_mut()
    }

    /// Samples who sends most from now on.
    pub(crate) fn sample(&mut self, talkers: Talkers) {
        self.talkers = talkers;
    }

    /// What is sampled.
    pub(crate) const fn talkers(&self) -> &Talkers {
        &self.talkers
    }

    /// The same, to take the sample away.
    pub(crate) const fn talkers_mut(&mut self) -> &mut Talkers {
        &mut self.talkers
    }

    /// Whether nothing waits for the driver.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.outbox.is_empty() && !self.late.is_busy()
    }

    /// Whether a governor decides what may lie in the ring.
    #[inline]
    pub(crate) fn is_governed(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::binds)
    }

    /// What the device was seen to send at, as far as that is known.
    #[inline]
    pub(crate) fn drain_rate(&self) -> Option<Rate> {
        let bytes = self.gate.as_ref()?.governor().rate();
        (bytes > 0).then(|| Rate::from_bits_per_sec(bytes.saturating_mul(8)))
    }

    /// What is cut late, and what is left to the port.
    #[inline]
    pub(crate) const fn late(&mut self) -> &mut LateCut {
        &mut self.late
    }

    /// What waits for the driver.
    pub(crate) fn waiting(&self) -> Tally {
        let outbox = Tally { packets: self.outbox.len() as u64, bytes: self.outbox_bytes };
        outbox.plus(self.late.waiting())
    }

    /// The link came up: what stands at the head is given its time again.
    pub(crate) fn link_up(&mut self) {
        self.refused_since = None;
        if let Some(gate) = &mut self.gate {
            gate.link_up();
        }
    }

    /// Gives up what waits for the driver.
    pub(crate) fn flush(&mut self, loss: Loss, losses: &mut Losses) {
        while let Some((packet, _)) = self.outbox.pop() {
            losses.add(loss, frame::wire_len(&packet));
        }
        self.outbox_bytes = 0;
        self.late.flush(loss, losses);
        self.settle();
    }

    /// Looks for completions.
    #[inline]
    pub(crate) fn reap(&mut self, now: Instant) {
        if let Some(gate) = &mut self.gate {
            gate.reap(now, &mut self.tx);
        }
    }

    /// Sends what is due, so many bursts at most; returns how many packets the driver took.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        bursts: usize,
        egress: &mut Egress<Mbuf>,
        counters: &mut Counters,
    ) -> usize {
        self.reap(now);
        let mut moved = 0;
        for _ in 0..bursts {
            self.fill(now, egress, counters);
            if self.outbox.is_empty() {
                break;
            }
            moved += self.push(now, counters);
            if !self.outbox.is_empty() {
                break;
            }
        }
        self.hold(now, egress);
        moved
    }

    /// Tells the gate if frames stay behind that are due.
    #[inline]
    fn hold(&mut self, now: Instant, egress: &Egress<Mbuf>) {
        let Some(gate) = &mut self.gate else { return };
        if !self.outbox.is_empty() {
            gate.refused();
        } else if !gate.budget().admits(0, 0)
            && (self.late.is_busy() || egress.next_wakeup().is_some_and(|due| due <= now))
        {
            gate.hold(now);
        }
    }

    /// What may be moved into the out-box.
    #[inline]
    fn budget(&self) -> Budget {
        self.gate.as_ref().map_or(Budget::ALL, Gate::budget)
    }

    /// The out-box was emptied otherwise than into the ring.
    fn settle(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.settle();
        }
    }

    /// Moves due packets into the out-box.
    #[inline]
    fn fill(&mut self, now: Instant, egress: &mut Egress<Mbuf>, counters: &mut Counters) {
        let budget = self.budget();
        while self.outbox.room() > 0 && budget.admits(self.outbox_bytes, self.outbox.len()) {
            if self.late.is_busy() {
                let (outbox, bytes) = (&mut self.outbox, self.outbox_bytes);
                self.outbox_bytes = self.late.emit(outbox, bytes, budget, counters);
                if self.late.is_busy() {
                    break;
                }
                continue;
            }
            let losses = &mut counters.losses;
            let doomed =
                &mut |packet: Mbuf, reason| losses.add(Loss::Qdisc(reason), frame::wire_len(&packet));
            let Some(delivery) = egress.dequeue(now, doomed) else { break };
            let (len, segs, stamp) = (delivery.len, delivery.segs, stamp(&delivery));
            if let Some(weight) = self.talkers.weigh(len) {
                self.talkers.note(now, &delivery.packet, weight, now.since(delivery.enqueued));
            }
            let packet = finish(delivery, &mut counters.rewritten, &mut counters.rewrite_failed);
            // Its header is not in the cache any more: what waits tells of its segments.
            let passed = if segs > 1 { self.late.pass(packet, stamp, counters) } else { Some(packet) };
            let Some(packet) = passed else { continue };
            self.outbox_bytes += u64::from(len);
            // There is room: a packet handed back would be freed here, uncounted.
            let _ = self.outbox.push(packet, stamp);
            // The driver reads the header next, and it has waited too long to be in the cache still.
            self.outbox.prefetch_last();
        }
    }

    /// Offers the out-box to the driver.
    #[inline]
    fn push(&mut self, now: Instant, counters: &mut Counters) -> usize {
        self.outbox_bytes -= self.late.prepare(&mut self.tx, &mut self.outbox, counters);
        let sent = match &mut self.gate {
            Some(gate) => gate.burst(now, &mut self.tx, &mut self.outbox),
            None => self.tx.burst(self.outbox.burst()),
        };
        self.late.gone(sent);
        let left: u64 = self.outbox.as_slice().iter().map(|packet| u64::from(frame::wire_len(packet))).sum();
        counters.sent.packets += sent as u64;
        counters.sent.bytes += self.outbox_bytes - left;
        self.outbox_bytes = left;
        if self.outbox.is_empty() {
            self.refused_since = None;
        } else {
            self.refused(now, sent > 0, counters);
        }
        sent
    }

    /// The driver left something. If it takes nothing at all for too long, the head is dropped.
    #[cold]
    fn refused(&mut self, now: Instant, progress: bool, counters: &mut Counters) {
        counters.short_bursts += 1;
        let since = match self.refused_since {
            Some(since) if !progress => since,
            _ => now,
        };
        self.refused_since = Some(since);
        if now.since(since) > REFUSAL_BOUND
            && let Some((packet, _)) = self.outbox.pop()
        {
            let len = frame::wire_len(&packet);
            self.outbox_bytes -= u64::from(len);
            counters.losses.add(Loss::Refused, len);
            self.late.gone(1);
            self.refused_since = None;
            if self.outbox.is_empty() {
                self.settle();
            }
        }
    }
}

/// What is recorded of a packet: nothing if it comes from the control queue.
#[inline]
const fn stamp(delivery: &Delivery<Mbuf>) -> Stamp {
    Stamp::new(delivery.enqueued, delivery.tin)
}

/// Rewrites the DS field if the discipline asked for it, and yields the packet.
#[inline]
fn finish(mut delivery: Delivery<Mbuf>, rewritten: &mut u64, failed: &mut u64) -> Mbuf {
    if delivery.rewrite {
        let len = delivery.packet.pkt_len() as usize;
        let bits = delivery.ds.bits();
        let outcome = delivery.packet.head_mut().map(|frame| ecn::set_ds(frame, len, bits));
        *(if outcome == Some(Rewrite::Done) { rewritten } else { failed }) += 1;
    }
    delivery.packet
}
