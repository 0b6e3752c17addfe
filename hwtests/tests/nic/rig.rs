//! A worker between a ring that never runs empty and a card.

use dpdk::testing::{Answers, TestEal};
use dpdk::{Burst, Eal, Mbuf, Mempool, MempoolConfig, Port, PortConfig, Ring};
use engine::classify::{Classifier, Wants};
use engine::clock::Clock;
use engine::completion::source::{Nudge, Source};
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::gate::{self, Gate};
use engine::mailbox::{self, Command, Control};
use engine::plan::GovernorPlan;
use engine::pool;
use engine::worker::Worker;
use hwtests::nic::live::{self, Gaps};
use hwtests::nic::{Card, Far, Span};
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::{Params, Qdisc, cake};
use shaper::rate::Overhead;
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use sim::nic::{Config, on_wire};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// Weir in front of a card, in lockstep.
pub struct Rig<'a> {
    eal: &'a TestEal,
    pub weir: Weir,
    pub card: Card,
    pub now: Instant,
    ports: Vec<Port>,
    /// Keeps the card's ring.
    answers: Option<Answers>,
    rng: SplitMix,
    next_gap: Instant,
}

/// cake without a rate, always backlogged with full frames of four flows.
pub struct Weir {
    pub worker: Worker,
    inlet: Ring,
    pool: Mempool,
    fed: u32,
    control: Control,
}

impl<'a> Rig<'a> {
    /// With a governor on its defaults, and completions from held references.
    pub fn governed(eal: &'a TestEal, config: Config) -> Self {
        Self::new(eal, Behind::Rings, config, Some(Source::Held))
    }

    /// With nothing between the discipline and the ring.
    pub fn ungoverned(eal: &'a TestEal, config: Config) -> Self {
        Self::new(eal, Behind::Rings, config, None)
    }

    pub fn new(eal: &'a TestEal, behind: Behind, config: Config, governor: Option<Source>) -> Self {
        let id = RIGS.fetch_add(1, Ordering::Relaxed);
        // The ring, the queue above it, in-box and out-box, the inlet, and a guest's receive ring.
        let mbufs = config.ring + BACKLOG + 4 * Burst::CAPACITY as u32 + INLET + 1_024;
        let pool_config = MempoolConfig { cache: 0, ..MempoolConfig::new(format!("rig{id}"), mbufs) };
        let pool = Mempool::create(eal, &pool_config).unwrap();
        let inlet = Ring::create(eal, &format!("rig{id}-in"), INLET).unwrap();
        let unused = Ring::create(eal, &format!("rig{id}-out"), 64).unwrap();
        let before = Ring::port(eal, &format!("rig{id}"), &inlet, &unused).unwrap();
        let (card, after) = behind.card(eal, id, config);
        let mut ports = vec![before, after];
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for port in &mut ports {
            port.configure(&PortConfig::default(), &pool).unwrap();
            let started = port.start().unwrap();
            rx.extend(started.rx);
            tx.extend(started.tx);
        }
        let tx = tx.pop().unwrap();
        let status = card.descriptor_status().filter(|_| matches!(governor, Some(Source::Status(_))));
        let answers = status.map(|status| Answers::of(&tx, status));
        let mut direction = direction(rx.swap_remove(0), tx, &pool);
        if let Some(source) = governor {
            direction = direction.governed(Gate::new(gate::Settings {
                plan: GovernorPlan::default(),
                source,
                nudge: behind.nudge(),
                ring: config.ring as u16,
                framing: on_wire(FULL) - FULL,
                heads: None,
                wire: None,
            }));
        }
        let (control, mailbox) = mailbox::pair();
        let worker = Worker::new(vec![direction], mailbox);
        let weir = Weir { worker, inlet, pool, fed: 0, control };
        let (rng, next_gap) = (SplitMix::new(7, 11), Instant::MAX);
        Self { eal, weir, card, now: Instant::ZERO, ports, answers, rng, next_gap }
    }

    /// Turns for a span, polled every 2 to 8 us.
    pub fn run(&mut self, span: Duration) {
        self.run_with(span, |_| ());
    }

    /// The same, with a look at it after each turn.
    pub fn run_with(&mut self, span: Duration, mut each: impl FnMut(&Self)) {
        let end = self.now + span;
        while self.now < end {
            self.step();
            each(self);
            let interval = self.interval();
            self.now += interval;
        }
    }

    /// From now on there are gaps of 1 to 30 ms in the polling, one within each 20 to 200 ms.
    pub fn with_gaps(&mut self) {
        self.next_gap = self.now + Duration::from_micros(20_000 + u64::from(self.rng.next_u32() % 180_000));
    }

    /// The card reports what is complete, weir turns, the card takes up what was sent.
    fn step(&mut self) {
        self.card.step(self.now).unwrap();
        self.weir.turn(self.now);
        self.card.step(self.now).unwrap();
    }

    fn interval(&mut self) -> Duration {
        if self.now < self.next_gap {
            return Duration::from_nanos(2_000 + u64::from(self.rng.next_u16() % 6_000));
        }
        self.with_gaps();
        Duration::from_micros(1_000 + u64::from(self.rng.next_u32() % 29_000))
    }

    /// Runs under the real clock, the card in a thread of its own; what happens in the first of the two spans is not
    /// measured. Returns when either thread was away, and the time at the end.
    pub fn live(self, warm_up: Duration, span: Duration) -> (Self, Live) {
        let Self { eal, mut weir, card, ports, answers, rng, next_gap, .. } = self;
        let (mut clock, its_clock) = (Clock::start(eal), Clock::start(eal));
        let (from, until) = (clock.now() + warm_up, clock.now() + warm_up + span);
        let stop = AtomicBool::new(false);
        let mut gaps = Gaps::default();
        let (card, its_gaps, now) = thread::scope(|scope| {
            let card = scope.spawn(|| live::run(card, its_clock, from, &stop));
            let _stop = StopAtEnd(&stop);
            let mut now = clock.now();
            while now < until && !card.is_finished() {
                gaps.poll(now);
                weir.turn(now);
                now = clock.now();
            }
            drop(_stop);
            let (card, its_gaps) = card.join().unwrap().unwrap();
            (card, its_gaps, now)
        });
        let all = gaps.either(&its_gaps);
        let longest = all.iter().map(|gap| gap.end.since(gap.start)).max().unwrap_or(Duration::ZERO);
        let away = all.into_iter().filter(|gap| gap.end > from);
        let away = away.map(|gap| gap.start.max(from)..gap.end).collect();
        let live = Live { away, longest, span: now.since(from) };
        (Self { eal, weir, card, now, ports, answers, rng, next_gap }, live)
    }

    /// Gives up what waits, lets the card send what it has, and asserts that weir has seen it complete and that every
    /// mbuf is back.
    pub fn finish(mut self) {
        let mut burst = Burst::new();
        while self.weir.inlet.dequeue(&mut burst) > 0 {
            burst.clear();
        }
        self.weir.worker.flush();
        for _ in 0..100 {
            self.now += Duration::from_millis(100);
            self.card.step(self.now).unwrap();
            self.weir.worker.turn(self.now);
        }
        let untold = self.card.in_flight() as u64;
        assert!(untold < u64::from(self.card.nic().config().rs_thresh), "{untold} frames in flight");
        if let Some(gate) = self.weir.worker.directions()[0].gate() {
            // With a frame that is not told complete goes what was marked with it.
            let believed = gate.in_flight().descriptors;
            assert!(
                believed >= untold && (believed == 0) == (untold == 0),
                "{believed} for {untold} in flight"
            );
        }
        let Self { eal, weir, card, ports, answers, .. } = self;
        let Weir { worker, pool, .. } = weir;
        drop((worker, answers));
        for mut port in ports {
            port.close().unwrap();
            eal.detach(port.name()).unwrap();
        }
        card.close(eal).unwrap();
        assert_eq!(pool.in_use(), 0, "mbufs are missing from the pool");
    }
}

/// What port weir sees the card as.
#[derive(Clone, Copy, Debug)]
pub enum Behind {
    Rings,
    /// A virtio port of this process, with a ring of the card's size.
    Vhost,
}

impl Behind {
    fn card(self, eal: &Eal, id: u32, config: Config) -> (Card, Port) {
        let name = format!("{id}rig");
        match self {
            Self::Rings => Card::behind_ring(eal, &name, config, Far::Sink).unwrap(),
            Self::Vhost => {
                let socket = std::env::temp_dir().join(format!("nic-rig-{}-{id}", std::process::id()));
                let card = Card::behind_vhost(eal, &name, &socket, config, Far::Sink).unwrap();
                let devargs =
                    format!("net_virtio_user{name},path={},queue_size={}", socket.display(), config.ring);
                let guest = eal.attach(&devargs).unwrap();
                (card, Port::open(eal, &guest).unwrap())
            }
        }
    }

    /// A virtio port does not look for completions by itself.
    fn nudge(self) -> Nudge {
        match self {
            Self::Rings => Nudge::None,
            Self::Vhost => Nudge::Refused,
        }
    }
}

/// What a live run came to.
pub struct Live {
    /// When one of the two threads was away.
    pub away: Vec<Span>,
    /// The longest time that one was, also before the measurement.
    pub longest: Duration,
    /// How long was measured.
    pub span: Duration,
}

/// A thread that waits for the flag must not be left waiting by a panic.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Weir {
    /// What stands before the ring.
    pub fn gate(&self) -> &Gate {
        self.worker.directions()[0].gate().unwrap()
    }

    /// What control tells weir when the card's link changes.
    pub fn set_link(&mut self, up: bool) {
        self.control.send(Command::Link { direction: 0, up }).unwrap();
    }

    /// A turn with a backlog before it.
    pub fn turn(&mut self, now: Instant) {
        self.feed();
        self.worker.turn(now);
    }

    /// Keeps the backlog standing.
    fn feed(&mut self) {
        let waiting = self.worker.directions()[0].waiting().packets as u32;
        let mut missing =
            BACKLOG.saturating_sub(waiting + self.inlet.len()).min(INLET - 1 - self.inlet.len());
        let mut burst = Burst::new();
        while missing > 0 {
            let count = missing.min(Burst::CAPACITY as u32);
            for _ in 0..count {
                burst.push(self.frame()).unwrap();
            }
            self.inlet.enqueue(&mut burst);
            missing -= count;
        }
    }

    /// A full frame of one of four flows. What follows the headers is whatever the buffer held.
    fn frame(&mut self) -> Mbuf {
        self.fed += 1;
        let mut frame = self.pool.alloc().unwrap();
        let bytes = frame.append(FULL as usize).unwrap();
        bytes[..HEADERS.len()].copy_from_slice(&HEADERS);
        bytes[35] = (self.fed % 4) as u8;
        frame
    }
}

/// `pieces` is for those of super-packets, of which none come.
fn direction(rx: dpdk::RxQueue, tx: dpdk::TxQueue, pieces: &Mempool) -> Direction {
    let params = Params::Cake(cake::Params::default());
    let qdisc = Qdisc::new(&params, pool::slots(&params) as usize).unwrap();
    let egress = Egress::new(qdisc, None, Overhead::default(), SplitMix::new(1, 2));
    let classifier = Classifier::new(FlowHasher::new([7; 16]), Wants::of(&params), &[]);
    let settings = Settings { link_down_hold: Duration::from_millis(100), ..Settings::default() };
    Direction::new(rx, tx, classifier, egress, settings, pieces)
}

/// A card of 1024 descriptors that tells each completion at once.
pub fn card(bits_per_sec: u64) -> Config {
    Config { rate: Rate::from_bits_per_sec(bits_per_sec), ..Config::default() }
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Bytes of a frame in memory.
pub const FULL: u32 = 1_514;

/// Ethernet, IPv4 and UDP of a frame of [`FULL`] bytes.
const HEADERS: [u8; 42] = [
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet
    0x45, 0, 0x05, 0xdc, 0, 0, 0, 0, 64, 17, 0x8e, 0x0f, 192, 0, 2, 1, 198, 51, 100, 7, // IPv4
    4, 0, 0x13, 0x89, 0x05, 0xc8, 0, 0, // UDP
];

/// Frames that stand in front of the card: what two turns can send.
const BACKLOG: u32 = 300;
const INLET: u32 = 512;

/// For names that are unique in the process.
static RIGS: AtomicU32 = AtomicU32::new(0);
