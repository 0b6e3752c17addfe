//! All that happens: flows send through a line in one direction, receivers answer through the
//! other, and what was seen is recorded.

use super::event::{Events, is_due};
use super::line::Line;
use super::packet::{Body, Packet};
use super::sender::{Receiver, Sender};
use shaper::packet::{Arrival, DropReason, DsField, Piece};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;

/// Everything.
#[derive(Debug)]
pub struct World {
    now: Instant,
    events: Events<Event>,
    lines: [Line; 2],
    flows: Vec<Flow>,
}

/// One of the two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the hosts of the near side.
    Down,
    /// From them.
    Up,
}

/// Who sends what to whom.
#[derive(Debug)]
pub struct FlowSpec {
    /// Who sends.
    pub sender: Sender,
    /// The line that the data goes through; answers take the other one.
    pub direction: Direction,
    /// Number of the host that sends.
    pub source: u32,
    /// Number of the host that receives.
    pub destination: u32,
    /// DS field of the data.
    pub ds: DsField,
    /// Round-trip time without any waiting.
    pub rtt: Duration,
    /// When it starts.
    pub start: Instant,
}

/// What was seen of a flow since measuring began.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Frames sent.
    pub sent: u64,
    /// Data frames that arrived for the first time.
    pub arrived: u64,
    /// Bytes of them, as frames.
    pub bytes: u64,
    /// Data frames lost.
    pub lost: u64,
    /// Data frames that arrived with CE.
    pub marked: u64,
    /// Answers sent.
    pub acks: u64,
    /// Answers the ACK filter took.
    pub filtered: u64,
    /// Answers lost otherwise.
    pub acks_lost: u64,
    /// How long data frames waited in the discipline.
    pub sojourns: Vec<Duration>,
}

#[derive(Debug)]
struct Flow {
    sender: Sender,
    receiver: Receiver,
    spec: Spec,
    /// When it will be told of time next: sender, receiver.
    told: [Instant; 2],
    record: Record,
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    direction: Direction,
    hosts: [u32; 2],
    ds: DsField,
    half: Duration,
}

#[derive(Debug)]
enum Event {
    /// The sender of a flow is told of time.
    Sender(usize),
    /// The receiver of a flow is told of time.
    Receiver(usize),
    /// A line may go on.
    Line(Direction),
    /// A packet reaches the other end.
    Arrival(Packet),
}

impl World {
    /// Two lines and nobody who sends.
    pub fn new(down: Line, up: Line) -> Self {
        Self { now: Instant::ZERO, events: Events::new(), lines: [down, up], flows: Vec::new() }
    }

    /// A flow more; returns its number.
    pub fn add(&mut self, flow: FlowSpec) -> usize {
        let number = self.flows.len();
        let sender = match flow.sender {
            Sender::Source(source) => Sender::Source(source.starting(flow.start)),
            tcp => tcp,
        };
        let spec = Spec {
            direction: flow.direction,
            hosts: [flow.source, flow.destination],
            ds: flow.ds,
            half: Duration::from_nanos(flow.rtt.as_nanos() / 2),
        };
        self.events.schedule(flow.start, Event::Sender(number));
        let told = [flow.start, Instant::MAX];
        let receiver = Receiver::default();
        self.flows.push(Flow { sender, receiver, spec, told, record: Record::default() });
        number
    }

    /// Lets time pass.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some((at, event)) = self.events.pop(until) {
            self.now = at;
            self.happen(event);
        }
        self.now = until;
    }

    /// Forgets what was recorded: measuring begins.
    pub fn measure(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.record = Record::default());
        self.lines.iter_mut().for_each(|line| line.bytes = 0);
    }

    /// What was seen of flow `number`.
    pub fn record(&self, number: usize) -> &Record {
        &self.flows[number].record
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A line, to look at or to change.
    pub fn line(&mut self, direction: Direction) -> &mut Line {
        &mut self.lines[direction as usize]
    }

    /// Shapes a direction to another rate.
    pub fn set_rate(&mut self, direction: Direction, rate: Rate) {
        let now = self.now;
        self.line(direction).discipline.set_rate(now, rate);
        self.serve(direction);
    }

    /// Packets that entered a line and are neither there, nor left it, nor were lost: always 0.
    pub fn unaccounted(&self) -> i64 {
        let count = |line: &Line| {
            line.came as i64 - line.left as i64 - line.lost as i64 - line.discipline.packets() as i64
        };
        self.lines.iter().map(count).sum()
    }

    /// Calls that were moved to an earlier time since are passed over.
    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Sender(number) if is_due(&mut self.flows[number].told[0], now) => {
                self.flows[number].sender.on_time(now);
                self.send(number);
            }
            Event::Receiver(number) if is_due(&mut self.flows[number].told[1], now) => self.answer(number),
            Event::Line(direction) if self.lines[direction as usize].asked == now => self.serve(direction),
            Event::Arrival(packet) => self.arrive(packet),
            _ => (),
        }
    }

    fn send(&mut self, number: usize) {
        while let Some((len, body)) = self.flows[number].sender.poll(self.now) {
            let flow = &mut self.flows[number];
            flow.record.sent += 1;
            let packet = Packet { flow: number, len, ds: flow.spec.ds, sent: self.now, body };
            self.enter(packet);
        }
        let flow = &mut self.flows[number];
        self.events.tell(&mut flow.told[0], flow.sender.wants(), self.now, Event::Sender(number));
    }

    fn answer(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        if let Some(ack) = flow.receiver.poll(self.now) {
            flow.record.acks += 1;
            // ACKs are not ECN-capable (RFC 3168 section 6.1.4) and keep the DSCP.
            let ds = DsField::ip(flow.spec.ds.bits() & !3);
            let (len, body) = (ack.frame_len(), Body::Ack(ack));
            self.enter(Packet { flow: number, len, ds, sent: self.now, body });
        }
        let flow = &mut self.flows[number];
        self.events.tell(&mut flow.told[1], flow.receiver.wants(), self.now, Event::Receiver(number));
    }

    /// A packet comes to the discipline of its direction.
    fn enter(&mut self, packet: Packet) {
        let Spec { direction, hosts: [from, to], .. } = self.flows[packet.flow].spec;
        let is_answer = matches!(packet.body, Body::Ack(_));
        let (direction, from, to) =
            if is_answer { (direction.other(), to, from) } else { (direction, from, to) };
        let headers = packet.headers();
        let arrival = Arrival {
            flow_hash: mix((packet.flow as u64) << 1 | u64::from(is_answer)),
            src_hash: mix(u64::from(from) | 1 << 40),
            dst_hash: mix(u64::from(to) | 1 << 40),
            ds: packet.ds,
            network_offset: 14,
            len: packet.len,
            network: headers.as_bytes(),
            ..Arrival::default()
        };
        let len = packet.len;
        let piece = Piece::single(packet, len, MBUF);
        let line = &mut self.lines[direction as usize];
        line.came += 1;
        let mut lost = Losses { flows: &mut self.flows, count: &mut line.lost };
        line.discipline.enqueue(self.now, &arrival, piece, &mut |packet, why| lost.note(&packet, why));
        self.serve(direction);
    }

    /// Sends what is due, and arranges to be called again.
    fn serve(&mut self, direction: Direction) {
        let now = self.now;
        let line = &mut self.lines[direction as usize];
        if line.asked <= now {
            line.asked = Instant::MAX;
        }
        while line.free <= now {
            let mut lost = Losses { flows: &mut self.flows, count: &mut line.lost };
            let sent = line.discipline.dequeue(now, &mut |packet, why| lost.note(&packet, why));
            let Some(sent) = sent else { break };
            line.left += 1;
            line.bytes += u64::from(sent.len);
            line.free = now + line.span(sent.len);
            let flow = &mut self.flows[sent.packet.flow];
            if !matches!(sent.packet.body, Body::Ack(_)) {
                flow.record.sojourns.push(now.since(sent.enqueued));
            }
            let packet = Packet { ds: sent.ds, ..sent.packet };
            self.events.schedule(line.free + flow.spec.half, Event::Arrival(packet));
        }
        let busy = (line.free > now && line.discipline.packets() > 0).then_some(line.free);
        let wanted = busy.or_else(|| line.discipline.next_wakeup());
        self.events.tell(&mut line.asked, wanted, now, Event::Line(direction));
    }

    fn arrive(&mut self, packet: Packet) {
        let (now, number) = (self.now, packet.flow);
        let flow = &mut self.flows[number];
        let is_new = match packet.body {
            Body::Ack(ack) => {
                flow.sender.on_ack(now, &ack);
                return self.send(number);
            }
            Body::Datagram => true,
            Body::Segment { number, cwr } => {
                flow.receiver.on_segment(now, number, packet.ds, cwr, packet.sent)
            }
        };
        flow.record.marked += u64::from(packet.ds.ecn() == DsField::CE);
        if is_new {
            flow.record.arrived += 1;
            flow.record.bytes += u64::from(packet.len);
        }
        self.answer(number);
    }
}

impl Direction {
    /// The way back.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Down => Self::Up,
            Self::Up => Self::Down,
        }
    }
}

impl Record {
    /// Frame bytes that arrived for the first time, in bits per second over `span`.
    pub fn goodput(&self, span: Duration) -> f64 {
        self.bytes as f64 * 8e9 / span.as_nanos() as f64
    }

    /// The sojourn time that `share` (0 to 1) of the data frames did not exceed.
    pub fn sojourn(&self, share: f64) -> Duration {
        let mut sorted = self.sojourns.clone();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64) as usize;
        sorted.get(rank.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// Who is told of losses.
struct Losses<'a> {
    flows: &'a mut [Flow],
    count: &'a mut u64,
}

impl Losses<'_> {
    fn note(&mut self, packet: &Packet, why: DropReason) {
        *self.count += 1;
        let record = &mut self.flows[packet.flow].record;
        match (&packet.body, why) {
            (Body::Ack(_), DropReason::AckFilter) => record.filtered += 1,
            (Body::Ack(_), _) => record.acks_lost += 1,
            _ => record.lost += 1,
        }
    }
}

/// A hash of a number (the finalizer of SplitMix64).
pub(super) fn mix(number: u64) -> u32 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 32) as u32
}

/// Memory of a packet: one mbuf with its data room and header.
const MBUF: u32 = 2_304;
