//! The sending end of a TCP stream: window, round-trip time, ACK clock, ECN response.
//!
//! Loss recovery keeps a scoreboard (RFC 6675); a segment counts as lost when three that were sent
//! after it have arrived (RFC 8985's order of transmission without its reordering window, so lost
//! retransmissions are found too), or by timeout (RFC 6298). Connections are open from the start, and
//! there is no receive window but [`Tcp::capped`], no pacing and no tail loss probe.

use super::congestion::Congestion;
use super::rtt::Rtt;
use crate::net::packet::{Ack, Body, FRAME, MSS};
use shaper::time::{Duration, Instant};
use std::collections::{BTreeSet, VecDeque};

/// A sender.
#[derive(Debug)]
pub struct Tcp {
    congestion: Box<dyn Congestion>,
    supply: Supply,
    /// The first segment that is not supplied yet.
    supplied: u64,
    /// When there will be more.
    resupply: Option<Instant>,
    /// The first segment that has not been acknowledged; the board begins with it.
    first: u64,
    board: VecDeque<Segment>,
    in_flight: usize,
    /// Numbers of the segments that count as lost.
    lost: BTreeSet<u64>,
    sacked: usize,
    /// Segments by the order of their transmissions, as far as losses have not been looked for.
    order: VecDeque<(u64, u64)>,
    /// The ranges beyond that the last answer told of.
    told: [(u64, u64); 3],
    transmissions: u64,
    /// The latest transmission that has arrived, and one more.
    newest: u64,
    /// Transmissions before this one have been answered for by a reduction.
    answered: u64,
    /// To be said with the next new segment.
    cwr: bool,
    /// The window was what held the sender back.
    limited: bool,
    rtt: Rtt,
    timeout: Option<Instant>,
    /// Timeouts in a row.
    backoff: u32,
    /// When a segment was sent last.
    busy: Instant,
    /// Segments that may be on their way, whatever the window is.
    most: usize,
}

/// What there is to send.
#[derive(Clone, Copy, Debug)]
pub enum Supply {
    /// Always more.
    Bulk,
    /// On and off: `segments` at once, and the next ones `pause` after all have arrived.
    Bursts {
        /// Full segments of a burst.
        segments: u64,
        /// Time between the end of one and the start of the next.
        pause: Duration,
    },
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Number of its latest transmission.
    transmission: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    Arrived,
}

impl Tcp {
    /// A sender under `congestion`.
    pub fn new(congestion: impl Congestion + 'static, supply: Supply) -> Self {
        let supplied = match supply {
            Supply::Bulk => u64::MAX,
            Supply::Bursts { segments, .. } => segments,
        };
        Self {
            congestion: Box::new(congestion),
            supply,
            supplied,
            resupply: None,
            first: 0,
            board: VecDeque::new(),
            in_flight: 0,
            lost: BTreeSet::new(),
            sacked: 0,
            order: VecDeque::new(),
            told: [(0, 0); 3],
            transmissions: 0,
            newest: 0,
            answered: 0,
            cwr: false,
            limited: false,
            rtt: Rtt::default(),
            timeout: None,
            backoff: 0,
            busy: Instant::ZERO,
            most: usize::MAX,
        }
    }

    /// Never more than `segments` on their way: the receiver's window, or the buffer of the sender.
    #[must_use]
    pub fn capped(mut self, segments: usize) -> Self {
        self.most = segments.max(1);
        self
    }

    pub(super) fn poll(&mut self, now: Instant) -> Option<(u32, Body)> {
        let next = self.first + self.board.len() as u64;
        if self.lost.is_empty() && next >= self.supplied {
            self.limited = false;
            return None;
        }
        if self.room() == 0 {
            self.held(true);
            return None;
        }
        let segment = Segment { transmission: self.transmissions, state: State::InFlight };
        let (number, cwr) = if let Some(number) = self.lost.pop_first()
            && let Some(lost) = self.board.get_mut((number - self.first) as usize)
        {
            *lost = segment;
            (number, false)
        } else {
            self.board.push_back(segment);
            (next, std::mem::take(&mut self.cwr))
        };
        self.order.push_back((segment.transmission, number));
        self.transmissions += 1;
        self.in_flight += 1;
        self.busy = now;
        self.timeout.get_or_insert(now + self.timeout_span());
        Some((FRAME, Body::Segment { number, cwr }))
    }

    /// Segments that may be sent now.
    pub(super) fn room(&self) -> usize {
        self.window().saturating_sub(self.in_flight)
    }

    /// Segments that may be on their way; at least one.
    pub(super) fn window(&self) -> usize {
        (self.congestion.window() as usize).max(1).min(self.most)
    }

    /// Whether a segment has to be sent again.
    pub(super) fn repairs(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The window, or something else, holds the sender back.
    pub(super) fn held(&mut self, by_window: bool) {
        self.limited = by_window && self.congestion.window() < self.most as f64;
    }

    /// Segments on their way.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A window a round, and a fifth more or in slow start as much again, in bytes per second:
    /// `tcp_pacing_ca_ratio` and `tcp_pacing_ss_ratio` of ip-sysctl. `None` before the first round.
    pub(super) fn pacing_rate(&self) -> Option<u64> {
        let round = self.rtt.smoothed().as_nanos();
        let percent = if self.congestion.window() < self.congestion.threshold() / 2.0 { 200 } else { 120 };
        let bytes = self.window() as u64 * u64::from(MSS) * percent / 100;
        (bytes * 1_000_000_000).checked_div(round)
    }

    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack) {
        let delivered = self.take_acknowledged(ack.upto) + self.mark_arrived(&ack.blocks);
        if delivered > 0 {
            self.rtt.add(now.since(ack.echo));
            self.backoff = 0;
        }
        let was_congested = self.find_lost() || ack.ece && self.newest > self.answered;
        if was_congested {
            self.answered = self.transmissions;
            self.congestion.on_congestion();
            self.cwr = ack.ece;
        } else if delivered > 0 && self.limited && self.newest > self.answered {
            self.congestion.on_delivery(now, delivered, self.rtt.smoothed());
        }
        let waits = self.in_flight > 0 || self.repairs();
        if delivered > 0 || !waits {
            self.timeout = waits.then(|| now + self.timeout_span());
        }
        self.order_more(now);
    }

    pub(super) fn on_time(&mut self, now: Instant) {
        if self.timeout.is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
        if self.resupply.is_some_and(|at| at <= now)
            && let Supply::Bursts { segments, .. } = self.supply
        {
            self.resupply = None;
            self.supplied += segments;
            if now.since(self.busy) > self.rtt.timeout() {
                self.congestion.on_idle();
            }
        }
    }

    pub(super) fn wants(&self) -> Option<Instant> {
        self.timeout.into_iter().chain(self.resupply).min()
    }

    fn take_acknowledged(&mut self, upto: u64) -> u32 {
        let mut delivered = 0;
        while self.first < upto
            && let Some(segment) = self.board.pop_front()
        {
            match segment.state {
                State::InFlight => self.in_flight -= 1,
                State::Lost => _ = self.lost.remove(&self.first),
                State::Arrived => self.sacked -= 1,
            }
            self.first += 1;
            delivered += u32::from(segment.state != State::Arrived);
            self.newest = self.newest.max(segment.transmission + 1);
        }
        delivered
    }

    fn mark_arrived(&mut self, blocks: &[(u64, u64); 3]) -> u32 {
        let known = std::mem::replace(&mut self.told, *blocks);
        let mut delivered = 0;
        for &(from, to) in blocks {
            let mut number = from.max(self.first);
            while number < to {
                if let Some((_, end)) = known.iter().find(|(from, to)| (*from..*to).contains(&number)) {
                    number = *end;
                    continue;
                }
                delivered += u32::from(self.mark_one(number));
                number += 1;
            }
        }
        delivered
    }

    /// Whether segment `number` had not been known to have arrived.
    fn mark_one(&mut self, number: u64) -> bool {
        let Some(segment) = self.board.get_mut((number - self.first) as usize) else { return false };
        match segment.state {
            State::InFlight => self.in_flight -= 1,
            State::Lost => _ = self.lost.remove(&number),
            State::Arrived => return false,
        }
        segment.state = State::Arrived;
        self.sacked += 1;
        self.newest = self.newest.max(segment.transmission + 1);
        true
    }

    /// Whether a segment was lost that no reduction has answered for yet.
    fn find_lost(&mut self) -> bool {
        let mut unanswered = false;
        if self.sacked == 0 {
            return false;
        }
        while let Some(&(transmission, number)) = self.order.front()
            && transmission + REORDERING < self.newest
        {
            self.order.pop_front();
            let place = number.checked_sub(self.first).and_then(|index| self.board.get_mut(index as usize));
            if let Some(segment) = place
                && segment.state == State::InFlight
                && segment.transmission == transmission
            {
                segment.state = State::Lost;
                self.in_flight -= 1;
                self.lost.insert(number);
                unanswered |= transmission >= self.answered;
            }
        }
        unanswered
    }

    fn on_timeout(&mut self, now: Instant) {
        for (segment, number) in self.board.iter_mut().zip(self.first..) {
            if segment.state == State::InFlight {
                segment.state = State::Lost;
                self.lost.insert(number);
            }
        }
        self.in_flight = 0;
        self.answered = self.transmissions;
        if self.backoff == 0 {
            self.congestion.on_timeout();
        }
        self.backoff += 1;
        self.timeout = Some(now + self.timeout_span());
    }

    fn timeout_span(&self) -> Duration {
        let span = self.rtt.timeout().as_nanos() << self.backoff.min(10);
        Duration::from_nanos(span.min(LONGEST_TIMEOUT.as_nanos()))
    }

    /// All has arrived: the next burst comes after the pause.
    fn order_more(&mut self, now: Instant) {
        if let Supply::Bursts { pause, .. } = self.supply
            && self.first >= self.supplied
            && self.resupply.is_none()
        {
            self.resupply = Some(now + pause);
        }
    }
}

/// Later transmissions that must have arrived before an earlier one counts as lost.
const REORDERING: u64 = 3;
const LONGEST_TIMEOUT: Duration = Duration::from_millis(60_000);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::sender::Reno;

    fn numbers(tcp: &mut Tcp, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| tcp.poll(now))
            .map(|(_, body)| match body {
                Body::Segment { number, .. } => number,
                _ => unreachable!(),
            })
            .collect()
    }

    fn ack(upto: u64, block: (u64, u64)) -> Ack {
        Ack { upto, blocks: [block, (0, 0), (0, 0)], ..Ack::default() }
    }

    #[test]
    fn sends_a_window_and_retransmits_what_is_missing() {
        let now = Instant::from_nanos(100_000_000);
        let mut tcp = Tcp::new(Reno::new(), Supply::Bulk);
        assert_eq!(numbers(&mut tcp, now), (0..10).collect::<Vec<_>>());
        tcp.on_ack(now, &ack(2, (0, 0)));
        assert_eq!(numbers(&mut tcp, now), [10, 11, 12, 13], "slow start");
        tcp.on_ack(now, &ack(2, (3, 5)));
        assert_eq!(tcp.lost.len(), 0, "two later ones may be reordering");
        tcp.on_ack(now, &ack(2, (3, 7)));
        assert_eq!((tcp.lost.len(), tcp.congestion.window()), (1, 7.0), "14 at the loss, halved once");
        assert_eq!(numbers(&mut tcp, now), [0; 0], "seven are in flight");
        tcp.on_ack(now, &ack(2, (3, 8)));
        assert_eq!(numbers(&mut tcp, now), [2], "the lost one first");
        tcp.on_ack(now, &ack(8, (0, 0)));
        assert_eq!(tcp.congestion.window(), 7.0 + 1.0 / 7.0);
    }

    #[test]
    fn marks_reduce_once_per_window_and_are_answered() {
        let now = Instant::from_nanos(100_000_000);
        let mut tcp = Tcp::new(Reno::new(), Supply::Bulk);
        numbers(&mut tcp, now);
        for upto in 1..=10 {
            tcp.on_ack(now, &Ack { ece: true, ..ack(upto, (0, 0)) });
        }
        assert_eq!(tcp.congestion.window(), 5.0);
        let cwr: Vec<bool> = std::iter::from_fn(|| tcp.poll(now))
            .map(|(_, body)| matches!(body, Body::Segment { cwr: true, .. }))
            .collect();
        assert_eq!(cwr, [true, false, false, false, false]);
    }

    #[test]
    fn a_timeout_sends_all_again_from_one_and_backs_off() {
        let start = Instant::ZERO;
        let mut tcp = Tcp::new(Reno::new(), Supply::Bulk);
        numbers(&mut tcp, start);
        let due = start + Duration::from_millis(1_000);
        assert_eq!(tcp.wants(), Some(due));
        tcp.on_time(due);
        assert_eq!(numbers(&mut tcp, due), [0]);
        assert_eq!(tcp.wants(), Some(due + Duration::from_millis(2_000)));
    }

    #[test]
    fn bursts_end_and_come_again() {
        let (start, pause) = (Instant::ZERO, Duration::from_millis(500));
        let mut tcp = Tcp::new(Reno::new(), Supply::Bursts { segments: 4, pause });
        assert_eq!(numbers(&mut tcp, start).len(), 4);
        tcp.on_ack(start, &ack(4, (0, 0)));
        assert_eq!(tcp.wants(), Some(start + pause));
        tcp.on_time(start + pause);
        assert_eq!(numbers(&mut tcp, start + pause), [4, 5, 6, 7]);
    }
}
