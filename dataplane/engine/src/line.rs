//! Everything between a [`Plan`] and a running dataplane: ports opened, pools made, workers
//! launched; then link states followed and statistics fetched; at last all of it given back.
//!
//! Runs on the control thread. A plan that cannot be carried out whole leaves nothing running.

use crate::classify::{Classifier, Wants};
use crate::clock::Clock;
use crate::direction::{Direction, Settings};
use crate::egress::Egress;
use crate::links::{Action, LinkWatch, Side};
use crate::mailbox::{self, Command, Control};
use crate::page::Page;
use crate::plan::{DirectionPlan, LinkPlan, Plan, PortPlan, StartError, Way};
use crate::pool::{self, CACHE, PoolSum};
use crate::sojourn::{Sojourn, Total};
use crate::worker::{Poll, Worker};
use dpdk::port::{PortInfo, PortWarning, Started};
use dpdk::{Eal, Lcore, LcoreHandle, Mempool, MempoolConfig, Port, PortConfig, RxQueue, TxQueue};
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::Qdisc;
use shaper::rate::Limiter;
use shaper::rng::SplitMix;

/// A running dataplane.
#[derive(Debug)]
pub struct Line {
    // Before the links: a worker that still runs holds queues of their ports.
    workers: Vec<LineWorker>,
    links: Vec<LineLink>,
}

/// One link at work.
#[derive(Debug)]
pub struct LineLink {
    /// Port `a`.
    pub a: LinePort,
    /// Port `b`.
    pub b: LinePort,
    /// The ways that are forwarded, with their place.
    pub ways: Vec<(Way, Place)>,
    watch: LinkWatch,
    /// Queues of a way that is not forwarded; a started port keeps them all.
    _idle: Vec<(RxQueue, TxQueue)>,
}

/// Where a direction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the worker.
    pub worker: usize,
    /// Index of the direction on the worker's page.
    pub direction: usize,
}

/// One port at work.
#[derive(Debug)]
pub struct LinePort {
    /// The port.
    pub port: Port,
    /// Its capabilities.
    pub info: PortInfo,
    /// What it receives into.
    pub pool: Mempool,
    /// What it does without.
    pub warnings: Vec<PortWarning>,
}

/// One worker, as control sees it.
#[derive(Debug)]
pub struct LineWorker {
    /// Its lcore.
    pub lcore: u32,
    /// Where it reads the time.
    pub clock: &'static str,
    /// Its last statistics.
    pub page: Page,
    /// How long packets waited in each direction since the start.
    pub sojourn: Vec<Total>,
    control: Control,
    /// `None` once it has been stopped.
    handle: Option<LcoreHandle<Worker>>,
}

impl Line {
    /// Opens, builds and launches everything. The links are dealt out over the worker lcores.
    ///
    /// # Errors
    /// [`StartError`]; all that was opened is closed again.
    pub fn start(eal: &Eal, plan: &Plan) -> Result<Self, StartError> {
        let lcores = Lcore::workers(eal);
        if lcores.is_empty() {
            return Err(StartError::NoWorker);
        }
        let used = lcores.len().min(plan.links.len().max(1));
        let mut directions: Vec<Vec<Direction>> = (0..used).map(|_| Vec::new()).collect();
        let mut links = Vec::new();
        for (index, link) in plan.links.iter().enumerate() {
            let worker = index % used;
            if let Some(directions) = directions.get_mut(worker) {
                let builder = Builder { eal, link, secret: plan.secret, index, worker };
                links.push(builder.build(directions)?);
            }
        }
        let mut workers = Vec::new();
        for (lcore, directions) in lcores.iter().zip(directions) {
            workers.push(LineWorker::launch(eal, lcore, directions, plan.poll)?);
        }
        let mut line = Self { workers, links };
        line.tend();
        Ok(line)
    }

    /// Follows the link states. Call it some tens of times a second.
    pub fn tend(&mut self) {
        for link in &mut self.links {
            for action in link.watch.observe(link.a.is_up(), link.b.is_up()) {
                let done = match action {
                    Action::Tell(side, up) => tell(&self.workers, link, side, up),
                    Action::Hold(side) => link.port(side).port.set_link_down().is_ok(),
                    Action::Release(side) => link.port(side).port.set_link_up().is_ok(),
                };
                if !done {
                    link.watch.failed(action);
                }
            }
        }
    }

    /// The links.
    pub fn links(&self) -> &[LineLink] {
        &self.links
    }

    /// The workers, with the pages they sent last.
    pub fn workers(&self) -> &[LineWorker] {
        &self.workers
    }

    /// Asks every worker for its statistics; they come within a turn, see [`Line::fetch`]. A worker
    /// that is stuck is asked no more, its last page stays.
    pub fn ask(&self) {
        for worker in self.workers.iter().filter(|worker| worker.handle.is_some()) {
            let page = Box::new(worker.page.next());
            let _ = worker.control.send(Command::Report(page));
        }
    }

    /// Takes the statistics that have come; `true` if every worker that runs has sent some.
    pub fn fetch(&mut self) -> bool {
        let mut all = true;
        for worker in self.workers.iter_mut().filter(|worker| worker.handle.is_some()) {
            match worker.control.page() {
                Some(page) => worker.keep(*page),
                None => all = false,
            }
        }
        all
    }

    /// Whether a worker has ended by itself, which it never should.
    pub fn has_failed(&self) -> bool {
        self.workers.iter().any(|worker| worker.handle.as_ref().is_some_and(LcoreHandle::is_finished))
    }

    /// Stops the workers: they stop receiving, send what is due, give up the rest, counted. Their
    /// last statistics stay; the ports stay open until the line is dropped.
    pub fn stop(&mut self) {
        for worker in &self.workers {
            let _ = worker.control.send(Command::Stop);
        }
        for worker in &mut self.workers {
            let Some(handle) = worker.handle.take() else { continue };
            if let Ok(mut ended) = handle.join() {
                let mut page = worker.page.next();
                ended.report(&mut page);
                ended.exchange_sojourn(&mut page);
                worker.keep(page);
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop();
    }
}

impl LineLink {
    fn port(&self, side: Side) -> &LinePort {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }
}

impl LinePort {
    /// Whether the link is up and the device is there.
    pub fn is_up(&self) -> bool {
        !self.port.vanished() && (self.port.link().is_ok_and(|link| link.up) || self.is_elsewhere())
    }

    /// Whether this is a tap in another network namespace. Its driver asks for the link state in the
    /// namespace that it was made in, so it says "down" for ever, while frames pass.
    fn is_elsewhere(&self) -> bool {
        self.info.driver == "net_tap"
            && nix::net::if_::if_nameindex()
                .is_ok_and(|here| here.iter().all(|interface| interface.index() != self.info.if_index))
    }

    fn open(
        eal: &Eal,
        link: &str,
        plan: &PortPlan,
        name: String,
        sum: PoolSum,
    ) -> Result<(Self, Started), StartError> {
        let failed = |cause| StartError::Port { link: link.to_owned(), cause };
        let device =
            eal.attach(&plan.devargs).map_err(|cause| StartError::Attach { link: link.to_owned(), cause })?;
        let mut port = Port::open(eal, &device).map_err(failed)?;
        let info = port.info().map_err(failed)?;
        let longest = info.max_rx_pktlen.saturating_sub(info.overhead).min(info.max_mtu.into());
        if !(info.min_mtu.into()..=longest).contains(&u32::from(plan.mtu)) {
            let (min, max) = (info.min_mtu, longest);
            return Err(StartError::Mtu { link: link.to_owned(), port: device, asked: plan.mtu, min, max });
        }
        let config = MempoolConfig {
            cache: CACHE,
            data_room: pool::BUFFER as u16,
            node: info.node,
            ..MempoolConfig::new(name, sum.total())
        };
        let pool = Mempool::create(eal, &config).map_err(|cause| StartError::Pool {
            link: link.to_owned(),
            cause,
            sum,
        })?;
        let wanted = PortConfig {
            rx_desc: plan.rx_ring,
            tx_desc: plan.tx_ring,
            mtu: Some(plan.mtu),
            ..PortConfig::default()
        };
        let mut warnings = port.warnings();
        warnings.extend(port.configure(&wanted, &pool).map_err(failed)?.warnings.iter().cloned());
        let mut started = port.start().map_err(failed)?;
        warnings.append(&mut started.warnings);
        Ok((Self { port, info, pool, warnings }, started))
    }
}

/// Builds one link.
struct Builder<'a> {
    eal: &'a Eal,
    link: &'a LinkPlan,
    secret: [u8; 16],
    index: usize,
    worker: usize,
}

impl Builder<'_> {
    fn build(&self, directions: &mut Vec<Direction>) -> Result<LineLink, StartError> {
        let lcores = Lcore::all(self.eal).len() as u32;
        let [sum_a, sum_b] = self.link.pools(lcores);
        let name = |side| format!("weir-{}{side}", self.index);
        let (a, started_a) = LinePort::open(self.eal, &self.link.name, &self.link.a, name('a'), sum_a)?;
        let (b, started_b) = LinePort::open(self.eal, &self.link.name, &self.link.b, name('b'), sum_b)?;
        let (up, down) = (pair(started_a.rx, started_b.tx), pair(started_b.rx, started_a.tx));
        let (mut ways, mut idle) = (Vec::new(), Vec::new());
        let plans = [
            (Way::Up, up, &self.link.up, self.link.b.mtu),
            (Way::Down, down, &self.link.down, self.link.a.mtu),
        ];
        for (way, queues, plan, mtu) in plans {
            match plan {
                Some(plan) => {
                    ways.push((way, Place { worker: self.worker, direction: directions.len() }));
                    if let Some(queues) = queues {
                        directions.push(self.direction(way, queues, plan, mtu)?);
                    }
                }
                None => idle.extend(queues),
            }
        }
        let watch = LinkWatch::new(self.link.propagate_link);
        Ok(LineLink { a, b, ways, watch, _idle: idle })
    }

    fn direction(
        &self,
        way: Way,
        (rx, tx): (RxQueue, TxQueue),
        plan: &DirectionPlan,
        mtu: u16,
    ) -> Result<Direction, StartError> {
        let link = || self.link.name.clone();
        let slots = pool::slots(&plan.qdisc) as usize;
        let qdisc =
            Qdisc::new(&plan.qdisc, slots).map_err(|cause| StartError::Qdisc { link: link(), cause })?;
        let limiter = match plan.bandwidth {
            Some(rate) if !qdisc.shapes() => Some(
                Limiter::new(rate, plan.catch_up)
                    .map_err(|cause| StartError::Rate { link: link(), cause })?,
            ),
            _ => None,
        };
        let [seed16, seed32] = self.seeds(way);
        let egress = Egress::new(qdisc, limiter, plan.overhead, SplitMix::new(seed16, seed32))
            .recording(Sojourn::new(&plan.qdisc));
        let classifier = Classifier::new(FlowHasher::new(self.secret), Wants::of(&plan.qdisc), &plan.rules);
        let settings = Settings { mtu, link_down_hold: self.link.link_down_hold };
        Ok(Direction::new(rx, tx, classifier, egress, settings))
    }

    /// Seeds of a direction's random streams: from the secret, different for each direction.
    fn seeds(&self, way: Way) -> [u64; 2] {
        let secret = u128::from_le_bytes(self.secret);
        let own = (self.index as u64) << 1 | u64::from(way == Way::Down);
        [secret as u64 ^ own, (secret >> 64) as u64 ^ own]
    }
}

/// One queue each way.
fn pair(rx: Vec<RxQueue>, tx: Vec<TxQueue>) -> Option<(RxQueue, TxQueue)> {
    rx.into_iter().next().zip(tx.into_iter().next())
}

impl LineWorker {
    fn keep(&mut self, page: Page) {
        self.page = page;
        for (total, sojourn) in self.sojourn.iter_mut().zip(&self.page.sojourn) {
            total.add(sojourn);
        }
    }

    fn launch(
        eal: &Eal,
        lcore: &Lcore,
        directions: Vec<Direction>,
        poll: Poll,
    ) -> Result<Self, StartError> {
        let (control, mailbox) = mailbox::pair();
        let clock = Clock::start(eal);
        let page = Page {
            sojourn: directions.iter().map(|direction| Sojourn::like(direction.egress().sojourn())).collect(),
            ..Page::new(directions.len())
        };
        let sojourn = directions.iter().map(|_| Total::default()).collect();
        let cause = clock.source();
        let worker = Worker::new(directions, mailbox);
        let handle = lcore.launch(move || {
            // Naps end on time then; without it they end late, which is no failure.
            let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS);
            worker.run(clock, poll)
        })?;
        Ok(Self { lcore: lcore.id(), clock: cause, page, sojourn, control, handle: Some(handle) })
    }
}

/// Tells the direction that sends on `side`, if there is one.
fn tell(workers: &[LineWorker], link: &LineLink, side: Side, up: bool) -> bool {
    let sender = match side {
        Side::A => Way::Down,
        Side::B => Way::Up,
    };
    link.ways.iter().filter(|(way, _)| *way == sender).all(|(_, place)| {
        let command = Command::Link { direction: place.direction, up };
        workers.get(place.worker).is_some_and(|worker| worker.control.send(command).is_ok())
    })
}

/// The kernel may delay a nap by 50 µs by default, which would double it.
const TIMER_SLACK_NS: u64 = 1_000;
