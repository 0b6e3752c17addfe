//! Every key of the file: what it takes, its default, its range, whether it can change while weir runs.
//!
//! The one table behind the checks and their messages, `Schema`'s listing and the generated documentation.
//! A test holds it against the serde types in `file` and the printed defaults. A key is added here,
//! in `file` and where it is converted; forgetting one of them fails that test.

use std::fmt;

use shaper::rate::Overhead;
use shaper::time::Duration;
use shaper::units::Rate;

use crate::units;

mod api;
mod direction;

pub use api::API;
pub use direction::{DIRECTION, RTT_PRESETS, RULE};

/// One key of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What it takes, with its range.
    pub kind: Kind,
    /// The default in words; empty where the key must be given.
    pub default: &'static str,
    /// A valid value other than the default, as TOML.
    pub example: &'static str,
    /// Whether it can change while weir runs.
    pub change: Change,
    /// The disciplines it belongs to; empty for all.
    pub qdiscs: &'static [&'static str],
    /// What it does, in a line.
    pub help: &'static str,
}

/// A table of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Its heading in the listing.
    pub heading: &'static str,
    /// What it is for, in a line.
    pub help: &'static str,
    /// Its keys in the order in which they are listed and printed.
    pub keys: &'static [Key],
    /// Words that people try, and what to write in their place.
    pub hints: &'static [(&'static str, &'static str)],
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// `true`, `false` or one of these words.
    FlagOrChoice(&'static [&'static str]),
    /// A bare whole number; the word names what is counted.
    Number(i64, i64, &'static str),
    /// A rate with its unit, or `"unlimited"`.
    Rate(Rate, Rate),
    /// A time with its unit.
    Time(Duration, Duration),
    /// A time with its unit, or `"off"`.
    TimeOrOff(Duration, Duration),
    /// A time with its unit, or one of these names of a time.
    TimeOrPreset(Duration, Duration, &'static [(&'static str, Duration)]),
    /// An amount of memory with its unit.
    Size(u64, u64),
    /// An amount of memory with its unit, or this word.
    SizeOr(u64, u64, &'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A name: letters, digits, `_`, `-`, `.`; at most [`NAME_MAX`] of them.
    Name,
    /// A DPDK device.
    Device,
    /// Link-layer overhead: a number of bytes or `tc`'s keywords.
    Overhead,
    /// `"VALUE/MASK"`, a byte each.
    Selector,
    /// An IPv4 or IPv6 prefix.
    Prefix,
    /// A DSCP: its number or its name.
    Dscp,
    /// A discipline and its options as on tc's command line.
    Tc,
    /// An address and a port to listen on, or `"off"`.
    Address,
    /// A file with its whole path, or `"none"`.
    File,
    /// An array of host names and addresses.
    Hosts,
    /// An array of strings.
    Strings,
    /// An array of CPU numbers, at least one.
    Cpus,
    /// A table.
    Table(&'static Table),
    /// An array of tables.
    Tables(&'static Table),
    /// A table, or a device in short.
    TableOrDevice(&'static Table),
    /// A table, or one of these words.
    TableOrChoice(&'static Table, &'static [&'static str]),
}

/// Whether a key can change while weir runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Taken up at the next burst; queues are kept.
    Live,
    /// Lowered live; to raise it above its value at start needs a restart, as memory is allocated once.
    Lower,
    /// Needs a restart.
    Restart,
}

/// All tables, printed as a table for people (`{}`) or as Markdown (`{:#}`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Schema;

/// The whole file.
pub static ROOT: Table = Table {
    heading: "(top level)",
    help: "The whole file.",
    keys: &[
        table("eal", Kind::Table(&EAL), "{}", "DPDK's environment: memory and lcores."),
        table("engine", Kind::Table(&ENGINE), "{}", "The poll loop."),
        table("api", Kind::Table(&API), "{}", "HTTP over TCP, beside the unix socket."),
        table("link", Kind::Tables(&LINK), "at least one", "One [[link]] for each pair of ports."),
    ],
    hints: &[
        ("links", "write [[link]], once for each link"),
        ("http", "write [api]"),
        ("qdisc", "it belongs into up and down of a [[link]]"),
    ],
};

/// `[eal]`
pub static EAL: Table = Table {
    heading: "[eal]",
    help: "DPDK's environment abstraction layer.",
    keys: &[
        Key {
            name: "args",
            kind: Kind::Strings,
            default: "[]",
            example: r#"["--no-huge", "-m", "512"]"#,
            change: Change::Restart,
            qdiscs: &[],
            help: "Arguments passed on to rte_eal_init, one string each, after a check.",
        },
        table("lcores", Kind::Table(&LCORES), "what the process's affinity allows", "Which CPUs to use."),
    ],
    hints: &[("cores", "write lcores = { main = 0, workers = [1] }")],
};

/// `[eal] lcores`
pub static LCORES: Table = Table {
    heading: "lcores of [eal]",
    help: "CPUs by number, as in /proc/cpuinfo.",
    keys: &[
        Key {
            name: "main",
            kind: Kind::Number(0, CPU_MAX, "CPU"),
            default: "",
            example: "0",
            change: Change::Restart,
            qdiscs: &[],
            help: "CPU of the main lcore: control, never packets.",
        },
        Key {
            name: "workers",
            kind: Kind::Cpus,
            default: "",
            example: "[1]",
            change: Change::Restart,
            qdiscs: &[],
            help: "CPUs of the worker lcores, one worker each; best isolated and not the main one.",
        },
    ],
    hints: &[("worker", "write workers = [1]")],
};

/// `[engine]`
pub static ENGINE: Table = Table {
    heading: "[engine]",
    help: "The poll loop, the same for every link.",
    keys: &[Key {
        name: "poll",
        kind: Kind::Choice(&["adaptive", "busy"]),
        default: "\"adaptive\"",
        example: "\"busy\"",
        change: Change::Live,
        qdiscs: &[],
        help: "busy never sleeps; adaptive sleeps when idle, no longer than the next wake-up or 50us.",
    }],
    hints: &[
        ("catch-up", "it belongs into up and down of a [[link]]"),
        ("link-down-hold", "it belongs into a [[link]]"),
        ("propagate-link", "it belongs into a [[link]]"),
        ("on-stop", "it belongs into a [[link]]"),
    ],
};

/// `[[link]]`
pub static LINK: Table = Table {
    heading: "[[link]]",
    help: "Two ports with weir between them, like a bump in the wire.",
    keys: &[
        Key {
            name: "name",
            kind: Kind::Name,
            default: "",
            example: "\"home\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "What statistics and messages call the link.",
        },
        Key {
            name: "a",
            kind: Kind::TableOrDevice(&PORT),
            default: "",
            example: "\"net_tap0,iface=lan0\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "The port on one side: a device, or a table with one.",
        },
        Key {
            name: "b",
            kind: Kind::TableOrDevice(&PORT),
            default: "",
            example: "\"0000:01:00.0\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "The port on the other side.",
        },
        table(
            "up",
            Kind::TableOrChoice(&DIRECTION, &["off"]),
            "fq_codel, unlimited",
            "From a to b; \"off\": nothing is forwarded.",
        ),
        table(
            "down",
            Kind::TableOrChoice(&DIRECTION, &["off"]),
            "fq_codel, unlimited",
            "From b to a; likewise.",
        ),
        Key {
            name: "link-down-hold",
            kind: Kind::Time(Duration::ZERO, Duration::from_millis(60_000)),
            default: "\"100ms\"",
            example: "\"2s\"",
            change: Change::Live,
            qdiscs: &[],
            help: "How long queued packets wait for a port whose link is down before they are dropped and counted.",
        },
        Key {
            name: "propagate-link",
            kind: Kind::Flag,
            default: "false",
            example: "true",
            change: Change::Live,
            qdiscs: &[],
            help: "Take the other port's link down while one port's link is down.",
        },
        Key {
            name: "on-stop",
            kind: Kind::Choice(&["link-down", "bridge"]),
            default: "\"link-down\"",
            example: "\"bridge\"",
            change: Change::Live,
            qdiscs: &[],
            help: "After a stop: the ports are closed; or go back to the kernel, which bridges them (PCI, net_af_packet, net_af_xdp).",
        },
    ],
    hints: &[
        ("bandwidth", "it belongs into up (a -> b) and down (b -> a)"),
        ("qdisc", "it belongs into up (a -> b) and down (b -> a)"),
        ("mtu", "it belongs to a port: a = { device = \"...\", mtu = 1500 }"),
        ("upload", "write up"),
        ("download", "write down"),
        ("egress", "write up (a -> b)"),
        ("ingress", "write down (b -> a)"),
    ],
};

/// A port written as a table.
pub static PORT: Table = Table {
    heading: "a and b of [[link]], as a table",
    help: "A DPDK port and how it is set up.",
    keys: &[
        Key {
            name: "device",
            kind: Kind::Device,
            default: "",
            example: "\"net_ring0\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "PCI address or vdev with its arguments, as DPDK takes it.",
        },
        Key {
            name: "mtu",
            kind: Kind::Number(68, 65_521, "bytes"),
            default: "1500",
            example: "9000",
            change: Change::Restart,
            qdiscs: &[],
            help: "Largest IP packet in bytes, Ethernet header and VLAN tags not counted.",
        },
        Key {
            name: "rx-ring",
            kind: Kind::Number(32, 32_768, "descriptors"),
            default: "1024",
            example: "2048",
            change: Change::Restart,
            qdiscs: &[],
            help: "Receive descriptors; the driver may round or refuse.",
        },
        Key {
            name: "tx-ring",
            kind: Kind::Number(32, 32_768, "descriptors"),
            default: "1024",
            example: "512",
            change: Change::Restart,
            qdiscs: &[],
            help: "Transmit descriptors: the most that can lie below the scheduler, were it not for complete-on.",
        },
        Key {
            name: "tso",
            kind: Kind::Choice(OFFLOAD),
            default: "\"auto\"",
            example: "\"off\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "Leave the last cut of a piece to the port; auto: where it passes a check at start and no fault of its driver is known.",
        },
        Key {
            name: "lro",
            kind: Kind::Choice(OFFLOAD),
            default: "\"auto\"",
            example: "\"off\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "Take super-packets in; auto: of virtio_user and vhost, whose sender made them, not what a NIC merged.",
        },
        Key {
            name: "complete-on",
            kind: Kind::Choice(&["completion", "submit"]),
            default: "\"completion\"",
            example: "\"submit\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "Bytes are in flight until the port has sent them; submit: until it took them, so that no limit holds and its ring fills below the scheduler.",
        },
        Key {
            name: "limit-min",
            kind: Kind::Size(0, LIMIT_MAX),
            default: "\"0b\"",
            example: "\"3KiB\"",
            change: Change::Live,
            qdiscs: &[],
            help: "Bytes in flight: the limit that the governor learns never falls below this; one frame always goes out.",
        },
        Key {
            name: "limit-max",
            kind: Kind::SizeOr(64, LIMIT_MAX, "unlimited"),
            default: "\"unlimited\"",
            example: "\"64KiB\"",
            change: Change::Live,
            qdiscs: &[],
            help: "Bytes in flight: the limit never rises above this; the same as limit-min: it is fixed.",
        },
        Key {
            name: "hold-time",
            kind: Kind::Time(Duration::from_millis(10), Duration::from_millis(60_000)),
            default: "\"1s\"",
            example: "\"500ms\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "How long the port must need less before the limit follows.",
        },
    ],
    hints: &[
        ("limit_min", "write limit-min"),
        ("limit_max", "write limit-max"),
        ("hold_time", "write hold-time"),
        ("bql", "it is on by itself; complete-on = \"submit\" switches it off"),
        ("governor", "it is on by itself; complete-on = \"submit\" switches it off"),
        ("gso", "write tso here, and split-gso in up and down of the [[link]]"),
        ("gro", "it belongs into up and down of the [[link]]"),
        ("split-gso", "it belongs into up and down of the [[link]]"),
        ("gso-budget", "it belongs into up and down of the [[link]]"),
        ("iface", "write it behind the device: device = \"net_tap0,iface=lan0\""),
        ("pci", "write device"),
    ],
};

/// `tc`'s name of RFC 8290's discipline.
pub const FQ_CODEL: &str = "fq_codel";
/// `tc`'s name of tc-cake(8).
pub const CAKE: &str = "cake";
/// One queue, oldest first.
pub const FIFO: &str = "fifo";
/// Least overhead in bytes.
pub const OVERHEAD_MIN: i64 = *Overhead::BYTES.start() as i64;
/// Most overhead in bytes.
pub const OVERHEAD_MAX: i64 = *Overhead::BYTES.end() as i64;
/// Highest bound of the bytes in flight.
const LIMIT_MAX: u64 = 1 << 30;
/// What an offload takes.
const OFFLOAD: &[&str] = &["auto", "on", "off"];
/// Longest name of a link.
pub const NAME_MAX: usize = 32;
/// Highest CPU number.
pub const CPU_MAX: i64 = 1_023;

/// A key that holds a table: what its parts are is said in that table.
const fn table(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Key {
    Key { name, kind, default, example: "", change: Change::Restart, qdiscs: &[], help }
}

impl Table {
    /// The key called `name`.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    /// The table that this key may hold.
    pub fn table(&self) -> Option<&'static Table> {
        match self.kind {
            Kind::Table(t) | Kind::Tables(t) | Kind::TableOrDevice(t) | Kind::TableOrChoice(t, _) => Some(t),
            _ => None,
        }
    }

    /// Whether the key must be given.
    pub fn is_required(&self) -> bool {
        self.default.is_empty()
    }
}

impl fmt::Display for Kind {
    /// The accepted values in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Flag => f.write_str("true or false"),
            Kind::FlagOrChoice([word]) => write!(f, "true, false or \"{word}\""),
            Kind::FlagOrChoice(words) => write!(f, "true, false or one of {}", quoted(words)),
            Kind::Number(min, max, what) => write!(f, "a bare whole number from {min} to {max} ({what})"),
            Kind::Rate(min, max) => {
                write!(
                    f,
                    "a rate from \"{}\" to \"{}\", or \"unlimited\"",
                    units::rate(*min),
                    units::rate(*max)
                )
            }
            Kind::Time(min, max) => {
                write!(f, "a time from \"{}\" to \"{}\"", units::time(*min), units::time(*max))
            }
            Kind::TimeOrOff(min, max) => write!(f, "{}, or \"off\"", Kind::Time(*min, *max)),
            Kind::TimeOrPreset(min, max, presets) => {
                let words: Vec<_> = presets.iter().map(|(word, _)| *word).collect();
                write!(f, "{}, or one of {}", Kind::Time(*min, *max), quoted(&words))
            }
            Kind::SizeOr(min, max, word) => write!(f, "{}, or \"{word}\"", Kind::Size(*min, *max)),
            Kind::Size(min, max) => {
                write!(f, "a size from \"{}\" to \"{}\"", units::size(*min), units::size(*max))
            }
            Kind::Choice(words) => write!(f, "one of {}", quoted(words)),
            Kind::Name => write!(f, "1 to {NAME_MAX} letters, digits, \"_\", \"-\" or \".\""),
            Kind::Device => f.write_str("a PCI address or a vdev with its arguments"),
            Kind::Overhead => write!(
                f,
                "a bare whole number from {OVERHEAD_MIN} to {OVERHEAD_MAX} (bytes), or tc-cake(8)'s overhead words"
            ),
            Kind::Selector => f.write_str("\"VALUE/MASK\", each 0 to 0xff"),
            Kind::Prefix => f.write_str("a prefix such as \"10.1.0.0/16\" or \"2001:db8::/32\""),
            Kind::Dscp => f.write_str("a bare whole number from 0 to 63, or a name such as \"EF\", \"AF41\", \"CS1\", \"LE\""),
            Kind::Tc => f.write_str("\"cake ...\", \"fq_codel ...\" or \"pfifo ...\" with the options of tc-cake(8), tc-fq_codel(8), tc-pfifo(8)"),
            Kind::Address => f.write_str("an address and a port such as \"127.0.0.1:9118\" or \"[::1]:9118\", or \"off\""),
            Kind::File => f.write_str("a file with its whole path such as \"/etc/weir/token\", or \"none\""),
            Kind::Hosts => f.write_str("an array of host names or addresses, without scheme, port or path"),
            Kind::Strings => f.write_str("an array of strings"),
            Kind::Cpus => write!(f, "an array of at least one CPU number from 0 to {CPU_MAX}"),
            Kind::Table(t) => write!(f, "a table with {}", names(t)),
            Kind::Tables(t) => write!(f, "[[...]] tables with {}", names(t)),
            Kind::TableOrDevice(t) => write!(f, "{}, or a table with {}", Kind::Device, names(t)),
            Kind::TableOrChoice(t, words) => write!(f, "{}, or a table with {}", quoted(words), names(t)),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Change::Live => "live",
            Change::Lower => "live to lower, restart to raise",
            Change::Restart => "restart",
        })
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in [&EAL, &LCORES, &ENGINE, &API, &LINK, &PORT, &DIRECTION, &RULE] {
            if f.alternate() { table.markdown(f)? } else { table.plain(f)? }
        }
        Ok(())
    }
}

impl Table {
    fn plain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.heading, self.help)?;
        for key in self.keys {
            writeln!(f, "  {:<22} {}", key.name, key.help)?;
            writeln!(f, "  {:<22} takes {}", "", key.takes())?;
            writeln!(f, "  {:<22} default {}; {}", "", key.default_text(), key.rules())?;
        }
        writeln!(f)
    }

    fn markdown(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n\n{}\n", self.heading, self.help)?;
        writeln!(f, "| key | what it does | takes | default | change |\n|---|---|---|---|---|")?;
        for key in self.keys {
            let (name, help, takes, default) = (key.name, key.help, key.takes(), key.default_text());
            writeln!(f, "| `{name}` | {help} | {takes} | {default} | {} |", key.rules())?;
        }
        writeln!(f)
    }
}

impl Key {
    /// What it takes, short where a table of its own says more.
    fn takes(&self) -> String {
        match self.kind {
            Kind::Table(t) | Kind::Tables(t) => format!("a table, see \"{}\"", t.heading),
            Kind::TableOrDevice(t) => format!("{}, or a table, see \"{}\"", Kind::Device, t.heading),
            Kind::TableOrChoice(t, words) => format!("{}, or a table, see \"{}\"", quoted(words), t.heading),
            kind => kind.to_string(),
        }
    }

    fn default_text(&self) -> &'static str {
        if self.is_required() { "none: must be given" } else { self.default }
    }

    /// When it can change, and with which disciplines it goes.
    fn rules(&self) -> String {
        match (self.kind, self.qdiscs) {
            (Kind::Table(_) | Kind::Tables(_) | Kind::TableOrChoice(..), _) => "as its keys say".to_owned(),
            (_, []) => self.change.to_string(),
            (_, qdiscs) => format!("{}; {} only", self.change, qdiscs.join(", ")),
        }
    }
}

/// `"a", "b"`
pub(crate) fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

/// The names of the keys of `table`.
pub(crate) fn names(table: &Table) -> String {
    table.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}
