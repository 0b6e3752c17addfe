//! How long a frame is on the link: tc-cake(8), "overhead compensation parameters".
//!
//! A setting is written in tc's own words ([`Overhead::from_str`]) and means what tc makes of
//! them: the presets add up, `overhead` and `conservative` replace the sum, `raw` clears it.
//! Where the manual and tc differ, tc is followed: `ethernet` leaves the framing as it is.

use crate::packet::Piece;
use alloc::string::String;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;

/// From a frame's length to the length that the shaper charges. The default changes nothing: frame
/// bytes with the Ethernet header and without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Count from the network header on, not from the start of the frame. Any word that sets an
    /// overhead switches it on, `raw` switches it off for good.
    pub ip_length: bool,
    /// Bytes added to each frame. [`Overhead::BYTES`] in one word; presets add to it.
    pub bytes: i16,
    /// Shortest frame in bytes, overhead included; [`Overhead::MPU`].
    pub mpu: u16,
    /// Framing of the link, applied last.
    pub framing: Framing,
}

/// Framing of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Frames as they are.
    #[default]
    None,
    /// ATM cells: 53 bytes for each 48 begun (ADSL).
    Atm,
    /// PTM, 64b/65b: one byte more for each 64 begun (VDSL2).
    Ptm,
}

/// A word that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverheadError {
    /// Not a word of tc-cake(8).
    Unknown(String),
    /// `overhead` without a whole number in [`Overhead::BYTES`] behind it.
    Bytes,
    /// `mpu` without a whole number in [`Overhead::MPU`] behind it.
    Mpu,
}

impl Overhead {
    /// What an Ethernet wire carries of a frame: preamble 8, FCS 4 and gap 12 more, 84 at least.
    pub const ETHERNET: Self = Self { ip_length: false, bytes: 24, mpu: 84, framing: Framing::None };

    /// The numbers that `overhead` takes, in bytes.
    pub const BYTES: RangeInclusive<i16> = -64..=256;
    /// The numbers that `mpu` takes, in bytes.
    pub const MPU: RangeInclusive<u16> = 0..=256;

    /// The names of link layers that [`Overhead::from_str`] knows, beside `conservative`.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, ..)| *name)
    }

    /// Fills `piece.adjusted`; the network header is `network_offset` bytes into the frame.
    #[inline]
    pub fn fill<P>(&self, piece: &mut Piece<P>, network_offset: u16) {
        piece.adjusted = self.adjust(piece, network_offset, |_, _| ());
    }

    /// Length of `piece` in bytes as the shaper charges it. A super-packet that stays whole counts
    /// as the frames it will become. `seen` is told of each length looked at, before and after
    /// overhead and framing (cake's statistics).
    #[inline]
    pub fn adjust<P>(&self, piece: &Piece<P>, network_offset: u16, mut seen: impl FnMut(u32, u32)) -> u32 {
        let mut one = |len: u32| {
            let net = if self.ip_length { len.wrapping_sub(network_offset.into()) } else { len };
            let link = self.on_link(net);
            seen(net, link);
            link
        };
        if piece.gso_size == 0 {
            return one(piece.frame_len);
        }
        let (size, full) = (u32::from(piece.gso_size), u32::from(piece.segs).saturating_sub(1));
        let each = one(size + u32::from(piece.header_len));
        let last = one(piece.frame_len.saturating_sub(size * full));
        each.saturating_mul(full).saturating_add(last)
    }

    /// Overhead, shortest frame and framing of `net` bytes, a negative number as two's complement.
    #[inline]
    fn on_link(&self, net: u32) -> u32 {
        let len = (net as i32).saturating_add(self.bytes.into()).max(self.mpu.into()) as u32;
        match self.framing {
            Framing::None => len,
            Framing::Atm => len.div_ceil(48).saturating_mul(53),
            Framing::Ptm => len.saturating_add(len.div_ceil(64)),
        }
    }
}

impl FromStr for Overhead {
    type Err = OverheadError;

    /// Words as on tc's command line, separated by spaces: `"pppoe-ptm ether-vlan"`,
    /// `"overhead 18 mpu 64 noatm"`. No words: the default.
    fn from_str(words: &str) -> Result<Self, OverheadError> {
        let mut result = Self::default();
        let mut raw = false;
        let mut words = words.split_ascii_whitespace();
        while let Some(word) = words.next() {
            match word {
                "raw" => {
                    raw = true;
                    (result.bytes, result.framing) = (0, Framing::None);
                }
                "overhead" => {
                    result.bytes = number(words.next(), &Self::BYTES).ok_or(OverheadError::Bytes)?;
                    result.ip_length = true;
                }
                "mpu" => result.mpu = number(words.next(), &Self::MPU).ok_or(OverheadError::Mpu)?,
                "conservative" => {
                    result = Self { ip_length: true, bytes: 48, framing: Framing::Atm, ..result };
                }
                "noatm" => result.framing = Framing::None,
                "atm" => result.framing = Framing::Atm,
                "ptm" => result.framing = Framing::Ptm,
                // Accepted by tc for old scripts; means nothing since IP-length accounting.
                "via-ethernet" => (),
                preset => {
                    let (_, bytes, mpu, framing) = PRESETS
                        .iter()
                        .find(|(keyword, ..)| *keyword == preset)
                        .ok_or_else(|| OverheadError::Unknown(preset.into()))?;
                    result.bytes = result.bytes.saturating_add(*bytes);
                    result.mpu = mpu.unwrap_or(result.mpu);
                    result.framing = framing.unwrap_or(result.framing);
                    result.ip_length = true;
                }
            }
        }
        result.ip_length &= !raw;
        Ok(result)
    }
}

impl fmt::Display for Overhead {
    /// The setting as tc shows it; [`Overhead::from_str`] reads it back unless presets have
    /// summed up to more than [`Overhead::BYTES`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let framing = match self.framing {
            Framing::None => "noatm",
            Framing::Atm => "atm",
            Framing::Ptm => "ptm",
        };
        f.write_str(if self.ip_length { "" } else { "raw " })?;
        write!(f, "{framing} overhead {} mpu {}", self.bytes, self.mpu)
    }
}

impl fmt::Display for OverheadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |f: &mut fmt::Formatter<'_>, word, low: i16, high: i16| {
            write!(f, "`{word}` takes a whole number of bytes from {low} to {high}, as in `{word} 44`")
        };
        match self {
            Self::Bytes => range(f, "overhead", *Overhead::BYTES.start(), *Overhead::BYTES.end()),
            Self::Mpu => range(f, "mpu", 0, *Overhead::MPU.end() as i16),
            Self::Unknown(word) => {
                write!(f, "`{word}` is not known; accepted are overhead N, mpu N, atm, ptm, noatm, raw, ")?;
                f.write_str("conservative, via-ethernet")?;
                PRESETS.iter().try_for_each(|(keyword, ..)| write!(f, ", {keyword}"))
            }
        }
    }
}

impl core::error::Error for OverheadError {}

fn number<T: FromStr + PartialOrd>(word: Option<&str>, range: &RangeInclusive<T>) -> Option<T> {
    word.and_then(|word| word.parse().ok()).filter(|value| range.contains(value))
}

/// What each preset adds to the overhead, the mpu and the framing it sets if any: tc-cake(8).
const PRESETS: [(&str, i16, Option<u16>, Option<Framing>); 13] = [
    ("pppoa-vcmux", 10, None, Some(Framing::Atm)),
    ("pppoa-llc", 14, None, Some(Framing::Atm)),
    ("pppoe-vcmux", 32, None, Some(Framing::Atm)),
    ("pppoe-llcsnap", 40, None, Some(Framing::Atm)),
    ("bridged-vcmux", 24, None, Some(Framing::Atm)),
    ("bridged-llcsnap", 32, None, Some(Framing::Atm)),
    ("ipoa-vcmux", 8, None, Some(Framing::Atm)),
    ("ipoa-llcsnap", 16, None, Some(Framing::Atm)),
    ("pppoe-ptm", 30, None, Some(Framing::Ptm)),
    ("bridged-ptm", 22, None, Some(Framing::Ptm)),
    ("docsis", 18, Some(64), Some(Framing::None)),
    ("ethernet", 38, Some(84), None),
    ("ether-vlan", 4, None, None),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    fn parse(words: &str) -> Overhead {
        words.parse().unwrap()
    }

    /// `words`, counted from the IP header, overhead, mpu, framing: what tc (iproute2 6.1) puts
    /// into its netlink message for these words, read off with strace.
    const TC: [(&str, bool, i16, u16, Framing); 36] = [
        ("", false, 0, 0, Framing::None),
        ("raw", false, 0, 0, Framing::None),
        ("conservative", true, 48, 0, Framing::Atm),
        ("pppoa-vcmux", true, 10, 0, Framing::Atm),
        ("pppoa-llc", true, 14, 0, Framing::Atm),
        ("pppoe-vcmux", true, 32, 0, Framing::Atm),
        ("pppoe-llcsnap", true, 40, 0, Framing::Atm),
        ("bridged-vcmux", true, 24, 0, Framing::Atm),
        ("bridged-llcsnap", true, 32, 0, Framing::Atm),
        ("ipoa-vcmux", true, 8, 0, Framing::Atm),
        ("ipoa-llcsnap", true, 16, 0, Framing::Atm),
        ("pppoe-ptm", true, 30, 0, Framing::Ptm),
        ("bridged-ptm", true, 22, 0, Framing::Ptm),
        ("via-ethernet", false, 0, 0, Framing::None),
        ("ethernet", true, 38, 84, Framing::None),
        ("ether-vlan", true, 4, 0, Framing::None),
        ("ether-vlan ether-vlan", true, 8, 0, Framing::None),
        ("docsis", true, 18, 64, Framing::None),
        ("overhead 20 ether-vlan", true, 24, 0, Framing::None),
        ("ether-vlan overhead 20", true, 20, 0, Framing::None),
        ("pppoe-ptm ether-vlan", true, 34, 0, Framing::Ptm),
        ("pppoe-ptm pppoa-llc", true, 44, 0, Framing::Atm),
        ("raw overhead 10", false, 10, 0, Framing::None),
        ("overhead 10 raw", false, 0, 0, Framing::None),
        ("raw ether-vlan", false, 4, 0, Framing::None),
        ("ethernet raw", false, 0, 84, Framing::None),
        ("docsis raw", false, 0, 64, Framing::None),
        ("conservative raw", false, 0, 0, Framing::None),
        ("docsis pppoe-ptm", true, 48, 64, Framing::Ptm),
        ("pppoe-ptm docsis", true, 48, 64, Framing::None),
        ("pppoe-ptm ethernet", true, 68, 84, Framing::Ptm),
        ("pppoe-ptm conservative", true, 48, 0, Framing::Atm),
        ("mpu 100 docsis", true, 18, 64, Framing::None),
        ("overhead 256 ether-vlan", true, 260, 0, Framing::None),
        ("overhead -64 mpu 256", true, -64, 256, Framing::None),
        ("pppoe-ptm noatm", true, 30, 0, Framing::None),
    ];

    #[test]
    fn words_mean_what_tc_makes_of_them() {
        for (words, ip_length, bytes, mpu, framing) in TC {
            assert_eq!(parse(words), Overhead { ip_length, bytes, mpu, framing }, "{words:?}");
        }
        assert_eq!(parse("mpu 64 atm"), Overhead { mpu: 64, framing: Framing::Atm, ..Overhead::default() });
        assert_eq!(parse("atm ptm").framing, Framing::Ptm);
    }

    #[test]
    fn what_is_shown_reads_back() {
        for (words, ..) in TC.iter().filter(|(_, _, bytes, ..)| Overhead::BYTES.contains(bytes)) {
            assert_eq!(parse(&parse(words).to_string()), parse(words), "{words:?}");
        }
    }

    #[test]
    fn bad_words_are_named() {
        let error = |words: &str| words.parse::<Overhead>().unwrap_err().to_string();
        for words in
            ["overhead", "overhead -65", "overhead 257", "overhead x", "overhead 1.5", "overhead 99999"]
        {
            assert_eq!(
                error(words),
                "`overhead` takes a whole number of bytes from -64 to 256, as in `overhead 44`",
                "{words}"
            );
        }
        for words in ["mpu", "mpu -1", "mpu 257", "mpu atm"] {
            assert_eq!(
                error(words),
                "`mpu` takes a whole number of bytes from 0 to 256, as in `mpu 44`",
                "{words}"
            );
        }
        let unknown = error("atm pppoe");
        assert!(unknown.starts_with("`pppoe` is not known; accepted are overhead N"), "{unknown}");
        assert!(PRESETS.iter().all(|(keyword, ..)| unknown.contains(keyword)), "{unknown}");
    }

    fn adjusted(words: &str, frame_len: u32) -> u32 {
        let mut piece = Piece::single((), frame_len, 2048);
        parse(words).fill(&mut piece, 14);
        piece.adjusted
    }

    #[test]
    fn lengths_on_the_link() {
        assert_eq!(adjusted("", 1514), 1514, "frame bytes with the Ethernet header, no FCS");
        assert_eq!(adjusted("overhead 14", 1514), 1514);
        assert_eq!(adjusted("ethernet", 1514), 1538, "preamble 8, header 14, FCS 4, gap 12 around 1500");
        assert_eq!(adjusted("ethernet", 60), 84);
        for len in [0, 59, 60, 61, 1514] {
            let wire = Overhead::ETHERNET.adjust(&Piece::single((), len, 2048), 14, |_, _| ());
            assert_eq!(wire, adjusted("ethernet", len.max(14)), "{len}");
        }
        assert_eq!(adjusted("docsis", 60), 64);
        assert_eq!(adjusted("raw overhead 10", 100), 110);
        assert_eq!(adjusted("overhead -64", 60), 0, "never below zero");
        assert_eq!(adjusted("overhead -64 mpu 64", 60), 64);
        assert_eq!(adjusted("overhead 0", 10), 0, "a frame that ends before its network header");
        let mut tagged = Piece::single((), 1518, 2048);
        parse("ethernet ether-vlan").fill(&mut tagged, 18);
        assert_eq!(tagged.adjusted, 1542, "the tag is counted once, by the overhead");
    }

    #[test]
    fn cells_and_blocks_exactly() {
        for len in 0..5_000_u32 {
            let cells = (0..).find(|cells| cells * 48 >= len).unwrap();
            assert_eq!(adjusted("atm", len), cells * 53, "{len}");
            let blocks = (0..).find(|blocks| blocks * 64 >= len).unwrap();
            assert_eq!(adjusted("ptm", len), len + blocks, "{len}");
        }
        assert_eq!(adjusted("pppoa-vcmux", 54), 2 * 53, "40 + 10 bytes take two cells");
        assert_eq!(adjusted("pppoe-ptm", 1514), 1530 + 24);
    }

    /// Cutting a super-packet does not change what is charged.
    #[test]
    fn an_uncut_super_packet_costs_what_its_pieces_cost() {
        for words in ["", "ethernet", "pppoa-llc", "pppoe-ptm ether-vlan", "overhead -20 mpu 100 atm"] {
            for payload in [1_449_u32, 2_896, 10_001, 64_000] {
                let (header, size) = (66, 1_448);
                let segs = payload.div_ceil(size);
                let mut whole = Piece::single((), header + payload, 65_536);
                (whole.segs, whole.gso_size, whole.header_len) = (segs as u16, size as u16, header as u16);
                parse(words).fill(&mut whole, 14);
                let pieces = (0..segs).map(|k| adjusted(words, header + size.min(payload - k * size))).sum();
                assert_eq!(whole.adjusted, pieces, "{words:?} {payload}");
            }
        }
    }

    #[test]
    fn each_length_looked_at_is_told() {
        let mut whole = Piece::single((), 66 + 3_000, 4_096);
        (whole.segs, whole.gso_size, whole.header_len) = (3, 1_448, 66);
        let mut seen = Vec::new();
        let charged = parse("overhead 10").adjust(&whole, 14, |net, link| seen.push((net, link)));
        assert_eq!(seen, vec![(1_500, 1_510), (156, 166)]);
        assert_eq!(charged, 2 * 1_510 + 166);
    }

    #[test]
    fn absurd_pieces_saturate() {
        let mut piece = Piece::single((), u32::MAX, 0);
        (piece.segs, piece.gso_size, piece.header_len) = (u16::MAX, u16::MAX, u16::MAX);
        for words in ["", "conservative", "ethernet ptm", "raw overhead -64 mpu 256"] {
            assert!(parse(words).adjust(&piece, u16::MAX, |_, _| ()) > 0);
        }
    }
}
