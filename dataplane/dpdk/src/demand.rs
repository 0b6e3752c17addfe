//! How many buffers a port's mempool needs.
//!
//! One pool per receiving port, so that a direction whose queues are full cannot take the buffers
//! that the other one's receive ring needs. A packet stays in the pool it was received into until
//! it has left, wherever it waits, so the demand is the sum over all the places it can wait in.

use std::fmt;

/// The places where buffers of one pool can be at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Descriptors of the receive ring: always full of empty buffers.
    pub rx_desc: u32,
    /// Descriptors of the transmit ring of the port on the other side; drivers free lazily.
    pub tx_desc: u32,
    /// Packets that can be queued.
    pub queued: u32,
    /// Segments a queued packet has at most: 1 unless frames are longer than a buffer.
    pub segments: u32,
    /// Buffers held outside of queues and rings, for example until the link is back.
    pub held: u32,
    /// Lcores with a cache in the pool.
    pub lcores: u32,
    /// Buffers per cache; one is flushed at one and a half times that.
    pub cache: u32,
    /// Packets in bursts on their way.
    pub bursts: u32,
}

impl Demand {
    /// Buffers in all: rx ring + tx ring + queued × segments + held + lcores × 1.5 × cache + bursts.
    pub const fn count(&self) -> u32 {
        self.rx_desc
            .saturating_add(self.tx_desc)
            .saturating_add(self.queued.saturating_mul(self.segments))
            .saturating_add(self.held)
            .saturating_add(self.lcores.saturating_mul(self.flush_threshold()))
            .saturating_add(self.bursts)
    }

    const fn flush_threshold(&self) -> u32 {
        self.cache.saturating_add(self.cache.div_ceil(2))
    }
}

/// The sum, written out.
impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rx ring {} + tx ring {} + queued {} x {} segments + held {} + {} lcores x 1.5 x cache {} + bursts {} = {} buffers",
            self.rx_desc,
            self.tx_desc,
            self.queued,
            self.segments,
            self.held,
            self.lcores,
            self.cache,
            self.bursts,
            self.count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_sum() {
        let demand = Demand {
            rx_desc: 1024,
            tx_desc: 512,
            queued: 10240,
            segments: 2,
            held: 7,
            lcores: 2,
            cache: 255,
            bursts: 128,
        };
        assert_eq!(demand.count(), 1024 + 512 + 20480 + 7 + 2 * 383 + 128);
        assert_eq!(
            demand.to_string(),
            "rx ring 1024 + tx ring 512 + queued 10240 x 2 segments + held 7 + 2 lcores x 1.5 x cache 255 \
             + bursts 128 = 22917 buffers"
        );
        assert_eq!(Demand { queued: u32::MAX, segments: 9, ..demand }.count(), u32::MAX);
    }
}
