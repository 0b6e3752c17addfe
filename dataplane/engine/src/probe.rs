//! Finds out what a port's completions are worth, by sending frames and watching what becomes of them.
//!
//! The frames are of the ethertype for local experiments ([`ETHERTYPE`], IEEE 802) and go to a group
//! address that no bridge forwards, so they end at the other end of the cable. Still nobody asked for
//! them there: this runs when `weir probe` is called, never at start, where the driver's name decides
//! ([`crate::completion::drivers`]) and the traffic itself is watched.
//!
//! What it says of the software drivers (DPDK 22.11), as tests assert:
//!
//! | driver | a frame is complete | to be seen | the governor's source |
//! |---|---|---|---|
//! | net_ring | when its consumer frees it | by itself | held reference |
//! | net_virtio_user, net_virtio (split, packed, in order) | when the peer has used it | if a packet is offered that no ring has room for | held reference |
//! | net_af_xdp | when the kernel has sent it | by an empty burst | held reference |
//! | net_memif, zero copy | when the peer has read it | by an empty burst | held reference |
//! | net_memif, net_vhost, net_tap, net_af_packet, net_null | copied and freed within the burst: means nothing | | none (submit) |
//!
//! Every wait is bounded ([`WAIT`]), and so are the frames: [`FRAMES`], and once the ring's size where
//! a driver reports nothing otherwise.

mod ask;
mod verdict;

pub use ask::{Answer, Calls};
pub use verdict::{Evidence, Times, Verdict};

use crate::builder;
use crate::clock::Clock;
use crate::completion::drivers;
use crate::completion::source::{Device, Nudge};
use crate::plan::{LinkFault, PortPlan, Step};
use crate::pool::PoolSum;
use ask::ask;
use dpdk::{Burst, Eal, Held, Lcore, Mac, Mbuf, MbufError, Mempool, TxQueue};
use shaper::time::{Duration, Instant};
use std::collections::VecDeque;
use std::fmt;

/// One transmit queue under test.
pub struct Probe<'a> {
    /// The queue; nothing else sends on it meanwhile.
    pub tx: &'a mut TxQueue,
    /// Where the frames are taken from.
    pub pool: &'a Mempool,
    /// The port's address: the frames come from it.
    pub mac: Mac,
    /// The driver's name.
    pub driver: &'a str,
    /// Reads the time. It is called once a look, which lets a peer in the same process move on, too.
    pub now: &'a mut dyn FnMut() -> Instant,
}

/// Ethertype for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;

/// Longest wait for one thing to happen: longer than any interrupt moderation.
pub const WAIT: Duration = Duration::from_millis(50);

/// Longest wait for a link: negotiation takes some seconds.
pub const LINK: Duration = Duration::from_millis(5_000);

/// Frames that are sent in any case, at most.
pub const FRAMES: u32 = 2 + ASKED as u32 + TIMED;

/// Frames in flight while the calls are asked.
const ASKED: usize = 8;

/// Frames whose completion is timed.
const TIMED: u32 = 256;

/// Bytes of a frame.
const FRAME: usize = 60;

/// The group address of LLDP, which ends at the next bridge.
const TO: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];

/// Opens the port of `plan`, waits for its link for [`LINK`] at most, probes its first transmit queue
/// and gives the port back.
///
/// # Errors
/// [`LinkFault`].
pub fn port(eal: &Eal, plan: &PortPlan, tell: &mut dyn FnMut(Step)) -> Result<Verdict, LinkFault> {
    let sum = PoolSum::new(plan.rx_ring, plan.tx_ring, plan.mtu, 0, Lcore::all(eal).len() as u32);
    let (line, mut started) = builder::open(eal, plan, "weir-probe".to_owned(), sum, false, tell)?;
    let mut clock = Clock::start(eal);
    let deadline = clock.now() + LINK;
    while !line.is_up() && clock.now() < deadline {
        std::thread::yield_now();
    }
    let tx = started.tx.first_mut().ok_or(LinkFault::NoBuffer(MbufError::NoRoom))?;
    let probe = Probe {
        tx,
        pool: &line.pool,
        mac: line.info.mac,
        driver: &line.info.driver,
        now: &mut || clock.now(),
    };
    Ok(probe.run()?)
}

impl Probe<'_> {
    /// Sends, watches, and draws the conclusion.
    ///
    /// # Errors
    /// [`MbufError`] if the pool has no buffer for a frame.
    pub fn run(mut self) -> Result<Verdict, MbufError> {
        let known = drivers::choose_for(self.driver, self.tx, self.tx.ring());
        let mut evidence = Evidence { idle: ask(self.tx), ..Evidence::default() };
        match self.send(&mut evidence)? {
            Some(first) if first.is_complete() => evidence.copies = self.copies(&mut evidence)?,
            Some(first) => {
                self.first(first, &mut evidence)?;
                evidence.busy = self.busy(&mut evidence)?;
                self.times(&mut evidence)?;
            }
            None => {}
        }
        Ok(Verdict::new(self.driver.to_owned(), self.tx.ring(), known, evidence))
    }

    /// Whether frames are complete when the burst returns, not by chance: 32 of them.
    fn copies(&mut self, evidence: &mut Evidence) -> Result<bool, MbufError> {
        for _ in 0..32 {
            if !self.send(evidence)?.is_some_and(|held| held.is_complete()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What it takes to see the first frame complete.
    fn first(&mut self, held: Held, evidence: &mut Evidence) -> Result<(), MbufError> {
        let wants_nudges = self.tx.wants_nudges();
        for nudge in [Nudge::None, Nudge::EmptyBurst, Nudge::Cleanup, Nudge::Refused] {
            if nudge == Nudge::Refused && !wants_nudges {
                continue;
            }
            if let Some(took) = self.wait(&[&held], nudge) {
                (evidence.shown_by, evidence.took) = (Some(nudge), Some(took));
                return Ok(());
            }
        }
        self.more(held, evidence)
    }

    /// Nothing shows it but further frames: how many?
    fn more(&mut self, first: Held, evidence: &mut Evidence) -> Result<(), MbufError> {
        let mut held = VecDeque::from([first]);
        for _ in 0..self.tx.ring() {
            let Some(next) = self.send(evidence)? else { break };
            held.push_back(next);
            (self.now)();
            if held.front().is_some_and(Held::is_complete) {
                evidence.shown_after = u32::try_from(held.len() - 1).ok();
                break;
            }
        }
        Ok(())
    }

    /// What the calls answer with frames in flight.
    fn busy(&mut self, evidence: &mut Evidence) -> Result<Calls, MbufError> {
        self.settle(evidence);
        let mut held = Vec::new();
        for _ in 0..ASKED {
            held.extend(self.send(evidence)?);
        }
        let mut calls = ask(self.tx);
        // A peer in a hurry may have taken them already: then nothing can be said.
        calls.in_flight = held.iter().filter(|held| !held.is_complete()).count() as u32;
        self.wait(&held.iter().collect::<Vec<_>>(), evidence.nudge());
        calls.freed = self.tx.done_cleanup(0).into();
        calls.was_freed = held.iter().filter(|held| held.is_complete()).count() as u32;
        Ok(calls)
    }

    /// How late frames are seen complete, and how many at once, while frames are sent as fast as they
    /// complete.
    fn times(&mut self, evidence: &mut Evidence) -> Result<(), MbufError> {
        if evidence.shown_by.is_none() {
            return Ok(());
        }
        let mut times = Vec::with_capacity(TIMED as usize);
        let mut held: VecDeque<(Instant, Held)> = VecDeque::new();
        let deadline = (self.now)() + WAIT + WAIT;
        let mut sent = 0;
        while times.len() < TIMED as usize {
            if held.len() < ASKED && sent < TIMED {
                sent += 1;
                let frame = self.send(evidence)?;
                held.extend(frame.map(|frame| ((self.now)(), frame)));
            }
            Device::nudge(self.tx, evidence.nudge());
            let now = (self.now)();
            let mut batch = 0;
            while held.front().is_some_and(|(_, held)| held.is_complete()) {
                times.extend(held.pop_front().map(|(sent, _)| now.since(sent)));
                batch += 1;
            }
            evidence.batch = evidence.batch.max(batch);
            if now > deadline {
                break;
            }
        }
        evidence.times = Times::of(&mut times);
        Ok(())
    }

    /// Lets what is in flight complete.
    fn settle(&mut self, evidence: &Evidence) {
        let end = (self.now)() + Duration::from_millis(1);
        while (self.now)() < end {
            Device::nudge(self.tx, evidence.nudge());
        }
    }

    /// Looks until all are complete; how long it took.
    fn wait(&mut self, held: &[&Held], nudge: Nudge) -> Option<Duration> {
        let start = (self.now)();
        loop {
            Device::nudge(self.tx, nudge);
            let waited = (self.now)().since(start);
            if held.iter().all(|held| held.is_complete()) {
                return Some(waited);
            }
            if waited > WAIT {
                return None;
            }
        }
    }

    /// Sends one frame; `None` if the driver does not take it.
    fn send(&mut self, evidence: &mut Evidence) -> Result<Option<Held>, MbufError> {
        let mut frame = [0; FRAME];
        frame[..6].copy_from_slice(&TO);
        frame[6..12].copy_from_slice(&self.mac.0);
        frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        frame[14..14 + MARK.len()].copy_from_slice(MARK);
        let mut frame = Mbuf::from_bytes(self.pool, &frame)?;
        let held = frame.hold();
        let mut burst = Burst::new();
        // An empty burst has room.
        let _ = burst.push(frame);
        if self.tx.burst(&mut burst) == 0 {
            evidence.refused += 1;
            return Ok(None);
        }
        evidence.sent += 1;
        Ok(held)
    }
}

impl fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("driver", &self.driver).field("tx", &self.tx).finish_non_exhaustive()
    }
}

/// What the frames say.
const MARK: &[u8] = b"weir probe: please ignore";
