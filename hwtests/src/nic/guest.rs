//! The transmit ring of a guest: a virtio port, of this process or of another, behind a socket of vhost-user.

use std::path::Path;

use anyhow::{Context, Result};
use dpdk::mbuf::flags;
use dpdk::vhost::{Asks, GuestRing};
use dpdk::{Burst, Eal, Mbuf, Mempool, Port, PortConfig, RxQueue, TxOffload, TxOffloads, TxQueue};
use shaper::time::Instant;

use super::source::Times;

/// A guest's ring. Frames stay there until they are complete; what is taken is a copy of each.
#[derive(Debug)]
pub(super) struct Guest {
    rx: RxQueue,
    ring: Option<GuestRing>,
    /// For copies.
    pool: Mempool,
    first: Option<Mbuf>,
    /// Frames of the ring that were taken, and of those the ones that are complete and still there.
    taken: u16,
    complete: u16,
    times: Times,
    buffer: Vec<u8>,
    // Closed after its queue.
    port: Port,
}

impl Guest {
    /// Makes the port that listens at `socket`; its device is `net_vhost` and `name`.
    pub(super) fn listen(eal: &Eal, name: &str, socket: &Path, pool: Mempool) -> Result<(Self, TxQueue)> {
        let device = eal.attach(&format!("net_vhost{name},iface={},tso=1", socket.display()))?;
        let mut port = Port::open(eal, &device)?;
        let tx_offloads = TxOffloads::MULTI_SEGS;
        port.configure(&PortConfig { tx_offloads, ..PortConfig::default() }, &pool)?;
        let mut started = port.start()?;
        let (rx, tx) = started.rx.pop().zip(started.tx.pop()).context("a vhost port without queues")?;
        let guest = Self {
            rx,
            ring: None,
            pool,
            first: None,
            taken: 0,
            complete: 0,
            times: Times::new(LARGEST_RING),
            buffer: Vec::new(),
            port,
        };
        Ok((guest, tx))
    }

    /// The port, for closing it; its queue is dropped.
    pub(super) fn into_port(self) -> Port {
        self.port
    }

    pub(super) fn look(&mut self, now: Instant) -> Result<bool> {
        let up = self.port.link()?.up;
        if self.ring.is_some() && !up {
            self.ring = None;
            self.first = None;
            (self.taken, self.complete) = (0, 0);
            self.times = Times::new(LARGEST_RING);
            return Ok(false);
        }
        if self.ring.is_none() && up {
            self.ring = GuestRing::open(&self.rx)?;
        }
        self.forward();
        self.times.waiting(now, self.len() as u64);
        Ok(true)
    }

    pub(super) fn first(&mut self) -> Option<&Mbuf> {
        if self.first.is_none() && !self.times.is_empty() {
            let asks = self.ring.as_ref()?.read(self.taken, &mut self.buffer)?;
            let mut copy = Mbuf::from_bytes(&self.pool, &self.buffer).ok()?;
            mark(&mut copy, asks);
            self.first = Some(copy);
        }
        self.first.as_ref()
    }

    pub(super) fn take(&mut self) -> Option<(Instant, Mbuf)> {
        let copy = self.first.take()?;
        self.taken += 1;
        Some((self.times.next(), copy))
    }

    pub(super) fn complete(&mut self, count: u32) {
        self.complete += count as u16;
        self.forward();
    }

    pub(super) fn len(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.waiting().saturating_sub(self.taken).into())
    }

    /// Tells the guest of completions: the driver receives the frames, which are not needed any more.
    fn forward(&mut self) {
        let mut burst = Burst::new();
        while self.complete > 0 {
            let got = self.rx.burst_up_to(&mut burst, self.complete.into()) as u16;
            if got == 0 {
                break;
            }
            burst.clear();
            self.complete -= got;
            self.taken -= got;
        }
    }
}

/// What the guest asks for, as a driver is asked.
fn mark(copy: &mut Mbuf, asks: Asks) {
    let checksum = if asks.checksum { flags::TX_TCP_CKSUM } else { 0 };
    let segment = if asks.gso_size > 0 { flags::TX_TCP_SEG } else { 0 };
    copy.set_ol_flags(checksum | segment);
    copy.set_tx_offload(TxOffload { tso_segsz: asks.gso_size, ..TxOffload::default() });
}

/// Descriptors that a ring has at most (Virtual I/O Device 1.3, 2.7).
const LARGEST_RING: u32 = 32_768;
