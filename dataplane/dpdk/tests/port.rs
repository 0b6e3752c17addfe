//! Ports over net_null and net_ring: packets, refusals, life and death.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{FullAtEnd, Running, burst_of, bytes, pattern, ring_port};
use dpdk::testing::eal;
use dpdk::{
    Burst, EalError, Errno, Mbuf, Mempool, MempoolConfig, Phase, Port, PortConfig, PortError, PortWarning,
    Ring, RxOffloads, TxOffloads,
};

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
        burst
            .push(Mbuf::from_bytes(&pool.0, &pattern(1500 + 200 * usize::from(seed), seed)).unwrap())
            .unwrap();
    }
    assert_eq!(a.tx.burst(&mut burst), 20);
    assert_eq!(b.rx.burst(&mut burst), 20);
    assert_eq!(b.tx.burst(&mut burst), 20);
    assert_eq!(a.rx.burst(&mut burst), 20);
    for (seed, mbuf) in burst.drain().enumerate() {
        assert_eq!(bytes(&mbuf), pattern(1500 + 200 * seed, seed as u8));
    }
    assert_eq!(a.rx.burst(&mut burst), 0);
    a.close();
    b.close();
}

#[test]
fn what_the_driver_does_not_take_stays_in_order() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "partial", 127);
    let (_to, port, from) = ring_port(&eal, "partial", 16);
    let mut running = Running::start(&eal, port, &pool.0);
    let mut burst = burst_of(&pool.0, 40);
    assert_eq!(running.tx.burst(&mut burst), 15);
    assert_eq!(running.tx.burst(&mut burst), 0);
    assert_eq!(burst.len(), 25);
    let mut out = Burst::new();
    for _ in 0..40 {
        from.dequeue_up_to(&mut out, 10);
        running.tx.burst(&mut burst);
    }
    assert!(burst.is_empty());
    for (seed, mbuf) in out.drain().enumerate() {
        assert_eq!(mbuf.head(), pattern(100, seed as u8));
    }
    assert_eq!(pool.0.in_use(), 0);
    running.close();
}

#[test]
fn an_empty_pool_stops_receiving_and_no_more() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "starved", 48);
    let mut running = Running::attach(&eal, "net_null0", &pool.0);
    let (mut first, mut second) = (Burst::new(), Burst::new());
    assert_eq!(running.rx.burst_up_to(&mut first, 32), 32);
    assert_eq!(running.rx.burst_up_to(&mut second, 32), 0, "16 buffers are left");
    assert!(running.port.link().unwrap().up);
    first.clear();
    assert_eq!(running.rx.burst_up_to(&mut second, 32), 32);
    drop(second);
    running.close();
}

#[test]
fn packets_left_in_a_ring_go_with_it() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "left", 127);
    let (to, port, from) = ring_port(&eal, "left", 128);
    let mut running = Running::start(&eal, port, &pool.0);
    running.tx.burst(&mut burst_of(&pool.0, 60));
    to.enqueue(&mut burst_of(&pool.0, 60));
    assert_eq!((to.len(), from.len(), pool.0.in_use()), (60, 60, 120));
    drop((to, from));
    assert_eq!(pool.0.in_use(), 120, "the port still holds the rings");
    running.close();
}

#[test]
fn a_port_lets_go_only_after_its_queues() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "queues", 127);
    let (_to, mut port, _from) = ring_port(&eal, "queues", 128);
    let name = port.name().to_owned();
    assert_eq!(
        port.start().unwrap_err().to_string(),
        "port net_ring_queues: cannot start a port that is not configured; configure it once, and start it once"
    );
    port.configure(&PortConfig::default(), &pool.0).unwrap();
    let started = port.start().unwrap();
    let in_use = PortError::QueuesInUse { name: name.clone(), count: 2 };
    assert_eq!(port.stop().unwrap_err(), in_use);
    assert_eq!(port.close().unwrap_err(), in_use);
    assert!(matches!(port.configure(&PortConfig::default(), &pool.0), Err(PortError::Phase { .. })));
    assert!(matches!(port.start(), Err(PortError::Phase { .. })));
    drop(started.rx);
    assert_eq!(port.stop().unwrap_err(), PortError::QueuesInUse { name: name.clone(), count: 1 });
    drop(started.tx);
    port.stop().unwrap();
    assert!(matches!(port.stop(), Err(PortError::Phase { phase: Phase::Stopped, .. })));

    // Twice: the way of a link that is reconfigured.
    port.configure(&PortConfig { rx_desc: 256, ..PortConfig::default() }, &pool.0).unwrap();
    drop(port.start().unwrap());
    port.close().unwrap();
    let closed = PortError::Closed { name: name.clone() };
    assert_eq!(port.close().unwrap_err(), closed);
    assert_eq!(port.stop().unwrap_err(), closed);
    assert_eq!(port.link().unwrap_err(), closed);
    assert_eq!(port.info().unwrap_err(), closed);
    assert_eq!(port.phase(), Phase::Closed);
    eal.detach(&name).unwrap();
}

#[test]
fn the_last_queue_closes_a_dropped_port() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "last", 127);
    let name = eal.attach("net_null7").unwrap();
    let Running { port, mut rx, tx, .. } = Running::start(&eal, Port::open(&eal, &name).unwrap(), &pool.0);
    drop((port, tx));
    let mut burst = Burst::new();
    assert_eq!(rx.burst_up_to(&mut burst, 8), 8, "still running");
    assert!(matches!(eal.detach(&name), Err(EalError::InUse { .. })));
    drop((rx, burst));
    assert!(!Port::names(&eal).contains(&name));
    eal.detach(&name).unwrap();
}

#[test]
fn names_that_cannot_be_say_why() {
    let eal = eal();
    let name = eal.attach("net_null3").unwrap();
    let port = Port::open(&eal, &name).unwrap();
    assert_eq!(Port::open(&eal, &name).unwrap_err(), PortError::InUse { name: name.clone() });
    assert_eq!(
        Port::open(&eal, "0000:ff:00.0").unwrap_err().to_string(),
        "port 0000:ff:00.0: there is no such port; ports present: net_null3. Attach the device first, or correct the name"
    );
    assert!(matches!(eal.detach(&name), Err(EalError::InUse { .. })));
    drop(port);
    eal.detach(&name).unwrap();
    assert!(matches!(eal.detach(&name), Err(EalError::Detach { .. })));
    assert!(matches!(eal.attach(""), Err(EalError::Devargs(_))));
    assert!(matches!(eal.attach("net_no_such_driver0"), Err(EalError::Attach { .. })));
    let refused = eal.attach("net_pcap0,rx_pcap=/dpdk-test-no-such.pcap").unwrap_err().to_string();
    assert!(refused.contains("/dpdk-test-no-such.pcap: No such file or directory\n  EAL: "), "{refused}");
}

#[test]
fn an_attached_device_is_not_attached_twice() {
    let eal = eal();
    let name = eal.attach("net_null5").unwrap();
    let again = eal.attach("net_null5");
    assert!(matches!(again, Err(EalError::Attach { errno: Errno::EEXIST, .. })), "{again:?}");
    Port::open(&eal, &name).unwrap().close().unwrap();
    let again = eal.attach("net_null5");
    assert!(matches!(again, Err(EalError::Attach { errno: Errno::EEXIST, .. })), "{again:?}");
    eal.detach(&name).unwrap();
    eal.attach("net_null5").unwrap();
    eal.detach(&name).unwrap();
}

#[test]
fn capabilities_are_asked_for_where_offered() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "caps", 127);
    let (_to, mut port, _from) = ring_port(&eal, "caps", 64);
    let info = port.info().unwrap();
    assert_eq!(info.driver, "net_ring");
    assert!(info.tx_offloads.contains(TxOffloads::MULTI_SEGS));
    let report = info.to_string();
    assert!(report.starts_with("port net_ring_caps: driver net_ring, MAC "), "{report}");
    assert!(report.contains("\n  tx offloads MULTI_SEGS"), "{report}");
    let config = PortConfig {
        rx_offloads: RxOffloads::SCATTER | RxOffloads::TCP_LRO | RxOffloads::VLAN_STRIP,
        tx_offloads: TxOffloads::MULTI_SEGS | TxOffloads::TCP_TSO,
        ..PortConfig::default()
    };
    let got = port.configure(&config, &pool.0).unwrap();
    assert_eq!((got.rx_offloads, got.tx_offloads), (RxOffloads::SCATTER, TxOffloads::MULTI_SEGS));
    assert!(matches!(
        port.configure(&PortConfig { tx_queues: 99, ..config.clone() }, &pool.0),
        Err(PortError::OutOfRange { key: "tx_queues", value: 99, .. })
    ));
    assert!(matches!(
        port.configure(&PortConfig { mtu: Some(12), ..config }, &pool.0),
        Err(PortError::OutOfRange { key: "mtu", value: 12, .. })
    ));
    assert_eq!(port.mtu().unwrap(), 1500);
    let name = port.name().to_owned();
    drop(port);
    eal.detach(&name).unwrap();
}

#[test]
fn a_refused_mtu_is_an_error_and_the_port_lives() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "mtu", 127);
    let (_to, mut port, _from) = ring_port(&eal, "mtu", 64);
    port.configure(&PortConfig::default(), &pool.0).unwrap();
    let error = port.set_mtu(1400).unwrap_err();
    assert!(matches!(error, PortError::Refused { errno: Errno::ENOTSUP, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "port net_ring_mtu: rte_eth_dev_set_mtu(1400) failed: ENOTSUP (-95); the driver does not offer it"
    );
    drop(port.start().unwrap());
    port.close().unwrap();
    eal.detach("net_ring_mtu").unwrap();
}

#[test]
fn frames_that_fit_no_buffer_are_refused_at_set_up() {
    let eal = eal();
    let config = MempoolConfig { data_room: 640, cache: 0, ..MempoolConfig::new("small", 127) };
    let pool = Mempool::create(&eal, &config).unwrap();
    let name = eal.attach("net_null6").unwrap();
    let mut port = Port::open(&eal, &name).unwrap();
    let error = port.configure(&PortConfig::default(), &pool).unwrap_err();
    assert_eq!(
        error.to_string(),
        "port net_null6: a frame of MTU 1500 needs 1646 bytes of data room, the mempool has 640, and driver net_null \
         cannot scatter; use a data room of 1646 or more, or a smaller MTU"
    );
    let small = PortConfig { mtu: Some(494), ..PortConfig::default() };
    port.configure(&small, &pool).unwrap();
    assert_eq!(port.mtu().unwrap(), 494);
    assert!(matches!(port.set_mtu(495), Err(PortError::DataRoom { mtu: 495, need: 641, .. })));

    // A set-up that fails after one that did not leaves nothing that could be started.
    assert!(port.configure(&PortConfig::default(), &pool).is_err());
    assert!(matches!(port.start(), Err(PortError::Phase { phase: Phase::Open, .. })));
    port.configure(&small, &pool).unwrap();
    drop(port.start().unwrap());
    drop(port);
    eal.detach(&name).unwrap();
}

#[test]
fn links_flap() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "flap", 127);
    let (_to, port, _from) = ring_port(&eal, "flap", 64);
    let running = Running::start(&eal, port, &pool.0);
    for _ in 0..3 {
        running.port.set_link_down().unwrap();
        assert!(!running.port.link().unwrap().up);
        running.port.set_link_up().unwrap();
        assert!(running.port.link().unwrap().up);
    }
    assert_eq!(running.port.link().unwrap().to_string(), "up, 10000 Mbit/s, full duplex");
    assert!(!running.port.vanished() && !running.rx.vanished());
    running.close();
}

#[test]
fn without_multi_segs_packets_are_joined_or_counted() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "join", 127);
    let name = eal.attach("net_null2").unwrap();
    let mut port = Port::open(&eal, &name).unwrap();
    let configured = port.configure(&PortConfig::default(), &pool.0).unwrap();
    assert!(configured.warnings.contains(&PortWarning::NoMultiSegs));
    let mut started = port.start().unwrap();
    let tx = &mut started.tx[0];
    assert!(!tx.multi_segs());
    let mut chain = Mbuf::from_bytes(&pool.0, &pattern(700, 0)).unwrap();
    chain.chain(Mbuf::from_bytes(&pool.0, &pattern(700, 1)).unwrap()).unwrap();
    let mut burst = burst_of(&pool.0, 3);
    burst.push(chain).unwrap();
    burst.push(Mbuf::from_bytes(&pool.0, &pattern(5000, 1)).unwrap()).unwrap();
    assert_eq!(tx.burst(&mut burst), 4);
    assert_eq!((burst.len(), tx.unsendable()), (0, 1));
    drop(started);
    drop(port);
    eal.detach(&name).unwrap();
}

#[test]
fn calls_a_driver_does_not_offer_are_errors() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "calls", 127);
    let mut running = Running::attach(&eal, "net_null4", &pool.0);
    assert_eq!(running.tx.done_cleanup(0).unwrap_err(), Errno::ENOTSUP);
    assert_eq!(running.tx.descriptor_status(0).unwrap_err(), Errno::ENOTSUP);
    assert!(matches!(running.tx.queue_count(), Err(Errno::ENOTSUP) | Ok(0)));
    let mut burst = burst_of(&pool.0, 5);
    let prepared = running.tx.prepare(burst.as_mut_slice());
    assert_eq!((prepared.ready, prepared.refused, burst.len()), (5, None, 5));
    drop(burst);
    running.close();
}
