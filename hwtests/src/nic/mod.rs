//! The modelled card: what weir sees as an ordinary port, and what really happened on its wire.
//!
//! [`sim::nic::Nic`] is the card in virtual time: its wire, its ring, its completions. A [`Card`] puts real packets
//! into it: weir sends into a port, [`Card::step`] takes the frames up, lets them leave in the wire's time, and gives
//! each buffer back when the card reports it complete. So every way of seeing a completion that the port's driver
//! offers shows the card's, and [`Truth`] is what a driver cannot see.
//!
//! A card is run in *lockstep* (one thread alternates `worker.turn(now)` and `card.step(now)`, in virtual time) or
//! *live* ([`live`]: a thread of its own, under the real clock). The pure model, without packets, is in `sim`.
//!
//! # Behind net_ring
//! A frame stands in the port's own ring, the doorway, until the card has a descriptor free, is then held by the card,
//! and its buffer is freed, or the card's reference dropped, when its completion is told. Both together are
//! [`Config::ring`]: the port refuses frames when all of it is taken, and also those beyond the [`DOORWAY`] that it is
//! offered between two steps. A frame of several buffers takes a descriptor for each in the card, one in the doorway.
//! What stands in the doorway cannot leave, so a full ring sends like one of [`DOORWAY`] descriptors less.
//!
//! A frame counts as submitted when a step first finds it in the doorway. In lockstep, where a step follows each turn
//! at the same time, that is when weir sent it; live it is later by up to the time between two steps.

mod doorway;
mod far;
mod frame;
pub mod live;
mod truth;

use std::collections::VecDeque;

use anyhow::{Result, ensure};
use doorway::Doorway;
use dpdk::{Eal, Mbuf, Port, Ring};
pub use far::{Arrivals, Far};
use frame::Segmenter;
use shaper::time::Instant;
use sim::nic::{Config, Nic};
pub use truth::{Span, Truth};

/// A card with packets in it.
#[derive(Debug)]
pub struct Card {
    nic: Nic,
    doorway: Doorway,
    /// In the card, oldest first, with the time of submission; the first `left` are off the wire.
    held: VecDeque<(Instant, Mbuf)>,
    left: usize,
    /// On the wire, of those held.
    bytes: u64,
    segmenter: Segmenter,
    far: Far,
    arrivals: Arrivals,
    truth: Truth,
}

impl Card {
    /// Makes port `net_ring_NAME` and the card behind it, with its wire's far end. The caller configures and starts the
    /// port.
    ///
    /// # Errors
    /// A ring of less than [`SMALLEST_RING`] descriptors; what DPDK refuses.
    pub fn behind_ring(eal: &Eal, name: &str, config: Config, far: Far) -> Result<(Self, Port)> {
        ensure!(
            config.ring >= SMALLEST_RING,
            "card {name}: ring = {}, at least {SMALLEST_RING}",
            config.ring
        );
        let ring = Ring::create(eal, &format!("{name}-tx"), DOORWAY + 1)?;
        let arrivals = Arrivals::new(eal, name, &config, &far)?;
        let port = Ring::port(eal, name, arrivals.ring(), &ring)?;
        let card = Self {
            nic: Nic::new(Config { ring: config.ring - DOORWAY, ..config }),
            doorway: Doorway::new(ring),
            held: VecDeque::with_capacity(config.ring as usize),
            left: 0,
            bytes: 0,
            segmenter: Segmenter::default(),
            far,
            arrivals,
            truth: Truth::new(Instant::ZERO),
        };
        Ok((card, port))
    }

    /// Does what is due by `now`: frees what is complete, takes up what was sent, brings in what has arrived. Returns
    /// the number of frames taken up and brought in.
    ///
    /// # Errors
    /// What the far end cannot do.
    pub fn step(&mut self, now: Instant) -> Result<usize> {
        self.reap(now)?;
        let taken = self.take(now);
        Ok(taken + self.arrivals.bring(now, &mut self.far)?)
    }

    /// The card becomes another: its wire, its completions. The ring keeps its size.
    ///
    /// # Errors
    /// As [`Card::step`].
    pub fn become_like(&mut self, now: Instant, config: Config) -> Result<()> {
        self.reap(now)?;
        self.nic.become_like(now, config);
        self.arrivals.become_like(now, &config);
        Ok(())
    }

    /// The card itself, for pauses, stalls, link flaps and descriptor status.
    pub fn nic(&mut self) -> &mut Nic {
        &mut self.nic
    }

    /// Frames that were sent and are not complete: in the doorway, in the ring, on the wire, reported to nobody.
    pub fn in_flight(&self) -> usize {
        self.doorway.len() + self.held.len()
    }

    /// Bytes on the wire of frames in the card that it has not told complete.
    pub const fn bytes_in_card(&self) -> u64 {
        self.bytes
    }

    /// What happened on the wire since [`Card::measure`].
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// Forgets what happened before `now`.
    pub fn measure(&mut self, now: Instant) {
        self.truth = Truth::new(now);
    }

    /// What has come in from the far end.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Frees what is told complete, after what has left the wire was handed to the far end.
    fn reap(&mut self, now: Instant) -> Result<()> {
        let reaped = self.nic.reap(now);
        let rate = self.nic.config().rate;
        for left in self.nic.left() {
            let Some((submitted, mbuf)) = self.held.get(self.left) else { break };
            self.truth.record(*submitted, &left, rate);
            let ends = left.frame.descriptors > 0;
            if left.sent && !matches!(self.far, Far::Sink) {
                self.arrivals.deliver(self.segmenter.next(mbuf, ends), &mut self.far)?;
            }
            self.left += usize::from(ends);
        }
        self.held.drain(..reaped.frames as usize);
        self.left -= reaped.frames as usize;
        self.bytes -= u64::from(reaped.bytes);
        Ok(())
    }

    /// Moves frames from the doorway into the card while there are descriptors.
    fn take(&mut self, now: Instant) -> usize {
        self.doorway.look(now);
        let before = self.held.len();
        while let room @ 1.. = self.nic.room()
            && let Some(first) = self.doorway.first(room)
        {
            let shape = frame::shape(first, self.nic.config().ring);
            if self.nic.submit_tso(now, shape.frame, shape.segment).is_err() {
                break;
            }
            self.bytes += u64::from(shape.frame.bytes);
            self.held.extend(self.doorway.take());
        }
        self.held.len() - before
    }
}

/// Frames that the port's ring holds: one short of two bursts, which is what weir sends in a turn at most.
pub const DOORWAY: u32 = 127;

/// Descriptors that a ring has at least: the doorway's, and a burst's or two.
pub const SMALLEST_RING: u32 = 256;
