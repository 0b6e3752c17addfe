//! What drives cake: flows that always have packets in it, and flows that send by the clock.

use shaper::conformance::Conformance;
use shaper::packet::{Arrival, DsField, Piece};
use shaper::qdisc::cake::{Cake, Params};
use shaper::rng::SplitMix;
use shaper::time::{Duration, Instant};

/// A flow.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub source: u32,
    pub destination: u32,
    /// Bytes of each frame.
    pub frame: u32,
    pub is_ect: bool,
    pub dscp: u8,
    pub demand: Demand,
}

/// How much a flow wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// All there is: a constant number of its packets waits.
    Backlog,
    /// So many bits per second, evenly.
    Paced(f64),
}

impl Load {
    pub const BULK: Self =
        Self { source: 1, destination: 2, frame: 1_514, is_ect: true, dscp: 0, demand: Demand::Backlog };
}

struct Bench<'a, C: Conformance> {
    cake: Cake<usize, C>,
    dice: SplitMix,
    now: Instant,
    loads: &'a [Load],
    /// When each paced flow sends next, in ns.
    next: Vec<f64>,
    bits: Vec<f64>,
}

/// The bits per second that each flow got through cake.
pub fn carried<C: Conformance>(params: &Params, loads: &[Load], seconds: u64) -> Vec<f64> {
    let mut bench = Bench::<C> {
        cake: Cake::new(params, 4_096),
        dice: SplitMix::new(11, 12),
        now: Instant::ZERO,
        loads,
        next: vec![0.0; loads.len()],
        bits: vec![0.0; loads.len()],
    };
    for (flow, load) in loads.iter().enumerate() {
        if load.demand == Demand::Backlog {
            (0..KEPT).for_each(|_| bench.enqueue(flow));
        } else {
            // Flows of one rate do not come at one time.
            bench.next[flow] = 777_777.0 * flow as f64;
        }
    }
    bench.run(Duration::from_millis(1_000));
    bench.bits.fill(0.0);
    bench.run(Duration::from_millis(1_000 * seconds));
    bench.bits.iter().map(|bits| bits / seconds as f64).collect()
}

impl<C: Conformance> Bench<'_, C> {
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            for flow in 0..self.loads.len() {
                if let Demand::Paced(rate) = self.loads[flow].demand
                    && self.next[flow] <= self.now.as_nanos() as f64
                {
                    self.next[flow] += f64::from(self.loads[flow].frame) * 8e9 / rate;
                    self.enqueue(flow);
                }
            }
            while self.dequeue() {}
            let paced = self.loads.iter().zip(&self.next).filter(|(load, _)| load.demand != Demand::Backlog);
            let arrival = paced.map(|(_, &next)| Instant::from_nanos(next.ceil() as u64)).min();
            self.now = arrival.into_iter().chain(self.cake.next_wakeup()).min().unwrap().max(self.now);
        }
    }

    fn enqueue(&mut self, flow: usize) {
        let load = self.loads[flow];
        let hash = |number: u32| number.wrapping_add(1).wrapping_mul(0x9E37_79B9).rotate_left(13);
        let arrival = Arrival {
            flow_hash: hash(1_000 + flow as u32),
            src_hash: hash(load.source),
            dst_hash: hash(load.destination),
            ds: DsField::ip(load.dscp << 2 | if load.is_ect { 2 } else { 0 }),
            network_offset: 14,
            len: load.frame,
            ..Arrival::default()
        };
        let piece = std::iter::once(Piece::single(flow, load.frame, 2_304));
        self.cake.enqueue(self.now, &mut self.dice, &arrival, piece, &mut |_, _| panic!("memory suffices"));
    }

    fn dequeue(&mut self) -> bool {
        let mut gone = Vec::new();
        let sent = self.cake.dequeue(self.now, &mut self.dice, &mut |flow, _| gone.push(flow));
        if let Some(sent) = &sent {
            self.bits[sent.packet] += 8.0 * f64::from(sent.len);
            gone.push(sent.packet);
        }
        for flow in gone {
            if self.loads[flow].demand == Demand::Backlog {
                self.enqueue(flow);
            }
        }
        sent.is_some()
    }
}

/// Packets that a flow with a backlog keeps in the queue.
const KEPT: usize = 30;
