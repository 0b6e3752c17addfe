//! Every fault of CoDel: shown under [`Linux`], mended under [`Weir`], by the same body.

use super::codel::{Candidate, Params, Settings, Source, Stats, Vars};
use crate::conformance::{Conformance, Linux, Weir};
use crate::packet::DsField;
use crate::time::{Duration, Instant};

/// One flow of endless backlog whose packets have all waited `sojourn` when they are taken.
struct Rig<C: Conformance> {
    vars: Vars<C>,
    settings: Settings<C>,
    stats: Stats,
    now: Instant,
    sojourn: Duration,
    ds: DsField,
}

struct Packet {
    enqueued: Instant,
    ds: DsField,
}

struct Line {
    enqueued: Instant,
    ds: DsField,
    dropped: u32,
}

impl<C: Conformance> Rig<C> {
    fn new(params: &Params, now: Instant) -> Self {
        Self {
            vars: Vars::default(),
            settings: Settings::new(params),
            stats: Stats::default(),
            now,
            sojourn: TARGET + TARGET,
            ds: DsField::ip(DsField::NOT_ECT),
        }
    }

    /// Lets `span` go by and takes a packet; how many were dropped on the way.
    fn take_after(&mut self, span: Duration) -> u32 {
        self.now += span;
        let mut line = Line { enqueued: self.now - self.sojourn, ds: self.ds, dropped: 0 };
        let packet = self.vars.dequeue(self.now, &self.settings, &mut self.stats, &mut line);
        assert!(packet.is_some(), "the backlog is endless");
        line.dropped
    }

    /// Takes a packet every 100 us until one is dropped; how long that took.
    fn until_drop(&mut self) -> Duration {
        let start = self.now;
        while self.take_after(STEP) == 0 {}
        self.now.since(start)
    }

    fn count(&self) -> u32 {
        self.vars.report(self.now).count
    }
}

impl Source for Line {
    type Packet = Packet;

    fn take(&mut self) -> Option<Packet> {
        Some(Packet { enqueued: self.enqueued, ds: self.ds })
    }

    fn backlog(&self) -> u64 {
        1 << 20
    }

    fn doom(&mut self, _packet: Packet) {
        self.dropped += 1;
    }
}

impl Candidate for Packet {
    fn enqueued(&self) -> Instant {
        self.enqueued
    }

    fn bytes(&self) -> u32 {
        1_514
    }

    fn ds(&self) -> DsField {
        self.ds
    }

    fn mark(&mut self) {
        self.ds = self.ds.marked();
    }
}

fn is_near(span: Duration, millis: f64) -> bool {
    (span.as_nanos() as f64 / 1e6 - millis).abs() < 0.5
}

#[test]
fn fault_1_a_jump_of_count_spoils_the_next_gaps() {
    fn shows<C: Conformance>() -> bool {
        let mut rig = Rig::<C>::new(&Params::for_mtu(1_514), START);
        rig.until_drop();
        rig.vars.overload_drops(64);
        rig.until_drop();
        assert_eq!(rig.count(), 66);
        !is_near(rig.until_drop(), 100.0 / f64::from(66).sqrt())
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

#[test]
fn fault_2_the_first_gaps_are_too_short() {
    fn shows<C: Conformance>() -> bool {
        let mut rig = Rig::<C>::new(&Params::for_mtu(1_514), START);
        assert!(is_near(rig.until_drop(), 100.0), "one interval above target");
        assert!(is_near(rig.until_drop(), 100.0), "one interval to the second signal");
        !is_near(rig.until_drop(), 100.0 / f64::from(2).sqrt())
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

#[test]
fn fault_3_count_is_remembered_after_2500_seconds() {
    fn shows<C: Conformance>() -> bool {
        let mut rig = Rig::<C>::new(&Params::for_mtu(1_514), START);
        for _ in 0..20 {
            rig.until_drop();
        }
        rig.sojourn = Duration::ZERO;
        rig.take_after(STEP);
        rig.sojourn = TARGET + TARGET;
        rig.take_after(Duration::from_millis(2_500_000));
        rig.until_drop();
        rig.count() != 1
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

#[test]
fn fault_4_a_timer_that_ends_at_zero_is_lost() {
    fn shows<C: Conformance>() -> bool {
        let ends_at_zero = ((1 << 32) - (INTERVAL.as_nanos() >> 10)) << 10;
        let mut rig = Rig::<C>::new(&Params::for_mtu(1_514), Instant::from_nanos(ends_at_zero));
        assert_eq!(rig.take_after(Duration::ZERO), 0);
        rig.take_after(INTERVAL + STEP) == 0
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

#[test]
fn fault_5_a_very_long_sojourn_counts_as_short() {
    fn shows<C: Conformance>() -> bool {
        let mut rig = Rig::<C>::new(&Params::for_mtu(1_514), START);
        rig.sojourn = Duration::from_millis(2_300_000);
        assert_eq!(rig.take_after(Duration::ZERO), 0);
        rig.take_after(INTERVAL + STEP) == 0
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

#[test]
fn fault_5_a_very_long_sojourn_is_above_a_threshold_that_is_off() {
    fn shows<C: Conformance>() -> bool {
        let mut rig = Rig::<C>::new(&Params::for_mtu(1_514), START);
        rig.sojourn = Duration::from_millis(2_300_000);
        rig.ds = DsField::ip(2);
        rig.take_after(Duration::ZERO);
        rig.stats.ce_mark != 0
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

#[test]
fn fault_6_a_long_interval_forgets_count_at_once() {
    fn shows<C: Conformance>() -> bool {
        let interval = Duration::from_millis(200_000);
        let mut rig = Rig::<C>::new(&Params { interval, ..Params::for_mtu(1_514) }, START);
        rig.take_after(STEP);
        assert_eq!(rig.take_after(interval + STEP), 1);
        rig.vars.overload_drops(10);
        rig.sojourn = Duration::ZERO;
        rig.take_after(STEP);
        rig.sojourn = TARGET + TARGET;
        rig.take_after(STEP);
        assert_eq!(rig.take_after(interval + STEP), 1, "signals again");
        rig.count() == 1
    }
    assert!(shows::<Linux>() && !shows::<Weir>());
}

const START: Instant = Instant::from_nanos(10_000_000_000_000);
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
const STEP: Duration = Duration::from_micros(100);
