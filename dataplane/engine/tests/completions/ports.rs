//! Ports of software drivers, and the peers that some of them need.

use dpdk::{Burst, Eal, Mempool, MempoolConfig, Port, PortConfig, RxQueue, TxQueue};
use engine::clock::Clock;
use engine::probe::{Probe, Verdict};
use shaper::time::Instant;
use std::process::Command;

/// A started port with one queue each way.
pub struct Running {
    pub port: Port,
    /// Until somebody takes them.
    pub rx: Option<RxQueue>,
    pub tx: Option<TxQueue>,
}

impl Running {
    pub fn attach(eal: &Eal, devargs: &str, pool: &Mempool) -> Self {
        let name = eal.attach(devargs).unwrap();
        Self::start(Port::open(eal, &name).unwrap(), pool)
    }

    pub fn start(mut port: Port, pool: &Mempool) -> Self {
        port.configure(&PortConfig::default(), pool).unwrap();
        let mut started = port.start().unwrap();
        Self { port, rx: started.rx.pop(), tx: started.tx.pop() }
    }

    /// The verdict on this port under the real clock, while `peer` has its turn at every look.
    pub fn probe(&mut self, eal: &Eal, pool: &Mempool, mut peer: impl FnMut()) -> Verdict {
        let mut clock = Clock::start(eal);
        self.probe_at(pool, || {
            peer();
            clock.now()
        })
    }

    pub fn probe_at(&mut self, pool: &Mempool, mut now: impl FnMut() -> Instant) -> Verdict {
        let info = self.port.info().unwrap();
        let probe =
            Probe { tx: self.tx.as_mut().unwrap(), pool, mac: info.mac, driver: &info.driver, now: &mut now };
        let verdict = probe.run().unwrap();
        println!("{verdict}\n");
        verdict
    }

    /// Receives up to `limit` packets.
    pub fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
        self.rx.as_mut().unwrap().burst_up_to(burst, limit)
    }

    pub fn close(self, eal: &Eal) {
        let Self { mut port, rx, tx } = self;
        drop((rx, tx));
        port.close().unwrap();
        eal.detach(port.name()).unwrap();
    }
}

pub fn pool(eal: &Eal, name: &str, count: u32) -> Mempool {
    Mempool::create(eal, &MempoolConfig { cache: 0, ..MempoolConfig::new(name, count) }).unwrap()
}

/// Gives the thread that connects a vhost port with its peer time to do so.
pub fn connect(vhost: &mut Running) {
    let mut burst = Burst::new();
    for _ in 0..100_000 {
        vhost.receive(&mut burst, Burst::CAPACITY);
        burst.clear();
        std::thread::yield_now();
    }
}

pub fn is_full(pool: &Mempool) {
    assert_eq!(pool.in_use(), 0, "buffers are missing from the pool");
}

pub fn enter_namespace() {
    if let Err(errno) = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET) {
        panic!("cannot make a network namespace: {errno}; run this test as root");
    }
}

pub fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
