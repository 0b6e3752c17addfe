//! A running line that changes to another plan: all of it, or nothing.
//!
//! What cannot be changed is found before anything is sent. Then each worker is sent its part, and
//! [`Line::changed`] tells when all have taken it up. If one does not, all are sent the way back.

use super::{Line, LineLink, LineWorker, Place};
use crate::change::{Change, DirectionChange, Target, Unchangeable};
use crate::mailbox::Command;
use crate::plan::{DirectionPlan, LinkPlan, Plan, PortPlan, Way};
use crate::worker::Poll;
use shaper::qdisc::ParamError;
use thiserror::Error;

/// Why a line did not change. It runs by the plan it had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// Links, ports or ways are others: that takes a restart.
    #[error("link {0:?}: links, their ports and the ways that are forwarded stay as they were at start")]
    Shape(String),
    /// A direction cannot be changed to what is asked.
    #[error("link {link:?} {way}: {cause}")]
    Direction {
        /// The link.
        link: String,
        /// `up` or `down`.
        way: &'static str,
        /// What stands in the way.
        cause: Unchangeable,
    },
    /// A worker does not take commands.
    #[error("the worker on lcore {0} has not taken it up in time: is the lcore running something else?")]
    Stuck(u32),
    /// A worker found what control had not.
    #[error("the worker on lcore {lcore} refused it: {cause}")]
    Refused {
        /// Its lcore.
        lcore: u32,
        /// What it said.
        cause: ParamError,
    },
    /// The change before is still under way, or workers are still on the way back from it.
    #[error(
        "the worker on lcore {0} has not carried out what it was told before; nothing is changed until it has"
    )]
    Busy(u32),
}

/// A change under way.
#[derive(Debug)]
pub(super) struct Pending {
    generation: u64,
    /// What there was before.
    plan: Plan,
}

impl Line {
    /// Which settings the line runs by: 0 those of the start.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Sends every worker what `plan` changes, as this generation. See [`Line::changed`] for what follows.
    ///
    /// # Errors
    /// [`ChangeError`]: the line runs on as before.
    pub fn change(&mut self, generation: u64, plan: Plan) -> Result<(), ChangeError> {
        self.settle_change();
        if let Some(lcore) = self.busy() {
            return Err(ChangeError::Busy(lcore));
        }
        let changes = self.prepare(generation, &self.plan, &plan)?;
        // The way back can be built whenever the way there can.
        let back = self.prepare(self.generation, &plan, &self.plan)?;
        let sent = self.send(changes);
        if let Err((taken, error)) = sent {
            let _ = self.send(back.into_iter().take(taken).collect());
            return Err(error);
        }
        let before = std::mem::replace(&mut self.plan, plan);
        self.pending = Some(Pending { generation, plan: before });
        Ok(())
    }

    /// Takes in what workers have to say of the change under way: `Some` once all have taken it up, or
    /// one has refused it, and all are on the way back.
    pub fn changed(&mut self) -> Option<Result<(), ChangeError>> {
        let refused = self.settle_change();
        let pending = self.pending.as_ref()?;
        if let Some(error) = refused {
            return Some(Err(self.go_back(error)));
        }
        if self.busy().is_some() {
            return None;
        }
        self.generation = pending.generation;
        self.pending = None;
        self.follow_plan();
        Some(Ok(()))
    }

    /// Takes in, and frees, what has come back from workers; why one has refused.
    pub(super) fn settle_change(&mut self) -> Option<ChangeError> {
        let mut refused = None;
        for worker in &mut self.workers {
            while let Some(change) = worker.control.changed() {
                worker.changing = worker.changing.saturating_sub(1);
                match change.refused {
                    Some(cause) => refused = Some(ChangeError::Refused { lcore: worker.lcore, cause }),
                    None => worker.generation = change.generation,
                }
            }
        }
        refused
    }

    /// A worker that has not sent back all that it was sent.
    fn busy(&self) -> Option<u32> {
        self.workers.iter().find(|worker| worker.changing > 0).map(|worker| worker.lcore)
    }

    /// Gives the change under way up: all workers are sent the way back, those too that have not taken it
    /// up yet.
    pub fn give_up_change(&mut self) -> Option<ChangeError> {
        let stuck = self.busy()?;
        self.pending.is_some().then(|| self.go_back(ChangeError::Stuck(stuck)))
    }

    fn go_back(&mut self, error: ChangeError) -> ChangeError {
        if let Some(Pending { plan, .. }) = self.pending.take() {
            if let Ok(back) = self.prepare(self.generation, &self.plan, &plan) {
                let _ = self.send(back);
            }
            self.plan = plan;
        }
        error
    }

    /// What each worker is sent.
    fn prepare(&self, generation: u64, old: &Plan, new: &Plan) -> Result<Vec<Change>, ChangeError> {
        if old.links.len() != new.links.len() {
            return Err(ChangeError::Shape(
                new.links.last().map(|link| link.name.clone()).unwrap_or_default(),
            ));
        }
        let empty = |poll: Poll| Change { generation, poll, directions: Vec::new(), refused: None };
        let mut changes: Vec<_> = self.workers.iter().map(|_| empty(new.poll)).collect();
        for (index, link) in self.links.iter().enumerate() {
            let (Some(was), Some(new)) = (old.links.get(index), new.links.get(index)) else { continue };
            for change in link.changes(was, new)? {
                let (place, change) = change;
                if let Some(worker) = changes.get_mut(place.worker) {
                    worker.directions.push(change);
                }
            }
        }
        Ok(changes)
    }

    /// Sends each worker its part; if one does not take it, says how many did.
    fn send(&mut self, changes: Vec<Change>) -> Result<(), (usize, ChangeError)> {
        for (at, (worker, change)) in self.workers.iter_mut().zip(changes).enumerate() {
            if worker.control.send(Command::Apply(Box::new(change))).is_err() {
                return Err((at, ChangeError::Stuck(worker.lcore)));
            }
            worker.changing += 1;
        }
        Ok(())
    }

    /// What control itself does by the plan.
    fn follow_plan(&mut self) {
        for (link, plan) in self.links.iter_mut().zip(&self.plan.links) {
            if link.watch.set_propagates(plan.propagate_link) {
                self.news.extend(link.fix_what_cannot_be_held());
            }
        }
    }
}

impl LineLink {
    /// The changes of its directions, with their place.
    fn changes(&self, old: &LinkPlan, new: &LinkPlan) -> Result<Vec<(Place, DirectionChange)>, ChangeError> {
        let shape = |link: &LinkPlan| {
            let port = |port: &PortPlan| PortPlan { governor: None, ..port.clone() };
            (link.name.clone(), port(&link.a), port(&link.b), link.up.is_some(), link.down.is_some())
        };
        if shape(old) != shape(new) {
            return Err(ChangeError::Shape(new.name.clone()));
        }
        let mut changes = Vec::new();
        for (way, place) in &self.ways {
            let (Some(was), Some(will)) = (target(old, *way), target(new, *way)) else { continue };
            if was == will {
                continue;
            }
            let slots = self.slots.iter().find(|(of, _)| of == way).map_or(0, |(_, slots)| *slots);
            let change = DirectionChange::between(place.direction, &was, &will, slots).map_err(|cause| {
                ChangeError::Direction { link: self.name.clone(), way: way.name(), cause }
            })?;
            changes.push((*place, change));
        }
        Ok(changes)
    }
}

fn target(link: &LinkPlan, way: Way) -> Option<Target<'_>> {
    let (plan, exit): (&Option<DirectionPlan>, _) = match way {
        Way::Up => (&link.up, &link.b),
        Way::Down => (&link.down, &link.a),
    };
    let plan = plan.as_ref()?;
    Some(Target { plan, governor: exit.governor, link_down_hold: link.link_down_hold })
}

impl LineWorker {
    /// Which settings it runs by, as far as it has told.
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}

#[cfg(test)]
mod tests;
