//! The trace format: what arrives at a queueing discipline, and when it is asked for packets.
//!
//! One event per line, fields separated by blanks, times in nanoseconds of a virtual clock:
//!
//! ```text
//! # text
//! cfg qdisc=fq_codel|cake KEY=VALUE...
//! enq T SRC DST PROTO SPORT DPORT LEN ECN DSCP TCP ID KEY=VALUE...
//! deq T
//! chg T KEY=VALUE...
//! ```
//!
//! `cfg` comes first. `vectors/README.md` explains the fields. A line that is not understood is an
//! error that names file and line: a guess would be a wrong replay.

use super::Error;
use super::tcp::Tcp;
use shaper::packet::DsField;
use shaper::time::{Duration, Instant};
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::str::FromStr;

/// A whole trace.
#[derive(Debug)]
pub struct Trace {
    /// The `cfg` line, `qdisc` included.
    pub config: Settings,
    /// All that happens, in order.
    pub events: Vec<Event>,
}

/// One line.
#[derive(Debug)]
pub struct Event {
    /// Where it stands.
    pub place: Place,
    /// When it happens.
    pub time: Instant,
    /// What happens.
    pub kind: EventKind,
}

/// What happens.
#[derive(Debug)]
pub enum EventKind {
    /// A packet arrives.
    Enqueue(Box<Packet>),
    /// The discipline is asked for a packet.
    Dequeue,
    /// Parameters change.
    Change(Settings),
}

/// A packet, described.
#[derive(Debug)]
pub struct Packet {
    /// Its number in the trace.
    pub id: u64,
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Transport protocol.
    pub proto: Proto,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Frame length in bytes, Ethernet header included.
    pub len: u32,
    /// The DS field, ECN included.
    pub ds: DsField,
    /// The TCP header, where the trace describes one.
    pub tcp: Option<Tcp>,
    /// Memory the packet counts for, in bytes.
    pub truesize: u32,
    /// Payload bytes per segment of a super-packet, 0 for an ordinary packet.
    pub gso_size: u16,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// Mark given by a rule.
    pub mark: u32,
    /// Class chosen by the sender.
    pub priority: u32,
    /// A flow hash given from outside.
    pub hash: Option<u32>,
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// ICMP or ICMPv6.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The `KEY=VALUE`s of one line.
#[derive(Debug)]
pub struct Settings {
    /// Where they stand.
    pub place: Place,
    pairs: Vec<(String, String)>,
}

/// A file and a line of it, for messages.
#[derive(Clone, Debug)]
pub struct Place {
    file: Rc<str>,
    line: usize,
}

impl Trace {
    /// Reads the `text` of a trace; `file` is its name for messages.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let file: Rc<str> = file.into();
        let mut config = None;
        let mut events = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let mut fields = Fields { place: Place { file: file.clone(), line: number }, rest: line };
            let Some(word) = fields.next_or_end().filter(|word| !word.starts_with('#')) else { continue };
            match (word, config.is_some()) {
                ("cfg", false) => config = Some(fields.settings()?),
                ("cfg", true) => return Err(fields.place.error("a second `cfg` line: a trace has one")),
                ("enq" | "deq" | "chg", true) => events.push(fields.event(word)?),
                (_, false) => {
                    return Err(fields.place.error(format_args!("`{word}` before the `cfg` line")));
                }
                (_, true) => {
                    let what = format_args!("`{word}` is no event: enq, deq or chg");
                    return Err(fields.place.error(what));
                }
            }
        }
        let end = Place { file, line: text.lines().count() };
        Ok(Self { config: config.ok_or_else(|| end.error("the trace has no `cfg` line"))?, events })
    }

    /// How many packets arrive in all: no pool needs more slots.
    pub fn arrivals(&self) -> usize {
        self.events.iter().filter(|event| matches!(event.kind, EventKind::Enqueue(_))).count()
    }
}

impl Packet {
    /// Ethernet, IP and transport header in bytes.
    pub fn header_len(&self) -> u32 {
        let ip = if self.src.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
        let transport = match (&self.tcp, self.proto) {
            (Some(tcp), Proto::Tcp) => tcp.header_len(),
            (None, Proto::Tcp) => Tcp::MIN_HEADER,
            (_, Proto::Udp | Proto::Icmp) => UDP_HEADER,
        };
        ETHERNET_HEADER + ip + transport
    }

    /// Bytes behind the headers.
    pub fn payload(&self) -> u32 {
        self.len.saturating_sub(self.header_len())
    }

    /// Segments it will become on the wire: 1 for an ordinary packet.
    pub fn segs(&self) -> u16 {
        match self.gso_size {
            0 => 1,
            size => u16::try_from(self.payload().div_ceil(u32::from(size)).max(1)).unwrap_or(u16::MAX),
        }
    }
}

impl Settings {
    /// The value of `key`, read as a number of its type.
    ///
    /// # Errors
    /// The value is no such number.
    pub fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let number = value.parse().map_err(|_| {
            let kind = std::any::type_name::<T>();
            self.place.error(format_args!("{key}={value}: not a number that fits {kind}"))
        })?;
        Ok(Some(number))
    }

    /// The value of `key`, a mask or a part of one: decimal, or hexadecimal with `0x`.
    ///
    /// # Errors
    /// The value is neither, or does not fit.
    pub fn bits<T: TryFrom<u32>>(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let number = match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => value.parse(),
        };
        match number.ok().and_then(|number| T::try_from(number).ok()) {
            Some(bits) => Ok(Some(bits)),
            None => Err(self.place.error(format_args!(
                "{key}={value}: not a number, decimal or 0x hexadecimal, that fits {}",
                std::any::type_name::<T>()
            ))),
        }
    }

    /// The value of `key`, as a switch: 0 is off, any other number on.
    ///
    /// # Errors
    /// The value is no number.
    pub fn switch(&self, key: &str) -> Result<Option<bool>, Error> {
        Ok(self.number::<u32>(key)?.map(|value| value != 0))
    }

    /// The value of `key`, in microseconds.
    ///
    /// # Errors
    /// The value is no number of 32 bits.
    pub fn micros(&self, key: &str) -> Result<Option<Duration>, Error> {
        Ok(self.number::<u32>(key)?.map(|value| Duration::from_micros(value.into())))
    }

    /// The value of `key`; of several the last.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Refuses every key that is not in `known`.
    ///
    /// # Errors
    /// The first such key.
    pub fn only(&self, known: &[&str]) -> Result<(), Error> {
        match self.pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                Err(self.place.error(format_args!("unknown key `{name}`; known: {}", known.join(" "))))
            }
        }
    }
}

impl Place {
    /// An error at this place.
    pub fn error(&self, what: impl Display) -> Error {
        Error::new(format_args!("{}:{}", self.file, self.line), what)
    }
}

/// The fields of one line that are still to be read.
struct Fields<'a> {
    place: Place,
    rest: &'a str,
}

impl<'a> Fields<'a> {
    fn event(mut self, word: &str) -> Result<Event, Error> {
        let time = Instant::from_nanos(self.number("time")?);
        let place = self.place.clone();
        let kind = match word {
            "enq" => EventKind::Enqueue(Box::new(self.packet()?)),
            "chg" => EventKind::Change(self.settings()?),
            _ => {
                if let Some(more) = self.next_or_end() {
                    return Err(self.place.error(format_args!("`{more}` after the time of a `deq`")));
                }
                EventKind::Dequeue
            }
        };
        Ok(Event { place, time, kind })
    }

    fn packet(mut self) -> Result<Packet, Error> {
        let src = self.number::<IpAddr>("source address")?;
        let dst = self.number::<IpAddr>("destination address")?;
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(self.place.error(format_args!("{src} and {dst} are of different families")));
        }
        let proto = self.proto()?;
        let sport = self.number("source port")?;
        let dport = self.number("destination port")?;
        let len = self.number("length")?;
        let ecn = self.in_range("ECN", 0..=3)?;
        let dscp = self.in_range("DSCP", 0..=63)?;
        let tcp = match self.next("TCP field")? {
            "-" => None,
            text => Some(Tcp::parse(text).map_err(|what| self.place.error(what))?),
        };
        let id = self.number("packet number")?;
        let keys = self.settings()?;
        keys.only(&["ts", "gso", "fl", "mark", "prio", "hash"])?;
        Ok(Packet {
            id,
            src,
            dst,
            proto,
            sport,
            dport,
            len,
            ds: DsField::ip(dscp << 2 | ecn),
            tcp,
            truesize: keys.number("ts")?.ok_or_else(|| keys.place.error("the key ts is missing"))?,
            gso_size: keys.number("gso")?.unwrap_or(0),
            flow_label: keys.number("fl")?.unwrap_or(0),
            mark: keys.number("mark")?.unwrap_or(0),
            priority: keys.number("prio")?.unwrap_or(0),
            hash: keys.number("hash")?,
        })
    }

    fn proto(&mut self) -> Result<Proto, Error> {
        match self.next("protocol")? {
            "tcp" => Ok(Proto::Tcp),
            "udp" => Ok(Proto::Udp),
            "icmp" => Ok(Proto::Icmp),
            other => Err(self.place.error(format_args!("protocol `{other}` is none of tcp, udp, icmp"))),
        }
    }

    /// All remaining fields as `KEY=VALUE`.
    fn settings(mut self) -> Result<Settings, Error> {
        let mut pairs = Vec::new();
        while let Some(field) = self.next_or_end() {
            let Some((key, value)) = field.split_once('=') else {
                return Err(self.place.error(format_args!("`{field}` is not KEY=VALUE")));
            };
            pairs.push((key.to_owned(), value.to_owned()));
        }
        Ok(Settings { place: self.place, pairs })
    }

    fn in_range(&mut self, what: &str, range: RangeInclusive<u8>) -> Result<u8, Error> {
        let value = self.number(what)?;
        if range.contains(&value) {
            return Ok(value);
        }
        let (low, high) = range.into_inner();
        Err(self.place.error(format_args!("{what} {value} is not in {low}..{high}")))
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Error> {
        let field = self.next(what)?;
        field.parse().map_err(|_| self.place.error(format_args!("`{field}` is no valid {what}")))
    }

    fn next(&mut self, what: &str) -> Result<&'a str, Error> {
        self.next_or_end().ok_or_else(|| self.place.error(format_args!("the line ends before the {what}")))
    }

    fn next_or_end(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let (field, rest) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        self.rest = rest;
        (!field.is_empty()).then_some(field)
    }
}

const ETHERNET_HEADER: u32 = 14;
const IPV4_HEADER: u32 = 20;
const IPV6_HEADER: u32 = 40;
/// ICMP's is as long.
const UDP_HEADER: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Trace::parse("t.trace", text).unwrap_err().to_string()
    }

    #[test]
    fn a_line_with_everything() {
        let text = "# text\n\ncfg qdisc=cake overhead=-4\nenq 7 2001:db8::1 2001:db8::2 tcp 1 2 4000 2 46 \
                    SAE/5/6/ts:1:2 9 ts=4352 gso=1000 fl=7 mark=8 prio=2147549185 hash=10\nchg 8 wash=1\ndeq 9\n";
        let trace = Trace::parse("t", text).unwrap();
        assert_eq!(trace.config.text("qdisc"), Some("cake"));
        assert_eq!(trace.config.number::<i32>("overhead").unwrap(), Some(-4));
        let [enqueue, change, dequeue] = trace.events.as_slice() else { panic!("three events") };
        let EventKind::Enqueue(packet) = &enqueue.kind else { panic!("an enq first") };
        assert_eq!(packet.ds.bits(), 46 << 2 | 2);
        assert_eq!((packet.header_len(), packet.segs()), (14 + 40 + 32, 4));
        assert_eq!((packet.flow_label, packet.mark, packet.hash), (7, 8, Some(10)));
        assert_eq!(packet.priority, 0x8001_0001);
        let EventKind::Change(settings) = &change.kind else { panic!("then a chg") };
        assert_eq!(settings.switch("wash").unwrap(), Some(true));
        assert_eq!(dequeue.time, Instant::from_nanos(9));
    }

    #[test]
    fn masks_are_decimal_or_hexadecimal() {
        let config = Trace::parse("t", "cfg a=0x1f b=31 c=256 d=0xg").unwrap().config;
        assert_eq!((config.bits("a").unwrap(), config.bits("b").unwrap()), (Some(31u8), Some(31u8)));
        for key in ["c", "d"] {
            let error = config.bits::<u8>(key).unwrap_err().to_string();
            assert!(error.contains("decimal or 0x hexadecimal, that fits u8"), "{error}");
        }
    }

    #[test]
    fn errors_name_file_line_and_cause() {
        let packet = "cfg qdisc=fq_codel\nenq 7 10.0.0.1 10.0.0.2 udp 1 2 100 0 0 -";
        for (text, expected) in [
            ("", "t.trace:0: the trace has no `cfg` line".to_owned()),
            ("deq 1", "t.trace:1: `deq` before the `cfg` line".to_owned()),
            ("cfg a=1\ncfg a=1", "t.trace:2: a second `cfg` line: a trace has one".to_owned()),
            ("cfg a=1\nauto 5", "t.trace:2: `auto` is no event: enq, deq or chg".to_owned()),
            ("cfg a", "t.trace:1: `a` is not KEY=VALUE".to_owned()),
            ("cfg a=1\ndeq -1", "t.trace:2: `-1` is no valid time".to_owned()),
            ("cfg a=1\ndeq 1 2", "t.trace:2: `2` after the time of a `deq`".to_owned()),
            (packet, "t.trace:2: the line ends before the packet number".to_owned()),
            (&format!("{packet} 1"), "t.trace:2: the key ts is missing".to_owned()),
            (
                &format!("{packet} 1 ts=5 x=1"),
                "t.trace:2: unknown key `x`; known: ts gso fl mark prio hash".to_owned(),
            ),
            (&format!("{packet} 1 ts=x"), "t.trace:2: ts=x: not a number that fits u32".to_owned()),
            (&packet.replace("0 0 -", "4 0 -"), "t.trace:2: ECN 4 is not in 0..3".to_owned()),
            (&packet.replace("udp", "gre"), "t.trace:2: protocol `gre` is none of tcp, udp, icmp".to_owned()),
            (
                &packet.replace("10.0.0.2", "::1"),
                "t.trace:2: 10.0.0.1 and ::1 are of different families".to_owned(),
            ),
            (
                &packet.replace(" -", " Z/1/2"),
                "t.trace:2: TCP flag `Z` is none of F S R P A U E C".to_owned(),
            ),
        ] {
            assert_eq!(error(text), expected);
        }
    }
}
