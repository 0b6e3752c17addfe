//! The command line.

use crate::hist::Format;
use crate::telemetry::delays::Kind;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// weir: a traffic shaper on DPDK.
///
/// It sits between two ports as a bump in the wire, keeps every flow fair and every queue short
/// with fq_codel or cake, and sends at the rate you give it.
#[derive(Debug, Parser)]
#[command(version, about, long_about, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read a configuration, say everything that is wrong with it, and print what it means.
    ///
    /// Opens no port and needs no privilege. Prints the effective settings with all defaults filled
    /// in, and the packet memory they need, term by term.
    Check {
        /// The configuration file (TOML).
        file: PathBuf,
        /// Print the effective configuration as JSON.
        #[arg(long)]
        json: bool,
        /// Print each direction both as a line of tc (tc = "cake ...") and in keys.
        #[arg(long, conflicts_with = "json")]
        explain: bool,
    },
    /// Shape traffic until SIGINT or SIGTERM (needs root).
    ///
    /// Runs in the foreground and prints `ready` once packets flow. On SIGINT or SIGTERM it stops
    /// receiving, sends what is due for at most 200 ms, counts the rest, gives the ports back and
    /// prints a summary; on a second one it ends at once. On SIGHUP it takes up the changed file, as
    /// `weir reload` does.
    Run {
        /// The configuration file (TOML).
        file: PathBuf,
        /// Name of this instance: two instances need two names. [default: the file's name without
        /// .toml]
        #[arg(long)]
        name: Option<String>,
        /// Let DPDK say what it does while it starts, and print what each port can do.
        #[arg(long)]
        verbose: bool,
    },
    /// Print the statistics of a running instance, in the shape of `tc -s qdisc show`.
    Show {
        /// Name of the instance. May be left out while only one runs.
        name: Option<String>,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Send test frames by a port, and say what its completions are worth (needs root).
    ///
    /// How much may lie in a transmit ring is learned from what the driver reports of the frames it
    /// was given, and drivers differ: some report late, some in batches, some not unless asked, some
    /// only pretend. A few hundred small frames of ethertype 0x88b5 go out, to an address that no
    /// switch forwards; every wait is bounded. `weir run` sends none: there the driver's name decides,
    /// and what it does is watched. Fails if the port took no frame.
    Probe {
        /// A device, as a and b take it (0000:01:00.0, net_tap0); or LINK/a, LINK/b of FILE.
        port: String,
        /// The configuration that has the port; its [eal] holds too.
        file: Option<PathBuf>,
        /// Print the verdict and its evidence as JSON.
        #[arg(long)]
        json: bool,
        /// Send even if the kernel's interface behind the port has addresses or the default route.
        #[arg(long)]
        force: bool,
        /// Let DPDK say what it does while it starts.
        #[arg(long)]
        verbose: bool,
        /// Arguments for the EAL beside those of FILE.
        #[arg(last = true)]
        eal: Vec<String>,
    },
    /// Have a running instance take up its changed file, without losing or reordering a packet.
    ///
    /// The file is read and checked whole, and compared with what runs. What needs a restart is refused by
    /// name, and then nothing changes. So does SIGHUP. A value set with `weir set` is overwritten.
    Reload {
        /// Name of the instance. May be left out while only one runs.
        name: Option<String>,
        /// Only print what would change.
        #[arg(long)]
        dry_run: bool,
    },
    /// Change one value of a running instance, without losing or reordering a packet.
    ///
    /// The file stays as it is: a reload or a restart takes up what it says.
    Set {
        /// The key: link, direction and name, or without the link while there is only one: home.down.rtt,
        /// down.bandwidth, engine.poll.
        path: String,
        /// Its new value, as in the file; quotes may be left out. A line of tc ("cake bandwidth 80Mbit") sets all
        /// that it does not name to the default.
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Set it back after this time: 10m, 90s, 2h.
        #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true)]
        for_: Option<String>,
        /// Name of the instance. May be left out while only one runs.
        #[arg(long)]
        name: Option<String>,
        /// Only print what would change.
        #[arg(long)]
        dry_run: bool,
    },
    /// Print what was changed in a running instance: when, by whom, and what.
    ///
    /// What was refused is there with the first line of why.
    History {
        /// Name of the instance. May be left out while only one runs.
        name: Option<String>,
        /// Print all that has happened as JSON, whole: links, ports and workers too.
        #[arg(long)]
        json: bool,
    },
    /// Watch a running instance: rates, waiting times, governor, lcores, the largest flows and hosts.
    ///
    /// `?` tells the keys. Figures are of the time between two readings. Flows and hosts are estimated from
    /// a sample of the packets; the column +- says how well. NO_COLOR is heeded.
    Top {
        /// Name of the instance. May be left out while only one runs.
        name: Option<String>,
        /// Time between two readings: 500ms, 1s, 10s.
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
        interval: Duration,
        /// Print one picture of one interval and end.
        #[arg(long)]
        once: bool,
        /// Size of that picture in columns and rows. [default: that of the terminal, else 80x24]
        #[arg(long, value_name = "COLUMNSxROWS", requires = "once", value_parser = size)]
        size: Option<(u16, u16)>,
        /// Write that picture to a file, as SVG.
        #[arg(long, value_name = "FILE", requires = "once")]
        svg: Option<PathBuf>,
    },
    /// Print how long packets took: every percentile, by direction, tin and kind.
    ///
    /// Sojourn is the time in the discipline, residence that in the transmit ring until the completion was
    /// seen, total all of it, from the burst that a packet was received in. Where a port shows no
    /// completions, total ends with the hand-over and there is no residence. Since the start, unless
    /// --recent or --interval says otherwise.
    Hist {
        /// Name of the instance. May be left out while only one runs.
        name: Option<String>,
        /// Only this link.
        #[arg(long)]
        link: Option<String>,
        /// Only up or down.
        #[arg(long, value_parser = ["up", "down"])]
        direction: Option<String>,
        /// Only this tin of cake; all: all tins together.
        #[arg(long)]
        tin: Option<String>,
        /// Only sojourn, residence or total.
        #[arg(long)]
        kind: Option<Kind>,
        /// How to write them.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Only the last complete window of ten seconds.
        #[arg(long, conflicts_with = "interval")]
        recent: bool,
        /// Print what was added in each span of this length, from now on: 1s, 10s, 1m.
        #[arg(long, value_name = "TIME", value_parser = span)]
        interval: Option<Duration>,
        /// So many intervals; without, until interrupted.
        #[arg(long, value_name = "N", requires = "interval")]
        count: Option<u32>,
        /// Draw percentile curves; with --interval of all intervals together.
        #[arg(long, value_name = "FILE.svg")]
        plot: Option<PathBuf>,
        /// Write to this file. With --format hgrm, a folder (one that is there, or whose name ends in / and is
        /// made) gets a file for each histogram that has packets.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List every key of the configuration file with its default, range and meaning.
    Keys,
    /// Check this machine: hugepages, IOMMU and drivers of PCI ports, isolated CPUs, governor, interrupts.
    ///
    /// Says of each what is, what would be better, why, and what --apply would do. Changes nothing without it.
    /// Fails if something keeps FILE from running here.
    Setup {
        /// The configuration that the machine is to be right for.
        file: Option<PathBuf>,
        /// Do what can be undone while the machine runs, and say how: hugepages, governors, vfio.
        #[arg(long)]
        apply: bool,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
        /// Take this PCI port from the kernel even if it carries an address or the default route.
        #[arg(long = "yes-this-port", value_name = "ADDRESS", requires = "apply")]
        allowed: Vec<String>,
    },
    /// Print the manual page in roff; with a folder, write one there for each command.
    Man {
        /// The folder.
        folder: Option<PathBuf>,
    },
    /// Print the completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// The length of an interval of `weir hist`.
fn span(text: &str) -> Result<Duration, String> {
    crate::ask::seconds(text).map(Duration::from_secs).map_err(|error| error.to_string())
}

/// A time between two readings: shorter, and reading would cost more than it tells.
fn interval(text: &str) -> Result<Duration, String> {
    match config::units::parse_time(text).map(|time| time.as_micros()) {
        Ok(micros @ 200_000..=3_600_000_000) => Ok(Duration::from_micros(micros)),
        _ => Err("write a time from 200ms to 3600s, such as 500ms or 2s".to_owned()),
    }
}

/// A size in characters.
fn size(text: &str) -> Result<(u16, u16), String> {
    let sides = text.split_once('x').and_then(|(columns, rows)| columns.parse().ok().zip(rows.parse().ok()));
    match sides {
        Some((columns @ 20..=500, rows @ 5..=500)) => Ok((columns, rows)),
        _ => Err("write columns x rows, from 20x5 to 500x500, such as 120x40".to_owned()),
    }
}

const EXAMPLES: &str = "\
Examples:
  weir check configs/home.toml        what does this file mean, is it right?
  weir run configs/home.toml          shape between two taps, nothing but root needed
  weir show                           what is it doing?
  weir top                            the same as it goes, once a second
  weir probe 0000:01:00.0             what are this port's completions worth?
  weir show --json | jq .links        the same for a program
  weir hist --plot delays.svg         every percentile of it, as curves
  weir reload --dry-run               what would my changed file change?
  weir set down.bandwidth 80Mbit --for 10m

Units are those of tc: 20Mbit, 950kbit, 1gbit (bits), 5ms, 100us, 32MiB.";
