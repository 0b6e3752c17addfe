//! What is reported of cake.

use crate::report::TinReport;
use config::model;
use shaper::qdisc::{Params, Stats, cake};

/// The options in force but the bandwidth, in `tc`'s order and words.
pub fn options(settings: &model::Direction) -> String {
    let line = settings.to_tc();
    let mut words = line.split_whitespace().skip(1);
    if words.next() == Some("bandwidth") {
        words.next();
    }
    words.collect::<Vec<_>>().join(" ") + &settings.super_packet_words()
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

/// The tins in the order of `tc`, without percentiles; none if this is not cake.
pub fn tins(params: &Params, stats: Option<&Stats>, delivered: &[u64]) -> Vec<TinReport> {
    let Some(Stats::Cake(stats)) = stats else { return Vec::new() };
    let report = |(name, number): (&str, usize)| {
        let stats = stats.tins().get(number)?;
        let delivered = delivered.get(number).copied().unwrap_or(0);
        Some(TinReport::new(name, stats, delivered))
    };
    names(params).filter_map(report).collect()
}

/// Name and number of each tin in the order of `tc`; none if this is not cake.
pub fn names(params: &Params) -> impl Iterator<Item = (&'static str, usize)> + use<> {
    let (names, order): (&[&'static str], &[u8]) = match params {
        Params::Cake(cake) => (cake.diffserv.tin_names(), cake.diffserv.tin_order()),
        Params::Fifo(_) | Params::FqCodel(_) => (&[], &[]),
    };
    names.iter().copied().zip(order.iter().map(|number| usize::from(*number)))
}

/// A size of which there was none yet is 0.
fn smallest(size: u32) -> u64 {
    if size == u32::MAX { 0 } else { size.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{DirectionReport, LinkReport, Report, snapshot};
    use engine::delays::{Recorder, Totals, tins as tins_of};
    use shaper::qdisc::cake::{Diffserv, TinStats};
    use shaper::time::Duration;

    /// A tin in which each number is another.
    fn tin(number: u64) -> TinStats {
        let micros = |base: u64| Duration::from_micros(base * (number + 1));
        TinStats {
            threshold_rate: 1_250_000 >> number,
            sent_bytes: 3_081_804 + number,
            sent_packets: 2_590 + number,
            backlog_bytes: 30_280,
            target: micros(5_000),
            interval: micros(100_000),
            peak_delay: micros(8_712),
            avg_delay: micros(4_903),
            base_delay: micros(727),
            way_indirect_hits: 46,
            way_misses: 17,
            way_collisions: number,
            drops: 20 + number,
            ecn_mark: 30 + number,
            ack_drops: 40 + number,
            sparse_flows: 2,
            bulk_flows: 1,
            decaying_flows: 3,
            unresponsive_flows: number as u16,
            max_pkt_len: 1_514,
            flow_quantum: 305,
            ..TinStats::default()
        }
    }

    fn stats(diffserv: Diffserv) -> Stats {
        let tin_count = diffserv.tin_order().len();
        Stats::Cake(cake::Stats {
            overlimits: 93_782,
            memory_used: 1_000,
            memory_max: 292_352,
            memory_limit: 5_000_000,
            capacity_estimate: 12_500_000,
            min_network_size: 28,
            max_network_size: 1_500,
            min_adj_size: 84,
            max_adj_size: 1_538,
            avg_hdr_offset: 14,
            tin_count,
            all_tins: std::array::from_fn(|number| {
                if number < tin_count { tin(number as u64) } else { TinStats::default() }
            }),
            ..cake::Stats::default()
        })
    }

    fn report(tc: &str) -> Report {
        let link = "[[link]]\nname = \"home\"\na = \"net_null0\"\nb = \"net_null1\"\n";
        let config = config::parse("test.toml", &format!("{link}up = {{ tc = {tc:?} }}\n")).unwrap().config;
        let settings = config.links[0].up.clone().unwrap();
        let Params::Cake(params) = settings.qdisc else { panic!("not cake") };
        let stats = stats(params.diffserv);
        let (mut waited, mut total) = (Recorder::new(tins_of(&settings.qdisc)), Totals::default());
        for packet in 0..1_000 {
            waited.record(0, Duration::from_micros(10 * packet));
            waited.record(2, Duration::from_micros(packet));
        }
        total.take(&mut waited);
        let counters = super::super::qdisc_counters(&stats);
        let mut tins = tins(&settings.qdisc, Some(&stats), &[0; 8]);
        for (tin, (_, number)) in tins.iter_mut().zip(names(&settings.qdisc)) {
            tin.sojourn = total.of_tin(number).into();
        }
        let direction = DirectionReport {
            direction: "up".into(),
            from: "net_null0".into(),
            to: "net_null1".into(),
            kind: "cake".into(),
            options: options(&settings),
            bandwidth: settings.bandwidth.map(|rate| rate.bits_per_sec()),
            qdisc: counters,
            tins,
            sojourn: total.of_all().into(),
            residence: total.of_tin(2).into(),
            total: total.of_tin(0).into(),
            ..DirectionReport::default()
        };
        let link = LinkReport { name: "home".into(), directions: vec![direction], ..LinkReport::default() };
        Report { links: vec![link], ..Report::default() }
    }

    #[test]
    fn it_is_shown_as_tc_shows_it() {
        let three = report("cake bandwidth 10Mbit ethernet ingress memlimit 4mb");
        snapshot("cake_diffserv3.txt", &three.to_string());
        snapshot("cake_unlimited.txt", &report("cake besteffort flowblind raw memlimit 4mb").to_string());
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
        assert_eq!((&up["tins"][0]["sent_packets"], &up["tins"][0]["name"]), (&2_591.into(), &"Bulk".into()));
        assert_eq!(up["tins"][2]["sojourn"]["packets"], 1_000);
        for name in ["memory_used", "memory_limit", "capacity_estimate", "min_network_size", "avg_hdr_offset"]
        {
            assert!(up["qdisc"][name].is_u64(), "{name}");
        }
        let back: Report = serde_json::from_value(json).unwrap();
        assert_eq!(back.to_string(), three.to_string());
    }
}
