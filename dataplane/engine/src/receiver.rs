//! The receiving half of a direction: from the receive queue into an [`Egress`].
//!
//! Between turns it holds nothing: what is received is queued, or lost and counted, at once.

use crate::classify::{self, Classifier, ETHERNET, Headers};
use crate::counters::{Counters, Loss};
use crate::egress::Egress;
use dpdk::{Burst, Mbuf, RxQueue};
use shaper::packet::Piece;
use shaper::time::Instant;

/// Takes packets in.
#[derive(Debug)]
pub(crate) struct Receiver {
    rx: RxQueue,
    inbox: Burst,
    classifier: Classifier,
    /// The egress port's MTU in bytes.
    mtu: u32,
    /// The egress port sends packets of several segments.
    multi_segs: bool,
}

impl Receiver {
    /// A receiver for an egress port with this MTU that sends packets of several segments, or not.
    pub(crate) const fn new(rx: RxQueue, classifier: Classifier, mtu: u16, multi_segs: bool) -> Self {
        Self { rx, inbox: Burst::new(), classifier, mtu: mtu as u32, multi_segs }
    }

    /// Takes in one burst; returns how many packets it had.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        egress: &mut Egress<Mbuf>,
        counters: &mut Counters,
    ) -> usize {
        let received = self.rx.burst(&mut self.inbox);
        while let Some(packet) = self.inbox.pop() {
            self.inbox.prefetch_header(2 * PREFETCH_AHEAD);
            self.inbox.prefetch(PREFETCH_AHEAD);
            self.admit(now, packet, egress, counters);
        }
        received
    }

    #[inline]
    fn admit(&self, now: Instant, mut packet: Mbuf, egress: &mut Egress<Mbuf>, counters: &mut Counters) {
        let len = packet.pkt_len();
        counters.received.add(len);
        if let Some(loss) = self.unfit(&mut packet) {
            counters.losses.add(loss, len);
            return;
        }
        let headers;
        let mut seen = self.classifier.classify(&packet);
        if seen.wants_headers {
            headers = Headers::read(&packet, seen.arrival.network_offset);
            seen.arrival.network = headers.as_slice();
        }
        let losses = &mut counters.losses;
        let piece = Piece::single(packet, len, seen.truesize);
        let doomed = &mut |packet: Mbuf, reason| losses.add(Loss::Qdisc(reason), packet.pkt_len());
        egress.enqueue(now, &seen.arrival, seen.is_control, piece, doomed);
    }

    /// Why the egress port could never send the packet. Found out before it is queued: a driver that
    /// refuses it would hold up everything behind it.
    #[inline]
    fn unfit(&self, packet: &mut Mbuf) -> Option<Loss> {
        if packet.pkt_len() > self.mtu + ETHERNET && classify::mtu_len(packet) > self.mtu {
            return Some(Loss::Oversize);
        }
        let sendable = self.multi_segs || packet.linearize().is_ok();
        (!sendable).then_some(Loss::Segments)
    }
}

/// Frames between the one whose headers are being fetched and the one being classified: four
/// times some 30 ns of work hide one memory access.
const PREFETCH_AHEAD: usize = 4;
