//! What may stand in front of a wire: any discipline of the shaper, shaped to a rate.
//!
//! cake shapes itself. fq_codel and the plain queue stand behind a [`Limiter`], as in the engine.

use super::packet::Packet;
use shaper::conformance::Conformance;
use shaper::packet::{Arrival, Delivery, DropReason, Piece};
use shaper::qdisc::cake::{self, Cake};
use shaper::qdisc::fifo::{self, Fifo};
use shaper::qdisc::fq_codel::{self, FqCodel};
use shaper::rate::{Limiter, Overhead};
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::fmt::{self, Debug};

/// Told of each lost packet.
pub type Doomed<'a> = &'a mut dyn FnMut(Packet, DropReason);

/// A shaped queue.
pub trait Discipline: Debug {
    /// A packet arrives.
    fn enqueue(&mut self, now: Instant, arrival: &Arrival<'_>, piece: Piece<Packet>, doomed: Doomed<'_>);
    /// The next packet, if one is due.
    fn dequeue(&mut self, now: Instant, doomed: Doomed<'_>) -> Option<Delivery<Packet>>;
    /// When to ask again although nothing arrives.
    fn next_wakeup(&self) -> Option<Instant>;
    /// Shapes to another rate from now on.
    fn set_rate(&mut self, now: Instant, rate: Rate);
    /// Packets that wait.
    fn packets(&self) -> usize;
}

/// cake with `params`.
pub fn cake<C: Conformance>(params: &cake::Params) -> Box<dyn Discipline> {
    Box::new(Caked::<C> { cake: Cake::new(params, SLOTS), dice: SplitMix::new(1, 2) })
}

/// fq_codel at `rate`, with tc's defaults but for `params`.
///
/// # Errors
/// Parameters out of range.
pub fn fq_codel<C: Conformance>(
    rate: Rate,
    params: &fq_codel::Params,
) -> Result<Box<dyn Discipline>, Refused> {
    Ok(Box::new(Limited {
        queue: FqCodel::<Packet, C>::new(params, SLOTS).map_err(|error| Refused(error.to_string()))?,
        limiter: limiter(rate)?,
        overhead: Overhead::default(),
    }))
}

/// One queue of `packets` at `rate`.
///
/// # Errors
/// The rate is out of range.
pub fn fifo(rate: Rate, packets: u32) -> Result<Box<dyn Discipline>, Refused> {
    let params = fifo::Params { limit: packets, limit_bytes: u64::MAX };
    let queue = Fifo::new(&params, packets as usize);
    Ok(Box::new(Limited { queue, limiter: limiter(rate)?, overhead: Overhead::default() }))
}

/// A way on which nothing waits.
pub fn unshaped() -> Box<dyn Discipline> {
    Box::new(Unshaped::default())
}

/// Parameters that the shaper refuses, in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

#[derive(Debug)]
struct Caked<C: Conformance> {
    cake: Cake<Packet, C>,
    dice: SplitMix,
}

impl<C: Conformance> Discipline for Caked<C> {
    fn enqueue(&mut self, now: Instant, arrival: &Arrival<'_>, piece: Piece<Packet>, doomed: Doomed<'_>) {
        let pieces = std::iter::once(piece);
        self.cake.enqueue(now, &mut self.dice, arrival, pieces, &mut |packet, why| doomed(packet, why));
    }

    fn dequeue(&mut self, now: Instant, doomed: Doomed<'_>) -> Option<Delivery<Packet>> {
        self.cake.dequeue(now, &mut self.dice, &mut |packet, why| doomed(packet, why))
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.cake.next_wakeup()
    }

    fn set_rate(&mut self, now: Instant, rate: Rate) {
        let params = cake::Params { bandwidth: Some(rate), ..*self.cake.params() };
        // Another rate alone costs no packet; the world's accounts would show it.
        self.cake.change(now, &params, &mut |_, _| ());
    }

    fn packets(&self) -> usize {
        self.cake.len()
    }
}

/// What can stand behind a limiter.
trait Queue: Debug {
    fn enqueue(&mut self, now: Instant, arrival: &Arrival<'_>, piece: Piece<Packet>, doomed: Doomed<'_>);
    fn dequeue(&mut self, now: Instant, doomed: Doomed<'_>) -> Option<Delivery<Packet>>;
    fn packets(&self) -> usize;
}

impl<C: Conformance> Queue for FqCodel<Packet, C> {
    fn enqueue(&mut self, now: Instant, arrival: &Arrival<'_>, piece: Piece<Packet>, doomed: Doomed<'_>) {
        self.enqueue(now, arrival, std::iter::once(piece), &mut |packet, why| doomed(packet, why));
    }

    fn dequeue(&mut self, now: Instant, doomed: Doomed<'_>) -> Option<Delivery<Packet>> {
        self.dequeue(now, &mut |packet, why| doomed(packet, why))
    }

    fn packets(&self) -> usize {
        self.len()
    }
}

impl Queue for Fifo<Packet> {
    fn enqueue(&mut self, now: Instant, arrival: &Arrival<'_>, piece: Piece<Packet>, doomed: Doomed<'_>) {
        self.enqueue(now, arrival, std::iter::once(piece), &mut |packet, why| doomed(packet, why));
    }

    fn dequeue(&mut self, now: Instant, doomed: Doomed<'_>) -> Option<Delivery<Packet>> {
        self.dequeue(now, &mut |packet, why| doomed(packet, why))
    }

    fn packets(&self) -> usize {
        self.len()
    }
}

#[derive(Debug)]
struct Limited<Q> {
    queue: Q,
    limiter: Limiter,
    overhead: Overhead,
}

impl<Q: Queue> Discipline for Limited<Q> {
    fn enqueue(&mut self, now: Instant, arrival: &Arrival<'_>, mut piece: Piece<Packet>, doomed: Doomed<'_>) {
        if self.queue.packets() == 0 {
            self.limiter.idle_until(now);
        }
        self.overhead.fill(&mut piece, arrival.network_offset);
        self.queue.enqueue(now, arrival, piece, doomed);
    }

    fn dequeue(&mut self, now: Instant, doomed: Doomed<'_>) -> Option<Delivery<Packet>> {
        if !self.limiter.ready(now) {
            return None;
        }
        let delivery = self.queue.dequeue(now, doomed)?;
        self.limiter.charge(now, delivery.adjusted);
        Some(delivery)
    }

    fn next_wakeup(&self) -> Option<Instant> {
        (self.queue.packets() != 0).then(|| self.limiter.next())
    }

    fn set_rate(&mut self, now: Instant, rate: Rate) {
        // A rate out of range leaves the old one, as at a reload.
        let _ = self.limiter.set_rate(now, rate);
    }

    fn packets(&self) -> usize {
        self.queue.packets()
    }
}

/// Packets go in and come out.
#[derive(Debug, Default)]
struct Unshaped {
    queue: std::collections::VecDeque<Delivery<Packet>>,
}

impl Discipline for Unshaped {
    fn enqueue(&mut self, now: Instant, arrival: &Arrival<'_>, piece: Piece<Packet>, _doomed: Doomed<'_>) {
        self.queue.push_back(Delivery {
            len: piece.len(),
            adjusted: piece.adjusted,
            segs: piece.segs,
            packet: piece.packet,
            ds: arrival.ds,
            rewrite: false,
            enqueued: now,
            tin: 0,
        });
    }

    fn dequeue(&mut self, _now: Instant, _doomed: Doomed<'_>) -> Option<Delivery<Packet>> {
        self.queue.pop_front()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn set_rate(&mut self, _now: Instant, _rate: Rate) {}

    fn packets(&self) -> usize {
        self.queue.len()
    }
}

fn limiter(rate: Rate) -> Result<Limiter, Refused> {
    Limiter::new(rate, Duration::ZERO).map_err(|error| Refused(error.to_string()))
}

/// More than any discipline here holds by its own limits: 10240 packets, and one on its way in.
const SLOTS: usize = 12_000;
