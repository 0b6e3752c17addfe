//! How long packets took, as a document: every histogram whole, bucket by bucket.
//!
//! Cumulative since the start, or of the last complete window of ten seconds ([`Windows`]). Its JSON is
//! stable: programs read it, and `weir hist` makes all other formats of it.

use crate::events::now;
use crate::observe::{Instance, Place};
use engine::completion::source::Source;
use engine::delays::{ByKind, Totals, quantiles};
use engine::flight;
use engine::line::Line;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// All histograms of a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// When it ended, in seconds since 1970.
    pub at: f64,
    /// When it began, likewise.
    pub start: f64,
    /// What time that is.
    pub window: Window,
    /// How long it was, in seconds.
    pub window_s: f64,
    /// The histograms: by link and direction, all tins together and then each of cake's, by kind.
    pub histograms: Vec<Delay>,
}

/// Since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// Since the instance was started.
    #[default]
    Cumulative,
    /// An interval.
    Interval,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// In the discipline.
    Sojourn,
    /// In the transmit ring, until the completion was seen.
    Residence,
    /// From the burst that it was received in until the completion was seen.
    Total,
}

/// One histogram. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// Name of the link.
    pub link: String,
    /// `up` or `down`.
    pub direction: String,
    /// Name of the tin; none: all of them together.
    pub tin: Option<String>,
    /// What was measured.
    pub kind: Kind,
    /// What ends residence and total now: `completion`, or `submission` where the port shows no more. Then
    /// there is no residence, and the total ends with the hand-over.
    pub until: Until,
    /// `ns`.
    pub unit: Unit,
    /// Packets.
    pub count: u64,
    /// The fastest.
    pub min: u64,
    /// Their mean, to half a bucket.
    pub mean: f64,
    /// The slowest.
    pub max: u64,
    /// What half of them took at most.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// 99.99 %.
    pub p9999: u64,
    /// The largest value that counts in each bucket that is not empty, rising, and how many did.
    pub buckets: Vec<(u64, u64)>,
}

/// What ends residence and total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// The completion was seen.
    Completion,
    /// The driver took the packet.
    Submission,
}

/// The unit of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    #[default]
    Ns,
}

/// Which histograms are wanted; what is not given is not asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Those of this link.
    pub link: Option<String>,
    /// Those of this direction.
    pub direction: Option<String>,
    /// Those of this tin; `all`: those of all tins together.
    pub tin: Option<String>,
    /// Those of this kind.
    pub kind: Option<Kind>,
}

/// What was recorded in a direction since the start. Cheap to take, as it shares its memory with the control loop
/// until that has more to add; documents are made of it for whoever asks.
#[derive(Clone, Debug)]
pub struct Times {
    /// Name of the link.
    pub link: String,
    /// `up` or `down`.
    pub direction: &'static str,
    /// Name and number of each of cake's tins.
    pub tins: Vec<(&'static str, usize)>,
    /// How long packets took.
    pub delays: ByKind<Totals>,
    /// What was in flight in the transmit ring that it ends in.
    pub flight: flight::Total,
    until: Until,
}

/// The last complete window, kept by the control loop.
#[derive(Debug)]
pub struct Windows {
    started: f64,
    /// When the window that is under way began, and the sums of each direction then.
    since: f64,
    then: Vec<Times>,
    last: Arc<Delays>,
}

impl Windows {
    /// The first window begins now, as the instance does.
    pub fn new() -> Self {
        let now = now();
        let last = Delays { at: now, start: now, window: Window::Interval, ..Delays::default() };
        Self { started: now, since: now, then: Vec::new(), last: last.into() }
    }

    /// Ends the window under way, and begins the next. Call it with statistics that have just come.
    pub fn turn(&mut self, instance: &Instance, line: &Line) {
        let now = now();
        let times = times(instance, line);
        let histograms = times.iter().flat_map(|times| {
            let then = self.then.iter().find(|then| then.is_of_the_same(times));
            then.map_or_else(|| times.clone(), |then| times.since(then)).all()
        });
        let histograms = histograms.collect();
        let window_s = now - self.since;
        self.last =
            Delays { at: now, start: self.since, window: Window::Interval, window_s, histograms }.into();
        self.since = now;
        self.then = times;
    }

    /// The last window that is complete; empty before the first one is.
    pub fn last(&self) -> Arc<Delays> {
        self.last.clone()
    }

    /// When the instance began, in seconds since 1970.
    pub const fn started(&self) -> f64 {
        self.started
    }
}

/// What was recorded in each direction, in the order of the file.
pub fn times(instance: &Instance, line: &Line) -> Vec<Times> {
    let of = |place: &Place<'_>| {
        Some(Times {
            link: place.link.to_owned(),
            direction: place.direction,
            tins: place.tins().collect(),
            delays: place.delays()?.clone(),
            flight: place.flight().cloned().unwrap_or_default(),
            until: match place.source() {
                None | Some(Source::Submit) => Until::Submission,
                Some(_) => Until::Completion,
            },
        })
    };
    instance.places(line).iter().filter_map(of).collect()
}

impl Times {
    /// Every histogram: all tins together and then each of cake's, by kind.
    pub fn all(&self) -> Vec<Delay> {
        self.histograms(|_, _| true)
    }

    /// By tin, and all together only where there are none: each packet is in one histogram of a kind.
    pub fn by_tin(&self) -> Vec<Delay> {
        self.histograms(|tin, _| tin.is_some() || self.tins.is_empty())
    }

    /// Those that `filter` wants.
    pub fn filtered(&self, filter: &Filter) -> Vec<Delay> {
        self.histograms(|tin, kind| filter.wants(&self.link, self.direction, tin, kind))
    }

    /// Those that are wanted by their tin and kind.
    fn histograms(&self, wants: impl Fn(Option<&str>, Kind) -> bool) -> Vec<Delay> {
        let tins = self.tins.iter().map(|(name, number)| (Some(*name), Some(*number)));
        let mut found = Vec::new();
        for (name, number) in std::iter::once((None, None)).chain(tins) {
            for (kind, totals) in Kind::of(&self.delays).into_iter().filter(|(kind, _)| wants(name, *kind)) {
                let buckets =
                    number.map_or_else(|| totals.cells_of_all(), |number| totals.cells_of_tin(number));
                found.push(Delay {
                    link: self.link.clone(),
                    direction: self.direction.to_owned(),
                    tin: name.map(str::to_owned),
                    until: self.until,
                    ..Delay::of(kind, buckets)
                });
            }
        }
        found
    }

    fn since(&self, earlier: &Self) -> Self {
        Self { delays: self.delays.since(&earlier.delays), ..self.clone() }
    }

    fn is_of_the_same(&self, other: &Self) -> bool {
        (&self.link, self.direction) == (&other.link, other.direction)
    }
}

impl Delays {
    /// Those that `filter` wants.
    #[must_use]
    pub fn filtered(&self, filter: &Filter) -> Self {
        let wants = |of: &&Delay| filter.wants(&of.link, &of.direction, of.tin.as_deref(), of.kind);
        let histograms = self.histograms.iter().filter(wants).cloned().collect();
        Self { histograms, ..*self }
    }

    /// What was added since `earlier`, an older document of the same instance: an interval.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let older = |delay: &Delay| earlier.histograms.iter().find(|older| older.is_of_the_same(delay));
        let since = |delay: &Delay| delay.since(older(delay).map_or(&[], |older| &older.buckets));
        Self {
            at: self.at,
            start: earlier.at,
            window: Window::Interval,
            window_s: self.at - earlier.at,
            histograms: self.histograms.iter().map(since).collect(),
        }
    }
}

impl Delay {
    /// A histogram of these buckets, of nobody yet.
    pub fn of(kind: Kind, buckets: Vec<(u64, u64)>) -> Self {
        let count = buckets.iter().map(|(_, count)| count).sum();
        let [p50, p90, p99, p999, p9999] = quantiles(&buckets, count, [0.5, 0.9, 0.99, 0.999, 0.9999]);
        Self {
            link: String::new(),
            direction: String::new(),
            tin: None,
            kind,
            until: Until::Completion,
            unit: Unit::Ns,
            count,
            min: buckets.first().map_or(0, |(nanos, _)| *nanos),
            mean: mean(&buckets, count),
            max: buckets.last().map_or(0, |(nanos, _)| *nanos),
            p50,
            p90,
            p99,
            p999,
            p9999,
            buckets,
        }
    }

    /// Name and nanoseconds of each percentile.
    pub fn percentiles(&self) -> [(&'static str, u64); 6] {
        [
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p999),
            ("p99.99", self.p9999),
            ("max", self.max),
        ]
    }

    /// The same as an HdrHistogram of three significant digits, 1 us to 60 s.
    ///
    /// # Errors
    /// A value out of these bounds, as no instance of this version sends one.
    pub fn to_hdr(&self) -> anyhow::Result<Histogram<u64>> {
        let mut histogram = Histogram::new_with_bounds(SHORTEST, LONGEST, DIGITS)?;
        for (nanos, count) in &self.buckets {
            histogram.record_n(*nanos, *count)?;
        }
        Ok(histogram)
    }

    /// Where it belongs, in one word: `home.down.Bulk.sojourn`; `all` for all tins together.
    pub fn tag(&self) -> String {
        let tin = self.tin.as_deref().unwrap_or(ALL_TINS);
        format!("{}.{}.{tin}.{}", self.link, self.direction, self.kind).replace([' ', ','], "-")
    }

    fn is_of_the_same(&self, other: &Self) -> bool {
        (&self.link, &self.direction, &self.tin, self.kind)
            == (&other.link, &other.direction, &other.tin, other.kind)
    }

    fn since(&self, earlier: &[(u64, u64)]) -> Self {
        let mut earlier = earlier.iter().copied().peekable();
        let mut buckets = self.buckets.clone();
        for (nanos, count) in &mut buckets {
            while let Some((_, before)) = earlier.next_if(|(of, _)| of <= nanos) {
                *count = count.saturating_sub(before);
            }
        }
        buckets.retain(|(_, count)| *count > 0);
        let Self { link, direction, tin, kind, until, .. } = self.clone();
        Self { link, direction, tin, until, ..Self::of(kind, buckets) }
    }
}

impl Kind {
    /// Each kind, in the order of the way of a packet.
    pub const ALL: [Self; 3] = [Self::Sojourn, Self::Residence, Self::Total];

    fn of(totals: &ByKind<Totals>) -> [(Self, &Totals); 3] {
        [(Self::Sojourn, &totals.sojourn), (Self::Residence, &totals.residence), (Self::Total, &totals.total)]
    }

    /// Its name, as in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sojourn => "sojourn",
            Self::Residence => "residence",
            Self::Total => "total",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| format!("{name:?} is none of sojourn, residence, total"))
    }
}

impl Filter {
    fn wants(&self, link: &str, direction: &str, tin: Option<&str>, kind: Kind) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        is(&self.link, link)
            && is(&self.direction, direction)
            && is(&self.tin, tin.unwrap_or(ALL_TINS))
            && self.kind.is_none_or(|wanted| wanted == kind)
    }
}

fn mean(buckets: &[(u64, u64)], count: u64) -> f64 {
    // A bucket is as wide as 1/128 of the power of two below its values, or 512 ns.
    let middle = |nanos: u64| {
        let width = (nanos.checked_ilog2().unwrap_or(0).saturating_sub(7)).max(9);
        nanos as f64 - (1_u64 << width) as f64 / 2.0
    };
    let sum: f64 = buckets.iter().map(|(nanos, count)| middle(*nanos).max(0.0) * *count as f64).sum();
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// All tins together, where a word is needed.
pub const ALL_TINS: &str = "all";

const SHORTEST: u64 = 1_000;
const LONGEST: u64 = engine::delays::LONGEST.as_nanos();
const DIGITS: u8 = 3;

#[cfg(test)]
pub mod tests {
    use super::*;
    use engine::delays::Recorder;
    use shaper::time::Duration;

    /// A histogram of what was recorded on the packet path: `values` in nanoseconds.
    pub fn recorded(kind: Kind, values: impl Iterator<Item = u64>) -> Delay {
        let (mut recorder, mut totals) = (Recorder::new(1), Totals::default());
        values.for_each(|value| recorder.record(0, Duration::from_nanos(value)));
        totals.take(&mut recorder);
        let (link, direction) = ("home".to_owned(), "down".to_owned());
        Delay { link, direction, ..Delay::of(kind, totals.cells_of_all()) }
    }

    /// A cake's direction: two tins and both together, one kind without anything.
    pub fn document() -> Delays {
        let named = |tin: &str, delay: Delay| Delay { tin: Some(tin.to_owned()), ..delay };
        let slow = || (1..=10_000).map(|step| 50_000 + step * step / 2);
        let fast = || (1..=2_000).map(|step| 1_500 + step * 10);
        Delays {
            at: 1_796_000_012.5,
            start: 1_796_000_000.0,
            window: Window::Cumulative,
            window_s: 12.5,
            histograms: vec![
                recorded(Kind::Sojourn, slow().chain(fast())),
                Delay { until: Until::Submission, ..recorded(Kind::Residence, std::iter::empty()) },
                recorded(Kind::Total, slow().chain(fast()).map(|nanos| nanos + 120_000)),
                named("Best Effort", recorded(Kind::Sojourn, slow())),
                named("Voice", recorded(Kind::Sojourn, fast())),
            ],
        }
    }

    #[test]
    fn the_json_is_that_of_the_documentation_and_reads_back() {
        let document = document();
        let json = serde_json::to_value(&document).unwrap();
        let names = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(names(&json), ["at", "histograms", "start", "window", "window_s"]);
        let first = &json["histograms"][0];
        let fields = [
            "buckets",
            "count",
            "direction",
            "kind",
            "link",
            "max",
            "mean",
            "min",
            "p50",
            "p90",
            "p99",
            "p999",
            "p9999",
            "tin",
            "unit",
            "until",
        ];
        assert_eq!(names(first), fields);
        assert_eq!(
            (&first["tin"], &first["unit"], &json["window"]),
            (&serde_json::Value::Null, &"ns".into(), &"cumulative".into())
        );
        assert_eq!(serde_json::from_value::<Delays>(json).unwrap(), document);
    }

    #[test]
    fn what_was_added_is_the_difference() {
        let (earlier, mut later) = (document(), document());
        later.at += 10.0;
        let more = recorded(Kind::Sojourn, [77_000_000; 5].into_iter());
        later.histograms[0].buckets.extend(&more.buckets);
        later.histograms[1] = recorded(Kind::Residence, [9_000].into_iter());
        let since = later.since(&earlier);
        assert_eq!((since.window, since.window_s, since.start), (Window::Interval, 10.0, earlier.at));
        let counts: Vec<_> = since.histograms.iter().map(|delay| delay.count).collect();
        assert_eq!(counts, [5, 1, 0, 0, 0]);
        assert_eq!(since.histograms[0].buckets, more.buckets);
        assert_eq!(since.histograms[0].p50, more.p50);
    }

    #[test]
    fn mean_and_percentiles_are_those_of_the_values() {
        let values = || (1..=100_000_u64).map(|step| step * step / 3);
        let delay = recorded(Kind::Total, values());
        let mean = values().sum::<u64>() as f64 / 100_000.0;
        assert!((delay.mean / mean - 1.0).abs() < 0.005, "{} for {mean}", delay.mean);
        let hdr = delay.to_hdr().unwrap();
        assert_eq!((hdr.len(), delay.count), (100_000, 100_000));
        for (share, found) in [(0.5, delay.p50), (0.9, delay.p90), (0.999, delay.p999), (0.9999, delay.p9999)]
        {
            let exact = values().nth((share * 100_000.0) as usize - 1).unwrap();
            assert!(found >= exact && found as f64 <= exact as f64 * 1.01, "{share}: {found} for {exact}");
            assert!(hdr.value_at_quantile(share).abs_diff(found) <= found / 500, "{share}");
        }
    }

    #[test]
    fn a_filter_keeps_what_it_names() {
        let count = |filter: &Filter| document().filtered(filter).histograms.len();
        assert_eq!(count(&Filter::default()), 5);
        assert_eq!(count(&Filter { kind: Some(Kind::Sojourn), ..Filter::default() }), 3);
        assert_eq!(count(&Filter { tin: Some("all".into()), ..Filter::default() }), 3);
        assert_eq!(count(&Filter { tin: Some("voice".into()), ..Filter::default() }), 1);
        assert_eq!(count(&Filter { direction: Some("up".into()), ..Filter::default() }), 0);
        assert!("sojurn".parse::<Kind>().is_err());
    }
}
