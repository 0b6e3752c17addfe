//! The TCP field of a trace line: `FLAGS/SEQ/ACK[/OPTION...]`.
//!
//! `FLAGS` are letters of `F S R P A U E C`; options are `ts:VAL:ECR`, `sack:L:R[:L:R...]`,
//! `mss:N` and `raw:HEX`, encoded in this order of appearance and padded with zeros to a multiple
//! of four bytes.

use std::str::FromStr;

/// A TCP header, without ports and checksum.
#[derive(Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The flags, as in byte 13 of the header.
    pub flags: u8,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// The options, encoded and padded.
    pub options: Vec<u8>,
}

impl Tcp {
    /// A header without options, in bytes.
    pub const MIN_HEADER: u32 = 20;
    /// The longest header there can be, in bytes; a trace may ask for more, and gets what cannot
    /// be read.
    pub const MAX_HEADER: u32 = 60;

    /// Header length in bytes.
    pub fn header_len(&self) -> u32 {
        Self::MIN_HEADER + self.options.len() as u32
    }

    /// Reads the field.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split('/');
        let flags = flags(parts.next().unwrap_or_default())?;
        let seq = number(parts.next().unwrap_or_default(), "sequence number")?;
        let ack = number(parts.next().unwrap_or_default(), "acknowledgement number")?;
        let mut options = Vec::new();
        for part in parts {
            encode(part, &mut options)?;
        }
        options.resize(options.len().next_multiple_of(4), 0);
        Ok(Self { flags, seq, ack, options })
    }
}

fn flags(text: &str) -> Result<u8, String> {
    text.chars().try_fold(0, |flags, letter| match FLAGS.find(letter) {
        Some(bit) => Ok(flags | 1 << bit),
        None => Err(format!("TCP flag `{letter}` is none of F S R P A U E C")),
    })
}

fn encode(text: &str, options: &mut Vec<u8>) -> Result<(), String> {
    let (kind, value) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "ts" => {
            options.extend([NOP, NOP, TIMESTAMPS, 10]);
            words(value, options)
        }
        "sack" => {
            let edges = value.split(':').count();
            options.extend([NOP, NOP, SACK, 2 + 4 * edges.min(OPTIONS_MAX) as u8]);
            words(value, options)
        }
        "mss" => {
            options.extend([MSS, 4]);
            options.extend(number::<u16>(value, "MSS")?.to_be_bytes());
            Ok(())
        }
        "raw" => hex(value, options),
        _ => Err(format!("TCP option `{kind}` is none of ts, sack, mss, raw")),
    }
}

fn words(text: &str, options: &mut Vec<u8>) -> Result<(), String> {
    for word in text.split(':') {
        options.extend(number::<u32>(word, "value of a TCP option")?.to_be_bytes());
    }
    Ok(())
}

fn hex(text: &str, options: &mut Vec<u8>) -> Result<(), String> {
    let bad = || format!("`{text}` is not pairs of hexadecimal digits");
    for pair in text.as_bytes().chunks(2) {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2).ok_or_else(bad)?;
        options.push(u8::from_str_radix(pair, 16).map_err(|_| bad())?);
    }
    Ok(())
}

fn number<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no valid TCP {what}"))
}

/// From bit 0 up.
const FLAGS: &str = "FSRPAUEC";
/// What four bits of data offset leave room for.
const OPTIONS_MAX: usize = 40;
const NOP: u8 = 1;
const MSS: u8 = 2;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_and_pads_options() {
        let tcp = Tcp::parse("SA/1/2/mss:1460/sack:1:2/raw:fd").unwrap();
        assert_eq!((tcp.flags, tcp.seq, tcp.ack), (0x12, 1, 2));
        let expected = [2, 4, 5, 180, 1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0xfd, 0, 0, 0];
        assert_eq!(tcp.options, expected);
        assert_eq!(tcp.header_len(), 40);
        let long = Tcp::parse("A/1/1/ts:1:2/sack:1:2:3:4:5:6:7:8").unwrap();
        assert!(long.header_len() > Tcp::MAX_HEADER);
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("A/x/1", "`x` is no valid TCP sequence number"),
            ("A/1", "`` is no valid TCP acknowledgement number"),
            ("A/1/1/foo:1", "TCP option `foo` is none of ts, sack, mss, raw"),
            ("A/1/1/raw:1g", "`1g` is not pairs of hexadecimal digits"),
            ("A/1/1/raw:abc", "`abc` is not pairs of hexadecimal digits"),
        ] {
            assert_eq!(Tcp::parse(text).unwrap_err(), expected);
        }
    }
}
