//! What a change of everything costs the packet path while thousands of packets wait and more arrive.
//!
//! `cargo run --release -p engine --example reload_storm [CHANGES] [PERCENT]` changes a running cake a thousand
//! times: rate, rtt, tins, isolation, overhead, ACK filter, washing, memory limit, splitting, merging, rules,
//! bounds of the governor. At 1 Mpps, then at 90 % (PERCENT) of what the worker carries with the settings that
//! cost most, found out before each stretch; some 4,000 packets wait each time; the last time with no isolation
//! that lumps flows together. The next change comes a millisecond after the last is done, and once the ring
//! before the worker is next to empty again. Between each two stretches with changes there is one without, as
//! long, to compare with.
//!
//! One thread turns the worker, feeds the ring before it and empties the ring behind it. Only turns count as
//! time: the clock that the worker is shown runs while it turns, and stands still while frames are made and
//! looked at. So it has a core of its own, as it were, and what it has to do is what it takes. Frames arrive
//! by that clock at a constant rate; those that find the ring of 1,023 full would be lost. Each bears the
//! number of its flow and its own, so that every one that is lost or overtaken is seen.
//!
//! Turns are timed by the TSC. Where the kernel says that the thread was off its CPU for most of a long turn,
//! that is a gap, which counts as no time and is printed apart. What a hypervisor takes shows nowhere but in
//! the turns without a change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark may panic, and reads its own clock"
)]

mod storm;
mod stream;
mod timing;

use dpdk::{Eal, EalConfig};
use storm::{ANY, APART, Bench, Load, Outcome};

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|number| number.parse::<u32>().ok());
    let (reloads, percent) = (arguments.next().unwrap_or(1_000), arguments.next().unwrap_or(90));
    let eal = Eal::init(&eal_config()).expect("the EAL starts");
    let share = Load::Share(f64::from(percent) / 100.0);
    for (name, load, modes) in [
        ("1 Mpps".to_owned(), Load::Rate(1e6), ANY),
        (format!("{percent} % load"), share, ANY),
        (format!("{percent} % load, flows apart"), share, APART),
    ] {
        let mut outcome = Bench::new(&eal, load, modes).storm(reloads.into());
        outcome.rates.sort_by(f64::total_cmp);
        print(&name, &outcome);
    }
}

fn print(name: &str, outcome: &Outcome) {
    let Outcome { changing, between, control, .. } = outcome;
    let row =
        |what: &str, value: f64, unit: &str| println!("{:<50}  {value:.1} {unit}", format!("{name}: {what}"));
    let count = |what: &str, value: u64, unit: &str| {
        println!("{:<50}  {value} {unit}", format!("{name}: {what}"));
    };
    count("changes taken up", outcome.reloads, "changes");
    row("frames arrived, median of stretches", outcome.rates[outcome.rates.len() / 2] / 1e6, "Mpps");
    count("lost with changes", outcome.lost, "packets");
    count("lost without changes", outcome.lost_without, "packets");
    count("overtaken", outcome.overtaken, "packets");
    count("sent", outcome.sent, "packets");
    count("waiting at a change, least", outcome.least_waiting, "packets");
    row("turn with a change, median", changing.micros(0.5), "us");
    row("turn with a change, p99", changing.micros(0.99), "us");
    row("turn with a change, longest", changing.longest(), "us");
    row("turn between changes, p99", between.micros(0.99), "us");
    row("turn without changes, p99", control.micros(0.99), "us");
    row("turn without changes, longest", control.longest(), "us");
    count("turns over 100 us, with a change", changing.over, "turns");
    count("turns over 100 us, without changes", control.over, "turns");
    count("gaps, with a change", changing.gaps, "gaps");
    count("gaps, without changes", control.gaps, "gaps");
    row("until all is moved, median", outcome.whole.micros(0.5), "us");
    row("until all is moved, longest", outcome.whole.longest(), "us");
    let [with, without] =
        [0, 1].map(|which: usize| outcome.waits[which].of_all().p99.as_nanos() as f64 / 1e3);
    row("wait of a packet with changes, p99", with, "us");
    row("wait of a packet without changes, p99", without, "us");
    row("heap grown by", outcome.heap_growth as f64 / 1024.0, "KiB");
    row("resident memory grown by in the second half", outcome.resident_growth as f64, "KiB");
}

fn eal_config() -> EalConfig {
    let config = EalConfig::new(format!("reload-storm-{}", std::process::id()));
    ["--no-huge", "-m", "256", "--no-shconf", "--no-pci", "-l", "0"].into_iter().fold(config, EalConfig::arg)
}
