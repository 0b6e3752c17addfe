//! fq_codel against a slow, obvious model of RFC 8290: deques of packets, deques of flow numbers, a
//! scan for the longest queue, every sum computed anew. Random options and random operations, from
//! a seed; after each operation both must have done the same and the books must balance.
//!
//! CoDel itself is shared by the two; the recorded vectors prove it.

use super::flow::{List, On};
use super::{FqCodel, Params, Stats};
use crate::codel::codel::{self, Candidate, Settings, Source, Vars};
use crate::conformance::{Conformance, Linux, Weir};
use crate::flow::slots::Waiting;
use crate::packet::{Arrival, Delivery, DropReason, DsField, Piece, Verdict};
use crate::rng::{Rng, SplitMix};
use crate::time::{Duration, Instant};
use std::collections::{BTreeSet, VecDeque};
use std::vec::Vec;

#[test]
fn agrees_with_the_model_as_linux() {
    run::<Linux>();
}

#[test]
fn agrees_with_the_model_as_weir() {
    run::<Weir>();
}

fn run<C: Conformance>() {
    let mut total = Stats::default();
    for seed in 0..SEEDS * super::super::soak() {
        let mut pair = Pair::<C>::new(seed);
        for _ in 0..STEPS {
            pair.step();
            pair.check();
        }
        pair.empty();
        let stats = pair.real.stats();
        total.drop_overlimit += stats.drop_overlimit;
        total.drop_overmemory += stats.drop_overmemory;
        total.drop_codel += stats.drop_codel;
        total.drop_flush += stats.drop_flush;
        total.ecn_mark += stats.ecn_mark;
        total.ce_mark += stats.ce_mark;
        total.sent_pkts += stats.sent_pkts;
    }
    let Stats { drop_overlimit, drop_overmemory, drop_codel, drop_flush, ecn_mark, ce_mark, .. } = total;
    let reached =
        [drop_overlimit, drop_overmemory, drop_codel, drop_flush, ecn_mark, ce_mark, total.sent_pkts];
    assert!(reached.iter().all(|&count| count > 50), "the operations miss something: {reached:?}");
}

/// The discipline, the model, and what should be inside of both.
struct Pair<C: Conformance> {
    real: FqCodel<Token, C>,
    model: Model<C>,
    rng: SplitMix,
    now: Instant,
    next_id: u32,
    inside: BTreeSet<u32>,
    hashes: Vec<u32>,
    entered: u64,
    entered_bytes: u64,
    left: u64,
    left_bytes: u64,
}

/// A packet that cannot be copied, as in production.
#[derive(Debug, PartialEq, Eq)]
struct Token(u32);

type Doomed = Vec<(Token, DropReason)>;

struct Model<C: Conformance> {
    params: Params,
    slots: usize,
    flows: Vec<ModelFlow<C>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    codel: codel::Stats,
}

struct ModelFlow<C: Conformance> {
    packets: VecDeque<Packet>,
    deficit: i64,
    vars: Vars<C>,
}

struct Packet {
    id: u32,
    waiting: Waiting,
}

/// The queue of one flow of the model as CoDel sees it.
struct Line<'a> {
    packets: &'a mut VecDeque<Packet>,
    backlog: u64,
    doomed: &'a mut Doomed,
}

impl<C: Conformance> Pair<C> {
    fn new(seed: u64) -> Self {
        let mut rng = SplitMix::new(seed, seed ^ 0x5eed);
        let params = random_params(&mut rng);
        let slots =
            (params.limit + pick(&mut rng, &[0, 1, 1, 50])).saturating_sub(pick(&mut rng, &[0, 0, 5])).max(1);
        let busy = pick(&mut rng, &[1, 3, 20, 200]);
        Self {
            real: FqCodel::new(&params, slots as usize).unwrap(),
            model: Model::new(params, slots as usize),
            now: Instant::from_nanos(u64::from(rng.next_u32()) << 12),
            next_id: 0,
            inside: BTreeSet::new(),
            hashes: (0..busy).map(|_| rng.next_u32()).collect(),
            rng,
            entered: 0,
            entered_bytes: 0,
            left: 0,
            left_bytes: 0,
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(pick(&mut self.rng, &[0, 1, 100, 1_000, 20_000]));
        match self.rng.next_u32() % 1_000 {
            0..2 => self.flush(),
            2..10 => self.change(),
            10..520 => self.enqueue(),
            _ => {
                self.dequeue();
            }
        }
    }

    fn enqueue(&mut self) {
        let rng = &mut self.rng;
        let hash = self.hashes[rng.next_u32() as usize % self.hashes.len()];
        let ds =
            pick(rng, &[DsField::NONE, DsField::ip(0), DsField::ip(1), DsField::ip(2), DsField::ip(0xb7)]);
        let arrival = Arrival { flow_hash: hash, ds, ..Arrival::default() };
        let pieces = pick(rng, &[1, 1, 1, 1, 1, 1, 0, 2, 3]);
        let mut sizes = Vec::new();
        for _ in 0..pieces {
            let segs = pick(rng, &[1, 1, 1, 4]) as u16;
            sizes.push((pick(rng, &[0, 64, 300, 1_514, 9_014]), pick(rng, &[0, 768, 2_304, 20_000]), segs));
        }
        let first = self.next_id;
        let piece = |(id, &(len, truesize, segs)): (u32, &(u32, u32, u16))| Piece {
            segs,
            header_len: 54,
            ..Piece::single(Token(id), len, truesize)
        };
        let (mut real_doomed, mut model_doomed) = (Doomed::new(), Doomed::new());
        let real =
            self.real.enqueue(self.now, &arrival, (first..).zip(&sizes).map(piece), &mut |packet, why| {
                real_doomed.push((packet, why))
            });
        let model =
            self.model.enqueue(self.now, &arrival, (first..).zip(&sizes).map(piece), &mut model_doomed);
        assert_eq!((real.verdict, real.queue as usize), model);
        self.next_id += pieces;
        for (id, size) in (first..).zip(&sizes) {
            self.entered += 1;
            self.entered_bytes += u64::from(piece((id, size)).len());
            self.inside.insert(id);
        }
        self.settle(&real_doomed, &model_doomed);
    }

    /// Whether a packet came out.
    fn dequeue(&mut self) -> bool {
        let (mut real_doomed, mut model_doomed) = (Doomed::new(), Doomed::new());
        let real = self.real.dequeue(self.now, &mut |packet, why| real_doomed.push((packet, why)));
        let model = self.model.dequeue(self.now, &mut model_doomed);
        assert_eq!(real, model);
        self.settle(&real_doomed, &model_doomed);
        if let Some(Delivery { packet, len, .. }) = &real {
            assert!(self.inside.remove(&packet.0), "{packet:?} comes out once");
            self.left += 1;
            self.left_bytes += u64::from(*len);
        }
        real.is_some()
    }

    fn change(&mut self) {
        let params = Params { flows: self.model.params.flows, ..random_params(&mut self.rng) };
        let (mut real_doomed, mut model_doomed) = (Doomed::new(), Doomed::new());
        let changed = self.real.change(self.now, &params, &mut |packet, why| real_doomed.push((packet, why)));
        assert_eq!(changed, Ok(()));
        self.model.change(self.now, &params, &mut model_doomed);
        self.settle(&real_doomed, &model_doomed);
    }

    fn flush(&mut self) {
        let (mut real_doomed, mut model_doomed) = (Doomed::new(), Doomed::new());
        self.real.flush(&mut |packet, why| real_doomed.push((packet, why)));
        self.model.flush(&mut model_doomed);
        self.settle(&real_doomed, &model_doomed);
    }

    /// Everything still inside comes out in the end.
    fn empty(&mut self) {
        while self.dequeue() {
            self.check();
        }
        assert!(self.inside.is_empty() && self.real.is_empty());
    }

    fn settle(&mut self, real: &Doomed, model: &Doomed) {
        assert_eq!(real, model);
        for (Token(id), _) in real {
            assert!(self.inside.remove(id), "packet {id} is doomed once");
        }
    }

    fn check(&self) {
        let (real, model, stats) = (&self.real, &self.model, self.real.stats());
        let waiting = || model.flows.iter().flat_map(|flow| &flow.packets).map(|packet| packet.waiting);
        let sum = |field: fn(Waiting) -> u32| waiting().map(|waiting| u64::from(field(waiting))).sum::<u64>();
        assert_eq!((real.len(), stats.qlen as usize), (self.inside.len(), waiting().count()));
        assert_eq!((real.backlog(), stats.backlog), (sum(|w| w.len), sum(|w| w.len)));
        assert_eq!(stats.memory_usage, sum(|w| w.truesize));
        assert_eq!(
            (stats.maxpacket, stats.ecn_mark, stats.ce_mark),
            (model.codel.maxpacket, model.codel.ecn_mark, model.codel.ce_mark)
        );
        if !C::FQ_CHANGE_DEQUEUES {
            assert_eq!(stats.sent_bytes, self.left_bytes);
            assert_eq!(self.entered, self.left + stats.drops + real.len() as u64);
            assert_eq!(self.entered_bytes, self.left_bytes + stats.dropped_bytes + real.backlog());
            let reasons = [stats.drop_overlimit, stats.drop_codel, stats.drop_change, stats.drop_flush];
            assert_eq!(stats.drops, reasons.iter().sum());
            assert!(stats.qlen <= real.params().limit || stats.backlog == 0);
            assert!(stats.memory_usage <= u64::from(real.params().memory_limit) || stats.backlog == 0);
        }
        assert_eq!(walk(real, &real.new, On::New), Vec::from(model.new.clone()));
        assert_eq!(walk(real, &real.old, On::Old), Vec::from(model.old.clone()));
        let mut reports = real.flows(self.now);
        for (index, flow) in model.flows.iter().enumerate() {
            if model.is_listed(index) {
                let report = reports.next().unwrap();
                assert_eq!((report.queue as usize, i64::from(report.deficit)), (index, flow.deficit));
                let backlog = flow.packets.iter().map(|packet| packet.waiting.len).sum::<u32>();
                assert_eq!((report.qlen as usize, report.backlog), (flow.packets.len(), backlog));
                assert_eq!(report.codel, flow.vars.report(self.now));
            } else {
                assert!(flow.packets.is_empty(), "an idle flow has no packets");
            }
        }
        assert!(reports.next().is_none(), "a flow on neither list is idle");
    }
}

/// The flows of a list; each must believe that it stands there, so none stands on two.
fn walk<C: Conformance>(real: &FqCodel<Token, C>, list: &List, on: On) -> Vec<usize> {
    let flows: Vec<usize> = list.iter(&real.flows).map(|index| index as usize).collect();
    assert!(flows.iter().all(|&index| real.flows[index].on == on));
    assert_eq!(flows.len(), list.len() as usize);
    flows
}

impl<C: Conformance> Model<C> {
    fn new(params: Params, slots: usize) -> Self {
        let mut flows = Vec::new();
        flows.resize_with(params.flows as usize, || ModelFlow {
            packets: VecDeque::new(),
            deficit: 0,
            vars: Vars::default(),
        });
        let params = params.checked().unwrap();
        Self {
            params,
            slots,
            flows,
            new: VecDeque::new(),
            old: VecDeque::new(),
            codel: codel::Stats::default(),
        }
    }

    fn qlen(&self) -> usize {
        self.flows.iter().map(|flow| flow.packets.len()).sum()
    }

    fn sum(&self, field: fn(&Waiting) -> u32) -> u64 {
        let packets = self.flows.iter().flat_map(|flow| &flow.packets);
        packets.map(|packet| u64::from(field(&packet.waiting))).sum()
    }

    fn is_listed(&self, flow: usize) -> bool {
        self.new.contains(&flow) || self.old.contains(&flow)
    }

    fn longest(&self) -> usize {
        let backlog = |flow: &ModelFlow<C>| flow.packets.iter().map(|packet| packet.waiting.len).sum::<u32>();
        let mut longest = 0;
        for (index, flow) in self.flows.iter().enumerate() {
            if backlog(flow) > backlog(&self.flows[longest]) {
                longest = index;
            }
        }
        longest
    }

    fn exceeded(&self) -> Option<DropReason> {
        if self.sum(|waiting| waiting.truesize) > u64::from(self.params.memory_limit) {
            Some(DropReason::OverMemory)
        } else {
            (self.qlen() > self.params.limit as usize).then_some(DropReason::OverLimit)
        }
    }

    fn batch(&mut self, reason: DropReason, doomed: &mut Doomed) -> (usize, u32) {
        let victim = self.longest();
        let flow = &mut self.flows[victim];
        let half = flow.packets.iter().map(|packet| packet.waiting.len).sum::<u32>() / 2;
        let (mut count, mut bytes) = (0, 0);
        while let Some(packet) = flow.packets.pop_front() {
            count += 1;
            bytes += packet.waiting.len;
            doomed.push((Token(packet.id), reason));
            if count >= self.params.drop_batch || bytes >= half {
                break;
            }
        }
        flow.vars.overload_drops(count);
        (victim, count)
    }

    fn enqueue(
        &mut self,
        now: Instant,
        arrival: &Arrival<'_>,
        pieces: impl Iterator<Item = Piece<Token>>,
        doomed: &mut Doomed,
    ) -> (Verdict, usize) {
        let index = ((u64::from(arrival.flow_hash) * self.flows.len() as u64) >> 32) as usize;
        let (mut queued, mut own) = (0, false);
        for piece in pieces {
            if self.qlen() == self.slots {
                let (victim, count) = self.batch(DropReason::OverLimit, doomed);
                own |= victim == index && count > 0;
            }
            if self.qlen() == self.slots {
                doomed.push((piece.packet, DropReason::OverLimit));
                continue;
            }
            let waiting = Waiting::new(now, &piece, arrival.ds, false);
            self.flows[index].packets.push_back(Packet { id: piece.packet.0, waiting });
            queued += 1;
        }
        if queued > 0 && !self.is_listed(index) {
            self.new.push_back(index);
            self.flows[index].deficit = self.params.quantum.into();
        }
        while let Some(reason) = self.exceeded() {
            let (victim, count) = self.batch(reason, doomed);
            own |= victim == index && count > 0;
            if C::FQ_ONE_BATCH || count == 0 {
                break;
            }
        }
        let verdict = match (queued, own) {
            (0, _) => Verdict::Dropped,
            (_, true) => Verdict::Congested,
            (_, false) => Verdict::Ok,
        };
        (verdict, index)
    }

    fn dequeue(&mut self, now: Instant, doomed: &mut Doomed) -> Option<Delivery<Token>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let backlog = self.sum(|waiting| waiting.len);
            let flow = &mut self.flows[index];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.params.quantum);
                self.rotate(is_new);
                continue;
            }
            let mut line = Line { packets: &mut flow.packets, backlog, doomed };
            let settings = Settings::new(&self.params.codel);
            if let Some(Packet { id, waiting }) =
                flow.vars.dequeue(now, &settings, &mut self.codel, &mut line)
            {
                flow.deficit -= i64::from(waiting.len);
                return Some(crate::qdisc::delivery(Token(id), &waiting));
            }
            if is_new && !self.old.is_empty() {
                self.rotate(true);
            } else if is_new {
                self.new.pop_front();
            } else {
                self.old.pop_front();
            }
        }
    }

    fn rotate(&mut self, is_new: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        let flow = list.pop_front().unwrap();
        self.old.push_back(flow);
    }

    fn change(&mut self, now: Instant, params: &Params, doomed: &mut Doomed) {
        self.params = params.checked().unwrap();
        while self.exceeded().is_some() {
            let cut = if C::FQ_CHANGE_DEQUEUES {
                self.dequeue(now, doomed).map(|delivery| delivery.packet)
            } else {
                let victim = self.longest();
                self.flows[victim].packets.pop_front().map(|packet| Token(packet.id))
            };
            let Some(packet) = cut else { break };
            doomed.push((packet, DropReason::Change));
        }
    }

    fn flush(&mut self, doomed: &mut Doomed) {
        for flow in &mut self.flows {
            doomed.extend(flow.packets.drain(..).map(|packet| (Token(packet.id), DropReason::Flush)));
            flow.vars = Vars::default();
        }
        self.new.clear();
        self.old.clear();
    }
}

impl Source for Line<'_> {
    type Packet = Packet;

    fn take(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.backlog -= u64::from(packet.waiting.len);
        Some(packet)
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn doom(&mut self, packet: Packet) {
        self.doomed.push((Token(packet.id), DropReason::Codel));
    }
}

impl Candidate for Packet {
    fn enqueued(&self) -> Instant {
        self.waiting.enqueued
    }

    fn bytes(&self) -> u32 {
        self.waiting.len
    }

    fn ds(&self) -> DsField {
        self.waiting.ds
    }

    fn mark(&mut self) {
        self.waiting.ds = self.waiting.ds.marked();
        self.waiting.rewrite = true;
    }
}

fn random_params(rng: &mut SplitMix) -> Params {
    let off = Duration::MAX;
    let ce_threshold = pick(rng, &[off, Duration::ZERO, Duration::from_millis(1)]);
    Params {
        limit: pick(rng, &[0, 1, 5, 40, 200]),
        flows: pick(rng, &[1, 2, 5, 64, 300]),
        quantum: pick(rng, &[0, 300, 1_514, 20_000]),
        drop_batch: pick(rng, &[0, 1, 3, 64]),
        memory_limit: pick(rng, &[10_000, 100_000, 32 << 20]),
        handle: None,
        codel: codel::Params {
            target: Duration::from_micros(pick(rng, &[0, 50, 5_000])),
            interval: Duration::from_micros(pick(rng, &[1, 1_000, 100_000])),
            ce_threshold: (ce_threshold != off).then_some(ce_threshold),
            ce_selector: pick(rng, &[0, 1]),
            ce_mask: pick(rng, &[0, 3]),
            ecn: pick(rng, &[true, false]),
            mtu: 1_514,
        },
    }
}

fn pick<T: Copy>(rng: &mut SplitMix, from: &[T]) -> T {
    from[rng.next_u32() as usize % from.len()]
}

const SEEDS: u64 = 60;
const STEPS: u32 = 600;
