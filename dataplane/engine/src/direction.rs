//! One direction of a link: from one port's receive queue, through an [`Egress`], to the other
//! port's transmit queue.
//!
//! Invariant between turns: received = sent + lost + waiting, packets and bytes alike, where
//! waiting is what the egress and the out-box hold. Nothing else holds a packet.

use crate::classify::{self, Classifier, ETHERNET, Headers};
use crate::counters::{Loss, Losses, Tally};
use crate::egress::Egress;
use crate::page::DirectionPage;
use crate::sojourn::Sojourn;
use dpdk::{Burst, Mbuf, RxQueue, TxQueue};
use shaper::packet::{Delivery, Piece};
use shaper::time::{Duration, Instant};
use shaper::wire::ecn::{self, Rewrite};

/// One direction at work.
#[derive(Debug)]
pub struct Direction {
    rx: RxQueue,
    tx: TxQueue,
    classifier: Classifier,
    egress: Egress<Mbuf>,
    /// Packets that were due but that the driver has not taken yet, in order.
    outbox: Burst,
    outbox_bytes: u64,
    inbox: Burst,
    refused_since: Option<Instant>,
    link: Link,
    settings: Settings,
    counters: Counters,
}

/// What a direction is told once.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The egress port's MTU in bytes: the largest network-layer packet it carries.
    pub mtu: u16,
    /// How long packets are kept for an egress link that is down.
    pub link_down_hold: Duration,
}

/// What a direction counts. Rises only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Taken from the receive queue.
    pub received: Tally,
    /// Taken by the transmit queue.
    pub sent: Tally,
    /// Lost in between, by reason.
    pub losses: Losses,
    /// Frames whose DS field was rewritten (a CE mark, a wash).
    pub rewritten: u64,
    /// Frames whose DS field should have been rewritten but could not: their bytes are shared.
    pub rewrite_failed: u64,
    /// Transmit bursts of which the driver took only a part.
    pub short_bursts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    Down { since: Option<Instant> },
}

/// How long one frame may stand at the head of the out-box while the link is up. A full ring at
/// the slowest wire (10 Mbit/s, 1514 bytes) takes a frame every 1.2 ms, pause frames hold a
/// transmitter for at most 336 ms at 100 Mbit/s; whatever stands longer is a frame the driver
/// will never take, and everything behind it must move on.
pub const REFUSAL_BOUND: Duration = Duration::from_millis(500);

/// Bursts sent per turn and direction. Two, so that a backlog shrinks even while every receive
/// burst is full; bounded, so that the other directions get their turn.
const TX_BURSTS: usize = 2;

impl Direction {
    /// A direction that owns its two queues. The link counts as up until told otherwise.
    pub fn new(
        rx: RxQueue,
        tx: TxQueue,
        classifier: Classifier,
        egress: Egress<Mbuf>,
        settings: Settings,
    ) -> Self {
        Self {
            rx,
            tx,
            classifier,
            egress,
            outbox: Burst::new(),
            outbox_bytes: 0,
            inbox: Burst::new(),
            refused_since: None,
            link: Link::Up,
            settings,
            counters: Counters::default(),
        }
    }

    /// One turn: send what is due, take in what has come, and send again if the wire was idle.
    /// Returns the number of packets moved.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut moved = self.transmit(now);
        let was_idle = self.egress.is_empty() && self.outbox.is_empty();
        let received = self.receive(now);
        moved += received;
        if was_idle && received > 0 {
            moved += self.transmit(now);
        }
        moved
    }

    /// Only the sending half of a turn, for a direction that is being taken out of service.
    pub fn drain(&mut self, now: Instant) -> usize {
        self.transmit(now)
    }

    /// Whether nothing waits here.
    pub fn is_empty(&self) -> bool {
        self.egress.is_empty() && self.outbox.is_empty()
    }

    /// When the next turn can do something without a packet arriving: `None` while nothing waits.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.link {
            Link::Up if !self.outbox.is_empty() => Some(Instant::ZERO),
            Link::Up => self.egress.next_wakeup(),
            Link::Down { since } if !self.is_empty() => {
                Some(since.map_or(Instant::ZERO, |since| since + self.settings.link_down_hold))
            }
            Link::Down { .. } => None,
        }
    }

    /// The egress link went up or down.
    pub fn set_link(&mut self, up: bool) {
        match (up, self.link) {
            (true, _) => {
                self.link = Link::Up;
                self.refused_since = None;
            }
            (false, Link::Up) => self.link = Link::Down { since: None },
            (false, Link::Down { .. }) => {}
        }
    }

    /// Gives up every waiting packet, counted as `loss`.
    pub fn flush(&mut self, loss: Loss) {
        let losses = &mut self.counters.losses;
        while let Some(packet) = self.outbox.pop() {
            losses.add(loss, packet.pkt_len());
        }
        self.outbox_bytes = 0;
        self.egress.flush(&mut |packet: Mbuf, _| losses.add(loss, packet.pkt_len()));
    }

    /// Packets and bytes that wait.
    pub fn waiting(&self) -> Tally {
        self.egress.queued().plus(Tally { packets: self.outbox.len() as u64, bytes: self.outbox_bytes })
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What waits for the wire.
    pub fn egress(&self) -> &Egress<Mbuf> {
        &self.egress
    }

    /// Gives away how long packets waited since the last time, in exchange for an empty one.
    pub fn exchange_sojourn(&mut self, sojourn: &mut Sojourn) {
        self.egress.exchange_sojourn(sojourn);
    }

    /// Writes the statistics into a page.
    pub fn report(&self, page: &mut DirectionPage) {
        page.counters = self.counters;
        page.waiting = self.waiting();
        page.control = self.egress.control_stats();
        page.qdisc = Some(self.egress.qdisc().stats());
        page.limiter = self.egress.limiter().map(|limiter| *limiter.stats());
        page.link_up = self.link == Link::Up;
    }

    fn transmit(&mut self, now: Instant) -> usize {
        if self.link != Link::Up {
            self.hold(now);
            return 0;
        }
        let mut moved = 0;
        for _ in 0..TX_BURSTS {
            self.fill(now);
            if self.outbox.is_empty() {
                break;
            }
            moved += self.push(now);
            if !self.outbox.is_empty() {
                break;
            }
        }
        moved
    }

    /// Moves due packets into the out-box.
    #[inline]
    fn fill(&mut self, now: Instant) {
        let losses = &mut self.counters.losses;
        while self.outbox.room() > 0 {
            let doomed = &mut |packet: Mbuf, reason| losses.add(Loss::Qdisc(reason), packet.pkt_len());
            let Some(delivery) = self.egress.dequeue(now, doomed) else { break };
            self.outbox_bytes += u64::from(delivery.len);
            let packet = finish(delivery, &mut self.counters.rewritten, &mut self.counters.rewrite_failed);
            // There is room: a packet handed back would be freed here, uncounted.
            let _ = self.outbox.push(packet);
            // The driver reads the header next, and it has waited too long to be in the cache still.
            self.outbox.prefetch_header(self.outbox.len() - 1);
        }
    }

    /// Offers the out-box to the driver.
    #[inline]
    fn push(&mut self, now: Instant) -> usize {
        let sent = self.tx.burst(&mut self.outbox);
        let left: u64 = self.outbox.as_slice().iter().map(|packet| u64::from(packet.pkt_len())).sum();
        self.counters.sent.packets += sent as u64;
        self.counters.sent.bytes += self.outbox_bytes - left;
        self.outbox_bytes = left;
        if self.outbox.is_empty() {
            self.refused_since = None;
        } else {
            self.refused(now, sent > 0);
        }
        sent
    }

    /// The driver left something. If it takes nothing at all for too long, the head is dropped.
    #[cold]
    fn refused(&mut self, now: Instant, progress: bool) {
        self.counters.short_bursts += 1;
        let since = match self.refused_since {
            Some(since) if !progress => since,
            _ => now,
        };
        self.refused_since = Some(since);
        if now.since(since) > REFUSAL_BOUND
            && let Some(packet) = self.outbox.pop()
        {
            self.outbox_bytes -= u64::from(packet.pkt_len());
            self.counters.losses.add(Loss::Refused, packet.pkt_len());
            self.refused_since = None;
        }
    }

    /// The link is down: keep what waits for a while, then give it up.
    #[cold]
    fn hold(&mut self, now: Instant) {
        let Link::Down { since } = self.link else { return };
        let since = since.unwrap_or(now);
        self.link = Link::Down { since: Some(since) };
        if now.since(since) > self.settings.link_down_hold && !self.is_empty() {
            self.flush(Loss::LinkDown);
        }
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> usize {
        let received = self.rx.burst(&mut self.inbox);
        while let Some(packet) = self.inbox.pop() {
            self.inbox.prefetch_header(2 * PREFETCH_AHEAD);
            self.inbox.prefetch(PREFETCH_AHEAD);
            self.admit(now, packet);
        }
        received
    }

    #[inline]
    fn admit(&mut self, now: Instant, mut packet: Mbuf) {
        let len = packet.pkt_len();
        self.counters.received.add(len);
        if let Some(loss) = self.unfit(&mut packet) {
            self.counters.losses.add(loss, len);
            return;
        }
        let headers;
        let mut seen = self.classifier.classify(&packet);
        if seen.wants_headers {
            headers = Headers::read(&packet, seen.arrival.network_offset);
            seen.arrival.network = headers.as_slice();
        }
        let losses = &mut self.counters.losses;
        let piece = Piece::single(packet, len, seen.truesize);
        let doomed = &mut |packet: Mbuf, reason| losses.add(Loss::Qdisc(reason), packet.pkt_len());
        self.egress.enqueue(now, &seen.arrival, seen.is_control, piece, doomed);
    }

    /// Why the egress port could never send the packet. Found out before it is queued: a driver that
    /// refuses it would hold up everything behind it.
    #[inline]
    fn unfit(&self, packet: &mut Mbuf) -> Option<Loss> {
        let mtu = u32::from(self.settings.mtu);
        if packet.pkt_len() > mtu + ETHERNET && classify::mtu_len(packet) > mtu {
            return Some(Loss::Oversize);
        }
        let sendable = self.tx.multi_segs() || packet.linearize().is_ok();
        (!sendable).then_some(Loss::Segments)
    }
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

/// Frames between the one whose headers are being fetched and the one being classified: four
/// times some 30 ns of work hide one memory access.
const PREFETCH_AHEAD: usize = 4;
