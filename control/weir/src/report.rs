//! What `weir show` shows: the document that travels over the socket, and its text form in the
//! shape of `tc -s qdisc show`.

use engine::counters::Tally;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Everything one instance knows. All counters only rise, from 0 at start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// weir's version.
    pub version: String,
    /// The DPDK that runs.
    pub dpdk: String,
    /// Name of the instance.
    pub name: String,
    /// The configuration file.
    pub config: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since packets began to flow.
    pub uptime_s: f64,
    /// The links, in the order of the file.
    pub links: Vec<LinkReport>,
    /// The workers.
    pub workers: Vec<WorkerReport>,
}

/// One link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// Port `a`.
    pub a: PortReport,
    /// Port `b`.
    pub b: PortReport,
    /// The directions that forward: `up` (a to b), `down` (b to a).
    pub directions: Vec<DirectionReport>,
}

/// One port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortReport {
    /// DPDK's name of the device.
    pub device: String,
    /// The driver.
    pub driver: String,
    /// MTU in bytes.
    pub mtu: u16,
    /// Whether the link is up.
    pub link_up: bool,
    /// Link speed in Mbit/s, where the driver knows one.
    pub speed_mbps: Option<u32>,
    /// Packets the driver received.
    pub ipackets: u64,
    /// Packets the driver sent.
    pub opackets: u64,
    /// Packets lost before they reached weir because the receive ring was full.
    pub imissed: u64,
    /// Packets lost before they reached weir because no buffer was free.
    pub rx_nombuf: u64,
    /// Erroneous packets received.
    pub ierrors: u64,
    /// Packets the driver failed to send.
    pub oerrors: u64,
    /// Buffers in the receive pool.
    pub pool_size: u32,
    /// Buffers of it in use.
    pub pool_in_use: u32,
}

/// One direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectionReport {
    /// `up` or `down`.
    pub direction: String,
    /// Device it receives from.
    pub from: String,
    /// Device it sends to.
    pub to: String,
    /// Name of the discipline, as `tc` has it.
    pub kind: String,
    /// Its options, as `tc` prints them.
    pub options: String,
    /// The rate in bit/s; none: as fast as the wire takes it.
    pub bandwidth: Option<u64>,
    /// Taken from the receive queue.
    pub received: Count,
    /// Taken by the transmit queue.
    pub sent: Count,
    /// Lost in between; received = sent + dropped + backlog.
    pub dropped: Count,
    /// The losses by reason, those that happened.
    pub losses: BTreeMap<String, Count>,
    /// Waiting now.
    pub backlog: Count,
    /// Frames that went through the control queue.
    pub control: Count,
    /// Control frames that found it full and were treated as data.
    pub control_spilled: Count,
    /// Frames sent with a rewritten DS field.
    pub rewritten: u64,
    /// Frames whose DS field could not be rewritten.
    pub rewrite_failed: u64,
    /// Transmit bursts that the driver took only in part.
    pub requeues: u64,
    /// The discipline's own counters, named as `tc -s -j` names them.
    pub qdisc: BTreeMap<String, u64>,
    /// The rate limiter's.
    pub limiter: Option<LimiterReport>,
}

/// What became of our own lateness.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LimiterReport {
    /// Time given up because it was more than `catch-up`, in microseconds.
    pub lost_us: u64,
    /// How often.
    pub losses: u64,
    /// The furthest behind schedule a frame was sent, in microseconds.
    pub late_max_us: u64,
}

/// One worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its lcore.
    pub lcore: u32,
    /// Where it reads the time.
    pub clock: String,
    /// Turns of the loop.
    pub turns: u64,
    /// Turns that moved nothing.
    pub idle_turns: u64,
    /// Sleeps (`poll = "adaptive"`).
    pub sleeps: u64,
    /// Gaps in its polling.
    pub poll_gaps: PollGaps,
    /// Times the clock ran backward.
    pub clock_backward: u64,
    /// Times it leapt forward by more than a second.
    pub clock_jumps: u64,
}

/// Gaps in a worker's polling: it was descheduled, or a turn took long.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PollGaps {
    /// Longer than 50 µs.
    pub over_50us: u64,
    /// Longer than 1 ms.
    pub over_1ms: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
    /// All that are longer than 50 µs together, in microseconds.
    pub total_us: u64,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Frame bytes, without FCS.
    pub bytes: u64,
}

impl From<Tally> for Count {
    fn from(tally: Tally) -> Self {
        Self { packets: tally.packets, bytes: tally.bytes }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for link in &self.links {
            for direction in &link.directions {
                write_direction(f, link, direction)?;
            }
            for (side, port) in [("a", &link.a), ("b", &link.b)] {
                write_port(f, &link.name, side, port)?;
            }
        }
        for worker in &self.workers {
            write_worker(f, worker)?;
        }
        Ok(())
    }
}

fn write_direction(f: &mut Formatter<'_>, link: &LinkReport, d: &DirectionReport) -> fmt::Result {
    write!(f, "qdisc {} {}/{}: {} -> {}", d.kind, link.name, d.direction, d.from, d.to)?;
    match d.bandwidth {
        Some(bits) => write!(f, " bandwidth {}", Bits(bits))?,
        None => write!(f, " bandwidth unlimited")?,
    }
    writeln!(f, " {}", d.options)?;
    let overlimits = d.limiter.as_ref().map_or(0, |limiter| limiter.losses);
    writeln!(
        f,
        " Sent {} bytes {} pkt (dropped {}, overlimits {} requeues {})",
        d.sent.bytes, d.sent.packets, d.dropped.packets, overlimits, d.requeues
    )?;
    writeln!(f, " backlog {}b {}p requeues {}", d.backlog.bytes, d.backlog.packets, d.requeues)?;
    let mut stats = d.qdisc.iter().peekable();
    while stats.peek().is_some() {
        let line: Vec<_> =
            stats.by_ref().take(STATS_A_LINE).map(|(name, value)| format!("{name} {value}")).collect();
        writeln!(f, "  {}", line.join(" "))?;
    }
    writeln!(f, " received {} bytes {} pkt", d.received.bytes, d.received.packets)?;
    for (reason, count) in &d.losses {
        writeln!(f, " dropped {reason}: {} bytes {} pkt", count.bytes, count.packets)?;
    }
    if d.control.packets + d.control_spilled.packets > 0 {
        writeln!(
            f,
            " control {} bytes {} pkt, spilled {}",
            d.control.bytes, d.control.packets, d.control_spilled.packets
        )?;
    }
    if d.rewritten + d.rewrite_failed > 0 {
        writeln!(f, " DS field rewritten {}, failed {}", d.rewritten, d.rewrite_failed)?;
    }
    if let Some(limiter) = &d.limiter {
        writeln!(
            f,
            " lateness lost {} us in {} losses, max {} us",
            limiter.lost_us, limiter.losses, limiter.late_max_us
        )?;
    }
    Ok(())
}

fn write_port(f: &mut Formatter<'_>, link: &str, side: &str, port: &PortReport) -> fmt::Result {
    let state = if port.link_up { "up" } else { "down" };
    let speed = port.speed_mbps.map(|speed| format!(" {speed}Mbit/s")).unwrap_or_default();
    writeln!(
        f,
        "port {link}/{side}: {} ({}) link {state}{speed} mtu {}",
        port.device, port.driver, port.mtu
    )?;
    writeln!(
        f,
        " rx {} pkt, before the AQM lost: imissed {} rx_nombuf {} ierrors {}; tx {} pkt, oerrors {}",
        port.ipackets, port.imissed, port.rx_nombuf, port.ierrors, port.opackets, port.oerrors
    )?;
    writeln!(f, " mbufs {} of {} in use", port.pool_in_use, port.pool_size)
}

fn write_worker(f: &mut Formatter<'_>, worker: &WorkerReport) -> fmt::Result {
    let gaps = &worker.poll_gaps;
    writeln!(
        f,
        "lcore {}: clock {} turns {} idle {} sleeps {}",
        worker.lcore, worker.clock, worker.turns, worker.idle_turns, worker.sleeps
    )?;
    writeln!(
        f,
        " poll gaps: {} over 50 us, {} over 1 ms, max {} us, together {} us",
        gaps.over_50us, gaps.over_1ms, gaps.max_us, gaps.total_us
    )
}

/// A rate as `tc` prints it.
struct Bits(u64);

impl Display for Bits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            bits if bits % 1_000_000_000 == 0 => write!(f, "{}Gbit", bits / 1_000_000_000),
            bits if bits % 1_000_000 == 0 => write!(f, "{}Mbit", bits / 1_000_000),
            bits if bits % 1_000 == 0 => write!(f, "{}Kbit", bits / 1_000),
            bits => write!(f, "{bits}bit"),
        }
    }
}

/// Counters of a discipline on one line: what fits 100 columns.
const STATS_A_LINE: usize = 5;
