//! From a running line to the report about it.

mod cake;
pub mod flows;
mod queue;

use crate::report::{
    Count, DirectionReport, LimiterReport, LinkReport, PollGaps, PortReport, Report, WorkerReport,
};
use crate::telemetry::delays::Times;
use config::model::{self, Config};
use config::units;
use dpdk::Eal;
use engine::completion::source::Source;
use engine::delays::{ByKind, Totals};
use engine::flight;
use engine::gate::GatePage;
use engine::line::{self, Line, LineLink, LinePort, LineWorker};
use engine::page::DirectionPage;
use engine::plan::Way;
use shaper::qdisc::{Params, Stats, fifo, fq_codel};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is known of an instance from the start.
#[derive(Debug)]
pub struct Instance {
    /// Its name.
    pub name: String,
    file: PathBuf,
    config: Config,
    started: Instant,
}

impl Instance {
    /// An instance whose packets begin to flow now.
    pub fn new(name: String, file: &Path, config: Config) -> Self {
        Self { name, file: file.to_owned(), config, started: now() }
    }

    /// It runs by another configuration from now on.
    pub fn follow(&mut self, config: Config) {
        self.config = config;
    }
}

/// A direction at work, and where its statistics are.
#[derive(Debug)]
pub struct Place<'a> {
    /// Name of its link.
    pub link: &'a str,
    /// `up` or `down`.
    pub direction: &'static str,
    settings: &'a model::Direction,
    worker: &'a LineWorker,
    at: line::Place,
}

impl Place<'_> {
    /// How long packets took since the start.
    pub fn delays(&self) -> Option<&ByKind<Totals>> {
        self.worker.delays.get(self.at.direction)
    }

    /// How completions are seen, where something looks for them.
    pub fn source(&self) -> Option<Source> {
        Some(self.worker.page.directions.get(self.at.direction)?.gate.as_ref()?.source)
    }

    /// Name and number of each of cake's tins, in `tc`'s order; none if this is not cake.
    pub fn tins(&self) -> impl Iterator<Item = (&'static str, usize)> + use<> {
        cake::names(&self.settings.qdisc)
    }

    /// What was in flight in its transmit ring since the start.
    pub fn flight(&self) -> Option<&flight::Total> {
        self.worker.flight.get(self.at.direction)
    }
}

impl Instance {
    /// The directions in the order of the file.
    pub fn places<'a>(&'a self, line: &'a Line) -> Vec<Place<'a>> {
        let mut places = Vec::new();
        for (config, link) in self.config.links.iter().zip(line.links()) {
            for (way, at) in &link.ways {
                let (direction, settings) = match way {
                    Way::Up => ("up", config.up.as_ref()),
                    Way::Down => ("down", config.down.as_ref()),
                };
                if let (Some(settings), Some(worker)) = (settings, line.workers().get(at.worker)) {
                    places.push(Place { link: &config.name, direction, settings, worker, at: *at });
                }
            }
        }
        places
    }
}

/// Reports what the line knows, without percentiles; the workers' part is as old as their last pages.
pub fn counts(instance: &Instance, line: &Line) -> Report {
    let links = instance.config.links.iter().zip(line.links());
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        dpdk: Eal::version(),
        name: instance.name.clone(),
        config: instance.file.display().to_string(),
        pid: std::process::id(),
        uptime_s: instance.started.elapsed().as_secs_f64(),
        links: links.map(|(config, link)| observe_link(config, link, line)).collect(),
        workers: line.workers().iter().map(observe_worker).collect(),
    }
}

/// The same with the percentiles of `times`, which were taken with it.
pub fn with_percentiles(mut report: Report, times: &[Times]) -> Report {
    for of in times {
        let Some(link) = report.links.iter_mut().find(|link| link.name == of.link) else { continue };
        let (up, down) = (Way::Up.name(), Way::Down.name());
        // What goes up is sent by b.
        for (way, port) in [(up, &mut link.b), (down, &mut link.a)] {
            if let Some(queue) = port.tx_queues.first_mut().filter(|_| way == of.direction) {
                queue.flight = queue::flight(&of.flight);
            }
        }
        let Some(direction) = link.directions.iter_mut().find(|way| way.direction == of.direction) else {
            continue;
        };
        let ByKind { sojourn, residence, total } = &of.delays;
        direction.sojourn = sojourn.of_all().into();
        direction.residence = residence.of_all().into();
        direction.total = total.of_all().into();
        for tin in &mut direction.tins {
            let number = of.tins.iter().find(|(name, _)| *name == tin.name).map(|(_, number)| *number);
            tin.sojourn = number.map(|number| sojourn.of_tin(number).into()).unwrap_or_default();
        }
    }
    report
}

fn observe_link(config: &model::Link, link: &LineLink, line: &Line) -> LinkReport {
    let directions = link.ways.iter().filter_map(|(way, place)| {
        let worker = line.workers().get(place.worker)?;
        let page = worker.page.directions.get(place.direction)?;
        let (name, from, to, settings) = match way {
            Way::Up => ("up", &link.a, &link.b, config.up.as_ref()),
            Way::Down => ("down", &link.b, &link.a, config.down.as_ref()),
        };
        Some(observe_direction(name, from.port.name(), to.port.name(), settings?, page))
    });
    let sends = |way| {
        let (_, place) = link.ways.iter().find(|(of, _)| *of == way)?;
        let worker = line.workers().get(place.worker)?;
        let page = worker.page.directions.get(place.direction)?;
        page.gate.as_ref()
    };
    LinkReport {
        name: config.name.clone(),
        directions: directions.collect(),
        a: observe_port(&config.a, &link.a, sends(Way::Down)),
        b: observe_port(&config.b, &link.b, sends(Way::Up)),
    }
}

fn observe_direction(
    name: &str,
    from: &str,
    to: &str,
    settings: &model::Direction,
    page: &DirectionPage,
) -> DirectionReport {
    let counters = &page.counters;
    let losses = counters.losses.iter().filter(|(_, tally)| tally.packets > 0);
    DirectionReport {
        direction: name.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        kind: kind(&settings.qdisc).to_owned(),
        options: options(settings),
        bandwidth: settings.bandwidth.map(|rate| rate.bits_per_sec()),
        received: counters.received.into(),
        added: counters.added.into(),
        removed: counters.removed.into(),
        sent: counters.sent.into(),
        dropped: counters.losses.total().into(),
        losses: losses.map(|(loss, tally)| (loss.name().to_owned(), Count::from(tally))).collect(),
        backlog: page.waiting.into(),
        control: page.control.sent.into(),
        control_spilled: page.control.spilled.into(),
        rewritten: counters.rewritten,
        rewrite_failed: counters.rewrite_failed,
        requeues: counters.short_bursts,
        supers: (&counters.supers).into(),
        qdisc: page.qdisc.as_ref().map(qdisc_counters).unwrap_or_default(),
        tins: cake::tins(&settings.qdisc, page.qdisc.as_ref(), &page.tins),
        limiter: page.limiter.map(|limiter| LimiterReport {
            lost_us: limiter.lost.as_micros(),
            losses: limiter.losses,
            late_max_us: limiter.late_max.as_micros(),
        }),
        ..DirectionReport::default()
    }
}

/// `sends`: what is known of its transmit queue, if a direction sends by this port.
fn observe_port(config: &model::Port, line: &LinePort, sends: Option<&GatePage>) -> PortReport {
    let link = line.port.link().ok();
    let stats = line.port.stats().unwrap_or_default();
    PortReport {
        device: line.port.name().to_owned(),
        driver: line.info.driver.clone(),
        mtu: config.mtu,
        link_up: line.is_up(),
        speed_mbps: link.and_then(|link| link.speed_mbps),
        full_duplex: link.map(|link| link.full_duplex),
        autoneg: link.map(|link| link.autoneg),
        firmware: line.info.firmware.clone(),
        ipackets: stats.ipackets,
        opackets: stats.opackets,
        imissed: stats.imissed,
        rx_nombuf: stats.rx_nombuf,
        ierrors: stats.ierrors,
        oerrors: stats.oerrors,
        pool_size: line.pool.size(),
        pool_in_use: line.pool.in_use(),
        tx_queues: sends.map(|gate| queue::observe(config, &line.completions, gate)).into_iter().collect(),
        offload: (&line.verdict).into(),
    }
}

fn observe_worker(worker: &LineWorker) -> WorkerReport {
    let page = &worker.page;
    WorkerReport {
        lcore: worker.lcore,
        generation: worker.generation(),
        clock: worker.clock.to_owned(),
        turns: page.turns.total,
        idle_turns: page.turns.idle,
        sleeps: page.turns.sleeps,
        poll_gaps: PollGaps {
            over_50us: page.gaps.over_50us,
            over_1ms: page.gaps.over_1ms,
            max_us: page.gaps.max.as_micros(),
            total_us: page.gaps.total.as_micros(),
        },
        time_us: page.turns.time.as_micros(),
        busy_us: page.turns.busy.as_micros(),
        packets: page.directions.iter().map(|direction| direction.counters.received.packets).sum(),
        tsc_hz: worker.tsc_hz,
        clock_backward: page.clock.backward,
        clock_jumps: page.clock.jumps,
    }
}

fn kind(params: &Params) -> &'static str {
    match params {
        Params::Fifo(_) => "fifo",
        Params::FqCodel(_) => "fq_codel",
        Params::Cake(_) => "cake",
    }
}

/// The options in force, in `tc`'s order and words.
fn options(settings: &model::Direction) -> String {
    let fq_codel = match &settings.qdisc {
        Params::Cake(_) => return cake::options(settings),
        Params::Fifo(fifo) => return format!("limit {}p{}", fifo.limit, settings.super_packet_words()),
        Params::FqCodel(fq_codel) => fq_codel,
    };
    let codel = &fq_codel.codel;
    let mut text = format!(
        "limit {}p flows {} quantum {} target {}",
        fq_codel.limit,
        fq_codel.flows,
        fq_codel.quantum,
        units::time(codel.target)
    );
    if let Some(threshold) = codel.ce_threshold {
        let _ = write!(text, " ce_threshold {}", units::time(threshold));
        if codel.ce_mask != 0 {
            let _ = write!(text, " ce_threshold_selector {:#x}/{:#x}", codel.ce_selector, codel.ce_mask);
        }
    }
    let _ = write!(
        text,
        " interval {} memory_limit {}{} drop_batch {}{}",
        units::time(codel.interval),
        units::size(fq_codel.memory_limit.into()),
        if codel.ecn { " ecn" } else { " noecn" },
        fq_codel.drop_batch,
        settings.super_packet_words()
    );
    text
}

fn qdisc_counters(stats: &Stats) -> BTreeMap<String, u64> {
    let counters: &[(&str, u64)] = match stats {
        Stats::Fifo(fifo::Stats { drop_overlimit, .. }) => &[("drop_overlimit", *drop_overlimit)],
        Stats::FqCodel(stats) => &fq_codel_counters(stats),
        Stats::Cake(stats) => &cake::counters(stats),
    };
    counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

fn fq_codel_counters(stats: &fq_codel::Stats) -> [(&'static str, u64); 9] {
    [
        ("maxpacket", stats.maxpacket.into()),
        ("drop_overlimit", stats.drop_overlimit),
        ("drop_overmemory", stats.drop_overmemory),
        ("new_flow_count", stats.new_flow_count),
        ("ecn_mark", stats.ecn_mark),
        ("ce_mark", stats.ce_mark),
        ("new_flows_len", stats.new_flows_len.into()),
        ("old_flows_len", stats.old_flows_len.into()),
        ("memory_used", stats.memory_usage),
    ]
}

#[allow(clippy::disallowed_methods)] // uptime is told to people, no algorithm sees it
fn now() -> Instant {
    Instant::now()
}
