//! A fixed load for counting the instructions of the gate before a transmit ring: `.ci/instructions`
//! runs it under callgrind.
//!
//! `gate_instructions gate_none|gate_held|gate_status PACKETS` sends that many frames of 1514 bytes over a
//! modelled queue of 512 descriptors and a wire of 10 Gbit/s: without a gate, with completions from held
//! references, or from descriptor status. `gate_held_delays` and `gate_status_delays` record beside that how
//! long each frame was in the ring and how long it took in all, by tin: what they cost more is telemetry. A turn is 77 us, up to 64 frames, a
//! little more than the wire carries: a burst as large as under load. What a case costs more than `gate_none` is the price of the governor, with the frees that a
//! second holder makes dearer. `gate_instructions times` prints nanoseconds of the same, in turns.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark may panic, and reads its own clock"
)]

use dpdk::{Burst, Eal, EalConfig, Mbuf, Mempool, MempoolConfig};
use engine::completion::source::{Device, From, Nudge, Queue, Source};
use engine::gate::{Budget, Gate, Settings};
use engine::outbox::{Outbox, Stamp};
use engine::plan::GovernorPlan;
use shaper::time::{Duration, Instant};
use std::collections::VecDeque;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (source, tins) = match args.first().map(String::as_str) {
        Some("gate_none") => (None, 0),
        Some("gate_held") => (Some(Source::Held), 0),
        Some("gate_status") => (Some(Source::Status(From::Tail)), 0),
        Some("gate_held_delays") => (Some(Source::Held), TINS),
        Some("gate_status_delays") => (Some(Source::Status(From::Tail)), TINS),
        Some("times") => {
            times();
            return ExitCode::SUCCESS;
        }
        _ => return usage(),
    };
    match args.get(1).and_then(|packets| packets.parse().ok()) {
        Some(packets) => run(&pool(&start()), source, tins, packets),
        None => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: gate_instructions gate_none|gate_held|gate_status|gate_held_delays|gate_status_delays PACKETS, \
         or gate_instructions times"
    );
    ExitCode::from(2)
}

fn start() -> Eal {
    let config = ["--no-huge", "-m", "64", "--no-shconf", "--no-pci", "--no-telemetry", "--lcores=0@0"];
    let config = config.into_iter().fold(EalConfig::new("gate-instructions"), |config, arg| config.arg(arg));
    Eal::init(&config).unwrap()
}

fn pool(eal: &Eal) -> Mempool {
    Mempool::create(eal, &MempoolConfig::new("frames", 2_047)).unwrap()
}

/// Sends `packets` frames, of so many tins in turn if they are recorded.
fn run(pool: &Mempool, source: Option<Source>, tins: usize, packets: u64) {
    let mut queue = Modelled::new();
    let mut gate = source.map(|source| {
        Gate::new(Settings {
            plan: GovernorPlan::default(),
            source,
            nudge: Nudge::None,
            ring: RING,
            framing: 0,
            heads: None,
            wire: None,
        })
    });
    if tins > 0 {
        gate = gate.map(|gate| gate.recording(tins));
    }
    let (mut now, mut sent, mut burst) = (Instant::ZERO, 0, Outbox::new());
    while sent < packets {
        now += TURN;
        queue.advance(now);
        if let Some(gate) = &mut gate {
            gate.reap(now, &mut queue);
        }
        let budget = gate.as_ref().map_or(Budget::ALL, Gate::budget);
        let mut waiting = 0;
        while burst.len() < PER_TURN && budget.admits(waiting, burst.len()) {
            let mut frame = pool.alloc().unwrap();
            frame.append(FRAME).unwrap();
            waiting += FRAME as u64;
            let tin = (sent + burst.len() as u64) % TINS as u64;
            let _ = burst.push(frame, Stamp::new(now, tin as u8));
        }
        if let Some(gate) = &mut gate
            && burst.len() < PER_TURN
        {
            gate.hold(now);
        }
        sent += match &mut gate {
            Some(gate) => gate.burst(now, &mut queue, &mut burst),
            None => queue.send(burst.burst()),
        } as u64;
        // The ring is full without a gate: what it refused waits, and is no more work.
    }
    if let Some(gate) = &gate {
        let page = gate.report();
        assert!(page.binds && page.watch.given_up == 0 && page.governor.excess == 0, "{page:?}");
        assert!(sent < 10_000 || page.governor.judged > 0 && page.rate > 1_200_000_000, "{page:?}");
    }
}

/// The cost in nanoseconds, with and without, in turns: the least of many short rounds, which is what is
/// left of a round that nobody interrupted.
fn times() {
    let eal = start();
    let pool = pool(&eal);
    for (name, source) in
        [("held references", Source::Held), ("descriptor status", Source::Status(From::Tail))]
    {
        let mut spent = [u128::MAX; 2];
        for _ in 0..ROUNDS {
            for (spent, source) in spent.iter_mut().zip([None, Some(source)]) {
                let start = std::time::Instant::now();
                run(&pool, source, 0, PER_ROUND);
                *spent = start.elapsed().as_nanos().min(*spent);
            }
        }
        let [without, with] = spent.map(|nanos| nanos as f64 / PER_ROUND as f64);
        println!("{name}, with a gate  {with:.1}");
        println!("{name}, without a gate  {without:.1}");
        println!("{name}, the gate  {:.1}", with - without);
    }
}

/// A ring and a wire. Frames are freed when they have left.
struct Modelled {
    ring: VecDeque<(Instant, Mbuf)>,
    idle: Instant,
}

impl Modelled {
    fn new() -> Self {
        Self { ring: VecDeque::with_capacity(usize::from(RING)), idle: Instant::ZERO }
    }

    fn advance(&mut self, now: Instant) {
        while self.ring.front().is_some_and(|(left, _)| *left <= now) {
            self.ring.pop_front();
        }
        self.idle = self.idle.max(now);
    }
}

impl Device for Modelled {
    fn is_done(&self, offset: u16) -> bool {
        usize::from(RING - offset) > self.ring.len()
    }

    fn in_use(&self) -> Option<u32> {
        None
    }

    fn nudge(&mut self, _: Nudge) {}
}

impl Queue for Modelled {
    fn join(&mut self, _: &mut Burst) {}

    fn send(&mut self, burst: &mut Burst) -> usize {
        let mut sent = 0;
        while self.ring.len() < usize::from(RING)
            && let Some(frame) = burst.pop()
        {
            self.idle += WIRE_TIME;
            self.ring.push_back((self.idle, frame));
            sent += 1;
        }
        sent
    }
}

const RING: u16 = 512;
const FRAME: usize = 1_514;
const PER_TURN: usize = 64;

/// Recorded apart: the four of cake's diffserv4, frame by frame, so that no two in a row are of one.
const TINS: usize = 4;
const TURN: Duration = Duration::from_micros(77);

/// Of a frame at 10 Gbit/s.
const WIRE_TIME: Duration = Duration::from_nanos(1_211);

const ROUNDS: u64 = 300;
const PER_ROUND: u64 = 20_000;
