//! CoDel (RFC 8289) on one flow queue, with the ECN and `ce_threshold` marking of tc-codel(8).
//!
//! [`Params`] is what a user sets, [`Settings`] the same in the conformance's own unit of time,
//! one per discipline; [`Vars`] is the state of one flow, [`Stats`] the counters all flows share.
//! The queue itself stays with the discipline and is reached through [`Source`].
//!
//! Against RFC 8289: a signal is a mark where the packet allows it, at most one per call, and
//! re-entry within sixteen intervals resumes at the part of `count` that was earned since the
//! last entry.

use super::clock::Clock;
use super::inv_sqrt::Root;
use crate::conformance::Conformance;
use crate::packet::DsField;
use crate::time::{Duration, Instant};

/// What a user sets, one per discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Acceptable standing delay.
    pub target: Duration,
    /// Delay above `target` for this long starts signalling; in the order of a worst-case RTT.
    pub interval: Duration,
    /// Every packet that has waited longer is marked; `None` for off.
    pub ce_threshold: Option<Duration>,
    /// With `ce_mask` not 0, `ce_threshold` applies only to packets whose DS field matches:
    /// `ds & ce_mask == ce_selector`.
    pub ce_selector: u8,
    /// See `ce_selector`; 0 for all packets.
    pub ce_mask: u8,
    /// Mark instead of drop where the packet allows it.
    pub ecn: bool,
    /// Backlog in bytes that is never held against a flow: one packet of the largest size.
    pub mtu: u32,
}

/// [`Params`] in the unit of time that `C` reckons in.
#[derive(Clone, Copy, Debug)]
pub struct Settings<C: Conformance> {
    target: Span<C>,
    interval: Span<C>,
    ce_threshold: <C::CodelClock as Clock>::Threshold,
    ce_selector: u8,
    ce_mask: u8,
    ecn: bool,
    mtu: u32,
}

/// The state of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Vars<C: Conformance> {
    drop_next: Time<C>,
    first_above: <C::CodelClock as Clock>::Timer,
    last_sojourn: Span<C>,
    count: u32,
    lastcount: u32,
    dropping: bool,
    root: C::CodelRoot,
}

/// Counters shared by all flows of a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Length in bytes of the largest packet that was looked at.
    pub maxpacket: u32,
    /// Packets marked in place of a drop.
    pub ecn_mark: u64,
    /// Packets marked because they waited longer than `ce_threshold`.
    pub ce_mark: u64,
}

/// The state of one flow, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How long the packet looked at last had waited, in microseconds.
    pub ldelay: u64,
    /// Signals of this cycle, as the control law counts them.
    pub count: u32,
    /// `count` when signalling was last begun.
    pub lastcount: u32,
    /// While signalling: microseconds until the next signal, negative when it is overdue.
    pub drop_next: Option<i64>,
}

/// The queue that CoDel takes packets from.
pub trait Source {
    /// A packet with what CoDel needs to know of it.
    type Packet: Candidate;
    /// Removes the head of the flow queue.
    fn take(&mut self) -> Option<Self::Packet>;
    /// Bytes queued in the whole discipline, not in this flow alone.
    fn backlog(&self) -> u64;
    /// A packet that CoDel drops.
    fn doom(&mut self, packet: Self::Packet);
}

/// A packet that may be signalled with.
pub trait Candidate {
    /// When it was enqueued.
    fn enqueued(&self) -> Instant;
    /// Its length in bytes.
    fn bytes(&self) -> u32;
    /// Its DS field.
    fn ds(&self) -> DsField;
    /// Sets CE. Called only when `ds().can_mark()`.
    fn mark(&mut self);
}

impl<C: Conformance> Settings<C> {
    /// `params` for the conformance `C`.
    pub fn new(params: &Params) -> Self {
        Self {
            target: C::CodelClock::span(params.target),
            interval: C::CodelClock::span(params.interval),
            ce_threshold: C::CodelClock::threshold(params.ce_threshold),
            ce_selector: params.ce_selector,
            ce_mask: params.ce_mask,
            ecn: params.ecn,
            mtu: params.mtu,
        }
    }

    fn threshold_applies_to(&self, ds: DsField) -> bool {
        self.ce_mask == 0 || (ds.is_ip() && ds.bits() & self.ce_mask == self.ce_selector)
    }
}

impl<C: Conformance> Vars<C> {
    /// The next packet to deliver. Packets dropped on the way go to [`Source::doom`]; the loop
    /// ends with the flow queue at the latest.
    #[inline]
    pub fn dequeue<S: Source>(
        &mut self,
        now: Instant,
        settings: &Settings<C>,
        stats: &mut Stats,
        source: &mut S,
    ) -> Option<S::Packet> {
        let mut call = Call { now: C::CodelClock::time(now), settings, stats, source };
        let (head, above) = self.take(&mut call);
        let packet = match (self.dropping, above) {
            (true, true) => self.signal_while_due(&mut call, head),
            (false, true) => self.enter(&mut call, head),
            (_, false) => {
                self.dropping = false;
                head
            }
        };
        packet.map(|packet| self.mark_above_threshold(&mut call, packet))
    }

    /// Packets of this flow were dropped because a limit was exceeded: as strong a signal as that
    /// many drops of CoDel's own.
    #[inline]
    pub fn overload_drops(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }

    /// The state for people, as of `now`.
    pub fn report(&self, now: Instant) -> Report {
        let now = C::CodelClock::time(now);
        Report {
            ldelay: C::CodelClock::micros(self.last_sojourn),
            count: self.count,
            lastcount: self.lastcount,
            drop_next: self.dropping.then(|| C::CodelClock::micros_until(self.drop_next, now)),
        }
    }

    /// Takes the head and judges it: whether delay has been above target for an interval.
    #[inline(always)] // as below
    fn take<S: Source>(&mut self, call: &mut Call<'_, C, S>) -> (Option<S::Packet>, bool) {
        let packet = call.source.take();
        let Some(head) = &packet else {
            self.first_above = Default::default();
            return (None, false);
        };
        self.last_sojourn = C::CodelClock::sojourn(call.now, head.enqueued());
        call.stats.maxpacket = call.stats.maxpacket.max(head.bytes());
        let settings = call.settings;
        if C::CodelClock::is_below(self.last_sojourn, settings.target)
            || call.source.backlog() <= u64::from(settings.mtu)
        {
            self.first_above = Default::default();
            return (packet, false);
        }
        if !C::CodelClock::is_set(self.first_above) {
            self.first_above = C::CodelClock::start(call.now, settings.interval);
            return (packet, false);
        }
        (packet, C::CodelClock::is_over(self.first_above, call.now))
    }

    /// In the drop state and above target: signals until the next one lies ahead. The base of
    /// the control law is the signal before, not now.
    #[inline(always)] // a call would take the packet's address, and every dequeue pay: 9 ns (Zen 4)
    fn signal_while_due<S: Source>(
        &mut self,
        call: &mut Call<'_, C, S>,
        mut packet: Option<S::Packet>,
    ) -> Option<S::Packet> {
        while self.dropping && C::CodelClock::is_due(self.drop_next, call.now) {
            self.count = self.count.wrapping_add(1);
            self.root.step(self.count);
            if call.marked_instead(&mut packet) {
                self.drop_next = self.next(self.drop_next, call.settings);
                break;
            }
            call.doom(packet);
            let above;
            (packet, above) = self.take(call);
            if above {
                self.drop_next = self.next(self.drop_next, call.settings);
            } else {
                self.dropping = false;
            }
        }
        packet
    }

    /// The first signal of a cycle. What replaces a dropped packet is judged for its side effects
    /// only.
    #[inline(always)] // as above
    fn enter<S: Source>(
        &mut self,
        call: &mut Call<'_, C, S>,
        mut packet: Option<S::Packet>,
    ) -> Option<S::Packet> {
        if !call.marked_instead(&mut packet) {
            call.doom(packet);
            (packet, _) = self.take(call);
        }
        self.dropping = true;
        let earned = self.count.wrapping_sub(self.lastcount);
        if earned > 1 && C::CodelClock::is_recent(self.drop_next, call.now, call.settings.interval) {
            self.count = earned;
            self.root.step(self.count);
        } else {
            self.count = 1;
            self.root.reset();
        }
        self.lastcount = self.count;
        self.drop_next = self.next(call.now, call.settings);
        packet
    }

    #[inline]
    fn mark_above_threshold<S: Source>(&self, call: &mut Call<'_, C, S>, mut packet: S::Packet) -> S::Packet {
        if C::CodelClock::exceeds(self.last_sojourn, call.settings.ce_threshold)
            && call.settings.threshold_applies_to(packet.ds())
        {
            mark::<C>(&mut packet, &mut call.stats.ce_mark);
        }
        packet
    }

    /// The control law: one `interval / sqrt(count)` after `base`.
    fn next(&self, base: Time<C>, settings: &Settings<C>) -> Time<C> {
        C::CodelClock::advance(base, settings.interval, self.root.fraction(self.count))
    }
}

impl<C: Conformance> Default for Vars<C> {
    fn default() -> Self {
        Self {
            drop_next: Default::default(),
            first_above: Default::default(),
            last_sojourn: Default::default(),
            count: 0,
            lastcount: 0,
            dropping: false,
            root: Default::default(),
        }
    }
}

impl Params {
    /// The defaults of tc-fq_codel(8) on a link whose largest frame has `mtu` bytes, Ethernet
    /// header included.
    pub const fn for_mtu(mtu: u32) -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ce_threshold: None,
            ce_selector: 0,
            ce_mask: 0,
            ecn: true,
            mtu: if mtu < MTU_MAX { mtu } else { MTU_MAX },
        }
    }
}

/// What stays the same during one dequeue.
struct Call<'a, C: Conformance, S> {
    now: Time<C>,
    settings: &'a Settings<C>,
    stats: &'a mut Stats,
    source: &'a mut S,
}

impl<C: Conformance, S: Source> Call<'_, C, S> {
    /// Whether the signal could be given by a mark.
    fn marked_instead(&mut self, packet: &mut Option<S::Packet>) -> bool {
        self.settings.ecn && packet.as_mut().is_some_and(|packet| mark::<C>(packet, &mut self.stats.ecn_mark))
    }

    fn doom(&mut self, packet: Option<S::Packet>) {
        if let Some(packet) = packet {
            self.source.doom(packet);
        }
    }
}

/// Sets CE where it is not set and the packet is ECN-capable. A packet that came with CE has its
/// signal, so it counts as success; whether it counts as a mark is the conformance's business.
fn mark<C: Conformance>(packet: &mut impl Candidate, marks: &mut u64) -> bool {
    let ds = packet.ds();
    if !ds.can_mark() {
        return false;
    }
    let arrived_marked = ds.ecn() == DsField::CE;
    if !arrived_marked {
        packet.mark();
    }
    if !arrived_marked || C::CODEL_COUNTS_CE_ARRIVALS {
        *marks += 1;
    }
    true
}

type Time<C> = <<C as Conformance>::CodelClock as Clock>::Time;
type Span<C> = <<C as Conformance>::CodelClock as Clock>::Span;

/// Largest `mtu` in bytes: beyond a mebibyte the bound would switch CoDel off.
const MTU_MAX: u32 = 1 << 20;
