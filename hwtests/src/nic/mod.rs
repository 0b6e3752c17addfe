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
//! # Behind vhost-user
//! The guest's ring is the card's, whatever [`Config::ring`] says. Frames stay in it, and their descriptors in use, until
//! their completion is told; the card works on copies. Guest and card may be of one process or of two. In one, the card
//! is made first, and closed last; all pools are made before the guest's port starts, in memory that cannot grow: what
//! grows it later waits for an answer that the same process would have to give.
//!
//! # Time
//! A frame counts as submitted when a step first finds it. In lockstep, where a step follows each turn at the same time,
//! that is when weir sent it; live it is later by up to the time between two steps.

mod far;
mod flows;
mod frame;
mod guest;
pub mod live;
mod source;
mod truth;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, ensure};
use dpdk::{Eal, Mbuf, Mempool, MempoolConfig, Port, Ring};
use far::Inlet;
pub use far::{Arrivals, Far};
pub use flows::{Flows, SLICE};
use frame::Segmenter;
use guest::Guest;
use shaper::time::Instant;
use shaper::units::Rate;
use sim::net::rig::Limit;
use sim::net::rig::limiter::Limiter;
use sim::nic::{Config, Nic};
use source::{Doorway, Source};
pub use truth::{Span, Truth};

/// A card with packets in it.
#[derive(Debug)]
pub struct Card {
    nic: Nic,
    source: Source,
    /// In the card, oldest first, with the time of submission; the first `left` are off the wire.
    held: VecDeque<(Instant, Mbuf)>,
    left: usize,
    /// On the wire, of those held.
    bytes: u64,
    /// Frames that are held or at the door, for whoever asks from elsewhere.
    inside: Arc<AtomicU32>,
    segmenter: Segmenter,
    far: Far,
    arrivals: Arrivals,
    truth: Truth,
    flows: Flows,
    stock: Option<Limiter>,
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
        let sent = Ring::create(eal, &format!("{name}-tx"), DOORWAY + 1)?;
        let received = Ring::create(eal, &format!("{name}-rx"), RX_RING)?;
        let port = Ring::port(eal, name, &received, &sent)?;
        let pool = if matches!(far, Far::Sink) { None } else { Some(pool(eal, name)?) };
        let arrivals = Arrivals::new(Inlet::Ring(received), pool, &config);
        let inside = Config { ring: config.ring - DOORWAY, ..config };
        Ok((Self::new(Source::Doorway(Doorway::new(sent)), inside, far, arrivals), port))
    }

    /// Makes device `net_vhostNAME` and the card behind it, which listens at `socket` for a guest.
    ///
    /// # Errors
    /// What DPDK refuses.
    pub fn behind_vhost(eal: &Eal, name: &str, socket: &Path, config: Config, far: Far) -> Result<Self> {
        let pool = pool(eal, name)?;
        let (guest, tx) = Guest::listen(eal, name, socket, pool.clone())?;
        let arrivals = Arrivals::new(Inlet::Guest(tx), Some(pool), &config);
        let inside = Config { ring: UNBOUNDED, ..config };
        Ok(Self::new(Source::Guest(guest), inside, far, arrivals))
    }

    fn new(source: Source, config: Config, far: Far, arrivals: Arrivals) -> Self {
        Self {
            nic: Nic::new(config),
            source,
            held: VecDeque::new(),
            left: 0,
            bytes: 0,
            inside: Arc::default(),
            segmenter: Segmenter::default(),
            far,
            arrivals,
            truth: Truth::new(Instant::ZERO),
            flows: Flows::default(),
            stock: None,
        }
    }

    /// The same card with a driver that accounts for its bytes as Linux's do: [`Card::stock_limit`].
    #[must_use]
    pub fn with_stock_limit(self) -> Self {
        let stock = Limiter::new(Limit::Stock(0), self.nic.config().ring);
        Self { stock: Some(stock), ..self }
    }

    /// What stock dynamic queue limits allow in this card now, bytes on the wire; their owner has to obey them.
    pub fn stock_limit(&self) -> Option<u32> {
        self.stock.as_ref()?.limit()
    }

    /// Closes the vhost port, if there is one. Ports of rings are their makers' to close.
    ///
    /// # Errors
    /// What DPDK refuses.
    pub fn close(self, eal: &Eal) -> Result<()> {
        let Self { source, held, arrivals, .. } = self;
        drop((held, arrivals));
        if let Source::Guest(guest) = source {
            let mut port = guest.into_port();
            port.close()?;
            eal.detach(port.name())?;
        }
        Ok(())
    }

    /// Does what is due by `now`: frees what is complete, takes up what was sent, brings in what has arrived. Returns
    /// the number of frames taken up and brought in.
    ///
    /// # Errors
    /// What the far end cannot do.
    pub fn step(&mut self, now: Instant) -> Result<usize> {
        // What was sent before a completion was seen counts as sent before it.
        let early = if self.stock.is_some() { self.take(now)? } else { 0 };
        self.reap(now)?;
        let taken = early + self.take(now)?;
        self.inside.store((self.held.len() + self.source.at_door()) as u32, Ordering::Relaxed);
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

    /// Rate of its wire.
    pub fn rate(&self) -> Rate {
        self.nic.config().rate
    }

    /// What `rte_eth_tx_descriptor_status` of a card behind net_ring would answer if that driver had it: whether the
    /// descriptor `offset` places ahead of the next one to be filled is done, or free. For frames of one buffer. None
    /// behind vhost-user.
    pub fn descriptor_status(&self) -> Option<impl Fn(u16) -> bool + Send + use<>> {
        let Source::Doorway(doorway) = &self.source else { return None };
        let (ring, inside) = (doorway.ring(), Arc::clone(&self.inside));
        let size = self.nic.config().ring + DOORWAY;
        Some(move |offset: u16| u32::from(offset) + ring.len() + inside.load(Ordering::Relaxed) < size)
    }

    /// Frames that were sent and are not complete: in the doorway, in the ring, on the wire, reported to nobody.
    pub fn in_flight(&self) -> usize {
        self.source.len() + self.held.len()
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
        self.flows = Flows::new(now);
    }

    /// Who had the wire since then, where it leads somewhere.
    pub fn flows(&self) -> &Flows {
        &self.flows
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
                let frame = self.segmenter.next(mbuf, ends);
                self.flows.record(left.left, frame, left.frame.bytes);
                self.arrivals.deliver(frame, &mut self.far)?;
            }
            self.left += usize::from(ends);
        }
        if let Some(stock) = self.stock.as_mut().filter(|_| reaped.bytes > 0) {
            stock.completed(now, reaped);
        }
        self.source.complete(reaped.frames);
        self.held.drain(..reaped.frames as usize);
        self.left -= reaped.frames as usize;
        self.bytes -= u64::from(reaped.bytes);
        Ok(())
    }

    /// Takes frames up while there are descriptors.
    fn take(&mut self, now: Instant) -> Result<usize> {
        if !self.source.look(now)? {
            self.nic = Nic::new(*self.nic.config());
            self.held.clear();
            (self.left, self.bytes) = (0, 0);
        }
        let before = self.held.len();
        while let room @ 1.. = self.nic.room()
            && let Some(first) = self.source.first(room)
        {
            let shape = frame::shape(first, self.nic.config().ring);
            if self.nic.submit_tso(now, shape.frame, shape.segment).is_err() {
                break;
            }
            self.bytes += u64::from(shape.frame.bytes);
            if let Some(stock) = &mut self.stock {
                stock.queued(now, shape.frame.bytes);
            }
            self.held.extend(self.source.take());
        }
        Ok(self.held.len() - before)
    }
}

/// Buffers for what comes in and for copies of what a guest sends.
fn pool(eal: &Eal, name: &str) -> Result<Mempool> {
    let config = MempoolConfig { cache: 0, ..MempoolConfig::new(format!("{name}-nic"), BUFFERS) };
    Ok(Mempool::create(eal, &config)?)
}

/// Frames that the port's ring holds: one short of two bursts, which is what weir sends in a turn at most.
pub const DOORWAY: u32 = 127;

/// Slots of the receive ring of a port of rings.
pub const RX_RING: u32 = 1_024;

/// Descriptors that a ring has at least: the doorway's, and a burst's or two.
pub const SMALLEST_RING: u32 = 256;

/// A guest's ring of 64 KB frames, 512 of them, or full rings of ordinary ones.
const BUFFERS: u32 = 16_383;

/// More descriptors than any guest has.
const UNBOUNDED: u32 = 1 << 30;
