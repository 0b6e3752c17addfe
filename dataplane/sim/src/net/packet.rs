//! What travels through the modelled network, and its headers as bytes for who reads them.

use shaper::packet::DsField;
use shaper::time::Instant;

/// A packet. Like one of production it cannot be copied: it is somewhere, once.
#[derive(Debug)]
pub struct Packet {
    /// Number of the flow.
    pub flow: usize,
    /// Length of the frame in bytes.
    pub len: u32,
    /// DS field: DSCP and ECN.
    pub ds: DsField,
    /// When its sender sent it.
    pub sent: Instant,
    /// What it is about.
    pub body: Body,
}

/// What a packet is about.
#[derive(Debug)]
pub enum Body {
    /// Unanswered data.
    Datagram,
    /// A segment of a TCP stream, counted in segments.
    Segment {
        /// Number of the segment.
        number: u64,
        /// The sender has reduced its window (RFC 3168).
        cwr: bool,
    },
    /// The answer to segments.
    Ack(Ack),
}

/// A TCP acknowledgement, counted in segments.
#[derive(Clone, Debug, Default)]
pub struct Ack {
    /// All segments below have arrived.
    pub upto: u64,
    /// Ranges beyond that have arrived, the latest first (RFC 2018); empty ones are not there.
    pub blocks: [(u64, u64); 3],
    /// Congestion was experienced and no reduction seen yet (RFC 3168).
    pub ece: bool,
    /// Timestamp of the receiver (RFC 7323).
    pub stamp: Instant,
    /// When the segment was sent that is answered.
    pub echo: Instant,
}

/// IP and TCP header of a packet of a TCP flow, without checksums; empty for datagrams.
#[derive(Debug)]
pub struct Headers {
    bytes: [u8; 92],
    len: usize,
}

impl Packet {
    /// The headers, from the network header on.
    pub fn headers(&self) -> Headers {
        let mut headers = Headers { bytes: [0; 92], len: 0 };
        let flow = self.flow as u32;
        match &self.body {
            Body::Datagram => {}
            Body::Segment { number, cwr } => {
                headers.ip(self, [10, 0], [11, 0]);
                let flags = ACK | if *cwr { CWR } else { 0 };
                headers.tcp(flow, [number.wrapping_mul(MSS.into()) as u32, 1], flags, &[]);
                headers.stamps(self.sent, Instant::ZERO);
            }
            Body::Ack(ack) => {
                headers.ip(self, [11, 0], [10, 0]);
                let blocks: Vec<_> = ack.blocks.iter().filter(|(from, to)| from < to).collect();
                let flags = ACK | if ack.ece { ECE } else { 0 };
                headers.tcp(flow, [1, ack.upto.wrapping_mul(MSS.into()) as u32], flags, &blocks);
                headers.stamps(ack.stamp, ack.echo);
                headers.sack(&blocks);
            }
        }
        headers
    }
}

impl Ack {
    /// Length of the frame that carries it: in bytes.
    pub fn frame_len(&self) -> u32 {
        HEADERS + sack_len(self.blocks.iter().filter(|(from, to)| from < to).count()) as u32
    }
}

impl Headers {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
    }

    fn ip(&mut self, packet: &Packet, from: [u8; 2], to: [u8; 2]) {
        let len = (packet.len - ETHERNET) as u16;
        self.put(&[0x45, packet.ds.bits()]);
        self.put(&len.to_be_bytes());
        self.put(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
        let flow = (packet.flow as u16).to_be_bytes();
        self.put(&[from, flow, to, flow].concat());
    }

    fn tcp(&mut self, flow: u32, [seq, ack]: [u32; 2], flags: u8, blocks: &[&(u64, u64)]) {
        let len = 20 + STAMPS + sack_len(blocks.len());
        self.put(&((flow % 60_000) as u16).to_be_bytes());
        self.put(&443_u16.to_be_bytes());
        self.put(&seq.to_be_bytes());
        self.put(&ack.to_be_bytes());
        self.put(&[(len as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    }

    fn stamps(&mut self, value: Instant, echo: Instant) {
        self.put(&[1, 1, 8, 10]);
        for at in [value, echo] {
            self.put(&((at.as_nanos() / 1_000_000) as u32).to_be_bytes());
        }
    }

    fn sack(&mut self, blocks: &[&(u64, u64)]) {
        if blocks.is_empty() {
            return;
        }
        self.put(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for edge in blocks.iter().flat_map(|&&(from, to)| [from, to]) {
            self.put(&(edge.wrapping_mul(MSS.into()) as u32).to_be_bytes());
        }
    }
}

/// Length in bytes of the SACK option with its padding.
const fn sack_len(blocks: usize) -> usize {
    if blocks == 0 { 0 } else { 4 + 8 * blocks }
}

/// Payload bytes of a full segment.
pub const MSS: u32 = FRAME - HEADERS;
/// Bytes of a full frame, Ethernet header included.
pub const FRAME: u32 = 1_514;
/// Bytes of the headers of a segment: Ethernet, IPv4, TCP with timestamps.
pub const HEADERS: u32 = ETHERNET + 20 + 20 + STAMPS as u32;
/// Bytes that a wire carries beside each frame: preamble, FCS and gap.
pub const GAP: u32 = 24;
const ETHERNET: u32 = 14;
/// Bytes of the timestamp option with its padding.
const STAMPS: usize = 12;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_the_packet_is() {
        let ack = Ack { upto: 3, blocks: [(7, 9), (5, 6), (0, 0)], ece: true, ..Ack::default() };
        let len = ack.frame_len();
        assert_eq!(len, 66 + 4 + 16);
        let packet = Packet { flow: 258, len, ds: DsField::ip(2), sent: Instant::ZERO, body: Body::Ack(ack) };
        let headers = packet.headers();
        let bytes = headers.as_bytes();
        assert_eq!(bytes.len() as u32, len - 14, "no payload");
        assert_eq!(bytes[..4], [0x45, 2, 0, 72]);
        assert_eq!(bytes[12..20], [11, 0, 1, 2, 10, 0, 1, 2]);
        assert_eq!(bytes[28..32], (3 * MSS).to_be_bytes());
        assert_eq!(bytes[32..34], [(52 / 4) << 4, ACK | ECE]);
        assert_eq!(bytes[52..60], [[1, 1, 5, 18], (7 * MSS).to_be_bytes()].concat());
    }
}
