//! The byte backlog of every flow, and the flow with the largest.
//!
//! Overload drops come from the longest queue, and under overload that is asked once per packet.
//! Linux reads all 1024 flows each time; keeping a heap would charge every packet of the calm times.
//! Here the backlogs lie packed in blocks of about sqrt(flows). A change marks its block as stale,
//! which costs one OR; a search reads the stale blocks again, then the largest of each block. Both
//! are straight loops over `u32` that the compiler turns into SIMD. A search costs O(sqrt(flows))
//! per change since the last one, and no more than one pass over all flows.

use alloc::vec;
use alloc::vec::Vec;

/// Backlogs in bytes, by flow.
#[derive(Debug)]
pub(super) struct Longest {
    backlogs: Vec<u32>,
    /// The largest backlog of each block, unless the block is stale.
    largest: Vec<u32>,
    /// One bit per block.
    stale: [u64; MAX_BLOCKS / 64],
    /// A block has `1 << shift` flows.
    shift: u32,
}

impl Longest {
    /// No backlog in any of `flows` (1..=65536) flows.
    pub(super) fn new(flows: u32) -> Self {
        let bits = u32::BITS - flows.saturating_sub(1).leading_zeros();
        let shift = bits.div_ceil(2).max(MIN_SHIFT);
        let blocks = flows.div_ceil(1 << shift) as usize;
        Self {
            backlogs: vec![0; blocks << shift],
            largest: vec![0; blocks],
            stale: [0; MAX_BLOCKS / 64],
            shift,
        }
    }

    #[inline]
    pub(super) fn get(&self, flow: u32) -> u32 {
        self.backlogs.get(flow as usize).copied().unwrap_or(0)
    }

    /// Modulo 2^32, as [`Longest::sub`]: the two undo each other whatever the lengths are.
    #[inline]
    pub(super) fn add(&mut self, flow: u32, bytes: u32) {
        self.set(flow, self.get(flow).wrapping_add(bytes));
    }

    #[inline]
    pub(super) fn sub(&mut self, flow: u32, bytes: u32) {
        self.set(flow, self.get(flow).wrapping_sub(bytes));
    }

    /// The flow with the largest backlog, of several the one with the lowest index.
    pub(super) fn find(&mut self) -> u32 {
        self.refresh();
        let block = first_of_largest(&self.largest);
        let start = block << self.shift;
        let flow = first_of_largest(self.block(block));
        (start + flow) as u32
    }

    #[inline]
    fn set(&mut self, flow: u32, bytes: u32) {
        let Some(backlog) = self.backlogs.get_mut(flow as usize) else { return };
        *backlog = bytes;
        let block = flow >> self.shift;
        if let Some(word) = self.stale.get_mut((block / 64) as usize) {
            *word |= 1 << (block % 64);
        }
    }

    fn refresh(&mut self) {
        for word in 0..self.stale.len() {
            let mut bits = core::mem::take(&mut self.stale[word]);
            while bits != 0 {
                let block = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.largest[block] = largest(self.block(block));
            }
        }
    }

    #[inline]
    fn block(&self, block: usize) -> &[u32] {
        let start = block << self.shift;
        &self.backlogs[start..start + (1 << self.shift)]
    }
}

#[inline]
fn largest(values: &[u32]) -> u32 {
    values.iter().fold(0, |largest, &value| largest.max(value))
}

#[inline]
fn first_of_largest(values: &[u32]) -> usize {
    let largest = largest(values);
    values.iter().position(|&value| value == largest).unwrap_or(0)
}

/// Blocks that 65536 flows need.
const MAX_BLOCKS: usize = 256;

/// A block of eight flows at least: half a cache line, two SSE registers.
const MIN_SHIFT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, SplitMix};

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
