//! Witnesses that do not know of each other, asked about the same quantity: where they disagree, one of them is wrong, or
//! they do not mean the same.

use serde::Serialize;

/// Something that several witnesses see.
#[derive(Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// So much apart is no disagreement, whatever the share.
    pub grain: f64,
    /// In which way they do not mean the same.
    pub differ: &'static str,
}

/// What one of them says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Account {
    /// Of what.
    pub of: &'static Quantity,
    /// Who.
    pub by: &'static str,
    /// The value.
    pub value: f64,
}

impl Quantity {
    /// An account of it.
    pub const fn by(&'static self, by: &'static str, value: f64) -> Account {
        Account { of: self, by, value }
    }

    /// How far the accounts are apart, as a share of the largest; none with fewer than two, or where that is nothing.
    pub fn apart(&self, accounts: &[f64]) -> Option<f64> {
        let known = || accounts.iter().copied().filter(|value| value.is_finite());
        let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
        (known().count() > 1 && most - least > self.grain).then(|| (most - least) / most)
    }
}

/// A larger share is a disagreement.
pub const AGREED: f64 = 0.05;

/// Of all streams together.
pub static RATE: Quantity = Quantity {
    name: "rate on the wire",
    unit: "Mbit/s",
    grain: 0.5,
    differ: "weir's counter and the card's log hold all frames, iperf3 and ss TCP's payload as its receiver and its sender \
             have it, here times 1538/1448; ss is asked once a second",
};

/// Half of the frames.
pub static IN_CARD: Quantity = Quantity {
    name: "time in the card, median",
    unit: "ms",
    grain: 0.05,
    differ: "the card's log ends with the last bit on the wire, weir's with the completion: later by what the card takes to \
             tell",
};

/// Of packets that find no queue of their own flow.
pub static SPARSE: Quantity = Quantity {
    name: "what a sparse flow waits, median",
    unit: "ms",
    grain: 0.1,
    differ: "ping and irtt are round trips less the idle ones and hold the hosts' share, the card's log is the card alone",
};

/// Of packets of the bulk streams.
pub static BULK: Quantity = Quantity {
    name: "round trip of the bulk, median",
    unit: "ms",
    grain: 0.5,
    differ: "ss and iperf3 have TCP's smoothed round trip with the receiver's delay, weir the waits in its discipline and in \
             the card, here plus the idle ping",
};

/// While the load was measured.
pub static AGAIN: Quantity = Quantity {
    name: "segments sent again",
    unit: "a second",
    grain: 1.0,
    differ: "ss and iperf3 ask the sender, each at its own moments; weir counts what it dropped, which TCP may send again \
             more than once",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_apart_by_no_more_than_the_grain_agrees() {
        assert_eq!(RATE.apart(&[100.0, 90.0, f64::NAN]), Some(0.1));
        assert_eq!(RATE.apart(&[100.0, 99.6]), None);
        assert_eq!(RATE.apart(&[100.0]), None);
        assert_eq!(SPARSE.apart(&[0.0, 0.05]), None);
    }
}
