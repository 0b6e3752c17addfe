//! A TCP stream as its host hands it down: in super-packets, and not too many at a time.
//!
//! * TSO autosizing (`tcp_min_tso_segs` of ip-sysctl): a super-packet is what the stream sends in a
//!   millisecond, two segments at least and 64 KB at most.
//! * `tcp_tso_win_divisor`: a super-packet waits for acknowledgements until it is as large as that,
//!   or a third of the window.
//! * TCP small queues (`tcp_limit_output_bytes`): no more than a millisecond's worth or two
//!   super-packets lie below TCP, where who sends them says when they are no longer there.

use super::tcp::Tcp;
use crate::net::packet::{Ack, Body, MSS};
use shaper::time::Instant;

/// A sender of super-packets.
#[derive(Debug)]
pub struct Socket {
    tcp: Tcp,
    tso: Tso,
    small_queue: SmallQueue,
    /// Segments below TCP.
    below: u64,
    /// Taken from TCP and not part of the last super-packet.
    next: Option<(u64, bool)>,
}

/// How large super-packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tso {
    /// None: single segments.
    Off,
    /// What the stream sends in a millisecond.
    Autosized,
    /// As before autosizing: as large as half of the window allows.
    Whole,
}

/// How much may lie below TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallQueue {
    /// Whatever the window allows: who sends is on another host.
    Off,
    /// A millisecond at the pacing rate, or two super-packets if that is more.
    Millisecond,
    /// So many segments.
    Segments(u64),
}

/// Segments that follow each other, in one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Number of the first one.
    pub first: u64,
    /// How many; at most [`MOST_SEGMENTS`].
    pub segments: u16,
    /// The first says that the window was reduced (RFC 3168).
    pub cwr: bool,
}

impl Socket {
    /// A stream that hands down packets of the size that `tso` says, as many as it likes.
    pub fn new(tcp: Tcp, tso: Tso) -> Self {
        Self { tcp, tso, small_queue: SmallQueue::Off, below: 0, next: None }
    }

    /// With TCP small queues.
    #[must_use]
    pub fn with(mut self, small_queue: SmallQueue) -> Self {
        self.small_queue = small_queue;
        self
    }

    /// The next packet that may be handed down at `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Train> {
        let goal = self.goal();
        if self.next.is_none() && !self.may_begin(goal) {
            return None;
        }
        let (first, cwr) = self.next.take().or_else(|| self.take(now))?;
        let mut train = Train { first, segments: 1, cwr };
        while u64::from(train.segments) < goal && self.tcp.room() > 0 {
            let Some((number, cwr)) = self.take(now) else { break };
            if number != first + u64::from(train.segments) || cwr {
                self.next = Some((number, cwr));
                break;
            }
            train.segments += 1;
        }
        self.below += u64::from(train.segments);
        Some(train)
    }

    /// `segments` have left what lies below TCP.
    pub fn released(&mut self, segments: u16) {
        self.below = self.below.saturating_sub(segments.into());
    }

    /// Segments that lie below TCP.
    pub fn below(&self) -> u64 {
        self.below
    }

    /// An answer has come.
    pub fn on_ack(&mut self, now: Instant, ack: &Ack) {
        self.tcp.on_ack(now, ack);
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Instant) {
        self.tcp.on_time(now);
    }

    /// When to be told of time again, and polled.
    pub fn wants(&self) -> Option<Instant> {
        self.tcp.wants()
    }

    /// Segments of a super-packet as things are.
    fn goal(&self) -> u64 {
        let window = self.tcp.window() as u64;
        let goal = match self.tso {
            Tso::Off => 1,
            Tso::Autosized => self.millisecond().max(LEAST_SEGMENTS).min(window / 3),
            Tso::Whole => window / 2,
        };
        let goal = match self.small_queue {
            SmallQueue::Segments(most) => goal.min(most / 2),
            _ => goal,
        };
        goal.clamp(1, MOST_SEGMENTS)
    }

    /// Segments of a millisecond.
    fn millisecond(&self) -> u64 {
        self.tcp.pacing_rate().map_or(0, |rate| rate / 1_000 / u64::from(MSS))
    }

    fn may_begin(&mut self, goal: u64) -> bool {
        let most = match self.small_queue {
            SmallQueue::Off => u64::MAX,
            SmallQueue::Millisecond => self.millisecond().max(2 * goal),
            SmallQueue::Segments(most) => most.max(1),
        };
        let is_full = self.below + goal > most;
        let waits_for_answers =
            !self.tcp.repairs() && self.tcp.in_flight() > 0 && (self.tcp.room() as u64) < goal;
        if is_full || waits_for_answers {
            self.tcp.held(!is_full && waits_for_answers);
        }
        !is_full && !waits_for_answers
    }

    fn take(&mut self, now: Instant) -> Option<(u64, bool)> {
        match self.tcp.poll(now)? {
            (_, Body::Segment { number, cwr }) => Some((number, cwr)),
            _ => None,
        }
    }
}

/// Segments of 64 KB.
pub const MOST_SEGMENTS: u64 = 45;
/// `tcp_min_tso_segs`.
const LEAST_SEGMENTS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::sender::{Reno, Supply};
    use shaper::time::Duration;

    fn socket(tso: Tso) -> Socket {
        Socket::new(Tcp::new(Reno::new(), Supply::Bulk), tso)
    }

    fn sizes(socket: &mut Socket, now: Instant) -> Vec<u16> {
        std::iter::from_fn(|| socket.poll(now)).map(|train| train.segments).collect()
    }

    /// An answer to all of the first `upto` segments after `round`.
    fn answer(socket: &mut Socket, round: Duration, upto: u64) -> Instant {
        let now = Instant::ZERO + round;
        socket.on_ack(now, &Ack { upto, echo: Instant::ZERO, ..Ack::default() });
        now
    }

    #[test]
    fn packets_are_a_millisecond_long() {
        let mut socket = socket(Tso::Autosized);
        assert_eq!(sizes(&mut socket, Instant::ZERO), [2, 2, 2, 2, 2], "nothing is known yet");
        // 20 segments in 5 ms, twice that in slow start: 8 a millisecond, but a third of 20 is 6.
        let now = answer(&mut socket, Duration::from_millis(5), 10);
        assert_eq!(sizes(&mut socket, now), [6, 6, 6], "two more would not fill one");
        let mut whole = super::tests::socket(Tso::Whole);
        assert_eq!(sizes(&mut whole, Instant::ZERO), [5, 5]);
        let mut off = super::tests::socket(Tso::Off);
        assert_eq!(sizes(&mut off, Instant::ZERO), [1; 10]);
    }

    #[test]
    fn small_queues_hold_two_packets_or_a_millisecond() {
        let mut socket = socket(Tso::Autosized).with(SmallQueue::Millisecond);
        assert_eq!(sizes(&mut socket, Instant::ZERO), [2, 2]);
        socket.released(2);
        assert_eq!(sizes(&mut socket, Instant::ZERO), [2]);
        let now = answer(&mut socket, Duration::from_millis(1), 2);
        assert_eq!(socket.below(), 4);
        // The window was not the limit and has not grown: in slow start 20 a millisecond.
        assert_eq!(sizes(&mut socket, now), [3, 3]);
    }

    #[test]
    fn a_lost_segment_travels_alone() {
        let mut socket = socket(Tso::Whole);
        let now = Instant::ZERO;
        sizes(&mut socket, now);
        let ack = Ack { upto: 1, blocks: [(2, 8), (0, 0), (0, 0)], ..Ack::default() };
        socket.on_ack(now, &ack);
        let first = socket.poll(now);
        assert_eq!(first.map(|train| (train.first, train.segments)), Some((1, 1)));
    }
}
