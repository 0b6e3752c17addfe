//! Tins: how many, with what share of the bandwidth, and which DSCP goes where: tc-cake(8).

use super::MAX_TINS;
use super::params::{Diffserv, Params};
use crate::packet::Arrival;

/// A mode's tins.
#[derive(Debug)]
pub(super) struct Mode {
    /// Number of tins in use.
    pub(super) tins: usize,
    /// Tins in the order in which they are reported, and in which marks and classes count them.
    pub(super) order: &'static [u8],
    /// DSCP to tin.
    pub(super) by_dscp: [u8; 64],
    share: Share,
}

#[derive(Debug)]
enum Share {
    /// Right shift of the bandwidth, and the quantum, for each tin.
    Shift(&'static [(u32, u16)]),
    /// Seven eighths of the tin below, from 256.
    Sevenths,
}

impl Mode {
    /// Rate in bytes per second and quantum in bytes of each tin, for a bandwidth in bytes per second.
    pub(super) fn shares(&self, bandwidth: u64) -> impl Iterator<Item = (u64, u16)> {
        let mut step = (bandwidth, 256_u16);
        (0..self.tins).map(move |tin| match self.share {
            Share::Shift(shares) => {
                let (shift, quantum) = shares.get(tin).copied().unwrap_or_default();
                (bandwidth >> shift, quantum)
            }
            Share::Sevenths => {
                let share = step;
                step = (share.0.saturating_mul(7) >> 3, ((u32::from(share.1) * 7) >> 3) as u16);
                share
            }
        })
    }

    /// The tin that is number `nth`, counted from 1, in the order of report.
    #[inline]
    pub(super) fn nth(&self, nth: u32) -> Option<u8> {
        self.order.get((nth as usize).wrapping_sub(1)).copied()
    }

    /// The tin of an arrival by mark, by class, by DSCP: the first that says something.
    #[inline]
    pub(super) fn tin_of(&self, params: &Params, arrival: &Arrival<'_>) -> usize {
        if self.tins == 1 {
            return 0;
        }
        let fwmark = params.fwmark;
        let mark = (arrival.mark & fwmark).checked_shr(fwmark.trailing_zeros()).unwrap_or(0);
        let by_class = || {
            let is_own = params.handle.map(u32::from) == Some(arrival.priority >> 16);
            if is_own { self.nth(arrival.priority & 0xffff) } else { None }
        };
        let dscp = match arrival.dscp {
            Some(dscp) => dscp,
            None if arrival.is_arp => ARP_DSCP,
            None => arrival.ds.dscp(),
        };
        let tin = self.nth(mark).or_else(by_class).unwrap_or_else(|| self.by_dscp[usize::from(dscp) % 64]);
        usize::from(tin) % MAX_TINS
    }
}

impl Diffserv {
    #[inline]
    pub(super) fn mode(self) -> &'static Mode {
        match self {
            Self::BestEffort => &BEST_EFFORT,
            Self::Precedence => &PRECEDENCE,
            Self::Diffserv3 => &DIFFSERV3,
            Self::Diffserv4 => &DIFFSERV4,
            Self::Diffserv8 => &DIFFSERV8,
        }
    }

    /// Numbers of the tins in the order of report.
    pub fn tin_order(self) -> &'static [u8] {
        self.mode().order
    }

    /// Names of the tins in the order of report, as tc prints them.
    pub const fn tin_names(self) -> &'static [&'static str] {
        match self {
            Self::BestEffort => &["Tin 0"],
            Self::Diffserv3 => &["Bulk", "Best Effort", "Voice"],
            Self::Diffserv4 => &["Bulk", "Best Effort", "Video", "Voice"],
            Self::Precedence | Self::Diffserv8 => {
                &["Tin 0", "Tin 1", "Tin 2", "Tin 3", "Tin 4", "Tin 5", "Tin 6", "Tin 7"]
            }
        }
    }
}

static BEST_EFFORT: Mode =
    Mode { tins: 1, order: &[0], by_dscp: [0; 64], share: Share::Shift(&[(0, 65535)]) };

static PRECEDENCE: Mode = Mode { tins: 8, order: &ALL, by_dscp: precedence(), share: Share::Sevenths };

static DIFFSERV3: Mode = Mode {
    tins: 3,
    order: &[1, 0, 2],
    by_dscp: map(0, &[(1, &[LE, CS1]), (2, &[4, VA, EF, CS6, CS7])]),
    share: Share::Shift(&[(0, 1024), (4, 64), (2, 256)]),
};

static DIFFSERV4: Mode = Mode {
    tins: 4,
    order: &[1, 0, 2, 3],
    by_dscp: map(
        0,
        &[
            (1, &[LE, CS1]),
            (2, &[4, CS2, 18, 20, 22, CS3, 26, 28, 30, 34, 36, 38]),
            (3, &[CS4, CS5, VA, EF, CS6, CS7]),
        ],
    ),
    share: Share::Shift(&[(0, 1024), (4, 64), (1, 512), (2, 256)]),
};

static DIFFSERV8: Mode = Mode {
    tins: 8,
    order: &ALL,
    by_dscp: map(
        2,
        &[
            (0, &[LE]),
            (1, &[2, CS1, 10, 12, 14]),
            (3, &[CS3, 26, 28, 30, 34, 36, 38]),
            (4, &[4, 18, 20, 22]),
            (5, &[CS2]),
            (6, &[CS4, CS5, VA, EF]),
            (7, &[CS6, CS7]),
        ],
    ),
    share: Share::Sevenths,
};

const ALL: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

const fn map(default: u8, tins: &[(u8, &[u8])]) -> [u8; 64] {
    let mut map = [default; 64];
    let mut tin = 0;
    while tin < tins.len() {
        let (number, list) = tins[tin];
        let mut i = 0;
        while i < list.len() {
            map[list[i] as usize] = number;
            i += 1;
        }
        tin += 1;
    }
    map
}

const fn precedence() -> [u8; 64] {
    let mut map = [0; 64];
    let mut dscp = 0;
    while dscp < 64 {
        map[dscp] = dscp as u8 >> 3;
        dscp += 1;
    }
    map
}

const LE: u8 = 1;
const CS1: u8 = 8;
const CS2: u8 = 16;
const CS3: u8 = 24;
const CS4: u8 = 32;
const CS5: u8 = 40;
const VA: u8 = 44;
const EF: u8 = 46;
const CS6: u8 = 48;
const CS7: u8 = 56;

/// ARP is treated as network control, CS7.
const ARP_DSCP: u8 = 56;
