//! Where the hashes of a replayed packet come from: a file, or our own function.

use super::Error;
use super::trace::Packet;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

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

/// SipHash with a fixed key over addresses, protocol and ports for the flow, over one address for
/// a host; a flow hash that the trace gives takes precedence. The same packets get the same hashes
/// in every run of one build. It stands in for the dataplane's keyed flow hash, which works on
/// bytes of a frame that a trace does not have.
pub fn computed(packet: &Packet) -> Hashes {
    let flow = (packet.src, packet.dst, packet.proto as u8, packet.sport, packet.dport, packet.flow_label);
    Hashes { flow: packet.hash.unwrap_or_else(|| hash(flow)), src: hash(packet.src), dst: hash(packet.dst) }
}

fn entry(fields: &[&str]) -> Option<(u64, Hashes)> {
    let [id, flow, src, dst] = fields else { return None };
    let hex = |text| u32::from_str_radix(text, 16).ok();
    Some((id.parse().ok()?, Hashes { flow: hex(flow)?, src: hex(src)?, dst: hex(dst)? }))
}

fn hash(what: impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

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
