//! weir's own loop inside this process: a direction made from the keys that a file would have.

use std::os::unix::process::parent_id;

use anyhow::{Context, Result, anyhow};
use config::model;
use dpdk::mempool::HEADROOM;
use dpdk::{Eal, EalConfig, Mempool, MempoolConfig, RxQueue, TxQueue};
use engine::classify::{Classifier, Wants};
use engine::completion::drivers::{Choice, choose};
use engine::delays::{Recorder, tins};
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::gate::{self, Gate};
use engine::plan::GovernorPlan;
use engine::pool::{self, PieceSum};
use engine::split::offload::Offload;
use shaper::flow::hash::FlowHasher;
use shaper::gso::Split;
use shaper::qdisc::Qdisc;
use shaper::rate::Limiter;
use shaper::rng::SplitMix;
use shaper::time::Duration;
use shaper::units::Rate;

use crate::forwarder::RuntimeFolder;

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

/// How a direction shall be, beside its keys.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// Unique in the process; pools are named after it.
    pub name: &'a str,
    /// Of the egress port.
    pub mtu: u16,
    /// What becomes of super-packets.
    pub split: Split,
    /// What may be left to the egress port.
    pub offload: Offload,
    /// Rate of the egress port's wire, if anyone knows it.
    pub wire: Option<Rate>,
    /// What keeps its ring short.
    pub governor: Option<GovernorPlan>,
}

impl Way<'_> {
    /// The direction between two queues.
    ///
    /// # Errors
    /// The discipline or the rate is out of range; no memory.
    pub fn direction(
        &self,
        eal: &Eal,
        rx: RxQueue,
        tx: TxQueue,
        keys: &model::Direction,
    ) -> Result<Direction> {
        let qdisc = Qdisc::new(&keys.qdisc, pool::slots(&keys.qdisc) as usize)?;
        let outer = keys.bandwidth.filter(|_| !qdisc.shapes());
        let limiter = outer.map(|rate| Limiter::new(rate, keys.catch_up)).transpose()?;
        let egress = Egress::new(qdisc, limiter, keys.overhead, SplitMix::new(SEEDS[0], SEEDS[1]))
            .recording(Recorder::new(tins(&keys.qdisc)));
        let classifier = Classifier::new(hasher(), Wants::of(&keys.qdisc), &keys.rules);
        let settings = Settings {
            mtu: self.mtu,
            link_down_hold: HOLD,
            split: self.split,
            link_speed: self.wire,
            offload: self.offload,
            ..Settings::default()
        };
        let pieces = self.pool(eal, "pieces", PIECES, PieceSum::data_room(tx.multi_segs()))?;
        let gate = self.governor.map(|plan| self.gate(eal, &tx, plan)).transpose()?;
        let direction = Direction::new(rx, tx, classifier, egress, settings, &pieces);
        Ok(match gate {
            Some(gate) => direction.governed(gate),
            None => direction,
        })
    }

    /// The gate as weir makes it for a port of rings.
    fn gate(&self, eal: &Eal, tx: &TxQueue, plan: GovernorPlan) -> Result<Gate> {
        let Choice { source, nudge, .. } = choose("net_ring");
        let heads = self.pool(eal, "heads", HEADS, gate::HEAD + HEADROOM)?;
        let (ring, wire) = (tx.ring(), self.wire);
        Ok(Gate::new(gate::Settings { plan, source, nudge, ring, framing: 0, heads: Some(heads), wire }))
    }

    fn pool(&self, eal: &Eal, kind: &str, count: u32, data_room: u16) -> Result<Mempool> {
        let config = MempoolConfig {
            data_room,
            cache: 0,
            ..MempoolConfig::new(format!("{}-{kind}", self.name), count)
        };
        Ok(Mempool::create(eal, &config)?)
    }
}

/// The runtime folder of [`eal`], which it does not take away whole. The process that started this one does; should that
/// have been killed, this one must.
pub fn runtime_folder() -> RuntimeFolder {
    RuntimeFolder::of(&prefix())
}

fn prefix() -> String {
    format!("hwtests-rig-{}", parent_id())
}

/// The EAL of a rig without hugepages, its lcores as given (`--lcores`), in a process of its own; its runtime folder is
/// named after the process that started it.
///
/// # Errors
/// What DPDK refuses.
pub fn eal(lcores: &str) -> Result<Eal> {
    let arguments =
        ["--no-huge", "-m", "512", "--no-shconf", "--no-pci", "--no-telemetry", "--lcores", lcores];
    let config = arguments.iter().fold(EalConfig::new(prefix()), |config, argument| config.arg(*argument));
    Eal::init(&config).context("DPDK does not start")
}

/// What flows are told apart by.
pub(crate) const fn hasher() -> FlowHasher {
    FlowHasher::new(SECRET)
}

/// Known, so that two runs put flows into the same queues.
const SECRET: [u8; 16] = *b"known, as nobody";
const SEEDS: [u64; 2] = [1, 2];
/// More pieces than the disciplines of the rigs, a ring and a build hold.
const PIECES: u32 = 32_767;
const HEADS: u32 = 255;
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
