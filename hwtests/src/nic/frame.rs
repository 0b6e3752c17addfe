//! What a card makes of a frame: bytes on the wire, descriptors, and the segments that its TSO engine cuts.

use dpdk::Mbuf;
use dpdk::mbuf::flags;
use shaper::gso::{Checksums, Ids, MAX_HEADER_LEN, Plan, Request};
use shaper::wire::checksum::Sum;
use sim::nic::{Frame, on_wire};

/// A frame as the card's wire sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) frame: Frame,
    /// Bytes of each segment but the last on the wire.
    pub(super) segment: u32,
}

/// The shape of a frame in a ring of `ring` descriptors.
pub(super) fn shape(mbuf: &Mbuf, ring: u32) -> Shape {
    let descriptors = u32::from(mbuf.nb_segs()).min(ring);
    let whole = on_wire(mbuf.pkt_len());
    let (bytes, segment) = with_plan(mbuf, |plan| {
        let (header, size) = (u32::from(plan.header_len()), u32::from(plan.gso_size()));
        let full = u32::from(plan.segs() - 1);
        let last = header + plan.payload_len() - full * size;
        (full * on_wire(header + size) + on_wire(last), on_wire(header + size))
    })
    .unwrap_or((whole, whole));
    Shape { frame: Frame { bytes, descriptors }, segment }
}

/// The TSO and checksum engine: yields the bytes of frames as they leave, segment by segment.
#[derive(Debug, Default)]
pub(super) struct Segmenter {
    buffer: Vec<u8>,
    next: u16,
}

impl Segmenter {
    /// The bytes of the next segment of `mbuf`, which must be the same until its last one.
    pub(super) fn next(&mut self, mbuf: &Mbuf, last: bool) -> &[u8] {
        let buffer = &mut self.buffer;
        if with_plan(mbuf, |plan| write(plan, self.next, mbuf, buffer)).is_none() {
            buffer.resize(mbuf.pkt_len() as usize, 0);
            mbuf.read(0, buffer);
        }
        self.next = if last { 0 } else { self.next + 1 };
        &self.buffer
    }
}

fn write(plan: &Plan<'_>, index: u16, mbuf: &Mbuf, buffer: &mut Vec<u8>) {
    let Some(cut) = plan.cut(index) else { return buffer.clear() };
    buffer.resize(cut.frame_len as usize, 0);
    let payload = &mut buffer[plan.header_len().into()..];
    mbuf.read(cut.payload.start as usize, payload);
    let sum = Sum::default().at(0, payload);
    plan.write(index, Checksums::Software(sum), buffer);
}

/// What is to be done to a frame that asks for it; none for one that leaves as it is, also because it cannot be cut.
fn with_plan<T>(mbuf: &Mbuf, then: impl FnOnce(&Plan<'_>) -> T) -> Option<T> {
    let marks = mbuf.ol_flags();
    let size = match mbuf.tx_offload().tso_segsz {
        size if size > 0 && marks & SEGMENT != 0 => size,
        _ if marks & SUM != 0 => mbuf.pkt_len().min(LONGEST_DATAGRAM) as u16,
        _ => return None,
    };
    let mut head = [0; MAX_HEADER_LEN as usize];
    let len = mbuf.read(0, &mut head);
    let request = Request { mtu: u32::MAX, gso_size: size, ids: Ids::Increment };
    Plan::new(&head[..len], mbuf.pkt_len(), &request).ok().map(|plan| then(&plan))
}

/// Asks for segmentation: of a sender, or of the guest whose frame a vhost port received.
const SEGMENT: u64 = flags::TX_TCP_SEG | flags::TX_UDP_SEG | flags::RX_LRO;
/// Asks for a checksum.
const SUM: u64 = flags::TX_TCP_CKSUM | flags::TX_UDP_CKSUM;
/// Within what a UDP header can say, whatever is before it.
const LONGEST_DATAGRAM: u32 = 60_000;
