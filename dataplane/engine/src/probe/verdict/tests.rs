//! Verdicts on evidence that no driver here can give.

use super::super::ask::Answer::{Refused, Said};
use super::*;
use crate::completion::drivers::choose;
use dpdk::Errno;

fn verdict(driver: &str, evidence: Evidence) -> Verdict {
    Verdict::new(driver.to_owned(), 1024, choose(driver), evidence)
}

/// Eight frames in flight, of which nothing was seen, and what the calls said of them.
fn silent(first: u32, last: u32) -> Evidence {
    let refused = Refused(Errno::ENOTSUP);
    let calls = Calls { in_use: refused, freed: refused, ..Calls::default() };
    Evidence {
        sent: 9,
        idle: Calls { first: Said(1), last: Said(1), ..calls },
        busy: Calls { first: Said(first), last: Said(last), in_flight: 8, ..calls },
        ..Evidence::default()
    }
}

#[test]
fn where_a_driver_counts_from_is_found_out() {
    for (answers, source) in [
        ((1, 0), Source::Status(From::Tail)),
        ((0, 1), Source::Status(From::Oldest)),
        ((0, 0), Source::Submit),
        ((1, 1), Source::Submit),
    ] {
        let verdict = verdict("net_new", silent(answers.0, answers.1));
        assert_eq!((verdict.source, verdict.nudge), (source, Nudge::None), "{verdict}");
        let lies = usize::from(source == Source::Submit);
        assert_eq!(verdict.evidence.lies().count(), lies, "{verdict}");
    }
}

#[test]
fn what_contradicts_itself_is_not_believed() {
    let mut evidence = silent(1, 0);
    evidence.idle.first = Said(0);
    let found = verdict("net_e1000_em", evidence);
    assert_eq!(found.source, Source::Submit);
    assert!(
        found
            .to_string()
            .contains("not believed: rte_eth_tx_descriptor_status says that an idle ring is waiting")
    );

    let mut evidence = Evidence { shown_by: Some(Nudge::EmptyBurst), ..silent(1, 0) };
    (evidence.busy.in_use, evidence.busy.freed) = (Said(0), Said(0));
    let found = verdict("net_new", evidence);
    assert_eq!((found.source, found.nudge), (Source::Held, Nudge::EmptyBurst));
    let lies: Vec<_> = found.evidence.lies().collect();
    assert_eq!(lies.len(), 2, "queue_count and done_cleanup: {lies:?}");
}

#[test]
fn the_next_best_is_taken() {
    let mut counts = silent(1, 1);
    counts.busy.in_use = Said(8);
    assert_eq!(verdict("net_cn10k", counts).source, Source::QueueCount);
    let lazy = Evidence { shown_after: Some(480), ..silent(1, 1) };
    let found = verdict("net_new", lazy);
    assert_eq!(found.source, Source::Held);
    assert!(found.to_string().contains("after 480 more, and by nothing else"), "{found}");
    let stuck = verdict("net_ring", Evidence { refused: 9, ..silent(1, 1) });
    assert_eq!(stuck.source, Source::Held, "what is known of the driver holds");
    assert!(stuck.is_as_known() && stuck.to_string().contains("nothing was learned"), "{stuck}");
    let dark = verdict("net_new", Evidence { refused: 1, ..Evidence::default() });
    assert!(dark.to_string().contains("is the link up?") && dark.is_as_known());
}

#[test]
fn times_are_those_of_all_frames() {
    assert_eq!(Times::of(&mut []), None);
    let mut times: Vec<_> = [5, 1, 9].into_iter().map(Duration::from_micros).collect();
    let [min, median, max] = [1, 5, 9].map(Duration::from_micros);
    assert_eq!(Times::of(&mut times), Some(Times { count: 3, min, median, max }));
}
