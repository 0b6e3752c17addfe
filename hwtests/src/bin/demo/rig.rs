//! One run of one case: namespaces, forwarder, idle ping, then load.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use std::{process, slice};

use anyhow::{Context, Error, Result, bail, ensure};
use hwtests::clock::{Interrupt, now, unix_seconds};
use hwtests::forwarder::{Counters, Forwarder, Program, Setup, poll_cpu, tap};
use hwtests::iperf::{Host, Load, Received, Transfer};
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
    /// All at the same time.
    flows: &'static [Flows],
}

/// TCP streams from one host to another.
struct Flows {
    /// [`UP`] or [`DOWN`].
    way: usize,
    /// Of [`HOSTS`].
    pair: usize,
    streams: u32,
}

/// A queue to look at.
pub(crate) struct Case {
    /// In `result.json`.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) label: &'static str,
    /// Keys of the link direction, without `bandwidth`.
    qdisc: &'static str,
    /// Promises equal flows and short waits, and is judged by that.
    pub(crate) is_fair: bool,
    /// Promises equal hosts too: two of them load it once more after the plan's phases.
    hosts: Option<&'static Phase>,
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
    /// Before the load.
    pub(crate) idle: Pings,
    /// Under the load of the plan's phases.
    pub(crate) loaded: Pings,
    /// Unanswered, of both classes and all times.
    pub(crate) lost: u32,
    /// Points of best effort for the plot, one list each way: seconds since the load began, ms.
    pub(crate) points: [Vec<(f64, f64)>; 2],
    /// When each of the plan's phases began to be measured, in the time of the points.
    pub(crate) phases: Vec<f64>,
    /// What TCP delivered up and down.
    pub(crate) received: [Received; 2],
    /// Frames delivered meanwhile, bit/s, ACKs and pings included.
    pub(crate) link: [f64; 2],
    /// Two hosts side by side, if the case promises them anything.
    pub(crate) hosts: Option<Hosts>,
    /// Up to the end of the plan's phases, idle time and slow start included.
    pub(crate) counters: Option<Counters>,
}

/// Round trips, both ways, ms.
pub(crate) struct Pings {
    pub(crate) best_effort: Vec<f64>,
    /// DSCP EF.
    pub(crate) ef: Vec<f64>,
}

/// Two hosts with unequal numbers of streams.
pub(crate) struct Hosts {
    /// What TCP delivered of each, bit/s.
    pub(crate) received: [f64; 2],
    pub(crate) pings: Pings,
}

/// Measures `case` once; whatever it made in the system is gone when it returns.
pub(crate) fn run(plan: &Plan, case: &Case, teller: &mut Teller<'_>, interrupt: &Interrupt) -> Result<Run> {
    teller.stage("starting");
    let bed = Bed::new(plan, case, interrupt)?;
    let mut pingers = Pingers::start(&bed)?;
    teller.stage("idle ping");
    interrupt.sleep(SETTLE)?;
    let idle_from = unix_seconds();
    interrupt.sleep(IDLE)?;
    let load_from = unix_seconds();
    let mut measure = |phase| load(plan, phase, &bed, &mut pingers, teller, interrupt);
    let loaded = plan.phases.iter().map(&mut measure).collect::<Result<Vec<_>>>()?;
    let counters = bed.forwarder.counters()?;
    let hosts = case.hosts.map(measure).transpose()?;
    let answers = pingers.stop()?;
    bed.forwarder.stop()?;

    let spans: Vec<_> = loaded.iter().map(|load| load.span.clone()).collect();
    let end = spans.last().map_or(load_from, |span| span.end);
    let points = |samples: &Vec<Sample>| {
        let shown = samples.iter().filter(|sample| (idle_from..end).contains(&sample.sent()));
        shown.map(|sample| (sample.sent() - load_from, sample.rtt_ms)).collect()
    };
    let delivered = |way| loaded.iter().flat_map(|load| &load.flows).find(move |found| found.way == way);
    let [up, down] = [delivered(UP), delivered(DOWN)].map(|found| found.context("a way had no load"));
    let (up, down) = (up?, down?);
    Ok(Run {
        idle: answers.within(&[idle_from..load_from]),
        loaded: answers.within(&spans),
        lost: answers.ways().map(|way| lost(way)).sum(),
        points: answers.best_effort.each_ref().map(points),
        phases: spans.iter().map(|span| span.start - load_from).collect(),
        received: [up.received.clone(), down.received.clone()],
        link: [up.link, down.link],
        hosts: hosts.map(|load| Hosts::new(&load, &answers)).transpose()?,
        counters,
    })
}

impl Hosts {
    fn new(load: &Loaded, answers: &Answers) -> Result<Self> {
        let [one, other] = &load.flows[..] else { bail!("{} hosts, not 2", load.flows.len()) };
        let received = [one.received.total, other.received.total];
        Ok(Self { received, pings: answers.within(slice::from_ref(&load.span)) })
    }
}

/// A ping each way of each class, between the first pair of [`HOSTS`].
struct Pingers {
    best_effort: [Pinger; 2],
    ef: [Pinger; 2],
}

/// What they brought.
struct Answers {
    best_effort: [Vec<Sample>; 2],
    ef: [Vec<Sample>; 2],
}

impl Pingers {
    fn start(bed: &Bed) -> Result<Self> {
        let start = |from: usize, tos| Pinger::start(&bed.ends[from], HOSTS[0][1 - from], tos, PING_INTERVAL);
        Ok(Self {
            best_effort: [start(0, BEST_EFFORT)?, start(1, BEST_EFFORT)?],
            ef: [start(0, EF)?, start(1, EF)?],
        })
    }

    fn stop(self) -> Result<Answers> {
        let stop = |[up, down]: [Pinger; 2]| Ok::<_, Error>([up.stop()?, down.stop()?]);
        Ok(Answers { best_effort: stop(self.best_effort)?, ef: stop(self.ef)? })
    }
}

impl Answers {
    /// To requests sent in any of `spans`, seconds since 1970.
    fn within(&self, spans: &[Range<f64>]) -> Pings {
        let is_within = |sample: &&Sample| spans.iter().any(|span| span.contains(&sample.sent()));
        let of = |ways: &[Vec<Sample>; 2]| {
            ways.iter().flatten().filter(is_within).map(|sample| sample.rtt_ms).collect()
        };
        Pings { best_effort: of(&self.best_effort), ef: of(&self.ef) }
    }

    fn ways(&self) -> impl Iterator<Item = &Vec<Sample>> {
        self.best_effort.iter().chain(&self.ef)
    }
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
        let ports = [tap(0, &taps[0]), tap(1, &taps[1])];
        let direction = format!("{}, bandwidth = \"{}Mbit\"", case.qdisc, plan.rate);
        let setup = Setup {
            ports: [&ports[0], &ports[1]],
            directions: [&direction; 2],
            link: "",
            poll_cpu,
            folder: &plan.folder,
            name: case.name,
            inside: None,
        };
        let forwarder = Forwarder::start(&plan.program, &setup, interrupt)?;
        for (at, (end, tap)) in ends.iter().zip(&taps).enumerate() {
            let [first, second] = HOSTS.map(|pair| format!("{}/24", pair[at]));
            end.take(tap, &first)?;
            end.add_address(tap, &second)?;
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
            match run_command(ping.args(["-n", "-c", "1", "-W", "1", HOSTS[0][1]])) {
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
    /// The measured time, seconds since 1970.
    span: Range<f64>,
    /// In the order of the phase's.
    flows: Vec<Delivered>,
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
    pingers: &mut Pingers,
    teller: &mut Teller<'_>,
    interrupt: &Interrupt,
) -> Result<Loaded> {
    let start = |&Flows { way, pair, streams }: &Flows| {
        let load = Load { streams, seconds: plan.seconds, omit: OMIT, congestion: CONGESTION };
        let host = |end: usize| Host { netns: &bed.ends[end], address: HOSTS[pair][end] };
        Transfer::start(host(way), host(1 - way), load, interrupt)
    };
    let mut transfers = phase.flows.iter().map(start).collect::<Result<Vec<_>>>()?;
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
    let flows = phase.flows.iter().zip(received.into_iter().flatten());
    let flows = flows.map(|(&Flows { way, .. }, received)| Delivered { way, received, link: link[way] });
    Ok(Loaded { span: from..from + f64::from(plan.seconds), flows: flows.collect() })
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

    /// What a run of the NIC is at, with the time left of all.
    pub(crate) fn say(&mut self, plan: &Plan, what: &str) {
        // Where nobody watches, a countdown is printed now and then, a new stage always.
        let Some(to_go) = what.split(' ').find_map(|word| word.parse::<u32>().ok()) else {
            return self.stage(what);
        };
        let after = (f64::from(plan.seconds) + PHASE_OVERHEAD) * f64::from(self.phases_after - 1);
        let left = f64::from(to_go) + after;
        self.progress
            .tick(&format!("{:<13} {STREAMS} TCP streams up{:>29}{left:3.0} s left", self.label, ""));
    }

    fn tick(&mut self, plan: &Plan, [up, down]: [f64; 2], pingers: &mut Pingers, passed: f64) {
        let recent = pingers.best_effort[0].samples();
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

impl Plan {
    /// Phases of one run of `case`.
    pub(crate) fn phases_of(&self, case: &Case) -> u32 {
        (self.phases.len() + case.hosts.iter().len()) as u32
    }
}

/// In the order of their turns. 1000 packets is Linux's default transmit queue (txqueuelen): 121 ms of full frames
/// at 100 Mbit/s, about what modems and drivers hold. cake is left at its defaults, which are also named: tins by
/// DSCP, equal hosts, equal flows of each.
pub(crate) const CASES: [Case; 3] = [
    Case {
        name: "fifo",
        label: "FIFO",
        qdisc: "qdisc = \"fifo\", limit = 1000",
        is_fair: false,
        hosts: None,
    },
    Case { name: "fq_codel", label: "fq_codel", qdisc: "qdisc = \"fq_codel\"", is_fair: true, hosts: None },
    Case {
        name: "cake",
        label: "cake",
        qdisc: "qdisc = \"cake\", diffserv = \"diffserv3\", flowmode = \"triple-isolate\"",
        is_fair: true,
        hosts: Some(&UNEQUAL_HOSTS),
    },
];
const UP: usize = 0;
const DOWN: usize = 1;
/// Each way in its turn.
pub(crate) const TURNS: [Phase; 2] =
    [Phase { label: "up", flows: &[ALIKE_UP] }, Phase { label: "down", flows: &[ALIKE_DOWN] }];
/// Both ways at once. Two-way traffic through a FIFO leaves one way idle for some of the time, whatever its limit,
/// as ACKs bunch up behind the other way's data (Zhang, Shenker, Clark: Observations on the Dynamics of a
/// Congestion Control Algorithm, SIGCOMM 1991), and ACKs take 2 % of each way.
pub(crate) const BOTH: [Phase; 1] = [Phase { label: "both ways", flows: &[ALIKE_UP, ALIKE_DOWN] }];
pub(crate) const STREAMS: u32 = 4;
const ALIKE_UP: Flows = Flows { way: UP, pair: 0, streams: STREAMS };
const ALIKE_DOWN: Flows = Flows { way: DOWN, pair: 0, streams: STREAMS };
/// Sources and destinations both differ: triple-isolate goes by whichever of the two hosts has more flows.
static UNEQUAL_HOSTS: Phase = Phase {
    label: "two hosts",
    flows: &[
        Flows { way: UP, pair: 0, streams: HOST_STREAMS[0] },
        Flows { way: UP, pair: 1, streams: HOST_STREAMS[1] },
    ],
};
pub(crate) const HOST_STREAMS: [u32; 2] = [1, 8];
/// Linux's default, named because some machines are set to another that keeps off a full queue by itself.
pub(crate) const CONGESTION: &str = "cubic";
/// Pairs of hosts, one in each namespace. TEST-NET-1 (RFC 5737); exists inside the namespaces only.
const HOSTS: [[&str; 2]; 2] = [["192.0.2.1", "192.0.2.2"], ["192.0.2.11", "192.0.2.12"]];
/// DS fields of pings, as in `ping -Q`: DSCP 0, and DSCP 46 (EF, RFC 3246).
const BEST_EFFORT: u8 = 0;
const EF: u8 = 46 << 2;
/// Seconds of load before the measured time: slow start.
pub(crate) const OMIT: u32 = 2;
const PING_INTERVAL: Duration = Duration::from_millis(20);
/// Address resolution and the first scheduling of new processes.
const SETTLE: Duration = Duration::from_millis(500);
const IDLE: Duration = Duration::from_secs(3);
/// What a phase takes beside its measured time, about, in seconds.
const PHASE_OVERHEAD: f64 = 4.0;
const REFRESH: Duration = Duration::from_millis(250);
const RECENT_PINGS: usize = 25;
const PATH_TIMEOUT: Duration = Duration::from_secs(10);
/// A full queue each way and a few retransmissions of iperf3's own control connection.
const LATE: Duration = Duration::from_secs(20);
