//! The receiving end of a TCP stream: RFC 5681 section 4.2 (every second segment is answered, at
//! once when something is missing, within 40 ms else), RFC 2018 (SACK), RFC 3168 (ECN echo).

use crate::net::packet::Ack;
use shaper::packet::DsField;
use shaper::time::{Duration, Instant};

/// What has arrived.
#[derive(Debug, Default)]
pub struct Receiver {
    /// All segments below have arrived.
    upto: u64,
    /// Ranges beyond that have arrived; those that grew last come first.
    beyond: Vec<(u64, u64)>,
    ece: bool,
    unanswered: u32,
    /// When the answer is due, whatever comes.
    due: Option<Instant>,
    /// When the earliest unanswered segment was sent.
    echo: Instant,
}

impl Receiver {
    /// A segment has arrived. Returns whether it is new.
    pub fn on_segment(&mut self, now: Instant, number: u64, ds: DsField, cwr: bool, sent: Instant) -> bool {
        if cwr {
            self.ece = false;
        }
        let marked = ds.ecn() == DsField::CE;
        let signal_changes = marked && !self.ece;
        self.ece |= marked;
        if self.unanswered == 0 {
            self.echo = sent;
        }
        let in_order = number == self.upto && self.beyond.is_empty();
        let is_new = self.insert(number);
        self.unanswered += 1;
        let at_once = !in_order || signal_changes || self.unanswered >= 2;
        let due = if at_once { now } else { now + DELAY };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        is_new
    }

    /// The answer, if one is due.
    pub fn poll(&mut self, now: Instant) -> Option<Ack> {
        if self.due? > now {
            return None;
        }
        self.due = None;
        self.unanswered = 0;
        let mut blocks = [(0, 0); 3];
        for (block, range) in blocks.iter_mut().zip(&self.beyond) {
            *block = *range;
        }
        Some(Ack { upto: self.upto, blocks, ece: self.ece, stamp: now, echo: self.echo })
    }

    /// When an answer is due.
    pub fn wants(&self) -> Option<Instant> {
        self.due
    }

    fn insert(&mut self, number: u64) -> bool {
        if number < self.upto || self.beyond.iter().any(|range| (range.0..range.1).contains(&number)) {
            return false;
        }
        let mut range = (number, number + 1);
        self.beyond.retain(|&(from, to)| {
            let touches = to == number || from == number + 1;
            if touches {
                range = (range.0.min(from), range.1.max(to));
            }
            !touches
        });
        if range.0 <= self.upto {
            self.upto = range.1;
        } else {
            self.beyond.insert(0, range);
        }
        true
    }
}

/// Linux's least delay of an acknowledgement.
const DELAY: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests {
    use super::*;

    fn take(receiver: &mut Receiver, now: Instant, number: u64, ds: u8, cwr: bool) -> bool {
        receiver.on_segment(now, number, DsField::ip(ds), cwr, now)
    }

    #[test]
    fn answers_every_second_segment_or_after_a_while() {
        let mut receiver = Receiver::default();
        let start = Instant::from_nanos(1);
        assert!(take(&mut receiver, start, 0, 2, false));
        assert!(receiver.poll(start).is_none());
        assert_eq!(receiver.wants(), Some(start + DELAY));
        assert_eq!(receiver.poll(start + DELAY).map(|ack| (ack.upto, ack.echo)), Some((1, start)));
        take(&mut receiver, start, 1, 2, false);
        take(&mut receiver, start, 2, 2, false);
        assert_eq!(receiver.poll(start).map(|ack| ack.upto), Some(3));
        assert_eq!(receiver.wants(), None);
    }

    #[test]
    fn tells_what_lies_beyond_a_gap_the_latest_first() {
        let mut receiver = Receiver::default();
        let now = Instant::ZERO;
        for number in [1, 2, 5, 3] {
            assert!(take(&mut receiver, now, number, 2, false));
        }
        let ack = receiver.poll(now).unwrap();
        assert_eq!((ack.upto, ack.blocks), (0, [(1, 4), (5, 6), (0, 0)]));
        assert!(!take(&mut receiver, now, 2, 2, false));
        assert!(take(&mut receiver, now, 0, 2, false));
        assert_eq!(receiver.poll(now).map(|ack| (ack.upto, ack.blocks[0])), Some((4, (5, 6))));
        take(&mut receiver, now, 4, 2, false);
        assert_eq!(receiver.poll(now).map(|ack| (ack.upto, ack.blocks[0])), Some((6, (0, 0))));
    }

    #[test]
    fn echoes_congestion_until_the_sender_has_answered() {
        let mut receiver = Receiver::default();
        let now = Instant::ZERO;
        let mut ece = |number, ds, cwr| {
            take(&mut receiver, now, number, ds, cwr);
            receiver.poll(now).map(|ack| ack.ece)
        };
        assert_eq!(ece(0, DsField::CE, false), Some(true), "at once");
        assert_eq!((ece(1, 2, false), ece(2, 2, false)), (None, Some(true)));
        assert_eq!((ece(3, 2, true), ece(4, 2, false)), (None, Some(false)));
    }
}
