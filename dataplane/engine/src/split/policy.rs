//! How large the pieces of a direction may be, now.

use crate::split::offload::Offload;
use shaper::gso::{Ids, Limits, Line, Plan, Split};
use shaper::units::Rate;
use std::num::NonZeroU16;

/// What decides how large pieces are. Brought up to date once per turn: a division by rate and
/// budget is made per super-packet, not per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What was asked for.
    pub split: Split,
    /// What the pieces leave by.
    pub line: Line,
    /// What the port can take.
    pub limits: Limits,
}

impl Policy {
    /// The policy for a line of this rate, if it is known.
    pub fn new(split: Split, rate: Option<Rate>, offload: &Offload) -> Self {
        let max_segs = if offload.segments() { offload.max_segs } else { NonZeroU16::MAX };
        Self {
            split,
            line: Line { rate, overhead: WIRE_OVERHEAD },
            limits: Limits { max_segs, max_len: MAX_LEN },
        }
    }

    /// Segments of each piece. One wherever nothing on the way out could cut a larger piece right.
    pub fn segs_per_piece(&self, plan: &Plan<'_>, ids: Ids) -> NonZeroU16 {
        let can_travel = ids == Ids::Increment && plan.offload().is_some_and(|offload| offload.segmentation);
        if !can_travel {
            return NonZeroU16::MIN;
        }
        self.split.segs_per_piece(&self.line, plan.gso_size(), plan.header_len(), &self.limits)
    }
}

/// Bytes beside each frame: preamble, FCS, gap (IEEE 802.3).
const WIRE_OVERHEAD: u16 = 8 + 4 + 12;

/// Longest frame that is left to a port to cut: an IP packet of 65535 bytes behind Ethernet.
const MAX_LEN: u32 = 65_535 + 14;
