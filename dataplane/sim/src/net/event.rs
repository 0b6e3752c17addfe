//! Events by time; those of one instant in the order in which they were scheduled.

use shaper::time::Instant;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What is going to happen.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Entry<E>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    number: u64,
    event: E,
}

impl<E> Events<E> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0 }
    }

    /// Lets `event` happen at `at`.
    pub fn schedule(&mut self, at: Instant, event: E) {
        self.heap.push(Entry { at, number: self.scheduled, event });
        self.scheduled += 1;
    }

    /// Schedules `event` for when it is `wanted`, unless it will happen early enough anyway: at `told`.
    pub(super) fn tell(&mut self, told: &mut Instant, wanted: Option<Instant>, now: Instant, event: E) {
        if let Some(at) = wanted.map(|at| at.max(now))
            && at < *told
        {
            *told = at;
            self.schedule(at, event);
        }
    }

    /// The next event, unless it is later than `until`.
    pub fn pop(&mut self, until: Instant) -> Option<(Instant, E)> {
        if self.heap.peek()?.at > until {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

/// Whether it was now that something was to be told; if so, it is.
pub(super) fn is_due(told: &mut Instant, now: Instant) -> bool {
    let is_due = *told == now;
    if is_due {
        *told = Instant::MAX;
    }
    is_due
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Ord for Entry<E> {
    /// The earliest is the greatest: the heap gives the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_comes_first_and_order_second() {
        let mut events = Events::new();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            events.schedule(Instant::from_nanos(at), event);
        }
        let until = Instant::from_nanos(5);
        let order: Vec<char> = std::iter::from_fn(|| events.pop(until)).map(|(_, event)| event).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
        assert_eq!(events.pop(Instant::MAX), Some((Instant::from_nanos(9), 'e')));
    }
}
