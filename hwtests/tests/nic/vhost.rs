//! The card behind vhost-user, with a guest in the same process.

use std::path::PathBuf;

use dpdk::mbuf::flags;
use dpdk::testing::{TestEal, eal};
use dpdk::{Burst, Mbuf, Mempool, MempoolConfig, Port, PortConfig, RxQueue, TxOffload, TxOffloads, TxQueue};
use hwtests::nic::{Card, Far};
use shaper::time::{Duration, Instant};
use sim::nic::Config;

use crate::card::{at, frame, tcp};
use crate::rig::card;

/// A card and its guest.
struct Bench<'a> {
    eal: &'a TestEal,
    card: Card,
    port: Port,
    rx: RxQueue,
    tx: TxQueue,
    pool: Mempool,
    socket: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(eal: &'a TestEal, config: Config, far: Far) -> Self {
        let socket = std::env::temp_dir().join(format!("nic-test-{}", std::process::id()));
        let pool_config = MempoolConfig { cache: 0, ..MempoolConfig::new("guest", 4095) };
        let pool = Mempool::create(eal, &pool_config).unwrap();
        let card = Card::behind_vhost(eal, "card", &socket, config, far).unwrap();
        let devargs = format!("net_virtio_user0,path={},queue_size={RING}", socket.display());
        let device = eal.attach(&devargs).unwrap();
        let mut port = Port::open(eal, &device).unwrap();
        let tx_offloads = TxOffloads::MULTI_SEGS | TxOffloads::TCP_TSO | TxOffloads::TCP_CKSUM;
        port.configure(&PortConfig { tx_offloads, ..PortConfig::default() }, &pool).unwrap();
        let mut started = port.start().unwrap();
        let (rx, tx) = (started.rx.remove(0), started.tx.remove(0));
        let mut bench = Self { eal, card, port, rx, tx, pool, socket };
        bench.connect();
        bench
    }

    /// A first frame, which the card sees once it knows of the guest.
    fn connect(&mut self) {
        assert_eq!(self.send(1), 1);
        for _ in 0..2_000_000 {
            if self.card.step(Instant::ZERO).unwrap() > 0 {
                return;
            }
            std::thread::yield_now();
        }
        panic!("the card does not see the guest's frame");
    }

    fn send(&mut self, count: usize) -> usize {
        let frame = frame(0);
        (0..count).take_while(|_| self.send_mbuf(Mbuf::from_bytes(&self.pool, &frame).unwrap())).count()
    }

    fn send_mbuf(&mut self, mbuf: Mbuf) -> bool {
        let mut burst = Burst::new();
        burst.push(mbuf).unwrap();
        self.tx.prepare(burst.as_mut_slice());
        self.tx.burst(&mut burst) == 1
    }

    fn in_flight_at(&mut self, micros: u64) -> usize {
        self.card.step(at(micros)).unwrap();
        self.card.in_flight()
    }

    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        self.rx.burst(&mut burst);
        burst.drain().map(|mbuf| mbuf.segments().flatten().copied().collect()).collect()
    }

    /// The guest goes, then the card.
    fn finish(mut self) {
        drop((self.rx, self.tx));
        self.port.close().unwrap();
        self.eal.detach(self.port.name()).unwrap();
        drop(self.port);
        assert_eq!(self.pool.in_use(), 0, "mbufs are missing from the pool");
        for _ in 0..2_000_000 {
            self.card.step(at(1_000_000)).unwrap();
            if self.card.in_flight() == 0 {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(self.card.in_flight(), 0, "frames of a guest that has gone");
        self.card.close(self.eal).unwrap();
        assert!(!self.socket.exists());
    }
}

#[test]
fn a_guest_s_descriptors_are_in_use_until_completions_are_told() {
    let eal = eal();
    let delay = Duration::from_micros(50);
    let mut bench = Bench::new(&eal, Config { delay, ..card(1_000_000_000) }, Far::Sink);
    assert_eq!(bench.in_flight_at(59), 1, "left at 10, completes at 60");
    assert_eq!(bench.in_flight_at(60), 0);
    bench.card.measure(at(100));
    let sent = bench.send(2 * RING);
    assert!((RING / 2..=RING).contains(&sent), "{sent} frames of one or two descriptors");
    assert_eq!(bench.in_flight_at(100), sent);
    assert_eq!(bench.in_flight_at(159), sent, "the first of them has left at 110");
    assert_eq!(bench.send(1), 0);
    assert_eq!(bench.in_flight_at(160 + 99), sent - 10);
    assert!(bench.send(1) == 1, "there is room again");
    bench.in_flight_at(5_000);
    assert_eq!(bench.in_flight_at(10_000), 0);
    assert_eq!(bench.card.truth().frames(), sent as u64 + 1);
    bench.finish();
}

#[test]
fn a_guest_s_super_packet_leaves_as_segments() {
    let eal = eal();
    let mut bench = Bench::new(&eal, card(1_000_000_000), Far::Loopback);
    bench.in_flight_at(1_000);
    assert_eq!(bench.received(), [frame(0)]);
    bench.card.measure(at(1_000));
    let mut super_packet = Mbuf::from_bytes(&bench.pool, &tcp(60_000)).unwrap();
    super_packet.set_ol_flags(flags::TX_TCP_SEG | flags::TX_TCP_CKSUM | flags::TX_IPV4 | flags::TX_IP_CKSUM);
    super_packet.set_tx_offload(TxOffload {
        l2_len: 14,
        l3_len: 20,
        l4_len: 32,
        tso_segsz: 1_448,
        ..TxOffload::default()
    });
    assert!(bench.send_mbuf(super_packet));
    assert_eq!(bench.in_flight_at(1_000), 1);
    assert_eq!(bench.in_flight_at(1_100), 1);
    assert_eq!(bench.received().len(), 8, "12.3 us each");
    assert_eq!(bench.in_flight_at(2_000), 0);
    let segments = bench.received();
    assert_eq!((segments.len(), segments[0].len(), segments[33].len()), (34, 1_514, 66 + 60_000 % 1_448));
    assert_eq!(bench.card.truth().bytes(), 41 * (1_514 + 24) + 66 + 60_000 - 41 * 1_448 + 24);
    bench.finish();
}

/// Descriptors of the guest's ring.
const RING: usize = 256;
