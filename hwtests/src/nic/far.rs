//! The far end of the wire, and what comes in from there.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result};
use dpdk::{Burst, Mbuf, Mempool, Ring, TxQueue};
use shaper::time::{Duration, Instant};
use sim::nic::{Config, Frame, Nic, on_wire};

/// Where frames go that have left the wire.
#[derive(Debug)]
pub enum Far {
    /// Nowhere.
    Sink,
    /// Back into the port that sent them, at once.
    Loopback,
    /// To the kernel, and from it, through the open file of a TAP without blocking and without `virtio_net_hdr`. What
    /// the kernel sends comes in at the rate of the wire; what has no room there waits in the kernel.
    Tap(File),
}

/// Where the port receives from.
#[derive(Debug)]
pub(super) enum Inlet {
    Ring(Ring),
    /// The guest's receive ring.
    Guest(TxQueue),
}

/// The receiving side of a card: a wire, the port's receive ring, and its counters.
#[derive(Debug)]
pub struct Arrivals {
    inlet: Inlet,
    pool: Option<Mempool>,
    wire: Nic,
    on_wire: VecDeque<Mbuf>,
    buffer: Vec<u8>,
    received: u64,
    missed: u64,
    undelivered: u64,
}

impl Arrivals {
    /// `pool` is for what comes in.
    pub(super) fn new(inlet: Inlet, pool: Option<Mempool>, config: &Config) -> Self {
        Self {
            inlet,
            pool,
            wire: Nic::new(wire(config)),
            on_wire: VecDeque::with_capacity(ON_WIRE as usize),
            buffer: vec![0; LONGEST],
            received: 0,
            missed: 0,
            undelivered: 0,
        }
    }

    /// Frames that came in.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Frames lost because the receive ring or its pool was full.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Frames that left the wire and that the kernel did not take, its interface being down.
    pub const fn undelivered(&self) -> u64 {
        self.undelivered
    }

    pub(super) fn become_like(&mut self, now: Instant, config: &Config) {
        self.wire.become_like(now, wire(config));
    }

    /// Hands over a frame that has left the wire.
    pub(super) fn deliver(&mut self, frame: &[u8], far: &mut Far) -> Result<()> {
        match far {
            Far::Sink => {}
            Far::Loopback => match self.copy(frame) {
                Some(mbuf) => self.put(mbuf),
                None => self.missed += 1,
            },
            Far::Tap(file) => match file.write(frame) {
                Ok(_) => {}
                // The interface is down, or its queue full.
                Err(error) if matches!(error.raw_os_error(), Some(EIO | EAGAIN)) => self.undelivered += 1,
                Err(error) => return Err(error).context("the TAP does not take a frame"),
            },
        }
        Ok(())
    }

    /// Brings in what has arrived by `now`, and puts what the kernel sends on the wire; returns how many came in.
    pub(super) fn bring(&mut self, now: Instant, far: &mut Far) -> Result<usize> {
        let Far::Tap(file) = far else { return Ok(0) };
        let arrived = self.wire.reap(now).frames as usize;
        for _ in 0..arrived {
            if let Some(mbuf) = self.on_wire.pop_front() {
                self.put(mbuf);
            }
        }
        // Truth is kept of what is sent.
        self.wire.left().for_each(drop);
        while self.wire.room() > 0 {
            let len = match file.read(&mut self.buffer) {
                Ok(len) => len,
                Err(error) if matches!(error.raw_os_error(), Some(EIO | EAGAIN)) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("cannot read from the TAP"),
            };
            let frame = Frame { bytes: on_wire(len as u32), descriptors: 1 };
            match self.copy(&self.buffer[..len]) {
                Some(mbuf) if self.wire.submit(now, frame).is_ok() => self.on_wire.push_back(mbuf),
                _ => self.missed += 1,
            }
        }
        Ok(arrived)
    }

    fn copy(&self, frame: &[u8]) -> Option<Mbuf> {
        Mbuf::from_bytes(self.pool.as_ref()?, frame).ok()
    }

    fn put(&mut self, mbuf: Mbuf) {
        let mut burst = Burst::new();
        let put = burst.push(mbuf).is_ok()
            && match &mut self.inlet {
                Inlet::Ring(ring) => ring.enqueue(&mut burst) == 1,
                Inlet::Guest(queue) => queue.burst(&mut burst) == 1,
            };
        *(if put { &mut self.received } else { &mut self.missed }) += 1;
    }
}

/// The wire of the other direction: as fast, without completions.
fn wire(config: &Config) -> Config {
    Config {
        ring: ON_WIRE,
        delay: Duration::ZERO,
        tx_usecs: Duration::ZERO,
        tx_frames: 1,
        rs_thresh: 1,
        ..*config
    }
}

/// Frames read from the kernel that are on their way: a burst, so that a fast wire does not wait for the next step.
const ON_WIRE: u32 = 64;
/// The longest frame that a TAP without offloads yields: MTU 65521 and tags.
const LONGEST: usize = 65_600;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
