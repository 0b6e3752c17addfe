//! A rig for experiments: TCP hosts, a port with its discipline, limiter and card, a wire, and
//! receivers that answer.
//!
//! Reading order: [`Rig`] is all that happens; [`port`] the way down; [`cargo`] what goes it;
//! [`limiter`] how much the card is given; [`tally`] how it is counted.
//!
//! What is measured is measured where it happens: bytes, residence and order on the wire by the
//! truth log of the card, in flight between the loop and the card, round trips at who asked. The
//! loop turns every 2 to 8 us. Answers come back by a free way. Between wire and receiver a frame is
//! held until the receiving card interrupts (`rx-usecs`), and what has come by then is answered by one
//! acknowledgement a stream, as after GRO.

pub mod cargo;
pub mod limiter;
pub mod port;
pub mod tally;

pub use limiter::Limit;
pub use port::{Cutter, Moved, Release, Setup};
pub use tally::{Level, Values, jain};

use super::event::{Events, is_due};
use super::packet::{Ack, MSS};
use super::sender::{Receiver, Socket, Source};
use crate::nic;
use cargo::{Cargo, Load};
use port::{Departure, Port};
use shaper::packet::DsField;
use shaper::qdisc::ParamError;
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

/// All of it.
#[derive(Debug)]
pub struct Rig {
    now: Instant,
    turn: Instant,
    dice: SplitMix,
    events: Events<Event>,
    path: Path,
    port: Port,
    streams: Vec<Stream>,
    probes: Vec<Probe>,
    /// Senders that may go on; empty between turns.
    woken: Vec<usize>,
    seen: Seen,
    /// What had gone through when measuring began.
    before: Moved,
}

/// What lies around the port.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// From the wire to the receiver, and from there to the sender; 10 us at least.
    pub one_way: Duration,
    /// The receiving card interrupts at multiples of this.
    pub rx_usecs: Duration,
}

/// What was seen since measuring began.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Bytes on the wire, of all frames.
    pub wire_bytes: u64,
    /// Nanoseconds from submission to the last bit on the wire, of all segments.
    pub residence: Values,
    /// Bytes between the loop and the card's report.
    pub in_flight: Level,
    /// Bytes that might be there; `u32::MAX` for all that the ring holds.
    pub limit: Level,
    /// What went through discipline and limiter.
    pub moved: Moved,
}

#[derive(Debug)]
struct Stream {
    socket: Socket,
    receiver: Receiver,
    ds: DsField,
    /// When the sender will be told of time next, and the receiver.
    told: [Instant; 2],
    /// Payload bytes that have left the wire, and arrived for the first time.
    left: u64,
    arrived: u64,
}

#[derive(Debug)]
struct Probe {
    source: Source,
    ds: DsField,
    /// Nanoseconds beyond an idle path.
    added: Values,
}

#[derive(Debug)]
enum Event {
    /// A sender is told of time.
    Sender(usize),
    /// A receiver may answer.
    Receiver(usize),
    /// A segment reaches the receiver.
    Arrival(Cargo),
    /// An answer reaches the sender.
    Answer(usize, Ack),
    /// A probe is sent.
    Probe(usize),
}

impl Rig {
    /// A rig at rest.
    ///
    /// # Errors
    /// Parameters of the discipline out of range.
    pub fn new(setup: Setup, path: Path) -> Result<Self, ParamError> {
        Ok(Self {
            now: Instant::ZERO,
            turn: Instant::ZERO,
            dice: SplitMix::new(7, 11),
            events: Events::new(),
            path,
            port: Port::new(setup)?,
            streams: Vec::new(),
            probes: Vec::new(),
            woken: Vec::new(),
            seen: Seen::default(),
            before: Moved::default(),
        })
    }

    /// A stream more, from `start` on; returns its number.
    pub fn add_stream(&mut self, start: Instant, socket: Socket, ds: DsField) -> usize {
        let number = self.streams.len();
        let (receiver, told) = (Receiver::default(), [start, Instant::MAX]);
        self.streams.push(Stream { socket, receiver, ds, told, left: 0, arrived: 0 });
        self.events.schedule(start, Event::Sender(number));
        number
    }

    /// A source of probes more, from now on; returns its number.
    pub fn add_probe(&mut self, source: Source, ds: DsField) -> usize {
        let source = source.starting(self.now);
        let number = self.probes.len();
        self.events.schedule(source.next(), Event::Probe(number));
        self.probes.push(Probe { source, ds, added: Values::default() });
        number
    }

    /// Lets time pass.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while self.turn <= until {
            while let Some((at, event)) = self.events.pop(self.turn) {
                self.now = at;
                self.happen(event);
            }
            self.now = self.turn;
            self.port.turn(self.now);
            self.look();
            self.turn = self.now + Duration::from_nanos(2_000 + u64::from(self.dice.next_u16() % 6_000));
        }
        self.now = until;
    }

    /// Forgets what was seen: measuring begins.
    pub fn measure(&mut self) {
        let (mut in_flight, mut limit) = (self.seen.in_flight.clone(), self.seen.limit.clone());
        in_flight.forget(self.now);
        limit.forget(self.now);
        self.seen = Seen { in_flight, limit, ..Seen::default() };
        self.probes.iter_mut().for_each(|probe| probe.added = Values::default());
        self.streams.iter_mut().for_each(|stream| (stream.left, stream.arrived) = (0, 0));
        self.before = self.port.moved();
    }

    /// What was seen.
    pub fn seen(&mut self) -> &mut Seen {
        self.seen.moved = self.port.moved().since(self.before);
        &mut self.seen
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Payload bytes of each stream that have left the wire since measuring began.
    pub fn left(&self) -> Vec<f64> {
        self.streams.iter().map(|stream| stream.left as f64).collect()
    }

    /// Payload bytes that have arrived for the first time since measuring began, of all streams.
    pub fn arrived(&self) -> u64 {
        self.streams.iter().map(|stream| stream.arrived).sum()
    }

    /// Nanoseconds that the round trips of probe `number` took beyond those of an idle path.
    pub fn added(&self, number: usize) -> &Values {
        &self.probes[number].added
    }

    /// Pieces that went into the discipline and are nowhere: always 0.
    pub fn unaccounted(&self) -> i64 {
        self.port.unaccounted()
    }

    /// The card becomes another.
    pub fn become_like(&mut self, card: nic::Config) {
        self.port.become_like(self.now, card);
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Sender(number) => {
                let stream = &mut self.streams[number];
                if is_due(&mut stream.told[0], now) {
                    stream.socket.on_time(now);
                    self.send(number);
                }
            }
            Event::Receiver(number) => {
                if is_due(&mut self.streams[number].told[1], now) {
                    self.answer(number);
                }
            }
            Event::Arrival(cargo) => self.arrive(cargo),
            Event::Answer(number, ack) => {
                self.streams[number].socket.on_ack(now, &ack);
                self.send(number);
            }
            Event::Probe(number) => self.probe(number),
        }
    }

    fn send(&mut self, number: usize) {
        let stream = &mut self.streams[number];
        while let Some(train) = stream.socket.poll(self.now) {
            let load = Load::Train(train);
            self.port.arrive(Cargo { flow: number, ds: stream.ds, sent: self.now, load });
        }
        let wanted = stream.socket.wants();
        self.events.tell(&mut stream.told[0], wanted, self.now, Event::Sender(number));
    }

    fn probe(&mut self, number: usize) {
        let Probe { source, ds, .. } = &mut self.probes[number];
        if let Some(len) = source.poll(self.now) {
            let (flow, load) = (PROBES + number, Load::Probe(len));
            self.port.arrive(Cargo { flow, ds: *ds, sent: self.now, load });
        }
        self.events.schedule(source.next(), Event::Probe(number));
    }

    /// After a turn: what left the wire, what was let go, what is in flight.
    fn look(&mut self) {
        let rate = self.port.card().rate;
        for Departure { left, cargo } in self.port.departures() {
            self.seen.wire_bytes += u64::from(left.frame.bytes);
            self.seen.residence.add(left.left.since(left.submitted).as_nanos());
            let arrival = left.left + self.path.one_way;
            match cargo.load {
                Load::Probe(_) => {
                    let idle = nanos_on_wire(left.frame.bytes, rate);
                    let added = left.left.since(cargo.sent).as_nanos().saturating_sub(idle);
                    self.probes[cargo.flow - PROBES].added.add(added);
                }
                Load::Train(_) => {
                    self.streams[cargo.flow].left += u64::from(MSS);
                    let at = round_up(arrival, self.path.rx_usecs);
                    self.events.schedule(at, Event::Arrival(cargo));
                }
            }
        }
        self.let_go();
        self.seen.in_flight.set(self.now, self.port.in_flight());
        self.seen.limit.set(self.now, self.port.limit().unwrap_or(u32::MAX));
    }

    /// Tells the senders what no longer lies below them, and lets them send.
    fn let_go(&mut self) {
        for cargo in self.port.released() {
            if let Load::Train(train) = cargo.load {
                self.streams[cargo.flow].socket.released(train.segments);
                self.woken.push(cargo.flow);
            }
        }
        let mut woken = std::mem::take(&mut self.woken);
        woken.dedup();
        for number in woken.drain(..) {
            self.send(number);
        }
        self.woken = woken;
    }

    fn arrive(&mut self, cargo: Cargo) {
        let Load::Train(train) = cargo.load else { return };
        let stream = &mut self.streams[cargo.flow];
        if stream.receiver.on_segment(self.now, train.first, cargo.ds, train.cwr, cargo.sent) {
            stream.arrived += u64::from(MSS);
        }
        // Not at once: all that comes with this interrupt is answered together.
        let wanted = stream.receiver.wants();
        self.events.tell(&mut stream.told[1], wanted, self.now, Event::Receiver(cargo.flow));
    }

    fn answer(&mut self, number: usize) {
        let stream = &mut self.streams[number];
        if let Some(ack) = stream.receiver.poll(self.now) {
            self.events.schedule(self.now + self.path.one_way, Event::Answer(number, ack));
        }
        let wanted = stream.receiver.wants();
        self.events.tell(&mut stream.told[1], wanted, self.now, Event::Receiver(number));
    }
}

/// How long `bytes` are on the wire.
fn nanos_on_wire(bytes: u32, rate: Rate) -> u64 {
    (u64::from(bytes) * 8_000_000_000).checked_div(rate.bits_per_sec()).unwrap_or(0)
}

/// The next multiple of `grid`.
fn round_up(at: Instant, grid: Duration) -> Instant {
    Instant::from_nanos(at.as_nanos().next_multiple_of(grid.as_nanos().max(1)))
}

/// Numbers of probes as flows begin here.
const PROBES: usize = 1 << 20;
