//! The byte backlog of every flow, and the flow with the largest.
//!
//! Overload drops come from the longest queue, and under overload that is asked once per packet.
//! Reading all 1024 flows each time costs as much as ten packets; keeping a heap would charge
//! every packet of the calm times. Here the backlogs lie packed in blocks of about sqrt(flows),
//! and each block knows its largest, except when that one shrank: then the block is *stale* and
//! read again by the next search. So a change costs a few instructions without a branch, and a
//! search about as many straight loops over sqrt(flows) keys as flows shrank, never more than one
//! pass over all flows. With 64 busy flows of 1024 a round of two enqueues, one drop and one dequeue
//! takes 70 to 80 ns in all (AMD EPYC VM, 2026-11, `fq_codel_bench`); equal-width loads and stores
//! matter here more than SIMD does, which took 110 ns with 32-bit lanes.

use alloc::vec::Vec;

/// Backlogs in bytes, by flow.
#[derive(Debug)]
pub(super) struct Longest {
    keys: Vec<Key>,
    /// The largest key of each block, unless the block is stale.
    largest: Vec<Key>,
    /// One bit per block.
    stale: [u64; MAX_BLOCKS / 64],
    /// A block has `1 << shift` flows.
    shift: u32,
}

/// Backlog in the upper half, complement of the flow's index in the lower: no two are equal, and
/// of equal backlogs the lowest index is the largest key.
type Key = u64;

impl Longest {
    /// No backlog in any of `flows` (1..=65536) flows.
    pub(super) fn new(flows: u32) -> Self {
        let bits = u32::BITS - flows.saturating_sub(1).leading_zeros();
        let shift = bits.div_ceil(2).max(LANES.ilog2());
        let blocks = flows.div_ceil(1 << shift);
        let keys: Vec<Key> = (0..blocks << shift).map(|flow| Key::from(!flow)).collect();
        let largest = (0..blocks).map(|block| Key::from(!(block << shift))).collect();
        Self { keys, largest, stale: [0; MAX_BLOCKS / 64], shift }
    }

    #[inline]
    pub(super) fn get(&self, flow: u32) -> u32 {
        self.keys.get(flow as usize).map_or(0, |key| (key >> 32) as u32)
    }

    /// Modulo 2^32, as [`Longest::sub`]: the two undo each other whatever the lengths are.
    #[inline]
    pub(super) fn add(&mut self, flow: u32, bytes: u32) {
        self.change(flow, |key| key.wrapping_add(Key::from(bytes) << 32));
    }

    #[inline]
    pub(super) fn sub(&mut self, flow: u32, bytes: u32) {
        self.change(flow, |key| key.wrapping_sub(Key::from(bytes) << 32));
    }

    /// The flow with the largest backlog, of several the one with the lowest index.
    pub(super) fn find(&mut self) -> u32 {
        self.refresh();
        !(largest(&self.largest) as u32)
    }

    #[inline]
    fn change(&mut self, flow: u32, change: impl Fn(Key) -> Key) {
        let block = flow >> self.shift;
        let (Some(key), Some(largest), Some(stale)) = (
            self.keys.get_mut(flow as usize),
            self.largest.get_mut(block as usize),
            self.stale.get_mut((block / 64) as usize),
        ) else {
            return;
        };
        let (old, new) = (*key, change(*key));
        *key = new;
        *stale |= u64::from(old == *largest && new < old) << (block % 64);
        *largest = new.max(*largest);
    }

    fn refresh(&mut self) {
        for (word, stale) in self.stale.iter_mut().enumerate() {
            while *stale != 0 {
                let block = word * 64 + stale.trailing_zeros() as usize;
                *stale &= *stale - 1;
                let keys = self.keys.get(block << self.shift..(block + 1) << self.shift);
                if let (Some(slot), Some(keys)) = (self.largest.get_mut(block), keys) {
                    *slot = largest(keys);
                }
            }
        }
    }
}

/// Several running maxima, because one alone would wait for itself at every key.
#[inline]
fn largest(keys: &[Key]) -> Key {
    let (rows, rest) = keys.as_chunks::<LANES>();
    let mut largest = [0; LANES];
    for row in rows {
        for (largest, key) in largest.iter_mut().zip(row) {
            *largest = (*largest).max(*key);
        }
    }
    largest.iter().chain(rest).fold(0, |largest, key| largest.max(*key))
}

/// Blocks that 65536 flows need.
const MAX_BLOCKS: usize = 256;

/// Maxima kept at once.
const LANES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, SplitMix};
    use alloc::vec;

    /// The definition: scan upwards, replace only on strictly larger.
    fn scan(backlogs: &[u32]) -> u32 {
        let mut best = 0;
        for (flow, &bytes) in backlogs.iter().enumerate() {
            if bytes > backlogs[best] {
                best = flow;
            }
        }
        best as u32
    }

    #[test]
    fn agrees_with_a_scan_for_every_number_of_flows() {
        let mut rng = SplitMix::new(1, 2);
        for flows in [1, 2, 3, 7, 8, 9, 63, 64, 65, 100, 1_000, 1_024, 1_025, 16_385, 65_535, 65_536] {
            let mut longest = Longest::new(flows);
            let mut plain = vec![0u32; flows as usize];
            for _ in 0..200 {
                for _ in 0..rng.next_u32() % 4 {
                    let flow = rng.next_u32() % flows;
                    let bytes = rng.next_u32() % 4;
                    if plain[flow as usize] >= 3 {
                        plain[flow as usize] -= bytes.min(3);
                        longest.sub(flow, bytes.min(3));
                    } else {
                        plain[flow as usize] += bytes;
                        longest.add(flow, bytes);
                    }
                    assert_eq!(longest.get(flow), plain[flow as usize]);
                }
                assert_eq!(longest.find(), scan(&plain), "{flows} flows");
            }
        }
    }
}
