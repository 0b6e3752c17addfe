//! Completions against a modelled ring that reports in order, in any portions.

use super::source::From;
use super::*;
use shaper::rng::{Rng, SplitMix};
use shaper::units::Rate;
use std::cell::Cell;
use std::rc::Rc;

const RING: u16 = 64;

type Flag = Rc<Cell<bool>>;

impl Handle for Flag {
    fn is_complete(&self) -> bool {
        self.get()
    }
}

/// What the device has, in descriptors since its creation.
#[derive(Default)]
struct Ring {
    taken: u64,
    completed: u64,
    /// Descriptor behind each frame that is looked for, and its flag.
    flags: VecDeque<(u64, Flag)>,
    from: Option<From>,
    nudges: u32,
    /// Completes only when nudged.
    lazy: u64,
}

impl Ring {
    fn complete(&mut self, descriptors: u64) {
        self.completed += descriptors;
        while self.flags.front().is_some_and(|(end, _)| *end <= self.completed) {
            if let Some((_, flag)) = self.flags.pop_front() {
                flag.set(true);
            }
        }
    }

    fn in_ring(&self) -> u64 {
        self.taken - self.completed
    }
}

impl Device for Ring {
    fn is_done(&self, offset: u16) -> bool {
        assert!(offset < RING);
        match self.from {
            // The descriptor `offset` ahead of the tail was filled RING - offset descriptors ago.
            Some(From::Tail) => u64::from(RING - offset) > self.in_ring(),
            Some(From::Oldest) => u64::from(offset) >= self.in_ring(),
            None => panic!("nobody asks for it"),
        }
    }

    fn in_use(&self) -> Option<u32> {
        Some(self.in_ring() as u32)
    }

    fn nudge(&mut self, how: Nudge) {
        assert_ne!(how, Nudge::None);
        self.nudges += 1;
        let found = std::mem::take(&mut self.lazy);
        self.complete(found);
    }
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

/// Offers a burst of frames of 100 bytes and so many descriptors, all of them marked for which `mark`
/// says so, and has the ring take the first `taken`.
fn burst(
    completions: &mut Completions<Flag>,
    ring: &mut Ring,
    now: Instant,
    frames: &[(u16, bool)],
    taken: usize,
) {
    let held = completions.source() == Source::Held;
    for (index, (descriptors, mark)) in frames.iter().enumerate() {
        completions.offer(Amount { bytes: 100, descriptors: u64::from(*descriptors) });
        if index < taken {
            ring.taken += u64::from(*descriptors);
        }
        if *mark {
            let flag = Flag::default();
            if index < taken {
                ring.flags.push_back((ring.taken, flag.clone()));
            }
            completions.mark(now, held.then_some(flag));
        }
    }
    let left = frames.get(taken..).unwrap_or(&[]);
    completions.taken(Amount {
        bytes: 100 * left.len() as u64,
        descriptors: left.iter().map(|(descriptors, _)| u64::from(*descriptors)).sum(),
    });
}

/// Whatever is accepted, refused, completed, given up and switched, in whatever order: nothing is done
/// before the device says so, and all of it at last.
#[test]
fn what_is_in_flight_returns_to_zero() {
    let tail = (Source::Status(From::Tail), Some(From::Tail));
    let oldest = (Source::Status(From::Oldest), Some(From::Oldest));
    for (source, from) in [(Source::Held, None), tail, oldest, (Source::QueueCount, None)] {
        for seed in 0..100 {
            let mut rng = SplitMix::new(seed, 7);
            let mut pick = |below: u64| u64::from(rng.next_u32()) % below;
            let mut completions = Completions::<Flag>::new(source, Nudge::None, RING);
            let mut ring = Ring { from, ..Ring::default() };
            // Counted as done before it was, because what followed was given up.
            let mut settled = 0;
            for step in 0..3_000 {
                let now = at(step);
                match pick(8) {
                    0..3 => {
                        let mut frames: Vec<_> =
                            (0..=pick(8)).map(|_| (1 + pick(3) as u16, pick(3) == 0)).collect();
                        frames.last_mut().unwrap().1 = true;
                        let room = u64::from(RING - 1) - ring.in_ring();
                        let fits = frames.iter().scan(0, |sum, (descriptors, _)| {
                            *sum += u64::from(*descriptors);
                            Some(*sum)
                        });
                        let fits = fits.take_while(|sum| *sum <= room).count();
                        let taken = if pick(4) == 0 { fits / 2 } else { fits };
                        burst(&mut completions, &mut ring, now, &frames, taken);
                    }
                    3 if pick(10) == 0 => {
                        completions.settle();
                        settled = ring.taken;
                    }
                    4 if pick(100) == 0 => {
                        completions.switch(source, Nudge::None);
                        settled = ring.taken;
                    }
                    _ => {
                        let some = pick(ring.in_ring() + 1);
                        ring.complete(some);
                    }
                }
                let mut sum = Amount::default();
                let reaped = completions.reap(now, &mut ring, |seen| {
                    sum.bytes += seen.amount.bytes;
                    sum.descriptors += seen.amount.descriptors;
                });
                assert_eq!(sum, reaped);
                assert_eq!(completions.offered.descriptors, ring.taken, "seed {seed} step {step}");
                assert!(
                    completions.done.descriptors <= ring.completed.max(settled),
                    "{seed} {step}: too early"
                );
                assert!(completions.marks.len() <= usize::from(RING) && completions.marks.capacity() < 128);
            }
            ring.complete(ring.in_ring());
            completions.settle();
            completions.reap(at(4_000), &mut ring, |_| ());
            assert_eq!(completions.in_flight(), Amount::default(), "{source} seed {seed}");
            assert!(completions.is_unmarked());
        }
    }
}

#[test]
fn what_a_burst_left_is_covered_by_the_next_mark() {
    let mut completions = Completions::<Flag>::new(Source::Held, Nudge::None, RING);
    let mut ring = Ring::default();
    burst(&mut completions, &mut ring, at(0), &[(1, false), (1, false), (1, true)], 2);
    assert_eq!(completions.in_flight(), Amount { bytes: 200, descriptors: 2 });
    assert!(completions.is_unmarked());
    ring.complete(2);
    assert_eq!(completions.reap(at(1), &mut ring, |_| ()), Amount::default(), "nobody saw it");
    burst(&mut completions, &mut ring, at(2), &[(1, true)], 1);
    ring.complete(1);
    let all = Amount { bytes: 300, descriptors: 3 };
    assert_eq!(completions.reap(at(3), &mut ring, |_| ()), all);
}

#[test]
fn a_driver_is_made_to_look_only_if_nothing_shows() {
    let mut completions = Completions::<Flag>::new(Source::Held, Nudge::EmptyBurst, RING);
    let mut ring = Ring::default();
    completions.reap(at(0), &mut ring, |_| ());
    assert_eq!(ring.nudges, 0, "nothing in flight");
    burst(&mut completions, &mut ring, at(0), &[(1, true), (1, true)], 2);
    ring.lazy = 1;
    assert_eq!(completions.reap(at(5), &mut ring, |_| ()).descriptors, 1, "found by the nudge");
    ring.complete(1);
    assert_eq!(completions.reap(at(6), &mut ring, |_| ()).descriptors, 1);
    assert_eq!(ring.nudges, 1);
}

#[test]
fn a_rate_clock_completes_like_a_wire() {
    let rate = Rate::from_bits_per_sec(8_000_000);
    let mut completions = Completions::<Flag>::new(Source::Clock(rate), Nudge::None, RING);
    let mut ring = Ring::default();
    burst(&mut completions, &mut ring, at(0), &[(1, true), (1, true)], 2);
    burst(&mut completions, &mut ring, at(150), &[(1, true)], 1);
    burst(&mut completions, &mut ring, at(1_000), &[(1, true)], 1);
    let mut done = Vec::new();
    for now in 0..2_000 {
        completions.reap(at(now), &mut ring, |seen| {
            assert_eq!(seen.lateness, None);
            done.push((now, seen.residence.as_micros()));
        });
    }
    assert_eq!(done, [(100, 100), (200, 200), (300, 150), (1_100, 100)]);
}

#[test]
fn lateness_is_what_a_wire_of_that_rate_would_not_have_taken() {
    let mut completions = Completions::<Flag>::new(Source::Held, Nudge::None, RING);
    completions.set_pace(1_000_000);
    let mut ring = Ring::default();
    burst(&mut completions, &mut ring, at(0), &[(1, true), (1, true)], 2);
    ring.complete(2);
    let mut lateness = Vec::new();
    completions.reap(at(230), &mut ring, |seen| lateness.push(seen.lateness));
    assert_eq!(lateness, [130, 30].map(|late| Some(Duration::from_micros(late))));
}

#[test]
fn an_offset_is_inside_the_ring_or_none() {
    for from in [From::Tail, From::Oldest] {
        assert_eq!(from.offset(u64::from(RING), RING), None);
        assert!(
            (0..u64::from(RING)).all(|newer| from.offset(newer, RING).is_some_and(|offset| offset < RING))
        );
    }
    assert_eq!((From::Tail.offset(0, RING), From::Oldest.offset(0, RING)), (Some(RING - 1), Some(0)));
}

#[test]
fn a_packet_counts_as_the_frames_that_it_becomes() {
    let eal = dpdk::testing::eal();
    let pool = dpdk::Mempool::create(&eal, &dpdk::MempoolConfig::new("frames", 15)).unwrap();
    let mut packet = Mbuf::from_bytes(&pool, &[0; 54 + 2 * 1_448 + 100]).unwrap();
    let mut one = Amount::default();
    one.add(&packet, 24);
    assert_eq!(one, Amount { bytes: 54 + 2 * 1_448 + 100 + 24, descriptors: 2 });
    packet.set_ol_flags(dpdk::mbuf::flags::TX_TCP_SEG | dpdk::mbuf::flags::TX_IPV4);
    let marks =
        dpdk::TxOffload { l2_len: 14, l3_len: 20, l4_len: 20, tso_segsz: 1_448, ..Default::default() };
    packet.set_tx_offload(marks);
    let mut three = Amount::default();
    three.add(&packet, 24);
    assert_eq!(three, Amount { bytes: 3 * (54 + 24) + 2 * 1_448 + 100, descriptors: 2 });
}
