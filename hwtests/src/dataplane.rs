//! weir's own loop inside this process: a direction made from the keys that a file would have.

use std::os::unix::process::parent_id;

use anyhow::{Context, Result, anyhow};
use config::model;
use dpdk::{Eal, EalConfig, RxQueue, TxQueue};
use engine::classify::{Classifier, Wants};
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::pool;
use engine::sojourn::Sojourn;
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::Qdisc;
use shaper::rate::Limiter;
use shaper::rng::SplitMix;
use shaper::time::Duration;

/// What a direction of a file with these keys (as inside an inline table) means.
///
/// # Errors
/// What `weir check` would say.
pub fn parse(keys: &str) -> Result<model::Direction> {
    let text = format!("[[link]]\nname = \"rig\"\na = \"net_null0\"\nb = \"net_null1\"\nup = {{ {keys} }}\n");
    let loaded = config::parse("the case", &text).map_err(|errors| anyhow!("{errors}"))?;
    let link = loaded.config.links.into_iter().next();
    link.and_then(|link| link.up).context("no direction in it")
}

/// A direction between two queues.
///
/// # Errors
/// The discipline or the rate is out of range.
pub fn direction(rx: RxQueue, tx: TxQueue, keys: &model::Direction, mtu: u16) -> Result<Direction> {
    let qdisc = Qdisc::new(&keys.qdisc, pool::slots(&keys.qdisc) as usize)?;
    let outer = keys.bandwidth.filter(|_| !qdisc.shapes());
    let limiter = outer.map(|rate| Limiter::new(rate, keys.catch_up)).transpose()?;
    let egress = Egress::new(qdisc, limiter, keys.overhead, SplitMix::new(SEEDS[0], SEEDS[1]))
        .recording(Sojourn::new(&keys.qdisc));
    let classifier = Classifier::new(FlowHasher::new(SECRET), Wants::of(&keys.qdisc), &keys.rules);
    let settings = Settings { mtu, link_down_hold: HOLD, split: keys.split };
    Ok(Direction::new(rx, tx, classifier, egress, settings))
}

/// The EAL of a rig without hugepages, its lcores as given (`--lcores`), in a process of its own; its runtime folder is
/// named after the process that started it.
///
/// # Errors
/// What DPDK refuses.
pub fn eal(lcores: &str) -> Result<Eal> {
    let prefix = format!("hwtests-rig-{}", parent_id());
    let arguments =
        ["--no-huge", "-m", "512", "--no-shconf", "--no-pci", "--no-telemetry", "--lcores", lcores];
    let config = arguments.iter().fold(EalConfig::new(prefix), |config, argument| config.arg(*argument));
    Eal::init(&config).context("DPDK does not start")
}

/// Known, so that two runs put flows into the same queues.
const SECRET: [u8; 16] = *b"known, as nobody";
const SEEDS: [u64; 2] = [1, 2];
const HOLD: Duration = Duration::from_millis(1_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_a_file() {
        let direction = parse("qdisc = \"fifo\", limit = 7, bandwidth = \"5Mbit\"").unwrap();
        assert_eq!(direction.bandwidth.unwrap().bytes_per_sec(), 625_000);
        let error = parse("qdisc = \"fifi\"").unwrap_err().to_string();
        assert!(error.contains("fifi"), "{error}");
    }
}
