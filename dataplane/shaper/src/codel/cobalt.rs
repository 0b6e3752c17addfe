//! COBALT, the AQM of cake: CoDel (RFC 8289) with a memory, and BLUE beside it.
//!
//! CoDel signals while the sojourn time stays above a target, by a CE mark where the packet allows
//! it; its `count` is not forgotten between episodes but decays while the queue behaves. BLUE
//! drops with a probability that rises when the queue overflows and falls when it runs empty, and
//! so reaches the flows that do not answer CoDel; ECN does not protect from it.
//!
//! Contract. One [`Vars`] per flow queue, one [`Params`] per traffic class. The owner calls
//! * [`Vars::on_dequeue`] for each packet it takes from the head of the queue, and obeys the
//!   verdict or overrules it (the last packet of a queue); the state moves on in both cases;
//! * [`Vars::on_overflow`] when a packet of this queue had to go because memory ran out;
//! * [`Vars::on_empty`] when the queue's turn came and it held nothing;
//!
//! and may forget a flow when [`Vars::at_rest`]. Time must not run backward. Nothing else is
//! shared: COBALT knows neither queues nor tins, and draws one random number per packet only while
//! its drop probability is not 0.

use crate::conformance::Conformance;
use crate::packet::{DropReason, DsField};
use crate::rng::Rng;
use crate::time::{Duration, Instant};

/// What COBALT is asked to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Sojourn time that is still good.
    pub target: Duration,
    /// Time a sender needs to answer a signal: the first gap between two of them.
    pub interval: Duration,
    /// Time one maximum packet takes on the wire; four of them always are good, whatever `target`
    /// says. Zero where the rate is unlimited.
    pub mtu_time: Duration,
}

/// The state of one flow queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vars {
    /// When the next signal is due, ns.
    drop_next: u64,
    /// When the drop probability was changed last, ns.
    blue_changed: u64,
    /// Signals of this episode, and of earlier ones as far as they are not forgotten.
    count: u32,
    /// `1 / sqrt(count)` as a fraction of 2^32.
    recip_sqrt: u32,
    /// BLUE's drop probability as a fraction of 2^32.
    drop_probability: u32,
    dropping: bool,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// To be dropped, and who says so.
    pub drop: Option<DropReason>,
    /// The DS field to leave with: `ds` as it was given, or with CE set.
    pub ds: DsField,
    /// The packet counts as marked.
    pub marked: bool,
}

/// A flow begins or ceases to count as unresponsive: its drop probability leaves or reaches 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Neither.
    None,
    /// It begins.
    Unresponsive,
    /// It ceases.
    Responsive,
}

impl Vars {
    /// A flow that was never signalled to.
    pub const fn new<C: Conformance>() -> Self {
        Self {
            drop_next: 0,
            blue_changed: 0,
            count: 0,
            recip_sqrt: if C::COBALT_ZERO_ROOT { 0 } else { RECIP_SQRT[0] },
            drop_probability: 0,
            dropping: false,
        }
    }

    /// Decides on a packet enqueued at `enqueued` that leaves the queue `now` with `ds`.
    ///
    /// `bulk_flows` lets every flow of a class keep two maximum packets queued (cake's ingress
    /// mode); 0 otherwise.
    #[inline]
    pub fn on_dequeue<C: Conformance>(
        &mut self,
        params: &Params,
        now: Instant,
        enqueued: Instant,
        bulk_flows: u32,
        ds: DsField,
        rng: &mut impl Rng,
    ) -> Decision {
        let is_over = params.is_over(now.since(enqueued), bulk_flows);
        if !is_over && self.count == 0 && self.drop_probability == 0 {
            self.dropping = false;
            self.drop_next = (now + params.interval).as_nanos();
            return Decision { drop: None, ds, marked: false };
        }
        self.judge::<C>(params, now, is_over, ds, rng)
    }

    /// Decides on a packet of a flow that is or was late.
    fn judge<C: Conformance>(
        &mut self,
        params: &Params,
        now: Instant,
        is_over: bool,
        ds: DsField,
        rng: &mut impl Rng,
    ) -> Decision {
        let mut decision = Decision { drop: None, ds, marked: false };
        let mut late = self.lateness(now);
        let due = self.count != 0 && late >= 0;
        if is_over {
            self.enter::<C>(params, now);
            // Fault 20 once more: as long as it was before, a schedule never kept counts as late.
            if !C::COBALT_ZERO_ROOT {
                late = self.lateness(now);
            }
        } else {
            self.dropping = false;
        }
        if due {
            if self.dropping {
                self.signal::<C>(params, &mut decision);
            } else {
                self.decay::<C>(params, now);
            }
            late = self.lateness(now);
        }
        if self.drop_probability != 0 && rng.next_u32() < self.drop_probability {
            decision.drop.get_or_insert(DropReason::Blue);
        }
        if self.count == 0 {
            self.drop_next = (now + params.interval).as_nanos();
        } else if late > 0 && decision.drop.is_none() {
            self.drop_next = now.as_nanos();
        }
        decision
    }

    /// A packet was removed from the head of this queue because memory ran out.
    pub fn on_overflow(&mut self, params: &Params, now: Instant) -> Turn {
        let mut turn = Turn::None;
        if self.blue_is_due(params, now) {
            if self.drop_probability == 0 {
                turn = Turn::Unresponsive;
            }
            self.drop_probability = self.drop_probability.saturating_add(BLUE_INCREMENT);
            self.blue_changed = now.as_nanos();
        }
        self.dropping = true;
        self.drop_next = now.as_nanos();
        self.count = self.count.max(1);
        turn
    }

    /// The queue was served and held nothing.
    #[inline]
    pub fn on_empty<C: Conformance>(&mut self, params: &Params, now: Instant) -> Turn {
        let mut turn = Turn::None;
        if self.drop_probability != 0 && self.blue_is_due(params, now) {
            self.drop_probability = self.drop_probability.saturating_sub(BLUE_DECREMENT);
            self.blue_changed = now.as_nanos();
            if self.drop_probability == 0 {
                turn = Turn::Responsive;
            }
        }
        self.dropping = false;
        if self.count != 0 && self.lateness(now) >= 0 {
            self.forget_one::<C>(params);
        }
        turn
    }

    /// Nothing is remembered that would matter later: with a count of 0, when a signal would be due
    /// matters only where fault 20 is reproduced.
    #[inline]
    pub fn at_rest<C: Conformance>(&self, now: Instant) -> bool {
        let is_forgotten = !C::COBALT_ZERO_ROOT || self.lateness(now) >= 0;
        self.drop_probability == 0 && self.count == 0 && is_forgotten
    }

    /// BLUE drops packets of this flow.
    #[inline]
    pub const fn is_unresponsive(&self) -> bool {
        self.drop_probability != 0
    }

    /// How long the next signal has been due, ns; negative when it is not.
    #[inline]
    fn lateness(&self, now: Instant) -> i64 {
        now.as_nanos().wrapping_sub(self.drop_next) as i64
    }

    #[inline]
    fn blue_is_due(&self, params: &Params, now: Instant) -> bool {
        now.since(Instant::from_nanos(self.blue_changed)) > params.target
    }

    fn enter<C: Conformance>(&mut self, params: &Params, now: Instant) {
        if !self.dropping {
            self.dropping = true;
            self.drop_next = self.after::<C>(params, now.as_nanos());
        }
        self.count = self.count.max(1);
    }

    /// One signal, a mark if the packet can bear it.
    fn signal<C: Conformance>(&mut self, params: &Params, decision: &mut Decision) {
        if decision.ds.can_mark() {
            decision.marked = C::CODEL_COUNTS_CE_ARRIVALS || decision.ds.ecn() != DsField::CE;
            decision.ds = decision.ds.marked();
        } else {
            decision.drop = Some(DropReason::Codel);
        }
        self.count = self.count.saturating_add(1);
        self.update_root();
        self.drop_next = self.after::<C>(params, self.drop_next);
    }

    /// Forgets as many signals as would have been sent since the schedule was last kept.
    fn decay<C: Conformance>(&mut self, params: &Params, now: Instant) {
        let mut steps = 0;
        while self.count != 0 && self.lateness(now) >= 0 {
            if !C::COBALT_DECAY_UNBOUNDED && steps == DECAY_STEPS {
                return self.decay_at_once::<C>(params, now);
            }
            self.forget_one::<C>(params);
            steps += 1;
        }
    }

    /// The rest of a long decay: `count` signals of a schedule take `2 * interval * sqrt(count)`,
    /// so the root of the count falls by one in every two intervals. Roots have 16 bits of fraction.
    #[cold]
    fn decay_at_once<C: Conformance>(&mut self, params: &Params, now: Instant) {
        let elapsed = (self.lateness(now).max(0) as u64).min(u64::MAX >> 16) << 16;
        let falls = elapsed / params.interval.as_nanos().saturating_mul(2).max(1);
        let root = (u64::from(self.count) << 32).isqrt();
        let left = root.saturating_sub(falls);
        self.count = ((left * left) >> 32) as u32;
        self.recip_sqrt =
            if self.count < 2 { u32::MAX } else { (u64::MAX / u64::from(self.count)).isqrt() as u32 };
        self.drop_next = self.after::<C>(params, now.as_nanos());
    }

    fn forget_one<C: Conformance>(&mut self, params: &Params) {
        self.count -= 1;
        self.update_root();
        self.drop_next = self.after::<C>(params, self.drop_next);
    }

    /// The control law: `interval / sqrt(count)` after `time`.
    #[inline]
    fn after<C: Conformance>(&self, params: &Params, time: u64) -> u64 {
        let interval = params.interval.as_nanos();
        let root = u64::from(self.recip_sqrt);
        let low = ((interval & MASK_32) * root) >> 32;
        let high = if C::COBALT_INTERVAL_32 { 0 } else { (interval >> 32) * root };
        time.wrapping_add(low).wrapping_add(high)
    }

    /// Brings the root to the present count: exactly from a table for small ones, else by one
    /// Newton step, which suffices because the count moved by one.
    #[inline]
    fn update_root(&mut self) {
        self.recip_sqrt = match RECIP_SQRT.get(self.count as usize) {
            Some(&root) => root,
            None => newton_step(self.recip_sqrt, self.count),
        };
    }
}

impl Params {
    #[inline]
    fn is_over(&self, sojourn: Duration, bulk_flows: u32) -> bool {
        let sojourn = sojourn.as_nanos();
        let mtu_time = self.mtu_time.as_nanos();
        sojourn > self.target.as_nanos()
            && sojourn > mtu_time.saturating_mul(u64::from(bulk_flows) * 2)
            && sojourn > mtu_time.saturating_mul(4)
    }
}

/// `x * (3 - count * x^2) / 2` in fractions of 2^32.
#[inline]
fn newton_step(root: u32, count: u32) -> u32 {
    let root = u64::from(root);
    let square = (root * root) >> 32;
    let value = (3_u64 << 32).wrapping_sub(u64::from(count) * square) >> 2;
    (value.wrapping_mul(root) >> 31) as u32
}

const MASK_32: u64 = u32::MAX as u64;

/// BLUE's steps, as fractions of 2^32: up by 1/256 per overflow, down by 1/4096 per empty turn,
/// each at most once per target.
const BLUE_INCREMENT: u32 = 1 << 24;
const BLUE_DECREMENT: u32 = 1 << 20;

/// Decay steps walked one by one (some 5 ns each) before the rest is computed: a count of 64 is
/// what a flow reaches in 1.6 s of not listening at an interval of 100 ms.
const DECAY_STEPS: u32 = 64;

/// `2^32 / sqrt(n)` for n = 0..=15, 0 like 1.
const RECIP_SQRT: [u32; 16] = [
    4_294_967_295,
    4_294_967_295,
    3_037_000_500,
    2_479_700_525,
    2_147_483_647,
    1_920_767_767,
    1_753_413_056,
    1_623_345_051,
    1_518_500_250,
    1_431_655_765,
    1_358_187_914,
    1_294_981_364,
    1_239_850_263,
    1_191_209_601,
    1_147_878_294,
    1_108_955_788,
];

/// Half a cache line: the other half is the flow queue's.
const _: () = assert!(size_of::<Vars>() <= 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Linux, Weir};
    use crate::rng::SplitMix;

    const MS: u64 = 1_000_000;

    fn params(interval: u64) -> Params {
        Params {
            target: Duration::from_millis(5),
            interval: Duration::from_nanos(interval),
            mtu_time: Duration::from_nanos(0),
        }
    }

    /// One packet per millisecond, each of them `sojourn` ms old: when which are dropped, in ms.
    fn drops<C: Conformance>(
        vars: &mut Vars,
        params: &Params,
        span: core::ops::Range<u64>,
        sojourn: u64,
    ) -> std::vec::Vec<u64> {
        let mut rng = SplitMix::new(1, 2);
        let mut dropped = |ms: &u64| {
            let (now, enqueued) = (Instant::from_nanos(ms * MS), Instant::from_nanos((ms - sojourn) * MS));
            vars.on_dequeue::<C>(params, now, enqueued, 0, DsField::ip(0), &mut rng).drop.is_some()
        };
        span.filter(|ms| dropped(ms)).collect()
    }

    #[test]
    fn fault_20_the_first_signal_comes_after_an_interval() {
        let params = params(100 * MS);
        let first = |dropped: std::vec::Vec<u64>| dropped.first().copied();
        assert_eq!(first(drops::<Weir>(&mut Vars::new::<Weir>(), &params, 1_000..1_500, 10)), Some(1_100));
        assert_eq!(first(drops::<Linux>(&mut Vars::new::<Linux>(), &params, 1_000..1_500, 10)), Some(1_001));
    }

    #[test]
    fn signals_come_closer_by_the_square_root() {
        let dropped = drops::<Weir>(&mut Vars::new::<Weir>(), &params(100 * MS), 1_000..3_000, 10);
        let expected = (1..).scan(1_000.0, |at, count| {
            *at += 100.0 / f64::from(count).sqrt();
            Some(*at)
        });
        assert!(dropped.len() > 50);
        for (at, expected) in dropped.iter().zip(expected) {
            assert!((*at as f64 - expected).abs() < 2.0, "{at} {expected}");
        }
    }

    #[test]
    fn fault_23_long_intervals_are_kept() {
        let params = params((1 << 32) + 100 * MS);
        let first = |dropped: std::vec::Vec<u64>| dropped.get(1).zip(dropped.first()).map(|(b, a)| b - a);
        let weir = first(drops::<Weir>(&mut Vars::new::<Weir>(), &params, 1_000..20_000, 10));
        assert!(weir.is_some_and(|gap| (3_000..3_200).contains(&gap)), "4.39 s / sqrt(2): {weir:?}");
        let linux = first(drops::<Linux>(&mut Vars::new::<Linux>(), &params, 1_000..20_000, 10));
        assert!(linux.is_some_and(|gap| gap < 80), "{linux:?}");
    }

    #[test]
    fn what_can_be_marked_is_marked_and_counted_once() {
        fn marks<C: Conformance>(ds: u8) -> (u32, DsField) {
            let (mut vars, mut rng, mut marks) = (Vars::new::<C>(), SplitMix::new(1, 2), 0);
            let mut last = DsField::ip(ds);
            for ms in 1_000..1_150 {
                let now = Instant::from_nanos(ms * MS);
                let enqueued = Instant::from_nanos((ms - 10) * MS);
                let decision =
                    vars.on_dequeue::<C>(&params(100 * MS), now, enqueued, 0, DsField::ip(ds), &mut rng);
                assert_eq!(decision.drop, None);
                if decision.marked {
                    marks += 1;
                    last = decision.ds;
                }
            }
            (marks, last)
        }
        for ect in [1, 2] {
            assert_eq!(marks::<Weir>(ect), (1, DsField::ip(3)));
        }
        assert_eq!(marks::<Weir>(3), (0, DsField::ip(3)));
        assert_eq!(marks::<Linux>(3).1, DsField::ip(3));
    }

    /// BLUE: up by overflows, at most one step per target; down by empty turns.
    #[test]
    fn blue_rises_and_falls() {
        let params = params(100 * MS);
        let mut vars = Vars::new::<Weir>();
        let at = |ms: u64| Instant::from_nanos(ms * MS);
        assert_eq!(vars.on_overflow(&params, at(1_000)), Turn::Unresponsive);
        assert_eq!(vars.on_overflow(&params, at(1_004)), Turn::None);
        assert_eq!(vars.drop_probability, BLUE_INCREMENT);
        assert_eq!(vars.on_overflow(&params, at(1_006)), Turn::None);
        assert_eq!(vars.drop_probability, 2 * BLUE_INCREMENT);
        let mut turns = 0;
        while vars.on_empty::<Weir>(&params, at(2_000 + 6 * turns)) != Turn::Responsive {
            turns += 1;
        }
        assert_eq!(turns, 31, "32 steps down for 2 up");
        assert!(!vars.is_unresponsive());
        assert!(vars.at_rest::<Weir>(at(1_000_000)));
    }

    /// The short way of a long decay ends about where step by step would.
    #[test]
    fn a_long_decay_is_bounded() {
        let params = params(100 * MS);
        let after_pause = |pause: u64| {
            let run = |walk: fn(&mut Vars, &Params, Instant)| {
                let mut vars = Vars::new::<Weir>();
                drops::<Weir>(&mut vars, &params, 1_000..61_000, 10);
                vars.dropping = false;
                assert!(vars.count > 10_000, "{}", vars.count);
                walk(&mut vars, &params, Instant::from_nanos((61_000 + pause) * MS));
                vars
            };
            (run(Vars::decay::<Weir>), run(Vars::decay::<Linux>))
        };
        for pause in [1_000, 20_000, 40_000, 100_000] {
            let (short, long) = after_pause(pause);
            let near = f64::from(long.count) * 0.01 + 5.0;
            assert!((f64::from(short.count) - f64::from(long.count)).abs() <= near, "{short:?} {long:?}");
            assert!(
                short.recip_sqrt.abs_diff(long.recip_sqrt) <= long.recip_sqrt / 100,
                "{short:?} {long:?}"
            );
        }
    }
}
