//! Building one link: devices attached, pools made, ports started, directions put together.

use crate::classify::{Classifier, ETHERNET, Wants};
use crate::completion::drivers::{Choice, choose, choose_for};
use crate::completion::source::Source;
use crate::delays::{Recorder, tins};
use crate::direction::{Direction, Settings};
use crate::egress::Egress;
use crate::gate::{self, Gate};
use crate::interface::Interface;
use crate::line::{LineLink, LinePort, Place};
use crate::links::LinkWatch;
use crate::plan::{DirectionPlan, GovernorPlan, LinkFault, LinkPlan, PortPlan, Step, Toggle, Way};
use crate::pool::{self, CACHE, PieceSum, PoolSum};
use crate::split::offload::{self, Verdict};
use crate::talkers::Talkers;
use dpdk::mempool::HEADROOM;
use dpdk::port::{PortWarning, Started};
use dpdk::{Eal, Lcore, Mempool, MempoolConfig, Port, PortConfig, RxOffloads, RxQueue, TxOffloads, TxQueue};
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::Qdisc;
use shaper::rate::{Framing, Limiter, Overhead};
use shaper::rng::SplitMix;
use shaper::units::Rate;

/// Builds one link.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    pub(crate) eal: &'a Eal,
    pub(crate) link: &'a LinkPlan,
    pub(crate) secret: [u8; 16],
    pub(crate) index: usize,
    pub(crate) worker: usize,
}

impl Builder<'_> {
    /// Opens both ports and appends the link's directions to those of its worker.
    pub(crate) fn build(
        &self,
        directions: &mut Vec<Direction>,
        tell: &mut dyn FnMut(Step),
    ) -> Result<LineLink, LinkFault> {
        let lcores = Lcore::all(self.eal).len() as u32;
        let [sum_a, sum_b] = self.link.pools(lcores);
        let name = |side| format!("weir-{}{side}", self.index);
        let gro = |way: &Option<DirectionPlan>| way.as_ref().is_some_and(|way| way.gro);
        let (up, down) = (gro(&self.link.up), gro(&self.link.down));
        let (a, started_a) = open(self.eal, &self.link.a, name('a'), sum_a, up, tell)?;
        let (b, started_b) = open(self.eal, &self.link.b, name('b'), sum_b, down, tell)?;
        let pieces = self.link.piece_pools(lcores);
        let (up, down) = (pair(started_a.rx, started_b.tx), pair(started_b.rx, started_a.tx));
        let (mut ways, mut idle) = (Vec::new(), Vec::new());
        let plans = [
            (Way::Up, up, &self.link.up, (&self.link.b, &b)),
            (Way::Down, down, &self.link.down, (&self.link.a, &a)),
        ];
        for ((way, queues, plan, egress), sum) in plans.into_iter().zip(pieces) {
            match plan {
                Some(plan) => {
                    ways.push((way, Place { worker: self.worker, direction: directions.len() }));
                    if let Some(queues) = queues {
                        let buffers = self.buffers(way, sum, egress.1)?;
                        directions.push(self.direction(way, queues, plan, egress, &buffers)?);
                    }
                }
                None => idle.extend(queues),
            }
        }
        let watch = LinkWatch::new(self.link.propagate_link);
        let slots = [(Way::Up, &self.link.up), (Way::Down, &self.link.down)].into_iter();
        let slots = slots.filter_map(|(way, plan)| Some((way, pool::slots(&plan.as_ref()?.qdisc))));
        Ok(LineLink::new(self.link.name.clone(), a, b, ways, slots.collect(), watch, idle))
    }

    fn direction(
        &self,
        way: Way,
        (rx, tx): (RxQueue, TxQueue),
        plan: &DirectionPlan,
        (port_plan, port): (&PortPlan, &LinePort),
        buffers: &Mempool,
    ) -> Result<Direction, LinkFault> {
        let qdisc = Qdisc::new(&plan.qdisc, pool::slots(&plan.qdisc) as usize)?;
        let outer = plan.bandwidth.filter(|_| !qdisc.shapes());
        let limiter = outer.map(|rate| Limiter::new(rate, plan.catch_up)).transpose()?;
        let [seed16, seed32] = self.seeds(way);
        let egress = Egress::new(qdisc, limiter, plan.overhead, SplitMix::new(seed16, seed32))
            .recording(Recorder::new(tins(&plan.qdisc)));
        let classifier = Classifier::new(FlowHasher::new(self.secret), Wants::of(&plan.qdisc), &plan.rules);
        let settings = Settings {
            mtu: port_plan.mtu,
            link_down_hold: self.link.link_down_hold,
            split: plan.split,
            gro: plan.gro,
            link_speed: port.speed(),
            offload: port.verdict.offload,
        };
        let gate = port_plan
            .governor
            .map(|governor| self.gate(way, &tx, governor, plan, port).recording(tins(&plan.qdisc)));
        let talkers = Talkers::new(FlowHasher::new(self.secret), seed16.rotate_left(17) ^ seed32);
        let direction = Direction::new(rx, tx, classifier, egress, settings, buffers).sampled(talkers);
        Ok(match gate {
            Some(gate) => direction.governed(gate),
            None => direction,
        })
    }

    /// The buffers that pieces of super-packets are made of on one way.
    fn buffers(&self, way: Way, sum: Option<PieceSum>, exit: &LinePort) -> Result<Mempool, LinkFault> {
        let sum = sum.unwrap_or_else(|| PieceSum::new(&PoolSum::new(0, 0, 0, 0, 0), 0, 0));
        let by_reference = exit.sends_segments();
        let config = MempoolConfig {
            cache: CACHE,
            data_room: PieceSum::data_room(by_reference),
            node: exit.info.node,
            ..MempoolConfig::new(format!("weir-{}-{}", self.index, way.name()), sum.total(by_reference))
        };
        Mempool::create(self.eal, &config).map_err(|cause| LinkFault::Pieces { cause, sum })
    }

    /// What keeps the transmit ring short.
    fn gate(
        &self,
        way: Way,
        tx: &TxQueue,
        governor: GovernorPlan,
        plan: &DirectionPlan,
        port: &LinePort,
    ) -> Gate {
        let Choice { source, nudge, .. } = port.completions;
        let side = if way == Way::Up { 'b' } else { 'a' };
        let heads = MempoolConfig {
            cache: 0,
            data_room: if tx.multi_segs() { gate::HEAD + HEADROOM } else { pool::BUFFER as u16 },
            node: port.info.node,
            ..MempoolConfig::new(format!("weir-{}{side}-heads", self.index), HEADS)
        };
        let speed = port.port.link().ok().and_then(|link| link.speed_mbps);
        Gate::new(gate::Settings {
            plan: governor,
            source,
            nudge,
            ring: tx.ring(),
            framing: if is_framed(&plan.overhead) { FRAMING } else { 0 },
            // Needed for frames of others alone, and counted where it is missing then.
            heads: (source == Source::Held).then(|| Mempool::create(self.eal, &heads).ok()).flatten(),
            wire: plan
                .bandwidth
                .or_else(|| speed.map(|mbps| Rate::from_bits_per_sec(u64::from(mbps) * 1_000_000))),
        })
    }

    /// Seeds of a direction's random streams: from the secret, different for each direction.
    fn seeds(&self, way: Way) -> [u64; 2] {
        let secret = u128::from_le_bytes(self.secret);
        let own = (self.index as u64) << 1 | u64::from(way == Way::Down);
        [secret as u64 ^ own, (secret >> 64) as u64 ^ own]
    }
}

/// Attaches, configures and starts one port.
pub(crate) fn open(
    eal: &Eal,
    plan: &PortPlan,
    name: String,
    sum: PoolSum,
    gro: bool,
    tell: &mut dyn FnMut(Step),
) -> Result<(LinePort, Started), LinkFault> {
    tell(Step::Attach(plan.devargs.clone()));
    let device = eal.find_or_attach(&plan.devargs)?;
    let mut port = Port::open(eal, &device)?;
    let info = port.info()?;
    let max = info.max_rx_pktlen.saturating_sub(info.overhead).min(info.max_mtu.into());
    if !(info.min_mtu.into()..=max).contains(&u32::from(plan.mtu)) {
        return Err(LinkFault::Mtu { port: device, asked: plan.mtu, min: info.min_mtu, max });
    }
    tell(Step::Memory { port: device, bytes: sum.bytes(eal.has_hugepages()) });
    let config = MempoolConfig {
        cache: CACHE,
        data_room: pool::BUFFER as u16,
        node: info.node,
        ..MempoolConfig::new(name, sum.total())
    };
    let pool = Mempool::create(eal, &config).map_err(|cause| LinkFault::Pool { cause, sum })?;
    let wanted = PortConfig {
        rx_desc: plan.rx_ring,
        tx_desc: plan.tx_ring,
        mtu: Some(plan.mtu),
        rx_offloads: rx_offloads(plan.lro, gro, &info.driver),
        tx_offloads: TxOffloads::MULTI_SEGS | offload::wanted(plan.tso, &info.driver),
        ..PortConfig::default()
    };
    tell(Step::Start(plan.devargs.clone()));
    let mut warnings = port.warnings();
    warnings.extend(port.configure(&wanted, &pool)?.warnings.iter().cloned());
    // What fits one buffer is at worst copied there: only larger frames may be lost for it.
    warnings.retain(|warning| *warning != PortWarning::NoMultiSegs || sum.segments > 1);
    let mut started = port.start()?;
    warnings.append(&mut started.warnings);
    let interface = Interface::find(&info.driver, info.if_index);
    let enabled = port.configured().map_or(TxOffloads::NONE, |configured| configured.tx_offloads);
    let (verdict, completions) = match started.tx.first_mut() {
        Some(tx) => {
            (Verdict::new(&info, enabled, plan.tso, tx, &pool), choose_for(&info.driver, tx, tx.ring()))
        }
        None => (Verdict::NONE, choose(&info.driver)),
    };
    Ok((LinePort { port, info, pool, warnings, interface, verdict, completions }, started))
}

/// What to ask of a port on receive. Checksums are worth knowing only where packets are merged, and with
/// super-packets, whose sender may have left theirs to the port.
fn rx_offloads(lro: Toggle, gro: bool, driver: &str) -> RxOffloads {
    let checksums = RxOffloads::IPV4_CKSUM | RxOffloads::TCP_CKSUM | RxOffloads::UDP_CKSUM;
    let lro = match lro {
        Toggle::On => true,
        Toggle::Off => false,
        Toggle::Auto => MARKED_BY_THE_SENDER.contains(&driver),
    };
    match (lro, gro) {
        (true, _) => RxOffloads::SCATTER | checksums | RxOffloads::TCP_LRO,
        (false, true) => RxOffloads::SCATTER | checksums,
        (false, false) => RxOffloads::SCATTER,
    }
}

/// Drivers whose super-packets are those of the sender, who says how they are to be cut. What a NIC has
/// merged cannot be cut into what it was.
const MARKED_BY_THE_SENDER: [&str; 2] = ["net_virtio_user", "net_vhost"];

/// Whether the overhead is that of an Ethernet wire: what the port's own wire has too.
fn is_framed(overhead: &Overhead) -> bool {
    let network = if overhead.ip_length { ETHERNET as i16 } else { 0 };
    overhead.framing == Framing::None && i32::from(overhead.bytes - network) == FRAMING as i32
}

/// One queue each way.
fn pair(rx: Vec<RxQueue>, tx: Vec<TxQueue>) -> Option<(RxQueue, TxQueue)> {
    rx.into_iter().next().zip(tx.into_iter().next())
}

/// Buffers for first segments, of which each mark takes one: a ring has few marks, and what finds none
/// is counted.
const HEADS: u32 = 255;

/// Preamble, FCS and gap of a frame on an Ethernet wire.
const FRAMING: u32 = Overhead::ETHERNET.bytes as u32;
