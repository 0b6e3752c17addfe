//! What was seen, and what follows from it.

use super::ask::Calls;
use crate::completion::drivers::Choice;
use crate::completion::source::{From, Nudge, Source};
use shaper::time::Duration;
use std::fmt;

/// What a port's completions are worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The driver.
    pub driver: String,
    /// Descriptors of the ring.
    pub ring: u16,
    /// How completions are to be seen, by the evidence.
    pub source: Source,
    /// How the driver is to be made to look.
    pub nudge: Nudge,
    /// What follows for whoever runs the port, in words.
    pub meaning: &'static str,
    /// What is done by the driver's name, without a probe.
    pub known: Choice,
    /// What was seen.
    pub evidence: Evidence,
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Frames the driver took, and did not take.
    pub sent: u32,
    /// See there.
    pub refused: u32,
    /// Every frame was complete when its burst returned: the driver copies and frees.
    pub copies: bool,
    /// What showed that the first frame was complete ([`Nudge::None`]: nothing had to be done), and
    /// after how long.
    pub shown_by: Option<Nudge>,
    /// See there.
    pub took: Option<Duration>,
    /// Further frames that showed it, where nothing else did.
    pub shown_after: Option<u32>,
    /// Most frames that one look found complete, eight being in flight.
    pub batch: u32,
    /// From submission to completion, of frames sent one by one, eight being in flight.
    pub times: Option<Times>,
    /// What the calls answered before anything was sent.
    pub idle: Calls,
    /// What they answered with frames in flight.
    pub busy: Calls,
}

/// Least, middle, and most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Frames.
    pub count: u32,
    /// Least.
    pub min: Duration,
    /// Half of them took no longer.
    pub median: Duration,
    /// Most.
    pub max: Duration,
}

impl Times {
    /// `None` of none.
    pub(super) fn of(times: &mut [Duration]) -> Option<Self> {
        times.sort_unstable();
        let (min, max) = (*times.first()?, *times.last()?);
        let median = *times.get(times.len() / 2)?;
        Some(Self { count: u32::try_from(times.len()).unwrap_or(u32::MAX), min, median, max })
    }
}

impl Evidence {
    /// What has to be done to see a completion.
    pub(super) fn nudge(&self) -> Nudge {
        self.shown_by.unwrap_or(Nudge::None)
    }

    /// Where `rte_eth_tx_descriptor_status` counts from, if it can be believed: with frames in flight
    /// it says of one end of the ring that the device waits, and of the other that it is done.
    pub fn status(&self) -> Option<From> {
        if self.busy.in_flight == 0 || self.idle.first.number() == Some(0) {
            return None;
        }
        match (self.busy.first.number()?, self.busy.last.number()?) {
            (1, 0) => Some(From::Tail),
            (0, 1) => Some(From::Oldest),
            _ => None,
        }
    }

    /// Calls that answered what cannot be true, in words.
    pub fn lies(&self) -> impl Iterator<Item = &'static str> {
        let busy = self.busy.in_flight > 0;
        let status = self.busy.first.number().is_some() && busy && self.status().is_none();
        let idle_full = self.idle.first.number() == Some(0);
        let count = self.busy.in_use.number() == Some(0) && busy;
        let cleanup = self.busy.freed.number() == Some(0) && self.busy.was_freed == 0;
        [
            (idle_full, "rte_eth_tx_descriptor_status says that an idle ring is waiting"),
            (status && !idle_full, "rte_eth_tx_descriptor_status says the same of both ends of the ring"),
            (count, "rte_eth_tx_queue_count says 0 while frames are in flight"),
            (cleanup, "rte_eth_tx_done_cleanup says that it works, and freed nothing"),
        ]
        .into_iter()
        .filter_map(|(lies, words)| lies.then_some(words))
    }
}

impl Verdict {
    pub(super) fn new(driver: String, ring: u16, known: Choice, evidence: Evidence) -> Self {
        let counts = evidence.busy.in_use.number().is_some_and(|in_use| in_use > 0);
        let (source, nudge, meaning) = match (evidence.shown_by, evidence.status()) {
            _ if evidence.sent == 0 => (known.source, known.nudge, NOTHING),
            _ if evidence.copies => (Source::Submit, Nudge::None, COPIES),
            (Some(nudge), _) => (Source::Held, nudge, REAL),
            (None, Some(from)) => (Source::Status(from), Nudge::None, REAL),
            (None, None) if counts => (Source::QueueCount, Nudge::None, REAL),
            (None, None) if evidence.shown_after.is_some() => (Source::Held, Nudge::None, LAZY),
            (None, None) if evidence.refused > 0 => (known.source, known.nudge, STUCK),
            (None, None) => (Source::Submit, Nudge::None, SILENT),
        };
        Self { driver, ring, source, nudge, meaning, known, evidence }
    }

    /// Whether what is done without a probe is what the probe would do.
    pub fn is_as_known(&self) -> bool {
        (self.source, self.nudge) == (self.known.source, self.known.nudge)
    }
}

/// For a terminal: the verdict, then what it rests on.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { driver, ring, source, nudge, meaning, known, evidence } = self;
        writeln!(f, "driver {driver}, ring {ring}: {source}, nudge {nudge}")?;
        writeln!(f, "  {meaning}")?;
        writeln!(f, "  {} frames sent, {} refused", evidence.sent, evidence.refused)?;
        if evidence.copies {
            writeln!(f, "  every frame was complete when its burst returned")?;
        }
        match (evidence.shown_by, evidence.took, evidence.shown_after) {
            (Some(Nudge::None), Some(took), _) => {
                writeln!(f, "  the first was seen complete by itself after {}", Micros(took))?
            }
            (Some(nudge), Some(took), _) => writeln!(
                f,
                "  the first was not seen complete by itself, but after {} of {nudge}",
                Micros(took)
            )?,
            (_, _, Some(after)) => {
                writeln!(f, "  the first was seen complete after {after} more, and by nothing else")?
            }
            _ if !evidence.copies && evidence.sent > 0 => writeln!(f, "  no frame was ever seen complete")?,
            _ => {}
        }
        if let Some(Times { count, min, median, max }) = evidence.times {
            let [min, median, max] = [min, median, max].map(Micros);
            writeln!(
                f,
                "  {count} frames took {min} to {max}, median {median}; at most {} at once",
                evidence.batch
            )?;
        }
        let Calls { first, last, in_use, .. } = evidence.idle;
        writeln!(f, "  calls, idle: descriptor status {first} and {last}, queue count {in_use}")?;
        let Calls { first, last, in_use, freed, in_flight, .. } = evidence.busy;
        writeln!(
            f,
            "  with {in_flight} in flight: descriptor status {first} and {last}, queue count {in_use}; done cleanup {freed}"
        )?;
        for words in evidence.lies() {
            writeln!(f, "  not believed: {words}")?;
        }
        let same = if self.is_as_known() { "the same is done" } else { "something else is done" };
        write!(f, "  without a probe {same}: {known}")
    }
}

struct Micros(Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{} us", nanos / 1_000, nanos % 1_000 / 100)
    }
}

const REAL: &str = "completions are real: the governor keeps the ring as short as the wire allows";
const COPIES: &str = "completions mean nothing: the driver copies a frame and frees it at once, so nothing waits in \
                      its ring, and what waits behind it cannot be seen; shape below the rate of what follows";
const LAZY: &str = "completions are real but come only when the ring fills: the limit cannot be shorter than that; \
                    a smaller ring, or a larger tx_free_thresh, helps";
const SILENT: &str =
    "no completion was ever seen: the ring is filled as far as it goes; shape below the rate of the wire";
const STUCK: &str = "the ring filled up and nothing left it, so that nothing was learned: is the link up, does anybody \
                     take frames at the other end?";
const NOTHING: &str = "the driver took no frame, so that nothing can be said: is the link up?";

#[cfg(test)]
mod tests;
