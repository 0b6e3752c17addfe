//! The governor before a virtio ring, which reports nothing by itself: without the nudge it stops for
//! ever at its limit. A peer in the same process is the wire, in virtual time.

use crate::ports::{Running, connect, is_full, pool};
use dpdk::testing::{TestEal, eal};
use dpdk::{Burst, Mbuf, Mempool, Ring};
use engine::classify::{Classifier, Wants};
use engine::completion::drivers::{self, Choice};
use engine::completion::source::{Nudge, Source};
use engine::counters::Loss;
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::gate::{self, Gate, GatePage};
use engine::plan::GovernorPlan;
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::{Params, Qdisc, fifo};
use shaper::rate::Overhead;
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};

#[test]
fn a_governed_virtio_ring_goes_on() {
    let eal = eal();
    let pool = pool(&eal, "vgov", 8191);
    for (number, mode) in ["", ",in_order=1,mrg_rxbuf=0", ",packed_vq=1"].into_iter().enumerate() {
        let (page, sent) = second_of_backlog(&eal, &pool, number, mode, None);
        println!("{mode}: {sent} frames in the last tenth of a second, {page:?}");
        assert!((825..=835).contains(&sent), "{mode}: {sent} frames of 833, {page:?}");
        assert!(page.limit < 12_000 && page.in_flight.bytes < 12_000, "{mode}: {page:?}");
        assert_eq!((page.source, page.nudge), (Source::Held, Nudge::Refused));
        assert_eq!((page.watch.given_up, page.governor.excess), (0, 0), "{mode}: {page:?}");
    }
    // What it would be otherwise: the limit, the frames that are let through beyond it, and no more.
    let (page, sent) = second_of_backlog(&eal, &pool, 3, "", Some(Nudge::EmptyBurst));
    assert!(sent == 0 && page.watch.extra == 64 && page.in_flight.descriptors < 70, "{sent}: {page:?}");
    is_full(&pool);
}

/// A backlog through virtio_user to a peer that takes a frame of 1500 bytes every 120 us: 100 Mbit/s.
/// The frames that it took in the last tenth of a second.
fn second_of_backlog(
    eal: &TestEal,
    pool: &Mempool,
    number: usize,
    mode: &str,
    nudge: Option<Nudge>,
) -> (GatePage, u64) {
    let socket = std::env::temp_dir().join(format!("weir-virtio-{}-{number}", std::process::id()));
    let mut vhost = Running::attach(eal, &format!("net_vhost{number},iface={}", socket.display()), pool);
    let devargs = format!("net_virtio_user{number},path={},queue_size=1024{mode}", socket.display());
    let mut virtio = Running::attach(eal, &devargs, pool);
    connect(&mut vhost);
    let to = Ring::create(eal, &format!("vgov-to{number}"), 1024).unwrap();
    let from = Ring::create(eal, &format!("vgov-from{number}"), 64).unwrap();
    let mut source = Running::start(Ring::port(eal, &format!("vgov{number}"), &to, &from).unwrap(), pool);

    let mut direction = governed(&mut source, &mut virtio, pool, nudge);
    let (mut taken, mut burst) = (0, Burst::new());
    for step in 0..100_000 {
        while direction.waiting().packets + u64::from(to.len()) < 300 {
            burst.push(Mbuf::from_bytes(pool, &[0xff; 1_500]).unwrap()).unwrap();
            to.enqueue(&mut burst);
        }
        direction.turn(Instant::from_nanos(step * 10_000));
        if step % 12 == 0 {
            let got = vhost.receive(&mut burst, 1) as u64;
            taken += if step >= 90_000 { got } else { 0 };
            burst.clear();
        }
    }
    let page = direction.gate().unwrap().report();
    direction.flush(Loss::Stop);
    drop(direction);
    while vhost.receive(&mut burst, Burst::CAPACITY) > 0 {
        burst.clear();
    }
    source.close(eal);
    virtio.close(eal);
    vhost.close(eal);
    let _ = std::fs::remove_file(socket);
    (page, taken)
}

/// From the first queue into the second, as the driver's name says, or with another nudge.
fn governed(from: &mut Running, to: &mut Running, pool: &Mempool, other: Option<Nudge>) -> Direction {
    let Choice { source, nudge, .. } = drivers::choose(&to.port.info().unwrap().driver);
    let nudge = other.unwrap_or(nudge);
    let (rx, tx) = (from.rx.take().unwrap(), to.tx.take().unwrap());
    let gate = Gate::new(gate::Settings {
        plan: GovernorPlan::default(),
        source,
        nudge,
        ring: tx.ring(),
        framing: 0,
        heads: None,
        wire: None,
    });
    let params = Params::Fifo(fifo::Params { limit: 500, ..fifo::Params::default() });
    let qdisc = Qdisc::new(&params, 501).unwrap();
    let egress = Egress::new(qdisc, None, Overhead::default(), SplitMix::new(1, 2));
    let classifier = Classifier::new(FlowHasher::new([7; 16]), Wants::of(&params), &[]);
    let settings = Settings { link_down_hold: Duration::from_millis(100), ..Settings::default() };
    Direction::new(rx, tx, classifier, egress, settings, pool).governed(gate)
}
