//! The ACK filter: of the ACKs of a connection that wait behind each other, only the latest matter.
//!
//! An arriving TCP packet may make one earlier pure ACK of its connection superfluous: one that
//! acknowledges less, selectively acknowledges nothing more, and says the same about congestion.
//! In conservative mode one such ACK stays behind, and the older one goes when there are two.
//!
//! Contract. One record per slot of the packet pool, under the slot's own index.
//! [`Acks::arrived`] is told of each TCP packet that was queued and names the slot to remove, if any;
//! [`Acks::left`] is told of each slot that was emptied. Records of a connection are chained by
//! age through a hash bucket, so that a search meets (almost) only its own connection, and no more
//! than [`Conformance::CAKE_ACK_WINDOW`] of it: its cost does not grow with the queue. What a search
//! looks at first is kept apart from the rest, 24 bytes per packet.

use super::overflow::QueueId;
use super::params::AckFilter;
use crate::conformance::Conformance;
use alloc::boxed::Box;
use core::marker::PhantomData;

#[derive(Debug)]
pub(super) struct Acks<C> {
    links: Box<[Link]>,
    segments: Box<[Segment]>,
    /// The newest record of each bucket.
    newest: Box<[u32]>,
    conformance: PhantomData<C>,
}

/// What a search looks at first.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// Hash of queue and connection; its upper half chooses the bucket.
    key: u64,
    ack: u32,
    older: u32,
    newer: u32,
    congestion: u8,
    is_pure: bool,
    has_blocks: bool,
    is_linked: bool,
}

/// What the filter reads in a TCP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    flow: Endpoints,
    ack: u32,
    /// ECE and CWR, in their places of the TCP header.
    congestion: u8,
    /// ACK without SYN: may make others superfluous.
    is_trigger: bool,
    /// A pure ACK with harmless options: may be superfluous.
    is_pure: bool,
    options: Options,
}

/// A connection, of IPv4 or IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Endpoints {
    src: u128,
    dst: u128,
    ports: u32,
    version: u8,
}

/// The options that count; each can be there at most four times in 40 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    stamps: [Stamp; 4],
    blocks: [Block; 4],
    stamp_count: u8,
    /// Complete blocks of the first SACK option.
    block_count: u8,
    /// The first timestamp option is ten bytes long, as it must be.
    stamped: bool,
    /// Nothing but padding, MD5, SACK and timestamps, each of a right length.
    is_harmless: bool,
    is_malformed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    value: u32,
    echo: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Block {
    left: u32,
    right: u32,
}

impl<C: Conformance> Acks<C> {
    /// Records for a pool of `slots`; the only allocation.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            links: (0..slots).map(|_| UNLINKED).collect(),
            segments: (0..slots).map(|_| Segment::default()).collect(),
            newest: (0..slots.next_power_of_two()).map(|_| NIL).collect(),
            conformance: PhantomData,
        }
    }

    /// Memory for a pool of `slots`, bytes.
    pub(super) fn footprint(slots: usize) -> usize {
        slots * (size_of::<Link>() + size_of::<Segment>()) + slots.next_power_of_two() * size_of::<u32>()
    }

    /// `segment` was queued in `slot`, right behind the slot `ahead`. Returns the slot that need not
    /// be sent any more.
    pub(super) fn arrived(
        &mut self,
        filter: AckFilter,
        queue: QueueId,
        slot: u32,
        ahead: Option<u32>,
        segment: &Segment,
    ) -> Option<u32> {
        let link = Link::new(queue, segment);
        let filtered = match ahead {
            Some(ahead) if filter != AckFilter::Off && segment.may_trigger::<C>() => {
                self.search(filter, &link, ahead, segment)
            }
            _ => None,
        };
        self.record(link, slot, segment);
        filtered
    }

    /// Records `segment` without a search.
    pub(super) fn noted(&mut self, queue: QueueId, slot: u32, segment: &Segment) {
        self.record(Link::new(queue, segment), slot, segment);
    }

    /// `slot` was emptied.
    #[inline]
    pub(super) fn left(&mut self, slot: u32) {
        let Some(link) = self.links.get_mut(slot as usize) else { return };
        if !link.is_linked {
            return;
        }
        link.is_linked = false;
        let Link { older, newer, key, .. } = *link;
        if let Some(link) = self.links.get_mut(older as usize) {
            link.newer = newer;
        }
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => *self.newest_of(key) = older,
        }
    }

    /// From the newest packet of the connection to the oldest in the window. Of packets in a row
    /// that say the same about congestion, the first goes when two could; of several such rows, it
    /// is that of the oldest.
    fn search(&self, filter: AckFilter, by: &Link, ahead: u32, segment: &Segment) -> Option<u32> {
        let mut choice = None;
        let mut is_ahead = false;
        let mut row = (u8::MAX, 0);
        let mut at = self.newest.get(self.bucket(by.key)).copied().unwrap_or(NIL);
        for _ in 0..C::CAKE_ACK_WINDOW {
            let Some(link) = self.links.get(at as usize) else { break };
            let slot = core::mem::replace(&mut at, link.older);
            if link.key != by.key {
                continue;
            }
            if link.congestion != row.0 {
                row = (link.congestion, 0);
            }
            if !link.may_be_superfluous(by) || !self.is_superfluous(slot, segment) {
                continue;
            }
            row.1 += 1;
            if row.1 > 1 {
                choice = Some(slot);
            }
            is_ahead |= slot == ahead && link.congestion == by.congestion;
        }
        let is_aggressive = filter == AckFilter::Aggressive && is_ahead;
        choice.or_else(|| is_aggressive.then_some(ahead))
    }

    fn is_superfluous(&self, slot: u32, by: &Segment) -> bool {
        self.segments.get(slot as usize).is_some_and(|segment| segment.is_superfluous::<C>(by))
    }

    /// A packet that cannot be superfluous is passed over in a search unless it says something
    /// else about congestion than the packet before. So a run of them needs one record only, and
    /// the ACKs on data packets do not fill the window.
    fn record(&mut self, link: Link, slot: u32, segment: &Segment) {
        let newest = *self.newest_of(link.key);
        if let Some(last) = self.links.get_mut(newest as usize) {
            let says_the_same = last.key == link.key && last.congestion == link.congestion;
            if says_the_same && !link.is_pure && !last.is_pure {
                return;
            }
            last.newer = slot;
        }
        if let (Some(place), Some(copy)) =
            (self.links.get_mut(slot as usize), self.segments.get_mut(slot as usize))
        {
            *place = Link { older: newest, ..link };
            *copy = *segment;
            *self.newest_of(link.key) = slot;
        }
    }

    /// Records are of slots in use, and chained both ways.
    #[cfg(test)]
    pub(super) fn check(&self, is_used: impl Fn(u32) -> bool) {
        for (slot, link) in (0..).zip(&self.links).filter(|(_, link)| link.is_linked) {
            assert!(is_used(slot));
            match self.links.get(link.newer as usize) {
                Some(newer) => assert!(newer.is_linked && newer.older == slot),
                None => assert_eq!(self.newest[self.bucket(link.key)], slot),
            }
        }
    }

    fn newest_of(&mut self, key: u64) -> &mut u32 {
        let bucket = self.bucket(key);
        &mut self.newest[bucket]
    }

    #[inline]
    fn bucket(&self, key: u64) -> usize {
        (key >> 32) as usize & (self.newest.len() - 1)
    }
}

impl Link {
    /// The newest of its connection.
    fn new(queue: QueueId, segment: &Segment) -> Self {
        let Endpoints { src, dst, ports, version } = segment.flow;
        let both = src ^ dst.rotate_left(32);
        let ends = (u64::from(ports) << 32) | (u64::from(version) << 16) | queue.number();
        let folded = both as u64 ^ ((both >> 64) as u64).wrapping_mul(MIX);
        Self {
            key: (folded.wrapping_mul(MIX) ^ ends).wrapping_mul(MIX),
            ack: segment.ack,
            older: NIL,
            newer: NIL,
            congestion: segment.congestion,
            is_pure: segment.is_pure,
            has_blocks: segment.options.block_count != 0,
            is_linked: true,
        }
    }

    /// False for most that [`Segment::is_superfluous`] would refuse.
    #[inline]
    fn may_be_superfluous(&self, by: &Self) -> bool {
        let is_duplicate = self.ack == by.ack && !self.has_blocks && !by.has_blocks;
        self.is_pure && !is_duplicate && !is_after(self.ack, by.ack)
    }
}

impl Segment {
    /// Reads the TCP packet whose network header `network` starts with: IPv4, IPv6 without
    /// extension headers, or such IPv6 directly in IPv4. `None` for anything else and for what
    /// is cut short.
    pub(super) fn parse(network: &[u8]) -> Option<Self> {
        let (flow, tcp, ip_payload) = match network.first()? >> 4 {
            4 => ipv4(network)?,
            6 => ipv6(network)?,
            _ => return None,
        };
        let fixed = tcp.first_chunk::<20>()?;
        let header = usize::from(fixed[12] >> 4) * 4;
        let options = tcp.get(20..header)?;
        let flags = fixed[13];
        let has_payload = ip_payload != header;
        let is_plain = flags & !(ECE | CWR) == ACK && fixed[12] & 0x0f == 0;
        // Options are read where they stay: to move them would wait for every store of the reading (10 ns).
        let mut parsed = Some(Self {
            flow: Endpoints { ports: be32(fixed, 0), ..flow },
            ack: be32(fixed, 8),
            congestion: flags & (ECE | CWR),
            is_trigger: flags & (ACK | SYN) == ACK,
            is_pure: is_plain && !has_payload,
            options: Options::default(),
        });
        let segment = parsed.as_mut()?;
        segment.options.read(options);
        segment.is_pure &= segment.options.is_harmless;
        parsed
    }

    /// The segment with payload that is not the first of a cut super-packet: CWR is on the first.
    pub(super) fn piece(mut self, is_first: bool) -> Self {
        self.is_pure = false;
        if !is_first {
            self.congestion &= !CWR;
        }
        self
    }

    #[inline]
    fn may_trigger<C: Conformance>(&self) -> bool {
        self.is_trigger && (C::CAKE_ACK_LAX_OPTIONS || !self.options.is_malformed)
    }

    /// Whether `by`, which came later, says all that this one says.
    #[inline]
    fn is_superfluous<C: Conformance>(&self, by: &Self) -> bool {
        let is_earlier = self.flow == by.flow && !is_after(self.ack, by.ack);
        if !self.is_pure || !is_earlier || !self.options.stamps_allow::<C>(&by.options) {
            return false;
        }
        match self.compare_sack(by) {
            Sack::Less => true,
            Sack::Same => self.ack != by.ack,
            Sack::More => false,
        }
    }

    /// What this one acknowledges selectively, compared with what `by` does.
    #[inline]
    fn compare_sack(&self, by: &Self) -> Sack {
        match (self.options.blocks(), by.options.blocks()) {
            ([], []) => Sack::Same,
            (_, []) => Sack::More,
            ([], _) => Sack::Less,
            (mine, theirs) => {
                let said = |block: &Block| {
                    !is_after(self.ack, block.left) && theirs.iter().any(|other| other.covers(block))
                };
                if !mine.iter().all(said) {
                    Sack::More
                } else if Block::sum(theirs) > Block::sum(mine) {
                    Sack::Less
                } else {
                    Sack::Same
                }
            }
        }
    }
}

enum Sack {
    Less,
    Same,
    More,
}

impl Options {
    fn read(&mut self, mut bytes: &[u8]) {
        self.is_harmless = true;
        let mut seen = (false, false);
        while let [kind, rest @ ..] = bytes {
            if *kind == END {
                break;
            }
            if *kind == NOP {
                bytes = rest;
                continue;
            }
            let length = usize::from(rest.first().copied().unwrap_or(0));
            let Some((option, behind)) = bytes.split_at_checked(length).filter(|_| length >= 2) else {
                self.is_malformed = true;
                break;
            };
            bytes = behind;
            self.take(*kind, option, &mut seen);
        }
    }

    fn take(&mut self, kind: u8, option: &[u8], (stamp_seen, sack_seen): &mut (bool, bool)) {
        match kind {
            MD5 => (),
            SACK => {
                self.is_harmless &= option.len() % 8 == 2;
                if !core::mem::replace(sack_seen, true) {
                    for (block, bytes) in self.blocks.iter_mut().zip(option[2..].chunks_exact(8)) {
                        *block = Block { left: be32(bytes, 0), right: be32(bytes, 4) };
                        self.block_count += 1;
                    }
                }
            }
            TIMESTAMP => {
                let is_right = option.len() == 10;
                self.is_harmless &= is_right;
                self.stamped |= is_right && !*stamp_seen;
                *stamp_seen = true;
                if is_right && let Some(stamp) = self.stamps.get_mut(usize::from(self.stamp_count)) {
                    *stamp = Stamp { value: be32(option, 2), echo: be32(option, 6) };
                    self.stamp_count += 1;
                }
            }
            _ => self.is_harmless = false,
        }
    }

    #[inline]
    fn blocks(&self) -> &[Block] {
        self.blocks.get(..usize::from(self.block_count)).unwrap_or(&[])
    }

    /// None of these timestamps is later than the one of `by`.
    #[inline]
    fn stamps_allow<C: Conformance>(&self, by: &Self) -> bool {
        if !C::CAKE_ACK_LAX_OPTIONS && (self.is_malformed || self.stamped != by.stamped) {
            return false;
        }
        let last = if by.stamped { by.stamps[0] } else { Stamp::default() };
        let mine = self.stamps.get(..usize::from(self.stamp_count)).unwrap_or(&[]);
        mine.iter().all(|stamp| !is_after(stamp.value, last.value) && !is_after(stamp.echo, last.echo))
    }
}

impl Block {
    #[inline]
    fn covers(&self, other: &Self) -> bool {
        !is_after(self.left, other.left) && !is_after(other.right, self.right)
    }

    fn sum(blocks: &[Self]) -> u32 {
        blocks.iter().fold(0, |sum, block| sum.wrapping_add(block.right.wrapping_sub(block.left)))
    }
}

/// Addresses, the TCP part, and the bytes of payload the IP header speaks of.
type Packet<'a> = (Endpoints, &'a [u8], usize);

fn ipv4(packet: &[u8]) -> Option<Packet<'_>> {
    let fixed = packet.first_chunk::<20>()?;
    let header = usize::from(fixed[0] & 0x0f) * 4;
    let is_later_fragment = be16(fixed, 6) & 0x1fff != 0;
    let behind = packet.get(header.max(20)..)?;
    match fixed[9] {
        TCP if !is_later_fragment => {
            let (src, dst) = (be32(fixed, 12).into(), be32(fixed, 16).into());
            let payload = usize::from(be16(fixed, 2)).saturating_sub(header);
            Some((Endpoints { src, dst, ports: 0, version: 4 }, behind, payload))
        }
        IPV6 if !is_later_fragment => ipv6(behind),
        _ => None,
    }
}

fn ipv6(packet: &[u8]) -> Option<Packet<'_>> {
    let fixed = packet.first_chunk::<40>()?;
    if fixed[0] >> 4 != 6 || fixed[6] != TCP {
        return None;
    }
    let address =
        |at: usize| (0..4).fold(0_u128, |sum, word| (sum << 32) | u128::from(be32(fixed, at + 4 * word)));
    let flow = Endpoints { src: address(8), dst: address(24), ports: 0, version: 6 };
    Some((flow, &packet[40..], be16(fixed, 4).into()))
}

/// Big-endian numbers in `bytes`; 0 where it is too short.
#[inline]
fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four))
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |two| u16::from_be_bytes(*two))
}

/// `a` is later than `b` in the sequence space of RFC 9293.
#[inline]
fn is_after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

const NIL: u32 = u32::MAX;

const UNLINKED: Link = Link {
    key: 0,
    ack: 0,
    older: NIL,
    newer: NIL,
    congestion: 0,
    is_pure: false,
    has_blocks: false,
    is_linked: false,
};

/// 2^64 over the golden ratio: spreads whatever bits differ over the upper half.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

const TCP: u8 = 6;
const IPV6: u8 = 41;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

const END: u8 = 0;
const NOP: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;
const MD5: u8 = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Linux, Weir};
    use crate::rng::{Rng, SplitMix};
    use std::vec::Vec;

    /// An IPv4 packet of connection `port`, with `payload` bytes.
    fn packet(port: u16, flags: u8, ack: u32, options: &[u8], payload: u16) -> Vec<u8> {
        let length = 40 + options.len() as u16 + payload;
        let mut bytes = Vec::from([0x45, 0]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 80, 0, 0, 0, 0]);
        bytes.extend(ack.to_be_bytes());
        bytes.extend([(5 + options.len() as u8 / 4) << 4, flags, 0, 0, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes
    }

    /// The same inside IPv6, which may itself be inside IPv4.
    fn packet6(is_tunnelled: bool, port: u16, ack: u32) -> Vec<u8> {
        let inner = packet(port, ACK, ack, &[], 0).split_off(20);
        let mut bytes = Vec::new();
        if is_tunnelled {
            bytes.extend([0x45, 0, 0, 80, 0, 0, 0, 0, 64, IPV6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        bytes.extend([0x60, 0, 0, 0, 0, inner.len() as u8, TCP, 64]);
        bytes.extend([0x20; 32]);
        bytes.extend(inner);
        bytes
    }

    #[test]
    fn reads_what_can_be_read() {
        let v4 = Segment::parse(&packet(5, ACK | ECE, 7, &[], 0)).unwrap();
        assert!(v4.is_pure && v4.is_trigger);
        assert_eq!((v4.ack, v4.congestion, v4.flow.version, v4.flow.ports), (7, ECE, 4, 5 << 16 | 80));
        assert!(!Segment::parse(&packet(5, ACK, 7, &[], 1)).unwrap().is_pure);
        assert!(!Segment::parse(&packet(5, ACK | SYN, 7, &[], 0)).unwrap().is_trigger);
        let v6 = Segment::parse(&packet6(false, 5, 7)).unwrap();
        assert!(v6.is_pure && v6.flow.version == 6);
        assert_eq!(Segment::parse(&packet6(true, 5, 7)), Some(v6), "tunnelled: the inner addresses count");
    }

    /// Cut anywhere, or with any byte changed: refused or read, never a panic.
    #[test]
    fn survives_what_is_broken() {
        let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        for whole in [packet(5, ACK, 7, &options, 0), packet6(true, 5, 7)] {
            for end in 0..whole.len() {
                assert_eq!(Segment::parse(&whole[..end]), None);
            }
            for at in 0..whole.len() {
                for value in 0..=255 {
                    let mut broken = whole.clone();
                    broken[at] = value;
                    let _ = Segment::parse(&broken);
                }
            }
        }
    }

    /// The search as it is described, over the whole queue; the last entry is the one that arrived.
    fn search<C: Conformance>(filter: AckFilter, queue: &[(u32, Segment)]) -> Option<u32> {
        let ((_, by), waiting) = queue.split_last()?;
        let (ahead, _) = *waiting.last()?;
        if !by.may_trigger::<C>() {
            return None;
        }
        let (mut first, mut found) = (None, 0);
        for (slot, segment) in waiting.iter().filter(|(_, segment)| segment.flow == by.flow) {
            if first.is_some_and(|(_, congestion)| congestion != segment.congestion) {
                first = None;
                found -= 1;
            }
            if !segment.is_superfluous::<C>(by) {
                continue;
            }
            if first.is_none() {
                first = Some((*slot, segment.congestion));
            }
            if found > 0 {
                return first.map(|(slot, _)| slot);
            }
            found = 1;
        }
        let is_last = |&(slot, congestion): &(u32, u8)| slot == ahead && congestion == by.congestion;
        first.filter(|first| filter == AckFilter::Aggressive && is_last(first)).map(|(slot, _)| slot)
    }

    /// Of three connections, one of which has timestamps. `wild` ones change their mind about
    /// everything with every packet; the others lose a packet now and then and mark a few.
    fn any_packet(dice: &mut SplitMix, time: u32, wild: bool) -> Vec<u8> {
        let mut below = |bound: u32| dice.next_u32() % bound;
        let mut rarely = |often: u32, seldom: u32| below(if wild { often } else { seldom }) == 0;
        let (other_flags, other_stamp, payload) = (rarely(2, 60), rarely(2, 1_000), rarely(5, 20));
        let (sack, duplicate) = (rarely(4, 12), rarely(6, 60));
        let port = below(3);
        let flags = ACK | if other_flags { [ECE, ECE | CWR, 8, 1][below(4) as usize] } else { 0 };
        let ack = 1_000 * (time / 3 + below(if wild { 3 } else { 1 }));
        let mut options = Vec::new();
        if (port == 0) != other_stamp {
            options.extend([NOP, NOP, TIMESTAMP, 10]);
            options.extend((100 + time / 2).to_be_bytes());
            options.extend([0, 0, 0, 9]);
        }
        if sack {
            let left = ack + 1_000 * (below(3) + 1) - if duplicate { 4_000 } else { 0 };
            options.extend([NOP, NOP, SACK, 10]);
            options.extend(left.to_be_bytes());
            options.extend((left + 1_000 * (1 + below(3))).to_be_bytes());
        }
        packet(port as u16, flags, ack, &options, if payload { 100 } else { 0 })
    }

    /// How often the decision differs from that of the search as described, and how often there was
    /// something to remove, over a queue of `length` packets that moves on.
    fn differences<C: Conformance>(filter: AckFilter, length: usize, wild: bool) -> (usize, usize) {
        let mut dice = SplitMix::new(length as u64, 5);
        let mut acks = Acks::<C>::new(length + 1);
        let mut free: Vec<u32> = (0..=length as u32).collect();
        let mut queue: Vec<(u32, Segment)> = Vec::new();
        let id = QueueId::new(0, 3);
        let (mut differing, mut removed) = (0, 0);
        for time in 0..10_000 {
            let segment = Segment::parse(&any_packet(&mut dice, 10 + time, wild)).unwrap();
            let slot = free.pop().unwrap();
            let ahead = queue.last().map(|(slot, _)| *slot);
            queue.push((slot, segment));
            let expected = search::<C>(filter, &queue);
            let got = acks.arrived(filter, id, slot, ahead, &segment);
            differing += usize::from(got != expected);
            removed += usize::from(expected.is_some());
            if let Some(old) = got {
                acks.left(old);
                queue.retain(|(slot, _)| *slot != old);
                free.push(old);
            }
            while queue.len() > length - 1 || (queue.len() > 1 && dice.next_u32().is_multiple_of(20)) {
                let (slot, _) = queue.remove(0);
                acks.left(slot);
                free.push(slot);
            }
            acks.check(|slot| queue.iter().any(|(used, _)| *used == slot));
        }
        (differing, removed)
    }

    #[test]
    fn decides_as_described() {
        for filter in [AckFilter::Conservative, AckFilter::Aggressive] {
            for length in [5, 20, 60] {
                let (differing, removed) = differences::<Linux>(filter, length, true);
                assert_eq!(differing, 0, "{filter:?} {length}");
                assert!(removed > 100, "{removed}");
            }
        }
    }

    /// Among connections that behave, the window makes no difference.
    #[test]
    fn a_window_decides_alike() {
        for filter in [AckFilter::Conservative, AckFilter::Aggressive] {
            for length in [5, 20, 60] {
                let (differing, removed) = differences::<Weir>(filter, length, false);
                assert!(removed > 1_000, "{removed}");
                assert_eq!(differing, 0, "{filter:?} {length}: of {removed}");
            }
        }
    }
}
