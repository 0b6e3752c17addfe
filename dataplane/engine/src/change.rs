//! A change of what runs: prepared by control, carried out by a worker at a burst boundary.
//!
//! Control builds everything that takes memory, checks everything that can be refused, and sends one
//! [`Change`] to each worker. The worker swaps what is new for what is old; packets that wait under
//! settings which are gone move on, some [`MOVES`] a turn, or are sent from where they are; then the box
//! goes back with what was replaced, for control to free. So the packet path allocates and frees nothing,
//! loses no packet (a lower limit alone drops what exceeds it, counted), and sends each flow in the order
//! of its arrival.

use crate::classify::Wants;
use crate::plan::{DirectionPlan, GovernorPlan};
use crate::pool;
use crate::split::Merger;
use crate::worker::Poll;
use shaper::flow::rules::Rules;
use shaper::gso::Split;
use shaper::qdisc::{ParamError, Params, cake};
use shaper::rate::{Limiter, Overhead, RateError};
use shaper::time::Duration;
use shaper::units::Rate;
use thiserror::Error;

/// Packets of one direction that move to another queue in a turn with nothing else to do: each costs as much
/// as one that arrives, and some 600 ns where none of it is in the cache (Zen 4, shared). A worker without
/// time to spare moves one, and sends what has not moved from where it is; what follows that moves in rows,
/// for next to nothing.
pub const MOVES: usize = 16;

/// What one worker is to change.
#[derive(Debug)]
pub struct Change {
    /// What the worker calls its settings from then on.
    pub generation: u64,
    /// What it does while there is nothing to do.
    pub poll: Poll,
    /// Its directions that change.
    pub directions: Vec<DirectionChange>,
    /// Why nothing at all was changed, once it has come back.
    pub refused: Option<ParamError>,
}

/// What changes in one direction. Built before it is needed; what it replaces comes back in it.
#[derive(Debug)]
pub struct DirectionChange {
    /// Its index within the worker.
    pub direction: usize,
    pub(crate) qdisc: Params,
    pub(crate) tables: cake::Tables,
    /// Where there was none: a limiter has no memory of its own, but a rate that may be refused.
    pub(crate) limiter: Option<Limiter>,
    pub(crate) overhead: Overhead,
    pub(crate) wants: Wants,
    /// `None`: they stay.
    pub(crate) rules: Option<Option<Box<Rules>>>,
    pub(crate) split: Split,
    /// `None`: it stays.
    pub(crate) merger: Option<Option<Box<Merger>>>,
    pub(crate) governor: Option<GovernorPlan>,
    pub(crate) link_down_hold: Duration,
    /// All that waits is where it belongs.
    pub(crate) is_done: bool,
}

/// Everything a direction can be told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The direction.
    pub plan: &'a DirectionPlan,
    /// Its transmit ring, if that is governed.
    pub governor: Option<GovernorPlan>,
    /// How long packets are kept for an egress link that is down.
    pub link_down_hold: Duration,
}

/// Why a change cannot be made while weir runs. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unchangeable {
    /// Another discipline, or more flows.
    #[error(transparent)]
    Qdisc(#[from] ParamError),
    /// A rate out of range.
    #[error(transparent)]
    Rate(#[from] RateError),
}

impl DirectionChange {
    /// The change of the direction with this index from `old` to `new`. `slots` is the room that its
    /// discipline was built with: [`pool::slots`] of what it started with.
    ///
    /// # Errors
    /// [`Unchangeable`].
    pub fn between(
        direction: usize,
        old: &Target<'_>,
        new: &Target<'_>,
        slots: u32,
    ) -> Result<Self, Unchangeable> {
        let (was, plan) = (old.plan, new.plan);
        plan.qdisc.replaces(&was.qdisc)?;
        let shapes = matches!(plan.qdisc, Params::Cake(_));
        let outer = plan.bandwidth.filter(|_| !shapes);
        let has_new_rules = was.rules != plan.rules;
        let tables = match (&was.qdisc, &plan.qdisc) {
            (Params::Cake(was), Params::Cake(new)) => {
                let re_sorts = has_new_rules || (was.fwmark, was.handle) != (new.fwmark, new.handle);
                cake::Tables::between(was, new, re_sorts, slots as usize)
            }
            _ => cake::Tables::none(),
        };
        let rules = || (!plan.rules.is_empty()).then(|| Box::new(Rules::new(&plan.rules)));
        let merger = || plan.gro.then(|| Box::new(Merger::new()));
        Ok(Self {
            direction,
            qdisc: plan.qdisc,
            tables,
            limiter: outer.map(|rate| Limiter::new(rate, plan.catch_up)).transpose()?,
            overhead: plan.overhead,
            wants: Wants::of(&plan.qdisc),
            rules: has_new_rules.then(rules),
            split: plan.split,
            merger: (was.gro != plan.gro).then(merger),
            governor: new.governor,
            link_down_hold: new.link_down_hold,
            is_done: false,
        })
    }

    /// The rate outside the discipline, if there is to be one.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.limiter.as_ref().map(Limiter::rate)
    }
}

impl Target<'_> {
    /// Room that the discipline is built with.
    pub fn slots(&self) -> u32 {
        pool::slots(&self.plan.qdisc)
    }
}

impl Change {
    /// Whether all of it has been carried out.
    pub(crate) fn is_done(&self) -> bool {
        self.directions.iter().all(|change| change.is_done)
    }
}
