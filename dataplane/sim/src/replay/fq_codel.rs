//! fq_codel under a trace.

use super::hashes::Hashes;
use super::out::{Doomed, Out};
use super::trace::{Packet, Settings, Trace};
use super::{Discipline, Error};
use shaper::codel::{clock, codel};
use shaper::conformance::Conformance;
use shaper::packet::{Arrival, Piece};
use shaper::qdisc::fq_codel::{FqCodel, Params};
use shaper::time::{Duration, Instant};
use std::fmt;
use std::io::{self, Write};

/// The discipline; a packet is its number.
#[derive(Debug)]
pub(super) struct Replay<C: Conformance> {
    qdisc: FqCodel<u64, C>,
    doomed: Doomed<u64>,
}

impl<C: Conformance> Replay<C> {
    pub(super) fn new(trace: &Trace) -> Result<Self, Error> {
        let config = &trace.config;
        config.only(
            &[&["qdisc", "mtu", "hdr", "seed16", "seed32", "rand16", "rand32", "flows"], KEYS].concat(),
        )?;
        let mtu = config.number("mtu")?.unwrap_or(1_500u32);
        let header = config.number("hdr")?.unwrap_or(14u32);
        let mut params = Params::for_mtu(mtu.saturating_add(header));
        params.handle = Some(HANDLE);
        params.flows = config.number("flows")?.unwrap_or(params.flows);
        apply(config, &mut params)?;
        let qdisc = FqCodel::new(&params, trace.arrivals()).map_err(|error| config.place.error(error))?;
        Ok(Self { qdisc, doomed: Doomed::new() })
    }
}

impl<C: Conformance> Discipline for Replay<C> {
    fn enqueue(
        &mut self,
        now: Instant,
        packet: &Packet,
        hashes: Hashes,
        out: &mut Out<impl Write>,
    ) -> io::Result<()> {
        let arrival = Arrival {
            flow_hash: hashes.flow,
            ds: packet.ds,
            network_offset: 14,
            mark: packet.mark,
            priority: packet.priority,
            ..Arrival::default()
        };
        let piece = Piece {
            segs: packet.segs(),
            gso_size: packet.gso_size,
            header_len: packet.header_len() as u16,
            ..Piece::single(packet.id, packet.len, packet.truesize)
        };
        self.doomed.clear();
        let mut doomed = |id, reason| self.doomed.push((id, reason));
        let result = self.qdisc.enqueue(now, &arrival, std::iter::once(piece), &mut doomed);
        out.enqueued(now, packet.id, &result, hashes, &self.doomed)
    }

    fn dequeue(&mut self, now: Instant, out: &mut Out<impl Write>) -> io::Result<()> {
        self.doomed.clear();
        let delivery = self.qdisc.dequeue(now, &mut |id, reason| self.doomed.push((id, reason)));
        let became_ce = delivery.as_ref().is_some_and(|delivery| delivery.rewrite);
        out.dequeued(now, delivery.as_ref(), became_ce, None, &self.doomed)
    }

    fn change(&mut self, now: Instant, settings: &Settings, out: &mut Out<impl Write>) -> Result<(), Error> {
        settings.only(&[&["flows"], KEYS].concat())?;
        let mut params = *self.qdisc.params();
        apply(settings, &mut params)?;
        self.doomed.clear();
        let mut doomed = |id, reason| self.doomed.push((id, reason));
        let refused =
            settings.text("flows").is_some() || self.qdisc.change(now, &params, &mut doomed).is_err();
        Ok(out.changed(now, refused, &self.doomed)?)
    }

    fn statistics(&self, out: &mut Out<impl Write>) -> io::Result<()> {
        out.line(self)
    }
}

impl<C: Conformance> fmt::Display for Replay<C> {
    /// The `stat` line. Times are in ticks of 1024 ns whatever the conformance reckons in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.qdisc.stats();
        let Params { quantum, codel: codel::Params { target, interval, ce_threshold, mtu, .. }, .. } =
            self.qdisc.params();
        write!(f, "stat qlen={} backlog={} drops={} ", stats.qlen, stats.backlog, stats.drops)?;
        write!(f, "sent_pkts={} sent_bytes={} ", stats.sent_pkts, stats.sent_bytes)?;
        write!(f, "maxpacket={} drop_overlimit={} ", stats.maxpacket, stats.drop_overlimit)?;
        write!(f, "drop_overmemory={} ecn_mark={} ", stats.drop_overmemory, stats.ecn_mark)?;
        write!(f, "ce_mark={} new_flow_count={} ", stats.ce_mark, stats.new_flow_count)?;
        write!(f, "new_flows_len={} old_flows_len={} ", stats.new_flows_len, stats.old_flows_len)?;
        write!(f, "memory_usage={} ", stats.memory_usage)?;
        write!(f, "target={} interval={} ", ticks(*target), ticks(*interval))?;
        write!(f, "ce_threshold={} mtu={mtu} quantum={quantum} ", ce_threshold.map_or(OFF, ticks))?;
        write!(f, "tree_n={} tree_len={}", stats.tree_n, stats.tree_len)
    }
}

/// Sets what `settings` gives and leaves the rest.
fn apply(settings: &Settings, params: &mut Params) -> Result<(), Error> {
    let Params { limit, quantum, drop_batch, memory_limit, codel, .. } = params;
    for (key, place) in
        [("limit", limit), ("quantum", quantum), ("drop_batch", drop_batch), ("memory_limit", memory_limit)]
    {
        *place = settings.number(key)?.unwrap_or(*place);
    }
    codel.target = settings.micros("target")?.unwrap_or(codel.target);
    codel.interval = settings.micros("interval")?.unwrap_or(codel.interval);
    codel.ce_threshold = settings.micros("ce_threshold")?.or(codel.ce_threshold);
    codel.ce_selector = settings.bits("ce_selector")?.unwrap_or(codel.ce_selector);
    codel.ce_mask = settings.bits("ce_mask")?.unwrap_or(codel.ce_mask);
    codel.ecn = settings.switch("ecn")?.unwrap_or(codel.ecn);
    Ok(())
}

fn ticks(span: Duration) -> u32 {
    <clock::Ticks as clock::Clock>::span(span)
}

/// What `cfg` and `chg` may both set.
const KEYS: &[&str] = &[
    "limit",
    "quantum",
    "drop_batch",
    "memory_limit",
    "target",
    "interval",
    "ce_threshold",
    "ce_selector",
    "ce_mask",
    "ecn",
];

/// Major number of the recorded discipline.
const HANDLE: u16 = 0x8001;

/// How the recorder prints a `ce_threshold` that is off.
const OFF: u32 = i32::MAX as u32;
