//! What is reported of cake.

use crate::report::TinReport;
use config::model;
use engine::sojourn::Total;
use shaper::qdisc::{Params, Stats, cake};

/// The options in force but the bandwidth, in `tc`'s order and words.
pub fn options(settings: &model::Direction) -> String {
    let line = settings.to_tc();
    let mut words = line.split_whitespace().skip(1);
    if words.next() == Some("bandwidth") {
        words.next();
    }
    words.collect::<Vec<_>>().join(" ")
}

/// The counters of the whole, named as `tc -s -j` names them.
pub fn counters(stats: &cake::Stats) -> [(&'static str, u64); 10] {
    [
        ("overlimits", stats.overlimits),
        ("drops", stats.drops),
        ("memory_used", stats.memory_max),
        ("memory_limit", stats.memory_limit.into()),
        ("capacity_estimate", stats.capacity_estimate),
        ("min_network_size", smallest(stats.min_network_size)),
        ("max_network_size", stats.max_network_size.into()),
        ("min_adj_size", smallest(stats.min_adj_size)),
        ("max_adj_size", stats.max_adj_size.into()),
        ("avg_hdr_offset", stats.avg_hdr_offset.into()),
    ]
}

/// The tins in the order of `tc`; none if this is not cake.
pub fn tins(params: &Params, stats: Option<&Stats>, sojourn: &Total) -> Vec<TinReport> {
    let (Params::Cake(params), Some(Stats::Cake(stats))) = (params, stats) else { return Vec::new() };
    let named = params.diffserv.tin_names().iter().zip(params.diffserv.tin_order());
    let report = |(name, number): (&&str, &u8)| {
        let number = usize::from(*number);
        let stats = stats.tins().get(number)?;
        Some(TinReport::new(name, stats, sojourn.of_tin(number).into()))
    };
    named.filter_map(report).collect()
}

/// A size of which there was none yet is 0.
fn smallest(size: u32) -> u64 {
    if size == u32::MAX { 0 } else { size.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Count, DirectionReport, LinkReport, Report};
    use engine::sojourn::Sojourn;
    use shaper::packet::{Arrival, DsField, Piece};
    use shaper::qdisc::Qdisc;
    use shaper::rng::SplitMix;
    use shaper::time::{Duration, Instant};

    /// Four seconds of 20 packets of EF and 100 bulk ones every 100 ms at 10 Mbit/s.
    fn report(tc: &str) -> Report {
        let link = "[[link]]\nname = \"home\"\na = \"net_null0\"\nb = \"net_null1\"\n";
        let config = config::parse("test.toml", &format!("{link}up = {{ tc = {tc:?} }}\n")).unwrap().config;
        let settings = config.links[0].up.clone().unwrap();
        let mut qdisc = Qdisc::new(&settings.qdisc, 10_000).unwrap();
        let (mut rng, mut waited) = (SplitMix::new(1, 2), Sojourn::new(&settings.qdisc));
        let mut now = Instant::ZERO;
        for step in 0..40_000_u64 {
            now += Duration::from_micros(100);
            for id in 0..if step % 1_000 == 0 { 120 } else { 0 } {
                let (ds, len) = if id < 20 { (46 << 2, 200) } else { (0, 1_514) };
                let flow_hash = id / 20 * 7_777_777;
                let ds = DsField::ip(ds);
                let arrival = Arrival { flow_hash, ds, network_offset: 14, ..Arrival::default() };
                let piece = core::iter::once(Piece::single(id, len, 2_304));
                qdisc.enqueue(now, &mut rng, &arrival, piece, &mut |_, _| ());
            }
            while let Some(delivery) = qdisc.dequeue(now, &mut rng, &mut |_, _| ()) {
                waited.record(delivery.tin, now.since(delivery.enqueued));
            }
        }
        let (stats, mut total) = (qdisc.stats(), Total::default());
        total.add(&waited);
        let counters = super::super::qdisc_counters(&stats);
        let direction = DirectionReport {
            direction: "up".into(),
            from: "net_null0".into(),
            to: "net_null1".into(),
            kind: "cake".into(),
            options: options(&settings),
            bandwidth: settings.bandwidth.map(|rate| rate.bits_per_sec()),
            received: Count::default(),
            sent: Count::default(),
            dropped: Count::default(),
            losses: Default::default(),
            backlog: Count::default(),
            control: Count::default(),
            control_spilled: Count::default(),
            rewritten: 0,
            rewrite_failed: 0,
            requeues: 0,
            qdisc: counters,
            tins: tins(&settings.qdisc, Some(&stats), &total),
            sojourn: total.of_all().into(),
            limiter: None,
        };
        let (a, b) = Default::default();
        Report {
            version: String::new(),
            dpdk: String::new(),
            name: "test".into(),
            config: "test.toml".into(),
            pid: 1,
            uptime_s: 4.0,
            links: vec![LinkReport { name: "home".into(), a, b, directions: vec![direction] }],
            workers: Vec::new(),
        }
    }

    fn snapshot(name: &str, text: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "UPDATE_SNAPSHOTS=1 accepts the change");
    }

    #[test]
    fn cake_is_shown_as_tc_shows_it() {
        let three = report("cake bandwidth 10Mbit ethernet ingress memlimit 4mb");
        snapshot("cake_diffserv3.txt", &three.to_string());
        snapshot("cake_unlimited.txt", &report("cake besteffort flowblind raw").to_string());
        let json = serde_json::to_value(&three).unwrap();
        let up = &json["links"][0]["directions"][0];
        let names = ["threshold_rate", "sent_bytes", "backlog_bytes", "target_us", "interval_us"];
        let delays = ["peak_delay_us", "avg_delay_us", "base_delay_us", "sent_packets", "way_indirect_hits"];
        let counts = ["way_misses", "way_collisions", "drops", "ecn_mark", "ack_drops", "sparse_flows"];
        let last = ["bulk_flows", "unresponsive_flows", "max_pkt_len", "flow_quantum"];
        for name in [&names[..], &delays, &counts, &last].concat() {
            assert!(up["tins"][2][name].is_u64(), "{name}");
        }
        assert_eq!(up["tins"][2]["name"], "Voice");
        assert_eq!(up["tins"][2]["sent_packets"], 40 * 20);
        assert_eq!(up["tins"][2]["sojourn"]["packets"], 40 * 20);
        for name in ["memory_used", "memory_limit", "capacity_estimate", "min_network_size", "avg_hdr_offset"]
        {
            assert!(up["qdisc"][name].is_u64(), "{name}");
        }
        let back: Report = serde_json::from_value(json).unwrap();
        assert_eq!(back.to_string(), three.to_string());
    }
}
