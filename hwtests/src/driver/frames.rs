//! Packets to send: written header by header, with every length right and no checksum but what the plan will write.

use std::num::NonZeroU16;

use anyhow::{Context, Result, anyhow, ensure};
use dpdk::mbuf::flags;
use dpdk::{Mbuf, Mempool, TxOffload, TxOffloads};
use shaper::gso::{Checksums, Ids, Offload, Plan, Request, Transport};
use shaper::wire::checksum::Sum;

/// A packet to send: an ordinary frame, or one longer than a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// For people.
    pub name: String,
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
    /// Payload bytes a segment.
    pub mss: u16,
}

/// Source address of all of them, locally administered.
pub const SOURCE: [u8; 6] = [0x02, 0x57, 0x45, 0x49, 0x52, 0x01];
/// What the packets' segments fit.
pub const MTU: u16 = 1500;

/// What is sent to learn what a driver makes of it: both families, tagged and not, MSS from 536 to what fills the
/// MTU, one byte more than a segment up to 64 KB, flags that belong to the first or last segment alone, numbers that
/// wrap; and frames that need checksums only.
pub fn packets() -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut seed = 0;
    for (ipv6, tagged) in [(false, false), (true, false), (false, true), (true, true)] {
        let headers = |options: u16| if ipv6 { 40 } else { 20 } + 20 + options;
        let mut add = |tcp, options: usize, flags, mss: u16, len: usize| {
            seed += 1;
            let family = if ipv6 { "IPv6" } else { "IPv4" };
            let transport = if tcp { "TCP" } else { "UDP" };
            let tag = if tagged { " VLAN" } else { "" };
            let name = format!("{family}{tag} {transport} {len} B, MSS {mss}, flags {flags:#04x}");
            let bytes = Shape { ipv6, tagged, tcp, options, flags, len, seed }.bytes();
            packets.push(Packet { name, bytes, mss });
        };
        for (options, mss) in [(0_u16, 536), (12, 1220), (12, MTU - headers(12)), (0, MTU - headers(0))] {
            for len in [usize::from(mss) + 1, 8948, 30_000, usize::from(u16::MAX - headers(12))] {
                for flags in [ACK, ACK | PSH | FIN, ACK | ECE | CWR] {
                    add(true, options.into(), flags, mss, len);
                }
            }
        }
        for len in [0, 1, 100, 1401] {
            add(true, 0, ACK | PSH, MTU - headers(0), len);
            add(false, 0, 0, MTU - headers(0), len + 1);
        }
    }
    packets
}

impl Packet {
    /// For the ring of a port with these offloads: segments of the pool's buffers, marked as weir's own sender would
    /// mark them. The IPv4 header has its checksum already, so that a port that computes none can be sent it too.
    pub fn marked(&self, pool: &Mempool, offloads: TxOffloads) -> Result<Mbuf> {
        let plan = self.plan()?;
        let whole = plan.with_segs_per_piece(NonZeroU16::new(plan.segs()).context("at least one segment")?);
        ensure!(whole.pieces() == 1, "{} is longer than an IP packet", self.name);
        let mut bytes = self.bytes.clone();
        whole.write(0, Checksums::Offload, &mut bytes).context("the headers fit")?;
        let offload = whole.offload().context("a plain packet can be offloaded")?;
        let mut packet = Mbuf::from_bytes(pool, &bytes).map_err(|error| anyhow!(error))?;
        let flags = flags_of(&offload, plan.segs());
        let sums_ipv4 = offloads.contains(TxOffloads::IPV4_CKSUM);
        packet.set_ol_flags(if sums_ipv4 { flags } else { flags & !flags::TX_IP_CKSUM });
        packet.set_tx_offload(TxOffload {
            l2_len: offload.l2_len,
            l3_len: offload.l3_len,
            l4_len: offload.l4_len,
            tso_segsz: if plan.segs() > 1 { plan.gso_size() } else { 0 },
            ..TxOffload::default()
        });
        Ok(packet)
    }

    /// The frames that weir's own splitter makes of it, with all checksums.
    pub fn split(&self) -> Result<Vec<Vec<u8>>> {
        let plan = self.plan()?;
        let frame = |(index, cut): (usize, shaper::gso::Cut)| {
            let payload = self.bytes.get(cut.payload.start as usize..cut.payload.end as usize)?;
            let mut frame = vec![0; plan.header_len().into()];
            plan.write(index as u16, Checksums::Software(Sum::default().at(0, payload)), &mut frame)?;
            frame.extend(payload);
            Some(frame)
        };
        let frames: Option<Vec<_>> = plan.cuts().enumerate().map(frame).collect();
        frames.with_context(|| format!("{} cannot be split", self.name))
    }

    fn plan(&self) -> Result<Plan<'_>> {
        let request = Request { mtu: MTU.into(), gso_size: self.mss, ids: Ids::Increment };
        Plan::new(&self.bytes, self.bytes.len() as u32, &request)
            .map_err(|refusal| anyhow!("{}: {}", self.name, refusal.name()))
    }
}

fn flags_of(offload: &Offload, segs: u16) -> u64 {
    let network = if offload.ipv4 { flags::TX_IPV4 | flags::TX_IP_CKSUM } else { flags::TX_IPV6 };
    network
        | match offload.transport {
            Transport::Tcp if segs > 1 => flags::TX_TCP_SEG | flags::TX_TCP_CKSUM,
            Transport::Tcp => flags::TX_TCP_CKSUM,
            Transport::Udp => flags::TX_UDP_CKSUM,
        }
}

/// A received frame without the zeros that fill it up to 60 bytes; what is no IP packet is left as it is.
pub fn unpadded(frame: &[u8]) -> &[u8] {
    let Some((ipv6, network)) = network(frame) else { return frame };
    let ip = frame.get(network..).unwrap_or_default();
    let len = match ip {
        [_, _, _, _, high, low, ..] if ipv6 => 40 + usize::from(u16::from_be_bytes([*high, *low])),
        [_, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
        _ => return frame,
    };
    let end = network + len;
    match frame.get(end..) {
        Some(rest) if frame.len() <= PADDED && rest.iter().all(|&byte| byte == 0) => {
            frame.get(..end).unwrap_or(frame)
        }
        _ => frame,
    }
}

/// Whether the checksums of IPv4, TCP and UDP in an unpadded frame are right.
pub fn is_summed(frame: &[u8]) -> bool {
    let check = || {
        let (ipv6, at) = network(frame)?;
        let ip = frame.get(at..)?;
        let (header, protocol) =
            if ipv6 { (40, *ip.get(6)?) } else { (usize::from(ip.first()? & 15) * 4, *ip.get(9)?) };
        let (addresses, transport) = (if ipv6 { ip.get(8..40)? } else { ip.get(12..20)? }, ip.get(header..)?);
        let sum = Sum::default().bytes(addresses).word(protocol.into()).plus(transport.len() as u64);
        let network_is_right = ipv6 || Sum::default().bytes(ip.get(..header)?).fold() == 0xffff;
        Some(network_is_right && sum.bytes(transport).fold() == 0xffff)
    };
    check().unwrap_or(false)
}

/// The frame with zeros for the flags of TCP and the checksum over them; anything else as it is.
pub fn flagless(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let tcp = network(&frame).and_then(|(ipv6, at)| {
        let (protocol, header) = if ipv6 { (at + 6, 40) } else { (at + 9, 20) };
        (frame.get(protocol) == Some(&TCP)).then_some(at + header)
    });
    for at in tcp.into_iter().flat_map(|at| [at + 13, at + 16, at + 17]) {
        if let Some(byte) = frame.get_mut(at) {
            *byte = 0;
        }
    }
    frame
}

/// Whether it is IPv6, and where its IP header (without options) starts.
fn network(frame: &[u8]) -> Option<(bool, usize)> {
    let ethertype = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let at = if ethertype(12)? == VLAN { 16 } else { 12 };
    match ethertype(at)? {
        IPV4 => Some((false, at + 2)),
        IPV6 => Some((true, at + 2)),
        _ => None,
    }
}

struct Shape {
    ipv6: bool,
    tagged: bool,
    tcp: bool,
    options: usize,
    flags: u8,
    len: usize,
    seed: u32,
}

impl Shape {
    fn bytes(&self) -> Vec<u8> {
        let payload =
            (0..self.len as u32).map(|at| ((at ^ self.seed).wrapping_mul(2_654_435_761) >> 24) as u8);
        let mut transport = self.transport();
        transport.extend(payload);
        let mut frame = [&DESTINATION[..], &SOURCE].concat();
        if self.tagged {
            frame.extend([VLAN.to_be_bytes(), VLAN_ID.to_be_bytes()].concat());
        }
        frame.extend(if self.ipv6 { IPV6 } else { IPV4 }.to_be_bytes());
        frame.extend(self.network(transport.len()));
        frame.extend(transport);
        frame
    }

    fn transport(&self) -> Vec<u8> {
        let ports = [0xc001u16.to_be_bytes(), 443u16.to_be_bytes()].concat();
        if !self.tcp {
            // Zero would say that there is no checksum (RFC 768).
            return [&ports[..], &(8 + self.len as u16).to_be_bytes(), &[0xff; 2]].concat();
        }
        // Every third one wraps on the way.
        let sequence = if self.seed.is_multiple_of(3) { u32::MAX - 2000 } else { self.seed << 16 };
        let words = (20 + self.options) as u8 / 4;
        let mut header = [&ports[..], &sequence.to_be_bytes(), &self.seed.to_be_bytes()].concat();
        header.extend([words << 4, self.flags, 1, 2, 0, 0, 0, 0]);
        // Timestamps after two that do nothing (RFC 7323 appendix A), or nothing.
        let stamps = [&[1, 1, 8, 10][..], &self.seed.to_be_bytes(), &[0, 0, 0, 9]].concat();
        header.extend(stamps.iter().take(self.options));
        header
    }

    fn network(&self, transport: usize) -> Vec<u8> {
        let protocol = if self.tcp { TCP } else { UDP };
        if self.ipv6 {
            let mut header =
                [&[0x60, 0, 0, 9][..], &(transport as u16).to_be_bytes(), &[protocol, 64]].concat();
            header.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            header.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
            return header;
        }
        let id = if self.seed.is_multiple_of(2) { u16::MAX - 2 } else { self.seed as u16 };
        let mut header = vec![0x45, 0];
        header.extend([(20 + transport as u16).to_be_bytes(), id.to_be_bytes()].concat());
        header.extend([0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        header
    }
}

const DESTINATION: [u8; 6] = [0x02, 0x57, 0x45, 0x49, 0x52, 0x02];
const VLAN: u16 = 0x8100;
const VLAN_ID: u16 = 7;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Shortest Ethernet frame without its FCS.
const PADDED: usize = 60;
/// TCP's flags (RFC 9293, RFC 3168).
const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;
const ECE: u8 = 64;
const CWR: u8 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_can_be_split_into_frames_that_fit_with_right_checksums() {
        let packets = packets();
        assert_eq!(packets.len(), 4 * (4 * 4 * 3 + 8));
        for packet in &packets {
            let frames = packet.split().unwrap();
            let tag = if packet.name.contains("VLAN") { 4 } else { 0 };
            for frame in &frames {
                assert!(frame.len() <= usize::from(MTU) + 14 + tag, "{}", packet.name);
                assert!(is_summed(frame), "{}", packet.name);
            }
            let mut other = frames[0].clone();
            let tcp = packet
                .name
                .contains("TCP")
                .then_some(tag + if packet.name.contains("IPv6") { 54 } else { 34 });
            if let Some(at) = tcp {
                other[at + 13] ^= PSH;
                assert_eq!(flagless(&other), flagless(&frames[0]), "{}", packet.name);
                other[at + 12] ^= 1;
            } else {
                other[tag + 13] ^= 1;
            }
            assert_ne!(flagless(&other), flagless(&frames[0]), "{}", packet.name);
            let mut spoilt = frames[0].clone();
            *spoilt.last_mut().unwrap() ^= 1;
            assert!(!is_summed(&spoilt), "{}", packet.name);
        }
        assert!(packets.iter().any(|packet| packet.split().unwrap().len() > 100));
    }

    #[test]
    fn padding_goes_and_nothing_else() {
        for packet in packets() {
            let frame = packet.split().unwrap().pop().unwrap();
            let mut padded = frame.clone();
            padded.resize(padded.len().max(60), 0);
            assert_eq!(unpadded(&padded), frame, "{}", packet.name);
            padded.push(1);
            assert_eq!(unpadded(&padded), padded, "{}", packet.name);
        }
    }
}
