//! A guest's NIC and its host in one process (net_virtio_user and net_vhost): super-packets with the marks
//! that real drivers give them. The drivers run threads of their own, so that here, as nowhere else,
//! turns are repeated until something has come; how long that takes is not looked at.

use crate::frames::{ACK, PSH, Tcp};
use dpdk::mbuf::flags;
use dpdk::testing::{TestEal, eal};
use dpdk::{
    Burst, Mbuf, Mempool, MempoolConfig, Port, PortConfig, Ring, RxOffloads, RxQueue, TxOffload, TxOffloads,
    TxQueue,
};
use engine::classify::{Classifier, Wants};
use engine::direction::{Direction, Settings};
use engine::egress::Egress;
use engine::plan::Toggle;
use engine::pool::{BUFFER, PieceSum};
use engine::split::offload::{self, Offload, Segmentation, Verdict};
use shaper::flow::hash::FlowHasher;
use shaper::qdisc::{Params, Qdisc, fq_codel};
use shaper::rate::Overhead;
use shaper::rng::{Rng, SplitMix};
use shaper::time::{Duration, Instant};

const MSS: usize = 1448;

#[test]
fn marks_survive_a_guest_and_its_host_and_packets_are_cut_without_them() {
    let eal = eal();
    let mut pair = Pair::new(&eal);
    assert_eq!(pair.verdict.segmentation, Segmentation::Works, "{:?}", pair.verdict);
    let mut rng = SplitMix::new(1, 2);
    for v6 in [false, true] {
        let mss = if v6 { MSS - 20 } else { MSS };
        let tcp = Tcp { v6, flags: ACK | PSH, ..Tcp::noise(1, 40 * mss - 99, &mut || rng.next_u16()) };
        let segments: Vec<_> = tcp.segments(mss).iter().map(Tcp::frame).collect();

        let whole = pair.send_to_host(&tcp, mss, pair.verdict.offload, 1);
        assert_eq!(whole.len(), 1, "left to the port, which passes it on");
        let (frame, segsz, ol_flags) = &whole[0];
        assert_eq!((usize::from(*segsz), ol_flags & flags::RX_LRO), (mss, flags::RX_LRO));
        assert_eq!(frame.len(), tcp.frame().len());
        assert!(frame.ends_with(&tcp.payload));

        let cut = pair.send_to_host(&tcp, mss, Offload::NONE, segments.len());
        assert!(cut.iter().all(|(_, segsz, _)| *segsz == 0));
        let cut: Vec<_> = cut.into_iter().map(|(frame, ..)| frame).collect();
        assert!(cut == segments, "cut here, byte for byte what the sender would have sent");

        let came = pair.take_from_host(&tcp, mss, segments.len());
        assert!(came == segments, "received whole, with marks, and taken apart");
    }
    pair.close(&eal);
}

/// `inlet` → up → virtio_user → vhost, and back to `outlet`.
struct Pair {
    inlet: Ring,
    outlet: Ring,
    pool: Mempool,
    pieces: Mempool,
    verdict: Verdict,
    /// Queues of the ring's port and of the guest's, while no direction has them.
    guest: Option<(RxQueue, TxQueue)>,
    ring: Option<(RxQueue, TxQueue)>,
    host: (RxQueue, TxQueue),
    ports: [Port; 3],
    now: Instant,
}

impl Pair {
    /// All memory is allocated before the guest starts: its driver tells the host of memory that is
    /// added, and waits for an answer that the same process cannot give meanwhile.
    fn new(eal: &TestEal) -> Self {
        let pool = |name: &str, count, data_room| {
            let config = MempoolConfig { cache: 0, data_room, ..MempoolConfig::new(name, count) };
            Mempool::create(eal, &config).unwrap()
        };
        let (data, pieces) =
            (pool("virtio", 8191, BUFFER as u16), pool("virtio-pieces", 4095, PieceSum::data_room(true)));
        let (inlet, outlet) =
            (Ring::create(eal, "virtio-in", 256).unwrap(), Ring::create(eal, "virtio-out", 256).unwrap());
        let mut ring = Ring::port(eal, "virtio-ring", &inlet, &outlet).unwrap();
        let path = std::env::temp_dir().join(format!("weir-turns-{}-vhost", std::process::id()));
        let open = |devargs: String| Port::open(eal, &eal.attach(&devargs).unwrap()).unwrap();
        let start = |port: &mut Port, config: &PortConfig| {
            port.configure(config, &data).unwrap();
            let mut started = port.start().unwrap();
            (started.rx.pop().unwrap(), started.tx.pop().unwrap())
        };
        let plain = PortConfig::default();
        let ring_queues = start(&mut ring, &plain);
        let mut host = open(format!("net_vhost7,iface={},tso=1", path.display()));
        let host_queues = start(&mut host, &plain);
        let mut guest = open(format!("net_virtio_user7,path={},queue_size=1024", path.display()));
        let marks = RxOffloads::SCATTER | RxOffloads::TCP_LRO | RxOffloads::TCP_CKSUM | RxOffloads::UDP_CKSUM;
        let config = PortConfig {
            rx_offloads: marks,
            tx_offloads: TxOffloads::MULTI_SEGS | offload::wanted(Toggle::Auto, "net_virtio_user"),
            ..plain
        };
        let (rx, mut tx) = start(&mut guest, &config);
        let configured = guest.configured().unwrap();
        assert!(configured.rx_offloads.contains(RxOffloads::TCP_LRO | RxOffloads::SCATTER));
        let enabled = configured.tx_offloads;
        let verdict = Verdict::new(&guest.info().unwrap(), enabled, Toggle::Auto, &mut tx, &data);
        Self {
            inlet,
            outlet,
            pool: data,
            pieces,
            verdict,
            guest: Some((rx, tx)),
            ring: Some(ring_queues),
            host: host_queues,
            ports: [guest, host, ring],
            now: Instant::ZERO,
        }
    }

    /// Sends a super-packet through a direction to the guest's port, and takes `count` frames from the
    /// host's: bytes, segment size, flags.
    fn send_to_host(
        &mut self,
        tcp: &Tcp,
        mss: usize,
        offload: Offload,
        count: usize,
    ) -> Vec<(Vec<u8>, u16, u64)> {
        let mut packet = Mbuf::from_bytes(&self.pool, &tcp.frame()).unwrap();
        packet.set_ol_flags(flags::RX_LRO);
        packet.set_tx_offload(TxOffload { tso_segsz: mss as u16, ..TxOffload::default() });
        let mut burst = Burst::new();
        burst.push(packet).unwrap();
        assert_eq!(self.inlet.enqueue(&mut burst), 1);
        let mut got = Vec::new();
        let (from_ring, ring_tx) = self.ring.take().unwrap();
        let (guest_rx, to_guest) = self.guest.take().unwrap();
        let mut direction = self.direction(from_ring, to_guest, offload);
        let complete = self.turns(&mut direction, |this| {
            this.host.0.burst(&mut burst);
            got.extend(
                burst.drain().map(|mbuf| (bytes(&mbuf), mbuf.tx_offload().tso_segsz, mbuf.ol_flags())),
            );
            got.len() >= count
        });
        assert!(complete, "{} of {count}; {:?}", got.len(), direction.counters());
        let (from_ring, to_guest) = direction.into_queues();
        (self.ring, self.guest) = (Some((from_ring, ring_tx)), Some((guest_rx, to_guest)));
        got
    }

    /// Sends a super-packet from the host, and takes `count` frames from behind a direction that receives
    /// from the guest's port.
    fn take_from_host(&mut self, tcp: &Tcp, mss: usize, count: usize) -> Vec<Vec<u8>> {
        let mut packet = Mbuf::from_bytes(&self.pool, &tcp.frame()).unwrap();
        packet.set_ol_flags(flags::TX_TCP_SEG | if tcp.v6 { flags::TX_IPV6 } else { flags::TX_IPV4 });
        packet.set_tx_offload(TxOffload {
            l2_len: 14,
            l3_len: if tcp.v6 { 40 } else { 20 },
            l4_len: 32,
            tso_segsz: mss as u16,
            ..TxOffload::default()
        });
        let mut burst = Burst::new();
        burst.push(packet).unwrap();
        let mut out = Burst::new();
        let mut got = Vec::new();
        let (ring_rx, to_ring) = self.ring.take().unwrap();
        let (from_guest, guest_tx) = self.guest.take().unwrap();
        let mut direction = self.direction(from_guest, to_ring, Offload::NONE);
        let complete = self.turns(&mut direction, |this| {
            this.host.1.burst(&mut burst);
            this.outlet.dequeue(&mut out);
            got.extend(out.drain().map(|mbuf| bytes(&mbuf)));
            got.len() >= count
        });
        let counters = *direction.counters();
        assert!(complete, "{} of {count}; {counters:?}", got.len());
        assert_eq!((counters.received.packets, counters.supers.received.packets), (1, 1));
        let (from_guest, to_ring) = direction.into_queues();
        (self.ring, self.guest) = (Some((ring_rx, to_ring)), Some((from_guest, guest_tx)));
        got
    }

    fn direction(&self, rx: RxQueue, tx: TxQueue, offload: Offload) -> Direction {
        let qdisc = Qdisc::new(&Params::FqCodel(fq_codel::Params::default()), 1024).unwrap();
        let egress = Egress::new(qdisc, None, Overhead::default(), SplitMix::new(1, 2));
        let classifier = Classifier::new(FlowHasher::new([7; 16]), Wants::default(), &[]);
        let settings = Settings { offload, ..Settings::default() };
        Direction::new(rx, tx, classifier, egress, settings, &self.pieces)
    }

    /// Turns until `done` or for a bounded number of times; the driver's threads get their turns too.
    fn turns(&mut self, direction: &mut Direction, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        (0..2_000_000).any(|_| {
            self.now += Duration::from_micros(1);
            direction.turn(self.now);
            std::thread::yield_now();
            done(self)
        })
    }

    /// The guest first: the host logs errors otherwise.
    fn close(self, eal: &TestEal) {
        drop((self.guest, self.ring, self.host));
        for mut port in self.ports {
            port.close().unwrap();
            eal.detach(port.name()).unwrap();
        }
        assert_eq!((self.pool.in_use(), self.pieces.in_use()), (0, 0), "every mbuf is back");
    }
}

fn bytes(mbuf: &Mbuf) -> Vec<u8> {
    mbuf.segments().flatten().copied().collect()
}
