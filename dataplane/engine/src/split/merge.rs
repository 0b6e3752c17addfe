//! GRO: TCP segments of one receive burst become super-packets again ([`shaper::gro`]).
//!
//! Nothing waits for it: the table is emptied with each burst. What comes out is marked as a port
//! marks what it has merged itself, and is taken apart like that.

use crate::counters::Counters;
use crate::split::segment::Kind;
use dpdk::mbuf::flags;
use dpdk::{Burst, Mbuf, TxOffload};
use shaper::gro::{Gro, GroLimits, Merged, Offer, Received};
use shaper::gso::Ids;

/// Merges bursts.
#[derive(Debug)]
pub struct Merger {
    gro: Gro<{ Burst::CAPACITY }>,
    packets: Packets,
    /// For each packet, the one whose payload follows in its chain; itself at the end.
    next: [u8; Burst::CAPACITY],
    /// For the first packet of a chain, its last one.
    last: [u8; Burst::CAPACITY],
}

impl Merger {
    /// An empty table.
    #[allow(clippy::new_without_default, reason = "14 KiB: nothing to make by the way")]
    pub fn new() -> Self {
        Self {
            gro: Gro::new(GroLimits { max_segs: Burst::CAPACITY as u16, max_len: MAX_LEN }),
            packets: [const { None }; Burst::CAPACITY],
            next: [0; Burst::CAPACITY],
            last: [0; Burst::CAPACITY],
        }
    }

    /// Merges what can be merged in a burst that has just been received, and counts all of it as
    /// received. Returns which of the packets left, bit 0 the first, have the same identification in
    /// all segments.
    pub fn merge(&mut self, burst: &mut Burst, counters: &mut Counters) -> u64 {
        let count = burst.len();
        if count < 2 {
            burst.as_slice().iter().for_each(|packet| counters.received.add(packet.pkt_len()));
            return 0;
        }
        self.gro.clear();
        for index in 0..count {
            burst.prefetch_header(2 * PREFETCH_AHEAD);
            burst.prefetch(PREFETCH_AHEAD);
            let Some(packet) = burst.pop() else { break };
            counters.received.add(packet.pkt_len());
            self.offer(index, packet, counters);
        }
        let (mut fixed, mut kept) = (0, 0);
        let mut chains = self.gro.merged();
        let mut chain = chains.next();
        for index in 0..count {
            let Some(mut packet) = self.packets.get_mut(index).and_then(Option::take) else { continue };
            if let Some(merged) = chain.filter(|chain| usize::from(chain.first) == index) {
                join(&mut self.packets, &self.next, index, &mut packet, &merged);
                fixed |= u64::from(merged.ids == Ids::Fixed) << kept;
                chain = chains.next();
            }
            kept += 1;
            // There is room: no more go back than came.
            let _ = burst.push(packet);
        }
        fixed
    }

    #[inline]
    fn offer(&mut self, index: usize, packet: Mbuf, counters: &mut Counters) {
        let offer = match Kind::of(&packet) {
            Kind::Tcp(segment) => {
                // A super-packet is not merged any further, nor is what could not be written to.
                let checksums_good =
                    packet.ol_flags() & MARKS == 0 && packet.is_writable() && segment.is_intact(&packet);
                let (head, frame_len) = (packet.head(), packet.pkt_len());
                let flow_hash = segment.flow_hash();
                self.gro.offer(&Received { index: index as u16, head, frame_len, flow_hash, checksums_good })
            }
            Kind::Other => Offer::Keep,
            Kind::Unknown => {
                self.gro.close();
                Offer::Keep
            }
        };
        let mut kept = Some(packet);
        if let Offer::Append { first, header_len } = offer {
            counters.removed.packets += 1;
            counters.removed.bytes += u64::from(header_len);
            counters.supers.merged += 1;
            // Its headers are in its first buffer, as the offer has seen.
            kept = kept.and_then(|packet| packet.without_front(header_len).ok());
            self.append(usize::from(first), index as u8);
        }
        if let (Some(slot), Some(next), Some(last)) =
            (self.packets.get_mut(index), self.next.get_mut(index), self.last.get_mut(index))
        {
            *slot = kept;
            (*next, *last) = (index as u8, index as u8);
        }
    }

    #[inline]
    fn append(&mut self, first: usize, index: u8) {
        let Some(last) = self.last.get_mut(first) else { return };
        let before = std::mem::replace(last, index);
        if let Some(next) = self.next.get_mut(usize::from(before)) {
            *next = index;
        }
    }
}

/// Strings the payloads of a chain together and makes the headers those of the whole.
#[inline]
fn join(
    packets: &mut Packets,
    next: &[u8; Burst::CAPACITY],
    first: usize,
    packet: &mut Mbuf,
    merged: &Merged,
) {
    let mut at = first;
    let payloads = std::iter::from_fn(|| {
        let following = usize::from(*next.get(at)?);
        let payload = packets.get_mut(following).filter(|_| following != at)?.take();
        at = following;
        payload
    });
    // A chain of a burst has neither 65535 segments nor 4 GiB.
    let _ = packet.chain_all(payloads);
    if let Some(head) = packet.head_mut() {
        merged.write(head);
    }
    packet.set_ol_flags(packet.ol_flags() | flags::RX_LRO);
    packet.set_tx_offload(TxOffload { tso_segsz: merged.gso_size, ..TxOffload::default() });
}

type Packets = [Option<Mbuf>; Burst::CAPACITY];

/// Longest frame that merging makes: an IP packet of 65535 bytes behind two VLAN tags.
const MAX_LEN: u32 = 65_535 + 14 + 8;

const MARKS: u64 = flags::RX_LRO | flags::TX_OFFLOADS;

/// As on the way in without GRO.
const PREFETCH_AHEAD: usize = 4;
