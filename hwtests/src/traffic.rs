//! Traffic of the scenarios: TCP beside pings of several classes, over a [`Bed`].

use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::bed::Bed;
use crate::clock::{now, unix_seconds};
use crate::iperf::{Load, Received, Transfer};
use crate::ping::{Pinger, Sample, lost};
use crate::scenario::Run;

/// A class of pings.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// In names of values.
    pub name: &'static str,
    /// DSCP.
    pub dscp: u8,
}

/// Pings from a to b that are on their way.
#[derive(Debug)]
pub struct Probes(Vec<(Class, Pinger)>);

/// What they brought, class by class.
#[derive(Debug)]
pub struct Answers(Vec<(Class, Vec<Sample>)>);

impl Probes {
    /// One ping for each class.
    pub fn start(bed: &Bed, classes: &[Class], interval: Duration) -> Result<Self> {
        let start = |class: &Class| {
            let to = bed.host(1).address;
            Ok((*class, Pinger::start(bed.host(0).netns, to, class.dscp << 2, interval)?))
        };
        classes.iter().map(start).collect::<Result<_>>().map(Self)
    }

    /// Ends them.
    pub fn stop(self) -> Result<Answers> {
        let stop = |(class, pinger): (Class, Pinger)| Ok((class, pinger.stop()?));
        self.0.into_iter().map(stop).collect::<Result<_>>().map(Answers::new)
    }
}

impl Answers {
    /// Of each class.
    pub fn new(classes: Vec<(Class, Vec<Sample>)>) -> Self {
        Self(classes)
    }

    /// Round trips of requests sent within `span` (seconds since 1970), ms.
    pub fn within(&self, class: &str, span: &Range<f64>) -> Vec<f64> {
        self.points(class, span).into_iter().map(|(_, rtt)| rtt).collect()
    }

    /// The same with the second of each within the span.
    pub fn points(&self, class: &str, span: &Range<f64>) -> Vec<(f64, f64)> {
        let of = self.0.iter().filter(|(found, _)| found.name == class).flat_map(|(_, samples)| samples);
        let within = of.filter(|sample| span.contains(&sample.sent()));
        within.map(|sample| (sample.sent() - span.start, sample.rtt_ms)).collect()
    }

    /// Requests without an answer, of all classes.
    pub fn lost(&self) -> u32 {
        self.0.iter().map(|(_, samples)| lost(samples)).sum()
    }

    /// The longest time between two answers of a class, ms.
    pub fn longest_silence(&self, class: &str) -> f64 {
        let of = self.0.iter().find(|(found, _)| found.name == class);
        let samples = of.map_or(&[][..], |(_, samples)| samples);
        let gaps = samples.windows(2).map(|pair| (pair[1].received - pair[0].received) * 1e3);
        gaps.fold(0.0, f64::max)
    }
}

/// TCP that ran, and when.
#[derive(Debug)]
pub struct Loaded {
    /// The measured time, seconds since 1970.
    pub span: Range<f64>,
    /// In the order of the ways asked for.
    pub received: Vec<Received>,
    /// Frames that arrived at b and at a meanwhile, bit/s.
    pub link: [f64; 2],
}

/// Runs `streams` TCP streams each of the `ways` (0 up, 1 down) at once; slow start does not count.
pub fn tcp(run: &mut Run<'_>, bed: &Bed, ways: &[usize], streams: u32) -> Result<Loaded> {
    let load = Load { streams, seconds: run.seconds, omit: OMIT, congestion: CONGESTION };
    let start = |&way: &usize| Transfer::start(bed.host(way), bed.host(1 - way), load, run.interrupt);
    let mut transfers = ways.iter().map(start).collect::<Result<Vec<_>>>()?;
    (run.say)("slow start");
    run.interrupt.sleep(Duration::from_secs(OMIT.into()))?;
    let (from, began, first) = (unix_seconds(), now(), bed.bytes()?);
    let mut link = [0.0; 2];
    let mut received: Vec<Option<Received>> = vec![None; ways.len()];
    let limit = began + Duration::from_secs(run.seconds.into()) + LATE;
    while received.iter().any(Option::is_none) {
        run.interrupt.sleep(REFRESH)?;
        let (passed, bytes) = (now().duration_since(began).as_secs_f64(), bed.bytes()?);
        if passed <= f64::from(run.seconds) {
            link = [1, 0].map(|end| (bytes[end].received - first[end].received) as f64 * 8.0 / passed);
            (run.say)(&format!(
                "TCP up {:.1} down {:.1} Mbit/s, {:.0} s to go",
                link[0] / 1e6,
                link[1] / 1e6,
                f64::from(run.seconds) - passed
            ));
        }
        ensure!(now() < limit, "iperf3 did not end within {LATE:?} after its time");
        for (transfer, received) in transfers.iter_mut().zip(&mut received) {
            if received.is_none() {
                *received = transfer.result()?;
            }
        }
    }
    let span = from..from + f64::from(run.seconds);
    Ok(Loaded { span, received: received.into_iter().flatten().collect(), link })
}

/// What [`tcp`] runs, as one would type it in the two namespaces.
pub fn typed(seconds: u32, streams: u32) -> Vec<String> {
    vec![
        "iperf3 --server --one-off".into(),
        format!(
            "iperf3 --client PEER --congestion {CONGESTION} --parallel {streams} --time {seconds} --omit {OMIT} --json"
        ),
    ]
}

/// A single TCP class of best effort.
pub const BEST_EFFORT: Class = Class { name: "be", dscp: 0 };
/// Of interactive traffic, a tin of its own with cake (RFC 3246).
pub const EF: Class = Class { name: "ef", dscp: 46 };
/// Linux's default, named because some machines are set to another.
pub const CONGESTION: &str = "cubic";
/// Between two pings of a class.
pub const PING_INTERVAL: Duration = Duration::from_millis(20);
/// Address resolution and the first scheduling of new processes.
pub const SETTLE: Duration = Duration::from_millis(500);
/// Before a load, to know the idle path.
pub const IDLE: Duration = Duration::from_secs(2);
/// Seconds of load before the measured time.
pub const OMIT: u32 = 2;
const REFRESH: Duration = Duration::from_millis(250);
/// A full queue each way and a few retransmissions of iperf3's own control connection.
const LATE: Duration = Duration::from_secs(20);
