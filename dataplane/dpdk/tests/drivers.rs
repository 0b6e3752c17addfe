//! Every software driver that a port may name: found, started, polled, given back.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{FullAtEnd, Running, burst_of, enter_namespace, ip};
use dpdk::testing::{TestEal, eal};
use dpdk::{Burst, Mempool, MempoolConfig, TxOffloads};

#[test]
fn null_ring_and_pcap() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "files", 4095);
    let capture = std::env::temp_dir().join(format!("dpdk-test-{}.pcap", std::process::id()));
    try_out(&eal, "net_null0", "net_null", &pool.0);
    try_out(&eal, "net_ring0", "net_ring", &pool.0);
    try_out(&eal, &format!("net_pcap0,tx_pcap={}", capture.display()), "net_pcap", &pool.0);
    let written = std::fs::metadata(&capture).unwrap().len();
    std::fs::remove_file(&capture).unwrap();
    assert_eq!(written, 24 + 8 * (16 + 100), "file header, and 8 frames with theirs");
}

#[test]
fn af_packet_and_af_xdp() {
    let eal = eal();
    enter_namespace();
    let pool = FullAtEnd::new(&eal, "sockets", 8191);
    ip(&["link", "add", "weira", "type", "veth", "peer", "name", "weirb"]);
    ip(&["link", "set", "weira", "up"]);
    ip(&["link", "set", "weirb", "up"]);
    try_out(&eal, "net_af_packet0,iface=weira", "net_af_packet", &pool.0);

    // The driver keeps the buffers of its fill ring when it is closed (DPDK 22.11): the pool is
    // short of a ring and what was on its way, and of no more.
    let config = MempoolConfig { cache: 0, ..MempoolConfig::new("xdp", 8191) };
    let pool = Mempool::create(&eal, &config).unwrap();
    try_out(&eal, "net_af_xdp0,iface=weirb", "net_af_xdp", &pool);
    assert!(pool.in_use() <= AF_XDP_RING + 8, "{} buffers are missing", pool.in_use());
}

#[test]
fn memif_vhost_and_virtio_user() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "shared", 8191);
    let dir = std::env::temp_dir();
    let path =
        |name: &str| dir.join(format!("dpdk-test-{}-{name}", std::process::id())).display().to_string();
    try_out(
        &eal,
        &format!("net_memif0,role=server,socket-abstract=no,socket={}", path("memif")),
        "net_memif",
        &pool.0,
    );

    // The server first: its socket appears when it is started; and it goes last.
    let vhost = Running::attach(&eal, &format!("net_vhost0,iface={},tso=1", path("vhost")), &pool.0);
    assert_eq!(vhost.port.info().unwrap().driver, "net_vhost");
    let mut virtio =
        Running::attach(&eal, &format!("net_virtio_user0,path={},queue_size=1024", path("vhost")), &pool.0);
    let info = virtio.port.info().unwrap();
    assert_eq!(info.driver, "net_virtio_user");
    assert!(info.tx_offloads.contains(TxOffloads::TCP_TSO | TxOffloads::MULTI_SEGS), "{info}");
    let Running { port: vhost_port, rx: mut vhost_rx, tx: vhost_tx, .. } = vhost;

    let mut out = burst_of(&pool.0, 8);
    let mut back = Burst::new();
    for _ in 0..2_000_000 {
        virtio.tx.burst(&mut out);
        vhost_rx.burst(&mut back);
        if back.len() == 8 {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!((out.len(), back.len()), (0, 8), "sent by virtio_user, received by vhost");
    drop(back);
    virtio.close();
    Running { eal: &eal, port: vhost_port, rx: vhost_rx, tx: vhost_tx }.close();
    let _ = std::fs::remove_file(path("memif"));
}

/// A whole life: attach, start, send, receive, close, detach.
fn try_out(eal: &TestEal, devargs: &str, driver: &str, pool: &Mempool) {
    let mut running = Running::attach(eal, devargs, pool);
    let info = running.port.info().unwrap();
    assert_eq!(info.driver, driver);
    running.port.link().unwrap();
    let mut burst = burst_of(pool, 8);
    running.tx.burst(&mut burst);
    running.rx.burst(&mut burst);
    drop(burst);
    running.port.stats().unwrap();
    running.close();
}

/// `XSK_RING_PROD__DEFAULT_NUM_DESCS`, which the driver takes whatever it is asked for.
const AF_XDP_RING: u32 = 2048;
