//! Two threads under the real clock: one turns weir, one is the card.
//!
//! A thread that was away for more than 50 us cannot send, or complete: idle time of the wire that overlaps such a gap
//! of either thread does not count. What does must be short whatever else the machine does. weir cannot tell a card's
//! thread that was away from a card that completes in batches, so that the longest time that one was counts as a batch
//! period B in the bar of how long frames take: two windows, four frame times and 2 B. Runs in which threads are away
//! for a tenth of the time say nothing of it.

use crate::rig::{Behind, FULL, Live, Rig, card, ms};
use dpdk::testing::eal;
use engine::completion::source::Source;
use shaper::time::Duration;
use sim::nic::{Config, on_wire};

/// Idle for no more than a hundredth of the run; half of all frames out within the bar.
#[test]
fn the_wire_is_busy_and_the_ring_is_short() {
    let eal = eal();
    for behind in [Behind::Rings, Behind::Vhost] {
        for rate in [100_000_000, 1_000_000_000] {
            let config = Config { ring: 1_024, ..card(rate) };
            let (rig, live) = Rig::new(&eal, behind, config, None).live(ms(200), ms(300));
            Report::new(&rig, &live).check("no governor", behind, rate);
            rig.finish();
            let bound = Duration::from_nanos(200_000 + 4 * u64::from(on_wire(FULL)) * 8_000_000_000 / rate);
            let kept = (0..REPEATS).any(|_| {
                let rig = Rig::new(&eal, behind, config, Some(Source::Held));
                let (rig, live) = rig.live(ms(1_000), ms(1_000));
                let report = Report::new(&rig, &live);
                report.check("governor", behind, rate);
                rig.finish();
                report.away > MOSTLY_THERE || report.p50 <= bound + live.longest + live.longest
            });
            assert!(kept, "{behind:?} at {rate} bit/s: frames take longer in {REPEATS} runs");
        }
    }
}

/// What a run came to.
struct Report {
    /// Shares of the wire's time: used, and idle outside of gaps.
    share: f64,
    idle: f64,
    p50: Duration,
    p99: Duration,
    /// How often a thread was away, and for which share of the run.
    gaps: usize,
    away: f64,
    longest: Duration,
}

impl Report {
    fn new(rig: &Rig<'_>, live: &Live) -> Self {
        let truth = rig.card.truth();
        let part = |time: Duration| time.as_nanos() as f64 / live.span.as_nanos() as f64;
        let away = live.away.iter().fold(Duration::ZERO, |sum, gap| sum + gap.end.since(gap.start));
        Self {
            share: truth.share(rig.now, rig.card.rate()),
            idle: part(truth.idle_outside(&live.away)),
            p50: truth.residence(50.0),
            p99: truth.residence(99.0),
            gaps: live.away.len(),
            away: part(away),
            longest: live.longest,
        }
    }

    fn check(&self, what: &str, behind: Behind, rate: u64) {
        println!(
            "{behind:?}, {} Mbit/s, {what}: {:.2} % of the wire, idle outside gaps {:.3} %, residence p50 {} us, \
             p99 {} us; {} gaps, {:.1} % of the run, the longest {} us",
            rate / 1_000_000,
            100.0 * self.share,
            100.0 * self.idle,
            self.p50.as_micros(),
            self.p99.as_micros(),
            self.gaps,
            100.0 * self.away,
            self.longest.as_micros(),
        );
        assert!(self.share > 0.0 && self.idle <= 0.01, "the wire was idle while both threads ran");
    }
}

const REPEATS: usize = 3;
/// The share of a run that threads may be away if it shall say something about times.
const MOSTLY_THERE: f64 = 0.1;
