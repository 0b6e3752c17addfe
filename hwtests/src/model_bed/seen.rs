//! What a run of the model rig brought: values, curves, and what its witnesses say.

use std::collections::BTreeMap;

use crate::iperf::Received;
use crate::irtt::{self, Probe};
use crate::model::Record;
use crate::scenario::{Curve, Measured, Plot, Samples};
use crate::sockets::Socket;
use crate::stats::{median, quantile};
use crate::witness::{AGAIN, Account, BULK, IN_CARD, RATE, SPARSE};

/// What a run of the model rig brought.
#[derive(Debug)]
pub struct Seen {
    /// What the card and weir recorded while the load was measured.
    pub record: Record,
    /// Of each group of streams.
    pub received: Vec<Received>,
    /// Pings, ms: before the load, and with their second under it.
    pub idle: Vec<f64>,
    /// The same under load.
    pub loaded: Vec<(f64, f64)>,
    /// All of both and of the time between, in seconds of the measured time: negative before it.
    pub pings: Vec<(f64, f64)>,
    /// Requests without an answer though a later one had one.
    pub lost: u32,
    /// irtt's answers, idle and under load; none where it is not installed.
    pub probes: Option<[Vec<Probe>; 2]>,
    /// The bulk's connections as the kernel has them: the second of the measured time, and each by its port.
    pub sockets: Vec<(f64, BTreeMap<u16, Socket>)>,
    /// What was run.
    pub commands: Vec<String>,
}

impl Seen {
    /// The values and curves of every scenario of this rig.
    pub fn measured(&self) -> Measured {
        let mut measured = Measured {
            commands: self.commands.clone(),
            accounts: self.accounts(),
            notes: self.notes(),
            ..Measured::default()
        };
        let Record { limit, in_flight, residence_us, away, .. } = &self.record;
        let tcp = self.received.iter().map(|received| received.total / 1e6).sum();
        measured.higher("tcp", tcp, "Mbit/s");
        measured.higher("wire_busy", self.record.wire_share * 100.0, "%");
        measured.lower("wire_idle_while_there", self.record.idle_share * 100.0, "%");
        // From the wire's own log.
        measured.shares(&self.flows());
        let rtt: Vec<_> = self.loaded.iter().map(|(_, rtt)| *rtt).collect();
        measured.pings(&self.idle, &rtt);
        measured.lower("limit_p99", limit[1] as f64, "bytes");
        measured.lower("in_flight_median", in_flight[0] as f64, "bytes");
        measured.lower("in_flight_p99", in_flight[1] as f64, "bytes");
        measured.lower("residence_median", residence_us[0] / 1e3, "ms");
        measured.lower("residence_p99", residence_us[1] / 1e3, "ms");
        let [sojourn, sojourn_p99] = self.record.own.sojourn_us;
        measured.lower("sojourn_median", sojourn / 1e3, "ms");
        measured.lower("sojourn_p99", sojourn_p99 / 1e3, "ms");
        self.probed(&mut measured);
        measured.lower("tcp_rtt_median", self.rtt_by_ss(), "ms");
        measured.lower("retransmits", self.retransmits_by_ss(), "a second");
        measured.lower("pieces", self.record.pieces as f64, "");
        measured.lower("drops", self.record.dropped as f64, "packets");
        measured.lower("away", away.0 * 100.0, "% of the time");
        measured.lower("away_longest", away.2 / 1e3, "ms");
        let [judged, unjudged] = self.record.own.windows;
        if judged > 0 {
            measured.lower("windows_unjudged", unjudged as f64 / (judged + unjudged) as f64 * 100.0, "%");
        }
        self.curves(&mut measured, rtt);
        measured
    }

    /// irtt's round trips, and each way.
    fn probed(&self, measured: &mut Measured) {
        let Some([_, loaded]) = &self.probes else { return };
        for (name, way) in [("irtt_there_median", 0), ("irtt_back_median", 1), ("irtt_median", 2)] {
            measured.lower(name, median(&ways(loaded, way)), "ms");
        }
        measured.lower("irtt_p99", quantile(&ways(loaded, 2), 0.99), "ms");
        let points = loaded.iter().map(|probe| (probe.sent - self.record.from, probe.ways_ms[0])).collect();
        measured.curves.push(Curve { plot: &THERE, label: "irtt, there".into(), points });
    }

    fn notes(&self) -> Vec<String> {
        let absent = irtt::missing().filter(|_| self.probes.is_none());
        absent
            .map(|remedy| format!("irtt, each way by itself: not available here: {remedy}"))
            .into_iter()
            .collect()
    }

    /// What each witness says of what others see too.
    fn accounts(&self) -> Vec<Account> {
        let Record { seconds, wire, own, residence_us, dropped, .. } = &self.record;
        let is_weir = own.sent[0] > 0;
        let on_wire = |payload: f64| payload * FULL_FRAME / PAYLOAD / 1e6;
        let received = self.received.iter().map(|received| received.total).sum();
        let idle = median(&self.idle);
        let added = median(&self.loaded.iter().map(|(_, rtt)| *rtt).collect::<Vec<_>>()) - idle;
        let mut accounts = vec![
            RATE.by("the card's log", wire[0] as f64 * 8.0 / seconds / 1e6),
            RATE.by("iperf3, receiver", on_wire(received)),
            RATE.by("ss, acknowledged", on_wire(self.acked_by_ss())),
            IN_CARD.by("the card's log", residence_us[0] / 1e3),
            SPARSE.by("ping", added),
            SPARSE.by("the card's log", residence_us[0] / 1e3),
            BULK.by("ss", self.rtt_by_ss()),
            BULK.by("iperf3", self.rtt_by_iperf()),
            AGAIN.by("ss", self.retransmits_by_ss()),
            AGAIN.by("iperf3", self.retransmits_by_iperf()),
        ];
        if let Some([idle, loaded]) = &self.probes {
            accounts.push(SPARSE.by("irtt", median(&ways(loaded, 2)) - median(&ways(idle, 2))));
        }
        if is_weir {
            let sent = own.sent[0] as f64 * 8.0 / seconds * FULL_FRAME / (FULL_FRAME - FRAMING) / 1e6;
            accounts.push(RATE.by("weir, sent", sent));
            accounts.push(AGAIN.by("weir, dropped", *dropped as f64 / seconds));
            let [waited, residence] = [own.sojourn_us[0] / 1e3, own.residence_us[0] / 1e3];
            if residence > 0.0 {
                accounts.push(IN_CARD.by("weir, residence", residence));
                accounts.push(BULK.by("weir, sojourn + residence", waited + residence + idle));
            }
        }
        accounts
    }

    /// Of all connections and seconds but the first, ms.
    fn rtt_by_ss(&self) -> f64 {
        let sockets = self.sockets.iter().skip(1).flat_map(|(_, sockets)| sockets.values());
        median(&sockets.map(|socket| socket.rtt_ms).collect::<Vec<_>>())
    }

    fn rtt_by_iperf(&self) -> f64 {
        let seconds = self.received.iter().flat_map(|received| received.seconds.iter().flatten());
        median(&seconds.map(|second| second.rtt_ms).collect::<Vec<_>>())
    }

    /// Bit/s of payload.
    fn acked_by_ss(&self) -> f64 {
        self.grown(|socket| socket.acked) * 8.0
    }

    /// A second.
    fn retransmits_by_ss(&self) -> f64 {
        self.grown(|socket| socket.retransmits)
    }

    /// The same; its seconds go on after the measured ones.
    fn retransmits_by_iperf(&self) -> f64 {
        let streams = || self.received.iter().flat_map(|received| &received.seconds);
        let again: u64 = streams().flatten().map(|second| second.retransmits).sum();
        again as f64 / streams().map(Vec::len).max().unwrap_or(0) as f64
    }

    /// By how much a counter of all connections grew a second, from the first look to the last that saw all of them:
    /// iperf3 may have ended before the one at the end.
    fn grown(&self, counter: fn(&Socket) -> u64) -> f64 {
        let Some((from, first)) = self.sockets.first() else { return f64::NAN };
        let is_whole = |(_, sockets): &&(f64, BTreeMap<u16, Socket>)| sockets.len() == first.len();
        let Some((to, last)) = self.sockets.iter().rfind(is_whole) else { return f64::NAN };
        let sum = |sockets: &BTreeMap<u16, Socket>| sockets.values().map(counter).sum::<u64>() as f64;
        (sum(last) - sum(first)) / (to - from)
    }

    /// Mbit/s on the wire of each flow with data in whole seconds; the others are iperf3's own and the pings.
    fn flows(&self) -> Vec<Vec<f64>> {
        let whole = self.record.seconds.round() as usize * 10;
        let all = self.record.flows.values();
        let total: u64 = all.clone().flatten().sum();
        let large = all.filter(|slices| slices.iter().sum::<u64>() * 50 > total);
        large
            .map(|slices| {
                let mut slices = slices.clone();
                slices.resize(whole, 0);
                slices.chunks_exact(10).map(|second| second.iter().sum::<u64>() as f64 * 8e-6).collect()
            })
            .collect()
    }

    fn curves(&self, measured: &mut Measured, rtt: Vec<f64>) {
        for (at, flow) in self.flows().into_iter().enumerate() {
            let points =
                flow.into_iter().enumerate().map(|(second, rate)| (second as f64 + 1.0, rate)).collect();
            measured.curves.push(Curve { plot: &WIRE, label: format!("flow {}", at + 1), points });
        }
        for (at, port) in self.sockets.first().iter().flat_map(|(_, first)| first.keys()).enumerate() {
            let of = self.sockets.iter().filter_map(|(second, all)| Some((*second, all.get(port)?)));
            let points = of.map(|(second, socket)| (second, socket.cwnd as f64)).collect();
            measured.curves.push(Curve { plot: &CWND, label: format!("flow {}", at + 1), points });
        }
        measured.curves.push(Curve { plot: &PING, label: "ping".into(), points: self.loaded.clone() });
        measured.samples.push(Samples { plot: &PING_CDF, label: "ping".into(), values: rtt });
        let samples = &self.record.samples;
        let curve = |plot, points| Curve { plot, label: "in the card".into(), points };
        let card = samples.iter().map(|(at, _, bytes)| (*at, *bytes as f64)).collect();
        measured.curves.push(curve(&IN_FLIGHT, card));
        let limits: Vec<_> = samples.iter().map(|(at, limit, _)| (*at, f64::from(*limit))).collect();
        if limits.iter().any(|(_, limit)| *limit > 0.0) {
            measured.curves.push(Curve { plot: &IN_FLIGHT, label: "limit".into(), points: limits });
        }
    }
}

fn ways(probes: &[Probe], way: usize) -> Vec<f64> {
    probes.iter().map(|probe| probe.ways_ms[way]).collect()
}

/// A full segment with time stamps: bytes on the wire, its payload, and preamble, FCS and gap.
const FULL_FRAME: f64 = 1_538.0;
const PAYLOAD: f64 = 1_448.0;
const FRAMING: f64 = 24.0;
static THERE: Plot = Plot {
    name: "one-way",
    title: "One way towards the card's far end under load",
    x: "seconds",
    y: "ms",
    log: true,
    by_case: false,
};
static CWND: Plot = Plot {
    name: "cwnd",
    title: "Congestion window of each flow",
    x: "seconds",
    y: "bytes",
    log: true,
    by_case: true,
};
static WIRE: Plot = Plot {
    name: "rate",
    title: "Rate of each flow on the wire",
    x: "seconds",
    y: "Mbit/s",
    log: false,
    by_case: true,
};
static PING: Plot =
    Plot { name: "ping", title: "Round trip under load", x: "seconds", y: "ms", log: true, by_case: false };
static PING_CDF: Plot = Plot {
    name: "ping-cdf",
    title: "Distribution of round trips under load",
    x: "ms",
    y: "share of pings",
    log: true,
    by_case: false,
};
static IN_FLIGHT: Plot = Plot {
    name: "in-flight",
    title: "Limit and bytes in the card",
    x: "seconds",
    y: "bytes",
    log: true,
    by_case: true,
};
