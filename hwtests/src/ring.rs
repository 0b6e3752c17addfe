//! The ring rig: a generator, weir's worker and a sink take turns on one lcore, over rings in memory.
//!
//! The highest rate without a loss is searched for after RFC 2544 section 26.1: trials at fixed rates, halving the
//! interval until it is within [`RESOLUTION`]; trials are shorter than its 60 s. A frame is lost when the ring to weir
//! is full when it is due, or when weir drops it.
//!
//! The clock of a trial stands still while this thread has no CPU (what a turn takes beyond [`IDLE_TURN`] and
//! [`PER_FRAME`] for each of its frames, some four times what they need): a shared machine takes some milliseconds away again and again, and a ring of 1024 frames would lose frames of every rate above a few
//! 100 kpps then, which says nothing about weir. The share of time taken away is reported.

use anyhow::{Context, Result, ensure};
use config::model;
use dpdk::{Burst, Eal, Mempool, MempoolConfig, PortConfig, Ring};
use engine::clock::Clock;
use engine::mailbox;
use engine::split::offload::Offload;
use engine::worker::Worker;
use serde::{Deserialize, Serialize};
use shaper::gso::Split;
use shaper::time::{Duration, Instant};

use crate::clock::Interrupt;
use crate::dataplane::{self, Way};

/// What one search found.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Found {
    /// Frame size with FCS, bytes; 0 for IMIX.
    pub size: u32,
    /// The highest rate without loss, packets per second.
    pub pps: f64,
    /// The same in bit/s of frames with FCS.
    pub bps: f64,
    /// Percent of the time that other work had the CPU.
    pub away: f64,
}

/// Searches for one frame size (or [`IMIX`]); `keys` of a direction, or the bare rings without weir.
///
/// # Errors
/// What DPDK or the discipline refuses; a trial that loses count of its frames.
pub fn search(
    eal: &Eal,
    keys: Option<&model::Direction>,
    size: u32,
    trial_ms: u64,
    interrupt: &Interrupt,
) -> Result<Found> {
    let mut loopback = Loopback::new(eal, keys, size)?;
    let probe = loopback.trial(UNBOUNDED, Duration::from_millis(PROBE_MS))?;
    let (mut low, mut high) = (0.0, probe.received as f64 / probe.seconds * 1.3);
    let (mut away, mut trials) = (0.0, 0.0);
    let mut rate = high / 1.3 * 0.8;
    while high - low > high * RESOLUTION {
        interrupt.check()?;
        let trial = loopback.trial(rate, Duration::from_millis(trial_ms))?;
        *(if trial.lost == 0 { &mut low } else { &mut high }) = rate;
        (away, trials) = (away + trial.away, trials + 1.0);
        rate = (low + high) / 2.0;
    }
    let bytes = sizes_of(size).iter().map(|size| f64::from(*size)).sum::<f64>() / sizes_of(size).len() as f64;
    Ok(Found { size, pps: low, bps: low * bytes * 8.0, away: away / trials * 100.0 })
}

/// What one trial counted.
struct Trial {
    received: u64,
    lost: u64,
    seconds: f64,
    /// Share of time that the thread was away.
    away: f64,
}

struct Loopback {
    inlet: Ring,
    outlet: Ring,
    worker: Option<Worker>,
    pool: Mempool,
    clock: Clock,
    sizes: Vec<u32>,
    next: usize,
    // Queues of a started port; closes when dropped.
    _port: Option<dpdk::Port>,
}

impl Loopback {
    fn new(eal: &Eal, keys: Option<&model::Direction>, size: u32) -> Result<Self> {
        let config = MempoolConfig { data_room: DATA_ROOM, ..MempoolConfig::new(name("pool"), MBUFS) };
        let pool = Mempool::create(eal, &config)?;
        let inlet = Ring::create(eal, &name("in"), RING)?;
        let clock = Clock::start(eal);
        let sizes = sizes_of(size);
        let Some(keys) = keys else {
            let outlet = inlet.clone();
            return Ok(Self { inlet, outlet, worker: None, pool, clock, sizes, next: 0, _port: None });
        };
        let outlet = Ring::create(eal, &name("out"), RING)?;
        let mut port = Ring::port(eal, &name("port"), &inlet, &outlet)?;
        port.configure(&PortConfig::default(), &pool)?;
        let mut started = port.start()?;
        let (rx, tx) = (started.rx.pop().context("no receive queue")?, started.tx.pop().context("no queue")?);
        let way = Way {
            name: &name("way"),
            mtu: MTU,
            split: Split::AUTO,
            offload: Offload::NONE,
            wire: None,
            governor: None,
        };
        let direction = way.direction(eal, rx, tx, keys)?;
        // Nobody asks this worker for anything.
        let (_, mailbox) = mailbox::pair();
        let worker = Some(Worker::new(vec![direction], mailbox));
        Ok(Self { inlet, outlet, worker, pool, clock, sizes, next: 0, _port: Some(port) })
    }

    /// Offers `rate` packets per second for `span` of the trial's clock, then lets everything come out.
    fn trial(&mut self, rate: f64, span: Duration) -> Result<Trial> {
        let mut time = Time::start(self.clock.now());
        let (mut offered, mut refused, mut received) = (0, 0, 0);
        while time.passed < span {
            let due = (time.passed.as_nanos() as f64 * 1e-9 * rate) as u64;
            // Unbounded: as many as there is room for, refused by nobody.
            let room = u64::from(self.inlet.capacity() - self.inlet.len());
            let count = if rate == UNBOUNDED { room.min(BURST) } else { due - offered };
            let taken = self.offer(count)?;
            (offered, refused) = (offered + count, refused + count - taken);
            let moved = self.turn(&mut time);
            received += moved;
            time.worked(taken + moved);
        }
        let (seconds, away) = (time.passed.as_nanos() as f64 * 1e-9, time.away());
        let mut idle = 0;
        while idle < SETTLED {
            let moved = self.turn(&mut time);
            idle = if moved == 0 { idle + 1 } else { 0 };
            received += moved;
        }
        let lost = (offered - refused).checked_sub(received);
        let lost = lost.context("more frames came out than went in")? + refused;
        Ok(Trial { received, lost, seconds, away })
    }

    /// Puts `count` frames into the ring to weir; those that do not fit are lost, as on a NIC.
    fn offer(&mut self, count: u64) -> Result<u64> {
        let mut taken = 0;
        while taken < count {
            let mut burst = Burst::new();
            let part = (count - taken).min(BURST);
            if self.pool.alloc_bulk(&mut burst, part as usize).is_err() {
                break;
            }
            for mbuf in burst.as_mut_slice() {
                let size = self.sizes[self.next % self.sizes.len()];
                let head = header(self.next as u16 % FLOWS, size);
                self.next += 1;
                mbuf.append((size - FCS) as usize)?[..head.len()].copy_from_slice(&head);
            }
            let put = self.inlet.enqueue(&mut burst) as u64;
            taken += put;
            if put < part {
                break;
            }
        }
        Ok(taken)
    }

    /// weir's turn and the sink's; frames that came out.
    fn turn(&mut self, time: &mut Time) -> u64 {
        let now = time.step(self.clock.now());
        if let Some(worker) = &mut self.worker {
            worker.turn(now);
        }
        let mut burst = Burst::new();
        let mut received = 0;
        for _ in 0..2 {
            received += self.outlet.dequeue(&mut burst) as u64;
            burst.clear();
        }
        received
    }
}

/// The clock of a trial.
struct Time {
    last: Instant,
    now: Instant,
    passed: Duration,
    lost: Duration,
    /// What the turn under way may take.
    most: Duration,
}

impl Time {
    fn start(now: Instant) -> Self {
        Self { last: now, now, passed: Duration::ZERO, lost: Duration::ZERO, most: IDLE_TURN }
    }

    fn step(&mut self, real: Instant) -> Instant {
        let step = real.since(self.last);
        self.last = real;
        let counted = step.min(self.most);
        self.most = IDLE_TURN;
        self.passed += counted;
        self.lost += step - counted;
        self.now += counted;
        self.now
    }

    /// The turn under way put in and took out so many frames.
    fn worked(&mut self, frames: u64) {
        self.most = IDLE_TURN + Duration::from_nanos(PER_FRAME * frames);
    }

    fn away(&self) -> f64 {
        let (passed, lost) = (self.passed.as_nanos() as f64, self.lost.as_nanos() as f64);
        lost / (passed + lost)
    }
}

fn sizes_of(size: u32) -> Vec<u32> {
    if size == IMIX { IMIX_SIZES.to_vec() } else { vec![size] }
}

/// Ethernet, IPv4 and UDP headers of a frame of `size` bytes with FCS, of one of the flows.
fn header(flow: u16, size: u32) -> [u8; 42] {
    let network = (size - FCS - 14) as u16;
    let mut head = [0; 42];
    head[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    head[14..34]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1]);
    head[16..18].copy_from_slice(&network.to_be_bytes());
    head[34..36].copy_from_slice(&(1024 + flow).to_be_bytes());
    head[36..38].copy_from_slice(&[0x13, 0x89]);
    head[38..40].copy_from_slice(&(network - 20).to_be_bytes());
    head
}

/// Names of DPDK objects live as long as the process: each gets its own.
fn name(kind: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("rfc-{kind}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Runs all `sizes` and prints each as a line of JSON; for a process of its own, as there is one EAL in each.
///
/// # Errors
/// As [`search`].
pub fn run(
    keys: Option<&str>,
    sizes: &[u32],
    trial_ms: u64,
    interrupt: &Interrupt,
    mut print: impl FnMut(&str),
) -> Result<()> {
    let keys = keys.map(dataplane::parse).transpose()?;
    ensure!(
        sizes.iter().all(|size| *size == IMIX || (64..=9000).contains(size)),
        "sizes are 64 to 9000, or 0"
    );
    let _runtime = dataplane::runtime_folder();
    let eal = dataplane::eal("0")?;
    for size in sizes {
        print(&serde_json::to_string(&search(&eal, keys.as_ref(), *size, trial_ms, interrupt)?)?);
    }
    Ok(())
}

/// The size that means a mix.
pub const IMIX: u32 = 0;
/// Seven small, four middle, one full: 40, 576 and 1500 bytes of IP (the "simple IMIX").
const IMIX_SIZES: [u32; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 64, 594];
const FCS: u32 = 4;
const FLOWS: u16 = 64;
const MTU: u16 = 9000;
const DATA_ROOM: u16 = 9216;
/// Slots of a ring: what NICs have by default.
const RING: u32 = 1024;
/// More than both rings, the discipline's backlog of a trial and all caches hold.
const MBUFS: u32 = 16_383;
const BURST: u64 = 64;
const PROBE_MS: u64 = 100;
const UNBOUNDED: f64 = f64::INFINITY;
/// Of the interval that the search ends with.
const RESOLUTION: f64 = 0.02;
/// A turn without frames takes less than 1 µs.
const IDLE_TURN: Duration = Duration::from_micros(5);
/// ns; a frame is put in and taken out, and cake takes some 90 ns between.
const PER_FRAME: u64 = 200;
/// Turns without a frame after which nothing is inside any more.
const SETTLED: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_while_the_thread_is_away() {
        let at = |micros: u64| Instant::from_nanos(micros * 1_000);
        let mut time = Time::start(at(0));
        time.step(at(10));
        assert_eq!(time.now, at(5), "a turn without frames takes no longer");
        time.worked(100);
        assert_eq!(time.step(at(1_010)), at(30), "a hundred frames take no longer");
        assert!((time.away() - 980.0 / 1_010.0).abs() < 1e-9);
    }

    #[test]
    fn headers_are_those_of_their_size() {
        let dissected = shaper::flow::dissect::dissect(&header(5, 1518), 1514);
        let same = shaper::flow::dissect::dissect(&header(5, 64), 60);
        assert_eq!(dissected.key, same.key);
        assert_ne!(dissected.key, shaper::flow::dissect::dissect(&header(6, 64), 60).key);
        assert_eq!(u16::from_be_bytes([header(0, 1518)[16], header(0, 1518)[17]]), 1500);
    }
}
