//! The algorithm: how many bytes a device queue needs between two completion reports.
//!
//! The limit grows when the queue was held back and ran dry before the next report; it shrinks by
//! the smallest slack that a hold period has seen. Byte counters are 32 bits wide and wrap; time is
//! in ticks of the caller's choice (jiffies in the recorded traces), 64 bits, compared by signed
//! difference. Faults 50 to 54 live behind the conformance.

use super::stall::Stall;
use crate::conformance::{Conformance, Weir};
use core::fmt;

/// The limit of one device queue.
#[derive(Clone, Debug)]
pub struct Dql<C: Conformance = Weir> {
    state: State,
    min_limit: u32,
    max_limit: u32,
    hold_time: u64,
    stall: Stall<C>,
}

/// The variables of the algorithm, bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Total ever queued.
    pub queued: u32,
    /// Total ever completed.
    pub done: u32,
    /// The limit.
    pub limit: u32,
    /// Queueing is allowed up to this total.
    pub ceiling: u32,
    /// Size of the last queue operation.
    pub last: u32,
    /// `queued` at the previous completion.
    pub prev_queued: u32,
    /// `last` at the previous completion.
    pub prev_last: u32,
    /// How far the previous completion found the queue over its limit.
    pub prev_over: u32,
    /// Smallest slack of the hold period; `u32::MAX`: none yet.
    pub lowest: u32,
    /// Start of the hold period in ticks.
    pub hold_start: u64,
}

/// More was reported complete than was outstanding (fault 51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Bytes reported.
    pub reported: u32,
    /// Bytes that were outstanding.
    pub outstanding: u32,
}

/// A queue operation above [`Dql::LARGEST`] (fault 52); it was not taken into the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge(pub u32);

impl<C: Conformance> Dql<C> {
    /// Largest single queue operation in bytes.
    pub const LARGEST: u32 = u32::MAX / 16;
    /// Default upper bound of the limit in bytes.
    pub const MAX_LIMIT: u32 = u32::MAX / 2 - Self::LARGEST;

    /// A limit of zero: the first packet goes out alone, and its completion starts the learning.
    pub fn new(now: u64, hold_time: u64) -> Self {
        let mut dql = Self {
            state: State::default(),
            min_limit: 0,
            max_limit: Self::MAX_LIMIT,
            hold_time,
            stall: Stall::default(),
        };
        dql.reset(now);
        dql
    }

    /// Forgets what is outstanding and what was learned; the bounds stay.
    pub fn reset(&mut self, now: u64) {
        let ceiling = if C::DQL_RESET_KEEPS_CEILING { self.state.ceiling } else { self.min_limit };
        self.state =
            State { limit: self.min_limit, ceiling, lowest: u32::MAX, hold_start: now, ..State::default() };
        self.stall.reset(now);
    }

    /// Bytes that may be queued; negative while over the limit. The caller stops when it is
    /// negative, so one operation may overshoot.
    #[inline]
    pub const fn available(&self) -> i32 {
        self.state.ceiling.wrapping_sub(self.state.queued) as i32
    }

    /// Bytes queued and not completed.
    #[inline]
    pub const fn outstanding(&self) -> u32 {
        self.state.queued.wrapping_sub(self.state.done)
    }

    /// `count` bytes were queued.
    ///
    /// # Errors
    /// [`TooLarge`], and the account is unchanged.
    #[inline]
    pub fn queued(&mut self, now: u64, count: u32) -> Result<(), TooLarge> {
        if count > Self::LARGEST {
            return if C::DQL_LARGE_IS_SILENT { Ok(()) } else { Err(TooLarge(count)) };
        }
        self.state.last = count;
        self.state.queued = self.state.queued.wrapping_add(count);
        self.stall.queued(now);
        Ok(())
    }

    /// `count` bytes were completed; 0 is no completion and changes nothing.
    ///
    /// # Errors
    /// [`Excess`] when more is reported than was outstanding; what was outstanding is completed.
    #[inline]
    pub fn completed(&mut self, now: u64, count: u32) -> Result<(), Excess> {
        self.completed_over(now, count, pos(self.outstanding(), self.state.limit))
    }

    /// As [`Dql::completed`], for an owner that queues again before it reports: `over` is how far
    /// the queue was over its limit, which the totals no longer tell.
    #[inline]
    pub(super) fn completed_over(&mut self, now: u64, count: u32, over: u32) -> Result<(), Excess> {
        let outstanding = self.outstanding();
        if count > outstanding && C::DQL_EXCESS_STOPS {
            return Err(Excess { reported: count, outstanding });
        }
        let taken = count.min(outstanding);
        if taken > 0 {
            let limit = self.decide(now, taken, over);
            self.settle(taken, limit, over);
            self.stall.completed(now);
        }
        if taken == count { Ok(()) } else { Err(Excess { reported: count, outstanding }) }
    }

    /// Completes `count` bytes, at most what is outstanding, without judging the limit by it.
    pub(super) fn completed_unjudged(&mut self, now: u64, count: u32) {
        let taken = count.min(self.outstanding());
        self.settle(taken, self.state.limit, 0);
        self.stall.completed(now);
    }

    /// The new limit after `count` bytes.
    fn decide(&mut self, now: u64, count: u32, over: u32) -> u32 {
        let s = self.state;
        let done = s.done.wrapping_add(count);
        let in_flight = s.queued.wrapping_sub(done);
        let prev_in_flight = s.prev_queued.wrapping_sub(s.done);
        let all_prev_done = done.wrapping_sub(s.prev_queued) as i32 >= 0;
        let mut limit = s.limit;
        if (over != 0 && in_flight == 0) || (s.prev_over != 0 && all_prev_done) {
            limit = limit.wrapping_add(pos(done, s.prev_queued)).wrapping_add(s.prev_over);
            self.hold(now);
        } else if in_flight != 0 && prev_in_flight != 0 && !all_prev_done {
            let mut slack = pos(limit.wrapping_add(s.prev_over), count.wrapping_mul(2));
            if s.prev_over != 0 {
                slack = slack.max(pos(s.prev_last, s.prev_over));
            }
            self.state.lowest = s.lowest.min(slack);
            if (s.hold_start.wrapping_add(self.hold_time).wrapping_sub(now) as i64) < 0 {
                limit = pos(limit, self.state.lowest);
                self.hold(now);
            }
        }
        limit.max(self.min_limit).min(self.max_limit)
    }

    /// Starts a hold period.
    fn hold(&mut self, now: u64) {
        self.state.hold_start = now;
        self.state.lowest = u32::MAX;
    }

    fn settle(&mut self, count: u32, limit: u32, over: u32) {
        let s = &mut self.state;
        s.prev_over = if limit == s.limit { over } else { 0 };
        s.limit = limit;
        s.done = s.done.wrapping_add(count);
        s.ceiling = limit.wrapping_add(s.done);
        s.prev_last = s.last;
        s.prev_queued = s.queued;
    }

    /// The variables.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The limit in bytes.
    #[inline]
    pub const fn limit(&self) -> u32 {
        self.state.limit
    }

    /// Sets the limit in bytes.
    pub fn set_limit(&mut self, limit: u32) {
        self.state.limit = limit;
        self.move_ceiling();
    }

    /// Sets the lower bound in bytes.
    pub fn set_min_limit(&mut self, min_limit: u32) {
        self.min_limit = min_limit;
        self.bound();
    }

    /// Sets the upper bound in bytes.
    pub fn set_max_limit(&mut self, max_limit: u32) {
        self.max_limit = max_limit;
        self.bound();
    }

    /// Sets the hold time in ticks: how long a smaller need must last before the limit follows.
    pub fn set_hold_time(&mut self, hold_time: u64) {
        self.hold_time = hold_time;
    }

    /// The stall detector.
    pub const fn stall(&self) -> &Stall<C> {
        &self.stall
    }

    /// Sets after how many ticks without a completion a stall is counted; 0 switches it off.
    pub fn set_stall_threshold(&mut self, now: u64, ticks: u16) {
        self.stall.set_threshold(now, ticks);
    }

    /// Takes a changed bound into the limit now; under fault 50 the next completion does.
    fn bound(&mut self) {
        if !C::DQL_RESET_KEEPS_CEILING {
            self.state.limit = self.state.limit.max(self.min_limit).min(self.max_limit);
            self.move_ceiling();
        }
    }

    fn move_ceiling(&mut self) {
        if !C::DQL_RESET_KEEPS_CEILING {
            self.state.ceiling = self.state.limit.wrapping_add(self.state.done);
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reported, outstanding } = self;
        write!(f, "{reported} bytes reported complete with {outstanding} outstanding")
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a queue operation of {} bytes exceeds {}", self.0, Dql::<Weir>::LARGEST)
    }
}

impl core::error::Error for Excess {}
impl core::error::Error for TooLarge {}

/// How far `a` is ahead of `b` on the circle of 32 bits; 0 when it is not.
#[inline]
const fn pos(a: u32, b: u32) -> u32 {
    let ahead = a.wrapping_sub(b);
    if ahead as i32 > 0 { ahead } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Linux;
    use crate::rng::{Rng, SplitMix};
    use std::string::ToString;

    #[test]
    fn distances_wrap() {
        assert_eq!([pos(3, 1), pos(1, 3), pos(7, 7)], [2, 0, 0]);
        assert_eq!(pos(5, u32::MAX - 4), 10, "across the end");
        assert_eq!(pos(1 << 31, 0), 0, "half way round is behind");
    }

    #[test]
    fn the_first_packet_goes_alone_and_its_completion_opens_the_limit() {
        let mut dql = Dql::<Weir>::new(0, 250);
        assert_eq!(dql.available(), 0);
        dql.queued(0, 1_514).unwrap();
        assert_eq!(dql.available(), -1_514);
        dql.completed(1, 1_514).unwrap();
        assert_eq!((dql.limit(), dql.available(), dql.outstanding()), (1_514, 1_514, 0));
    }

    /// Fault 50.
    #[test]
    fn after_a_reset_the_ceiling_is_that_of_the_limit() {
        fn available<C: Conformance>() -> i32 {
            let mut dql = Dql::<C>::new(0, 250);
            dql.queued(0, 9_000).unwrap();
            dql.completed(1, 9_000).unwrap();
            dql.set_min_limit(3_000);
            dql.reset(2);
            assert_eq!(dql.limit(), 3_000);
            dql.available()
        }
        assert_eq!(available::<Weir>(), 3_000);
        assert_eq!(available::<Linux>(), 18_000, "the old limit and all that was completed before");
    }

    /// Fault 50.
    #[test]
    fn a_changed_bound_takes_effect_at_once() {
        fn available<C: Conformance>() -> i32 {
            let mut dql = Dql::<C>::new(0, 250);
            dql.set_min_limit(30_000);
            dql.available()
        }
        assert_eq!(available::<Weir>(), 30_000);
        assert_eq!(available::<Linux>(), 0);
    }

    /// Fault 51.
    #[test]
    fn an_excess_is_reported_and_the_account_returns_to_zero() {
        fn outstanding<C: Conformance>() -> u32 {
            let mut dql = Dql::<C>::new(0, 250);
            dql.queued(0, 1_000).unwrap();
            let excess = Excess { reported: 1_001, outstanding: 1_000 };
            assert_eq!(dql.completed(1, 1_001), Err(excess));
            assert_eq!(excess.to_string(), "1001 bytes reported complete with 1000 outstanding");
            dql.outstanding()
        }
        assert_eq!(outstanding::<Weir>(), 0);
        assert_eq!(outstanding::<Linux>(), 1_000, "where Linux stops the system, nothing moves");
    }

    /// Fault 52.
    #[test]
    fn an_operation_too_large_is_an_error() {
        fn queue<C: Conformance>() -> (Result<(), TooLarge>, u32) {
            let mut dql = Dql::<C>::new(0, 250);
            dql.queued(0, Dql::<C>::LARGEST).unwrap();
            (dql.queued(0, Dql::<C>::LARGEST + 1), dql.outstanding())
        }
        assert_eq!(queue::<Weir>(), (Err(TooLarge(268_435_456)), 268_435_455));
        assert_eq!(queue::<Linux>(), (Ok(()), 268_435_455));
    }

    /// Whatever is queued and completed: the account is exact and the limit within its bounds.
    #[test]
    fn the_account_is_kept_over_random_operations() {
        for seed in 0..50 {
            let mut rng = SplitMix::new(seed, seed);
            let mut dql = Dql::<Weir>::new(0, 250);
            dql.set_min_limit(2_000);
            dql.set_max_limit(500_000);
            let mut outstanding = 0_u64;
            for now in 0..5_000 {
                if !rng.next_u16().is_multiple_of(3) {
                    let count = rng.next_u32() % 66_000;
                    dql.queued(now, count).unwrap();
                    outstanding += u64::from(count);
                } else if outstanding > 0 {
                    let count = (u64::from(rng.next_u32()) % outstanding) as u32 + 1;
                    dql.completed(now, count).unwrap();
                    outstanding -= u64::from(count);
                    let room = i64::from(dql.limit()) - outstanding as i64;
                    assert_eq!(i64::from(dql.available()), room, "seed {seed} at {now}");
                }
                assert_eq!(u64::from(dql.outstanding()), outstanding, "seed {seed} at {now}");
                assert!((2_000..=500_000).contains(&dql.limit()), "seed {seed} at {now}");
            }
        }
    }
}
