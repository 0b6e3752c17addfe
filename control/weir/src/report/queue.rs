//! What lies in a transmit ring, below the scheduler, and how that is known.

use super::text::{Bits, Micros};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// One transmit queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TxQueueReport {
    /// Its number.
    pub queue: u16,
    /// `completion`, or `submit`: the file asks for no limit.
    pub complete_on: String,
    /// How completions are seen.
    pub source: String,
    /// What makes the driver look for them.
    pub nudge: String,
    /// Where that is known from: `measured`, `read`, `assumed`.
    pub basis: String,
    /// What is known of this driver, in words.
    pub why: String,
    /// Whether a limit holds.
    pub binds: bool,
    /// The limit never falls below, in bytes.
    pub limit_min: u32,
    /// The limit in bytes.
    pub limit: u32,
    /// The limit never rises above, in bytes; none: no bound.
    pub limit_max: Option<u32>,
    /// Bytes in the ring now.
    pub in_flight: u64,
    /// Descriptors of the ring in use now.
    pub descriptors: u64,
    /// The fastest that the port has drained its ring of late, in bit/s; none: not known.
    pub drain_rate: Option<u64>,
    /// The shortest time from submission to completion, in microseconds.
    pub delay_us: Option<u64>,
    /// Windows of time by which the limit was judged.
    pub judged: u64,
    /// Those by which it was not: this thread was late itself, or the delay was measured.
    pub unjudged: u64,
    /// Polls that were late: a thread that did not run.
    pub late_polls: u64,
    /// Time lost by them, in microseconds.
    pub late_time_us: u64,
    /// Bytes reported complete that were not in flight.
    pub excess: u64,
    /// Times that a source contradicted itself, and another was taken.
    pub source_switches: u32,
    /// How it did the last time.
    pub contradiction: Option<String>,
    /// Frames let through beyond the limit because nothing was reported.
    pub extra: u64,
    /// Frames that were given a first segment of their own, to be watched.
    pub reheaded: u64,
    /// Bursts that could not be watched for want of a buffer.
    pub unheld: u64,
    /// Percentiles since the start.
    pub flight: FlightReport,
}

/// What was in flight, over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlightReport {
    /// The limit in bytes, turn by turn.
    pub limit: QuantilesReport,
    /// Bytes in flight, turn by turn.
    pub in_flight: QuantilesReport,
    /// From submission to completion in microseconds, by descriptor.
    pub residence_us: QuantilesReport,
    /// Descriptors that one look found complete.
    pub batch: QuantilesReport,
    /// How much later a completion was seen than the wire allows, in microseconds.
    pub lateness_us: QuantilesReport,
}

/// What half, nine in ten, ... of the values were at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuantilesReport {
    /// Values.
    pub count: u64,
    /// Half of them.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// All of them.
    pub max: u64,
}

impl Display for TxQueueReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, " tx queue {}: ", self.queue)?;
        self.write_limit(f)?;
        writeln!(f, "  completions by {}, nudge {} ({}: {})", self.source, self.nudge, self.basis, self.why)?;
        if let Some(why) = &self.contradiction {
            writeln!(f, "  source given up {} times, last because {why}", self.source_switches)?;
        }
        self.write_flight(f)?;
        if self.binds {
            writeln!(
                f,
                "  late polls {} ({}), windows judged {} not judged {}",
                self.late_polls,
                Micros(self.late_time_us),
                self.judged,
                self.unjudged
            )?;
        }
        if self.extra + self.excess + self.reheaded + self.unheld > 0 {
            writeln!(
                f,
                "  let through beyond the limit {}, excess {}b, reheaded {}, unheld {}",
                self.extra, self.excess, self.reheaded, self.unheld
            )?;
        }
        Ok(())
    }
}

impl TxQueueReport {
    fn write_limit(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { limit, limit_min, in_flight, descriptors, .. } = self;
        if self.binds {
            let most = self.limit_max.map_or("unlimited".to_owned(), |most| format!("{most}b"));
            write!(
                f,
                "limit {limit}b (min {limit_min}b max {most}), {in_flight}b in {descriptors} descriptors"
            )?;
        } else if self.complete_on == "submit" {
            write!(f, "complete-on submit, {in_flight}b in {descriptors} descriptors below the scheduler")?;
        } else {
            write!(f, "no limit, as nothing tells what is in flight")?;
        }
        if let Some(rate) = self.drain_rate {
            write!(f, ", drains {}", Bits(rate))?;
        }
        if let Some(delay) = self.delay_us {
            write!(f, ", delay {}", Micros(delay))?;
        }
        writeln!(f)
    }

    fn write_flight(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = |value| format!("{value}b");
        let time = |value| Micros(value).to_string();
        let FlightReport { limit, in_flight, residence_us, batch, lateness_us } = &self.flight;
        if self.binds {
            limit.write(f, "limit", bytes)?;
        }
        in_flight.write(f, "in flight", bytes)?;
        residence_us.write(f, "residence", time)?;
        batch.write(f, "batch", |value| value.to_string())?;
        lateness_us.write(f, "lateness", time)
    }
}

impl QuantilesReport {
    /// A line, if there is anything to tell.
    fn write(&self, f: &mut Formatter<'_>, name: &str, value: impl Fn(u64) -> String) -> fmt::Result {
        if self.count == 0 {
            return Ok(());
        }
        let [p50, p90, p99, p999, max] = [self.p50, self.p90, self.p99, self.p999, self.max].map(value);
        writeln!(f, "  {name:<9} p50 {p50} p90 {p90} p99 {p99} p99.9 {p999} max {max}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{LinkReport, PortReport, Report, snapshot};

    fn quantiles(unit: u64) -> QuantilesReport {
        QuantilesReport { count: 100, p50: unit, p90: 2 * unit, p99: 3 * unit, p999: 4 * unit, max: 5 * unit }
    }

    fn limited() -> TxQueueReport {
        TxQueueReport {
            complete_on: "completion".into(),
            source: "held-reference".into(),
            nudge: "refused-packet".into(),
            basis: "measured".into(),
            why: "an empty burst does nothing".into(),
            binds: true,
            limit_min: 0,
            limit: 3_084,
            limit_max: None,
            in_flight: 3_028,
            descriptors: 2,
            drain_rate: Some(98_400_000),
            delay_us: Some(128),
            judged: 10_000,
            unjudged: 40,
            late_polls: 12,
            late_time_us: 31_000,
            flight: FlightReport {
                limit: quantiles(3_000),
                in_flight: quantiles(1_514),
                residence_us: quantiles(250),
                batch: quantiles(1),
                lateness_us: quantiles(7),
            },
            ..TxQueueReport::default()
        }
    }

    fn report(queue: TxQueueReport) -> Report {
        let b = PortReport {
            device: "net_virtio_user0".into(),
            driver: "net_virtio_user".into(),
            mtu: 1_500,
            link_up: true,
            tx_queues: vec![queue],
            ..PortReport::default()
        };
        let link = LinkReport { name: "home".into(), b, ..LinkReport::default() };
        Report { links: vec![link], ..Report::default() }
    }

    #[test]
    fn each_verdict_is_shown_and_reads_back() {
        let switched = TxQueueReport {
            source: "rate-clock of 98400000 bit/s".into(),
            nudge: "none".into(),
            limit_max: Some(65_536),
            source_switches: 1,
            contradiction: Some(
                "it reported nothing for a second while frames waited, and more were sent".into(),
            ),
            extra: 64,
            ..limited()
        };
        let submit = TxQueueReport { complete_on: "submit".into(), binds: false, ..limited() };
        let copied = TxQueueReport {
            complete_on: "completion".into(),
            source: "submit".into(),
            nudge: "none".into(),
            basis: "measured".into(),
            why: "frames are copied and freed within the burst".into(),
            ..TxQueueReport::default()
        };
        let mut text = String::new();
        for queue in [limited(), switched, submit, copied] {
            text += &format!("{queue}\n");
            let json = serde_json::to_value(report(queue.clone())).unwrap();
            assert_eq!(json["links"][0]["b"]["tx_queues"][0]["binds"], queue.binds);
            let back: Report = serde_json::from_value(json).unwrap();
            assert_eq!(back.to_string(), report(queue).to_string());
        }
        snapshot("tx_queues.txt", &text);
    }
}
