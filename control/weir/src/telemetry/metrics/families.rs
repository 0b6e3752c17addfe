//! The families: name, type, help, and where in the report each value stands. What is not here has no name
//! in Prometheus.
//!
//! Bytes, seconds and packets, never their multiples; a total only rises, from 0 at the start of the
//! daemon. A thing that does not exist, such as the bandwidth of a direction without one, has no sample.

use super::exposition::{Kind, Metric, Number};
use crate::report::{Count, DirectionReport, LimiterReport, PortReport, Report, TinReport, TxQueueReport};
use crate::report::{SizeClass, WorkerReport};
use crate::telemetry::delays;

/// Of the instance.
pub(super) const INSTANCE: &[Metric<Report>] =
    &[gauge("weir_uptime_seconds", "Time since packets began to flow.", |report| real(report.uptime_s))];

/// Of the build; labels `version`, `dpdk`.
pub(super) const BUILD: &[Metric<()>] =
    &[gauge("weir_build_info", "1; version of weir and the DPDK it runs on.", |()| whole(1))];

/// Of a direction; labels `link`, `direction`.
pub(super) const DIRECTION: &[Metric<DirectionReport>] = &[
    counter("weir_received_bytes_total", "Bytes of frames taken from the receive queue.", |d| {
        whole(d.received.bytes)
    }),
    counter("weir_received_packets_total", "Packets taken from the receive queue.", |d| {
        whole(d.received.packets)
    }),
    counter("weir_sent_bytes_total", "Bytes of frames taken by the transmit queue.", |d| whole(d.sent.bytes)),
    counter("weir_sent_packets_total", "Packets taken by the transmit queue.", |d| whole(d.sent.packets)),
    counter("weir_added_bytes_total", "Header bytes added by cutting super-packets.", |d| {
        whole(d.added.bytes)
    }),
    counter("weir_added_packets_total", "Packets added by cutting super-packets.", |d| {
        whole(d.added.packets)
    }),
    counter("weir_removed_bytes_total", "Header bytes removed by merging.", |d| whole(d.removed.bytes)),
    counter("weir_removed_packets_total", "Packets removed by merging.", |d| whole(d.removed.packets)),
    gauge("weir_backlog_bytes", "Bytes that wait in the queue.", |d| whole(d.backlog.bytes)),
    gauge("weir_backlog_packets", "Packets that wait in the queue.", |d| whole(d.backlog.packets)),
    gauge("weir_bandwidth_bytes_per_second", "The rate set; no sample: as fast as the wire takes it.", |d| {
        d.bandwidth.map(|bits| Number::Real(bits as f64 / 8.0))
    }),
    counter("weir_control_bytes_total", "Bytes of frames through the control queue.", |d| {
        whole(d.control.bytes)
    }),
    counter("weir_control_packets_total", "Frames through the control queue.", |d| whole(d.control.packets)),
    counter(
        "weir_control_spilled_packets_total",
        "Control frames that found their queue full and were treated as data.",
        |d| whole(d.control_spilled.packets),
    ),
    counter("weir_rewritten_packets_total", "Frames sent with a rewritten DS field.", |d| whole(d.rewritten)),
    counter("weir_rewrite_failed_packets_total", "Frames whose DS field could not be rewritten.", |d| {
        whole(d.rewrite_failed)
    }),
    counter("weir_requeues_total", "Transmit bursts that the driver took only in part.", |d| {
        whole(d.requeues)
    }),
    counter("weir_ce_threshold_marks_total", "Packets marked for waiting longer than ce_threshold.", |d| {
        stat(d, "ce_mark")
    }),
    counter("weir_overlimits_total", "Times that a packet had to wait for the rate (cake).", |d| {
        stat(d, "overlimits")
    }),
    gauge(
        "weir_queue_memory_bytes",
        "Memory of queued packets: now with fq_codel, at most with cake.",
        |d| stat(d, "memory_used"),
    ),
    gauge("weir_queue_memory_limit_bytes", "What that memory may be (cake).", |d| stat(d, "memory_limit")),
    counter("weir_super_packets_total", "Super-packets that came in or were made by GRO.", |d| {
        whole(d.supers.received.packets)
    }),
    counter("weir_gro_merged_packets_total", "Packets that GRO appended to others.", |d| {
        whole(d.supers.gro_merged)
    }),
    counter("weir_tso_packets_total", "Frames of several segments that the port cut.", |d| {
        whole(d.supers.tso.packets)
    }),
    counter("weir_tso_bytes_total", "Bytes of those frames as they are on the wire.", |d| {
        whole(d.supers.tso.bytes)
    }),
];

/// Of a direction's rate limiter; labels `link`, `direction`.
pub(super) const LIMITER: &[Metric<LimiterReport>] = &[
    counter("weir_limiter_lost_seconds_total", "Sending time given up for being later than catch-up.", |l| {
        seconds(l.lost_us)
    }),
    counter("weir_limiter_losses_total", "Times that sending time was given up.", |l| whole(l.losses)),
    gauge("weir_limiter_late_max_seconds", "The furthest behind its schedule a frame was sent.", |l| {
        seconds(l.late_max_us)
    }),
];

/// Of a reason to lose packets; labels `link`, `direction`, `reason`.
pub(super) const LOSS: &[Metric<Count>] = &[
    counter("weir_dropped_bytes_total", "Bytes lost between receive and transmit queue.", |c| whole(c.bytes)),
    counter("weir_dropped_packets_total", "Packets lost between receive and transmit queue.", |c| {
        whole(c.packets)
    }),
];

/// Of a tin's ECN marks; labels `link`, `direction`, `tin`.
pub(super) const MARKS: &[Metric<u64>] =
    &[counter("weir_ecn_marks_total", "Packets marked with CE in place of a drop.", |marks| whole(*marks))];

/// Of a class of pieces; labels `link`, `direction`, `segments`.
pub(super) const PIECES: &[Metric<SizeClass>] = &[counter(
    "weir_super_pieces_total",
    "Pieces of super-packets queued, by segments they hold.",
    |class| whole(class.pieces),
)];

/// Of a tin of cake; labels `link`, `direction`, `tin`.
pub(super) const TIN: &[Metric<TinReport>] = &[
    counter("weir_tin_queued_bytes_total", "Bytes queued, also those lost later.", |t| whole(t.sent_bytes)),
    counter("weir_tin_queued_packets_total", "Packets queued, also those lost later.", |t| {
        whole(t.sent_packets)
    }),
    counter("weir_tin_dropped_packets_total", "Packets lost to AQM and overflow.", |t| whole(t.drops)),
    counter("weir_tin_filtered_acks_total", "ACKs that gave way to later ones.", |t| whole(t.ack_drops)),
    gauge("weir_tin_backlog_bytes", "Bytes that wait.", |t| whole(t.backlog_bytes)),
    gauge("weir_tin_threshold_bytes_per_second", "Rate above which the tin gives way; 0: unlimited.", |t| {
        whole(t.threshold_rate)
    }),
    gauge("weir_tin_target_seconds", "The AQM's target.", |t| seconds(t.target_us)),
    gauge("weir_tin_sparse_flows", "Flows in their first quantum, or empty and not yet forgotten.", |t| {
        whole(t.sparse_flows)
    }),
    gauge("weir_tin_bulk_flows", "Flows beyond their first quantum.", |t| whole(t.bulk_flows)),
    gauge("weir_tin_unresponsive_flows", "Flows that BLUE drops from.", |t| whole(t.unresponsive_flows)),
];

/// Of what a port is; labels `link`, `port`, `device`, `driver`.
pub(super) const PORT_INFO: &[Metric<()>] =
    &[gauge("weir_port_info", "1; device and driver of the port.", |()| whole(1))];

/// Of a port; labels `link`, `port`.
pub(super) const PORT: &[Metric<PortReport>] = &[
    gauge("weir_port_link_up", "1: the link is up, 0: it is down.", |p| whole(p.link_up.into())),
    gauge("weir_port_speed_bytes_per_second", "Speed of the link; no sample: not known.", |p| {
        p.speed_mbps.map(|speed| Number::Whole(u64::from(speed) * 125_000))
    }),
    gauge("weir_port_mtu_bytes", "MTU of the port.", |p| whole(p.mtu.into())),
    counter("weir_port_received_packets_total", "Packets the driver received.", |p| whole(p.ipackets)),
    counter("weir_port_sent_packets_total", "Packets the driver sent.", |p| whole(p.opackets)),
    counter(
        "weir_port_missed_packets_total",
        "Lost before the AQM: the receive ring was full (imissed).",
        |p| whole(p.imissed),
    ),
    counter(
        "weir_port_no_buffer_packets_total",
        "Lost before the AQM: no buffer was free (rx_nombuf).",
        |p| whole(p.rx_nombuf),
    ),
    counter("weir_port_receive_errors_total", "Erroneous packets received (ierrors).", |p| whole(p.ierrors)),
    counter("weir_port_send_errors_total", "Packets the driver failed to send (oerrors).", |p| {
        whole(p.oerrors)
    }),
    gauge("weir_mbuf_pool_size", "Buffers of the receive pool.", |p| whole(p.pool_size.into())),
    gauge("weir_mbuf_pool_in_use", "Buffers of the receive pool in use.", |p| whole(p.pool_in_use.into())),
];

/// Of a transmit queue and its governor; labels `link`, `direction`, `port`, `queue`.
pub(super) const QUEUE: &[Metric<TxQueueReport>] = &[
    gauge("weir_bql_enabled", "1: a limit holds, 0: it does not (completions cannot be seen).", |q| {
        whole(q.binds.into())
    }),
    gauge("weir_bql_limit_bytes", "Bytes that may lie in the transmit ring.", |q| whole(q.limit.into())),
    gauge("weir_bql_limit_min_bytes", "The limit never falls below.", |q| whole(q.limit_min.into())),
    gauge("weir_bql_limit_max_bytes", "The limit never rises above; no sample: no bound.", |q| {
        q.limit_max.map(|limit| Number::Whole(limit.into()))
    }),
    gauge("weir_bql_inflight_bytes", "Bytes in the transmit ring.", |q| whole(q.in_flight)),
    gauge("weir_bql_descriptors", "Descriptors of the transmit ring in use.", |q| whole(q.descriptors)),
    gauge("weir_bql_drain_bytes_per_second", "The fastest the port drained its ring of late.", |q| {
        q.drain_rate.map(|bits| Number::Real(bits as f64 / 8.0))
    }),
    gauge("weir_bql_completion_delay_seconds", "Shortest time from submission to completion.", |q| {
        q.delay_us.and_then(seconds)
    }),
    counter("weir_bql_judged_windows_total", "Windows of time by which the limit was judged.", |q| {
        whole(q.judged)
    }),
    counter(
        "weir_bql_unjudged_windows_total",
        "Windows by which it was not: our own thread was late.",
        |q| whole(q.unjudged),
    ),
    counter("weir_bql_late_polls_total", "Looks at completions that came late.", |q| whole(q.late_polls)),
    counter("weir_bql_late_seconds_total", "Time lost by late looks.", |q| seconds(q.late_time_us)),
    counter("weir_bql_excess_bytes_total", "Bytes reported complete that were not in flight.", |q| {
        whole(q.excess)
    }),
    counter(
        "weir_bql_source_switches_total",
        "Times that a source of completions contradicted itself.",
        |q| whole(q.source_switches.into()),
    ),
    counter(
        "weir_bql_extra_frames_total",
        "Frames let through beyond the limit: nothing was reported.",
        |q| whole(q.extra),
    ),
];

/// Of a worker; label `lcore`.
pub(super) const WORKER: &[Metric<WorkerReport>] = &[
    gauge("weir_lcore_generation", "Generation of the settings that the worker runs by.", |w| {
        whole(w.generation)
    }),
    counter("weir_lcore_turns_total", "Turns of the polling loop.", |w| whole(w.turns)),
    counter("weir_lcore_idle_turns_total", "Turns that moved nothing.", |w| whole(w.idle_turns)),
    counter("weir_lcore_seconds_total", "Time since the first turn of the polling loop.", |w| {
        seconds(w.time_us)
    }),
    counter("weir_lcore_busy_seconds_total", "Time of it in turns that moved packets.", |w| {
        seconds(w.busy_us)
    }),
    counter("weir_lcore_packets_total", "Packets that the worker received.", |w| whole(w.packets)),
    counter("weir_lcore_sleeps_total", "Sleeps (poll = \"adaptive\").", |w| whole(w.sleeps)),
    counter("weir_poll_gaps_total", "Gaps in polling of more than 50 microseconds.", |w| {
        whole(w.poll_gaps.over_50us)
    }),
    counter("weir_poll_long_gaps_total", "Those of them of more than a millisecond.", |w| {
        whole(w.poll_gaps.over_1ms)
    }),
    counter("weir_poll_gap_seconds_total", "Time in gaps of more than 50 microseconds.", |w| {
        seconds(w.poll_gaps.total_us)
    }),
    gauge("weir_poll_gap_max_seconds", "The longest gap since the start.", |w| seconds(w.poll_gaps.max_us)),
    counter("weir_clock_backward_total", "Times that the clock ran backward.", |w| whole(w.clock_backward)),
    counter("weir_clock_jumps_total", "Times that the clock leapt by more than a second.", |w| {
        whole(w.clock_jumps)
    }),
];

/// Of delays: the kind, name and help; labels `link`, `direction`, `tin`.
pub(super) const DELAYS: [(delays::Kind, &str, &str); 3] = [
    (delays::Kind::Sojourn, "weir_sojourn_seconds", "How long packets waited in the queue."),
    (
        delays::Kind::Residence,
        "weir_nic_residence_seconds",
        "How long packets lay in the NIC: submission to completion.",
    ),
    (
        delays::Kind::Total,
        "weir_total_seconds",
        "From receive to completion; to submission where that is all that is seen.",
    ),
];

/// Bounds of the buckets of every histogram: nanoseconds, and how they are written, in seconds. 1-2-5 from
/// 10 us, where a poll loop's own noise ends, to 10 s, beyond which a shaper has failed anyhow.
pub(super) const BOUNDS: [(u64, &str); 19] = [
    (10_000, "0.00001"),
    (20_000, "0.00002"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (200_000, "0.0002"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_000_000, "0.002"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (200_000_000, "0.2"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_000_000_000, "2"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
];

const fn counter<T>(name: &'static str, help: &'static str, value: fn(&T) -> Option<Number>) -> Metric<T> {
    Metric { name, kind: Kind::Counter, help, value }
}

const fn gauge<T>(name: &'static str, help: &'static str, value: fn(&T) -> Option<Number>) -> Metric<T> {
    Metric { name, kind: Kind::Gauge, help, value }
}

fn whole(value: u64) -> Option<Number> {
    Some(Number::Whole(value))
}

fn real(value: f64) -> Option<Number> {
    Some(Number::Real(value))
}

fn seconds(micros: u64) -> Option<Number> {
    real(micros as f64 / 1e6)
}

/// A counter of the discipline, where it has that one.
fn stat(direction: &DirectionReport, name: &str) -> Option<Number> {
    direction.qdisc.get(name).copied().map(Number::Whole)
}
