//! A discipline and its options as on tc's command line, in both directions: tc-cake(8), tc-fq_codel(8),
//! tc-pfifo(8).
//!
//! A line is translated into keys of the file, word by word, and these are held against the schema like any
//! other: the ranges and defaults are those of the keys. Bare numbers mean what they mean to tc: bits per
//! second, microseconds, bytes. As with tc, a word that is repeated counts as it stood last.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use shaper::gso::Split;
use shaper::qdisc::{Params, cake, fq_codel};
use shaper::rate::{Overhead, OverheadError};

use crate::error::nearest;
use crate::model::Direction;
use crate::schema::{CAKE, DIRECTION, FIFO, FQ_CODEL};
use crate::words::Words as _;
use crate::{check, units};

/// tc-cake(8)'s options, printed as a Markdown table: how tc says it, how the file does, the default, and
/// whether it can change while weir runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct CakeOptions;

/// A discipline as tc has it.
struct Discipline {
    /// tc's names of it.
    names: &'static [&'static str],
    qdisc: &'static str,
    man: &'static str,
    words: &'static [Word],
    /// The overhead words are its own.
    has_overhead: bool,
}

/// A word of tc's, and the key that it stands for.
struct Word {
    word: &'static str,
    key: &'static str,
    value: Value,
}

/// What follows a word, and what it is in TOML.
#[derive(Clone, Copy)]
enum Value {
    /// Nothing follows: the word means this.
    Is(&'static str),
    /// A rate; bits per second if bare.
    Rate,
    /// A time; microseconds if bare.
    Time,
    /// An amount of memory; bytes if bare. A text in TOML.
    Size,
    /// A number of bytes. A number in TOML.
    Bytes,
    /// A number of something, perhaps with tc's `p` for packets.
    Count,
    /// Bits, perhaps in hexadecimal digits.
    Mask,
    /// What it is.
    Text,
}

/// The keys that `line` speaks for, whether given in it or not; none if its discipline is unknown. Of
/// split-gso it speaks only if it names it: tc has no words for what holds otherwise.
pub(crate) fn keys(line: &str) -> Vec<&'static str> {
    let Some(discipline) = discipline(line) else { return Vec::new() };
    let overhead: &[&str] = if discipline.has_overhead { &["overhead", "mpu", "atm"] } else { &[] };
    let is_named = |word: &&Word| line.split_whitespace().any(|given| given == word.word);
    let words = discipline.words.iter().filter(|word| word.key != "split-gso" || is_named(word));
    let words = words.map(|word| word.key);
    std::iter::once("qdisc").chain(words).chain(overhead.iter().copied()).collect()
}

/// The keys that `line` speaks for with their values as in the file; none: the default.
///
/// # Errors
/// Why `line` cannot be read.
pub fn settings(line: &str) -> Result<Vec<(&'static str, Option<toml::Value>)>, String> {
    check(line)?;
    let mut given: toml::Table = to_toml(line)?.parse().map_err(|error| format!("{error}"))?;
    // Several words may stand for one key.
    let keys: BTreeSet<_> = keys(line).into_iter().collect();
    Ok(keys.into_iter().map(|key| (key, given.remove(key))).collect())
}

/// What the key `qdisc` would be for `line`.
pub(crate) fn qdisc(line: &str) -> Option<&'static str> {
    discipline(line).map(|discipline| discipline.qdisc)
}

/// Whether `line` can be read and every value in it is within its range.
pub(crate) fn check(line: &str) -> Result<(), String> {
    for (key, value) in read(line)? {
        if let Some(schema) = DIRECTION.key(key) {
            check::value(schema.kind, &value).map_err(|error| format!("{key} = {value}: {error}"))?;
        }
    }
    Ok(())
}

/// `line` as a table in TOML.
pub(crate) fn to_toml(line: &str) -> Result<String, String> {
    let keys = read(line)?.into_iter();
    Ok(keys.map(|(key, value)| format!("{key} = {value}\n")).collect())
}

/// `line` as keys with their values in TOML, each key once.
fn read(line: &str) -> Result<Vec<(&'static str, String)>, String> {
    let discipline = discipline(line).ok_or_else(|| {
        let names: Vec<_> = DISCIPLINES.iter().flat_map(|discipline| discipline.names).copied().collect();
        format!("it does not begin with one of {}", names.join(", "))
    })?;
    let mut keys = vec![("qdisc", quote(discipline.qdisc))];
    let mut overhead = Vec::new();
    let mut words = line.split_whitespace().skip(1);
    while let Some(given) = words.next() {
        if let Some(word) = discipline.words.iter().find(|word| word.word == given) {
            let value = word.value.read(given, &mut words)?;
            keys.retain(|(key, _)| *key != word.key);
            keys.push((word.key, value));
        } else if let Some(takes) = overhead_arguments(given).filter(|_| discipline.has_overhead) {
            overhead.push(given);
            overhead.extend(words.by_ref().take(takes));
        } else {
            return Err(unknown(given, discipline));
        }
    }
    if !overhead.is_empty() {
        keys.push(("overhead", quote(&overhead.join(" "))));
    }
    Ok(keys)
}

fn discipline(line: &str) -> Option<&'static Discipline> {
    let name = line.split_whitespace().next()?;
    DISCIPLINES.iter().find(|discipline| discipline.names.contains(&name))
}

/// How many words follow this one if it is about overhead.
fn overhead_arguments(word: &str) -> Option<usize> {
    match word.parse::<Overhead>() {
        Ok(_) => Some(0),
        Err(OverheadError::Bytes | OverheadError::Mpu) => Some(1),
        Err(OverheadError::Unknown(_)) => None,
    }
}

fn unknown(word: &str, discipline: &Discipline) -> String {
    let near = nearest(word, discipline.words.iter().map(|word| word.word));
    let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
    format!("\"{word}\" is no option of {}{hint}", discipline.man)
}

impl Value {
    /// The value in TOML.
    fn read<'l>(self, word: &str, words: &mut impl Iterator<Item = &'l str>) -> Result<String, String> {
        if let Self::Is(value) = self {
            return Ok(value.to_owned());
        }
        let text =
            words.next().ok_or_else(|| format!("\"{word}\" is the last word: its value is missing"))?;
        let no_number = |_| format!("{word} {text}: it is not a whole number");
        let is_bare = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let with_unit = |unit| if is_bare { format!("{text}{unit}") } else { text.to_owned() };
        Ok(match self {
            Self::Is(_) | Self::Text => quote(text),
            Self::Rate => quote(&with_unit("bit")),
            Self::Time => quote(&with_unit("us")),
            Self::Size => quote(&with_unit("b")),
            Self::Bytes => match units::parse_size(&with_unit("b")) {
                Ok(bytes) => bytes.to_string(),
                Err(error) => return Err(format!("{word} {text}: {error}")),
            },
            Self::Count => {
                let digits = text.strip_suffix('p').unwrap_or(text);
                digits.parse::<u64>().map_err(no_number)?.to_string()
            }
            Self::Mask => {
                let parsed = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse(),
                };
                format!("{:#x}", parsed.map_err(no_number)?)
            }
        })
    }

    /// What tc's manual writes behind the word.
    fn placeholder(self) -> &'static str {
        match self {
            Self::Is(_) => "",
            Self::Rate => " RATE",
            Self::Time => " TIME",
            Self::Size => " LIMIT",
            Self::Bytes => " BYTES",
            Self::Count => " NUMBER",
            Self::Mask => " MASK",
            Self::Text => " VALUE/MASK",
        }
    }

    /// The same as it stands in the file.
    fn in_toml(self) -> String {
        match self {
            Self::Is(value) => value.to_owned(),
            Self::Bytes | Self::Count | Self::Mask => self.placeholder().trim().to_owned(),
            Self::Rate | Self::Time | Self::Size | Self::Text => quote(self.placeholder().trim()),
        }
    }
}

impl Direction {
    /// The discipline with all its options as on tc's command line: [`crate::parse`] makes the same of
    /// `tc = "..."`. What tc has no word for (rules, gro, split-gso = "auto"; for fq_codel and fifo also
    /// bandwidth and overhead) is not in it: [`Direction::beside_tc`].
    pub fn to_tc(&self) -> String {
        match &self.qdisc {
            Params::Fifo(params) => format!("pfifo limit {}", params.limit),
            Params::FqCodel(params) => fq_codel_line(params),
            Params::Cake(params) => cake_line(params, self.split),
        }
    }
}

fn fq_codel_line(params: &fq_codel::Params) -> String {
    let codel = &params.codel;
    let threshold = codel.ce_threshold.map(|threshold| format!(" ce_threshold {}", units::time(threshold)));
    let selector = || format!(" ce_threshold_selector 0x{:02x}/0x{:02x}", codel.ce_selector, codel.ce_mask);
    format!(
        "fq_codel limit {} flows {} quantum {} target {}{}{} interval {} memory_limit {} {} drop_batch {}",
        params.limit,
        params.flows,
        params.quantum,
        units::time(codel.target),
        threshold.unwrap_or_default(),
        if codel.ce_mask == 0 { String::new() } else { selector() },
        units::time(codel.interval),
        params.memory_limit,
        if codel.ecn { "ecn" } else { "noecn" },
        params.drop_batch,
    )
}

/// In the order in which `tc qdisc show` prints it.
fn cake_line(params: &cake::Params, split: Split) -> String {
    let mut line = match params.bandwidth {
        Some(rate) => format!("cake bandwidth {}", units::rate(rate)),
        None => "cake unlimited".to_owned(),
    };
    let flag = |flag, yes: &'static str, no: &'static str| if flag { yes } else { no };
    let rest = [
        flag(params.autorate_ingress, "autorate-ingress", ""),
        params.diffserv.word(),
        params.flow_mode.word(),
        "nonat",
        flag(params.wash, "wash", "nowash"),
        flag(params.ingress, "ingress", ""),
        params.ack_filter.word(),
        match split {
            Split::Always => "split-gso",
            Split::Never => "no-split-gso",
            Split::Auto(_) => "",
        },
    ];
    for word in rest.into_iter().filter(|word| !word.is_empty()) {
        let _ = write!(line, " {word}");
    }
    let _ = write!(line, " rtt {} {}", units::time(params.rtt), params.overhead);
    if let Some(memlimit) = params.memlimit {
        let _ = write!(line, " memlimit {memlimit}");
    }
    if params.fwmark != 0 {
        let _ = write!(line, " fwmark {:#x}", params.fwmark);
    }
    line
}

impl fmt::Display for CakeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| tc-cake(8) | here | default | change |\n|---|---|---|---|")?;
        for word in CAKE_WORDS {
            let tc = format!("`{}{}`", word.word, word.value.placeholder());
            let toml = if word.word == "nat" {
                "refused: there is no connection tracking".to_owned()
            } else {
                format!("`{} = {}`", word.key, word.value.in_toml())
            };
            row(f, &tc, &toml, word.key, word.value)?;
            if word.word == "no-split-gso" {
                let auto = "\"auto\"";
                row(f, "neither of these", &format!("`split-gso = {auto}`"), word.key, Value::Is(auto))?;
            }
        }
        for key in ["overhead", "mpu"] {
            row(f, &format!("`{key} N`"), &format!("`{key} = N`"), key, Value::Bytes)?;
        }
        for word in ["raw", "noatm", "atm", "ptm", "conservative"].into_iter().chain(Overhead::presets()) {
            let key = if ["noatm", "atm", "ptm"].contains(&word) { "atm" } else { "overhead" };
            row(f, &format!("`{word}`"), &format!("`{key} = \"{word}\"`"), key, Value::Is(""))?;
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, tc: &str, toml: &str, key: &str, value: Value) -> fmt::Result {
    let Some(key) = DIRECTION.key(key) else { return Ok(()) };
    let is_default = matches!(value, Value::Is(value) if value == key.default)
        || matches!((key.name, tc), ("overhead", "`raw`") | ("atm", "`noatm`") | ("rtt", "`internet`"));
    let default = match value {
        Value::Is(_) => {
            if is_default {
                "yes"
            } else {
                ""
            }
        }
        _ => key.default,
    };
    writeln!(f, "| {tc} | {toml} | {default} | {} |", key.change)
}

fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

const DISCIPLINES: &[Discipline] = &[
    Discipline { names: &["cake"], qdisc: CAKE, man: "tc-cake(8)", words: CAKE_WORDS, has_overhead: true },
    Discipline {
        names: &["fq_codel"],
        qdisc: FQ_CODEL,
        man: "tc-fq_codel(8)",
        words: FQ_CODEL_WORDS,
        has_overhead: false,
    },
    Discipline {
        names: &["pfifo", "fifo"],
        qdisc: FIFO,
        man: "tc-pfifo(8)",
        words: &[word("limit", "limit", Value::Count)],
        has_overhead: false,
    },
];

const FQ_CODEL_WORDS: &[Word] = &[
    word("limit", "limit", Value::Count),
    word("flows", "flows", Value::Count),
    word("target", "target", Value::Time),
    word("interval", "interval", Value::Time),
    word("quantum", "quantum", Value::Bytes),
    word("ecn", "ecn", Value::Is("true")),
    word("noecn", "ecn", Value::Is("false")),
    word("ce_threshold", "ce_threshold", Value::Time),
    word("ce_threshold_selector", "ce_threshold_selector", Value::Text),
    word("drop_batch", "drop_batch", Value::Count),
    word("memory_limit", "memory_limit", Value::Size),
];

const CAKE_WORDS: &[Word] = &[
    word("bandwidth", "bandwidth", Value::Rate),
    word("unlimited", "bandwidth", Value::Is("\"unlimited\"")),
    word("autorate-ingress", "autorate-ingress", Value::Is("true")),
    word("rtt", "rtt", Value::Time),
    word("datacentre", "rtt", Value::Is("\"datacentre\"")),
    word("lan", "rtt", Value::Is("\"lan\"")),
    word("metro", "rtt", Value::Is("\"metro\"")),
    word("regional", "rtt", Value::Is("\"regional\"")),
    word("internet", "rtt", Value::Is("\"internet\"")),
    word("oceanic", "rtt", Value::Is("\"oceanic\"")),
    word("satellite", "rtt", Value::Is("\"satellite\"")),
    word("interplanetary", "rtt", Value::Is("\"interplanetary\"")),
    word("besteffort", "diffserv", Value::Is("\"besteffort\"")),
    word("precedence", "diffserv", Value::Is("\"precedence\"")),
    word("diffserv3", "diffserv", Value::Is("\"diffserv3\"")),
    word("diffserv4", "diffserv", Value::Is("\"diffserv4\"")),
    word("diffserv8", "diffserv", Value::Is("\"diffserv8\"")),
    word("flowblind", "flowmode", Value::Is("\"flowblind\"")),
    word("srchost", "flowmode", Value::Is("\"srchost\"")),
    word("dsthost", "flowmode", Value::Is("\"dsthost\"")),
    word("hosts", "flowmode", Value::Is("\"hosts\"")),
    word("flows", "flowmode", Value::Is("\"flows\"")),
    word("dual-srchost", "flowmode", Value::Is("\"dual-srchost\"")),
    word("dual-dsthost", "flowmode", Value::Is("\"dual-dsthost\"")),
    word("triple-isolate", "flowmode", Value::Is("\"triple-isolate\"")),
    word("nat", "nat", Value::Is("true")),
    word("nonat", "nat", Value::Is("false")),
    word("wash", "wash", Value::Is("true")),
    word("nowash", "wash", Value::Is("false")),
    word("split-gso", "split-gso", Value::Is("true")),
    word("no-split-gso", "split-gso", Value::Is("false")),
    word("ack-filter", "ack-filter", Value::Is("true")),
    word("ack-filter-aggressive", "ack-filter", Value::Is("\"aggressive\"")),
    word("no-ack-filter", "ack-filter", Value::Is("false")),
    word("memlimit", "memlimit", Value::Size),
    word("fwmark", "fwmark", Value::Mask),
    word("ingress", "ingress", Value::Is("true")),
    word("egress", "ingress", Value::Is("false")),
];

const fn word(word: &'static str, key: &'static str, value: Value) -> Word {
    Word { word, key, value }
}
