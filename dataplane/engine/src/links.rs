//! What follows from the link states of a port pair: pure decisions, taken by the control thread.
//!
//! With `propagate-link` a bump in the wire is as transparent to link loss as a wire: while one
//! side's cable is out, the other side's neighbour sees its link down too. The side that we hold
//! down ourselves tells nothing about its cable, nor does one that we have just let go and that
//! still negotiates, so neither is taken for a cause: no latch.
//!
//! What a driver refuses is tried again every [`RETRY`] observations; a side whose driver cannot do it
//! at all is let alone from then on.

/// One of the two ports of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The port named `a`.
    A,
    /// The port named `b`.
    B,
}

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell the direction that sends on this side.
    Tell(Side, bool),
    /// Take this side's link down.
    Hold(Side),
    /// Let this side's link come up again.
    Release(Side),
}

/// Observations that a link may take to come up after it was let go: 5 s at 50 a second, more than
/// 1000BASE-T needs to negotiate.
pub const SETTLE: u32 = 250;

/// Observations until an action that failed is tried again: 5 s at 50 a second.
pub const RETRY: u32 = 250;

/// The pair as last seen.
#[derive(Clone, Debug)]
pub struct LinkWatch {
    propagate: bool,
    a: State,
    b: State,
}

#[derive(Clone, Copy, Debug)]
struct State {
    up: bool,
    held: bool,
    /// Observations left until a side that was let go must be up or has lost its own cable.
    settling: u32,
    /// Observations left until it is tried again to hold or release this side.
    resting: u32,
    /// Its driver cannot take a link down.
    fixed: bool,
}

impl LinkWatch {
    /// Both links count as up at first.
    pub fn new(propagate: bool) -> Self {
        let state = State { up: true, held: false, settling: 0, resting: 0, fixed: false };
        Self { propagate, a: state, b: state }
    }

    /// Whether link loss is passed on at all.
    pub fn propagates(&self) -> bool {
        self.propagate
    }

    /// Passes link loss on from now on, or no more: what is held is let go. `true` if it begins to.
    pub fn set_propagates(&mut self, propagate: bool) -> bool {
        let was = std::mem::replace(&mut self.propagate, propagate);
        propagate && !was
    }

    /// The links were seen in these states. Returns what to do, in order.
    pub fn observe(&mut self, a_up: bool, b_up: bool) -> impl Iterator<Item = Action> + use<> {
        let mut actions = [None; 4];
        actions[0] = self.a.see(a_up).then_some(Action::Tell(Side::A, a_up));
        actions[1] = self.b.see(b_up).then_some(Action::Tell(Side::B, b_up));
        actions[2] = self.b.hold(self.propagate && self.a.is_lost(), Side::B);
        actions[3] = self.a.hold(self.propagate && self.b.is_lost(), Side::A);
        actions.into_iter().flatten()
    }

    /// A hold or release could not be done: it will be tried again after [`RETRY`] observations.
    pub fn failed(&mut self, action: Action) {
        let (side, held) = match action {
            Action::Hold(side) => (side, false),
            Action::Release(side) => (side, true),
            Action::Tell(..) => return,
        };
        let state = self.state(side);
        state.held = held;
        state.resting = RETRY;
    }

    /// The driver of this side cannot take its link down: it is not asked again.
    pub fn fix(&mut self, side: Side) {
        let state = self.state(side);
        state.held = false;
        state.fixed = true;
    }

    fn state(&mut self, side: Side) -> &mut State {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }
}

impl State {
    fn see(&mut self, up: bool) -> bool {
        let changed = self.up != up;
        self.up = up;
        self.settling = if up { 0 } else { self.settling.saturating_sub(1) };
        self.resting = self.resting.saturating_sub(1);
        changed
    }

    /// Whether its own cable is out, as far as can be known.
    fn is_lost(&self) -> bool {
        !self.up && !self.held && self.settling == 0
    }

    fn hold(&mut self, wanted: bool, side: Side) -> Option<Action> {
        if self.held == wanted || self.fixed || self.resting > 0 {
            return None;
        }
        self.held = wanted;
        self.settling = SETTLE;
        Some(if wanted { Action::Hold(side) } else { Action::Release(side) })
    }
}

#[cfg(test)]
mod tests {
    use super::Action::{Hold, Release, Tell};
    use super::Side::{A, B};
    use super::*;

    fn see(watch: &mut LinkWatch, a: bool, b: bool) -> Vec<Action> {
        watch.observe(a, b).collect()
    }

    #[test]
    fn changes_are_told_once() {
        let mut watch = LinkWatch::new(false);
        assert_eq!(see(&mut watch, true, true), []);
        assert_eq!(see(&mut watch, false, true), [Tell(A, false)]);
        assert_eq!(see(&mut watch, false, true), []);
        assert_eq!(see(&mut watch, true, false), [Tell(A, true), Tell(B, false)]);
    }

    #[test]
    fn a_lost_link_is_passed_on_and_given_back() {
        let mut watch = LinkWatch::new(true);
        assert_eq!(see(&mut watch, false, true), [Tell(A, false), Hold(B)]);
        assert_eq!(see(&mut watch, false, false), [Tell(B, false)], "b is down because we hold it");
        assert_eq!(see(&mut watch, true, false), [Tell(A, true), Release(B)]);
        assert_eq!(see(&mut watch, true, true), [Tell(B, true)]);
    }

    #[test]
    fn what_is_held_is_let_go_when_loss_is_not_passed_on_any_more() {
        let mut watch = LinkWatch::new(true);
        assert_eq!(see(&mut watch, false, true), [Tell(A, false), Hold(B)]);
        assert!(!watch.set_propagates(false));
        assert_eq!(see(&mut watch, false, false), [Tell(B, false), Release(B)]);
        assert!(watch.set_propagates(true) && !watch.set_propagates(true));
    }

    #[test]
    fn two_lost_links_do_not_hold_each_other() {
        let mut watch = LinkWatch::new(true);
        assert_eq!(see(&mut watch, false, false), [Tell(A, false), Tell(B, false), Hold(B)]);
        assert_eq!(see(&mut watch, true, false), [Tell(A, true), Release(B)]);
        for _ in 1..SETTLE {
            assert_eq!(see(&mut watch, true, false), [], "b may still negotiate");
        }
        assert_eq!(see(&mut watch, true, false), [Hold(A)], "b's own cable is out");
        assert_eq!(see(&mut watch, false, false), [Tell(A, false)]);
        assert_eq!(see(&mut watch, false, true), [Tell(B, true), Release(A)]);
        assert_eq!(see(&mut watch, true, true), [Tell(A, true)]);
    }

    #[test]
    fn what_failed_is_tried_again_after_a_while() {
        let mut watch = LinkWatch::new(true);
        assert_eq!(see(&mut watch, false, true), [Tell(A, false), Hold(B)]);
        for action in [Hold(B), Hold(B)] {
            watch.failed(action);
            for _ in 1..RETRY {
                assert_eq!(see(&mut watch, false, true), []);
            }
            assert_eq!(see(&mut watch, false, true), [Hold(B)]);
        }
        assert_eq!(see(&mut watch, true, false), [Tell(A, true), Tell(B, false), Release(B)]);
        watch.failed(Release(B));
        for _ in 1..RETRY {
            assert_eq!(see(&mut watch, true, false), []);
        }
        assert_eq!(see(&mut watch, true, false), [Release(B)]);
    }

    #[test]
    fn a_side_that_cannot_be_held_is_let_alone_and_the_other_is_not() {
        let mut watch = LinkWatch::new(true);
        watch.fix(B);
        assert_eq!(see(&mut watch, false, true), [Tell(A, false)]);
        for _ in 0..2 * RETRY {
            assert_eq!(see(&mut watch, false, true), []);
        }
        assert_eq!(see(&mut watch, true, false), [Tell(A, true), Tell(B, false), Hold(A)]);
        assert_eq!(see(&mut watch, false, true), [Tell(A, false), Tell(B, true), Release(A)]);
    }
}
