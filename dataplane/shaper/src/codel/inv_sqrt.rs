//! The reciprocal square root of CoDel's control law (RFC 8289, section 5.4): the gap between two
//! signals is `interval / sqrt(count)`.
//!
//! Two ways to have it: [`Newton16`] keeps a 16-bit value and refines it by one step whenever
//! `count` moves, which is cheap and goes astray when `count` jumps; [`Exact`] keeps nothing and
//! computes it from `count` when a signal is due, about 10 ns per signal.

use core::fmt::Debug;

/// A reciprocal root that follows `count`.
pub trait Root: Copy + Debug + Default {
    /// `count` was set to 1.
    fn reset(&mut self);

    /// `count` has become `count`.
    fn step(&mut self, count: u32);

    /// `1 / sqrt(count)` as a fraction of 2^31.
    fn fraction(&self, count: u32) -> u32;
}

/// Sixteen bits, refined by one Newton step per change of `count` (faults 1 and 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Newton16(u16);

/// No state: rounded down to 31 bits from `count` itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exact;

impl Root for Newton16 {
    #[inline]
    fn reset(&mut self) {
        self.0 = u16::MAX;
    }

    /// `r <- r/2 * (3 - count * r^2)` in fixed point. Where `count * r^2` exceeds 3 the
    /// difference wraps and leaves an arbitrary value.
    #[inline]
    fn step(&mut self, count: u32) {
        let x = u64::from(self.0) << 16;
        let square = (x * x) >> 32;
        let rest = (3u64 << 32).wrapping_sub(u64::from(count) * square) >> 2;
        self.0 = (rest.wrapping_mul(x) >> 31 >> 16) as u16;
    }

    #[inline]
    fn fraction(&self, _count: u32) -> u32 {
        u32::from(self.0) << 15
    }
}

impl Root for Exact {
    #[inline]
    fn reset(&mut self) {}

    #[inline]
    fn step(&mut self, _count: u32) {}

    #[inline]
    fn fraction(&self, count: u32) -> u32 {
        ((1u64 << 62) / u64::from(count.max(1))).isqrt() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newton_step_per_count_is_far_off_at_first() {
        let mut root = Newton16::default();
        root.reset();
        let steps = [2, 3, 4, 5, 6].map(|count| {
            root.step(count);
            root.0
        });
        assert_eq!(steps, [32769, 36864, 31968, 28935, 26481]);
    }

    #[test]
    fn a_jump_of_count_makes_the_newton_step_wrap() {
        let mut root = Newton16(u16::MAX);
        root.step(65);
        assert_eq!(root.0, 95);
    }

    #[test]
    fn exact_is_within_one_unit_of_the_real_root() {
        for count in (1..5_000).chain([65_535, 1 << 20, u32::MAX]) {
            let real = f64::from(1u32 << 31) / f64::from(count).sqrt();
            let ours = f64::from(Exact.fraction(count));
            assert!((real - 1.0..=real).contains(&ours), "count {count}: {ours} for {real}");
        }
        assert_eq!(Exact.fraction(1), 1 << 31);
        assert_eq!(Exact.fraction(4), 1 << 30);
    }
}
