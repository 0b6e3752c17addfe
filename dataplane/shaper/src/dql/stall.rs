//! The stall detector: no completion for a time in whose first half something was queued.
//!
//! A ring of 256 bits, one per tick, remembers when something was queued.

use crate::conformance::{Conformance, Weir};
use core::marker::PhantomData;

/// Stalls of one device queue.
#[derive(Clone, Debug, Default)]
pub struct Stall<C: Conformance = Weir> {
    threshold: u16,
    /// Time of the last completion in ticks.
    reap_time: u64,
    history: [u64; WORDS],
    /// Number (ticks / 64) of the newest word.
    head: u64,
    count: u64,
    longest: u64,
    conformance: PhantomData<C>,
}

impl<C: Conformance> Stall<C> {
    /// Ticks without a completion from which on it is a stall; 0: off.
    pub const fn threshold(&self) -> u16 {
        self.threshold
    }

    /// Stalls counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest stall in ticks.
    pub const fn longest(&self) -> u64 {
        self.longest
    }

    /// Time of the last completion in ticks, while switched on.
    pub const fn reap_time(&self) -> u64 {
        self.reap_time
    }

    /// Number (ticks / 64) of the newest word of the history, and its four words.
    pub const fn history(&self) -> (u64, &[u64; WORDS]) {
        (self.head, &self.history)
    }

    pub(super) fn set_threshold(&mut self, now: u64, ticks: u16) {
        if self.threshold == 0 && ticks != 0 {
            self.reap_time = now;
            if !C::DQL_STALL_KEEPS_HISTORY {
                self.clear(now);
            }
        }
        self.threshold = ticks;
    }

    pub(super) fn reset(&mut self, now: u64) {
        self.reap_time = now;
        self.clear(now);
    }

    fn clear(&mut self, now: u64) {
        self.head = now / BITS;
        self.history = [0; WORDS];
    }

    #[inline]
    pub(super) fn queued(&mut self, now: u64) {
        if self.threshold != 0 {
            self.remember(now);
        }
    }

    fn remember(&mut self, now: u64) {
        let word = now / BITS;
        if word != self.head {
            for entered in 0..WORDS as u64 {
                let entered = self.head.wrapping_add(entered);
                if word == entered {
                    break;
                }
                *self.word(entered.wrapping_add(1)) = 0;
            }
            self.head = word;
        }
        *self.word(word) |= 1 << (now % BITS);
    }

    #[inline]
    pub(super) fn completed(&mut self, now: u64) {
        if self.threshold != 0 {
            if let Some(since) = self.stalled_since(now) {
                let length = now.wrapping_sub(since);
                let length = if C::DQL_STALL_MAX_16_BITS { length & 0xffff } else { length };
                self.count += 1;
                self.longest = self.longest.max(length);
            }
            self.reap_time = now;
        }
    }

    /// The first tick with something queued in the first half of a stall, if this is one.
    fn stalled_since(&mut self, now: u64) -> Option<u64> {
        let threshold = u64::from(self.threshold);
        if before(now, self.reap_time.wrapping_add(threshold)) {
            return None;
        }
        let mut start = self.head.wrapping_sub(WORDS as u64 - 1).wrapping_mul(BITS);
        let after_reap = self.reap_time.wrapping_add(1);
        if before(start, after_reap) {
            start = after_reap;
        }
        let mut end = self.head.wrapping_mul(BITS).wrapping_add(BITS - 1);
        if before(now, end.wrapping_add(threshold / 2)) {
            end = now.wrapping_sub(threshold / 2);
        }
        // The ring holds 256 ticks, so no more can lie between start and end.
        (0..WORDS as u64 * BITS)
            .map(|offset| start.wrapping_add(offset))
            .take_while(|tick| !before(end, *tick))
            .find(|tick| *self.word(tick / BITS) & (1 << (tick % BITS)) != 0)
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        let [a, b, c, d] = &mut self.history;
        match number % WORDS as u64 {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        }
    }
}

/// Whether `a` is earlier than `b`, by signed difference.
const fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

const WORDS: usize = 4;
const BITS: u64 = u64::BITS as u64;

#[cfg(test)]
mod tests {
    use super::super::Dql;
    use crate::conformance::{Conformance, Linux, Weir};

    fn watched<C: Conformance>(now: u64) -> Dql<C> {
        let mut dql = Dql::new(now, 250);
        dql.set_stall_threshold(now, 25);
        dql
    }

    #[test]
    fn a_stall_needs_the_time_and_something_queued_in_its_first_half() {
        for (queued, completed, stalls) in [(0, 24, 0), (1, 25, 1), (13, 25, 1), (14, 25, 0), (14, 26, 1)] {
            let mut dql = watched::<Weir>(1_000);
            dql.queued(1_000 + queued, 1).unwrap();
            dql.completed(1_000 + completed, 1).unwrap();
            assert_eq!(dql.stall().count(), stalls, "queued at {queued}, completed at {completed}");
        }
    }

    /// Fault 53.
    #[test]
    fn the_longest_stall_is_not_cut() {
        fn longest<C: Conformance>() -> u64 {
            let mut dql = watched::<C>(0);
            dql.queued(1, 1).unwrap();
            dql.completed(70_001, 1).unwrap();
            dql.stall().longest()
        }
        assert_eq!(longest::<Weir>(), 70_000);
        assert_eq!(longest::<Linux>(), 70_000 - 65_536);
    }

    /// Fault 54.
    #[test]
    fn switching_on_starts_with_a_clean_history() {
        fn history<C: Conformance>() -> (u64, [u64; 4]) {
            let mut dql = watched::<C>(0);
            dql.queued(5, 1).unwrap();
            dql.set_stall_threshold(6, 0);
            dql.set_stall_threshold(640, 25);
            let (head, words) = dql.stall().history();
            (head, *words)
        }
        assert_eq!(history::<Weir>(), (10, [0; 4]));
        assert_eq!(history::<Linux>(), (0, [1 << 5, 0, 0, 0]));
    }
}
