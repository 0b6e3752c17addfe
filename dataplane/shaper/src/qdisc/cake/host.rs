//! Hosts of one side (source or destination) of one tin, and how many bulk flows each has.
//!
//! A set-associative table with 8 ways: an entry belongs to the host whose hash it bears as a tag.
//! Contract: an entry is found by [`Hosts::claim`], and stays the same host's as long as it has
//! holders: flows that are not idle. (Fault 27: only bulk flows hold it.) When all eight entries of
//! a set are held by others, the newcomer shares its home entry.

use super::{QUEUES, WAYS};
use crate::conformance::Conformance;
use alloc::boxed::Box;

#[derive(Debug)]
pub(super) struct Hosts {
    tags: Box<[u32; QUEUES]>,
    counts: Box<[Counts; QUEUES]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Bulk flows.
    bulk: u16,
    /// Flows that are not idle.
    holders: u16,
}

impl Hosts {
    /// Memory of one side of a tin, bytes.
    pub(super) const FOOTPRINT: usize = QUEUES * (size_of::<u32>() + size_of::<Counts>());

    pub(super) fn new() -> Self {
        Self { tags: Box::new([0; QUEUES]), counts: Box::new([Counts::default(); QUEUES]) }
    }

    /// The entry of the host with `hash`, for a flow that is about to hold it.
    pub(super) fn claim<C: Conformance>(&mut self, hash: u32) -> u16 {
        let home = hash as usize % QUEUES;
        if let Some(known) = ways(home).find(|&at| self.tags[at] == hash) {
            return self.hold(known);
        }
        let free = |at: &usize| {
            let counts = self.counts[*at];
            if C::CAKE_HOSTS_UNREFERENCED { counts.bulk == 0 } else { counts.holders == 0 }
        };
        match ways(home).find(free) {
            Some(at) => {
                self.tags[at] = hash;
                self.hold(at)
            }
            None => {
                if C::CAKE_HOSTS_UNREFERENCED {
                    self.tags[home] = hash;
                }
                self.hold(home)
            }
        }
    }

    #[inline]
    fn hold(&mut self, at: usize) -> u16 {
        let counts = &mut self.counts[at % QUEUES];
        counts.holders = counts.holders.saturating_add(1);
        at as u16
    }

    /// A flow that held the entry went idle.
    #[inline]
    pub(super) fn release(&mut self, host: u16) {
        let counts = self.counts_mut(host);
        counts.holders = counts.holders.saturating_sub(1);
    }

    /// One more bulk flow.
    #[inline]
    pub(super) fn raise(&mut self, host: u16) {
        let counts = self.counts_mut(host);
        counts.bulk = (counts.bulk + 1).min(QUEUES as u16);
    }

    /// One bulk flow less.
    #[inline]
    pub(super) fn lower(&mut self, host: u16) {
        let counts = self.counts_mut(host);
        counts.bulk = counts.bulk.saturating_sub(1);
    }

    /// Bulk flows of the host.
    #[inline]
    pub(super) fn bulk(&self, host: u16) -> u16 {
        self.counts[host as usize % QUEUES].bulk
    }

    /// The hash the entry belongs to.
    pub(super) fn tag(&self, host: u16) -> u32 {
        self.tags[host as usize % QUEUES]
    }

    /// Bulk flows and holders of each entry.
    #[cfg(test)]
    pub(super) fn check(&self, expected: &[(u16, u16); QUEUES]) {
        for (counts, expected) in self.counts.iter().zip(expected) {
            assert_eq!((counts.bulk, counts.holders), *expected);
        }
    }

    #[inline]
    fn counts_mut(&mut self, host: u16) -> &mut Counts {
        &mut self.counts[host as usize % QUEUES]
    }
}

/// The places of a set in the order of search: from `home` on, around the set.
#[inline]
pub(super) fn ways(home: usize) -> impl Iterator<Item = usize> + Clone {
    let base = home % QUEUES / WAYS * WAYS;
    (0..WAYS).map(move |step| (base + (home + step) % WAYS) % QUEUES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Linux, Weir};
    use std::vec::Vec;

    #[test]
    fn a_set_is_searched_around() {
        assert_eq!(ways(1021).collect::<Vec<_>>(), [1021, 1022, 1023, 1016, 1017, 1018, 1019, 1020]);
        assert_eq!(ways(8).collect::<Vec<_>>(), [8, 9, 10, 11, 12, 13, 14, 15]);
    }

    /// Fault 27: eight hosts hold the set with sparse flows when a ninth comes.
    fn tags_after_a_ninth_host<C: Conformance>() -> Vec<u32> {
        let mut hosts = Hosts::new();
        let held: Vec<u16> = (1..=9).map(|host| hosts.claim::<C>(host * 1024)).collect();
        held[..8].iter().map(|&host| hosts.tag(host)).collect()
    }

    #[test]
    fn a_held_entry_is_not_taken_over() {
        let own: Vec<u32> = (1..=8).map(|host| host * 1024).collect();
        assert_eq!(tags_after_a_ninth_host::<Weir>(), own);
        assert_ne!(tags_after_a_ninth_host::<Linux>(), own);
    }

    #[test]
    fn a_released_entry_is_free_again() {
        let mut hosts = Hosts::new();
        let held: Vec<u16> = (1..=8).map(|host| hosts.claim::<Weir>(host * 1024)).collect();
        hosts.release(held[3]);
        let ninth = hosts.claim::<Weir>(9 * 1024);
        assert_eq!(ninth, held[3]);
        assert_eq!(hosts.tag(ninth), 9 * 1024);
    }
}
