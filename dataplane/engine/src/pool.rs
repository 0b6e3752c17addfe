//! How many mbufs a receiving port needs: a sum that can be read term by term.
//!
//! Each port receives into a pool of its own, so that one bloated direction cannot starve the
//! other's receive ring. A packet received on a port may stand in its receive ring, in the
//! discipline, in the egress's control queue and out-box, in the other port's transmit ring, or in
//! an lcore's pool cache; the pool holds all of these full at once. So receive never runs dry
//! because of our own queues, and the discipline's limit is what drops.

use crate::egress::CONTROL_SLOTS;
use crate::split::MAX_PIECES;
use dpdk::{Burst, Mbuf};
use shaper::qdisc::{Params, cake};
use std::fmt;

/// The terms of the sum, in mbufs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSum {
    /// Descriptors of the port's own receive ring.
    pub rx_ring: u32,
    /// Descriptors of the other port's transmit ring.
    pub tx_ring: u32,
    /// Packets the discipline can hold.
    pub qdisc_slots: u32,
    /// Mbufs that one packet of the port's MTU takes.
    pub segments: u32,
    /// Packets held beside the discipline: the control queue.
    pub held: u32,
    /// Lcores that cache mbufs of the pool.
    pub lcores: u32,
    /// Mbufs each of them may keep: one and a half times the cache size.
    pub cache: u32,
    /// Bursts under way: one coming in, one going out.
    pub bursts: u32,
}

/// Data bytes of one mbuf: a full frame with two VLAN tags, with DPDK's customary headroom before
/// it, and what NICs demand as receive buffer size (2 KiB).
pub const DATA_ROOM: u32 = 2048;

/// Mbufs an lcore caches. Large enough that a burst seldom reaches the shared ring.
pub const CACHE: u32 = 256;

/// Buffer of one mbuf in bytes: data room and the headroom before it.
pub const BUFFER: u32 = DATA_ROOM + 128;

/// What the disciplines call truesize for a packet in one mbuf: buffer and mbuf header.
pub const TRUESIZE: u32 = BUFFER + 128;

/// Memory of one mbuf in bytes where packet memory lies in hugepages: truesize and the pool's
/// object header.
pub const MBUF_BYTES: u64 = TRUESIZE as u64 + 64;

/// The same in ordinary memory: DPDK puts no mbuf across a page border, so that each takes one page.
pub const MBUF_BYTES_ORDINARY: u64 = 4096;

impl PoolSum {
    /// The sum for a port with these rings and MTU, whose packets wait in a discipline of
    /// `qdisc_slots`.
    pub fn new(rx_ring: u16, tx_ring: u16, mtu: u16, qdisc_slots: u32, lcores: u32) -> Self {
        Self {
            rx_ring: rx_ring.into(),
            tx_ring: tx_ring.into(),
            qdisc_slots,
            segments: (u32::from(mtu) + L2_MAX).div_ceil(DATA_ROOM),
            held: CONTROL_SLOTS as u32,
            lcores,
            cache: CACHE + CACHE / 2,
            bursts: 2 * Burst::CAPACITY as u32,
        }
    }

    /// Mbufs in all.
    pub fn total(&self) -> u32 {
        let packets = u64::from(self.qdisc_slots)
            + u64::from(self.held)
            + u64::from(self.bursts)
            + u64::from(self.rx_ring)
            + u64::from(self.tx_ring);
        let mbufs = packets * u64::from(self.segments) + u64::from(self.lcores) * u64::from(self.cache);
        u32::try_from(mbufs).unwrap_or(u32::MAX)
    }

    /// Memory in bytes, in hugepages or in ordinary pages.
    pub fn bytes(&self, hugepages: bool) -> u64 {
        u64::from(self.total()) * if hugepages { MBUF_BYTES } else { MBUF_BYTES_ORDINARY }
    }
}

/// Buffers that the driver of a device keeps for receiving, whatever ring it is asked for.
///
/// net_af_xdp (DPDK 22.11) has 2048 in its fill ring and up to as many in its receive ring, and does not recover from a
/// pool that ran dry: from then on nothing is received (seen on a veth, Linux 6.18).
pub fn kept_by_driver(device: &str) -> u16 {
    if device.starts_with("net_af_xdp") { 4096 } else { 0 }
}

/// The buffers that pieces of super-packets are made of, for one direction: one for the headers of each
/// piece, and where it refers to its payload, one more for each buffer that the payload lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceSum {
    /// Pieces the discipline can hold.
    pub qdisc_slots: u32,
    /// Descriptors of the port's transmit ring.
    pub tx_ring: u32,
    /// Pieces on the way: being built, out-box, behind a refused frame, and what is kept in reserve.
    pub on_the_way: u32,
    /// Buffers of payload there can be: all that the direction receives into.
    pub payload: u32,
    /// Lcores that cache buffers of the pool.
    pub lcores: u32,
    /// Buffers each of them may keep: one and a half times the cache size.
    pub cache: u32,
}

impl PieceSum {
    /// The sum for packets that are received into `received` and wait in a discipline of `qdisc_slots`.
    pub fn new(received: &PoolSum, tx_ring: u16, qdisc_slots: u32) -> Self {
        Self {
            qdisc_slots,
            tx_ring: tx_ring.into(),
            on_the_way: (MAX_PIECES + 4 * Burst::CAPACITY) as u32,
            payload: received.total(),
            lcores: received.lcores,
            cache: received.cache,
        }
    }

    /// Buffers in all, if pieces refer to their payload, or copy it. Pieces lie in a row: each but the
    /// last ends in the buffer in which the next begins, so that there are no more references than
    /// buffers and pieces together.
    pub fn total(&self, by_reference: bool) -> u32 {
        let pieces = self.qdisc_slots.saturating_add(self.tx_ring).saturating_add(self.on_the_way);
        let buffers = match by_reference {
            true => pieces.saturating_mul(2).saturating_add(self.payload),
            false => pieces,
        };
        buffers.saturating_add(self.lcores.saturating_mul(self.cache))
    }

    /// Size of each buffer in bytes, headroom included: headers alone, or a whole frame.
    pub fn data_room(by_reference: bool) -> u16 {
        if by_reference { HEADER_BUFFER } else { BUFFER as u16 }
    }

    /// Memory in bytes, in hugepages or in ordinary pages.
    pub fn bytes(&self, by_reference: bool, hugepages: bool) -> u64 {
        let each = match by_reference {
            true => u64::from(HEADER_BUFFER) + MBUF_BYTES - u64::from(BUFFER),
            false if hugepages => MBUF_BYTES,
            false => MBUF_BYTES_ORDINARY,
        };
        // Seven small buffers to a page of 4096 bytes, which they do not fill.
        let each = if by_reference && !hugepages {
            MBUF_BYTES_ORDINARY.div_ceil(MBUF_BYTES_ORDINARY / each)
        } else {
            each
        };
        u64::from(self.total(by_reference)) * each
    }
}

impl fmt::Display for PieceSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "(qdisc slots {} + tx ring {} + on the way {}) x 2 + buffers of payload {} \
             + {} lcore{} x cache {} = {} headers of pieces",
            self.qdisc_slots,
            self.tx_ring,
            self.on_the_way,
            self.payload,
            self.lcores,
            if self.lcores == 1 { "" } else { "s" },
            self.cache,
            self.total(true),
        )
    }
}

impl fmt::Display for PoolSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "(rx ring {} + tx ring {} + qdisc slots {} + held {} + bursts {}) x {} segment{} \
             + {} lcore{} x cache {} = {} mbufs",
            self.rx_ring,
            self.tx_ring,
            self.qdisc_slots,
            self.held,
            self.bursts,
            self.segments,
            if self.segments == 1 { "" } else { "s" },
            self.lcores,
            if self.lcores == 1 { "" } else { "s" },
            self.cache,
            self.total(),
        )
    }
}

/// Packets a discipline with these parameters can ever hold at once: its packet limit, or its
/// memory limit where that is reached first by packets of one mbuf, and the one that arrives.
pub fn slots(params: &Params) -> u32 {
    let limit = match params {
        Params::Fifo(fifo) => fifo.limit,
        Params::FqCodel(fq_codel) => fq_codel.limit.min(fq_codel.memory_limit / TRUESIZE),
        Params::Cake(cake) => cake.memory_limit() / TRUESIZE,
    };
    limit.saturating_add(1)
}

/// Buffers that packets in a discipline can occupy where they are pieces of super-packets: bounded by its
/// memory alone, as a piece may have many.
pub fn payload_slots(params: &Params) -> u32 {
    match params {
        Params::FqCodel(fq_codel) => (fq_codel.memory_limit / TRUESIZE).saturating_add(1).max(slots(params)),
        Params::Fifo(_) | Params::Cake(_) => slots(params),
    }
}

/// Memory of cake itself with these parameters, beside the packets it holds.
pub fn cake_footprint(params: &cake::Params) -> cake::Footprint {
    cake::Cake::<Mbuf>::footprint(params, slots(&Params::Cake(*params)) as usize)
}

/// Buffer of a header in bytes: headroom and the longest headers that are cut.
const HEADER_BUFFER: u16 = 128 + shaper::gso::MAX_HEADER_LEN;

/// Ethernet header with two VLAN tags.
const L2_MAX: u32 = 14 + 8;

#[cfg(test)]
mod tests {
    use super::*;
    use shaper::qdisc::{fifo, fq_codel};
    use shaper::units::Rate;

    #[test]
    fn the_sum_counts_every_place_a_packet_can_be() {
        let sum = PoolSum::new(1024, 512, 1500, 10_241, 2);
        assert_eq!(sum.total(), 1024 + 512 + 10_241 + 64 + 2 * Burst::CAPACITY as u32 + 2 * 384);
        let jumbo = PoolSum::new(1024, 512, 9000, 100, 1);
        assert_eq!(jumbo.segments, 5);
        assert_eq!(jumbo.total(), (1024 + 512 + 100 + 64 + 2 * Burst::CAPACITY as u32) * 5 + 384);
    }

    #[test]
    fn a_driver_that_keeps_more_than_its_ring_is_known() {
        assert_eq!(kept_by_driver("net_af_xdp0,iface=eth0"), 4096);
        assert_eq!(kept_by_driver("net_tap0"), 0);
    }

    #[test]
    fn pieces_need_a_header_each_and_references_to_their_payload() {
        let sum = PieceSum::new(&PoolSum::new(1024, 512, 1500, 100, 1), 512, 100);
        assert_eq!(sum.total(false), 100 + 512 + 512 + 384);
        assert_eq!(sum.total(true), (100 + 512 + 512) * 2 + sum.payload + 384);
        assert_eq!(sum.bytes(true, true), u64::from(sum.total(true)) * (128 + 256 + 128 + 64));
        assert_eq!(sum.bytes(true, false), u64::from(sum.total(true)) * 586, "seven to a page");
        assert_eq!(sum.bytes(false, false), u64::from(sum.total(false)) * 4096);
    }

    #[test]
    fn a_discipline_is_bounded_by_packets_or_by_memory() {
        let fifo = Params::Fifo(fifo::Params { limit: 1000, ..fifo::Params::default() });
        assert_eq!(slots(&fifo), 1001);
        let wide = fq_codel::Params { limit: u32::MAX, memory_limit: 32 << 20, ..Default::default() };
        assert_eq!(slots(&Params::FqCodel(wide)), (32 << 20) / TRUESIZE + 1);
        let asked = cake::Params { memlimit: Some(1 << 20), ..Default::default() };
        assert_eq!(slots(&Params::Cake(asked)), (1 << 20) / TRUESIZE + 1);
        let rate = Some(Rate::from_bits_per_sec(100_000_000));
        let by_rate = cake::Params { bandwidth: rate, ..Default::default() };
        assert_eq!(slots(&Params::Cake(by_rate)), 5_000_000 / TRUESIZE + 1, "four times rate and rtt");
        assert_eq!(slots(&Params::Cake(cake::Params::default())), 10_240 * 1_514 / TRUESIZE + 1);
        let footprint = cake_footprint(&asked);
        assert!(footprint.tables < 600 << 10 && footprint.acks == 0, "{footprint:?}");
        assert!(footprint.slots >= ((1 << 20) / TRUESIZE) as usize * 32);
    }
}
