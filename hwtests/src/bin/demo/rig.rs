//! One run of one case: namespaces, forwarder, idle ping, then load.

use std::path::PathBuf;
use std::process;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hwtests::clock::{Interrupt, now, unix_seconds};
use hwtests::forwarder::{Counters, Forwarder, Program, Setup, poll_cpu};
use hwtests::iperf::{Load, Received, Transfer};
use hwtests::netns::{InterfaceBytes, Netns};
use hwtests::ping::{Pinger, Sample, lost};
use hwtests::plot::significant;
use hwtests::process::run as run_command;
use hwtests::progress::Progress;
use hwtests::stats::median;

/// What all runs have in common.
pub(crate) struct Plan {
    pub(crate) program: Program,
    /// Mbit/s each way.
    pub(crate) rate: u32,
    pub(crate) seconds: u32,
    /// One after the other.
    pub(crate) phases: &'static [Phase],
    pub(crate) folder: PathBuf,
}

/// A time of load.
pub(crate) struct Phase {
    pub(crate) label: &'static str,
    /// The ways that carry TCP streams: [`UP`], [`DOWN`].
    ways: &'static [usize],
}

/// A queue to look at.
pub(crate) struct Case {
    /// In `result.json`.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) label: &'static str,
    /// Keys of the link direction, without `bandwidth`.
    qdisc: &'static str,
}

/// Tells the user how far a run is.
pub(crate) struct Teller<'a> {
    pub(crate) progress: &'a mut Progress,
    /// Case and number of the run.
    pub(crate) label: String,
    /// Phases to come in this and all later runs, with the present one.
    pub(crate) phases_after: u32,
}

/// What one run measured.
pub(crate) struct Run {
    /// Round trips before the load, both ways, ms.
    pub(crate) idle: Vec<f64>,
    /// Round trips under load, both ways, ms.
    pub(crate) loaded: Vec<f64>,
    pub(crate) lost: u32,
    /// Points for the plot, one list each way: seconds since the load began, ms.
    pub(crate) points: [Vec<(f64, f64)>; 2],
    /// When each phase's measured time began, in the time of the points.
    pub(crate) phases: Vec<f64>,
    /// What TCP delivered up and down.
    pub(crate) received: [Received; 2],
    /// Frames delivered meanwhile, bit/s, ACKs and pings included.
    pub(crate) link: [f64; 2],
    /// Of the whole run, idle time and slow start included.
    pub(crate) counters: Option<Counters>,
}

/// Measures `case` once; whatever it made in the system is gone when it returns.
pub(crate) fn run(plan: &Plan, case: &Case, teller: &mut Teller<'_>, interrupt: &Interrupt) -> Result<Run> {
    teller.stage("starting");
    let bed = Bed::new(plan, case, interrupt)?;
    let mut pingers = [
        Pinger::start(&bed.ends[0], ADDRESSES[1], PING_INTERVAL)?,
        Pinger::start(&bed.ends[1], ADDRESSES[0], PING_INTERVAL)?,
    ];
    teller.stage("idle ping");
    interrupt.sleep(SETTLE)?;
    let idle_from = unix_seconds();
    interrupt.sleep(IDLE)?;
    let load_from = unix_seconds();
    let mut loaded = Vec::new();
    for phase in plan.phases {
        loaded.push(load(plan, phase, &bed, &mut pingers, teller, interrupt)?);
    }
    let [up, down] = pingers;
    let samples = [up.stop()?, down.stop()?];
    let counters = bed.forwarder.counters()?;
    bed.forwarder.stop()?;

    let seconds = f64::from(plan.seconds);
    let sent = |from: f64, to: f64| {
        let within = move |sample: &&Sample| (from..to).contains(&sample.sent());
        samples.iter().flatten().filter(within).map(|sample| sample.rtt_ms)
    };
    let end = loaded.last().map_or(load_from, |phase| phase.from + seconds);
    let points = |samples: &[Sample]| {
        let shown = samples.iter().filter(|sample| (idle_from..end).contains(&sample.sent()));
        shown.map(|sample| (sample.sent() - load_from, sample.rtt_ms)).collect()
    };
    let delivered = |way| loaded.iter().flat_map(|phase| &phase.ways).find(move |found| found.way == way);
    let [up, down] = [delivered(UP), delivered(DOWN)].map(|found| found.context("a way had no load"));
    let (up, down) = (up?, down?);
    Ok(Run {
        idle: sent(idle_from, load_from).collect(),
        loaded: loaded.iter().flat_map(|phase| sent(phase.from, phase.from + seconds)).collect(),
        lost: samples.iter().map(|way| lost(way)).sum(),
        points: [points(&samples[0]), points(&samples[1])],
        phases: loaded.iter().map(|phase| phase.from - load_from).collect(),
        received: [up.received.clone(), down.received.clone()],
        link: [up.link, down.link],
        counters,
    })
}

/// Two namespaces and the forwarder between them. Dropped in this order: traffic has ended by then.
struct Bed {
    forwarder: Forwarder,
    ends: [Netns; 2],
    taps: [String; 2],
}

impl Bed {
    fn new(plan: &Plan, case: &Case, interrupt: &Interrupt) -> Result<Self> {
        let taps = ["wa", "wb"].map(|end| format!("{end}{}", process::id()));
        let poll_cpu = poll_cpu();
        let traffic = poll_cpu.checked_sub(1).map(|last| format!("0-{last}"));
        let end = |name| Netns::new(name, traffic.as_deref(), interrupt);
        let ends = [end("namespace a")?, end("namespace b")?];
        let setup = Setup {
            taps: [&taps[0], &taps[1]],
            qdisc: case.qdisc,
            rate: plan.rate,
            poll_cpu,
            folder: &plan.folder,
            name: case.name,
        };
        let forwarder = Forwarder::start(&plan.program, &setup, interrupt)?;
        for ((end, tap), address) in ends.iter().zip(&taps).zip(ADDRESSES) {
            end.take(tap, &format!("{address}/24"))?;
        }
        let bed = Self { forwarder, ends, taps };
        bed.await_path(interrupt)?;
        Ok(bed)
    }

    fn await_path(&self, interrupt: &Interrupt) -> Result<()> {
        let end = now() + PATH_TIMEOUT;
        loop {
            interrupt.check()?;
            let mut ping = self.ends[0].command("ping");
            match run_command(ping.args(["-n", "-c", "1", "-W", "1", ADDRESSES[1]])) {
                Ok(_) => return Ok(()),
                Err(_) if now() < end => {}
                Err(error) => return Err(error).context("no packet passes the forwarder"),
            }
        }
    }

    fn bytes(&self) -> Result<[InterfaceBytes; 2]> {
        Ok([self.ends[0].bytes(&self.taps[0])?, self.ends[1].bytes(&self.taps[1])?])
    }
}

/// What one phase measured.
struct Loaded {
    /// When the measured time began, seconds since 1970.
    from: f64,
    ways: Vec<Delivered>,
}

struct Delivered {
    way: usize,
    received: Received,
    link: f64,
}

fn load(
    plan: &Plan,
    phase: &Phase,
    bed: &Bed,
    pingers: &mut [Pinger; 2],
    teller: &mut Teller<'_>,
    interrupt: &Interrupt,
) -> Result<Loaded> {
    let load = Load { streams: STREAMS, seconds: plan.seconds, omit: OMIT, congestion: CONGESTION };
    let start = |&way: &usize| {
        let (from, to) = (&bed.ends[way], &bed.ends[1 - way]);
        Transfer::start(from, to, ADDRESSES[1 - way], load, interrupt)
    };
    let mut transfers = phase.ways.iter().map(start).collect::<Result<Vec<_>>>()?;
    teller.stage(&format!("{}: slow start", phase.label));
    interrupt.sleep(Duration::from_secs(OMIT.into()))?;

    let (from, began, first) = (unix_seconds(), now(), bed.bytes()?);
    let mut link = [0.0; 2];
    let mut last = (began, first);
    let mut received: Vec<Option<Received>> = vec![None; transfers.len()];
    let limit = began + Duration::from_secs(plan.seconds.into()) + LATE;
    while received.iter().any(Option::is_none) {
        interrupt.sleep(REFRESH)?;
        let at = (now(), bed.bytes()?);
        let passed = at.0.duration_since(began).as_secs_f64();
        if passed <= f64::from(plan.seconds) {
            link = rates((began, first), at);
            teller.tick(plan, rates(last, at), pingers, passed);
            last = at;
        }
        ensure!(at.0 < limit, "iperf3 did not end within {LATE:?} after its time");
        for (transfer, received) in transfers.iter_mut().zip(&mut received) {
            if received.is_none() {
                *received = transfer.result()?;
            }
        }
    }
    teller.phases_after -= 1;
    let ways = phase.ways.iter().zip(received.into_iter().flatten());
    let ways = ways.map(|(&way, received)| Delivered { way, received, link: link[way] });
    Ok(Loaded { from, ways: ways.collect() })
}

type Reading = (std::time::Instant, [InterfaceBytes; 2]);

/// Bit/s up (received at b) and down (received at a) between two readings.
fn rates(from: Reading, to: Reading) -> [f64; 2] {
    let seconds = to.0.duration_since(from.0).as_secs_f64();
    [1, 0].map(|end| (to.1[end].received - from.1[end].received) as f64 * 8.0 / seconds)
}

impl Teller<'_> {
    fn stage(&mut self, stage: &str) {
        self.progress.stage(&format!("{:<13} {stage}", self.label));
    }

    fn tick(&mut self, plan: &Plan, [up, down]: [f64; 2], pingers: &mut [Pinger; 2], passed: f64) {
        let recent = pingers[0].samples();
        let recent = &recent[recent.len().saturating_sub(RECENT_PINGS)..];
        let ping = median(&recent.iter().map(|sample| sample.rtt_ms).collect::<Vec<_>>());
        let seconds = f64::from(plan.seconds);
        let left = seconds - passed + (seconds + PHASE_OVERHEAD) * f64::from(self.phases_after - 1);
        self.progress.tick(&format!(
            "{:<13} up {:5.1}  down {:5.1} Mbit/s   ping {:>5} ms   {left:3.0} s left",
            self.label,
            up / 1e6,
            down / 1e6,
            significant(ping)
        ));
    }
}

/// In the order of their turns. 1000 packets is Linux's default transmit queue (txqueuelen): 121 ms of full frames
/// at 100 Mbit/s, about what modems and drivers hold.
pub(crate) const CASES: [Case; 2] = [
    Case { name: "fifo", label: "FIFO", qdisc: "qdisc = \"fifo\", limit = 1000" },
    Case { name: "fq_codel", label: "fq_codel", qdisc: "qdisc = \"fq_codel\"" },
];
const UP: usize = 0;
const DOWN: usize = 1;
/// Each way in its turn.
pub(crate) const TURNS: [Phase; 2] =
    [Phase { label: "up", ways: &[UP] }, Phase { label: "down", ways: &[DOWN] }];
/// Both ways at once. Two-way traffic through a FIFO leaves one way idle for some of the time, whatever its limit,
/// as ACKs bunch up behind the other way's data (Zhang, Shenker, Clark: Observations on the Dynamics of a
/// Congestion Control Algorithm, SIGCOMM 1991), and ACKs take 2 % of each way.
pub(crate) const BOTH: [Phase; 1] = [Phase { label: "both ways", ways: &[UP, DOWN] }];
pub(crate) const STREAMS: u32 = 4;
/// Linux's default, named because some machines are set to another that keeps off a full queue by itself.
pub(crate) const CONGESTION: &str = "cubic";
/// TEST-NET-1 (RFC 5737); exists inside the namespaces only.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// Seconds of load before the measured time: slow start.
pub(crate) const OMIT: u32 = 2;
const PING_INTERVAL: Duration = Duration::from_millis(20);
/// Address resolution and the first scheduling of new processes.
const SETTLE: Duration = Duration::from_millis(500);
const IDLE: Duration = Duration::from_secs(3);
/// What a phase takes beside its measured time, about, in seconds.
const PHASE_OVERHEAD: f64 = 6.0;
const REFRESH: Duration = Duration::from_millis(250);
const RECENT_PINGS: usize = 25;
const PATH_TIMEOUT: Duration = Duration::from_secs(10);
/// A full queue each way and a few retransmissions of iperf3's own control connection.
const LATE: Duration = Duration::from_secs(20);
