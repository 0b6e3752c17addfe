//! Link-layer overhead: tc-cake(8), OVERHEAD COMPENSATION PARAMETERS.
//!
//! As in `tc`, giving any overhead at all means that it is counted from the IP packet, not from the frame;
//! the word `raw` turns that off again, and words add up. Deviation: order does not matter.

use std::fmt;

/// How many bytes a packet counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// Count from the IP packet; else from the frame with its Ethernet header and without FCS.
    pub from_ip: bool,
    /// Bytes added to every packet, [`MIN`]..=[`MAX`].
    pub bytes: i16,
    /// Smallest size in bytes after adding them, 0..=256.
    pub mpu: u16,
    /// Cell framing, applied last.
    pub framing: Framing,
}

/// Cell framing of the link layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// None.
    #[default]
    NoAtm,
    /// 53-byte cells with 48 bytes of payload.
    Atm,
    /// 64b/65b encoding: a byte more for each 64 begun.
    Ptm,
}

/// Least overhead in bytes.
pub const MIN: i16 = -64;
/// Most overhead in bytes.
pub const MAX: i16 = 256;

impl Overhead {
    /// The frame as it is.
    pub const RAW: Self = Self { from_ip: false, bytes: 0, mpu: 0, framing: Framing::NoAtm };

    /// `bytes` on top of the IP packet; nothing if out of range.
    pub(crate) fn of_bytes(bytes: i64) -> Option<Self> {
        let bytes = i16::try_from(bytes).ok().filter(|bytes| (MIN..=MAX).contains(bytes))?;
        Some(Self { from_ip: true, bytes, ..Self::RAW })
    }

    /// What `tc`'s keywords, separated by blanks, add up to. Whole numbers are added too.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut sum = Self { from_ip: true, ..Self::RAW };
        if text.trim().is_empty() {
            return Err("it is empty".to_owned());
        }
        for word in text.split_whitespace() {
            let bytes = match KEYWORDS.iter().find(|keyword| keyword.name == word) {
                Some(keyword) => {
                    sum.mpu = sum.mpu.max(keyword.mpu);
                    sum.framing = keyword.framing.unwrap_or(sum.framing);
                    keyword.bytes
                }
                None if word == RAW => {
                    sum.from_ip = false;
                    0
                }
                None => word.parse().map_err(|_| unknown(word))?,
            };
            sum.bytes = sum
                .bytes
                .checked_add(bytes)
                .filter(|bytes| (MIN..=MAX).contains(bytes))
                .ok_or_else(|| format!("it adds up to less than {MIN} or more than {MAX} bytes"))?;
        }
        Ok(sum)
    }
}

impl Framing {
    /// `tc`'s word.
    pub const fn name(self) -> &'static str {
        match self {
            Framing::NoAtm => "noatm",
            Framing::Atm => "atm",
            Framing::Ptm => "ptm",
        }
    }
}

impl fmt::Display for Overhead {
    /// The value of the key `overhead`: mpu and framing have keys of their own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from_ip, self.bytes) {
            (true, bytes) => write!(f, "{bytes}"),
            (false, 0) => f.write_str("\"raw\""),
            (false, bytes) => write!(f, "\"raw {bytes}\""),
        }
    }
}

fn unknown(word: &str) -> String {
    let known = || KEYWORDS.iter().map(|keyword| keyword.name).chain([RAW]);
    match crate::error::nearest(word, known()) {
        Some(near) => format!("unknown keyword \"{word}\", perhaps \"{near}\""),
        None => format!("unknown keyword \"{word}\"; known are {}", known().collect::<Vec<_>>().join(", ")),
    }
}

struct Keyword {
    name: &'static str,
    bytes: i16,
    mpu: u16,
    framing: Option<Framing>,
}

const RAW: &str = "raw";

static KEYWORDS: [Keyword; 14] = [
    keyword("conservative", 48, 0, Some(Framing::Atm)),
    keyword("pppoa-vcmux", 10, 0, Some(Framing::Atm)),
    keyword("pppoa-llc", 14, 0, Some(Framing::Atm)),
    keyword("pppoe-vcmux", 32, 0, Some(Framing::Atm)),
    keyword("pppoe-llcsnap", 40, 0, Some(Framing::Atm)),
    keyword("bridged-vcmux", 24, 0, Some(Framing::Atm)),
    keyword("bridged-llcsnap", 32, 0, Some(Framing::Atm)),
    keyword("ipoa-vcmux", 8, 0, Some(Framing::Atm)),
    keyword("ipoa-llcsnap", 16, 0, Some(Framing::Atm)),
    keyword("pppoe-ptm", 30, 0, Some(Framing::Ptm)),
    keyword("bridged-ptm", 22, 0, Some(Framing::Ptm)),
    keyword("docsis", 18, 64, Some(Framing::NoAtm)),
    keyword("ethernet", 38, 84, Some(Framing::NoAtm)),
    keyword("ether-vlan", 4, 0, None),
];

const fn keyword(name: &'static str, bytes: i16, mpu: u16, framing: Option<Framing>) -> Keyword {
    Keyword { name, bytes, mpu, framing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_those_of_the_man_page_and_add_up() {
        let sum = |from_ip, bytes, mpu, framing| Ok(Overhead { from_ip, bytes, mpu, framing });
        assert_eq!(Overhead::parse("docsis"), sum(true, 18, 64, Framing::NoAtm));
        assert_eq!(Overhead::parse("ethernet"), sum(true, 38, 84, Framing::NoAtm));
        assert_eq!(Overhead::parse("ethernet ether-vlan ether-vlan"), sum(true, 46, 84, Framing::NoAtm));
        assert_eq!(Overhead::parse("pppoe-ptm ether-vlan"), sum(true, 34, 0, Framing::Ptm));
        assert_eq!(Overhead::parse("conservative"), sum(true, 48, 0, Framing::Atm));
        assert_eq!(Overhead::parse("raw"), Ok(Overhead::RAW));
        assert_eq!(Overhead::parse("raw 22"), sum(false, 22, 0, Framing::NoAtm));
        assert_eq!(Overhead::parse("-14"), sum(true, -14, 0, Framing::NoAtm));
        for wrong in ["", "docis", "ethernet 300", "-65", "99999", "1.5"] {
            assert!(Overhead::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for from_ip in [true, false] {
            for bytes in MIN..=MAX {
                let overhead = Overhead { from_ip, bytes, ..Overhead::RAW };
                let written = overhead.to_string();
                let read = match written.parse() {
                    Ok(number) => Overhead::of_bytes(number),
                    Err(_) => Overhead::parse(written.trim_matches('"')).ok(),
                };
                assert_eq!(read, Some(overhead), "{written}");
            }
        }
    }
}
