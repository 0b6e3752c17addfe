//! `GET /metrics`: the report and the delays in Prometheus' text format 0.0.4.
//!
//! Contract: pure, one pass, no state. Labels name what stands in the configuration (`link`, `direction`,
//! `port`, `tin`, `lcore`) and never the instance, which is Prometheus' own label. Every reason for a loss
//! is there from the start with 0, so that `rate()` sees the first one. Delays are told by tin; of a
//! discipline without tins as tin `all`, so that summing over tins is always right.
//!
//! A histogram's buckets come from HDR counts: a value is counted below a bound if all of its HDR bucket
//! lies there, which is exact to the HDR bucket's width, 1 % at most.

mod exposition;
mod families;

use crate::report::{Count, DirectionReport, LinkReport, Report};
use crate::telemetry::delays::{ALL_TINS, Delay, Kind, Until};
use engine::counters::Loss;
use exposition::{Buckets, Exposition, Labels};
use families as family;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The whole text. `delays` are those since the start of the instance.
pub fn text(report: &Report, delays: &[Delay]) -> String {
    let mut out = Exposition::default();
    out.table(family::BUILD, &[(Labels::of(&[("version", &report.version), ("dpdk", &report.dpdk)]), ())]);
    out.table(family::INSTANCE, &[(Labels::default(), report)]);
    directions(&mut out, &report.links);
    for (kind, name, help) in family::DELAYS {
        out.histograms(name, help, &histograms(kind, delays));
    }
    ports(&mut out, &report.links);
    let workers = report.workers.iter();
    let workers: Vec<_> = workers.map(|w| (Labels::of(&[("lcore", &w.lcore.to_string())]), w)).collect();
    out.table(family::WORKER, &workers);
    out.into_text()
}

fn directions(out: &mut Exposition, links: &[LinkReport]) {
    let (mut all, mut limiters, mut tins) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lost, mut marks, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    for (link, d) in links.iter().flat_map(|link| link.directions.iter().map(move |d| (link, d))) {
        let labels = Labels::of(&[("link", &link.name), ("direction", &d.direction)]);
        limiters.extend(d.limiter.iter().map(|limiter| (labels.clone(), limiter)));
        tins.extend(d.tins.iter().map(|tin| (labels.and("tin", &tin.name), tin)));
        lost.extend(losses(d).map(|(reason, count)| (labels.and("reason", reason), count)));
        marks.extend(ecn_marks(d).map(|(tin, count)| (labels.and("tin", tin), count)));
        pieces.extend(d.supers.pieces.iter().map(|class| (labels.and("segments", &class.segments), class)));
        all.push((labels, d));
    }
    out.table(family::DIRECTION, &all);
    out.table(family::LIMITER, &limiters);
    out.table(family::LOSS, &lost);
    out.table(family::MARKS, &marks);
    out.table(family::PIECES, &pieces);
    out.table(family::TIN, &tins);
}

/// Every reason there is, and what the report does not name has not happened.
fn losses(d: &DirectionReport) -> impl Iterator<Item = (&'static str, Count)> {
    let names = Loss::ALL.into_iter().map(|loss| loss.name());
    names.map(|name| (name, d.losses.get(name).copied().unwrap_or_default()))
}

/// By tin; a FIFO marks nothing and has none.
fn ecn_marks(d: &DirectionReport) -> impl Iterator<Item = (&str, u64)> {
    let own = d.qdisc.get("ecn_mark").map(|marks| (ALL_TINS, *marks));
    d.tins.iter().map(|tin| (tin.name.as_str(), tin.ecn_mark)).chain(own)
}

fn ports(out: &mut Exposition, links: &[LinkReport]) {
    let (mut info, mut all, mut queues) = (Vec::new(), Vec::new(), Vec::new());
    for link in links {
        // What goes down is sent by a, what goes up by b.
        for (side, port, sends) in [("a", &link.a, "down"), ("b", &link.b, "up")] {
            let labels = Labels::of(&[("link", &link.name), ("port", side)]);
            info.push((labels.and("device", &port.device).and("driver", &port.driver), ()));
            for queue in &port.tx_queues {
                let labels = labels.and("direction", sends).and("queue", &queue.queue.to_string());
                queues.push((labels, queue));
            }
            all.push((labels, port));
        }
    }
    out.table(family::PORT_INFO, &info);
    out.table(family::PORT, &all);
    out.table(family::QUEUE, &queues);
}

/// The histograms of one kind, by tin.
fn histograms(kind: Kind, delays: &[Delay]) -> Vec<(Labels, Buckets)> {
    // Where nothing is seen to be completed, nothing is known of the residence: no sample, rather than none in it.
    let is_known =
        |delay: &&Delay| delay.kind != Kind::Residence || delay.until == Until::Completion || delay.count > 0;
    let of_kind = || delays.iter().filter(|delay| delay.kind == kind).filter(is_known);
    let has_tins = |of: &Delay| {
        of_kind()
            .any(|delay| delay.tin.is_some() && (&delay.link, &delay.direction) == (&of.link, &of.direction))
    };
    let by_tin = of_kind().filter(|delay| delay.tin.is_some() || !has_tins(delay));
    let labelled = |delay: &Delay| {
        let tin = delay.tin.as_deref().unwrap_or(ALL_TINS);
        let labels = [("link", delay.link.as_str()), ("direction", &delay.direction), ("tin", tin)];
        (Labels::of(&labels), buckets(delay))
    };
    by_tin.map(labelled).collect()
}

fn buckets(delay: &Delay) -> Buckets {
    let mut counts = delay.buckets.iter().peekable();
    let mut count = 0;
    let below = family::BOUNDS.map(|(bound, written)| {
        while let Some((_, more)) = counts.next_if(|(largest, _)| *largest <= bound) {
            count += more;
        }
        (written, count)
    });
    let count = count + counts.map(|(_, more)| more).sum::<u64>();
    Buckets { below: below.to_vec(), count, sum: delay.mean / 1e9 * count as f64 }
}

#[cfg(test)]
mod tests;
