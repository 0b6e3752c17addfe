//! A second holder of a packet sees when the owner has let go of it, and loses or doubles nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{FullAtEnd, Running, burst_of, bytes, pattern, ring_port};
use dpdk::mbuf::flags;
use dpdk::testing::eal;
use dpdk::{Burst, Mbuf, MbufError, Mempool, TxOffload};

/// A packet of three segments.
fn chain(pool: &Mempool) -> Mbuf {
    let mbuf = Mbuf::from_bytes(pool, &pattern(5_000, 3)).unwrap();
    assert_eq!(mbuf.nb_segs(), 3);
    mbuf
}

#[test]
fn complete_is_freed_by_its_owner() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "held", 15);
    let mut mbuf = Mbuf::from_bytes(&pool.0, &pattern(100, 1)).unwrap();
    let held = mbuf.hold().unwrap();
    assert!(!held.is_complete() && mbuf.refcnt() == 2);
    assert!(mbuf.head_mut().is_none(), "the bytes are nobody's to write");
    assert!(mbuf.hold().is_none(), "a third holder could not be told from the second");
    drop(mbuf);
    assert!(held.is_complete());
    assert_eq!(pool.0.in_use(), 1, "the segment is not given back while it is held");
    drop(held);
}

#[test]
fn the_rest_of_a_chain_is_freed_once() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "held-chain", 15);
    for holder_goes_first in [false, true] {
        let mut mbuf = chain(&pool.0);
        let held = mbuf.hold().unwrap();
        if holder_goes_first {
            drop(held);
            assert_eq!((mbuf.refcnt(), mbuf.nb_segs()), (1, 3), "the owner has all of it again");
            assert_eq!(bytes(&mbuf), pattern(5_000, 3));
            drop(mbuf);
        } else {
            drop(mbuf);
            assert_eq!(pool.0.in_use(), 1, "two segments are back");
            drop(held);
        }
        assert_eq!(pool.0.in_use(), 0);
    }
    // The segment that was held is an ordinary one again, whoever takes it.
    let all: Vec<_> = (0..15).map(|_| pool.0.alloc().unwrap()).collect();
    assert!(all.iter().all(|mbuf| mbuf.nb_segs() == 1 && mbuf.refcnt() == 1 && mbuf.pkt_len() == 0));
}

#[test]
fn a_burst_freed_in_bulk_completes_too() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "held-bulk", 63);
    let mut burst = burst_of(&pool.0, 8);
    burst.push(chain(&pool.0)).unwrap();
    let held: Vec<_> = burst.as_mut_slice().iter_mut().map(|mbuf| mbuf.hold().unwrap()).collect();
    assert!(held.iter().all(|held| !held.is_complete()));
    burst.clear();
    assert!(held.iter().all(dpdk::Held::is_complete));
    assert_eq!(pool.0.in_use(), 9);
}

/// The ring keeps the packet until its consumer frees it, in another thread.
#[test]
fn a_consumer_on_another_thread_completes() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "held-ring", 4_095);
    let (_, port, from) = ring_port(&eal, "heldring", 64);
    let mut running = Running::start(&eal, port, &pool.0);
    let mut held = std::collections::VecDeque::new();
    let mut completed = 0;
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let mut seen = 0;
            while seen < 5_000 {
                let mut burst = Burst::new();
                seen += from.dequeue(&mut burst);
                assert!(burst.as_slice().iter().all(|mbuf| mbuf.pkt_len() == 5_000));
                std::thread::yield_now();
            }
        });
        let mut sent = 0;
        while completed < 5_000 {
            while held.front().is_some_and(dpdk::Held::is_complete) {
                held.pop_front();
                completed += 1;
            }
            let mut burst = Burst::new();
            if sent < 5_000
                && let Ok(mut mbuf) = Mbuf::from_bytes(&pool.0, &pattern(5_000, 3))
            {
                let hold = mbuf.hold().unwrap();
                burst.push(mbuf).unwrap();
                if running.tx.burst(&mut burst) == 1 {
                    held.push_back(hold);
                    sent += 1;
                }
            }
            if sent == 5_000 {
                std::thread::yield_now();
            }
        }
        consumer.join().unwrap();
    });
    assert!(held.is_empty());
    running.close();
}

#[test]
fn a_packet_outlives_the_handle_of_its_pool() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "held-orphan", 7);
    let mut mbuf = Mbuf::from_bytes(&pool.0, b"short").unwrap();
    let held = mbuf.hold().unwrap();
    drop(mbuf);
    let other = pool.0.clone();
    std::thread::spawn(move || drop(held)).join().unwrap();
    assert_eq!(other.in_use(), 0);
}

#[test]
fn a_shared_head_gets_one_of_its_own() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "rehead", 31);
    let frame = pattern(5_000, 3);
    for len in [1, 64, 2_047, 2_048] {
        let mut mbuf = chain(&pool.0);
        let offload =
            TxOffload { l2_len: 14, l3_len: 20, l4_len: 20, tso_segsz: 1_448, ..TxOffload::default() };
        mbuf.set_tx_offload(offload);
        mbuf.set_ol_flags(flags::TX_TCP_SEG | flags::TX_IPV4);
        mbuf.set_packet_type(0x211);
        let held = mbuf.hold().unwrap();
        assert!(mbuf.hold().is_none());
        mbuf.rehead(&pool.0, len).unwrap();
        assert_eq!(bytes(&mbuf), frame, "first {len} bytes moved");
        assert_eq!(usize::from(mbuf.nb_segs()), if len == 2_048 { 3 } else { 4 });
        assert_eq!(mbuf.head().len(), len);
        assert_eq!((mbuf.tx_offload(), mbuf.packet_type()), (offload, 0x211));
        assert_eq!(mbuf.ol_flags(), flags::TX_TCP_SEG | flags::TX_IPV4);
        let own = mbuf.hold().unwrap();
        drop(mbuf);
        assert!(own.is_complete() && held.is_complete());
    }
    // All of a short packet moves: a copy.
    let mut mbuf = Mbuf::from_bytes(&pool.0, b"short").unwrap();
    let held = mbuf.hold().unwrap();
    mbuf.rehead(&pool.0, 128).unwrap();
    assert!(held.is_complete() && mbuf.nb_segs() == 1 && bytes(&mbuf) == b"short");
}

#[test]
fn a_head_that_cannot_be_made_leaves_the_packet_alone() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "rehead-no", 3);
    let mut mbuf = chain(&pool.0);
    assert_eq!(mbuf.rehead(&pool.0, 64), Err(MbufError::Exhausted));
    assert_eq!(bytes(&mbuf), pattern(5_000, 3));
    drop(mbuf);
    let mut mbuf = Mbuf::from_bytes(&pool.0, &pattern(3_000, 3)).unwrap();
    assert_eq!(mbuf.rehead(&pool.0, 2_900), Err(MbufError::NoRoom));
    assert_eq!(bytes(&mbuf), pattern(3_000, 3));
}
