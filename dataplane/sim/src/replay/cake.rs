//! cake under a trace. Super-packets are cut by arithmetic, as the recorder did.

use super::hashes::Hashes;
use super::out::{Doomed, Out};
use super::tcp::Tcp;
use super::trace::{EventKind, Packet, Proto, Settings, Trace};
use super::{Discipline, Error};
use shaper::conformance::Conformance;
use shaper::packet::{Arrival, DropReason, DsField, Piece, Verdict};
use shaper::qdisc::cake::{AckFilter, Cake, Diffserv, FlowMode, Params, TinStats};
use shaper::rate::Framing;
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;

/// The discipline.
#[derive(Debug)]
pub(super) struct Replay<C: Conformance> {
    qdisc: Cake<Id, C>,
    split_gso: bool,
    rng: TraceRng,
    doomed: Doomed<Id>,
}

/// A packet, or the `k`th piece of one.
#[derive(Clone, Copy, Debug)]
struct Id {
    packet: u64,
    piece: Option<u32>,
    ds: DsField,
}

/// Random streams, each of which a trace may fix to one value.
#[derive(Debug)]
struct TraceRng {
    streams: SplitMix,
    fixed16: Option<u16>,
    fixed32: Option<u32>,
}

impl<C: Conformance> Replay<C> {
    pub(super) fn new(trace: &Trace) -> Result<Self, Error> {
        let config = &trace.config;
        config.only(&[&["qdisc", "mtu", "hdr", "seed16", "seed32", "rand16", "rand32"], KEYS].concat())?;
        let mtu = config.number("mtu")?.unwrap_or(1_500u32);
        let header = config.number("hdr")?.unwrap_or(14u32);
        let mut params =
            Params { handle: Some(HANDLE), max_frame: mtu.saturating_add(header), ..Params::default() };
        apply(config, &mut params)?;
        let seeds = (config.number("seed16")?.unwrap_or(1), config.number("seed32")?.unwrap_or(2));
        Ok(Self {
            qdisc: Cake::new(&params, slots(trace)),
            split_gso: config.switch("split_gso")?.unwrap_or(true),
            rng: TraceRng {
                streams: SplitMix::new(seeds.0, seeds.1),
                fixed16: config.number("rand16")?,
                fixed32: config.number("rand32")?,
            },
            doomed: Doomed::new(),
        })
    }

    /// Prints an arrival that could not be cut, as the recorder does: it has no queue.
    fn uncuttable(
        now: Instant,
        packet: &Packet,
        hashes: Hashes,
        out: &mut Out<impl Write>,
    ) -> io::Result<()> {
        let (now, id, Hashes { flow, src, dst }) = (now.as_nanos(), packet.id, hashes);
        out.line(format_args!("enq {now} {id} drop q=-1:-1 fh={flow:08x} sh={src:08x} dh={dst:08x}"))?;
        out.line(format_args!("drop {now} {id} overflow"))
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
        let pieces = pieces(packet, self.split_gso);
        let network = network_bytes(packet);
        let arrival = Arrival {
            flow_hash: hashes.flow,
            src_hash: hashes.src,
            dst_hash: hashes.dst,
            ds: packet.ds,
            network_offset: 14,
            len: whole(packet).len(),
            mark: packet.mark,
            priority: packet.priority,
            network: &network,
            ..Arrival::default()
        };
        self.doomed.clear();
        let mut doomed = |id, reason| self.doomed.push((id, reason));
        let is_uncuttable = pieces.is_empty();
        let result = self.qdisc.enqueue(now, &mut self.rng, &arrival, pieces.into_iter(), &mut doomed);
        if is_uncuttable && result.verdict == Verdict::Dropped {
            return Self::uncuttable(now, packet, hashes, out);
        }
        out.enqueued(now, packet.id, &result, hashes, &self.doomed)
    }

    fn dequeue(&mut self, now: Instant, out: &mut Out<impl Write>) -> io::Result<()> {
        self.doomed.clear();
        let mut doomed = |id, reason: DropReason| self.doomed.push((id, reason));
        let delivery = self.qdisc.dequeue(now, &mut self.rng, &mut doomed);
        let became_ce = delivery
            .as_ref()
            .is_some_and(|it| it.ds.ecn() == DsField::CE && it.packet.ds.ecn() != DsField::CE);
        out.dequeued(now, delivery.as_ref(), became_ce, self.qdisc.next_wakeup(), &self.doomed)
    }

    fn change(&mut self, now: Instant, settings: &Settings, out: &mut Out<impl Write>) -> Result<(), Error> {
        settings.only(KEYS)?;
        let mut params = *self.qdisc.params();
        apply(settings, &mut params)?;
        self.split_gso = settings.switch("split_gso")?.unwrap_or(self.split_gso);
        self.doomed.clear();
        self.qdisc.change(now, &params, &mut |id, reason| self.doomed.push((id, reason)));
        if settings.text("overhead").or(settings.text("raw")).is_some() {
            self.qdisc.restart_length_stats();
        }
        Ok(out.changed(now, false, &self.doomed)?)
    }

    fn statistics(&self, out: &mut Out<impl Write>) -> io::Result<()> {
        out.line(self)?;
        for (number, tin) in self.qdisc.stats().tins().iter().enumerate() {
            out.line(format_args!("stat tin={number} {}", TinLine(tin)))?;
        }
        Ok(())
    }
}

impl<C: Conformance> fmt::Display for Replay<C> {
    /// The first `stat` line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.qdisc.stats();
        write!(f, "stat qlen={} backlog={} drops={} ", stats.qlen, stats.backlog, stats.drops)?;
        write!(f, "overlimits={} sent_pkts={} ", stats.overlimits, stats.packets)?;
        write!(f, "sent_bytes={} mem_used={} ", stats.bytes, stats.memory_used)?;
        write!(f, "mem_max={} mem_limit={} ", stats.memory_max, stats.memory_limit)?;
        write!(f, "avg_netoff={} ", stats.avg_hdr_offset)?;
        write!(f, "max_netlen={} min_netlen={} ", stats.max_network_size, stats.min_network_size)?;
        write!(f, "max_adjlen={} min_adjlen={} ", stats.max_adj_size, stats.min_adj_size)?;
        write!(f, "capacity={} ", stats.capacity_estimate)?;
        write!(f, "rate_ns={} rate_shft={} ", stats.rate_ns, stats.rate_shift)?;
        write!(f, "tree_n={} tree_len={}", stats.tree_packets, stats.tree_bytes)
    }
}

struct TinLine<'a>(&'a TinStats);

impl fmt::Display for TinLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tin = self.0;
        let ns = Duration::as_nanos;
        write!(f, "rate_Bps={} target_ns={} ", tin.threshold_rate, ns(tin.target))?;
        write!(f, "interval_ns={} mtu_time={} ", ns(tin.interval), ns(tin.mtu_time))?;
        write!(f, "quantum={} tin_quantum={} ", tin.flow_quantum, tin.tin_quantum)?;
        write!(f, "packets={} bytes={} ", tin.sent_packets, tin.sent_bytes)?;
        write!(f, "backlog={} dropped={} ", tin.backlog_bytes, tin.drops)?;
        write!(f, "ecn_mark={} ack_drops={} ", tin.ecn_mark, tin.ack_drops)?;
        write!(f, "drop_overlimit={} way_directs={} ", tin.drop_overlimit, tin.way_direct_hits)?;
        write!(f, "way_hits={} way_misses={} ", tin.way_indirect_hits, tin.way_misses)?;
        write!(f, "way_collisions={} ", tin.way_collisions)?;
        write!(f, "sparse={} bulk={} ", tin.sparse_flows, tin.bulk_flows)?;
        write!(f, "decaying={} unresponsive={} ", tin.decaying_flows, tin.unresponsive_flows)?;
        write!(f, "max_skblen={} avg_delay={} ", tin.max_pkt_len, ns(tin.avg_delay))?;
        write!(f, "peak_delay={} base_delay={}", ns(tin.peak_delay), ns(tin.base_delay))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.piece {
            None => write!(f, "{}", self.packet),
            Some(piece) => write!(f, "{}.{piece}", self.packet),
        }
    }
}

impl Rng for TraceRng {
    fn next_u16(&mut self) -> u16 {
        self.fixed16.unwrap_or_else(|| self.streams.next_u16())
    }

    fn next_u32(&mut self) -> u32 {
        self.fixed32.unwrap_or_else(|| self.streams.next_u32())
    }
}

/// What is queued for `packet`: itself, its segments, or nothing when it could not be cut.
fn pieces(packet: &Packet, split_gso: bool) -> Vec<Piece<Id>> {
    if packet.gso_size == 0 || !split_gso {
        return vec![whole(packet)];
    }
    let (payload, size) = (packet.payload(), u32::from(packet.gso_size));
    if payload <= size {
        return Vec::new();
    }
    let piece = |k: u32| {
        let len = packet.header_len() + size.min(payload - k * size);
        Piece::single(Id { packet: packet.id, piece: Some(k), ds: packet.ds }, len, truesize(len))
    };
    (0..payload.div_ceil(size)).map(piece).collect()
}

fn whole(packet: &Packet) -> Piece<Id> {
    Piece {
        segs: packet.segs(),
        gso_size: packet.gso_size,
        header_len: if packet.gso_size == 0 { 0 } else { packet.header_len() as u16 },
        ..Piece::single(Id { packet: packet.id, piece: None, ds: packet.ds }, packet.len, packet.truesize)
    }
}

/// The memory the recorder gives a segment.
fn truesize(len: u32) -> u32 {
    (len + 384).next_power_of_two().max(512) + 256
}

/// Slots for all that arrives, cut or not.
fn slots(trace: &Trace) -> usize {
    let segs = |packet: &Packet| usize::from(packet.segs());
    let packets = trace.events.iter().map(|event| match &event.kind {
        EventKind::Enqueue(packet) => segs(packet),
        _ => 0,
    });
    packets.sum()
}

/// IP and TCP header of a TCP packet as they are on the wire, checksums left out.
fn network_bytes(packet: &Packet) -> Vec<u8> {
    let (Proto::Tcp, Some(tcp)) = (packet.proto, &packet.tcp) else { return Vec::new() };
    // More options than a header has room for: it cannot be read, as it could not when recorded.
    if tcp.header_len() > Tcp::MAX_HEADER {
        return Vec::new();
    }
    let mut bytes = Vec::with_capacity(100);
    match (packet.src, packet.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            bytes.extend([0x45, packet.ds.bits()]);
            bytes.extend((packet.len.saturating_sub(14) as u16).to_be_bytes());
            bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            bytes.extend(src.octets());
            bytes.extend(dst.octets());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            bytes.extend([0x60 | packet.ds.bits() >> 4, packet.ds.bits() << 4, 0, 0]);
            bytes.extend((packet.len.saturating_sub(14 + 40) as u16).to_be_bytes());
            bytes.extend([6, 64]);
            bytes.extend(src.octets());
            bytes.extend(dst.octets());
        }
        // The parser of traces refuses such a packet.
        _ => return Vec::new(),
    }
    put_tcp(&mut bytes, packet, tcp);
    bytes
}

fn put_tcp(bytes: &mut Vec<u8>, packet: &Packet, tcp: &Tcp) {
    bytes.extend(packet.sport.to_be_bytes());
    bytes.extend(packet.dport.to_be_bytes());
    bytes.extend(tcp.seq.to_be_bytes());
    bytes.extend(tcp.ack.to_be_bytes());
    bytes.extend([(tcp.header_len() as u8 / 4) << 4, tcp.flags, 0, 0, 0, 0, 0, 0]);
    bytes.extend(&tcp.options);
}

/// Sets what `settings` gives and leaves the rest.
fn apply(settings: &Settings, params: &mut Params) -> Result<(), Error> {
    if let Some(rate) = settings.number("rate_Bps")? {
        params.bandwidth = (rate != 0).then(|| Rate::from_bytes_per_sec(rate));
    }
    params.rtt = settings.micros("rtt")?.unwrap_or(params.rtt);
    params.target = settings.micros("target")?.unwrap_or(params.target);
    params.diffserv = word(settings, "diffserv", DIFFSERV)?.unwrap_or(params.diffserv);
    params.flow_mode = word(settings, "flowmode", FLOW_MODES)?.unwrap_or(params.flow_mode);
    params.wash = settings.switch("wash")?.unwrap_or(params.wash);
    params.ingress = settings.switch("ingress")?.unwrap_or(params.ingress);
    params.autorate_ingress = settings.switch("autorate")?.unwrap_or(params.autorate_ingress);
    params.ack_filter = word(settings, "ackfilter", ACK_FILTERS)?.unwrap_or(params.ack_filter);
    if let Some(limit) = settings.number("memlimit")? {
        params.memlimit = (limit != 0).then_some(limit);
    }
    if let Some(mask) = settings.text("fwmark") {
        params.fwmark = mask_of(mask).ok_or_else(|| settings.place.error(format_args!("fwmark={mask}")))?;
    }
    apply_overhead(settings, params)
}

/// An overhead counts from the IP header on, whatever it is; `raw` does not.
fn apply_overhead(settings: &Settings, params: &mut Params) -> Result<(), Error> {
    let overhead = &mut params.overhead;
    if let Some(bytes) = settings.number("overhead")? {
        overhead.bytes = bytes;
        overhead.ip_length = true;
    }
    overhead.ip_length &= settings.text("raw").is_none();
    overhead.mpu = settings.number("mpu")?.unwrap_or(overhead.mpu);
    overhead.framing = word(settings, "atm", FRAMINGS)?.unwrap_or(overhead.framing);
    Ok(())
}

/// What the value of `key` means.
fn word<T: Copy>(settings: &Settings, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Error> {
    let Some(value) = settings.text(key) else { return Ok(None) };
    match words.iter().find(|(word, _)| *word == value) {
        Some((_, meaning)) => Ok(Some(*meaning)),
        None => {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Err(settings.place.error(format_args!("{key}={value} is none of {}", known.join(", "))))
        }
    }
}

/// A mask, decimal or hexadecimal.
fn mask_of(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What `cfg` and `chg` may both set.
const KEYS: &[&str] = &[
    "rate_Bps",
    "rtt",
    "target",
    "diffserv",
    "flowmode",
    "wash",
    "split_gso",
    "ackfilter",
    "overhead",
    "raw",
    "mpu",
    "atm",
    "ingress",
    "autorate",
    "memlimit",
    "fwmark",
];

const DIFFSERV: &[(&str, Diffserv)] = &[
    ("besteffort", Diffserv::BestEffort),
    ("precedence", Diffserv::Precedence),
    ("diffserv3", Diffserv::Diffserv3),
    ("diffserv4", Diffserv::Diffserv4),
    ("diffserv8", Diffserv::Diffserv8),
];

const FLOW_MODES: &[(&str, FlowMode)] = &[
    ("flowblind", FlowMode::FlowBlind),
    ("srchost", FlowMode::SrcHost),
    ("dsthost", FlowMode::DstHost),
    ("hosts", FlowMode::Hosts),
    ("flows", FlowMode::Flows),
    ("dual-srchost", FlowMode::DualSrcHost),
    ("dual-dsthost", FlowMode::DualDstHost),
    ("triple-isolate", FlowMode::TripleIsolate),
];

const ACK_FILTERS: &[(&str, AckFilter)] =
    &[("0", AckFilter::Off), ("1", AckFilter::Conservative), ("2", AckFilter::Aggressive)];

const FRAMINGS: &[(&str, Framing)] = &[("0", Framing::None), ("1", Framing::Atm), ("2", Framing::Ptm)];

/// Major number of the recorded discipline.
const HANDLE: u16 = 0x8001;
