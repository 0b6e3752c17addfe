//! The model rig as a scenario sees it: two hosts, the child that is everything between them, and its record.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bed::ADDRESSES;
use crate::clock::{now, unix_seconds};
use crate::forwarder::RuntimeFolder;
use crate::iperf::{Host, Load, Received, Transfer};
use crate::model::{Plan, Record, Spec};
use crate::netns::Netns;
use crate::ping::{Pinger, Sample, await_answer, lost};
use crate::process::{Process, Signal, command, typed};
use crate::scenario::{Curve, Measured, Plot, Run, Samples};
use crate::traffic::{CONGESTION, IDLE, OMIT, SETTLE};

/// A stream, or several of one kind: how many, and the window of each in bytes.
pub type Streams = (u32, Option<u32>);

/// What a run of the model rig brought.
#[derive(Debug)]
pub struct Seen {
    /// What the card and weir recorded while the load was measured.
    pub record: Record,
    /// Of each group of streams.
    pub received: Vec<Received>,
    /// Pings, ms: before the load, and with their second under it.
    pub idle: Vec<f64>,
    /// The same under load.
    pub loaded: Vec<(f64, f64)>,
    /// All of both and of the time between, in seconds of the measured time: negative before it.
    pub pings: Vec<(f64, f64)>,
    /// Requests without an answer though a later one had one.
    pub lost: u32,
    /// What was run.
    pub commands: Vec<String>,
}

/// Runs groups of streams through a plan, a ping beside them.
///
/// # Errors
/// A part that does not start, or ends too early.
pub fn load(run: &mut Run<'_>, plan: &Plan, groups: &[Streams]) -> Result<Seen> {
    let mut bed = ModelBed::new(run, plan)?;
    let ping = Pinger::start(&bed.hosts[0], ADDRESSES[1], 0, PING_INTERVAL)?;
    (run.say)("idle ping");
    run.interrupt.sleep(SETTLE)?;
    let idle_from = unix_seconds();
    run.interrupt.sleep(IDLE)?;
    let idle = idle_from..unix_seconds();
    let mut transfers = bed.transfers(run, groups)?;
    (run.say)("slow start");
    run.interrupt.sleep(Duration::from_secs(OMIT.into()))?;
    bed.child.signal(Signal::USR1)?;
    let began = now();
    for second in 0..run.seconds {
        (run.say)(&format!("load, {} s to go", run.seconds - second));
        // Not to be late for the second mark, whatever the machine does.
        let end = began + Duration::from_secs(u64::from(second) + 1);
        run.interrupt.sleep(end.saturating_duration_since(now()))?;
    }
    bed.child.signal(Signal::USR1)?;
    let mut received = Vec::new();
    for transfer in &mut transfers {
        received.push(finish(run, transfer)?);
    }
    let samples = ping.stop()?;
    let commands = bed.commands(run.seconds, groups);
    let record = bed.stop()?;
    let loaded = record.from..record.from + record.seconds;
    let within = |span: &std::ops::Range<f64>| {
        let span = span.clone();
        let within = samples.iter().filter(move |sample: &&Sample| span.contains(&sample.sent()));
        within.map(|sample| (sample.sent() - record.from, sample.rtt_ms)).collect::<Vec<_>>()
    };
    let pings = within(&(idle.start..loaded.end));
    let idle = within(&idle).into_iter().map(|(_, rtt)| rtt).collect();
    Ok(Seen { idle, loaded: within(&loaded), pings, lost: lost(&samples), record, received, commands })
}

impl Seen {
    /// The values and curves of every scenario of this rig.
    pub fn measured(&self) -> Measured {
        let mut measured = Measured { commands: self.commands.clone(), ..Measured::default() };
        let Record { limit, in_flight, residence_us, away, .. } = &self.record;
        let tcp = self.received.iter().map(|received| received.total / 1e6).sum();
        measured.higher("tcp", tcp, "Mbit/s");
        measured.higher("wire_busy", self.record.wire_share * 100.0, "%");
        measured.lower("wire_idle_while_there", self.record.idle_share * 100.0, "%");
        // From the wire's own log.
        measured.shares(&self.flows());
        let rtt: Vec<_> = self.loaded.iter().map(|(_, rtt)| *rtt).collect();
        measured.pings(&self.idle, &rtt);
        measured.lower("limit_p99", limit[1] as f64, "bytes");
        measured.lower("in_flight_median", in_flight[0] as f64, "bytes");
        measured.lower("in_flight_p99", in_flight[1] as f64, "bytes");
        measured.lower("residence_median", residence_us[0] / 1e3, "ms");
        measured.lower("residence_p99", residence_us[1] / 1e3, "ms");
        measured.lower("pieces", self.record.pieces as f64, "");
        measured.lower("drops", self.record.dropped as f64, "packets");
        measured.lower("away", away.0 * 100.0, "% of the time");
        measured.lower("away_longest", away.2 / 1e3, "ms");
        self.curves(&mut measured, rtt);
        measured
    }

    /// Mbit/s on the wire of each flow with data in whole seconds; the others are iperf3's own and the pings.
    fn flows(&self) -> Vec<Vec<f64>> {
        let whole = self.record.seconds.round() as usize * 10;
        let all = self.record.flows.values();
        let total: u64 = all.clone().flatten().sum();
        let large = all.filter(|slices| slices.iter().sum::<u64>() * 50 > total);
        large
            .map(|slices| {
                let mut slices = slices.clone();
                slices.resize(whole, 0);
                slices.chunks_exact(10).map(|second| second.iter().sum::<u64>() as f64 * 8e-6).collect()
            })
            .collect()
    }

    fn curves(&self, measured: &mut Measured, rtt: Vec<f64>) {
        for (at, flow) in self.flows().into_iter().enumerate() {
            let points =
                flow.into_iter().enumerate().map(|(second, rate)| (second as f64 + 1.0, rate)).collect();
            measured.curves.push(Curve { plot: &WIRE, label: format!("flow {}", at + 1), points });
        }
        measured.curves.push(Curve { plot: &PING, label: "ping".into(), points: self.loaded.clone() });
        measured.samples.push(Samples { plot: &PING_CDF, label: "ping".into(), values: rtt });
        let samples = &self.record.samples;
        let curve = |plot, points| Curve { plot, label: "in the card".into(), points };
        let card = samples.iter().map(|(at, _, bytes)| (*at, *bytes as f64)).collect();
        measured.curves.push(curve(&IN_FLIGHT, card));
        let limits: Vec<_> = samples.iter().map(|(at, limit, _)| (*at, f64::from(*limit))).collect();
        if limits.iter().any(|(_, limit)| *limit > 0.0) {
            measured.curves.push(Curve { plot: &IN_FLIGHT, label: "limit".into(), points: limits });
        }
    }
}

fn finish(run: &Run<'_>, transfer: &mut Transfer) -> Result<Received> {
    let end = now() + LATE;
    loop {
        if let Some(received) = transfer.result()? {
            return Ok(received);
        }
        ensure!(now() < end, "iperf3 did not end within {LATE:?} after its time");
        run.interrupt.sleep(Duration::from_millis(20))?;
    }
}

/// The binary that is the rig, beside this one.
///
/// # Errors
/// It is not there.
pub fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this binary")?;
    let program = own.with_file_name("hwtests");
    ensure!(program.is_file(), "no {}: build it (cargo build --release -p hwtests)", program.display());
    Ok(program)
}

/// Dropped in this order: the child that holds the taps goes first.
struct ModelBed {
    child: Process,
    hosts: [Netns; 2],
    record: PathBuf,
    typed: String,
    _runtime: RuntimeFolder,
}

impl ModelBed {
    fn new(run: &mut Run<'_>, plan: &Plan) -> Result<Self> {
        (run.say)("starting");
        let folder = fs::canonicalize(run.folder).context("cannot find the run's folder")?;
        let file = |end: &str| folder.join(format!("{}{end}", run.case.name));
        let interfaces = ["ma", "mb"].map(|end| format!("{end}{}", std::process::id()));
        let spec = Spec { interfaces: interfaces.clone(), record: file(".record.json"), plan: plan.clone() };
        let _ = fs::remove_file(&spec.record);
        fs::write(file(".spec.json"), serde_json::to_string_pretty(&spec)?)?;
        // Nothing is pinned: the kernel's traffic and the thread that moves it share two cores better by themselves.
        let host = |name| Netns::new(name, None, run.interrupt);
        let hosts = [host("host a")?, host("host b")?];
        let mut child = command(program()?);
        child.arg("model").arg(file(".spec.json"));
        let runtime = RuntimeFolder::of(&format!("hwtests-rig-{}", std::process::id()));
        let typed = typed(&child);
        let mut child = Process::spawn("the model rig", &mut child, Some(&file(".log")))?;
        child.wait_for("ready", Duration::from_secs(30), run.interrupt)?;
        for ((host, interface), address) in hosts.iter().zip(&interfaces).zip(ADDRESSES) {
            host.take(interface, &format!("{address}/24"))?;
        }
        let bed = Self { child, hosts, record: spec.record, typed, _runtime: runtime };
        await_answer(&bed.hosts[0], ADDRESSES[1], "the model rig", run.interrupt)?;
        Ok(bed)
    }

    fn transfers(&self, run: &Run<'_>, groups: &[Streams]) -> Result<Vec<Transfer>> {
        let host = |end: usize| Host { netns: &self.hosts[end], address: ADDRESSES[end] };
        let start = |(at, &(streams, window)): (usize, &Streams)| {
            let load = Load { streams, seconds: run.seconds, omit: OMIT, congestion: CONGESTION };
            Transfer::start_beside(host(0), host(1), load, (FIRST_PORT + at as u16, window), run.interrupt)
        };
        groups.iter().enumerate().map(start).collect()
    }

    fn commands(&self, seconds: u32, groups: &[Streams]) -> Vec<String> {
        let mut commands = vec![self.typed.clone()];
        commands.extend(groups.iter().map(|(streams, window)| {
            let window = window.map_or(String::new(), |bytes| format!(" --window {bytes}"));
            format!("iperf3 --client PEER --parallel {streams} --time {seconds} --omit {OMIT}{window} --json")
        }));
        commands
    }

    fn stop(self) -> Result<Record> {
        let Self { child, record, .. } = self;
        // It ends by the signal's number, as all that are interrupted do.
        let (_, lines) = child.stop(Signal::INT, Duration::from_secs(10))?;
        let text = fs::read_to_string(&record)
            .with_context(|| format!("the model rig left no record: {}", lines.join("\n  ")))?;
        serde_json::from_str(&text).context("the record is no JSON")
    }
}

const FIRST_PORT: u16 = 5201;
const PING_INTERVAL: Duration = Duration::from_millis(10);
/// A full ring and a few retransmissions of iperf3's own control connection.
const LATE: Duration = Duration::from_secs(20);
static WIRE: Plot = Plot {
    name: "rate",
    title: "Rate of each flow on the wire",
    x: "seconds",
    y: "Mbit/s",
    log: false,
    by_case: true,
};
static PING: Plot =
    Plot { name: "ping", title: "Round trip under load", x: "seconds", y: "ms", log: true, by_case: false };
static PING_CDF: Plot = Plot {
    name: "ping-cdf",
    title: "Distribution of round trips under load",
    x: "ms",
    y: "share of pings",
    log: true,
    by_case: false,
};
static IN_FLIGHT: Plot = Plot {
    name: "in-flight",
    title: "Limit and bytes in the card",
    x: "seconds",
    y: "bytes",
    log: true,
    by_case: true,
};
