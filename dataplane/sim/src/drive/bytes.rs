//! Choices from a string of bytes; zeros when it is used up.

/// What is left of the input.
#[derive(Clone, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((&first, rest)) => {
                self.rest = rest;
                first
            }
            None => 0,
        }
    }

    /// One of `bound` choices, from one byte.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        u32::from(self.byte()) % bound
    }

    pub(super) fn is_set(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Three bytes.
    pub(super) fn wide(&mut self) -> u32 {
        (0..3).fold(0, |sum, _| sum << 8 | u32::from(self.byte()))
    }

    /// A span in ns: a byte, scaled by a power of two, from 0 to 2^41 (half an hour).
    pub(super) fn span(&mut self) -> u64 {
        let scale = self.below(34);
        u64::from(self.byte()) << scale
    }
}
