//! Values with a unit, written as `tc` writes them (tc(8), PARAMETERS), read exactly.
//!
//! * Rates: `bit`, `kbit`, `Mbit`, `Gbit`, `Tbit` count bits in powers of 1000 per second, `bps`, `kbps`,
//!   `Mbps`... count *bytes*, as `tc` does; an `i` (`Kibit`, `MiBps`) makes them powers of 1024.
//! * Times: `s`, `ms`, `us`, `ns` and their longer spellings.
//! * Sizes: `b`, `kb`, `mb`, `gb` (or `k`, `KiB`, ...) are bytes in powers of 1024; `kbit`, `mbit`, `gbit` are
//!   1024-based bits.
//!
//! Case does not matter. Unlike `tc`, a bare number is refused: what it would mean differs from option to
//! option. The arithmetic is decimal and whole, no floating point: what cannot be held exactly is refused.

use std::fmt;

use shaper::time::Duration;
use shaper::units::Rate;
use thiserror::Error;

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    /// It does not begin with a decimal number.
    #[error("it does not begin with a number such as 20 or 1.5")]
    NotANumber,
    /// A number alone.
    #[error("the unit is missing")]
    NoUnit,
    /// The unit is none of those known.
    #[error("unknown unit \"{0}\"; known are {1}")]
    UnknownUnit(String, &'static str),
    /// More decimals than the base unit (bit/s, ns, byte) can hold.
    #[error("it is not a whole number of {0}")]
    TooPrecise(&'static str),
    /// More than 64 bits.
    #[error("it is too large to be represented")]
    TooLarge,
}

/// A family of units: what one of them is worth in the base unit.
#[derive(Debug, PartialEq, Eq)]
pub struct Units {
    /// The base unit in words.
    base: &'static str,
    /// All of them in words.
    known: &'static str,
    /// Lower-case name and worth; what is printed is chosen among `print`.
    accept: &'static [(&'static str, u64)],
    /// Largest first.
    print: &'static [(&'static str, u64)],
}

/// Reads a rate, for example `"950Mbit"`, `"1.5gbit"`, `"100mbps"` (bytes).
///
/// # Errors
/// See [`UnitError`].
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    RATES.parse(text).map(Rate::from_bits_per_sec)
}

/// Reads a span of time, for example `"5ms"`, `"100us"`, `"0.5s"`.
///
/// # Errors
/// See [`UnitError`].
pub fn parse_time(text: &str) -> Result<Duration, UnitError> {
    TIMES.parse(text).map(Duration::from_nanos)
}

/// Reads an amount of memory in bytes, for example `"32MiB"`, `"4mb"`, `"512kb"`.
///
/// # Errors
/// See [`UnitError`].
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    SIZES.parse(text)
}

/// Writes a rate so that [`parse_rate`] gives it back: `20Mbit`.
pub fn rate(rate: Rate) -> impl fmt::Display {
    Quantity { value: rate.bits_per_sec(), units: &RATES }
}

/// Writes a span of time so that [`parse_time`] gives it back: `5ms`.
pub fn time(span: Duration) -> impl fmt::Display {
    Quantity { value: span.as_nanos(), units: &TIMES }
}

/// Writes an amount of bytes so that [`parse_size`] gives it back: `32MiB`.
pub fn size(bytes: u64) -> impl fmt::Display {
    Quantity { value: bytes, units: &SIZES }
}

struct Quantity {
    value: u64,
    units: &'static Units,
}

impl fmt::Display for Quantity {
    /// In the largest unit in which it is at least 1 and needs at most three decimals; nothing is rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = u128::from(self.value) * 1_000;
        let fits =
            |&&(_, worth): &&(&str, u64)| self.value >= worth && thousandths.is_multiple_of(worth.into());
        let unit = self.units.print.iter().find(fits).or(self.units.print.last());
        let (name, worth) = unit.copied().unwrap_or(("", 1));
        let (whole, rest) = (self.value / worth, thousandths / u128::from(worth) % 1_000);
        let decimals = format!(".{rest:03}");
        f.pad(&format!("{whole}{}{name}", decimals.trim_end_matches('0').trim_end_matches('.')))
    }
}

impl Units {
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let text = text.trim();
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let (mantissa, decimals) = decimal(number)?;
        let unit = unit.trim_start();
        if unit.is_empty() {
            return Err(UnitError::NoUnit);
        }
        let known = self.accept.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let (_, worth) = known.ok_or_else(|| UnitError::UnknownUnit(unit.to_owned(), self.known))?;
        let scaled = mantissa.checked_mul(u128::from(*worth)).ok_or(UnitError::TooLarge)?;
        let divisor = 10_u128.checked_pow(decimals).ok_or(UnitError::TooPrecise(self.base))?;
        if !scaled.is_multiple_of(divisor) {
            return Err(UnitError::TooPrecise(self.base));
        }
        u64::try_from(scaled / divisor).map_err(|_| UnitError::TooLarge)
    }
}

/// `12.50` as 1250 and the number of decimals, 2.
fn decimal(number: &str) -> Result<(u128, u32), UnitError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(UnitError::NotANumber);
    }
    let fraction = fraction.trim_end_matches('0');
    let mut mantissa = 0_u128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        mantissa = mantissa
            .checked_mul(10)
            .and_then(|m| m.checked_add(u128::from(digit - b'0')))
            .ok_or(UnitError::TooLarge)?;
    }
    Ok((mantissa, u32::try_from(fraction.len()).map_err(|_| UnitError::TooLarge)?))
}

static RATES: Units = Units {
    base: "bit/s",
    known: "bit, kbit, Mbit, Gbit, Tbit, and bps, kbps, Mbps, Gbps, Tbps for bytes",
    accept: &[
        ("bit", 1),
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
        ("tbit", 1_000_000_000_000),
        ("kibit", 1 << 10),
        ("mibit", 1 << 20),
        ("gibit", 1 << 30),
        ("tibit", 1 << 40),
        ("bps", 8),
        ("kbps", 8_000),
        ("mbps", 8_000_000),
        ("gbps", 8_000_000_000),
        ("tbps", 8_000_000_000_000),
        ("kibps", 8 << 10),
        ("mibps", 8 << 20),
        ("gibps", 8 << 30),
        ("tibps", 8 << 40),
    ],
    print: &[
        ("Tbit", 1_000_000_000_000),
        ("Gbit", 1_000_000_000),
        ("Mbit", 1_000_000),
        ("Kbit", 1_000),
        ("bit", 1),
    ],
};

static TIMES: Units = Units {
    base: "ns",
    known: "s, ms, us, ns",
    accept: &[
        ("s", 1_000_000_000),
        ("sec", 1_000_000_000),
        ("secs", 1_000_000_000),
        ("ms", 1_000_000),
        ("msec", 1_000_000),
        ("msecs", 1_000_000),
        ("us", 1_000),
        ("usec", 1_000),
        ("usecs", 1_000),
        ("ns", 1),
        ("nsec", 1),
        ("nsecs", 1),
    ],
    print: &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)],
};

static SIZES: Units = Units {
    base: "bytes",
    known: "b, KiB, MiB, GiB (kb, mb, gb are the same)",
    accept: &[
        ("b", 1),
        ("k", 1 << 10),
        ("kb", 1 << 10),
        ("kib", 1 << 10),
        ("m", 1 << 20),
        ("mb", 1 << 20),
        ("mib", 1 << 20),
        ("g", 1 << 30),
        ("gb", 1 << 30),
        ("gib", 1 << 30),
        ("kbit", 1 << 7),
        ("mbit", 1 << 17),
        ("gbit", 1 << 27),
    ],
    print: &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("b", 1)],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_tc_reads() {
        let rates = [
            ("950Mbit", 950_000_000),
            ("1.5gbit", 1_500_000_000),
            ("100mbps", 800_000_000),
            ("64kbit", 64_000),
            ("1Kibit", 1_024),
            ("1 Mbit", 1_000_000),
            ("0.001kbit", 1),
            ("12.50Mbit", 12_500_000),
            ("400gbit", 400_000_000_000),
        ];
        for (text, bits) in rates {
            assert_eq!(parse_rate(text), Ok(Rate::from_bits_per_sec(bits)), "{text}");
        }
        let times =
            [("5ms", 5_000_000), ("100us", 100_000), ("1.5us", 1_500), ("1sec", 1_000_000_000), ("7ns", 7)];
        for (text, nanos) in times {
            assert_eq!(parse_time(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        let sizes =
            [("4MiB", 4 << 20), ("32Mb", 32 << 20), ("1.5k", 1_536), ("1514b", 1_514), ("8kbit", 1_024)];
        for (text, bytes) in sizes {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        use UnitError::*;
        let long = "9".repeat(60) + "Mbit";
        let deep = format!("0.{}1Mbit", "0".repeat(60));
        let cases = [
            ("", NotANumber),
            ("fast", NotANumber),
            ("-5Mbit", NotANumber),
            (".5Mbit", NotANumber),
            ("5.Mbit", NotANumber),
            ("1.2.3Mbit", NotANumber),
            ("100", NoUnit),
            ("50%", UnknownUnit("%".into(), RATES.known)),
            ("20Mbt", UnknownUnit("Mbt".into(), RATES.known)),
            ("1e3bit", UnknownUnit("e3bit".into(), RATES.known)),
            ("0.5bit", TooPrecise("bit/s")),
            (deep.as_str(), TooPrecise("bit/s")),
            ("99999999999Tbit", TooLarge),
            (long.as_str(), TooLarge),
        ];
        for (text, error) in cases {
            assert_eq!(parse_rate(text), Err(error), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for step in 0..4_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let round = [1, 1_000, 1_000_000, 1 << 10, 1 << 20][(step % 5) as usize];
            let value = (state >> (step % 60)) / round * round;
            assert_eq!(
                parse_rate(&rate(Rate::from_bits_per_sec(value)).to_string()),
                Ok(Rate::from_bits_per_sec(value))
            );
            assert_eq!(
                parse_time(&time(Duration::from_nanos(value)).to_string()),
                Ok(Duration::from_nanos(value))
            );
            assert_eq!(parse_size(&size(value).to_string()), Ok(value));
        }
        assert_eq!(rate(Rate::from_bits_per_sec(950_000_000)).to_string(), "950Mbit");
        assert_eq!(time(Duration::from_millis(5)).to_string(), "5ms");
        assert_eq!(size(32 << 20).to_string(), "32MiB");
        assert_eq!(time(Duration::ZERO).to_string(), "0ns");
        assert_eq!(time(Duration::from_micros(12_112)).to_string(), "12.112ms");
        assert_eq!(rate(Rate::from_bits_per_sec(1_500_000)).to_string(), "1.5Mbit");
        assert_eq!(rate(Rate::from_bits_per_sec(1_234_567)).to_string(), "1234.567Kbit");
        assert_eq!(size(1_514).to_string(), "1514b");
    }

    #[test]
    fn no_text_makes_it_panic() {
        let alphabet = ['0', '9', '.', '-', 'M', 'k', 'b', 'i', 't', 's', 'u', ' ', '%', 'é', '\0', '٣', '𝟙'];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..(state >> 60) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let _ = (parse_rate(&text), parse_time(&text), parse_size(&text));
        }
    }
}
