//! Queueing disciplines.
//!
//! All have the same face: `new`, [`Qdisc::enqueue`], [`Qdisc::dequeue`], [`Qdisc::change`],
//! [`Qdisc::flush`], and the same duties:
//! * what goes in comes out, is doomed with its reason, or waits: nothing is lost in silence;
//! * memory is allocated by `new` alone; a pool without a free slot is a limit exceeded;
//! * `now` never runs backward.
//!
//! [`Qdisc`] chooses between them by a branch. Another discipline is another module, another
//! variant here, and one more arm in each method.

pub mod cake;
pub mod fifo;
pub mod fq_codel;

use crate::flow::slots::Waiting;
use crate::packet::{Arrival, Delivery, DropReason, Enqueued, Piece};
use crate::rng::Rng;
use crate::time::Instant;
use core::fmt;

/// One of the disciplines.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one per port: a box would cost an indirection per packet")]
pub enum Qdisc<P> {
    /// Tail drop, for comparison.
    Fifo(fifo::Fifo<P>),
    /// RFC 8290.
    FqCodel(fq_codel::FqCodel<P>),
    /// tc-cake(8).
    Cake(cake::Cake<P>),
}

/// Parameters of one of the disciplines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Params {
    /// Tail drop, for comparison.
    Fifo(fifo::Params),
    /// RFC 8290.
    FqCodel(fq_codel::Params),
    /// tc-cake(8).
    Cake(cake::Params),
}

/// Counters of one of the disciplines.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "copied into a page when asked for: a box would be an allocation"
)]
pub enum Stats {
    /// Tail drop, for comparison.
    Fifo(fifo::Stats),
    /// RFC 8290.
    FqCodel(fq_codel::Stats),
    /// tc-cake(8).
    Cake(cake::Stats),
}

/// Why parameters were refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// `flows` outside 1..=65536.
    Flows(u32),
    /// `quantum` above 1048576 bytes.
    Quantum(u32),
    /// `flows` cannot be changed while the discipline runs.
    FlowsFixed {
        /// Flow queues there are.
        now: u32,
        /// Flow queues asked for.
        asked: u32,
    },
    /// A running discipline cannot become one of another kind.
    OtherDiscipline,
}

impl Params {
    /// Whether a discipline that runs with the parameters `old` can take these.
    ///
    /// # Errors
    /// A parameter out of range or not changeable.
    pub fn replaces(&self, old: &Self) -> Result<(), ParamError> {
        match (old, self) {
            (Self::Fifo(_), Self::Fifo(_)) | (Self::Cake(_), Self::Cake(_)) => Ok(()),
            (Self::FqCodel(old), Self::FqCodel(new)) => new.replaces(old),
            _ => Err(ParamError::OtherDiscipline),
        }
    }
}

impl<P> Qdisc<P> {
    /// A discipline with room for `slots` packets; the only allocation.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn new(params: &Params, slots: usize) -> Result<Self, ParamError> {
        match params {
            Params::Fifo(params) => Ok(Self::Fifo(fifo::Fifo::new(params, slots))),
            Params::FqCodel(params) => fq_codel::FqCodel::new(params, slots).map(Self::FqCodel),
            Params::Cake(params) => Ok(Self::Cake(cake::Cake::new(params, slots))),
        }
    }

    /// Queues all `pieces` of one arrival in the same flow.
    #[inline]
    pub fn enqueue(
        &mut self,
        now: Instant,
        rng: &mut impl Rng,
        arrival: &Arrival<'_>,
        pieces: impl Iterator<Item = Piece<P>>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Enqueued {
        match self {
            Self::Fifo(fifo) => fifo.enqueue(now, arrival, pieces, doomed),
            Self::FqCodel(fq_codel) => fq_codel.enqueue(now, arrival, pieces, doomed),
            Self::Cake(cake) => cake.enqueue(now, rng, arrival, pieces, doomed),
        }
    }

    /// The next packet to send, `None` when there is none or (cake) none is due.
    #[inline]
    pub fn dequeue(
        &mut self,
        now: Instant,
        rng: &mut impl Rng,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Option<Delivery<P>> {
        match self {
            Self::Fifo(fifo) => fifo.dequeue(now, doomed),
            Self::FqCodel(fq_codel) => fq_codel.dequeue(now, doomed),
            Self::Cake(cake) => cake.dequeue(now, rng, doomed),
        }
    }

    /// When to call [`Qdisc::dequeue`] again although nothing has arrived; `None` for never.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self {
            Self::Fifo(_) | Self::FqCodel(_) => None,
            Self::Cake(cake) => cake.next_wakeup(),
        }
    }

    /// Whether it keeps to a rate by itself and counts link-layer overhead by itself.
    #[inline]
    pub fn shapes(&self) -> bool {
        matches!(self, Self::Cake(_))
    }

    /// When its own shaper, if it has one, lets the next packet go; not after `now`: at once.
    #[inline]
    pub fn due(&self) -> Instant {
        match self {
            Self::Fifo(_) | Self::FqCodel(_) => Instant::ZERO,
            Self::Cake(cake) => cake.due(),
        }
    }

    /// Tells its own shaper, if it has one, of a frame that leaves `now` past its queues. `adjusted`
    /// is its length in bytes with link-layer overhead.
    #[inline]
    pub fn charge(&mut self, now: Instant, adjusted: u32) {
        match self {
            Self::Fifo(_) | Self::FqCodel(_) => {}
            Self::Cake(cake) => cake.charge(now, adjusted),
        }
    }

    /// Sets new parameters while packets wait.
    ///
    /// # Errors
    /// A parameter out of range or not changeable; then nothing was changed.
    pub fn change(
        &mut self,
        now: Instant,
        params: &Params,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> Result<(), ParamError> {
        match (self, params) {
            (Self::Fifo(fifo), Params::Fifo(params)) => fifo.change(now, params, doomed),
            (Self::FqCodel(fq_codel), Params::FqCodel(params)) => fq_codel.change(now, params, doomed),
            (Self::Cake(cake), Params::Cake(params)) => {
                cake.change(now, params, doomed);
                Ok(())
            }
            _ => Err(ParamError::OtherDiscipline),
        }
    }

    /// Whether [`Qdisc::change`] or [`Qdisc::begin`] would take these parameters.
    ///
    /// # Errors
    /// A parameter out of range or not changeable.
    pub fn accepts(&self, params: &Params) -> Result<(), ParamError> {
        match (self, params) {
            (Self::Fifo(_), Params::Fifo(_)) | (Self::Cake(_), Params::Cake(_)) => Ok(()),
            (Self::FqCodel(own), Params::FqCodel(params)) => params.replaces(own.params()),
            _ => Err(ParamError::OtherDiscipline),
        }
    }

    /// Sets new parameters while packets wait, without allocating or freeing: see [`cake::Cake::begin`].
    /// What waits where it does not belong any more, or exceeds a limit that is lower now, is left to
    /// [`Qdisc::proceed`].
    ///
    /// # Errors
    /// A parameter out of range or not changeable; then nothing was changed.
    pub fn begin(
        &mut self,
        now: Instant,
        params: &Params,
        tables: &mut cake::Tables,
    ) -> Result<(), ParamError> {
        match (self, params) {
            (Self::Cake(cake), Params::Cake(params)) => cake.begin(now, params, tables),
            (Self::FqCodel(fq_codel), Params::FqCodel(params)) => return fq_codel.begin(params),
            (Self::Fifo(fifo), Params::Fifo(params)) => fifo.begin(params),
            _ => return Err(ParamError::OtherDiscipline),
        }
        Ok(())
    }

    /// Goes on with a change: moves and drops some `most` packets, and says how many. `read` reads a
    /// packet again as if it arrived now; those that exceed a limit are doomed as
    /// [`DropReason::Change`]. See [`cake::Cake::proceed`].
    pub fn proceed<'a>(
        &mut self,
        now: Instant,
        most: usize,
        read: &mut impl FnMut(&P) -> Arrival<'a>,
        doomed: &mut impl FnMut(P, DropReason),
    ) -> usize {
        match self {
            Self::Fifo(fifo) => fifo.proceed(most, doomed),
            Self::FqCodel(fq_codel) => fq_codel.proceed(most, doomed),
            Self::Cake(cake) => cake.proceed(now, most, read, doomed),
        }
    }

    /// Whether a change has left packets where they do not belong, or more than may wait.
    #[inline]
    pub fn is_changing(&self) -> bool {
        match self {
            Self::Fifo(fifo) => fifo.is_trimming(),
            Self::FqCodel(fq_codel) => fq_codel.is_trimming(),
            Self::Cake(cake) => cake.is_changing(),
        }
    }

    /// Hands what a change has replaced to `tables`, once it is done; `false` before.
    pub fn finish(&mut self, tables: &mut cake::Tables) -> bool {
        match self {
            Self::Fifo(_) | Self::FqCodel(_) => !self.is_changing(),
            Self::Cake(cake) => cake.finish(tables),
        }
    }

    /// Empties the discipline; every packet is doomed as [`DropReason::Flush`].
    pub fn flush(&mut self, doomed: &mut impl FnMut(P, DropReason)) {
        match self {
            Self::Fifo(fifo) => fifo.flush(doomed),
            Self::FqCodel(fq_codel) => fq_codel.flush(doomed),
            Self::Cake(cake) => cake.flush(doomed),
        }
    }

    /// Packets that wait.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Fifo(fifo) => fifo.len(),
            Self::FqCodel(fq_codel) => fq_codel.len(),
            Self::Cake(cake) => cake.len(),
        }
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that wait.
    #[inline]
    pub fn backlog(&self) -> u64 {
        match self {
            Self::Fifo(fifo) => fifo.backlog(),
            Self::FqCodel(fq_codel) => fq_codel.backlog(),
            Self::Cake(cake) => cake.backlog(),
        }
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        match self {
            Self::Fifo(fifo) => Stats::Fifo(*fifo.stats()),
            Self::FqCodel(fq_codel) => Stats::FqCodel(fq_codel.stats()),
            Self::Cake(cake) => Stats::Cake(cake.stats()),
        }
    }
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flows(given) => write!(f, "flows = {given} is out of range: give 1 to 65536"),
            Self::Quantum(given) => write!(f, "quantum = {given} bytes is too large: give at most 1048576"),
            Self::FlowsFixed { now, asked } => write!(
                f,
                "flows = {asked} cannot be set while the queue runs with {now}: restart to change it"
            ),
            Self::OtherDiscipline => {
                write!(f, "the kind of queue cannot be changed while it runs: restart to change it")
            }
        }
    }
}

impl core::error::Error for ParamError {}

/// What leaves, from what waited.
#[inline]
fn delivery<P>(packet: P, waiting: &Waiting) -> Delivery<P> {
    Delivery {
        packet,
        len: waiting.len,
        adjusted: waiting.adjusted,
        segs: waiting.segs,
        ds: waiting.ds,
        rewrite: waiting.rewrite,
        enqueued: waiting.enqueued,
        tin: 0,
    }
}

/// How many times as long the random tests of the disciplines shall be: `make soak` sets it.
#[cfg(test)]
fn soak() -> u64 {
    std::env::var("WEIR_SOAK").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}
