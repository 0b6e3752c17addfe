//! Reports and delays made up: every part of them has something to tell.

use crate::report::{
    Count, DirectionReport, LimiterReport, LinkReport, PortReport, Report, SizeClass, SupersReport,
    TinReport, TxQueueReport, WorkerReport,
};
use crate::telemetry::delays::{Delay, Kind};
use serde_json::json;

/// cake's tins in `diffserv8`.
const TINS: [&str; 8] = ["Tin 0", "Tin 1", "Tin 2", "Tin 3", "Tin 4", "Tin 5", "Tin 6", "Tin 7"];
/// A link's name with all that must be escaped.
pub const ODD: &str = "a \"new\" \\ line";

fn count(packets: u64) -> Count {
    Count { packets, bytes: packets * 1_000 }
}

fn port(device: &str) -> PortReport {
    let queue = TxQueueReport {
        binds: true,
        limit_min: 3_028,
        limit: 12_500,
        limit_max: Some(1 << 20),
        in_flight: 4_542,
        descriptors: 3,
        drain_rate: Some(1_000_000_000),
        delay_us: Some(12),
        source_switches: 2,
        late_time_us: 1_500_000,
        ..TxQueueReport::default()
    };
    PortReport {
        device: device.to_owned(),
        driver: "net_ring".to_owned(),
        mtu: 1_500,
        link_up: true,
        speed_mbps: Some(10_000),
        imissed: 17,
        rx_nombuf: 18,
        pool_size: 16_384,
        pool_in_use: 512,
        tx_queues: vec![queue],
        ..PortReport::default()
    }
}

fn direction(name: &str, tins: &[&str]) -> DirectionReport {
    let tin = |(number, name): (usize, &&str)| TinReport {
        name: (*name).to_owned(),
        sent_packets: 1_000 + number as u64,
        ecn_mark: 10 + number as u64,
        target_us: 5_000,
        ..TinReport::default()
    };
    let qdisc: &[_] = if tins.is_empty() {
        &[("ecn_mark", 77), ("ce_mark", 5), ("memory_used", 1_000)]
    } else {
        &[("overlimits", 3), ("memory_used", 123_456), ("memory_limit", 4_000_000)]
    };
    DirectionReport {
        direction: name.to_owned(),
        bandwidth: Some(100_000_000),
        received: count(5_000),
        sent: count(4_900),
        dropped: count(60),
        losses: [("codel".to_owned(), count(40)), ("overlimit".to_owned(), count(20))].into(),
        backlog: count(40),
        qdisc: qdisc.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        tins: tins.iter().enumerate().map(tin).collect(),
        limiter: Some(LimiterReport { lost_us: 2_500_000, losses: 3, late_max_us: 20_000 }),
        supers: SupersReport {
            pieces: vec![SizeClass { segments: "2-3".to_owned(), pieces: 9 }],
            ..SupersReport::default()
        },
        ..DirectionReport::default()
    }
}

/// So many links, each with cake's eight tins one way and fq_codel the other, and as many workers.
pub fn report(links: u32, both_cake: bool) -> Report {
    let link = |number| LinkReport {
        name: if number == 0 { ODD.to_owned() } else { format!("link{number}") },
        a: port("net_ring0"),
        b: port("net_ring1"),
        directions: vec![direction("up", &TINS), direction("down", if both_cake { &TINS } else { &[] })],
    };
    let gaps = json!({ "over_50us": 7, "over_1ms": 2, "max_us": 2_500, "total_us": 9_000 });
    let worker = |lcore| -> WorkerReport {
        let worker = json!({
            "lcore": lcore, "generation": 4, "clock": "tsc", "turns": 1_u64 << 60, "idle_turns": 5, "sleeps": 6,
            "poll_gaps": gaps, "time_us": 8_000_000, "busy_us": 500_000, "packets": 77, "clock_backward": 0, "clock_jumps": 0,
        });
        serde_json::from_value(worker).unwrap()
    };
    Report {
        version: "0.1.0".to_owned(),
        dpdk: "DPDK 22.11.11".to_owned(),
        uptime_s: 12.25,
        links: (0..links).map(link).collect(),
        workers: (1..=links).map(worker).collect(),
        ..Report::default()
    }
}

/// HDR counts with so many buckets: one packet in each, their bounds 1 % apart from 1 us on.
pub fn hdr(buckets: u32) -> Vec<(u64, u64)> {
    (0..buckets).map(|step| ((1_000.0 * 1.01_f64.powf(step.into())) as u64, 1)).collect()
}

/// Every delay of a report: by tin, and of all tins together.
pub fn delays(report: &Report, buckets: &[(u64, u64)]) -> Vec<Delay> {
    let mut delays = Vec::new();
    for (link, d) in report.links.iter().flat_map(|link| link.directions.iter().map(move |d| (link, d))) {
        for kind in Kind::ALL {
            for tin in d.tins.iter().map(|tin| Some(tin.name.clone())).chain([None]) {
                let (link, direction) = (link.name.clone(), d.direction.clone());
                delays.push(Delay { link, direction, tin, ..Delay::of(kind, buckets.to_vec()) });
            }
        }
    }
    delays
}
