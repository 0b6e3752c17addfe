//! The report as text.

use super::{DirectionReport, LinkReport, PortReport, Report, SojournReport, WorkerReport, supers, tins};
use std::fmt::{self, Display, Formatter};

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
    let own = d.limiter.as_ref().map_or(0, |limiter| limiter.losses);
    let overlimits = d.qdisc.get("overlimits").copied().unwrap_or(own);
    writeln!(
        f,
        " Sent {} bytes {} pkt (dropped {}, overlimits {} requeues {})",
        d.sent.bytes, d.sent.packets, d.dropped.packets, overlimits, d.requeues
    )?;
    writeln!(f, " backlog {}b {}p requeues {}", d.backlog.bytes, d.backlog.packets, d.requeues)?;
    if d.tins.is_empty() {
        write_counters(f, d)?;
    } else {
        tins::write(f, &d.qdisc, &d.tins)?;
    }
    for (what, delays) in [("sojourn", &d.sojourn), ("residence", &d.residence), ("total", &d.total)] {
        if delays.packets > 0 {
            write_delays(f, what, delays)?;
        }
    }
    write!(f, " received {} bytes {} pkt", d.received.bytes, d.received.packets)?;
    for (what, count) in [("added by cutting", d.added), ("removed by merging", d.removed)] {
        if count.packets + count.bytes > 0 {
            write!(f, ", {what} {} bytes {} pkt", count.bytes, count.packets)?;
        }
    }
    writeln!(f)?;
    for (reason, count) in &d.losses {
        writeln!(f, " dropped {reason}: {} bytes {} pkt", count.bytes, count.packets)?;
    }
    supers::write(f, &d.supers)?;
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

fn write_counters(f: &mut Formatter<'_>, d: &DirectionReport) -> fmt::Result {
    let mut stats = d.qdisc.iter().peekable();
    while stats.peek().is_some() {
        let line: Vec<_> =
            stats.by_ref().take(STATS_A_LINE).map(|(name, value)| format!("{name} {value}")).collect();
        writeln!(f, "  {}", line.join(" "))?;
    }
    Ok(())
}

fn write_delays(f: &mut Formatter<'_>, what: &str, delays: &SojournReport) -> fmt::Result {
    write!(f, " {what} of {} pkt:", delays.packets)?;
    for (name, micros) in delays.rows() {
        write!(f, " {name} {}", Micros(micros))?;
    }
    writeln!(f)
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
    writeln!(f, " mbufs {} of {} in use", port.pool_in_use, port.pool_size)?;
    writeln!(f, " {}", port.offload)?;
    port.tx_queues.iter().try_for_each(|queue| write!(f, "{queue}"))
}

fn write_worker(f: &mut Formatter<'_>, worker: &WorkerReport) -> fmt::Result {
    let gaps = &worker.poll_gaps;
    writeln!(
        f,
        "lcore {}: clock {} turns {} idle {} sleeps {}",
        worker.lcore, worker.clock, worker.turns, worker.idle_turns, worker.sleeps
    )?;
    write!(f, " busy {:.1} % of {:.1} s", worker.busy_percent(), worker.time_us as f64 / 1e6)?;
    match worker.cycles_per_packet() {
        Some(cycles) => writeln!(f, ", {cycles} cycles per packet")?,
        None => writeln!(f)?,
    }
    writeln!(
        f,
        " poll gaps: {} over 50 us, {} over 1 ms, max {} us, together {} us",
        gaps.over_50us, gaps.over_1ms, gaps.max_us, gaps.total_us
    )
}

impl SojournReport {
    /// Name and microseconds of each figure.
    pub(super) fn rows(&self) -> [(&'static str, u64); 5] {
        [
            ("p50", self.p50_us),
            ("p90", self.p90_us),
            ("p99", self.p99_us),
            ("p99.9", self.p999_us),
            ("max", self.max_us),
        ]
    }
}

/// A rate in bit/s: the largest unit in which it is whole, or has five digits.
pub(super) struct Bits(pub(super) u64);

impl Display for Bits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (mut value, mut units) = (self.0, ["bit", "Kbit", "Mbit", "Gbit", "Tbit"].into_iter());
        let mut unit = units.next().unwrap_or_default();
        while value >= 1_000 && (value % 1_000 == 0 || value >= 100_000) {
            let Some(larger) = units.next() else { break };
            (value, unit) = (value / 1_000, larger);
        }
        f.pad(&format!("{value}{unit}"))
    }
}

/// A time in microseconds, to three digits.
pub(super) struct Micros(pub(super) u64);

impl Display for Micros {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            micros if micros >= 1_000_000 => (micros as f64 / 1e6, "s"),
            micros if micros >= 1_000 => (micros as f64 / 1e3, "ms"),
            micros => return f.pad(&format!("{micros}us")),
        };
        let decimals = if value >= 100.0 {
            0
        } else if value >= 10.0 {
            1
        } else {
            2
        };
        let digits = format!("{value:.decimals$}");
        let digits =
            if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
        f.pad(&format!("{digits}{unit}"))
    }
}

/// Counters of a discipline on one line: what fits 100 columns.
const STATS_A_LINE: usize = 5;
