//! The wire of a card: exact to the bit, one frame after the other (IEEE 802.3).

use shaper::time::Instant;

/// When the wire falls idle: whole nanoseconds, and the rest in 1/rate ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wire {
    idle: u64,
    rest: u64,
}

impl Wire {
    /// The wire after `bytes` that were there from `from` on; none at rate 0.
    pub(super) fn sent(self, from: Instant, bytes: u32, rate: u64) -> Option<Self> {
        let start = if from.as_nanos() > self.idle { Self { idle: from.as_nanos(), rest: 0 } } else { self };
        let owed = u128::from(bytes) * 8_000_000_000 + u128::from(start.rest);
        let nanos = u64::try_from(owed.checked_div(rate.into())?).ok()?;
        Some(Self { idle: start.idle.saturating_add(nanos), rest: (owed % u128::from(rate)) as u64 })
    }

    /// When the last bit has left, rounded up.
    pub(super) fn end(self) -> Instant {
        Instant::from_nanos(self.idle + u64::from(self.rest > 0))
    }

    /// Nothing more leaves before `until`.
    pub(super) fn hold(&mut self, until: Instant) {
        if until.as_nanos() > self.idle {
            *self = Self { idle: until.as_nanos(), rest: 0 };
        }
    }

    /// The rate changes: what is left of a nanosecond has no meaning any more.
    pub(super) fn round(&mut self) {
        self.rest = 0;
    }
}
