//! The largest of many, in a table of fixed size: Space-Saving, set-associative.
//!
//! Who is new and finds its set full takes the place of the smallest in it, with the bytes of that one as
//! the most by which its own may be too many. So nobody's bytes are ever too few, and who has more than the
//! smallest of its set is in the table.

use shaper::flow::key::FlowKey;
use shaper::time::Duration;

/// Keys and their bytes. The default has no places and keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct Table {
    sets: Box<[[Entry; WAYS]]>,
    /// Sets that hold anything, so that the others are neither read nor cleared: a bit for each, by its number
    /// modulo the bits.
    used: u128,
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: FlowKey,
    /// Its bytes, at most `over` too many; 0: the place is free.
    pub bytes: u64,
    /// Bytes of others whose place this was.
    pub over: u64,
    /// Packets that were seen of it.
    pub samples: u64,
    /// The time that these waited, together.
    pub waited: Duration,
    /// The longest that one of them waited.
    pub longest: Duration,
}

/// Places in a set: what an update looks at.
pub const WAYS: usize = 8;

impl Entry {
    const FREE: Self = Self {
        key: FlowKey::EMPTY,
        bytes: 0,
        over: 0,
        samples: 0,
        waited: Duration::ZERO,
        longest: Duration::ZERO,
    };
}

impl Table {
    /// An empty table of `sets` sets of [`WAYS`] places.
    pub fn new(sets: usize) -> Self {
        Self { sets: vec![[Entry::FREE; WAYS]; sets].into(), used: 0 }
    }

    /// Adds `bytes` to `key`, whose hash, uniform over 32 bits, chooses the set; a packet of it waited for `wait`.
    pub fn add(&mut self, hash: u32, key: &FlowKey, bytes: u32, wait: Duration) {
        let place = (u64::from(hash) * self.sets.len() as u64) >> 32;
        let Some(set) = self.sets.get_mut(place as usize) else { return };
        self.used |= 1 << (place % 128);
        let mut smallest = 0;
        let mut fewest = u64::MAX;
        for (way, entry) in set.iter_mut().enumerate() {
            if entry.bytes > 0 && entry.key == *key {
                return entry.see(bytes, wait);
            }
            if entry.bytes < fewest {
                (smallest, fewest) = (way, entry.bytes);
            }
        }
        if let Some(entry) = set.get_mut(smallest) {
            *entry = Entry { key: *key, bytes: fewest, over: fewest, ..Entry::FREE };
            entry.see(bytes, wait);
        }
    }

    /// Whether it has any place.
    pub const fn has_room(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        let used = std::mem::take(&mut self.used);
        let sets = self.sets.iter_mut().enumerate();
        sets.filter(|(place, _)| is_used(used, *place)).for_each(|(_, set)| *set = [Entry::FREE; WAYS]);
    }

    /// What is in it, in no order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let sets = self.sets.iter().enumerate().filter(|(place, _)| is_used(self.used, *place));
        sets.flat_map(|(_, set)| set).filter(|entry| entry.bytes > 0)
    }
}

const fn is_used(used: u128, place: usize) -> bool {
    used >> (place % 128) & 1 == 1
}

impl Entry {
    #[inline]
    fn see(&mut self, bytes: u32, wait: Duration) {
        self.bytes += u64::from(bytes);
        self.samples += 1;
        self.waited += wait;
        self.longest = self.longest.max(wait);
    }
}
