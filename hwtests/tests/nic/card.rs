//! The card by itself: a port's queues on one side, the wire's far end on the other.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use dpdk::mbuf::flags;
use dpdk::testing::{Answers, TestEal, eal};
use dpdk::{
    Burst, DescriptorStatus, Mbuf, Mempool, MempoolConfig, Port, PortConfig, RxQueue, TxOffload, TxQueue,
};
use hwtests::clock::Interrupt;
use hwtests::netns::Netns;
use hwtests::nic::{Card, Far, SMALLEST_RING};
use hwtests::process::run;
use hwtests::tap::Tap;
use shaper::time::{Duration, Instant};
use sim::nic::{Config, LinkDown};

use crate::rig::card;

/// A card and the queues of its port.
struct Bench<'a> {
    eal: &'a TestEal,
    card: Card,
    port: Port,
    rx: RxQueue,
    tx: TxQueue,
    pool: Mempool,
}

impl<'a> Bench<'a> {
    /// At 1 Gbit/s and with [`FRAME`] a frame takes 10 us.
    fn new(eal: &'a TestEal, config: Config, far: Far) -> Self {
        let pool =
            Mempool::create(eal, &MempoolConfig { cache: 0, ..MempoolConfig::new("card", 2047) }).unwrap();
        let (card, mut port) = Card::behind_ring(eal, "card", config, far).unwrap();
        port.configure(&PortConfig::default(), &pool).unwrap();
        let mut started = port.start().unwrap();
        Self { eal, card, port, rx: started.rx.remove(0), tx: started.tx.remove(0), pool }
    }

    /// Sends `count` frames; returns how many the port took.
    fn send(&mut self, count: usize) -> usize {
        (0..count).filter(|_| self.send_mbuf(self.mbuf(&frame(0)))).count()
    }

    fn mbuf(&self, bytes: &[u8]) -> Mbuf {
        Mbuf::from_bytes(&self.pool, bytes).unwrap()
    }

    fn send_mbuf(&mut self, mbuf: Mbuf) -> bool {
        let mut burst = Burst::new();
        burst.push(mbuf).unwrap();
        self.tx.burst(&mut burst) == 1
    }

    /// Steps at `micros`; returns how many buffers are not back.
    fn out_at(&mut self, micros: u64) -> u32 {
        self.card.step(at(micros)).unwrap();
        assert_eq!(self.pool.in_use(), self.card.in_flight() as u32);
        self.pool.in_use()
    }

    /// What the port receives.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        self.rx.burst(&mut burst);
        burst.drain().map(|mbuf| mbuf.segments().flatten().copied().collect()).collect()
    }

    fn finish(self) {
        let Self { eal, card, mut port, rx, tx, pool } = self;
        drop((rx, tx, card));
        port.close().unwrap();
        eal.detach(port.name()).unwrap();
        drop(port);
        assert_eq!(pool.in_use(), 0, "mbufs are missing from the pool");
    }
}

#[test]
fn a_buffer_comes_back_when_its_completion_is_told() {
    let eal = eal();
    let delay = Duration::from_micros(50);
    let mut bench =
        Bench::new(&eal, Config { delay, tx_usecs: delay, tx_frames: 4, ..card(GBIT) }, Far::Sink);
    bench.send(6);
    assert_eq!(bench.out_at(0), 6);
    assert_eq!(bench.out_at(89), 6, "the fourth has left at 40 and completes at 90");
    assert_eq!(bench.card.truth().frames(), 6, "all have left at 60");
    assert_eq!(bench.out_at(90), 2);
    assert_eq!(bench.out_at(149), 2, "the fifth completes at 100");
    assert_eq!(bench.out_at(150), 0, "and waits for others no longer than tx-usecs");
    assert_eq!(bench.card.truth().residence(100.0), Duration::from_micros(60));
    bench.finish();
}

#[test]
fn doorway_and_card_together_are_the_ring() {
    let eal = eal();
    for ring in [SMALLEST_RING, 500, 1_024] {
        let mut bench = Bench::new(&eal, Config { ring, ..card(0) }, Far::Sink);
        let mut taken = 0;
        for micros in 0..40 {
            taken += bench.send(40);
            bench.card.step(at(micros)).unwrap();
        }
        assert_eq!((taken, bench.out_at(50)), (ring as usize, ring));
        bench.finish();
    }
    let refused = Card::behind_ring(&eal, "small", Config { ring: 255, ..card(GBIT) }, Far::Sink);
    assert_eq!(refused.unwrap_err().to_string(), "card small: ring = 255, at least 256");
}

#[test]
fn descriptors_are_done_when_completions_are_told() {
    let eal = eal();
    let mut bench = Bench::new(&eal, Config { ring: 256, ..card(GBIT) }, Far::Sink);
    assert!(bench.tx.descriptor_status(0).is_err(), "net_ring has no such call");
    let answers = Answers::of(&bench.tx, bench.card.descriptor_status().unwrap());
    let done = |bench: &Bench<'_>| {
        (0..256).filter(|n| bench.tx.descriptor_status(*n).unwrap() == DescriptorStatus::Done).count()
    };
    assert_eq!(done(&bench), 256);
    bench.send(100);
    assert_eq!(done(&bench), 156, "before the card has seen them");
    bench.out_at(0);
    assert_eq!(done(&bench), 156);
    bench.out_at(305);
    assert_eq!(done(&bench), 186);
    assert_eq!(bench.tx.descriptor_status(186), Ok(DescriptorStatus::Full), "the oldest is farthest ahead");
    bench.out_at(2_000);
    assert_eq!(done(&bench), 256);
    drop(answers);
    bench.finish();
}

#[test]
fn time_in_the_doorway_is_part_of_the_residence() {
    let eal = eal();
    let mut bench = Bench::new(&eal, Config { ring: 256, ..card(GBIT) }, Far::Sink);
    for micros in [0, 0, 5, 5] {
        bench.send(70);
        bench.card.step(at(micros)).unwrap();
    }
    for turn in 0..300 {
        bench.out_at(6 + 10 * turn);
    }
    assert_eq!(bench.card.truth().frames(), 256);
    assert_eq!(bench.card.truth().residence(100.0), Duration::from_micros(2_555));
    bench.finish();
}

#[test]
fn a_link_that_flaps_loses_no_buffer() {
    let eal = eal();
    for link_down in [LinkDown::Keep, LinkDown::Flush] {
        let mut bench = Bench::new(&eal, Config { link_down, ..card(GBIT) }, Far::Sink);
        bench.send(40);
        bench.out_at(0);
        bench.card.nic().set_link(at(100), false);
        bench.send(10);
        let flushed = link_down == LinkDown::Flush;
        bench.out_at(1_000);
        assert_eq!(bench.out_at(2_000), if flushed { 0 } else { 40 });
        bench.card.nic().set_link(at(3_000), true);
        assert_eq!(bench.out_at(4_000), 0);
        let truth = bench.card.truth();
        assert_eq!((truth.frames(), truth.unsent()), if flushed { (10, 40) } else { (50, 0) });
        bench.finish();
    }
}

#[test]
fn a_loopback_brings_frames_back_as_they_leave() {
    let eal = eal();
    let mut bench = Bench::new(&eal, card(GBIT), Far::Loopback);
    let sent = [frame(1), frame(2), frame(3)];
    for bytes in &sent {
        assert!(bench.send_mbuf(bench.mbuf(bytes)));
    }
    bench.card.step(at(0)).unwrap();
    bench.card.step(at(20)).unwrap();
    assert_eq!(bench.received(), sent[..2]);
    bench.card.step(at(30)).unwrap();
    assert_eq!(bench.received(), sent[2..]);
    assert_eq!((bench.card.arrivals().received(), bench.card.arrivals().missed()), (3, 0));
    bench.finish();
}

/// 10 segments of 1448 and one of 20 bytes, in three buffers.
#[test]
fn the_tso_engine_puts_segments_on_the_wire() {
    let eal = eal();
    let mut bench = Bench::new(&eal, card(GBIT), Far::Loopback);
    let mut super_packet = bench.mbuf(&tcp(14_500));
    assert!(super_packet.nb_segs() > 1);
    super_packet.set_ol_flags(flags::TX_TCP_SEG | flags::TX_IPV4 | flags::TX_IP_CKSUM);
    super_packet.set_tx_offload(TxOffload {
        l2_len: 14,
        l3_len: 20,
        l4_len: 32,
        tso_segsz: 1_448,
        ..TxOffload::default()
    });
    assert!(bench.send_mbuf(super_packet));
    bench.card.step(at(0)).unwrap();
    bench.card.step(at(50)).unwrap();
    assert_eq!(bench.received().len(), 4, "12.3 us each");
    assert!(bench.card.in_flight() == 1);
    bench.card.step(at(124)).unwrap();
    assert_eq!(bench.card.in_flight(), 0);
    assert_eq!(bench.card.truth().bytes(), 10 * 1_538 + 110, "preamble, FCS and gap for each");
    let segments = bench.received();
    assert_eq!((segments.len(), segments[0].len(), segments[6].len()), (7, 1_514, 86));
    for (index, segment) in (4..).zip(&segments) {
        assert_eq!(segment[38..42], (index * 1_448_u32).to_be_bytes(), "sequence numbers");
        assert_eq!(sum(&segment[14..34]), 0xffff, "checksum of IPv4");
        let pseudo = [&segment[26..34], &[0, 6], &(segment.len() as u16 - 34).to_be_bytes()].concat();
        assert_eq!(sum(&[&pseudo, &segment[34..]].concat()), 0xffff, "checksum of TCP");
    }
    bench.finish();
}

/// The file of a TAP yields and takes a frame per call; so does a socket of datagrams.
#[test]
fn the_kernel_is_at_the_far_end() {
    let eal = eal();
    let (kernel, end) = UnixDatagram::pair().unwrap();
    for socket in [&kernel, &end] {
        socket.set_nonblocking(true).unwrap();
    }
    let mut bench = Bench::new(&eal, card(GBIT), Far::Tap(File::from(OwnedFd::from(end))));
    assert!(bench.send_mbuf(bench.mbuf(&frame(9))));
    for seed in 0..3 {
        kernel.send(&frame(seed)).unwrap();
    }
    bench.card.step(at(0)).unwrap();
    assert_eq!(bench.received().len(), 0);
    assert!(kernel.recv(&mut [0; 2_000]).is_err(), "it has not left");
    bench.card.step(at(10)).unwrap();
    let mut buffer = [0; 2_000];
    let len = kernel.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..len], frame(9));
    assert_eq!(bench.received(), [frame(0)], "the wire brings one in 10 us too");
    bench.card.step(at(30)).unwrap();
    assert_eq!(bench.received(), [frame(1), frame(2)]);
    bench.finish();
}

/// An interface of the kernel, in a namespace of its own, behind the wire.
#[test]
fn a_tap_is_at_the_far_end() {
    let eal = eal();
    let name = format!("nic{}", std::process::id());
    let netns = Netns::new("nic", None, &Interrupt::install().unwrap()).unwrap();
    let far = Far::Tap(Tap::new(&name).unwrap().into_file());
    netns.take(&name, "192.0.2.1/24").unwrap();
    let mut bench = Bench::new(&eal, card(GBIT), far);
    run(netns.command("ip").args(["neigh", "add", "192.0.2.2", "lladdr", "02:00:00:00:00:02", "dev", &name]))
        .unwrap();
    // It waits for an answer in vain, and says so.
    let _ = run(netns.command("ping").args(["-c", "1", "-W", "1", "192.0.2.2"]));
    assert!(bench.send_mbuf(bench.mbuf(&frame(0))));
    let mut received = Vec::new();
    for step in 0..10 {
        bench.card.step(at(100 * step)).unwrap();
        received.extend(bench.received());
    }
    let is_ping = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] == 8;
    assert!(received.iter().any(is_ping), "the kernel's echo request came in: {received:02x?}");
    assert_eq!(netns.bytes(&name).unwrap().received, 1_226, "what left the wire went into the kernel");
    assert_eq!(bench.card.arrivals().undelivered(), 0);
    bench.finish();
}

/// 1226 bytes take 10 us with preamble, FCS and gap at 1 Gbit/s.
pub fn frame(seed: u8) -> Vec<u8> {
    (0..1_226_u32).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// A frame of TCP with timestamps, sequence number 0; its checksums are left to the card.
pub fn tcp(payload: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((52 + payload).to_be_bytes());
    frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    frame.extend([4, 0, 0x13, 0x89, 0, 0, 0, 0, 0, 0, 0, 1, 0x80, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    frame.extend((0..payload).map(|at| (at % 251) as u8));
    frame
}

/// One's complement sum of the 16-bit words: 0xffff over bytes with a right checksum.
fn sum(bytes: &[u8]) -> u16 {
    let sum: u32 =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

pub fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

const GBIT: u64 = 1_000_000_000;
