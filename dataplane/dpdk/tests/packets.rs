//! Packets through pools, rings and software ports.

use dpdk::testing::{TestEal, eal};
use dpdk::{Burst, Mbuf, Mempool, MempoolConfig, Port, PortConfig, Ring, RxQueue, TxQueue};

/// A pool that must be full again when it goes.
struct FullAtEnd(Mempool);

impl FullAtEnd {
    fn new(eal: &TestEal, name: &str, count: u32) -> Self {
        let config = MempoolConfig { cache: 0, ..MempoolConfig::new(name, count) };
        Self(Mempool::create(eal, &config).unwrap())
    }
}

impl Drop for FullAtEnd {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.0.in_use(), 0, "buffers are missing from the pool");
            assert_eq!(self.0.available(), self.0.size());
        }
    }
}

/// A started port with one queue each way; closed and detached at the end.
struct Running<'a> {
    eal: &'a TestEal,
    port: Port,
    rx: RxQueue,
    tx: TxQueue,
}

impl<'a> Running<'a> {
    fn attach(eal: &'a TestEal, devargs: &str, pool: &Mempool) -> Self {
        let name = eal.attach(devargs).unwrap();
        Self::start(eal, Port::open(eal, &name).unwrap(), pool)
    }

    fn start(eal: &'a TestEal, mut port: Port, pool: &Mempool) -> Self {
        port.configure(&PortConfig::default(), pool).unwrap();
        let mut started = port.start().unwrap();
        Self { eal, port, rx: started.rx.pop().unwrap(), tx: started.tx.pop().unwrap() }
    }

    fn close(self) {
        let Self { eal, mut port, rx, tx } = self;
        drop((rx, tx));
        port.close().unwrap();
        eal.detach(port.name()).unwrap();
    }
}

/// Bytes that tell where they are.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn bytes(mbuf: &Mbuf) -> Vec<u8> {
    mbuf.segments().flatten().copied().collect()
}

#[test]
fn null_ports_take_and_give_packets() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "null", 1023);
    let mut left = Running::attach(&eal, "net_null0,size=64", &pool.0);
    let mut right = Running::attach(&eal, "net_null1", &pool.0);
    let mut burst = Burst::new();
    let mut sent = 0;
    for _ in 0..100 {
        assert_eq!(left.rx.burst_up_to(&mut burst, 32), 32);
        assert!(burst.as_slice().iter().all(|mbuf| mbuf.pkt_len() == 64 && mbuf.nb_segs() == 1));
        sent += right.tx.burst(&mut burst);
        assert!(burst.is_empty());
    }
    assert_eq!(sent, 3200);
    assert_eq!(left.port.stats().unwrap().ipackets, 3200);
    assert_eq!(right.port.stats().unwrap().opackets, 3200);
    left.close();
    right.close();
}

#[test]
fn two_ports_over_two_rings_are_a_cable() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "cable", 511);
    let east = Ring::create(&eal, "cable-east", 256).unwrap();
    let west = Ring::create(&eal, "cable-west", 256).unwrap();
    let mut a = Running::start(&eal, Ring::port(&eal, "a", &west, &east).unwrap(), &pool.0);
    let mut b = Running::start(&eal, Ring::port(&eal, "b", &east, &west).unwrap(), &pool.0);

    let mut burst = Burst::new();
    for seed in 0..20 {
        burst.push(Mbuf::from_bytes(&pool.0, &pattern(1500, seed)).unwrap()).unwrap();
    }
    assert_eq!(a.tx.burst(&mut burst), 20);
    assert_eq!(b.rx.burst(&mut burst), 20);
    for (seed, mbuf) in burst.drain().enumerate() {
        assert_eq!(bytes(&mbuf), pattern(1500, seed as u8));
    }
    b.tx.burst(&mut burst);
    assert_eq!(a.rx.burst(&mut burst), 0);
    a.close();
    b.close();
}
