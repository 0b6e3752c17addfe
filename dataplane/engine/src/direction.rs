//! One direction of a link: from one port's receive queue through a receiver, an [`Egress`] and a
//! sender to the other port's transmit queue.
//!
//! Invariant between turns: received + added - removed = sent + lost + waiting, packets and bytes
//! alike, where waiting is what receiver, egress and sender hold. Cutting adds packets and headers,
//! merging removes them.

use crate::change::{DirectionChange, MOVES};
use crate::classify::Classifier;
use crate::counters::{Counters, Loss, Tally};
use crate::delays::{ByKind, Recorder};
use crate::egress::Egress;
use crate::flight::Flight;
use crate::frame;
use crate::gate::Gate;
use crate::page::DirectionPage;
use crate::plan::GovernorPlan;
use crate::receiver::{Receiver, Setup};
use crate::sender::{LateCut, Sender};
use crate::split::offload::Offload;
use crate::split::{Pieces, Policy};
use crate::talkers::{Sample, Talkers};
use dpdk::{Burst, Mbuf, Mempool, RxQueue, TxQueue};
use shaper::gso::Split;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

/// One direction at work.
#[derive(Debug)]
pub struct Direction {
    receiver: Receiver,
    egress: Egress<Mbuf>,
    sender: Sender,
    link: Link,
    link_down_hold: Duration,
    split: Split,
    link_speed: Option<Rate>,
    /// The last turn received a full burst.
    is_flooded: bool,
    /// Packets for which it would have had the time and did not receive.
    spare: usize,
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
    /// Merge the TCP segments of each receive burst.
    pub gro: bool,
    /// Speed of the egress port's link, if it has one.
    pub link_speed: Option<Rate>,
    /// What may be left to the egress port.
    pub offload: Offload,
}

impl Default for Settings {
    /// Ethernet's usual MTU, a second of patience with a link, super-packets cut to a tenth of a
    /// millisecond, nothing merged, nothing left to the port.
    fn default() -> Self {
        Self {
            mtu: 1500,
            link_down_hold: Duration::from_millis(1_000),
            split: Split::AUTO,
            gro: false,
            link_speed: None,
            offload: Offload::NONE,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    Down { since: Option<Instant> },
}

impl Direction {
    /// A direction that owns its two queues. `buffers` is for the pieces of super-packets, and of no use
    /// to anybody else: see [`crate::pool::PieceSum`]. The link counts as up until told otherwise.
    pub fn new(
        rx: RxQueue,
        tx: TxQueue,
        classifier: Classifier,
        egress: Egress<Mbuf>,
        settings: Settings,
        buffers: &Mempool,
    ) -> Self {
        let Settings { mtu, split, gro, link_speed, offload, .. } = settings;
        let multi_segs = tx.multi_segs();
        let policy = Policy::new(split, egress.rate().or(link_speed), &offload);
        let pieces = || Pieces::new(buffers.clone(), multi_segs);
        let setup = Setup { mtu, multi_segs, gro, pieces: pieces(), offload, policy };
        Self {
            receiver: Receiver::new(rx, classifier, setup),
            egress,
            sender: Sender::new(tx, LateCut::new(pieces(), mtu, offload, policy)),
            link: Link::Up,
            link_down_hold: settings.link_down_hold,
            split,
            link_speed,
            is_flooded: false,
            spare: 0,
            counters: Counters::default(),
        }
    }

    /// Keeps the transmit ring short from now on.
    #[must_use]
    pub fn governed(mut self, gate: Gate) -> Self {
        self.sender.govern(gate);
        self
    }

    /// Samples who sends most from now on.
    #[must_use]
    pub fn sampled(mut self, talkers: Talkers) -> Self {
        self.sender.sample(talkers);
        self
    }

    /// One turn: send what is due, take in what has come, and send again if the wire was idle.
    /// Returns the number of packets moved.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> usize {
        self.refresh();
        let mut moved = self.transmit(now);
        let was_idle = self.is_empty();
        let received = self.receiver.receive(now, &mut self.egress, &mut self.counters);
        self.is_flooded = received >= Burst::CAPACITY;
        self.spare = match self.is_flooded {
            true if moved >= Burst::CAPACITY / 2 => 0,
            // More comes than the wire takes: time is not what is short.
            true => Burst::CAPACITY,
            false => Burst::CAPACITY - received,
        };
        moved += received;
        if was_idle && received > 0 {
            moved += self.transmit(now);
        }
        moved
    }

    /// A turn without receiving, for a direction that is being taken out of service.
    pub fn drain(&mut self, now: Instant) -> usize {
        self.refresh();
        self.transmit(now) + self.receiver.go_on(now, &mut self.egress, &mut self.counters)
    }

    /// Whether nothing waits here.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.egress.is_empty() && self.sender.is_empty() && self.receiver.is_empty()
    }

    /// When the next turn can do something without a packet arriving: `None` while nothing waits.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.link {
            _ if !self.receiver.is_empty() || self.egress.qdisc().is_changing() => Some(Instant::ZERO),
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

    /// The egress link has another speed.
    pub fn set_link_speed(&mut self, speed: Option<Rate>) {
        self.link_speed = speed;
    }

    /// Super-packets shall be cut another way from now on.
    pub fn set_split(&mut self, split: Split) {
        self.split = split;
    }

    /// Other bounds of what may lie in the transmit ring from now on, where something keeps it short.
    pub fn set_governor(&mut self, plan: GovernorPlan) {
        if let Some(gate) = self.sender.gate_mut() {
            gate.set_plan(plan);
        }
    }

    /// Begins with a change at a burst boundary: settings at once; packets that have another place now, or
    /// none any more, in [`Direction::go_on_changing`].
    pub fn begin(&mut self, now: Instant, change: &mut DirectionChange) {
        self.receiver.begin(change);
        self.egress.begin(now, change);
        if let Some(governor) = change.governor {
            self.set_governor(governor);
        }
        (self.split, self.link_down_hold) = (change.split, change.link_down_hold);
    }

    /// Moves, or drops where a limit is lower now, [`MOVES`] packets, or fewer as there is less time to spare,
    /// and takes note once all that waits is where it belongs.
    pub fn go_on_changing(&mut self, now: Instant, change: &mut DirectionChange) {
        if change.is_done {
            return;
        }
        let most = (MOVES * self.spare / Burst::CAPACITY).max(1);
        let losses = &mut self.counters.losses;
        self.egress.proceed(now, most, self.receiver.classifier(), &mut |packet: Mbuf, reason| {
            losses.add(Loss::Qdisc(reason), frame::wire_len(&packet));
        });
        change.is_done = self.egress.finish(change);
        if change.is_done {
            self.receiver.finish(change);
        }
    }

    /// Gives up every waiting packet, counted as `loss`.
    pub fn flush(&mut self, loss: Loss) {
        let losses = &mut self.counters.losses;
        self.sender.flush(loss, losses);
        self.egress.flush(&mut |packet: Mbuf, _| losses.add(loss, frame::wire_len(&packet)));
        self.receiver.flush(loss, losses);
    }

    /// Gives up what waits, uncounted, and gives the queues back.
    pub fn into_queues(self) -> (RxQueue, TxQueue) {
        (self.receiver.into_queue(), self.sender.into_queue())
    }

    /// Packets and bytes that wait.
    pub fn waiting(&self) -> Tally {
        self.egress.queued().plus(self.sender.waiting()).plus(self.receiver.waiting())
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What waits for the wire.
    pub fn egress(&self) -> &Egress<Mbuf> {
        &self.egress
    }

    /// Gives away how long packets took since the last time, in exchange for empty histograms.
    pub fn exchange_delays(&mut self, empty: &mut ByKind<Recorder>) {
        self.egress.exchange_sojourn(&mut empty.sojourn);
        if let Some(gate) = self.sender.gate_mut() {
            gate.exchange_delays(&mut empty.residence, &mut empty.total);
        }
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

    /// What is sampled of what leaves.
    pub fn talkers(&self) -> &Talkers {
        self.sender.talkers()
    }

    /// Gives away who sent most since the last time, in exchange for an empty sample.
    pub fn exchange_talkers(&mut self, now: Instant, sample: &mut Sample) {
        self.sender.talkers_mut().exchange(now, sample);
    }

    /// Writes the statistics into a page.
    pub fn report(&self, page: &mut DirectionPage) {
        page.counters = self.counters;
        page.waiting = self.waiting();
        page.control = self.egress.control_stats();
        page.qdisc = Some(self.egress.qdisc().stats());
        page.tins = self.egress.tins();
        page.limiter = self.egress.limiter().map(|limiter| *limiter.stats());
        page.gate = self.sender.gate().map(Gate::report);
        page.link_up = self.link == Link::Up;
    }

    /// How large pieces may be at the rate of now.
    #[inline]
    fn refresh(&mut self) {
        let drained = self.sender.drain_rate();
        let rate = match (self.egress.rate(), drained) {
            (Some(shaped), Some(drained)) => Some(shaped.min(drained)),
            (shaped, drained) => shaped.or(drained).or(self.link_speed),
        };
        let ring = drained.or(self.link_speed).filter(|_| self.sender.is_governed());
        let late = self.sender.late();
        let offload = *late.offload();
        let policy = Policy::new(self.split, rate, &offload);
        late.refresh(policy, ring);
        self.receiver.refresh(policy, offload);
    }

    #[inline]
    fn transmit(&mut self, now: Instant) -> usize {
        if self.link == Link::Up {
            let bursts = if self.is_flooded { 1 } else { TX_BURSTS };
            return self.sender.send(now, bursts, &mut self.egress, &mut self.counters);
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

/// Bursts sent per turn. Two, so that a backlog shrinks; bounded, so that the other directions get their turn.
/// One while receive bursts are full: a backlog must not be sent at the expense of what arrives, which would
/// be lost in the receive ring, where no AQM chooses it.
const TX_BURSTS: usize = 2;
