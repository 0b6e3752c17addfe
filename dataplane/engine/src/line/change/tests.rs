//! Two workers, stepped by hand, and a change that is for both or for none.

use super::*;
use crate::builder::Builder;
use crate::counters::Loss;
use crate::mailbox::DEPTH;
use crate::plan::Toggle;
use crate::worker::Worker;
use dpdk::testing::{TestEal, eal};
use shaper::gso::Split;
use shaper::packet::DropReason;
use shaper::qdisc::cake::Diffserv;
use shaper::qdisc::{Params, Qdisc, cake, fq_codel};
use shaper::rate::{Limiter, Overhead};
use shaper::time::{Duration, Instant};
use shaper::units::Rate;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two links, each with a worker of its own. What `a` receives never ends, and waits.
struct Bench {
    line: Line,
    workers: Vec<Worker>,
    now: Instant,
}

impl Bench {
    fn new(eal: &TestEal, qdisc: Params) -> Self {
        let plan =
            Plan { links: vec![link("one", qdisc), link("two", qdisc)], poll: Poll::Busy, secret: [0; 16] };
        let (mut handles, mut workers, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for (index, link) in plan.links.iter().enumerate() {
            let (handle, mailbox) = super::super::tests::worker(index as u32 + 1);
            let builder = Builder {
                eal,
                link,
                secret: plan.secret,
                index: PORTS.fetch_add(1, Ordering::Relaxed) as usize,
                worker: index,
            };
            let mut directions = Vec::new();
            links.push(builder.build(&mut directions, &mut |_| ()).unwrap());
            handles.push(handle);
            workers.push(Worker::new(directions, mailbox));
        }
        let line = Line { workers: handles, links, news: Vec::new(), plan, generation: 0, pending: None };
        let mut bench = Self { line, workers, now: Instant::ZERO + Duration::from_millis(1) };
        (0..20).for_each(|_| bench.turn_both());
        bench
    }

    fn turn(&mut self, worker: usize) {
        self.now += Duration::from_micros(10);
        self.workers[worker].turn(self.now);
    }

    fn turn_both(&mut self) {
        self.turn(0);
        self.turn(1);
    }

    /// Turns until the workers have carried out all that they were sent.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            self.turn_both();
            self.line.tend();
            if self.line.busy().is_none() {
                return;
            }
        }
        panic!("still busy after 1000 turns");
    }

    /// The line's plan with another discipline in both links.
    fn plan(&self, qdisc: Params) -> Plan {
        let mut plan = self.line.plan.clone();
        for up in plan.links.iter_mut().filter_map(|link| link.up.as_mut()) {
            up.qdisc = qdisc;
        }
        plan
    }

    /// What both workers run by.
    fn runs_by(&self) -> [Params; 2] {
        [0, 1].map(|worker| match self.workers[worker].directions()[0].egress().qdisc() {
            Qdisc::Cake(cake) => Params::Cake(*cake.params()),
            Qdisc::FqCodel(fq_codel) => Params::FqCodel(*fq_codel.params()),
            Qdisc::Fifo(_) => panic!("nobody has one here"),
        })
    }

    /// The generations, as the workers have told.
    fn generations(&self) -> [u64; 3] {
        [self.line.generation(), self.line.workers[0].generation(), self.line.workers[1].generation()]
    }

    fn assert_conserved(&self) {
        for direction in self.workers.iter().flat_map(Worker::directions) {
            let counters = direction.counters();
            let there = counters.sent.plus(counters.losses.total()).plus(direction.waiting());
            assert_eq!(counters.received, there, "{counters:?}");
            assert!(direction.waiting().packets > 0, "nothing waits");
            assert_eq!(counters.losses.of(Loss::Qdisc(DropReason::Change)).packets, 0);
        }
    }
}

fn link(name: &str, qdisc: Params) -> LinkPlan {
    let port = |more: &str| PortPlan {
        devargs: format!("net_null{}{more}", PORTS.fetch_add(1, Ordering::Relaxed)),
        mtu: 1500,
        rx_ring: 64,
        tx_ring: 64,
        tso: Toggle::Auto,
        lro: Toggle::Auto,
        governor: None,
    };
    let up = DirectionPlan {
        qdisc,
        bandwidth: None,
        overhead: Overhead::default(),
        catch_up: Limiter::CATCH_UP,
        rules: Vec::new(),
        split: Split::AUTO,
        gro: false,
    };
    LinkPlan {
        name: name.to_owned(),
        a: port(",size=64"),
        b: port(",no-rx=1"),
        up: Some(up),
        down: None,
        link_down_hold: Duration::from_millis(100),
        propagate_link: false,
    }
}

/// Slow, with room for some 900 packets.
fn cake(diffserv: Diffserv) -> Params {
    let bandwidth = Some(Rate::from_bits_per_sec(10_000_000));
    Params::Cake(cake::Params { bandwidth, diffserv, memlimit: Some(2 << 20), ..cake::Params::default() })
}

#[test]
fn all_workers_take_it_up_each_in_its_time() {
    let eal = eal();
    let [old, new] = [Diffserv::Diffserv3, Diffserv::BestEffort].map(cake);
    let mut bench = Bench::new(&eal, old);
    bench.line.change(1, bench.plan(new)).unwrap();
    assert_eq!(bench.line.changed(), None);
    while bench.line.workers[0].generation() == 0 {
        bench.turn(0);
        assert_eq!(bench.line.changed(), None, "the other one has not");
    }
    assert_eq!(bench.generations(), [0, 1, 0]);
    assert_eq!(bench.line.change(2, bench.plan(old)), Err(ChangeError::Busy(2)));
    let mut turns = 0;
    let done = loop {
        bench.turn(1);
        turns += 1;
        if let Some(done) = bench.line.changed() {
            break done;
        }
    };
    assert_eq!((done, bench.generations()), (Ok(()), [1, 1, 1]));
    assert!(turns > 5, "hundreds of packets moved in {turns} turns");
    assert_eq!(bench.runs_by(), [new, new]);
    assert_eq!(bench.line.changed(), None, "told once");
    bench.assert_conserved();
}

#[test]
fn one_worker_that_does_not_take_it_up_brings_all_back() {
    let eal = eal();
    let [old, new] = [Diffserv::Diffserv4, Diffserv::Diffserv8].map(cake);
    let mut bench = Bench::new(&eal, old);
    assert_eq!(bench.line.give_up_change(), None, "there is none");
    bench.line.change(1, bench.plan(new)).unwrap();
    while bench.line.workers[0].generation() == 0 {
        bench.turn(0);
        assert_eq!(bench.line.changed(), None);
    }
    assert_eq!(bench.runs_by(), [new, old]);
    assert_eq!(bench.line.give_up_change(), Some(ChangeError::Stuck(2)));
    assert_eq!(bench.line.changed(), None, "it has been told of");
    while bench.line.workers[0].generation() == 1 {
        bench.turn(0);
        bench.line.tend();
    }
    assert_eq!((bench.runs_by(), bench.generations()), ([old, old], [0, 0, 0]));
    // The late one does not pile up what it was sent, and finds the way there and back once it wakes.
    for attempt in 1..100 {
        let refused = bench.line.change(attempt, bench.plan(new));
        assert_eq!(refused, Err(ChangeError::Busy(2)));
    }
    assert_eq!(bench.line.workers[1].changing, 2);
    bench.settle();
    assert_eq!((bench.runs_by(), bench.generations()), ([old, old], [0, 0, 0]));
    bench.line.change(1, bench.plan(new)).unwrap();
    let done = (0..1_000).find_map(|_| {
        bench.turn_both();
        bench.line.changed()
    });
    assert_eq!((done, bench.generations()), (Some(Ok(())), [1, 1, 1]));
    bench.assert_conserved();
}

#[test]
fn one_worker_that_refuses_brings_all_back() {
    let eal = eal();
    let with = |flows, limit| Params::FqCodel(fq_codel::Params { flows, limit, ..Default::default() });
    let mut bench = Bench::new(&eal, with(1024, 1_000));
    let before = bench.runs_by();
    // Control takes the second link for another than it is.
    if let Some(up) = &mut bench.line.plan.links[1].up {
        up.qdisc = with(2048, 1_000);
    }
    let mut plan = bench.plan(with(1024, 900));
    plan.links[1].up.iter_mut().for_each(|up| up.qdisc = with(2048, 900));
    bench.line.links[1].slots.iter_mut().for_each(|(_, slots)| *slots = 1_001);
    bench.line.change(1, plan).unwrap();
    bench.turn(0);
    assert_eq!(bench.line.changed(), None);
    assert_ne!(bench.runs_by(), before, "the first has taken it up");
    bench.turn(1);
    let cause = ParamError::FlowsFixed { now: 1024, asked: 2048 };
    assert_eq!(bench.line.changed(), Some(Err(ChangeError::Refused { lcore: 2, cause })));
    bench.settle();
    assert_eq!(bench.generations(), [0, 0, 0]);
    assert_eq!(bench.runs_by(), before, "and has gone back");
}

#[test]
fn one_worker_that_takes_no_message_brings_all_back() {
    let eal = eal();
    let [old, new] = [Diffserv::Diffserv3, Diffserv::BestEffort].map(cake);
    let mut bench = Bench::new(&eal, old);
    let place = bench.line.links[1].ways[0].1;
    for _ in 0..DEPTH {
        assert!(bench.line.set_split(place, Split::AUTO));
    }
    assert_eq!(bench.line.change(1, bench.plan(new)), Err(ChangeError::Stuck(2)));
    bench.settle();
    assert_eq!((bench.runs_by(), bench.generations()), ([old, old], [0, 0, 0]));
    bench.assert_conserved();
}

#[test]
fn what_one_link_cannot_is_sent_to_none() {
    let eal = eal();
    let [old, new] = [Diffserv::Diffserv3, Diffserv::BestEffort].map(cake);
    let mut bench = Bench::new(&eal, old);
    let mut plan = bench.plan(new);
    plan.links[1].b.mtu = 9_000;
    assert_eq!(bench.line.change(1, plan), Err(ChangeError::Shape("two".to_owned())));
    let mut plan = bench.plan(new);
    plan.links[1].up.iter_mut().for_each(|up| up.qdisc = Params::FqCodel(fq_codel::Params::default()));
    let cause = Unchangeable::Qdisc(ParamError::OtherDiscipline);
    let refused = ChangeError::Direction { link: "two".to_owned(), way: "up", cause };
    assert_eq!(bench.line.change(1, plan), Err(refused));
    let mut plan = bench.plan(new);
    plan.links.pop();
    assert!(matches!(bench.line.change(1, plan), Err(ChangeError::Shape(_))));
    assert_eq!(bench.line.busy(), None);
    assert_eq!((bench.runs_by(), bench.generations()), ([old, old], [0, 0, 0]));
}

/// For names that are unique in the process.
static PORTS: AtomicU32 = AtomicU32::new(500);
