//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measures what a NIC, its driver or a rig does to latency, and what weir makes of it.
///
/// A SCENARIO is what is done (TCP both ways with pings beside it, bursts, a link that flaps, ...), a RIG is what it
/// is done to (taps, veths, rings in memory, a modelled NIC, an emulated one, a real one). Each scenario measures
/// several cases in turn (FIFO, fq_codel, cake, peers such as the kernel's own), so that a busy machine hits them
/// alike, and writes one page with the verdict first.
#[derive(Debug, Parser)]
#[command(version, about, long_about, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Folder of rigs [default: configs/rigs here, then of the source tree].
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) rigs: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say which scenarios and rigs there are, which can run here, and what the others lack.
    List {
        /// Only this scenario, with its cases and bars.
        scenario: Option<String>,
    },
    /// Run one scenario on one rig and write the report.
    Run {
        /// Which one; `hwtests list` names them.
        scenario: String,
        /// How.
        #[command(flatten)]
        settings: Settings,
    },
    /// Run every scenario but the soak, one after the other, into one report.
    All {
        /// How.
        #[command(flatten)]
        settings: Settings,
    },
    /// Put two results beside each other, with the 95 % confidence interval of each difference.
    ///
    /// A and B are result.json files or the folders that hold them. A difference that its interval does not tell from
    /// zero is called noise; with a single run on a side there is no interval: use --repeats.
    Compare {
        /// Before.
        a: PathBuf,
        /// After.
        b: PathBuf,
    },
    /// What the model rig runs in a process of its own, until it is told to stop.
    #[command(hide = true)]
    Model {
        /// What to build, in JSON.
        spec: PathBuf,
    },
    /// What `throughput` runs in a process of its own: one EAL, one search for each size.
    #[command(hide = true)]
    RingTrial {
        /// Keys of weir's direction; the bare rings without.
        #[arg(long)]
        keys: Option<String>,
        /// Frame sizes with FCS, 0 for IMIX.
        #[arg(long)]
        size: Vec<u32>,
        /// Length of a trial.
        #[arg(long, default_value_t = 1000)]
        trial_ms: u64,
    },
}

/// How to run.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// A rig's name, or a file [default: the first kind that the scenario runs on].
    #[arg(long)]
    pub(crate) rig: Option<String>,
    /// Which cases, how often, how long.
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Rate of the shaped link each way instead of the rig's, Mbit/s.
    #[arg(long, value_name = "MBIT", value_parser = clap::value_parser!(u32).range(1..=400_000))]
    pub(crate) bandwidth_mbit: Option<u32>,
    /// Folder for report.html, report.md, result.json, plots, configurations and logs.
    #[arg(long, value_name = "DIR", default_value = "target/hwtests")]
    pub(crate) out: PathBuf,
    /// Print result.json instead of the tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// The weir binary [default: beside this one].
    #[arg(long, value_name = "FILE")]
    pub(crate) weir: Option<PathBuf>,
    /// Of a pci rig: the port under test, as 0000:01:00.0.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) port: Option<String>,
    /// Of a pci rig: the port that it is cabled to, which stays with the kernel.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) peer: Option<String>,
    /// Take this port though it carries an address or the default route (can be given again).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) yes_this_port: Vec<String>,
}

/// Which cases, how often, how long.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// Only this case (can be given again); `hwtests list SCENARIO` names them.
    #[arg(long, value_name = "CASE")]
    pub(crate) case: Vec<String>,
    /// Runs of each case, the cases taking turns [default: the scenario's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: Option<u32>,
    /// Measured time of each load, seconds [default: the scenario's].
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) seconds: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  hwtests list                                          what can be run here, what is missing
  hwtests list latency-under-load                       its cases and what must come out
  hwtests run latency-under-load --rig tap              two minutes, then open target/hwtests/report.html
  hwtests run tcp-nup --rig tap --case cake --case fq_codel --repeats 5
  hwtests run burst --rig pci --port 0000:01:00.0 --peer 0000:01:00.1
  hwtests compare before/ after/                        did it get better, or is it noise?

All traffic stays in network namespaces of its own; Ctrl-C takes everything away again.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
