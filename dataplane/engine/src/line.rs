//! Everything between a [`Plan`] and a running dataplane: ports opened, pools made, workers
//! launched; then link states followed and statistics fetched; at last all of it given back.
//!
//! Runs on the control thread. A plan that cannot be carried out whole leaves nothing running.

mod change;

pub use change::ChangeError;

use crate::builder::Builder;
use crate::clock::Clock;
use crate::completion::drivers::Choice;
use crate::delays::{ByKind, Recorder, Totals};
use crate::direction::Direction;
use crate::flight::{self, Flight};
use crate::interface::Interface;
use crate::links::{Action, LinkWatch, Side};
use crate::mailbox::{self, Command, Control};
use crate::page::Page;
use crate::plan::{Plan, StartError, Step, Way};
use crate::split::offload::Verdict;
use crate::talkers::{Sample, Watch};
use crate::worker::{Poll, Worker};
use dpdk::port::{PortInfo, PortWarning};
use dpdk::{Eal, Lcore, LcoreHandle, Mempool, Port, PortError, RxQueue, TxOffloads, TxQueue, tsc};
use shaper::gso::Split;
use shaper::units::Rate;
use thiserror::Error;

/// A running dataplane.
#[derive(Debug)]
pub struct Line {
    // Before the links: a worker that still runs holds queues of their ports.
    workers: Vec<LineWorker>,
    links: Vec<LineLink>,
    news: Vec<LinkWarning>,
    /// What it runs by, and since which change.
    plan: Plan,
    generation: u64,
    pending: Option<change::Pending>,
}

/// Something that `propagate-link` asked of a port, and that the port did not do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkWarning {
    /// Its driver cannot take a link down.
    #[error(
        "link {link:?}: propagate-link is of no use on port {port}: driver {driver} cannot take its link down, \
         so whoever is connected to it does not see when the other port's link is lost"
    )]
    CannotHold {
        /// The link.
        link: String,
        /// The port.
        port: String,
        /// Its driver.
        driver: String,
    },
    /// It was refused this time.
    #[error("link {link:?}: propagate-link: {cause}\n  it is tried again every few seconds")]
    Refused {
        /// The link.
        link: String,
        /// What the port said.
        cause: PortError,
    },
}

/// One link at work.
#[derive(Debug)]
pub struct LineLink {
    /// Its name.
    pub name: String,
    /// Port `a`.
    pub a: LinePort,
    /// Port `b`.
    pub b: LinePort,
    /// The ways that are forwarded, with their place.
    pub ways: Vec<(Way, Place)>,
    watch: LinkWatch,
    /// Link speeds of `a` and `b`, as the workers know them.
    speeds: [Option<Rate>; 2],
    /// A hold or release was refused, has been told of, and has not succeeded since.
    refused: bool,
    /// Room in the discipline of each way.
    slots: Vec<(Way, u32)>,
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
    /// What is left to it on transmit.
    pub verdict: Verdict,
    /// How its completions are seen, unless they turn out not to be true.
    pub completions: Choice,
    pub(crate) interface: Option<Interface>,
}

/// What a direction records beside its counters.
#[derive(Clone, Copy, Debug)]
struct Records {
    /// Tins whose times are recorded apart.
    tins: usize,
    flight: bool,
    talkers: bool,
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
    /// How long packets took in each direction since the start.
    pub delays: Vec<ByKind<Totals>>,
    /// What was in flight in each direction's transmit ring since the start.
    pub flight: Vec<flight::Total>,
    /// What each direction records.
    records: Vec<Records>,
    /// Who sent most in each direction of late.
    pub talkers: Vec<Watch>,
    /// Cycles of the time stamp counter in a second.
    pub tsc_hz: u64,
    control: Control,
    /// Whether its statistics are under way.
    asked: bool,
    /// Changes that are under way to it, and the generation that it has taken up.
    changing: usize,
    generation: u64,
    /// `None` once it has been stopped.
    handle: Option<LcoreHandle<Worker>>,
}

impl Line {
    /// Opens, builds and launches everything, and tells each step before it takes it. The links are
    /// dealt out over the worker lcores.
    ///
    /// # Errors
    /// [`StartError`]; all that was opened is closed again.
    pub fn start(eal: &Eal, plan: &Plan, tell: &mut dyn FnMut(Step)) -> Result<Self, StartError> {
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
                let built = builder
                    .build(directions, tell)
                    .map_err(|fault| StartError::Link { link: link.name.clone(), fault: Box::new(fault) })?;
                links.push(built);
            }
        }
        let mut workers = Vec::new();
        for (lcore, directions) in lcores.iter().zip(directions) {
            workers.push(LineWorker::launch(eal, lcore, directions, plan.poll)?);
        }
        let news = links.iter_mut().flat_map(LineLink::fix_what_cannot_be_held).collect();
        let mut line = Self { workers, links, news, plan: plan.clone(), generation: 0, pending: None };
        line.tend();
        Ok(line)
    }

    /// Follows the link states, and workers on their way back from a change that was given up. Call it some
    /// tens of times a second.
    pub fn tend(&mut self) {
        if self.pending.is_none() {
            self.settle_change();
        }
        for link in &mut self.links {
            for (side, speed) in link.new_speeds() {
                tell(&self.workers, link, side, |direction| Command::Speed { direction, speed });
            }
            for action in link.watch.observe(link.a.is_up(), link.b.is_up()) {
                match action {
                    Action::Tell(side, up) => {
                        tell(&self.workers, link, side, |direction| Command::Link { direction, up });
                    }
                    Action::Hold(side) => {
                        let done = link.port(side).port.set_link_down();
                        self.news.extend(link.heed(action, done));
                    }
                    Action::Release(side) => {
                        let done = link.port(side).port.set_link_up();
                        self.news.extend(link.heed(action, done));
                    }
                }
            }
        }
    }

    /// What there is to tell of the links since this was asked last.
    pub fn news(&mut self) -> Vec<LinkWarning> {
        std::mem::take(&mut self.news)
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
    pub fn ask(&mut self) {
        self.workers.iter_mut().filter(|worker| worker.handle.is_some()).for_each(LineWorker::ask);
    }

    /// Takes the statistics that have come; `true` once every worker that was asked has sent some.
    pub fn fetch(&mut self) -> bool {
        self.workers.iter_mut().for_each(LineWorker::fetch);
        !self.workers.iter().any(|worker| worker.asked)
    }

    /// Has super-packets cut another way in one direction; `false` if its worker is stuck.
    pub fn set_split(&self, place: Place, split: Split) -> bool {
        let command = Command::Split { direction: place.direction, split };
        self.workers.get(place.worker).is_some_and(|worker| worker.control.send(command).is_ok())
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
                while let Some(page) = worker.control.page() {
                    worker.keep(*page);
                }
                let mut page = worker.empty_page();
                ended.report(&mut page);
                ended.exchange_histograms(&mut page);
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
    pub(crate) fn new(
        name: String,
        a: LinePort,
        b: LinePort,
        ways: Vec<(Way, Place)>,
        slots: Vec<(Way, u32)>,
        watch: LinkWatch,
        idle: Vec<(RxQueue, TxQueue)>,
    ) -> Self {
        let speeds = [a.speed(), b.speed()];
        Self { name, a, b, ways, watch, speeds, refused: false, slots, _idle: idle }
    }

    /// Link speeds that have changed. A link that is down has none, and keeps the last one: it is not news.
    fn new_speeds(&mut self) -> Vec<(Side, Option<Rate>)> {
        let now = [self.a.speed(), self.b.speed()];
        let mut news = Vec::new();
        for ((side, known), now) in [Side::A, Side::B].into_iter().zip(&mut self.speeds).zip(now) {
            if now.is_some() && *known != now {
                *known = now;
                news.push((side, now));
            }
        }
        news
    }

    /// Finds the ports that cannot do what `propagate-link` will ask of them, before a cable is out. A
    /// driver has both calls or none, and the one that takes a link up does no harm after a start.
    fn fix_what_cannot_be_held(&mut self) -> Vec<LinkWarning> {
        if !self.watch.propagates() {
            return Vec::new();
        }
        let cannot = |side| self.port(side).port.set_link_up().is_err_and(|cause| cause.is_unsupported());
        let fixed: Vec<_> = [Side::A, Side::B].into_iter().filter(|side| cannot(*side)).collect();
        fixed.into_iter().map(|side| self.fix(side)).collect()
    }

    fn fix(&mut self, side: Side) -> LinkWarning {
        self.watch.fix(side);
        let port = self.port(side);
        let (port, driver) = (port.port.name().to_owned(), port.info.driver.clone());
        LinkWarning::CannotHold { link: self.name.clone(), port, driver }
    }

    /// Draws the conclusion from a hold or release; the first of several refusals is worth telling.
    fn heed(&mut self, action: Action, done: Result<(), PortError>) -> Option<LinkWarning> {
        let cause = match done {
            Ok(()) => {
                self.refused = false;
                return None;
            }
            Err(cause) => cause,
        };
        match action {
            Action::Hold(side) if cause.is_unsupported() => return Some(self.fix(side)),
            _ => self.watch.failed(action),
        }
        let first = !std::mem::replace(&mut self.refused, true);
        first.then(|| LinkWarning::Refused { link: self.name.clone(), cause })
    }

    fn port(&self, side: Side) -> &LinePort {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }
}

impl LinePort {
    /// Speed of its link, if the driver knows one.
    pub fn speed(&self) -> Option<Rate> {
        let mbps = self.port.link().ok()?.speed_mbps?;
        Some(Rate::from_bits_per_sec(u64::from(mbps) * 1_000_000))
    }

    /// Whether it sends packets of several buffers.
    pub(crate) fn sends_segments(&self) -> bool {
        let configured = self.port.configured();
        configured.is_some_and(|configured| configured.tx_offloads.contains(TxOffloads::MULTI_SEGS))
    }

    /// Whether the link is up and the device is there.
    pub fn is_up(&self) -> bool {
        let driver = self.port.link().is_ok_and(|link| link.up);
        let up = self.interface.as_ref().map_or(driver, |interface| interface.is_up(driver));
        up && !self.port.vanished()
    }
}

impl LineWorker {
    fn keep(&mut self, page: Page) {
        self.page = page;
        for (total, delays) in self.delays.iter_mut().zip(&mut self.page.delays) {
            total.take(delays);
        }
        for (total, flight) in self.flight.iter_mut().zip(&mut self.page.flight) {
            total.take(flight);
        }
        let sent = self.page.directions.iter().map(|direction| direction.counters.sent);
        for ((watch, sample), sent) in self.talkers.iter_mut().zip(&self.page.talkers).zip(sent) {
            watch.add(sample, self.page.at, sent);
        }
    }

    fn launch(eal: &Eal, lcore: &Lcore, directions: Vec<Direction>, poll: Poll) -> Result<Self, StartError> {
        let (control, mailbox) = mailbox::pair();
        let clock = Clock::start(eal);
        let records: Vec<_> = directions.iter().map(Records::of).collect();
        let page = Records::page(&records);
        let delays = directions.iter().map(|_| ByKind::default()).collect();
        let flight = directions.iter().map(|_| flight::Total::default()).collect();
        let talkers = directions.iter().map(|_| Watch::default()).collect();
        let cause = clock.source();
        let worker = Worker::new(directions, mailbox);
        let handle = lcore.launch(move || {
            // Naps end on time then; without it they end late, which is no failure.
            let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS);
            worker.run(clock, poll)
        })?;
        Ok(Self {
            lcore: lcore.id(),
            clock: cause,
            page,
            delays,
            flight,
            talkers,
            tsc_hz: tsc::hz(eal),
            records,
            control,
            asked: false,
            changing: 0,
            generation: 0,
            handle: Some(handle),
        })
    }

    fn ask(&mut self) {
        // What came too late for the one who asked last time still counts.
        while let Some(page) = self.control.page() {
            self.keep(*page);
        }
        let page = Box::new(self.empty_page());
        self.asked = self.control.send(Command::Report(page)).is_ok();
    }

    fn empty_page(&mut self) -> Page {
        let page = self.page.successor();
        // Without histograms: the worker has them still, and has not answered.
        if page.delays.len() == self.records.len() { page } else { Records::page(&self.records) }
    }

    fn fetch(&mut self) {
        if let Some(page) = self.control.page() {
            self.keep(*page);
            self.asked = false;
        }
    }
}

impl Records {
    fn of(direction: &Direction) -> Self {
        Self {
            tins: direction.egress().sojourn().tins(),
            flight: direction.gate().is_some_and(|gate| gate.flight().records()),
            talkers: direction.talkers().sample().has_room(),
        }
    }

    /// An empty page for these directions.
    fn page(of: &[Self]) -> Page {
        Page {
            delays: of.iter().map(|of| ByKind::<Recorder>::new(of.tins)).collect(),
            flight: of.iter().map(|of| if of.flight { Flight::new() } else { Flight::default() }).collect(),
            talkers: of.iter().map(|of| if of.talkers { Sample::new() } else { Sample::default() }).collect(),
            ..Page::new(of.len())
        }
    }
}

/// Tells the direction that sends on `side`, if there is one.
fn tell(workers: &[LineWorker], link: &LineLink, side: Side, command: impl Fn(usize) -> Command) {
    let sender = match side {
        Side::A => Way::Down,
        Side::B => Way::Up,
    };
    for (_, place) in link.ways.iter().filter(|(way, _)| *way == sender) {
        if let Some(worker) = workers.get(place.worker) {
            // One whose mailbox is full is stuck, and news of a link would not help it.
            let _ = worker.control.send(command(place.direction));
        }
    }
}

/// The kernel may delay a nap by 50 µs by default, which would double it.
const TIMER_SLACK_NS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Mailbox;
    use shaper::time::Instant;

    pub(super) fn worker(lcore: u32) -> (LineWorker, Mailbox) {
        let (control, mailbox) = mailbox::pair();
        let worker = LineWorker {
            lcore,
            clock: "none",
            page: Page::new(0),
            delays: Vec::new(),
            records: Vec::new(),
            flight: Vec::new(),
            talkers: Vec::new(),
            tsc_hz: 0,
            control,
            asked: false,
            changing: 0,
            generation: 0,
            handle: None,
        };
        (worker, mailbox)
    }

    fn line(workers: Vec<LineWorker>) -> Line {
        let plan = Plan { links: Vec::new(), poll: Poll::Busy, secret: [0; 16] };
        Line { workers, links: Vec::new(), news: Vec::new(), plan, generation: 0, pending: None }
    }

    /// Does what a worker does with one command.
    fn serve(mailbox: &Mailbox, at: u64) {
        let Some(Command::Report(mut page)) = mailbox.take() else { panic!("not asked") };
        page.at = Instant::from_nanos(at);
        assert!(mailbox.give(page).is_none());
    }

    #[test]
    fn workers_may_answer_one_after_the_other() {
        let ((one, first), (two, second)) = (worker(1), worker(2));
        let mut line = line(vec![one, two]);
        line.workers.iter_mut().for_each(LineWorker::ask);
        assert!(!line.fetch());
        serve(&first, 5);
        assert!(!line.fetch());
        serve(&second, 6);
        assert!(line.fetch(), "both have come, if not at once");
        assert_eq!([5, 6], [0, 1].map(|worker: usize| line.workers[worker].page.at.as_nanos()));
    }

    #[test]
    fn an_answer_that_came_too_late_is_not_taken_for_the_next() {
        let (mut worker, mailbox) = worker(1);
        worker.ask();
        worker.fetch();
        serve(&mailbox, 5);
        worker.ask();
        serve(&mailbox, 6);
        worker.fetch();
        assert_eq!(worker.page.at.as_nanos(), 6);
    }
}
