//! The fault: without a governor every frame that fits stands in the ring, below the scheduler.

use crate::rig::{FULL, Rig, card, ms};
use dpdk::testing::eal;
use shaper::time::Duration;
use sim::nic::{Config, on_wire};

/// 512 descriptors at 100 Mbit/s: 63 ms of full frames with preamble, FCS and gap.
#[test]
fn a_full_ring_stands_below_the_scheduler() {
    let eal = eal();
    for (rate, ring) in [(100_000_000, 512), (1_000_000_000, 4096)] {
        let config = Config { ring, ..card(rate) };
        let mut rig = Rig::ungoverned(&eal, config);
        rig.run(ms(300));
        rig.card.measure(rig.now);
        rig.run(ms(300));
        let frame = u64::from(on_wire(FULL)) * 8_000_000_000 / rate;
        assert_eq!(rig.card.in_flight(), ring as usize, "all of it");
        let (residence, full) =
            (rig.card.truth().residence(50.0), Duration::from_nanos(u64::from(ring) * frame));
        assert!(full.as_nanos().abs_diff(residence.as_nanos()) <= 2 * frame, "{residence:?}, not {full:?}");
        let share = rig.card.truth().share(rig.now, config.rate);
        assert!((0.999..1.001).contains(&share), "{share}");
        rig.finish();
    }
}
