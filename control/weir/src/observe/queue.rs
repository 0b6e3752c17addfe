//! What is reported of a transmit queue.

use crate::report::{FlightReport, QuantilesReport, TxQueueReport};
use config::model;
use engine::completion::drivers::Choice;
use engine::flight::{Kind, Quantiles, Total};
use engine::gate::GatePage;

/// The report about the queue that `port` sends by, without percentiles.
pub fn observe(port: &model::Port, choice: &Choice, gate: &GatePage) -> TxQueueReport {
    let bounds = port.governor.unwrap_or_default();
    TxQueueReport {
        queue: 0,
        complete_on: if port.governor.is_some() { "completion" } else { "submit" }.to_owned(),
        source: gate.source.to_string(),
        nudge: gate.nudge.to_string(),
        basis: choice.basis.name().to_owned(),
        why: choice.why.to_owned(),
        binds: gate.binds,
        limit_min: bounds.limit_min,
        limit: gate.limit,
        limit_max: bounds.limit_max,
        in_flight: gate.in_flight.bytes,
        descriptors: gate.in_flight.descriptors,
        drain_rate: Some(gate.rate.saturating_mul(8)).filter(|rate| *rate > 0),
        delay_us: gate.delay.map(|delay| delay.as_micros()),
        judged: gate.governor.judged,
        unjudged: gate.governor.unjudged,
        late_polls: gate.governor.late_polls,
        late_time_us: gate.governor.late_time.as_micros(),
        excess: gate.governor.excess,
        source_switches: gate.watch.given_up,
        contradiction: gate.watch.last.map(|why| why.to_string()),
        extra: gate.watch.extra,
        reheaded: gate.gate.reheaded,
        unheld: gate.gate.unheld,
        flight: FlightReport::default(),
    }
}

/// The percentiles of what was in flight.
pub fn flight(flight: &Total) -> FlightReport {
    let count = |kind| quantiles(flight.of(kind), 1);
    let micros = |kind| quantiles(flight.of(kind), 1_000);
    FlightReport {
        limit: count(Kind::Limit),
        in_flight: count(Kind::InFlight),
        residence_us: micros(Kind::Residence),
        batch: count(Kind::Batch),
        lateness_us: micros(Kind::Lateness),
    }
}

/// The values in a unit of `unit`.
fn quantiles(of: Quantiles, unit: u64) -> QuantilesReport {
    let [p50, p90, p99, p999, max] = [of.p50, of.p90, of.p99, of.p999, of.max].map(|value| value / unit);
    QuantilesReport { count: of.count, p50, p90, p99, p999, max }
}

#[cfg(test)]
mod tests {
    use engine::completion::drivers::choose;

    /// The table of drivers in the documentation is what is done.
    #[test]
    fn the_documented_sources_are_those_in_use() {
        let readme = include_str!("../../../../README.md");
        let (_, table) =
            readme.split_once("| driver | completions by | made to look by | known from |\n").unwrap();
        let mut drivers = 0;
        for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            for driver in cells[1].split('`').skip(1).step_by(2) {
                let choice = choose(driver);
                let told =
                    [choice.source.to_string(), choice.nudge.to_string(), choice.basis.name().to_owned()];
                assert_eq!(told[..], cells[2..5], "{driver}");
                drivers += 1;
            }
        }
        assert!(drivers > 20, "{drivers}");
    }
}
