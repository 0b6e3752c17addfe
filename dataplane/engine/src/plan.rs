//! What a dataplane shall be, and why it could not be made.

use crate::pool::{self, PieceSum, PoolSum};
use crate::worker::Poll;
use dpdk::{EalError, LcoreError, MbufError, MempoolError, PortError};
use shaper::conformance::Weir;
use shaper::dql::Dql;
use shaper::flow::rules::Rule;
use shaper::gso::Split;
use shaper::qdisc;
use shaper::rate::{Overhead, RateError};
use shaper::time::Duration;
use shaper::units::Rate;
use std::fmt;
use std::ops::RangeInclusive;
use thiserror::Error;

/// What to build.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The links.
    pub links: Vec<LinkPlan>,
    /// What workers do while there is nothing to do.
    pub poll: Poll,
    /// Secret of the flow hash: random bytes, so that nobody can choose collisions.
    pub secret: [u8; 16],
}

/// Two ports and what happens between them.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// Its name.
    pub name: String,
    /// The port on one side.
    pub a: PortPlan,
    /// The port on the other side.
    pub b: PortPlan,
    /// From `a` to `b`; nothing is forwarded that way if `None`.
    pub up: Option<DirectionPlan>,
    /// From `b` to `a`.
    pub down: Option<DirectionPlan>,
    /// How long packets are kept for a port whose link is down.
    pub link_down_hold: Duration,
    /// Take the other port's link down while one port's link is down.
    pub propagate_link: bool,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// What DPDK attaches: a PCI address, or a vdev with its arguments.
    pub devargs: String,
    /// MTU in bytes.
    pub mtu: u16,
    /// Receive descriptors.
    pub rx_ring: u16,
    /// Transmit descriptors.
    pub tx_ring: u16,
    /// Whether pieces of several segments leave whole, for the port to cut (`TCP_TSO`).
    pub tso: Toggle,
    /// Whether super-packets are asked for on receive (`TCP_LRO`).
    pub lro: Toggle,
    /// How its transmit ring is kept as short as its wire allows. Without, the ring takes what fits
    /// into it, and nothing is observed of it.
    pub governor: Option<GovernorPlan>,
}

/// What the governor of a transmit ring may do. The default suits any device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernorPlan {
    /// When bytes count as gone from the ring.
    pub complete_on: CompleteOn,
    /// Fewest bytes that may be in flight, 0..=[`GovernorPlan::MAX_LIMIT`]. Default 0: one frame.
    pub limit_min: u32,
    /// Most bytes that may be in flight, `limit_min`..=[`GovernorPlan::MAX_LIMIT`], the default.
    pub limit_max: u32,
    /// How long a smaller need must last before the limit follows, 10 ms..=60 s. Default 1 s.
    pub hold_time: Duration,
}

/// When bytes count as gone from a transmit ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompleteOn {
    /// When the device has reported them complete.
    #[default]
    Completion,
    /// As soon as the driver has taken them: the limit never binds, and what is below the scheduler
    /// is only watched.
    Submit,
}

impl GovernorPlan {
    /// Largest limit in bytes.
    pub const MAX_LIMIT: u32 = Dql::<Weir>::MAX_LIMIT;

    /// Shortest and longest hold time.
    pub const HOLD_TIME: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(60_000);
}

impl Default for GovernorPlan {
    fn default() -> Self {
        Self {
            complete_on: CompleteOn::Completion,
            limit_min: 0,
            limit_max: Self::MAX_LIMIT,
            hold_time: Duration::from_millis(1_000),
        }
    }
}

/// Whether to use something that the driver may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Toggle {
    /// Where it is known to work. Segmentation by the port: where the driver offers it, no fault of
    /// it is known and the check at start passes. Super-packets on receive: from virtio_user and
    /// vhost, whose peer says itself how they are to be cut.
    #[default]
    Auto,
    /// Where the driver offers it, whatever is known of it.
    On,
    /// Never.
    Off,
}

/// One direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectionPlan {
    /// The discipline.
    pub qdisc: qdisc::Params,
    /// The rate; as fast as the wire takes it if `None`, or as the discipline (cake) lets it.
    pub bandwidth: Option<Rate>,
    /// What a packet is charged.
    pub overhead: Overhead,
    /// Lateness that is made up at most.
    pub catch_up: Duration,
    /// What is said of packets by what they are, at most [`shaper::flow::rules::MAX_RULES`].
    pub rules: Vec<Rule>,
    /// What becomes of super-packets; [`Split::AUTO`] unless told otherwise.
    pub split: Split,
    /// Merge the TCP segments of a receive burst into super-packets. Off unless asked for.
    pub gro: bool,
}

/// Which direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From `a` to `b`.
    Up,
    /// From `b` to `a`.
    Down,
}

impl Way {
    /// Its name in configuration and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// What is done next on the way to a running dataplane. Each may take long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Attaching a device, by its device string. Some drivers wait for a peer meanwhile.
    Attach(String),
    /// Making the buffers that a port receives into.
    Memory {
        /// The port.
        port: String,
        /// Their size in bytes.
        bytes: u64,
    },
    /// Setting up and starting the port of a device.
    Start(String),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attach(devargs) => write!(f, "attaching {devargs}"),
            Self::Memory { port, bytes } => {
                write!(f, "allocating {} MiB of packet memory for {port}", bytes.div_ceil(1 << 20))
            }
            Self::Start(devargs) => write!(f, "starting {devargs}"),
        }
    }
}

/// Why a plan could not be carried out.
#[derive(Debug, Error)]
pub enum StartError {
    /// A link could not be built.
    #[error("link {link:?}: {fault}")]
    Link {
        /// Its name.
        link: String,
        /// What stood in the way.
        fault: Box<LinkFault>,
    },
    /// Nothing to run the loop on.
    #[error("no worker lcore: give EAL one more CPU (eal.lcores)")]
    NoWorker,
    /// A worker could not be launched.
    #[error(transparent)]
    Launch(#[from] LcoreError),
}

/// What stands in the way of a link.
#[derive(Debug, Error)]
pub enum LinkFault {
    /// A device could not be attached.
    #[error(transparent)]
    Attach(#[from] EalError),
    /// A port could not be set up.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A driver carries another MTU than the plan asks for.
    #[error(
        "port {port} carries an MTU of {min} to {max} bytes, not {asked}: set its mtu to what it carries"
    )]
    Mtu {
        /// The port.
        port: String,
        /// MTU asked for.
        asked: u16,
        /// Smallest it carries.
        min: u16,
        /// Largest it carries.
        max: u32,
    },
    /// No memory for packets.
    #[error("{cause}\n  it needs {sum}")]
    Pool {
        /// What DPDK said.
        cause: MempoolError,
        /// What was asked for.
        sum: PoolSum,
    },
    /// No memory for the pieces of super-packets.
    #[error("{cause}\n  it needs {sum}")]
    Pieces {
        /// What DPDK said.
        cause: MempoolError,
        /// What was asked for.
        sum: PieceSum,
    },
    /// No buffer for a frame of a probe.
    #[error("the probe has no frame to send: {0}")]
    NoBuffer(#[from] MbufError),
    /// The discipline's parameters.
    #[error(transparent)]
    Qdisc(#[from] qdisc::ParamError),
    /// The rate.
    #[error(transparent)]
    Rate(#[from] RateError),
}

impl LinkPlan {
    /// How many mbufs each port needs, `a` first, when `lcores` cache them.
    pub fn pools(&self, lcores: u32) -> [PoolSum; 2] {
        let sum = |rx: &PortPlan, tx: &PortPlan, way: &Option<DirectionPlan>| {
            let slots = way.as_ref().map_or(0, |way| match way.gro || rx.lro != Toggle::Off {
                true => pool::payload_slots(&way.qdisc),
                false => pool::slots(&way.qdisc),
            });
            let rx_ring = rx.rx_ring.max(pool::kept_by_driver(&rx.devargs));
            PoolSum::new(rx_ring, tx.tx_ring, rx.mtu, slots, lcores)
        };
        [sum(&self.a, &self.b, &self.up), sum(&self.b, &self.a, &self.down)]
    }

    /// How many buffers the pieces of super-packets need in each direction, up first.
    pub fn piece_pools(&self, lcores: u32) -> [Option<PieceSum>; 2] {
        let [a, b] = self.pools(lcores);
        let sum = |received, tx: &PortPlan, way: &Option<DirectionPlan>| {
            let way = way.as_ref()?;
            Some(PieceSum::new(received, tx.tx_ring, pool::slots(&way.qdisc)))
        };
        [sum(&a, &self.b, &self.up), sum(&b, &self.a, &self.down)]
    }

    /// Packet memory in bytes, in hugepages or in ordinary pages, whatever the ports turn out to do.
    pub fn memory(&self, lcores: u32, hugepages: bool) -> u64 {
        let received: u64 = self.pools(lcores).iter().map(|sum| sum.bytes(hugepages)).sum();
        let most = |sum: &PieceSum| sum.bytes(true, hugepages).max(sum.bytes(false, hugepages));
        received + self.piece_pools(lcores).iter().flatten().map(most).sum::<u64>()
    }
}
