//! Randomness as an argument.

/// Two independent streams of random numbers, as the disciplines draw them.
///
/// Sixteen- and thirty-two-bit draws come from separate streams so that a recorded trace can
/// replay each of them on its own.
pub trait Rng {
    /// A uniformly distributed `u16`.
    fn next_u16(&mut self) -> u16;
    /// A uniformly distributed `u32`.
    fn next_u32(&mut self) -> u32;
}

/// SplitMix64 (Steele, Lea, Flood 2014), one state per stream; a draw is the top bits of a step.
#[derive(Clone, Debug)]
pub struct SplitMix {
    state16: u64,
    state32: u64,
}

impl SplitMix {
    /// Streams that start from the two seeds.
    pub const fn new(seed16: u64, seed32: u64) -> Self {
        Self { state16: seed16, state32: seed32 }
    }
}

impl Rng for SplitMix {
    #[inline]
    fn next_u16(&mut self) -> u16 {
        (step(&mut self.state16) >> 48) as u16
    }

    #[inline]
    fn next_u32(&mut self) -> u32 {
        (step(&mut self.state32) >> 32) as u32
    }
}

#[inline]
fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
