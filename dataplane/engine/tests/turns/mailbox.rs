//! Pages travel to the worker and come back filled; nobody waits and nothing grows.

use crate::frames::udp;
use crate::rig::{Plan, Rig, ms};
use dpdk::testing::eal;
use engine::counters::Tally;
use engine::mailbox::{Command, DEPTH};
use engine::page::Page;
use engine::talkers::{Sample, Side, Watch};
use shaper::qdisc::Stats;
use shaper::time::Duration;

fn ask(rig: &Rig<'_>) -> Result<(), Command> {
    rig.control.send(Command::Report(Box::new(Page::new(rig.lanes.len()))))
}

#[test]
fn a_page_says_what_the_worker_knows() {
    let eal = eal();
    let mut rig = Rig::new(&eal, &[Plan::default().at(1_000_000), Plan::fifo(10)]);
    for seq in 0..20 {
        rig.lanes[0].feed(&udp(seq as u16 % 5, seq, 125, 0));
        rig.lanes[1].feed(&udp(1, seq, 100, 0));
    }
    rig.turn(ms(1));
    rig.turn(ms(2));
    ask(&rig).unwrap();
    assert!(rig.control.page().is_none());
    rig.turn(ms(3));
    let page = rig.control.page().unwrap();
    assert!(rig.control.page().is_none());

    assert_eq!((page.at, page.turns.total, page.turns.idle), (ms(3), 2, 0));
    let (time, busy) = (page.turns.time.as_micros(), page.turns.busy.as_micros());
    assert_eq!((time, busy), (2_000, 100), "both turns moved packets, and ended in a gap");
    assert_eq!((page.gaps.over_50us, page.gaps.over_1ms), (2, 0));
    let first = &page.directions[0];
    assert_eq!(first.counters, rig.counters(0));
    assert_eq!(first.counters.received, Tally { packets: 20, bytes: 2_500 });
    assert_eq!(first.waiting, Tally { packets: 17, bytes: 17 * 125 });
    assert!(first.link_up && first.limiter.is_some());
    let Some(Stats::FqCodel(stats)) = first.qdisc else { panic!("{:?}", first.qdisc) };
    assert_eq!((stats.sent_pkts, stats.qlen, stats.new_flow_count), (3, 17, 5));
    let second = &page.directions[1];
    assert!(matches!(second.qdisc, Some(Stats::Fifo(_))) && second.limiter.is_none());
    assert_eq!(second.counters.sent.packets + second.counters.losses.total().packets, 20);
    rig.finish();
}

/// Two flows through a line that gives each its share, whose packets wait longer and longer.
#[test]
fn a_page_says_who_sent_most_and_how_long_that_waited() {
    let eal = eal();
    let mut rig = Rig::new(&eal, &[Plan::fifo(100).at(1_000_000)]);
    for seq in 0..30 {
        rig.lanes[0].feed(&udp(if seq % 3 == 0 { 1 } else { 2 }, seq, 125, 0));
    }
    for turn in 1..=40 {
        rig.turn(ms(turn));
    }
    rig.turn(ms(2_000));
    let sample = Sample::new();
    let page = Page { talkers: vec![sample], ..Page::new(1) };
    rig.control.send(Command::Report(Box::new(page))).unwrap();
    rig.turn(ms(2_001));
    let page = rig.control.page().unwrap();
    assert!(page.turns.busy < page.turns.time, "{:?}", page.turns);

    let mut watch = Watch::default();
    watch.add(&page.talkers[0], page.at, page.directions[0].counters.sent);
    let window = watch.last().unwrap();
    assert_eq!((window.span, window.sent.packets), (Duration::from_millis(2_001), 30));
    let flows = window.top(Side::Flow, 10);
    let bytes: Vec<_> = flows.iter().map(|(_, found)| (found.bytes, found.samples)).collect();
    assert_eq!(bytes, [(20 * 125, 20), (10 * 125, 10)], "frames so large are all looked at");
    let (heavy, light) = (&flows[0].1, &flows[1].1);
    assert!(heavy.longest >= Duration::from_millis(28) && light.mean < heavy.longest, "{flows:?}");
    assert_eq!(window.top(Side::Sender, 10)[0].1.samples, 30, "one host sent both");
    rig.finish();
}

#[test]
fn a_page_for_fewer_directions_is_filled_as_far_as_it_goes() {
    let eal = eal();
    let mut rig = Rig::new(&eal, &[Plan::default(); 2]);
    rig.control.send(Command::Report(Box::new(Page::new(1)))).unwrap();
    rig.turn(ms(1));
    assert_eq!(rig.control.page().unwrap().directions.len(), 1);
    rig.set_link(7, false);
    rig.turn(ms(2));
    rig.finish();
}

/// Control asks and never fetches: the pages beyond the depth are dropped, the line goes on.
#[test]
fn a_reader_that_is_stuck_cannot_make_memory_grow() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default());
    for turn in 0..10 * DEPTH as u64 {
        ask(&rig).unwrap();
        rig.turn(ms(turn));
    }
    let pages = std::iter::from_fn(|| rig.control.page()).collect::<Vec<_>>();
    assert_eq!(pages.len(), DEPTH);
    assert_eq!(pages[DEPTH - 1].at, ms(DEPTH as u64 - 1), "the oldest are kept");
    rig.finish();
}

/// A worker that does not turn: commands beyond the depth come back to control.
#[test]
fn a_worker_that_is_stuck_cannot_make_memory_grow() {
    let eal = eal();
    let mut rig = Rig::one(&eal, Plan::default());
    (0..DEPTH).for_each(|_| ask(&rig).unwrap());
    assert!(matches!(ask(&rig), Err(Command::Report(_))));
    for turn in 0..DEPTH as u64 {
        assert!(rig.control.page().is_none());
        rig.turn(ms(turn));
        assert!(rig.control.page().is_some(), "one command a turn");
    }
    rig.finish();
}
