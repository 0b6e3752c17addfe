//! Who sends and receives most, and how long that waited: a sample of the packets on their way out.
//!
//! * A [`Sampler`] chooses packets so that each byte is as likely as any other to be seen: one in
//!   `step` bytes on average, where `step` follows the traffic so that some [`RATE`] packets a second are
//!   looked at. What a packet of the sample stands for is known, so that sums of it are estimates without bias
//!   (threshold sampling: Duffield, Lund, Thorup 2005).
//! * A [`Table`] keeps the largest of what it is told (Space-Saving: Metwally, Agrawal, El Abbadi 2005), in sets,
//!   so that an update looks at [`table::WAYS`] places.
//!
//! Contract: all memory is taken by [`Talkers::new`]; [`Talkers::weigh`], once a packet, is a subtraction and
//! two comparisons; [`Talkers::note`], once a packet of the sample, reads its headers and updates three
//! tables. A [`Watch`] on the control side puts the samples together.

pub mod sampler;
pub mod table;
mod watch;

pub use watch::{Talker, Watch, Window};

use crate::talkers::sampler::Sampler;
use crate::talkers::table::Table;
use dpdk::Mbuf;
use shaper::flow::dissect::{Dissected, dissect_into};
use shaper::flow::hash::FlowHasher;
use shaper::flow::key::{Family, FlowKey, Kind};
use shaper::time::{Duration, Instant};
use shaper::wire::protocol::{TCP, UDP};

/// Packets looked at in a second, whatever the rate of the traffic: some 0.2 % of an lcore.
pub const RATE: u64 = 10_000;

/// What one direction samples, on the packet path. The default samples nothing.
#[derive(Debug, Default)]
pub struct Talkers {
    sampler: Sampler,
    hasher: Option<FlowHasher>,
    sample: Sample,
}

/// What was seen between two exchanges.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// By [`Side`].
    tables: [Table; SIDES],
    /// Estimated bytes of all of it.
    bytes: u64,
    /// The coarsest step in bytes; 0 if nothing was seen.
    step: u32,
}

/// What bytes are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The flow.
    Flow,
    /// The host that sent them.
    Sender,
    /// The host that receives them.
    Receiver,
}

impl Talkers {
    /// Tables for one direction, some 250 KiB. The secret of `hasher` keeps senders from choosing places in
    /// them, `seed` from choosing what is sampled.
    pub fn new(hasher: FlowHasher, seed: u64) -> Self {
        Self { sampler: Sampler::new(seed), hasher: Some(hasher), sample: Sample::new() }
    }

    /// The bytes that a packet of `len` bytes stands for, if it is of the sample.
    #[inline]
    pub fn weigh(&mut self, len: u32) -> Option<u32> {
        self.sampler.weigh(len)
    }

    /// Notes a packet of the sample, which stands for `weight` bytes and leaves `now`, after it waited for `wait`.
    #[cold]
    pub fn note(&mut self, now: Instant, packet: &Mbuf, weight: u32, wait: Duration) {
        let mut bytes = [0; LOOKED_AT];
        let there = packet.read(0, &mut bytes);
        let key = key(bytes.get(..there).unwrap_or_default(), packet.pkt_len() as usize);
        self.note_key(now, &key, weight, wait);
    }

    /// As [`Talkers::note`], of a packet whose headers have been read.
    pub fn note_key(&mut self, now: Instant, key: &FlowKey, weight: u32, wait: Duration) {
        let Some(hasher) = &self.hasher else { return };
        let (sender, receiver) = hosts(key);
        let hashes = hasher.hosts(key);
        let [flows, senders, receivers] = &mut self.sample.tables;
        flows.add(hasher.flow(key), key, weight, wait);
        senders.add(hashes.0, &sender, weight, wait);
        receivers.add(hashes.1, &receiver, weight, wait);
        self.sample.bytes += u64::from(weight);
        self.sample.step = self.sample.step.max(self.sampler.step());
        self.sampler.spent(now);
    }

    /// Gives away what was seen since the last time, in exchange for an empty sample; by how much it was the
    /// step is set.
    pub fn exchange(&mut self, now: Instant, empty: &mut Sample) {
        core::mem::swap(&mut self.sample, empty);
        self.sampler.passed(now, empty.bytes);
    }

    /// What was seen since the last exchange.
    pub fn sample(&self) -> &Sample {
        &self.sample
    }
}

impl Sample {
    /// An empty sample with the tables of [`Talkers::new`].
    pub fn new() -> Self {
        Self { tables: Side::ALL.map(|side| Table::new(side.sets())), ..Self::default() }
    }

    /// Whether anything can be kept.
    pub const fn has_room(&self) -> bool {
        let [flows, ..] = &self.tables;
        flows.has_room()
    }

    /// Forgets what was seen, and keeps the memory.
    pub fn clear(&mut self) {
        self.tables.iter_mut().for_each(Table::clear);
        (self.bytes, self.step) = (0, 0);
    }
}

impl Side {
    /// All, in the order of the tables.
    pub const ALL: [Self; SIDES] = [Self::Flow, Self::Sender, Self::Receiver];

    /// Sets of its table: there are more flows than hosts.
    const fn sets(self) -> usize {
        match self {
            Self::Flow => 128,
            Self::Sender | Self::Receiver => 64,
        }
    }
}

/// The flow of a frame of `wire_len` bytes that starts with `head`. Where a flow label has made the key, the
/// ports are put back: they are what people know a flow by, and the label tells no more flows apart.
pub fn key(head: &[u8], wire_len: usize) -> FlowKey {
    let mut seen = Dissected::NOTHING;
    dissect_into(&mut seen, head, wire_len);
    let mut key = seen.key;
    if key.kind == Kind::FlowLabel
        && let Some(transport) = seen.transport
    {
        key.protocol = transport.protocol;
        let ports = head.get(usize::from(transport.offset)..).and_then(<[u8]>::first_chunk);
        if let (TCP | UDP, Some(&[a, b, c, d])) = (transport.protocol, ports) {
            (key.source_port, key.destination_port) =
                (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            (key.kind, key.id) = (Kind::Ports, 0);
        }
    }
    key
}

/// The keys of sender and receiver: addresses in their scope, and nothing else.
fn hosts(key: &FlowKey) -> (FlowKey, FlowKey) {
    let host = |source| FlowKey { source, scope: key.scope, family: key.family, ..FlowKey::EMPTY };
    (host(key.source), host(key.destination))
}

/// Whether the addresses of a key are those of IP.
pub const fn is_ip(key: &FlowKey) -> bool {
    !matches!(key.family, Family::Mac)
}

const SIDES: usize = 3;

/// Bytes of a frame that are looked at, as when it was classified: `classify::LOOKED_AT`.
const LOOKED_AT: usize = 192;

#[cfg(test)]
mod tests;
