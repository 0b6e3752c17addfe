//! Whether a card's TSO engine and checksums make of a packet what the kernel makes of it.
//!
//! The kernel's own segmentation is had without a card: the packet goes into a TAP as a super-packet (net_virtio_user
//! over /dev/vhost-net), `tc` hands it on to a TAP that knows no offload (net_tap), and the kernel must cut it and sum
//! it for that one. weir's splitter is held against it in the same run.

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result};
use dpdk::{Eal, TxOffloads};
use serde::{Deserialize, Serialize};

use super::frames::{Packet, SOURCE, flagless, is_summed, packets, unpadded};
use super::ports::Way;
use crate::process::run;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Packets longer than a segment, if the driver offers TSO.
    pub tso: Option<Verdict>,
    /// Packets that need checksums alone.
    pub checksums: Verdict,
    /// weir's own splitter on all packets, beside the kernel.
    pub splitter: Verdict,
}

/// How one of them did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Packets sent.
    pub packets: usize,
    /// Frames that the kernel makes of them.
    pub frames: usize,
    /// Packets of which every frame was the kernel's to the last byte.
    pub identical: usize,
    /// Packets whose frames were the kernel's but for flags of TCP.
    pub wrong_flags: usize,
    /// Frames with a wrong checksum of IPv4, TCP or UDP.
    pub wrong_checksums: usize,
    /// Packets that the driver refused.
    pub refused: usize,
    /// The first differences, in words.
    pub differences: Vec<String>,
}

impl Verdict {
    /// Everything as the kernel does it.
    pub fn is_right(&self) -> bool {
        self.identical == self.packets && self.wrong_checksums == 0 && self.refused == 0
    }

    fn differ(&mut self, what: String) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what);
        }
    }

    /// Counts a packet whose frames were to be `expected`.
    fn judge(&mut self, packet: &Packet, expected: &[Vec<u8>], frames: &[Vec<u8>]) {
        self.packets += 1;
        self.frames += expected.len();
        let frames: Vec<_> = frames.iter().map(|frame| unpadded(frame)).collect();
        self.wrong_checksums += frames.iter().filter(|frame| !is_summed(frame)).count();
        let Some(what) = difference(expected, &frames) else {
            self.identical += 1;
            return;
        };
        let same_but_flags = expected.len() == frames.len()
            && expected.iter().zip(&frames).all(|(a, b)| flagless(a) == flagless(b));
        self.wrong_flags += usize::from(same_but_flags);
        self.differ(format!("{}: {what}", packet.name));
    }
}

impl fmt::Display for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  weir's splitter    {}", self.splitter)?;
        write!(f, "  checksums          {}", self.checksums)?;
        match &self.tso {
            Some(tso) => write!(f, "  TSO                {tso}"),
            None => writeln!(f, "  TSO                not offered"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, frames, identical, wrong_flags, wrong_checksums, refused, differences } = self;
        let verdict = if self.is_right() { "right" } else { "NOT RIGHT" };
        writeln!(
            f,
            "{verdict}: {identical} of {packets} packets ({frames} frames) are the kernel's to the byte"
        )?;
        if !self.is_right() {
            writeln!(
                f,
                "    {wrong_flags} more but for flags of TCP; {wrong_checksums} frames with a wrong checksum, {refused} \
                 packets refused; the first:"
            )?;
        }
        differences.iter().try_for_each(|difference| writeln!(f, "    {difference}"))
    }
}

/// Sends every packet of [`packets`] through `way` and through the kernel.
pub fn check(eal: &Eal, way: &mut Way) -> Result<Segments> {
    let mut kernel = Kernel::open(eal).context("cannot have the kernel's segmentation")?;
    let mut found = Segments::default();
    let mut tso = Verdict::default();
    for packet in packets() {
        let own = packet.split()?;
        let expected = kernel.segments(&packet, own.len())?;
        found.splitter.judge(&packet, &expected, &own);
        let verdict = if own.len() > 1 { &mut tso } else { &mut found.checksums };
        if own.len() > 1 && !way.offloads.contains(TxOffloads::TCP_TSO) {
            continue;
        }
        match way.send(packet.marked(&way.pool, way.offloads)?) {
            Ok(()) => verdict.judge(&packet, &expected, &way.seen(SOURCE, expected.len())),
            Err(error) => {
                verdict.packets += 1;
                verdict.refused += 1;
                verdict.differ(format!("{}: {error:#}", packet.name));
            }
        }
    }
    found.tso = (tso.packets > 0).then_some(tso);
    Ok(found)
}

/// The kernel between two TAPs.
struct Kernel(Way);

impl Kernel {
    fn open(eal: &Eal) -> Result<Self> {
        let super_packets =
            eal.attach(&format!("net_virtio_user0,path=/dev/vhost-net,iface={IN},queue_size=1024"))?;
        let frames = eal.attach(&format!("net_tap0,iface={OUT}"))?;
        let way = Way::open(eal, &super_packets, &frames)?;
        for line in [
            format!("ip link set {IN} up"),
            format!("ip link set {OUT} up"),
            format!("tc qdisc add dev {IN} handle ffff: ingress"),
            format!("tc filter add dev {IN} parent ffff: matchall action mirred egress redirect dev {OUT}"),
        ] {
            let mut words = line.split(' ');
            run(Command::new(words.next().unwrap_or_default()).args(words))?;
        }
        Ok(Self(way))
    }

    fn segments(&mut self, packet: &Packet, count: usize) -> Result<Vec<Vec<u8>>> {
        self.0.send(packet.marked(&self.0.pool, self.0.offloads)?).with_context(|| packet.name.clone())?;
        Ok(self.0.seen(SOURCE, count))
    }
}

/// The first place where frames are not as expected.
fn difference(expected: &[Vec<u8>], frames: &[&[u8]]) -> Option<String> {
    for (index, (expected, frame)) in expected.iter().zip(frames).enumerate() {
        if let Some(at) = expected.iter().zip(*frame).position(|(expected, got)| expected != got) {
            return Some(format!("frame {index}, byte {at}: {:#04x}, not {:#04x}", frame[at], expected[at]));
        }
        if expected.len() != frame.len() {
            return Some(format!("frame {index} has {} bytes, not {}", frame.len(), expected.len()));
        }
    }
    (expected.len() != frames.len()).then(|| format!("{} frames, not {}", frames.len(), expected.len()))
}

/// Names of the TAPs.
const IN: &str = "segin";
const OUT: &str = "segout";
/// Enough to see a pattern.
const DIFFERENCES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_seen() {
        let packet = packets().remove(0);
        let right = packet.split().unwrap();
        let judged = |frames: &[Vec<u8>]| {
            let mut verdict = Verdict::default();
            verdict.judge(&packet, &right, frames);
            verdict
        };
        assert!(judged(&right).is_right());
        let mut spoilt = right.clone();
        spoilt[1][40] ^= 1;
        let verdict = judged(&spoilt);
        assert!(!verdict.is_right());
        assert_eq!((verdict.identical, verdict.wrong_flags, verdict.wrong_checksums), (0, 0, 1));
        assert!(verdict.differences[0].contains("frame 1, byte 40"), "{verdict:?}");
        let mut unflagged = right.clone();
        unflagged[1][47] ^= 8;
        let verdict = judged(&unflagged);
        assert!(!verdict.is_right());
        assert_eq!((verdict.identical, verdict.wrong_flags, verdict.wrong_checksums), (0, 1, 1));
        assert!(!judged(&right[..1]).is_right());
        assert!(!judged(&[]).is_right());
        let mut long = right.clone();
        long[0].push(7);
        assert!(judged(&long).differences[0].contains("bytes, not"));
    }
}
