//! What a driver's calls about its transmit ring answer.

use dpdk::{DescriptorStatus, Errno, TxQueue};
use std::fmt;

/// What all the calls answered at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `rte_eth_tx_descriptor_status` of the next descriptor to be filled: 0 if the device waits for
    /// it, 1 if it is done with it.
    pub first: Answer,
    /// The same of the farthest one: by the documentation, the one filled last.
    pub last: Answer,
    /// `rte_eth_tx_queue_count`.
    pub in_use: Answer,
    /// `rte_eth_tx_done_cleanup`, once all frames had completed.
    pub freed: Answer,
    /// Frames that were in flight when it was asked, as held references saw it.
    pub in_flight: u32,
    /// Frames that had been freed when it was asked to free.
    pub was_freed: u32,
}

/// What a call answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// It was not asked.
    #[default]
    None,
    /// The driver lacks it, or says no.
    Refused(Errno),
    /// A number.
    Said(u32),
}

/// Asks everything that changes nothing.
pub(super) fn ask(tx: &TxQueue) -> Calls {
    Calls {
        first: status(tx, 0),
        last: status(tx, tx.ring().saturating_sub(1)),
        in_use: tx.queue_count().into(),
        ..Calls::default()
    }
}

fn status(tx: &TxQueue, offset: u16) -> Answer {
    match tx.descriptor_status(offset) {
        Ok(DescriptorStatus::Full) => Answer::Said(0),
        Ok(DescriptorStatus::Done) => Answer::Said(1),
        Ok(DescriptorStatus::Unavailable) => Answer::Said(2),
        Err(errno) => Answer::Refused(errno),
    }
}

impl std::convert::From<Result<u32, Errno>> for Answer {
    fn from(answer: Result<u32, Errno>) -> Self {
        match answer {
            Ok(number) => Self::Said(number),
            Err(errno) => Self::Refused(errno),
        }
    }
}

impl Answer {
    /// The number, if it said one.
    pub const fn number(self) -> Option<u32> {
        if let Self::Said(number) = self { Some(number) } else { None }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("not asked"),
            Self::Refused(errno) if errno.is_unsupported() => f.write_str("not offered"),
            Self::Refused(errno) => write!(f, "{errno}"),
            Self::Said(number) => write!(f, "{number}"),
        }
    }
}
