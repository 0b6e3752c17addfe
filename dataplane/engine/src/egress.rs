//! All that waits for one wire: a small control queue, the discipline, and the rate.
//!
//! * The **control queue** holds what keeps a link alive and must not wait behind, or be judged by,
//!   an AQM: ARP, neighbour discovery, LLDP, STP, LACP, BFD. It goes first, but never twice in a
//!   row while data waits, and it is capped ([`CONTROL_SLOTS`]): what does not fit takes the way
//!   of ordinary packets. So a flood of ARP gets half of the frames at most, and what is more of
//!   it is policed by the discipline like any flow. Control frames are charged to the rate.
//! * The **rate** decides when the next frame may leave; the discipline decides which. cake does
//!   both and counts link-layer overhead by itself: then there is no limiter here, and control
//!   frames wait for cake's clock and are charged to it.
//!
//! Generic over the packet, so that tests run it without DPDK.

use dpdk::Mbuf;
use shaper::packet::{Arrival, Delivery, DropReason, Piece};
use shaper::qdisc::Qdisc;
use shaper::qdisc::cake::MAX_TINS;
use shaper::rate::{Limiter, Overhead};
use shaper::rng::SplitMix;
use shaper::time::Instant;
use shaper::units::Rate;
use std::collections::VecDeque;

use crate::change::DirectionChange;
use crate::classify::Classifier;
use crate::counters::Tally;
use crate::delays::Recorder;
use crate::outbox::Stamp;

/// What waits for one wire.
#[derive(Debug)]
pub struct Egress<P> {
    control: VecDeque<Delivery<P>>,
    control_bytes: u64,
    control_went_last: bool,
    control_stats: ControlStats,
    qdisc: Qdisc<P>,
    limiter: Option<Limiter>,
    overhead: Overhead,
    sojourn: Recorder,
    /// Bytes that the discipline has delivered, by number of the tin.
    tins: [u64; MAX_TINS],
    rng: SplitMix,
}

/// What the control queue did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Frames that went through it.
    pub sent: Tally,
    /// Control frames that found it full and took the way of ordinary packets.
    pub spilled: Tally,
}

/// Frames the control queue holds. Far more than any link-keeping protocol has under way at once;
/// at 64 kbit/s still only half a second of minimum-size frames.
pub const CONTROL_SLOTS: usize = 64;

impl<P> Egress<P> {
    /// An empty egress. `limiter` is `None` where the wire itself or the discipline sets the rate.
    /// `overhead` is that of the discipline where it shapes by itself.
    pub fn new(qdisc: Qdisc<P>, limiter: Option<Limiter>, overhead: Overhead, rng: SplitMix) -> Self {
        Self {
            control: VecDeque::with_capacity(CONTROL_SLOTS),
            control_bytes: 0,
            control_went_last: false,
            control_stats: ControlStats::default(),
            qdisc,
            limiter,
            overhead,
            sojourn: Recorder::default(),
            tins: [0; MAX_TINS],
            rng,
        }
    }

    /// Has it record how long packets of the discipline wait.
    #[must_use]
    pub fn recording(self, sojourn: Recorder) -> Self {
        Self { sojourn, ..self }
    }

    /// Queues one packet.
    #[inline]
    pub fn enqueue(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        is_control: bool,
        mut piece: Piece<P>,
        doomed: &mut impl FnMut(P, DropReason),
    ) {
        if self.is_empty()
            && let Some(limiter) = &mut self.limiter
        {
            limiter.idle_until(now);
        }
        if is_control || !self.qdisc.shapes() {
            self.overhead.fill(&mut piece, arrival.network_offset);
        }
        if is_control {
            if self.control.len() < CONTROL_SLOTS {
                self.control_bytes += u64::from(piece.frame_len);
                self.control.push_back(as_is(now, arrival, piece));
                return;
            }
            self.control_stats.spilled.add(piece.frame_len);
        }
        self.qdisc.enqueue(now, &mut self.rng, arrival, core::iter::once(piece), doomed);
    }

    /// Queues all pieces of a super-packet behind each other: none of them keeps a link alive.
    pub fn enqueue_cut(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        pieces: impl Iterator<Item = Piece<P>>,
        doomed: &mut impl FnMut(P, DropReason),
    ) {
        if self.is_empty()
            && let Some(limiter) = &mut self.limiter
        {
            limiter.idle_until(now);
        }
        let overhead = (!self.qdisc.shapes()).then_some(self.overhead);
        let pieces = pieces.map(|mut piece| {
            if let Some(overhead) = &overhead {
                overhead.fill(&mut piece, arrival.network_offset);
            }
            piece
        });
        self.qdisc.enqueue(now, &mut self.rng, arrival, pieces, doomed);
    }

    /// The rate that is kept to now, if any is: the limiter's, or that of a discipline that shapes.
    #[inline]
    pub fn rate(&self) -> Option<Rate> {
        match (&self.limiter, &self.qdisc) {
            (Some(limiter), _) => Some(limiter.rate()),
            (None, Qdisc::Cake(cake)) => cake.params().bandwidth,
            (None, Qdisc::Fifo(_) | Qdisc::FqCodel(_)) => None,
        }
    }

    /// Takes the packet that may leave `now`, if there is one.
    #[inline]
    pub fn dequeue(&mut self, now: Instant, doomed: &mut impl FnMut(P, DropReason)) -> Option<Delivery<P>> {
        if self.limiter.as_ref().is_some_and(|limiter| !limiter.ready(now)) {
            return None;
        }
        let delivery = self.choose(now, doomed)?;
        if let Some(limiter) = &mut self.limiter {
            limiter.charge(now, delivery.adjusted);
        }
        Some(delivery)
    }

    #[inline]
    fn choose(&mut self, now: Instant, doomed: &mut impl FnMut(P, DropReason)) -> Option<Delivery<P>> {
        let is_due = self.qdisc.due() <= now;
        let data_has_its_turn = self.control_went_last && !self.qdisc.is_empty();
        if is_due && !self.control.is_empty() && !data_has_its_turn {
            self.control_went_last = true;
            return self.take_control(now);
        }
        match self.qdisc.dequeue(now, &mut self.rng, doomed) {
            // The AQM may have dropped all that waited: control goes on then.
            None if is_due => self.take_control(now),
            None => None,
            Some(delivery) => {
                self.control_went_last = false;
                self.sojourn.record(delivery.tin, now.since(delivery.enqueued));
                if let Some(bytes) = self.tins.get_mut(usize::from(delivery.tin)) {
                    *bytes += u64::from(delivery.len);
                }
                Some(delivery)
            }
        }
    }

    fn take_control(&mut self, now: Instant) -> Option<Delivery<P>> {
        let delivery = self.control.pop_front()?;
        self.control_bytes -= u64::from(delivery.len);
        self.control_stats.sent.add(delivery.len);
        self.qdisc.charge(now, delivery.adjusted);
        Some(delivery)
    }

    /// When to call [`Egress::dequeue`] again although nothing arrives: `None` for never.
    pub fn next_wakeup(&self) -> Option<Instant> {
        match &self.limiter {
            _ if self.is_empty() => self.qdisc.next_wakeup(),
            Some(limiter) => Some(limiter.next()),
            None if self.control.is_empty() => Some(self.qdisc.next_wakeup().unwrap_or(Instant::ZERO)),
            None => Some(self.qdisc.due()),
        }
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.qdisc.is_empty() && self.control.is_empty()
    }

    /// Takes up other settings while packets wait. What was booked ahead or is to be made up takes its
    /// time at the new rate.
    pub fn begin(&mut self, now: Instant, change: &mut DirectionChange) {
        self.overhead = change.overhead;
        self.limit(now, change);
        // The worker has asked before whether it accepts them.
        let _ = self.qdisc.begin(now, &change.qdisc, &mut change.tables);
    }

    fn limit(&mut self, now: Instant, change: &mut DirectionChange) {
        let is_empty = self.is_empty();
        let (Some(rate), Some(limiter)) = (change.rate(), &mut self.limiter) else {
            self.limiter = change.limiter.clone();
            self.limiter.iter_mut().for_each(|limiter| limiter.idle_until(now));
            return;
        };
        if is_empty {
            limiter.idle_until(now);
        }
        // The rate is that of a limiter, so it is in range.
        let _ = limiter.set_rate(now, rate);
        limiter.set_catch_up(change.limiter.as_ref().map_or(Limiter::CATCH_UP, Limiter::catch_up));
    }

    /// Hands what the change has replaced back in it, once it is done; `false` before.
    pub fn finish(&mut self, change: &mut DirectionChange) -> bool {
        self.qdisc.finish(&mut change.tables)
    }

    /// Packets and bytes that wait.
    pub fn queued(&self) -> Tally {
        Tally {
            packets: self.control.len() as u64 + self.qdisc.len() as u64,
            bytes: self.control_bytes + self.qdisc.backlog(),
        }
    }

    /// Gives every waiting packet back, control frames first.
    pub fn flush(&mut self, doomed: &mut impl FnMut(P, DropReason)) {
        while let Some(delivery) = self.control.pop_front() {
            doomed(delivery.packet, DropReason::Flush);
        }
        self.control_bytes = 0;
        self.qdisc.flush(doomed);
    }

    /// How long packets waited since it was last given away.
    pub fn sojourn(&self) -> &Recorder {
        &self.sojourn
    }

    /// Gives away how long packets waited since the last time, in exchange for empty histograms.
    pub fn exchange_sojourn(&mut self, empty: &mut Recorder) {
        core::mem::swap(&mut self.sojourn, empty);
    }

    /// The discipline, for its statistics.
    pub fn qdisc(&self) -> &Qdisc<P> {
        &self.qdisc
    }

    /// Bytes that the discipline has delivered since the start, by number of the tin.
    pub fn tins(&self) -> [u64; MAX_TINS] {
        self.tins
    }

    /// The rate limiter, if there is one.
    pub fn limiter(&self) -> Option<&Limiter> {
        self.limiter.as_ref()
    }

    /// What the control queue did.
    pub fn control_stats(&self) -> ControlStats {
        self.control_stats
    }
}

impl Egress<Mbuf> {
    /// Goes on with a change: moves and drops some `most` packets, and says how many. See
    /// [`Qdisc::proceed`].
    pub fn proceed(
        &mut self,
        now: Instant,
        most: usize,
        classifier: &Classifier,
        doomed: &mut impl FnMut(Mbuf, DropReason),
    ) -> usize {
        self.qdisc.proceed(now, most, &mut |packet| classifier.classify(packet).arrival, doomed)
    }
}

#[inline]
fn as_is<P>(now: Instant, arrival: &Arrival<'_>, piece: Piece<P>) -> Delivery<P> {
    Delivery {
        len: piece.frame_len,
        adjusted: piece.adjusted,
        segs: piece.segs,
        ds: arrival.ds,
        rewrite: false,
        enqueued: now,
        tin: Stamp::NONE.tin(),
        packet: piece.packet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delays::{Totals, tins};
    use shaper::packet::DsField;
    use shaper::qdisc::{Params, cake, fifo};
    use shaper::time::Duration;

    const FRAME: u32 = 125; // 1 ms at 1 Mbit/s

    fn egress(limit: u32, rate: Option<u64>) -> Egress<u32> {
        let params = Params::Fifo(fifo::Params { limit, ..fifo::Params::default() });
        let qdisc = Qdisc::new(&params, limit as usize).unwrap();
        let limiter =
            rate.map(|bits| Limiter::new(Rate::from_bits_per_sec(bits), Duration::from_millis(10)).unwrap());
        Egress::new(qdisc, limiter, Overhead::default(), SplitMix::new(1, 2))
    }

    fn put(egress: &mut Egress<u32>, now: Instant, id: u32, is_control: bool, lost: &mut Vec<u32>) {
        let arrival = Arrival { ds: DsField::NONE, network_offset: 14, ..Arrival::default() };
        let piece = Piece::single(id, FRAME, 2304);
        egress.enqueue(now, &arrival, is_control, piece, &mut |id, _| lost.push(id));
    }

    fn drain(egress: &mut Egress<u32>, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| egress.dequeue(now, &mut |_, _| ())).map(|d| d.packet).collect()
    }

    #[test]
    fn control_goes_first_but_never_twice_while_data_waits() {
        let mut egress = egress(100, None);
        let mut lost = Vec::new();
        for id in 0..3 {
            put(&mut egress, Instant::ZERO, id, false, &mut lost);
            put(&mut egress, Instant::ZERO, 100 + id, true, &mut lost);
        }
        put(&mut egress, Instant::ZERO, 103, true, &mut lost);
        assert_eq!(egress.queued(), Tally { packets: 7, bytes: 7 * u64::from(FRAME) });
        assert_eq!(drain(&mut egress, Instant::ZERO), [100, 0, 101, 1, 102, 2, 103]);
        assert_eq!(egress.queued(), Tally::default());
        assert_eq!(egress.control_stats().sent.packets, 4);
        assert_eq!(egress.tins()[0], 3 * u64::from(FRAME), "control frames are in no tin");
    }

    #[test]
    fn a_control_flood_spills_into_the_discipline_and_is_policed_there() {
        let mut egress = egress(10, None);
        let mut lost = Vec::new();
        for id in 0..100 {
            put(&mut egress, Instant::ZERO, id, true, &mut lost);
        }
        let spilled = 100 - CONTROL_SLOTS as u64;
        assert_eq!(egress.control_stats().spilled.packets, spilled);
        assert_eq!(lost.len() as u64, spilled - 10, "the discipline had room for ten");
        assert_eq!(drain(&mut egress, Instant::ZERO).len() + lost.len(), 100);
    }

    #[test]
    fn control_frames_are_charged_to_the_rate() {
        let mut egress = egress(100, Some(1_000_000));
        let mut lost = Vec::new();
        let start = Instant::ZERO + Duration::from_millis(5_000);
        for id in 0..4 {
            put(&mut egress, start, id, id % 2 == 0, &mut lost);
        }
        for step in 0..4 {
            let now = start + Duration::from_millis(step);
            assert_eq!(drain(&mut egress, now).len(), 1, "one frame a millisecond, no idle credit");
            let expected = (step < 3).then(|| now + Duration::from_millis(1));
            assert_eq!(egress.next_wakeup(), expected);
        }
    }

    /// cake is asked for 1 Mbit/s of ATM; each frame of 125 bytes takes three cells.
    #[test]
    fn cake_keeps_the_rate_for_control_frames_too() {
        let overhead: Overhead = "raw atm".parse().unwrap();
        let bandwidth = Some(Rate::from_bits_per_sec(1_000_000));
        let params = Params::Cake(cake::Params { bandwidth, overhead, ..cake::Params::default() });
        let mut egress = Egress::new(Qdisc::new(&params, 100).unwrap(), None, overhead, SplitMix::new(1, 2));
        let frame = Duration::from_nanos(3 * 53 * 8_000);
        let start = Instant::ZERO + Duration::from_millis(5_000);
        let mut lost = Vec::new();
        for id in 0..6 {
            put(&mut egress, start, id, id % 2 == 0, &mut lost);
        }
        let mut now = start;
        let mut order = Vec::new();
        for _ in 0..6 {
            let sent = drain(&mut egress, now);
            assert_eq!(sent.len(), 1, "one frame at a time, no idle credit");
            order.extend(sent);
            let Some(next) = egress.next_wakeup() else { break };
            if egress.is_empty() {
                break;
            }
            assert_eq!(next, now + frame);
            assert_eq!(drain(&mut egress, Instant::from_nanos(next.as_nanos() - 1)), []);
            now = next;
        }
        assert_eq!(order, [0, 1, 2, 3, 4, 5], "control first, never twice in a row while data waits");
        assert!(lost.is_empty() && egress.is_empty());
    }

    #[test]
    fn waiting_times_are_recorded_until_they_are_taken() {
        let tins = tins(&Params::Fifo(fifo::Params::default()));
        let mut egress = egress(100, None).recording(Recorder::new(tins));
        put(&mut egress, Instant::ZERO, 0, false, &mut Vec::new());
        put(&mut egress, Instant::ZERO, 1, true, &mut Vec::new());
        drain(&mut egress, Instant::ZERO + Duration::from_millis(8));
        for packets in [1, 0] {
            let mut page = Recorder::new(tins);
            egress.exchange_sojourn(&mut page);
            let mut total = Totals::default();
            total.take(&mut page);
            let waited = total.of_all();
            assert_eq!(waited.packets, packets, "the control frame did not wait in the discipline");
            assert_eq!(waited.p50.as_micros() / 1_000, 8 * packets);
        }
    }

    #[test]
    fn flush_gives_everything_back() {
        let mut egress = egress(100, Some(1_000_000));
        let mut lost = Vec::new();
        for id in 0..4 {
            put(&mut egress, Instant::ZERO, id, id % 2 == 0, &mut lost);
        }
        egress.flush(&mut |id, _| lost.push(id));
        lost.sort_unstable();
        assert_eq!(lost, [0, 1, 2, 3]);
        assert!(egress.is_empty());
        assert_eq!(egress.queued(), Tally::default());
    }
}
