//! Where the hashes of a replayed packet come from: a file, or our own function.

use super::Error;
use super::trace::{Packet, Proto};
use shaper::flow::hash::FlowHasher;
use shaper::flow::key::{Family, FlowKey, Kind};
use std::collections::HashMap;
use std::net::IpAddr;

/// The hashes that choose a packet's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// Of the flow.
    pub flow: u32,
    /// Of the source host.
    pub src: u32,
    /// Of the destination host.
    pub dst: u32,
}

/// A source of hashes.
#[derive(Debug)]
pub enum HashSource {
    /// Recorded ones, by packet number, and the name of the file they come from.
    Recorded {
        /// The file's name, for messages.
        file: String,
        /// Hashes by packet number.
        by_packet: HashMap<u64, Hashes>,
    },
    /// A function of the packet; [`computed`] unless another one is to be tried.
    Computed(fn(&Packet) -> Hashes),
}

impl HashSource {
    /// Reads lines `ID FH SH DH`, the hashes in hexadecimal; empty lines and `#` comments are
    /// skipped. `file` is its name for messages.
    ///
    /// # Errors
    /// A line that is not of this form, or that contradicts an earlier one.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut by_packet = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields.first().is_none_or(|field| field.starts_with('#')) {
                continue;
            }
            let error =
                |what: &str| Error::new(format_args!("{file}:{number}"), format_args!("`{line}` {what}"));
            let (id, hashes) = entry(&fields).ok_or_else(|| error("is not ID FH SH DH"))?;
            if by_packet.insert(id, hashes).is_some_and(|earlier| earlier != hashes) {
                return Err(error("contradicts an earlier line for the same packet"));
            }
        }
        Ok(Self::Recorded { file: file.to_owned(), by_packet })
    }

    /// The hashes of `packet`.
    ///
    /// # Errors
    /// None were recorded for it.
    pub fn of(&self, packet: &Packet) -> Result<Hashes, Error> {
        match self {
            Self::Computed(function) => Ok(function(packet)),
            Self::Recorded { file, by_packet } => by_packet
                .get(&packet.id)
                .copied()
                .ok_or_else(|| Error::new(file, format_args!("no line for packet {}", packet.id))),
        }
    }
}

/// The dataplane's own flow hash, under a fixed secret so that every run is the same, of the key
/// that dissection of such a packet would give; a flow hash that the trace gives takes precedence.
pub fn computed(packet: &Packet) -> Hashes {
    let hasher = FlowHasher::new(*SECRET);
    let key = key(packet);
    let (src, dst) = hasher.hosts(&key);
    Hashes { flow: packet.hash.unwrap_or_else(|| hasher.flow(&key)), src, dst }
}

/// A flow label stands for protocol and ports (RFC 6437). The identifiers of ICMP are not in a
/// trace.
fn key(packet: &Packet) -> FlowKey {
    let protocol = match packet.proto {
        Proto::Icmp if packet.src.is_ipv4() => 1,
        Proto::Icmp => 58,
        Proto::Tcp => 6,
        Proto::Udp => 17,
    };
    let addresses = FlowKey {
        source: number(packet.src),
        destination: number(packet.dst),
        family: if packet.src.is_ipv4() { Family::V4 } else { Family::V6 },
        ..FlowKey::EMPTY
    };
    match (addresses.family, packet.flow_label, packet.proto) {
        (Family::V6, label @ 1.., _) => FlowKey { kind: Kind::FlowLabel, id: label, ..addresses },
        (_, _, Proto::Icmp) => FlowKey { protocol, ..addresses },
        (_, _, Proto::Tcp | Proto::Udp) => FlowKey {
            protocol,
            kind: Kind::Ports,
            source_port: packet.sport,
            destination_port: packet.dport,
            ..addresses
        },
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn entry(fields: &[&str]) -> Option<(u64, Hashes)> {
    let [id, flow, src, dst] = fields else { return None };
    let hex = |text| u32::from_str_radix(text, 16).ok();
    Some((id.parse().ok()?, Hashes { flow: hex(flow)?, src: hex(src)?, dst: hex(dst)? }))
}

/// Not a secret: replays are to be repeated.
const SECRET: &[u8; 16] = b"the same, always";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::trace::{EventKind, Trace};

    #[test]
    fn a_computed_hash_tells_flows_apart_as_the_dataplane_does() {
        let hashes = |fields: &str, keys: &str| {
            let text = format!("cfg qdisc=fq_codel\nenq 0 {fields} 100 0 0 - 1 ts=768 {keys}");
            let trace = Trace::parse("t", &text).unwrap();
            let EventKind::Enqueue(packet) = &trace.events[0].kind else { panic!("an enq") };
            computed(packet)
        };
        let there = hashes("10.0.0.1 10.0.0.2 tcp 1 2", "");
        let back = hashes("10.0.0.2 10.0.0.1 tcp 2 1", "");
        assert_eq!((there.flow, there.src, there.dst), (back.flow, back.dst, back.src));
        assert_ne!(there.flow, hashes("10.0.0.1 10.0.0.2 udp 1 2", "").flow);
        assert_ne!(there.flow, hashes("10.0.0.1 10.0.0.2 tcp 1 3", "").flow);
        let label = hashes("::1 ::2 tcp 1 2", "fl=7");
        assert_eq!(label, hashes("::1 ::2 udp 3 4", "fl=7"));
        assert_ne!(label.flow, hashes("::1 ::2 tcp 1 2", "fl=8").flow);
        assert_eq!(hashes("::1 ::2 tcp 1 2", "hash=9").flow, 9);
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = |text| HashSource::parse("h", text).unwrap_err().to_string();
        assert_eq!(error("# text\n1 a b"), "h:2: `1 a b` is not ID FH SH DH");
        assert_eq!(error("1 g 0 0"), "h:1: `1 g 0 0` is not ID FH SH DH");
        assert_eq!(
            error("1 a 0 0\n1 b 0 0"),
            "h:2: `1 b 0 0` contradicts an earlier line for the same packet"
        );
    }
}
