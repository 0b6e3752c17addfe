//! What a driver says of frames that have left: descriptor status, clean-up on demand, buffers given back.
//!
//! The judge is the pool: it has no cache, so [`dpdk::Mempool::in_use`] is exactly what the driver still holds, and
//! the other port saw what has left the wire.

use std::fmt;

use anyhow::{Context, Result, anyhow, bail, ensure};
use dpdk::{Burst, DescriptorStatus, Errno, Mbuf, TxOffloads};
use serde::{Deserialize, Serialize};

use super::frames::{Packet, SOURCE, packets};
use super::ports::Way;
use crate::record::PortRecord;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// The driver.
    pub driver: String,
    /// Its version of DPDK.
    pub dpdk: String,
    /// The port and its link.
    pub port: PortRecord,
    /// Transmit descriptors.
    pub ring: u16,
    /// Transmit offloads in force.
    pub offloads: String,
    /// `rte_eth_tx_descriptor_status`.
    pub descriptor_status: Status,
    /// `rte_eth_tx_done_cleanup`.
    pub done_cleanup: Cleanup,
    /// What happens to buffers when nobody asks.
    pub reclaim: Reclaim,
}

/// `rte_eth_tx_descriptor_status`, asked by the offset from the next descriptor to be filled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The driver's refusal, if it has no such call.
    pub refused: Option<String>,
    /// Descriptors of a ring that was never used that it calls full.
    pub fresh_full: u16,
    /// Whether the frame that was sent was called full before it was called done: only a wire that can be busy shows
    /// this.
    pub seen_full: bool,
    /// Polls until a frame of one segment was called done; none if it never was.
    pub polls_until_done: Option<u32>,
    /// The descriptors of a frame of four segments after it has left, first to last.
    pub of_four_segments: Vec<String>,
    /// The descriptors of a TSO frame after it has left, with that of its context.
    pub of_tso: Vec<String>,
    /// Descriptors of an idle ring that it calls full after everything has left.
    pub idle_full: u16,
}

/// `rte_eth_tx_done_cleanup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleanup {
    /// The driver's refusal, if it has no such call.
    pub refused: Option<String>,
    /// Frames that had left and were held by the driver.
    pub held: u32,
    /// What a call for one packet said that it freed.
    pub one: u32,
    /// What came back to the pool by it.
    pub one_returned: u32,
    /// What a call for all the others said that it freed.
    pub rest: u32,
    /// What came back to the pool by it.
    pub rest_returned: u32,
    /// Frames of four segments that were held after that.
    pub chains: u32,
    /// What a call said that it freed of them: packets, if it does as documented.
    pub chains_freed: u32,
    /// Buffers that came back by it.
    pub chains_returned: u32,
}

/// Buffers that come back by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclaim {
    /// Frames sent one at a time until the first buffer came back; none if the ring was filled twice without.
    pub first_after: Option<u32>,
    /// Most buffers that came back by one transmit call.
    pub batch: u32,
    /// Frames that the driver held at the end, all of which had left.
    pub held: u32,
    /// How many of them a hundred empty transmit calls gave back.
    pub by_empty_bursts: u32,
}

impl Status {
    /// Says done of what has left, in each descriptor that closes a frame.
    pub fn is_true(&self) -> bool {
        self.refused.is_none()
            && self.fresh_full == 0
            && self.polls_until_done.is_some()
            && self.of_four_segments.last().is_some_and(|last| last == DONE)
    }

    /// Says done of every descriptor once all has left, also of those inside a frame.
    pub fn is_true_at_any_offset(&self) -> bool {
        self.is_true() && self.idle_full == 0
    }
}

impl Cleanup {
    /// Frees what has left, when asked, as many as asked for, and says so.
    pub fn is_true(&self) -> bool {
        self.refused.is_none()
            && self.held > 1
            && (self.one, self.one_returned) == (1, 1)
            && (self.rest, self.rest_returned) == (self.held - 1, self.held - 1)
            && (self.chains_freed, self.chains_returned) == (self.chains, SEGMENTS * self.chains)
    }
}

impl fmt::Display for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({}), transmit ring of {}", self.driver, self.dpdk, self.ring)?;
        writeln!(f, "  {}", self.port)?;
        write!(f, "{}{}{}", self.descriptor_status, self.done_cleanup, self.reclaim)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  descriptor status  {}", verdict(self.is_true(), self.refused.as_deref()))?;
        if self.refused.is_some() {
            return Ok(());
        }
        let (chain, tso) = (self.of_four_segments.join(" "), self.of_tso.join(" "));
        match self.polls_until_done {
            Some(poll) => write!(f, "    a frame is done at look {poll}")?,
            None => write!(f, "    a frame is never done")?,
        }
        writeln!(f, "; of four segments: {chain}; of a TSO frame with its context: {tso}")?;
        if !self.seen_full {
            writeln!(
                f,
                "    no frame was called full before that: this tells nothing of a wire that is busy"
            )?;
        }
        if self.is_true() && !self.is_true_at_any_offset() {
            let full = self.idle_full;
            writeln!(
                f,
                "    inside a frame it says full for ever ({full} descriptors of an idle ring): ask"
            )?;
            writeln!(f, "    only at the last descriptor of a frame")?;
        }
        Ok(())
    }
}

impl fmt::Display for Cleanup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refused, held, one, one_returned, rest, rest_returned, .. } = self;
        writeln!(f, "  done_cleanup       {}", verdict(self.is_true(), refused.as_deref()))?;
        if refused.is_some() {
            return Ok(());
        }
        writeln!(f, "    of {held} frames, asked for 1: said {one}, {one_returned} buffers came back")?;
        writeln!(f, "    asked for all: said {rest}, {rest_returned} buffers came back")?;
        let Self { chains, chains_freed, chains_returned, .. } = self;
        writeln!(
            f,
            "    {chains} frames of four segments: said {chains_freed}, {chains_returned} buffers came back"
        )
    }
}

impl fmt::Display for Reclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_after, batch, held, by_empty_bursts } = self;
        match first_after {
            Some(frame) => writeln!(
                f,
                "  by itself          the first buffer comes back with frame {frame}, {batch} a call at most"
            )?,
            None => writeln!(f, "  by itself          no buffer comes back")?,
        }
        writeln!(f, "    {held} frames that have left are held, and empty bursts give back {by_empty_bursts}")
    }
}

/// In a word.
fn verdict(is_true: bool, refused: Option<&str>) -> String {
    match refused {
        Some(errno) => format!("not there ({errno})"),
        None if is_true => "true".to_owned(),
        None => "NOT TRUE".to_owned(),
    }
}

/// Looks at the transmit queue of `way`, on which nothing was sent yet.
pub fn check(way: &mut Way) -> Result<Completions> {
    let packets = packets();
    let one_frame = |packet: &&Packet| (1000..1500).contains(&packet.bytes.len());
    let ordinary = packets.iter().find(one_frame).context("an ordinary frame")?;
    let frame = ordinary.split()?.pop().context("a packet is at least a frame")?;
    let large = packets.iter().find(|packet| packet.bytes.len() > LARGE).context("a large packet")?;
    let descriptor_status = status(way, &frame, large)?;
    let reclaim = reclaim(way, &frame)?;
    let done_cleanup = cleanup(way, &frame)?;
    let descriptor_status = Status { idle_full: full(way), ..descriptor_status };
    Ok(Completions {
        driver: way.info.driver.clone(),
        dpdk: dpdk::Eal::version(),
        port: way.port()?,
        ring: way.ring,
        offloads: way.offloads.to_string(),
        descriptor_status,
        done_cleanup,
        reclaim,
    })
}

fn status(way: &mut Way, frame: &[u8], large: &Packet) -> Result<Status> {
    if let Err(errno) = way.tx.descriptor_status(0) {
        return Ok(Status { refused: Some(said(errno)), ..Status::default() });
    }
    let mut found = Status { fresh_full: full(way), ..Status::default() };
    let last = way.ring - 1;
    send_plain(way, frame)?;
    for poll in 1..=POLLS {
        match way.tx.descriptor_status(last) {
            Ok(DescriptorStatus::Done) => {
                found.polls_until_done = Some(poll);
                break;
            }
            Ok(_) => found.seen_full = true,
            Err(errno) => bail!("descriptor status says {errno} after it said something else"),
        }
    }
    let chain = chain(way, frame)?;
    send(way, chain, 1)?;
    found.of_four_segments = descriptors(way, SEGMENTS as u16);
    if way.offloads.contains(TxOffloads::TCP_TSO) {
        let packet = large.marked(&way.pool, way.offloads)?;
        let segments = packet.nb_segs();
        send(way, packet, large.split()?.len())?;
        found.of_tso = descriptors(way, segments + 1);
    }
    Ok(found)
}

/// Sends frames one at a time, twice around the ring, and looks after each.
fn reclaim(way: &mut Way, frame: &[u8]) -> Result<Reclaim> {
    let mut found = Reclaim::default();
    let mut held = way.pool.in_use();
    for sent in 1..=2 * u32::from(way.ring) {
        send_plain(way, frame)?;
        let now_held = way.pool.in_use();
        let returned = (held + 1).saturating_sub(now_held);
        if returned > 0 {
            found.first_after.get_or_insert(sent);
            found.batch = found.batch.max(returned);
        }
        held = now_held;
    }
    for _ in 0..100 {
        way.tx.burst(&mut Burst::new());
    }
    found.held = held;
    found.by_empty_bursts = held - way.pool.in_use();
    Ok(found)
}

fn cleanup(way: &mut Way, frame: &[u8]) -> Result<Cleanup> {
    // What earlier frames left behind is not to be counted.
    if let Err(errno) = way.tx.done_cleanup(0) {
        return Ok(Cleanup { refused: Some(said(errno)), ..Cleanup::default() });
    }
    let mut found = Cleanup::default();
    let empty = way.pool.in_use();
    for _ in 0..HELD {
        send_plain(way, frame)?;
    }
    found.held = way.pool.in_use() - empty;
    (found.one, found.one_returned) = ask(way, 1)?;
    (found.rest, found.rest_returned) = ask(way, 0)?;
    for _ in 0..HELD {
        let chain = chain(way, frame)?;
        send(way, chain, 1)?;
    }
    found.chains = HELD;
    (found.chains_freed, found.chains_returned) = ask(way, 0)?;
    Ok(found)
}

/// What a call for `count` packets says that it freed, and what came back.
fn ask(way: &mut Way, count: u32) -> Result<(u32, u32)> {
    let before = way.pool.in_use();
    let freed = way.tx.done_cleanup(count).map_err(|errno| anyhow!("done_cleanup: {errno}"))?;
    Ok((freed, before - way.pool.in_use()))
}

/// One frame of one segment, seen on the wire when this returns.
fn send_plain(way: &mut Way, frame: &[u8]) -> Result<()> {
    // No offload, no context descriptor.
    let packet = Mbuf::from_bytes(&way.pool, frame).map_err(|error| anyhow!(error))?;
    send(way, packet, 1)
}

fn send(way: &mut Way, packet: Mbuf, frames: usize) -> Result<()> {
    way.send(packet)?;
    let seen = way.seen(SOURCE, frames).len();
    ensure!(seen == frames, "{seen} of {frames} frames came out of the wire");
    Ok(())
}

/// A frame in four segments.
fn chain(way: &Way, frame: &[u8]) -> Result<Mbuf> {
    let mut parts = frame.chunks(frame.len().div_ceil(SEGMENTS as usize));
    let mut segment = || Mbuf::from_bytes(&way.pool, parts.next().unwrap_or_default());
    let mut packet = segment().map_err(|error| anyhow!(error))?;
    for _ in 1..SEGMENTS {
        let next = segment().map_err(|error| anyhow!(error))?;
        ensure!(packet.chain(next).is_ok(), "four segments are no long chain");
    }
    Ok(packet)
}

/// What is said of the last `count` descriptors that were filled.
fn descriptors(way: &Way, count: u16) -> Vec<String> {
    let name = |status| match status {
        Ok(DescriptorStatus::Done) => DONE.to_owned(),
        Ok(DescriptorStatus::Full) => "full".to_owned(),
        Ok(DescriptorStatus::Unavailable) => "unavailable".to_owned(),
        Err(errno) => said(errno),
    };
    (way.ring - count..way.ring).map(|offset| name(way.tx.descriptor_status(offset))).collect()
}

/// Descriptors that are called full.
fn full(way: &Way) -> u16 {
    let is_full = |offset: &u16| way.tx.descriptor_status(*offset) == Ok(DescriptorStatus::Full);
    (0..way.ring).filter(is_full).count() as u16
}

fn said(errno: Errno) -> String {
    errno.to_string()
}

const DONE: &str = "done";
/// Segments of a chain.
const SEGMENTS: u32 = 4;
/// Frames that wait for a clean-up: less than any driver's threshold.
const HELD: u32 = 16;
/// A TSO frame of more than this many bytes.
const LARGE: usize = 8000;
/// Looks at a descriptor before giving up: a frame is on the wire for 1.2 ms at 10 Mbit/s.
const POLLS: u32 = 1_000_000;
