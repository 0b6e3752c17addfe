//! What the tests of this crate share.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, reason = "tests that call the kernel")]

use std::process::Command;

use dpdk::testing::TestEal;
use dpdk::{Burst, Mbuf, Mempool, MempoolConfig, Port, PortConfig, Ring, RxQueue, TxQueue};

/// A pool that must be full again when it goes.
pub struct FullAtEnd(pub Mempool);

impl FullAtEnd {
    pub fn new(eal: &TestEal, name: &str, count: u32) -> Self {
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
pub struct Running<'a> {
    pub eal: &'a TestEal,
    pub port: Port,
    pub rx: RxQueue,
    pub tx: TxQueue,
}

impl<'a> Running<'a> {
    pub fn attach(eal: &'a TestEal, devargs: &str, pool: &Mempool) -> Self {
        let name = eal.attach(devargs).unwrap();
        Self::start(eal, Port::open(eal, &name).unwrap(), pool)
    }

    pub fn start(eal: &'a TestEal, mut port: Port, pool: &Mempool) -> Self {
        port.configure(&PortConfig::default(), pool).unwrap();
        let mut started = port.start().unwrap();
        Self { eal, port, rx: started.rx.pop().unwrap(), tx: started.tx.pop().unwrap() }
    }

    pub fn close(self) {
        let Self { eal, mut port, rx, tx } = self;
        drop((rx, tx));
        port.close().unwrap();
        eal.detach(port.name()).unwrap();
    }
}

/// A port between two rings that the test holds: it receives from `to` and sends into `from`.
pub fn ring_port(eal: &TestEal, name: &str, size: u32) -> (Ring, Port, Ring) {
    let to = Ring::create(eal, &format!("{name}-to"), size).unwrap();
    let from = Ring::create(eal, &format!("{name}-from"), size).unwrap();
    let port = Ring::port(eal, name, &to, &from).unwrap();
    (to, port, from)
}

/// Bytes that tell where they are.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

pub fn bytes(mbuf: &Mbuf) -> Vec<u8> {
    mbuf.segments().flatten().copied().collect()
}

/// A burst of `count` packets of 100 bytes, numbered by their patterns.
pub fn burst_of(pool: &Mempool, count: u8) -> Burst {
    let mut burst = Burst::new();
    for seed in 0..count {
        burst.push(Mbuf::from_bytes(pool, &pattern(100, seed)).unwrap()).unwrap();
    }
    burst
}

/// Gives this thread a network namespace that ends with it.
pub fn enter_namespace() {
    // SAFETY: changes what network this thread sees.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        panic!("cannot make a network namespace: {}; run this test as root", std::io::Error::last_os_error());
    }
}

pub fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
