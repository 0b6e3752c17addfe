//! Work on the EAL's threads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{FullAtEnd, Running, bytes, pattern, ring_port};
use dpdk::testing::eal;
use dpdk::{Burst, Eal, EalConfig, EalError, Lcore, LcoreError, Mbuf, tsc};

#[test]
fn the_eal_starts_once() {
    let _eal = eal();
    assert!(matches!(Eal::init(&EalConfig::new("again")), Err(EalError::AlreadyStarted)));
}

#[test]
fn work_runs_on_a_worker_and_returns() {
    let eal = eal();
    let ids: Vec<u32> = Lcore::all(&eal).iter().map(Lcore::id).collect();
    assert_eq!(ids, [0, 1]);
    assert_eq!(Lcore::main(&eal).id(), 0);
    let worker = Lcore::workers(&eal).pop().unwrap();
    assert_eq!(worker.id(), 1);
    let on = (*eal).clone();
    let handle = worker.launch(move || Lcore::current(&on).map(|lcore| lcore.id())).unwrap();
    assert_eq!(handle.join().unwrap(), Some(1));
    assert_eq!(Lcore::main(&eal).launch(|| ()).unwrap_err(), LcoreError::Main(0));
}

#[test]
fn a_busy_worker_refuses_and_a_panic_stays_inside() {
    let eal = eal();
    let worker = Lcore::workers(&eal).pop().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let handle = worker
        .launch(move || {
            while !seen.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        })
        .unwrap();
    assert!(!handle.is_finished());
    assert!(matches!(worker.launch(|| ()), Err(LcoreError::Busy { id: 1, .. })));
    stop.store(true, Ordering::Relaxed);
    handle.join().unwrap();

    let handle = worker.launch(|| -> u32 { panic!("on purpose") }).unwrap();
    let reason = handle.join().unwrap_err();
    assert_eq!(reason.downcast_ref::<&str>(), Some(&"on purpose"));
    assert_eq!(worker.launch(|| 7).unwrap().join().unwrap(), 7, "the lcore is as good as before");
}

#[test]
fn a_worker_moves_packets_with_the_queues_it_was_given() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "echo", 511);
    let (to, port, from) = ring_port(&eal, "echo", 256);
    let Running { mut port, mut rx, mut tx, .. } = Running::start(&eal, port, &pool.0);
    let worker = Lcore::workers(&eal).pop().unwrap();
    let handle = worker
        .launch(move || {
            let mut burst = Burst::new();
            let mut moved = 0;
            for _ in 0..POLLS {
                if rx.burst(&mut burst) == 0 {
                    std::thread::yield_now();
                }
                moved += tx.burst(&mut burst);
                if moved == 1000 {
                    break;
                }
            }
            moved
        })
        .unwrap();
    let (mut out, mut back) = (Burst::new(), Burst::new());
    let (mut sent, mut received) = (0u32, 0u32);
    for _ in 0..POLLS {
        if handle.is_finished() && from.is_empty() {
            break;
        }
        if out.is_empty() && sent < 1000 {
            out.push(Mbuf::from_bytes(&pool.0, &pattern(60, sent as u8)).unwrap()).unwrap();
            sent += 1;
        }
        to.enqueue(&mut out);
        from.dequeue(&mut back);
        for mbuf in back.drain() {
            assert_eq!(bytes(&mbuf), pattern(60, received as u8));
            received += 1;
        }
        std::thread::yield_now();
    }
    assert_eq!((handle.join().unwrap(), received), (1000, 1000));
    port.close().unwrap();
    eal.detach(port.name()).unwrap();
}

#[test]
fn the_counter_has_a_plausible_rate() {
    let eal = eal();
    let hz = tsc::hz(&eal);
    assert!((500_000_000..10_000_000_000).contains(&hz), "{hz}");
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    if cfg!(target_arch = "x86_64") {
        assert_eq!(tsc::is_invariant(), flags.contains("nonstop_tsc"), "as the kernel sees it");
    }
}

/// Polls before a test gives up: some seconds even on a busy machine.
const POLLS: u32 = 20_000_000;
