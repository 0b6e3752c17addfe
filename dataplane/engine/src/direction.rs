//! One direction of a link: from one port's receive queue through a receiver, an [`Egress`] and a
//! sender to the other port's transmit queue.
//!
//! Invariant between turns: received = sent + lost + waiting, packets and bytes alike, where
//! waiting is what the egress and the sender's out-box hold. Nothing else holds a packet.

use crate::classify::Classifier;
use crate::counters::{Counters, Loss, Tally};
use crate::egress::Egress;
use crate::flight::Flight;
use crate::gate::Gate;
use crate::page::DirectionPage;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::sojourn::Sojourn;
use dpdk::{Mbuf, RxQueue, TxQueue};
use shaper::gso::Split;
use shaper::time::{Duration, Instant};

/// One direction at work.
#[derive(Debug)]
pub struct Direction {
    receiver: Receiver,
    egress: Egress<Mbuf>,
    sender: Sender,
    link: Link,
    link_down_hold: Duration,
    split: Split,
    counters: Counters,
}

/// What a direction is told once.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The egress port's MTU in bytes: the largest network-layer packet it carries.
    pub mtu: u16,
    /// How long packets are kept for an egress link that is down.
    pub link_down_hold: Duration,
    /// What becomes of super-packets.
    pub split: Split,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    Down { since: Option<Instant> },
}

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
            receiver: Receiver::new(rx, classifier, settings.mtu, tx.multi_segs()),
            egress,
            sender: Sender::new(tx),
            link: Link::Up,
            link_down_hold: settings.link_down_hold,
            split: settings.split,
            counters: Counters::default(),
        }
    }

    /// Keeps the transmit ring short from now on.
    #[must_use]
    pub fn governed(mut self, gate: Gate) -> Self {
        self.sender.govern(gate);
        self
    }

    /// One turn: send what is due, take in what has come, and send again if the wire was idle.
    /// Returns the number of packets moved.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut moved = self.transmit(now);
        let was_idle = self.is_empty();
        let received = self.receiver.receive(now, &mut self.egress, &mut self.counters);
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
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.egress.is_empty() && self.sender.is_empty()
    }

    /// When the next turn can do something without a packet arriving: `None` while nothing waits.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.link {
            Link::Up if !self.sender.is_empty() => Some(Instant::ZERO),
            Link::Up => self.egress.next_wakeup(),
            Link::Down { since } if !self.is_empty() => {
                Some(since.map_or(Instant::ZERO, |since| since + self.link_down_hold))
            }
            Link::Down { .. } => None,
        }
    }

    /// The egress link went up or down.
    pub fn set_link(&mut self, up: bool) {
        match (up, self.link) {
            (true, _) => {
                self.link = Link::Up;
                self.sender.link_up();
            }
            (false, Link::Up) => self.link = Link::Down { since: None },
            (false, Link::Down { .. }) => {}
        }
    }

    /// Super-packets shall be cut another way from now on.
    pub fn set_split(&mut self, split: Split) {
        self.split = split;
    }

    /// Gives up every waiting packet, counted as `loss`.
    pub fn flush(&mut self, loss: Loss) {
        let losses = &mut self.counters.losses;
        self.sender.flush(loss, losses);
        self.egress.flush(&mut |packet: Mbuf, _| losses.add(loss, packet.pkt_len()));
    }

    /// Packets and bytes that wait.
    pub fn waiting(&self) -> Tally {
        self.egress.queued().plus(self.sender.waiting())
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

    /// What keeps the transmit ring short, if anything does.
    pub fn gate(&self) -> Option<&Gate> {
        self.sender.gate()
    }

    /// Gives away what was in flight since the last time, in exchange for an empty one.
    pub fn exchange_flight(&mut self, flight: &mut Flight) {
        if let Some(gate) = self.sender.gate_mut() {
            gate.exchange_flight(flight);
        }
    }

    /// Writes the statistics into a page.
    pub fn report(&self, page: &mut DirectionPage) {
        page.counters = self.counters;
        page.waiting = self.waiting();
        page.control = self.egress.control_stats();
        page.qdisc = Some(self.egress.qdisc().stats());
        page.limiter = self.egress.limiter().map(|limiter| *limiter.stats());
        page.gate = self.sender.gate().map(Gate::report);
        page.link_up = self.link == Link::Up;
    }

    #[inline]
    fn transmit(&mut self, now: Instant) -> usize {
        if self.link == Link::Up {
            return self.sender.send(now, &mut self.egress, &mut self.counters);
        }
        self.sender.reap(now);
        self.hold(now);
        0
    }

    /// The link is down: keep what waits for a while, then give it up.
    #[cold]
    fn hold(&mut self, now: Instant) {
        let Link::Down { since } = self.link else { return };
        let since = since.unwrap_or(now);
        self.link = Link::Down { since: Some(since) };
        if now.since(since) > self.link_down_hold && !self.is_empty() {
            self.flush(Loss::LinkDown);
        }
    }
}
