//! What is counted, for each direction. Counters only ever rise.

use shaper::gso::Refusal;
use shaper::packet::DropReason;

/// Packets and their frame bytes (Ethernet header included, FCS not).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Every way to lose a packet between receive and transmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The discipline dropped it.
    Qdisc(DropReason),
    /// Larger than the egress port's MTU.
    Oversize,
    /// Spread over several segments, on an egress port that sends one only, and too large for one; or a
    /// segment of a super-packet over more than the port sends in one frame.
    Segments,
    /// The egress link was down for longer than `link-down-hold`.
    LinkDown,
    /// The driver refused this one frame for longer than [`crate::sender::REFUSAL_BOUND`].
    Refused,
    /// A super-packet that could not be cut, and that no port could carry whole.
    Uncut(Refusal),
    /// No buffer was left for all pieces of a super-packet.
    NoBuffer,
    /// Still queued when the link was taken out of service.
    Stop,
}

/// Losses by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([Tally; Loss::COUNT]);

/// What a direction counts. Rises only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Taken from the receive queue.
    pub received: Tally,
    /// Taken by the transmit queue.
    pub sent: Tally,
    /// Lost in between, by reason.
    pub losses: Losses,
    /// Frames whose DS field was rewritten (a CE mark, a wash).
    pub rewritten: u64,
    /// Frames whose DS field should have been rewritten but could not: their bytes are shared.
    pub rewrite_failed: u64,
    /// Transmit bursts of which the driver took only a part.
    pub short_bursts: u64,
    /// What cutting added: packets, and the bytes of their headers. What is received, sent, lost and
    /// waits is counted as it is on the wire, a piece of several segments with the headers of each, but
    /// as one packet.
    pub added: Tally,
    /// What merging, and cutting less fine than the sender marked, took away.
    pub removed: Tally,
    /// What became of super-packets.
    pub supers: Supers,
}

/// What became of super-packets. Those that could not be cut are among the [`Losses`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supers {
    /// Super-packets that came in: marked by the port, merged by GRO, or larger than the egress MTU.
    pub received: Tally,
    /// Packets that GRO appended to others.
    pub merged: u64,
    /// Pieces queued, by how many segments they hold: see [`SIZE_CLASSES`].
    pub pieces: [u64; SIZE_CLASSES.len()],
    /// Packets whose checksum the sender had left to the port, completed here.
    pub completed: u64,
    /// Turns that left packets unread, because 64 pieces had been built.
    pub deferred: u64,
    /// Pieces cut again after they had waited: the rate had fallen, the port does not cut, or its ring is
    /// kept short.
    pub late_cuts: u64,
    /// Frames of several segments that were left to the port to cut.
    pub tso: Tally,
    /// Frames whose checksum was left to the port.
    pub checksum_offload: u64,
    /// Frames that the driver's `tx_prepare` refused; cut here then.
    pub prepare_refused: u64,
}

/// The classes of [`Supers::pieces`]: fewest segments of each and what to call it.
pub const SIZE_CLASSES: [(u16, &str); 6] =
    [(1, "1"), (2, "2-3"), (4, "4-7"), (8, "8-15"), (16, "16-31"), (32, "32+")];

impl Supers {
    /// Counts a piece of so many segments.
    #[inline]
    pub fn piece(&mut self, segs: u16) {
        let class = (segs.max(1).ilog2() as usize).min(SIZE_CLASSES.len() - 1);
        if let Some(count) = self.pieces.get_mut(class) {
            *count += 1;
        }
    }
}

impl Tally {
    /// Counts one packet of `bytes`.
    #[inline]
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// The sum of two tallies.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl Losses {
    /// Counts one lost packet.
    #[inline]
    pub fn add(&mut self, loss: Loss, bytes: u32) {
        if let Some(tally) = self.0.get_mut(loss.index()) {
            tally.add(bytes);
        }
    }

    /// Counts several lost packets.
    pub fn add_all(&mut self, loss: Loss, lost: Tally) {
        if let Some(tally) = self.0.get_mut(loss.index()) {
            *tally = tally.plus(lost);
        }
    }

    /// What was lost for one reason.
    pub fn of(&self, loss: Loss) -> Tally {
        self.0.get(loss.index()).copied().unwrap_or_default()
    }

    /// All losses.
    pub fn total(&self) -> Tally {
        self.0.iter().fold(Tally::default(), |sum, tally| sum.plus(*tally))
    }

    /// Reason and tally of each loss, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, Tally)> + '_ {
        Loss::ALL.into_iter().zip(self.0)
    }
}

impl Loss {
    const COUNT: usize = 15 + Refusal::ALL.len();

    /// Every reason, in the order of the counters.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Qdisc(DropReason::Codel),
        Self::Qdisc(DropReason::Blue),
        Self::Qdisc(DropReason::OverLimit),
        Self::Qdisc(DropReason::OverMemory),
        Self::Qdisc(DropReason::Overflow),
        Self::Qdisc(DropReason::AckFilter),
        Self::Qdisc(DropReason::Change),
        Self::Qdisc(DropReason::Uncuttable),
        Self::Qdisc(DropReason::Flush),
        Self::Oversize,
        Self::Segments,
        Self::LinkDown,
        Self::Refused,
        Self::NoBuffer,
        Self::Stop,
        Self::Uncut(Refusal::Truncated),
        Self::Uncut(Refusal::Malformed),
        Self::Uncut(Refusal::Protocol),
        Self::Uncut(Refusal::Fragment),
        Self::Uncut(Refusal::Extension),
        Self::Uncut(Refusal::Tunnel),
        Self::Uncut(Refusal::TooDeep),
        Self::Uncut(Refusal::HeaderTooLong),
        Self::Uncut(Refusal::Flags),
        Self::Uncut(Refusal::Options),
        Self::Uncut(Refusal::Signed),
        Self::Uncut(Refusal::Unmarked),
        Self::Uncut(Refusal::SegmentSize),
        Self::Uncut(Refusal::TooManySegments),
    ];

    /// The counter's name, as in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qdisc(DropReason::Codel) => "codel",
            Self::Qdisc(DropReason::Blue) => "blue",
            Self::Qdisc(DropReason::OverLimit) => "overlimit",
            Self::Qdisc(DropReason::OverMemory) => "overmemory",
            Self::Qdisc(DropReason::Overflow) => "overflow",
            Self::Qdisc(DropReason::AckFilter) => "ack-filter",
            Self::Qdisc(DropReason::Change) => "change",
            Self::Qdisc(DropReason::Uncuttable) => "uncuttable",
            Self::Qdisc(DropReason::Flush) => "flush",
            Self::Oversize => "oversize",
            Self::Segments => "segments",
            Self::LinkDown => "link-down",
            Self::Refused => "tx-refused",
            Self::NoBuffer => "no-buffer",
            Self::Stop => "stop",
            Self::Uncut(refusal) => uncut(refusal),
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Qdisc(reason) => reason as usize,
            Self::Oversize => 9,
            Self::Segments => 10,
            Self::LinkDown => 11,
            Self::Refused => 12,
            Self::NoBuffer => 13,
            Self::Stop => 14,
            Self::Uncut(refusal) => 15 + refusal as usize,
        }
    }
}

const fn uncut(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Truncated => "gso-truncated",
        Refusal::Malformed => "gso-malformed",
        Refusal::Protocol => "gso-protocol",
        Refusal::Fragment => "gso-fragment",
        Refusal::Extension => "gso-extension",
        Refusal::Tunnel => "gso-tunnel",
        Refusal::TooDeep => "gso-too-deep",
        Refusal::HeaderTooLong => "gso-header-too-long",
        Refusal::Flags => "gso-flags",
        Refusal::Options => "gso-options",
        Refusal::Signed => "gso-signed",
        Refusal::Unmarked => "gso-unmarked",
        Refusal::SegmentSize => "gso-segment-size",
        Refusal::TooManySegments => "gso-too-many-segments",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_counter_and_a_name_of_its_own() {
        let mut losses = Losses::default();
        for (position, loss) in Loss::ALL.into_iter().enumerate() {
            assert_eq!(loss.index(), position);
            losses.add(loss, position as u32 + 1);
        }
        for (position, (loss, tally)) in losses.iter().enumerate() {
            assert_eq!(loss, Loss::ALL[position]);
            assert_eq!(tally, Tally { packets: 1, bytes: position as u64 + 1 });
        }
        let mut names: Vec<_> = Loss::ALL.iter().map(|loss| loss.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Loss::ALL.len());
        assert_eq!(losses.total().packets, Loss::ALL.len() as u64);
    }
}
