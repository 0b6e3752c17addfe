//! The options of tc-fq_codel(8), their ranges and defaults.

use crate::codel::codel;
use crate::qdisc::ParamError;

/// Every option of tc-fq_codel(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Packets that may wait in all; beyond, packets of the longest queue are dropped.
    pub limit: u32,
    /// Flow queues that packets are hashed into, 1..=65536. Fixed at creation.
    pub flows: u32,
    /// Bytes a flow may send per round. Below 256 counts as 256; at most 1048576.
    pub quantum: u32,
    /// Packets dropped at once when a limit is exceeded, or half of the bytes of the victim,
    /// whichever is less. 0 counts as 1.
    pub drop_batch: u32,
    /// Memory in bytes ([`crate::packet::Piece::truesize`]) that may be queued. Above 2^31
    /// counts as 2^31.
    pub memory_limit: u32,
    /// Upper half of an [`Arrival::priority`](crate::packet::Arrival::priority) whose lower half
    /// chooses the queue, counted from 1, in place of the hash. `None`: always the hash. Fixed at
    /// creation.
    pub handle: Option<u16>,
    /// `target`, `interval`, `ce_threshold` with its selector, `ecn`; and the MTU, which is fixed
    /// at creation.
    pub codel: codel::Params,
}

impl Params {
    /// The defaults of tc-fq_codel(8) on a link whose largest frame has `mtu` bytes, Ethernet
    /// header included.
    pub fn for_mtu(mtu: u32) -> Self {
        Self {
            limit: 10_240,
            flows: 1_024,
            quantum: mtu.clamp(QUANTUM_MIN, QUANTUM_MAX),
            drop_batch: 64,
            memory_limit: 32 << 20,
            handle: None,
            codel: codel::Params::for_mtu(mtu),
        }
    }

    /// The parameters as they take effect.
    ///
    /// # Errors
    /// `flows` or `quantum` out of range.
    pub fn checked(self) -> Result<Self, ParamError> {
        if !(1..=FLOWS_MAX).contains(&self.flows) {
            return Err(ParamError::Flows(self.flows));
        }
        if self.quantum > QUANTUM_MAX {
            return Err(ParamError::Quantum(self.quantum));
        }
        Ok(Self {
            quantum: self.quantum.max(QUANTUM_MIN),
            drop_batch: self.drop_batch.max(1),
            memory_limit: self.memory_limit.min(MEMORY_LIMIT_MAX),
            ..self
        })
    }

    /// Whether a discipline that runs with the parameters `old` can take these.
    ///
    /// # Errors
    /// A parameter out of range, or another number of flows.
    pub fn replaces(&self, old: &Self) -> Result<(), ParamError> {
        let new = self.checked()?;
        if new.flows == old.flows {
            Ok(())
        } else {
            Err(ParamError::FlowsFixed { now: old.flows, asked: new.flows })
        }
    }
}

impl Default for Params {
    /// For an Ethernet link: 1500 bytes and the header.
    fn default() -> Self {
        Self::for_mtu(1_514)
    }
}

/// The queue index comes from sixteen bits of a class.
const FLOWS_MAX: u32 = 65_536;

/// A smaller quantum would turn the list many times per packet for nothing.
const QUANTUM_MIN: u32 = 256;

/// Above, a deficit of 32 bits could wrap.
const QUANTUM_MAX: u32 = 1 << 20;

const MEMORY_LIMIT_MAX: u32 = 1 << 31;
