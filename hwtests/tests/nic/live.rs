//! Two threads under the real clock: one turns weir, one is the card.

use crate::rig::{Rig, card, ms};
use dpdk::testing::eal;
use sim::nic::Config;

/// The full ring of the fault keeps the wire busy: what is idle is idle because a thread was away.
#[test]
fn an_ungoverned_ring_is_full() {
    let eal = eal();
    for rate in [100_000_000, 1_000_000_000] {
        let config = Config { ring: 512, ..card(rate) };
        let (rig, live) = Rig::new(&eal, config).live(ms(200), ms(500));
        let truth = rig.card.truth();
        let span = live.span.as_nanos() as f64;
        let away = live.away.iter().map(|gap| gap.end.since(gap.start).as_nanos()).sum::<u64>();
        println!(
            "{rate} bit/s, ring {}: {:.2} % of the wire, idle outside gaps {:.3} %, residence p50 {} us, p99 {} us; \
             a thread was away {} times, {:.1} % of the run",
            config.ring,
            100.0 * truth.share(rig.now, config.rate),
            100.0 * truth.idle_outside(&live.away).as_nanos() as f64 / span,
            truth.residence(50.0).as_micros(),
            truth.residence(99.0).as_micros(),
            live.away.len(),
            100.0 * away as f64 / span,
        );
        assert!(truth.frames() > 0 && truth.idle_outside(&live.away).as_nanos() as f64 <= span / 100.0);
        let sent = rig.weir.worker.directions()[0].counters().sent.packets;
        assert!(sent >= truth.frames() + rig.card.in_flight() as u64);
        rig.finish();
    }
}
