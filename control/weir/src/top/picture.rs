//! What two readings of an instance say of the time between them.

use crate::report::{
    DirectionReport, FlowReport, FlowsReport, HostReport, LinkReport, Load, Report, TinReport, TxQueueReport,
    WorkerReport,
};
use crate::telemetry::delays::{Delays, Kind};
use crate::top::fetch::Reading;

/// All that is shown.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Name of the instance.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since its packets began to flow.
    pub uptime_s: f64,
    /// Directions and their tins.
    pub queues: Vec<QueueRow>,
    /// Transmit queues.
    pub rings: Vec<RingRow>,
    /// Workers.
    pub lcores: Vec<LcoreRow>,
    /// Flows, hosts that send, hosts that receive.
    pub talkers: [Vec<TalkerRow>; 3],
}

/// A direction, or one of its tins.
#[derive(Clone, Debug, Default)]
pub struct QueueRow {
    /// Link and direction, or the tin.
    pub name: String,
    /// Whether it is a tin of the direction above.
    pub is_tin: bool,
    /// Bit/s sent.
    pub rate: f64,
    /// Bit/s that it may send; of a tin, above which it gives way.
    pub limit: Option<u64>,
    /// Bytes that wait.
    pub backlog: u64,
    /// How long packets waited.
    pub sojourn: Option<Percentiles>,
    /// Packets lost in a second.
    pub drops: f64,
    /// Packets marked in a second.
    pub marks: f64,
    /// Packets sent in a second; of a tin, queued.
    pub packets: f64,
}

/// What half, 99 % and 99.9 % of the packets took at most, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// Half of them.
    pub p50: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
}

/// A transmit queue.
#[derive(Clone, Debug, Default)]
pub struct RingRow {
    /// Link and direction that sends by it.
    pub name: String,
    /// The limit in bytes, where one holds.
    pub limit: Option<u32>,
    /// Bytes in it.
    pub in_flight: u64,
    /// From submission to completion.
    pub residence: Option<Percentiles>,
    /// Bit/s that it drains at.
    pub drain_rate: Option<u64>,
    /// How completions are seen.
    pub source: String,
    /// Whether its link is up.
    pub is_up: bool,
}

/// A worker.
#[derive(Clone, Debug, Default)]
pub struct LcoreRow {
    /// Its lcore.
    pub lcore: u32,
    /// Share of the time that it moved packets in, percent.
    pub busy: f64,
    /// Cycles that a packet took.
    pub cycles: Option<f64>,
    /// Packets received in a second.
    pub packets: f64,
    /// Gaps of more than 50 us in its polling, in a second.
    pub gaps: f64,
    /// Share of the time in such gaps, percent.
    pub away: f64,
    /// The worst since the start, in microseconds.
    pub worst_us: u64,
}

/// A flow or a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TalkerRow {
    /// Link and direction.
    pub direction: String,
    /// Who sends, with the port. Of hosts: the host.
    pub source: Endpoint,
    /// Who receives; hosts have none.
    pub destination: Option<Endpoint>,
    /// Protocol and address space.
    pub suffix: String,
    /// How much.
    pub load: Load,
}

/// One end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: String,
    /// Its port, if it has one.
    pub port: Option<u16>,
}

impl Picture {
    /// The time from `before` to `now`; without a reading before, or with one of another process, nothing has
    /// a rate.
    pub fn between(before: Option<&Reading>, now: &Reading) -> Self {
        let same = |before: &&Reading| {
            before.report.pid == now.report.pid && before.report.uptime_s <= now.report.uptime_s
        };
        let start = Reading { report: now.report.clone(), ..Reading::default() };
        let before = before.filter(same).unwrap_or(&start);
        let seconds = now.report.uptime_s - before.report.uptime_s;
        let span = Span { seconds, delays: now.delays.since(&before.delays) };
        let pairs: Vec<_> =
            now.report.links.iter().map(|link| (link, earlier(&before.report, link))).collect();
        Self {
            name: now.report.name.clone(),
            pid: now.report.pid,
            uptime_s: now.report.uptime_s,
            queues: pairs.iter().flat_map(|(link, old)| span.queues(link, old)).collect(),
            rings: pairs.iter().flat_map(|(link, _)| span.rings(link)).collect(),
            lcores: now.report.workers.iter().map(|worker| span.lcore(worker, &before.report)).collect(),
            talkers: talkers(&now.flows),
        }
    }
}

/// The time between two readings.
struct Span {
    seconds: f64,
    delays: Delays,
}

impl Span {
    /// How often a second.
    fn rate(&self, before: u64, now: u64) -> f64 {
        if self.seconds > 0.0 { now.saturating_sub(before) as f64 / self.seconds } else { 0.0 }
    }

    /// How long packets took.
    fn took(&self, link: &str, direction: &str, tin: Option<&str>, kind: Kind) -> Option<Percentiles> {
        let delay = self.delays.histograms.iter().find(|delay| {
            delay.link == link
                && delay.direction == direction
                && delay.tin.as_deref() == tin
                && delay.kind == kind
        });
        let delay = delay.filter(|delay| delay.count > 0)?;
        Some(Percentiles { p50: delay.p50, p99: delay.p99, p999: delay.p999 })
    }

    fn queues(&self, link: &LinkReport, before: &LinkReport) -> Vec<QueueRow> {
        let mut rows = Vec::new();
        for now in &link.directions {
            let none = DirectionReport::default();
            let old = before.directions.iter().find(|old| old.direction == now.direction).unwrap_or(&none);
            rows.push(self.direction(&link.name, old, now));
            for tin in &now.tins {
                let none = TinReport::default();
                let old = old.tins.iter().find(|old| old.name == tin.name).unwrap_or(&none);
                let sojourn = self.took(&link.name, &now.direction, Some(&tin.name), Kind::Sojourn);
                rows.push(self.tin(sojourn, old, tin));
            }
        }
        rows
    }

    fn direction(&self, link: &str, old: &DirectionReport, now: &DirectionReport) -> QueueRow {
        QueueRow {
            name: format!("{link}/{} {}", now.direction, now.kind),
            is_tin: false,
            rate: 8.0 * self.rate(old.sent.bytes, now.sent.bytes),
            limit: now.bandwidth,
            backlog: now.backlog.bytes,
            sojourn: self.took(link, &now.direction, None, Kind::Sojourn),
            drops: self.rate(old.dropped.packets, now.dropped.packets),
            marks: self.rate(marks(old), marks(now)),
            packets: self.rate(old.sent.packets, now.sent.packets),
        }
    }

    fn tin(&self, sojourn: Option<Percentiles>, old: &TinReport, now: &TinReport) -> QueueRow {
        QueueRow {
            name: now.name.clone(),
            is_tin: true,
            rate: 8.0 * self.rate(old.delivered_bytes, now.delivered_bytes),
            limit: Some(now.threshold_rate.saturating_mul(8)).filter(|rate| *rate > 0),
            backlog: now.backlog_bytes,
            sojourn,
            drops: self.rate(old.drops + old.ack_drops, now.drops + now.ack_drops),
            marks: self.rate(old.ecn_mark, now.ecn_mark),
            packets: self.rate(old.sent_packets, now.sent_packets),
        }
    }

    fn rings(&self, link: &LinkReport) -> Vec<RingRow> {
        let sides = [("up", &link.b), ("down", &link.a)];
        let mut rows = Vec::new();
        for (direction, port) in sides {
            for queue in &port.tx_queues {
                rows.push(self.ring(&link.name, direction, queue, port.link_up));
            }
        }
        rows
    }

    fn ring(&self, link: &str, direction: &str, queue: &TxQueueReport, is_up: bool) -> RingRow {
        RingRow {
            name: format!("{link}/{direction}"),
            limit: queue.binds.then_some(queue.limit),
            in_flight: queue.in_flight,
            residence: self.took(link, direction, None, Kind::Residence),
            drain_rate: queue.drain_rate,
            source: queue.source.clone(),
            is_up,
        }
    }

    fn lcore(&self, now: &WorkerReport, before: &Report) -> LcoreRow {
        let old = before.workers.iter().find(|old| old.lcore == now.lcore).unwrap_or(now);
        let busy_us = now.busy_us.saturating_sub(old.busy_us) as f64;
        let time_us = now.time_us.saturating_sub(old.time_us).max(1) as f64;
        let packets = now.packets.saturating_sub(old.packets);
        let (gaps, gaps_before) = (&now.poll_gaps, &old.poll_gaps);
        LcoreRow {
            lcore: now.lcore,
            busy: 100.0 * busy_us / time_us,
            cycles: (packets > 0).then(|| busy_us * now.tsc_hz as f64 / 1e6 / packets as f64),
            packets: self.rate(old.packets, now.packets),
            gaps: self.rate(gaps_before.over_50us, gaps.over_50us),
            away: 100.0 * gaps.total_us.saturating_sub(gaps_before.total_us) as f64 / time_us,
            worst_us: gaps.max_us,
        }
    }
}

/// The link as it was.
fn earlier(report: &Report, link: &LinkReport) -> LinkReport {
    report.links.iter().find(|old| old.name == link.name).cloned().unwrap_or_default()
}

fn marks(direction: &DirectionReport) -> u64 {
    let of = |name| direction.qdisc.get(name).copied().unwrap_or(0);
    let tins: u64 = direction.tins.iter().map(|tin| tin.ecn_mark).sum();
    tins + of("ecn_mark") + of("ce_mark")
}

fn talkers(report: &FlowsReport) -> [Vec<TalkerRow>; 3] {
    let mut rows = [const { Vec::new() }; 3];
    for direction in &report.directions {
        let name = format!("{}/{}", direction.link, direction.direction);
        let [flows, senders, receivers] = &mut rows;
        flows.extend(direction.flows.iter().map(|row| flow(&name, row)));
        senders.extend(direction.senders.iter().map(|row| host(&name, row)));
        receivers.extend(direction.receivers.iter().map(|row| host(&name, row)));
    }
    rows
}

fn flow(direction: &str, flow: &FlowReport) -> TalkerRow {
    let suffix = match flow.id {
        Some(id) => format!("{} {id:#x} {}", flow.protocol, flow.scope),
        None => format!("{} {}", flow.protocol, flow.scope),
    };
    TalkerRow {
        direction: direction.to_owned(),
        source: Endpoint { address: flow.source.clone(), port: flow.source_port },
        destination: Some(Endpoint { address: flow.destination.clone(), port: flow.destination_port }),
        suffix: suffix.trim_end().to_owned(),
        load: flow.load,
    }
}

fn host(direction: &str, host: &HostReport) -> TalkerRow {
    TalkerRow {
        direction: direction.to_owned(),
        source: Endpoint { address: host.host.clone(), port: None },
        destination: None,
        suffix: host.scope.clone(),
        load: host.load,
    }
}

impl TalkerRow {
    /// Everything that tells it from others, in at most `width` characters: long addresses lose their middle.
    pub fn label(&self, width: usize) -> String {
        let lens = [Some(&self.source), self.destination.as_ref()]
            .map(|end| end.map_or(0, |end| end.address.chars().count()));
        let rest = self.write([0, 0]).chars().count();
        self.write(share(width.saturating_sub(rest), lens))
    }

    fn write(&self, rooms: [usize; 2]) -> String {
        let mut text = self.source.write(rooms[0]);
        if let Some(destination) = &self.destination {
            text += " > ";
            text += &destination.write(rooms[1]);
        }
        if !self.suffix.is_empty() {
            text.push(' ');
            text += &self.suffix;
        }
        text
    }
}

/// Room for two texts of these lengths: what the one does not need is the other's.
fn share(room: usize, lens: [usize; 2]) -> [usize; 2] {
    let half = room / 2;
    match lens {
        [first, _] if first <= half => [first, room - first],
        [_, second] if second <= half => [room - second, second],
        _ => [half, room - half],
    }
}

impl Endpoint {
    fn write(&self, room: usize) -> String {
        let address = shorten(&self.address, room);
        match self.port {
            Some(port) if self.address.contains(':') => format!("[{address}]:{port}"),
            Some(port) => format!("{address}:{port}"),
            None => address,
        }
    }
}

/// `text` in at most `room` characters, without its middle.
pub fn shorten(text: &str, room: usize) -> String {
    let count = text.chars().count();
    if count <= room {
        return text.to_owned();
    }
    let Some(kept) = room.checked_sub(1) else { return String::new() };
    let head = kept / 2;
    let tail = count - (kept - head);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(tail)).collect()
}
