//! Packets between the discipline and the driver, each with its [`Stamp`].

use dpdk::{Burst, Mbuf};
use shaper::time::{Duration, Instant};

/// When a packet was received, and the tin it waited in: one word, so that it travels for one store and
/// one load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u64);

/// A [`Burst`] in order, with stamps.
#[derive(Debug)]
pub struct Outbox {
    burst: Burst,
    /// By number of the packet, modulo the capacity. That of the last one is `next` - 1: so the stamps need
    /// not be told how many packets the driver has taken.
    stamps: [Stamp; Burst::CAPACITY],
    next: usize,
}

impl Stamp {
    /// Of a packet that is not recorded: it waited in no tin.
    pub const NONE: Self = Self(u64::MAX);

    /// Received then, waited there. Good for the first 36 years.
    #[inline]
    pub const fn new(received: Instant, tin: u8) -> Self {
        Self(received.as_nanos() << TIN_BITS | (tin & NO_TIN) as u64)
    }

    /// The tin; one that there is not for [`Stamp::NONE`].
    #[inline]
    pub const fn tin(self) -> u8 {
        self.0 as u8 & NO_TIN
    }

    /// How long ago it was received.
    #[inline]
    pub fn age(self, now: Instant) -> Duration {
        now.since(Instant::from_nanos(self.0 >> TIN_BITS))
    }
}

impl Outbox {
    /// An empty one.
    pub const fn new() -> Self {
        Self { burst: Burst::new(), stamps: [Stamp::NONE; Burst::CAPACITY], next: 0 }
    }

    /// Appends a packet; gives it back if there is no room.
    #[inline]
    pub fn push(&mut self, packet: Mbuf, stamp: Stamp) -> Result<(), Mbuf> {
        self.burst.push(packet)?;
        self.stamps[self.next % Burst::CAPACITY] = stamp;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop(&mut self) -> Option<(Mbuf, Stamp)> {
        let stamp = self.stamp(0);
        Some((self.burst.pop()?, stamp))
    }

    /// The stamp of packet `index`. After packets were taken from the front, [`Outbox::gone`] has theirs.
    #[inline]
    pub const fn stamp(&self, index: usize) -> Stamp {
        self.stamps[self.next.wrapping_sub(self.burst.len()).wrapping_add(index) % Burst::CAPACITY]
    }

    /// The stamps of the last `count` packets that were taken from the front, first one first.
    #[inline]
    pub fn gone(&self, count: usize) -> impl Iterator<Item = Stamp> + '_ {
        let first = self.next.wrapping_sub(self.burst.len()).wrapping_sub(count);
        (0..count).map(move |index| self.stamps[first.wrapping_add(index) % Burst::CAPACITY])
    }

    /// Loads the header of the last packet into the cache.
    #[inline]
    pub fn prefetch_last(&self) {
        self.burst.prefetch_header(self.len().wrapping_sub(1));
    }

    /// The packets alone, to be taken from the front.
    #[inline]
    pub const fn burst(&mut self) -> &mut Burst {
        &mut self.burst
    }

    /// The packets, first one first.
    #[inline]
    pub fn as_slice(&self) -> &[Mbuf] {
        self.burst.as_slice()
    }

    /// How many there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.burst.len()
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.burst.is_empty()
    }

    /// Packets that still fit in.
    #[inline]
    pub const fn room(&self) -> usize {
        self.burst.room()
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

const TIN_BITS: u32 = 4;
const NO_TIN: u8 = (1 << TIN_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use dpdk::testing::eal;
    use dpdk::{Mempool, MempoolConfig};

    #[test]
    fn a_stamp_keeps_both() {
        let then = Instant::from_nanos(1_000_000_000_000_000_000);
        let stamp = Stamp::new(then, 7);
        assert_eq!((stamp.tin(), stamp.age(then + Duration::from_nanos(3))), (7, Duration::from_nanos(3)));
        assert_eq!((Stamp::new(then, 15).tin(), Stamp::NONE.tin()), (15, 15));
    }

    /// Whatever is pushed, popped and taken in whatever order, each packet keeps its stamp.
    #[test]
    fn each_packet_keeps_its_stamp() {
        let eal = eal();
        let pool = Mempool::create(&eal, &MempoolConfig::new("stamped", 255)).unwrap();
        let mut outbox = Outbox::new();
        let (mut pushed, mut seen) = (0_u64, 0_u64);
        for round in 0..200_usize {
            for _ in 0..round % 23 {
                let mut packet = pool.alloc().unwrap();
                packet.append(60).unwrap()[..8].copy_from_slice(&pushed.to_ne_bytes());
                if outbox.push(packet, Stamp::new(Instant::from_nanos(pushed), 1)).is_err() {
                    break;
                }
                pushed += 1;
            }
            let number = |packet: &Mbuf| u64::from_ne_bytes(packet.head()[..8].try_into().unwrap());
            if let Some((packet, stamp)) = outbox.pop() {
                assert_eq!((number(&packet), stamp), (seen, Stamp::new(Instant::from_nanos(seen), 1)));
                seen += 1;
            }
            let taken: Vec<_> =
                outbox.burst().drain().take(round % 17).map(|packet| number(&packet)).collect();
            let stamps: Vec<_> = outbox.gone(taken.len()).collect();
            let expected: Vec<_> =
                taken.iter().map(|number| Stamp::new(Instant::from_nanos(*number), 1)).collect();
            assert_eq!(stamps, expected);
            seen += taken.len() as u64;
            if let Some(first) = outbox.as_slice().first().map(number) {
                assert_eq!(outbox.stamp(0), Stamp::new(Instant::from_nanos(first), 1));
            }
        }
        assert!(pushed > 1_000 && seen + outbox.len() as u64 == pushed, "{pushed} {seen}");
    }
}
