//! A page of statistics: filled by the worker on request, read by control, never shared.

use crate::clock::ClockStats;
use crate::counters::{Counters, Tally};
use crate::delays::{ByKind, Recorder};
use crate::egress::ControlStats;
use crate::flight::Flight;
use crate::gaps::Gaps;
use crate::gate::GatePage;
use crate::talkers::Sample;
use shaper::qdisc::Stats;
use shaper::qdisc::cake::MAX_TINS;
use shaper::rate;
use shaper::time::{Duration, Instant};
use std::mem::take;

/// Everything one worker knows.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// When it was filled, on the worker's clock.
    pub at: Instant,
    /// Which settings it works by: that of the last [`crate::change::Change`] that was carried out, 0 those
    /// of the start.
    pub generation: u64,
    /// The loop.
    pub turns: Turns,
    /// Gaps in its polling.
    pub gaps: Gaps,
    /// What the clock had to mend.
    pub clock: ClockStats,
    /// Its directions, in the order they were given to it.
    pub directions: Vec<DirectionPage>,
    /// How long packets took in each direction since the page before.
    pub delays: Vec<ByKind<Recorder>>,
    /// What was in flight in each direction's transmit ring since the page before.
    pub flight: Vec<Flight>,
    /// Who sent most in each direction since the page before.
    pub talkers: Vec<Sample>,
}

/// What the loop did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Turns in all.
    pub total: u64,
    /// Turns that moved no packet.
    pub idle: u64,
    /// Times it slept because nothing was to be done.
    pub sleeps: u64,
    /// Time since the first turn.
    pub time: Duration,
    /// Time in turns that moved packets, of each at most the 50 us that are no gap yet: see [`crate::gaps`].
    pub busy: Duration,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectionPage {
    /// In, out, lost.
    pub counters: Counters,
    /// Queued, between in and out.
    pub waiting: Tally,
    /// The control queue.
    pub control: ControlStats,
    /// The discipline.
    pub qdisc: Option<Stats>,
    /// Bytes that the discipline has delivered, by number of the tin.
    pub tins: [u64; MAX_TINS],
    /// The rate limiter, where there is one.
    pub limiter: Option<rate::Stats>,
    /// What keeps the transmit ring short, where something does.
    pub gate: Option<GatePage>,
    /// Whether the egress link is up.
    pub link_up: bool,
}

impl Page {
    /// A page with room for `directions`, and none for histograms.
    pub fn new(directions: usize) -> Self {
        Self { directions: vec![DirectionPage::default(); directions], ..Self::default() }
    }

    /// An empty page to be filled by the worker that filled this one, with the histograms and tables of packets
    /// of this one, from which all has been taken: their memory is there, so that the worker meets no page fault in
    /// it. Without them if this one gave them away before.
    #[must_use]
    pub fn successor(&mut self) -> Self {
        let (delays, flight) = (take(&mut self.delays), take(&mut self.flight));
        let mut talkers = take(&mut self.talkers);
        talkers.iter_mut().for_each(Sample::clear);
        Self { delays, flight, talkers, ..Self::new(self.directions.len()) }
    }
}
