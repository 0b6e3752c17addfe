//! A known mix of traffic, and what is found of it.

use super::*;
use crate::counters::Tally;
use allocation_counter::measure;
use shaper::rng::{Rng, SplitMix};

const FLOWS: usize = 10_000;
const SECRET: [u8; 16] = *b"known, as nobody";

/// Flows whose shares are as 1/1, 1/2, 1/3, ... (Zipf): the largest has a tenth, the tenth a hundredth.
struct Mix {
    cumulated: Vec<f64>,
    rng: SplitMix,
    sent: Vec<u64>,
    total: Tally,
}

impl Mix {
    fn new(seed: u64) -> Self {
        let mut sum = 0.0;
        let shares = (1..=FLOWS).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let cumulated = shares.collect();
        Self { cumulated, rng: SplitMix::new(seed, seed), sent: vec![0; FLOWS], total: Tally::default() }
    }

    /// A packet: its flow and length.
    fn next(&mut self) -> (usize, u32) {
        let all = self.cumulated[FLOWS - 1];
        let point = f64::from(self.rng.next_u32()) / f64::from(u32::MAX) * all;
        let flow = self.cumulated.partition_point(|sum| *sum < point).min(FLOWS - 1);
        let len = if self.rng.next_u16().is_multiple_of(4) { 66 } else { 1_514 };
        self.sent[flow] += u64::from(len);
        self.total.add(len);
        (flow, len)
    }
}

/// Flow `rank`: two from each host, all to one.
fn flow(rank: usize) -> FlowKey {
    FlowKey {
        source: 0x0a00_0000 + rank as u128 / 2,
        destination: 0xc000_0201,
        source_port: 1_024 + rank as u16,
        destination_port: 443,
        protocol: TCP,
        family: Family::V4,
        kind: Kind::Ports,
        ..FlowKey::EMPTY
    }
}

fn talkers() -> Talkers {
    Talkers::new(FlowHasher::new(SECRET), 7)
}

/// Sends a second of the mix at `pps`, each packet having waited for as many microseconds as its flow has rank.
fn second(talkers: &mut Talkers, mix: &mut Mix, start: Instant, pps: u64) -> u64 {
    let mut looked_at = 0;
    for packet in 0..pps {
        let now = start + Duration::from_nanos(packet * 1_000_000_000 / pps);
        let (rank, len) = mix.next();
        if let Some(weight) = talkers.weigh(len) {
            looked_at += 1;
            talkers.note_key(now, &flow(rank), weight, Duration::from_micros(rank as u64 + 1));
        }
    }
    looked_at
}

#[test]
fn the_ten_largest_of_ten_thousand_are_found_with_the_error_that_is_told() {
    let (mut inside, mut outside) = (0, 0);
    for seed in 0..10 {
        let mut talkers = Talkers::new(FlowHasher::new(SECRET), seed);
        let mut watch = Watch::default();
        let mut mix = Mix::new(seed + 100);
        let mut now = Instant::ZERO;
        for second_number in 0..3 {
            mix.sent.fill(0);
            mix.total = Tally::default();
            let looked_at = second(&mut talkers, &mut mix, now, 300_000);
            if second_number > 0 {
                assert!((RATE / 3..RATE * 5 / 4).contains(&looked_at), "{looked_at} packets looked at");
            }
            now += Duration::from_millis(1_000);
            let mut page = Sample::new();
            talkers.exchange(now, &mut page);
            watch.add(&page, now, Tally { packets: 0, bytes: 0 });
        }
        let window = watch.last().unwrap();
        assert_eq!(window.span, Duration::from_millis(1_000));
        let top = window.top(Side::Flow, 30);
        for rank in 0..10 {
            let (_, found) = top.iter().find(|(key, _)| *key == flow(rank)).unwrap();
            let error = found.bytes.abs_diff(mix.sent[rank]);
            *(if error <= found.error { &mut inside } else { &mut outside }) += 1;
            assert!(error <= 3 * found.error, "{error} of {}, {found:?}", mix.sent[rank]);
            assert!(found.error < found.bytes * 6 / 10, "an error that says something: {found:?}");
            assert_eq!(found.longest, Duration::from_micros(rank as u64 + 1));
            assert_eq!(found.mean, found.longest, "all of a flow waited alike");
        }
        let hosts = window.top(Side::Sender, 3);
        assert_eq!(hosts[0].0.source, flow(0).source);
        let both = mix.sent[0] + mix.sent[1];
        assert!(hosts[0].1.bytes.abs_diff(both) <= 2 * hosts[0].1.error);
        let [(receiver, all)] = window.top(Side::Receiver, 3)[..] else { panic!("one receiver") };
        assert_eq!(receiver.source, flow(0).destination);
        assert!(all.bytes.abs_diff(mix.total.bytes) <= all.error, "{all:?} of {:?}", mix.total);
    }
    assert!(inside >= 95, "{inside} of {} within what was told", inside + outside);
}

#[test]
fn a_slow_link_is_counted_exactly() {
    let (mut talkers, mut mix) = (talkers(), Mix::new(1));
    let mut page = Sample::new();
    // 100 packets of 64 bytes and more: 128 is not reached.
    for _ in 0..5 {
        second(&mut talkers, &mut mix, Instant::ZERO, 100);
    }
    talkers.exchange(Instant::ZERO + Duration::from_millis(5_000), &mut page);
    assert_eq!(page.bytes, mix.total.bytes);
    let mut watch = Watch::default();
    watch.add(&page, Instant::ZERO + Duration::from_millis(5_000), mix.total);
    let window = watch.last().unwrap();
    assert_eq!(window.sent, mix.total);
    for (rank, sent) in mix.sent.iter().enumerate().filter(|(_, sent)| **sent > 0) {
        let top = window.top(Side::Flow, FLOWS);
        let (_, found) = top.iter().find(|(key, _)| *key == flow(rank)).unwrap();
        assert_eq!(found.bytes, *sent);
    }
}

#[test]
fn a_flood_out_of_nothing_is_looked_at_within_bounds() {
    let (mut talkers, mut mix) = (talkers(), Mix::new(2));
    let start = Instant::ZERO + Duration::from_millis(60_000);
    talkers.exchange(start, &mut Sample::new());
    // A hundred thousand packets at one time, as after a pause of this thread.
    let mut looked_at = 0;
    let allocated = measure(|| {
        for _ in 0..100_000 {
            let (rank, len) = mix.next();
            if let Some(weight) = talkers.weigh(len) {
                looked_at += 1;
                talkers.note_key(start, &flow(rank), weight, Duration::ZERO);
            }
        }
    });
    assert_eq!(allocated.count_total, 0);
    assert!(looked_at < 9_000, "{looked_at}");
}

/// Packets of one length in turn must not fall into step with the strata.
#[test]
fn flows_in_lock_step_with_the_sampling_are_estimated_alike() {
    let mut talkers = talkers();
    let mut now = Instant::ZERO;
    let mut page = Sample::new();
    for _ in 0..2 {
        for packet in 0..400_000_usize {
            let now = now + Duration::from_nanos(packet as u64 * 2_500);
            if let Some(weight) = talkers.weigh(1_024) {
                talkers.note_key(now, &flow(packet % 2 * 2), weight, Duration::ZERO);
            }
        }
        now += Duration::from_millis(1_000);
        page = Sample::new();
        talkers.exchange(now, &mut page);
    }
    let mut watch = Watch::default();
    watch.add(&page, now, Tally::default());
    let top = watch.last().unwrap().top(Side::Flow, 2);
    for (_, found) in &top {
        let error = found.bytes.abs_diff(200_000 * 1_024);
        assert!(error <= found.error, "{found:?}");
    }
}

#[test]
fn without_tables_nothing_is_seen() {
    let mut talkers = Talkers::default();
    for len in [0, 64, 9_000, 1 << 20] {
        assert_eq!(talkers.weigh(len), None);
    }
    let mut page = Sample::default();
    talkers.note_key(Instant::ZERO, &flow(0), 64, Duration::ZERO);
    talkers.exchange(Instant::ZERO, &mut page);
    assert_eq!((page.bytes, page.step), (0, 0));
    assert_eq!(talkers.weigh(1_514), None, "nor after an exchange");
}

#[test]
fn whoever_is_larger_than_the_smallest_of_its_set_stays() {
    let mut table = Table::new(1);
    for rank in 0..table::WAYS {
        table.add(0, &flow(rank), 1_000 * (rank as u32 + 1), Duration::ZERO);
    }
    table.add(0, &flow(100), 500, Duration::from_micros(3));
    let found = |rank| table.entries().find(|entry| entry.key == flow(rank));
    assert_eq!(found(0), None, "the smallest gave way");
    let entry = found(100).unwrap();
    assert_eq!((entry.bytes, entry.over, entry.samples), (1_500, 1_000, 1));
    assert_eq!(entry.longest, Duration::from_micros(3));
    assert!((1..table::WAYS).all(|rank| found(rank).is_some_and(|entry| entry.over == 0)));
}

/// A TCP segment of IPv6 with a flow label behind a VLAN tag is known by its ports.
#[test]
fn ports_are_seen_behind_a_flow_label_and_a_tag() {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 0x86, 0xdd];
    frame.extend([0x60, 0x01, 0x23, 0x45, 0, 20, 6, 64]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend([0x1f, 0x90, 0x01, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    let key = key(&frame, frame.len());
    assert_eq!((key.source_port, key.destination_port, key.protocol), (8_080, 443, TCP));
    assert_eq!((key.kind, key.family), (Kind::Ports, Family::V6));
    assert!(is_ip(&key) && !key.scope.is_global());
}
