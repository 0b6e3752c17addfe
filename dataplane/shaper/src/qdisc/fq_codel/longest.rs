//! The byte backlog of every flow, and the flow with the largest.
//!
//! Overload drops come from the longest queue, and under overload that is asked once per packet.
//! Reading all 1024 flows each time costs as much as ten packets; keeping a heap would charge
//! every packet of the calm times. Here the backlogs lie packed in blocks of about sqrt(flows),
//! and each block knows its largest backlog, except when that one shrank: then the block is
//! *stale* and read again by the next search. So a change costs a few instructions without a
//! branch, and a search two or three straight loops over sqrt(flows) integers without a branch on
//! their values, which the compiler turns into SIMD, and never more than one pass over all flows.
//! With 64 busy flows of 1024, a search costs some 25 ns, and one each 1.5 ns at a change.

use alloc::vec;
use alloc::vec::Vec;

/// Backlogs in bytes, by flow.
///
/// A backlog is stored as an `i32` in the order of the `u32` it stands for ([`pack`]), because
/// that is what SSE2 compares in one instruction.
#[derive(Debug)]
pub(super) struct Longest {
    backlogs: Vec<Lanes>,
    /// The largest backlog of each block, unless the block is stale.
    largest: Vec<Lanes>,
    /// One bit per block.
    stale: [u64; MAX_BLOCKS / 64],
    /// A block has `1 << shift` flows.
    shift: u32,
}

type Lanes = [i32; LANES];

impl Longest {
    /// No backlog in any of `flows` (1..=65536) flows.
    pub(super) fn new(flows: u32) -> Self {
        let bits = u32::BITS - flows.saturating_sub(1).leading_zeros();
        let shift = bits.div_ceil(2).max(LANES.ilog2());
        let blocks = flows.div_ceil(1 << shift) as usize;
        Self {
            backlogs: vec![[pack(0); LANES]; (blocks << shift) / LANES],
            largest: vec![[pack(0); LANES]; blocks.div_ceil(LANES)],
            stale: [0; MAX_BLOCKS / 64],
            shift,
        }
    }

    #[inline]
    pub(super) fn get(&self, flow: u32) -> u32 {
        self.backlogs.as_flattened().get(flow as usize).map_or(0, |&backlog| unpack(backlog))
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
        let largest = largest(&self.largest);
        let block = first(&self.largest, largest);
        let flow = first(self.block(block), largest);
        ((block << self.shift) + flow) as u32
    }

    #[inline]
    fn set(&mut self, flow: u32, bytes: u32) {
        let block = flow >> self.shift;
        let (Some(backlog), Some(largest), Some(stale)) = (
            self.backlogs.as_flattened_mut().get_mut(flow as usize),
            self.largest.as_flattened_mut().get_mut(block as usize),
            self.stale.get_mut((block / 64) as usize),
        ) else {
            return;
        };
        let (old, new) = (*backlog, pack(bytes));
        *backlog = new;
        *stale |= u64::from(old == *largest && new < old) << (block % 64);
        *largest = new.max(*largest);
    }

    fn refresh(&mut self) {
        for word in 0..self.stale.len() {
            let mut bits = core::mem::take(&mut self.stale[word]);
            while bits != 0 {
                let block = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.largest[block / LANES][block % LANES] = largest(self.block(block));
            }
        }
    }

    #[inline]
    fn block(&self, block: usize) -> &[Lanes] {
        let size = (1 << self.shift) / LANES;
        self.backlogs.get(block * size..(block + 1) * size).unwrap_or_default()
    }
}

#[inline]
const fn pack(bytes: u32) -> i32 {
    (bytes ^ SIGN) as i32
}

#[inline]
const fn unpack(backlog: i32) -> u32 {
    backlog as u32 ^ SIGN
}

#[inline]
fn largest(values: &[Lanes]) -> i32 {
    let mut largest = [i32::MIN; LANES];
    for lanes in values {
        for (largest, value) in largest.iter_mut().zip(lanes) {
            *largest = (*largest).max(*value);
        }
    }
    largest.into_iter().fold(i32::MIN, i32::max)
}

/// The index of the first `wanted` among `values`.
#[inline]
fn first(values: &[Lanes], wanted: i32) -> usize {
    let has_it = |lanes: &Lanes| lanes.iter().fold(false, |has_it, &value| has_it | (value == wanted));
    let row = values.iter().position(has_it).unwrap_or(0);
    let lanes = values.get(row).unwrap_or(&[0; LANES]);
    let lane = (0..LANES).rev().fold(0, |first, lane| if lanes[lane] == wanted { lane } else { first });
    row * LANES + lane
}

const SIGN: u32 = 1 << 31;

/// Flows compared at once: two SSE registers, one AVX2 register.
const LANES: usize = 8;

/// Blocks that 65536 flows need.
const MAX_BLOCKS: usize = 256;

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
