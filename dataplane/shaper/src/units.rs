//! Quantities with a unit.

/// A rate in bits per second.
///
/// Bits, because that is how links and `tc` are quoted; a whole number of bytes per second is a
/// whole number of bits per second, so the conversion [`Rate::from_bytes_per_sec`] is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// A rate of `bits` per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `bytes` per second, saturating.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes.saturating_mul(8))
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Bytes per second, rounded down.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0 / 8
    }
}
