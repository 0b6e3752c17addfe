//! Packets and bursts: bytes, segments, ownership, and what happens when the pool is empty.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{FullAtEnd, burst_of, bytes, pattern};
use dpdk::mbuf::flags;
use dpdk::mempool::{DEFAULT_DATA_ROOM, HEADROOM};
use dpdk::testing::eal;
use dpdk::{Burst, Mbuf, MbufError, Mempool, MempoolConfig, MempoolError, TxOffload};

#[test]
fn long_packets_take_several_segments() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "segs", 63);
    let frame = pattern(5000, 7);
    let mbuf = Mbuf::from_bytes(&pool.0, &frame).unwrap();
    assert_eq!(mbuf.pkt_len(), 5000);
    assert_eq!(mbuf.nb_segs(), 3);
    assert_eq!(pool.0.in_use(), 3);
    let lens: Vec<usize> = mbuf.segments().map(<[u8]>::len).collect();
    assert_eq!(lens, [2048, 2048, 904]);
    assert_eq!(bytes(&mbuf), frame);
    assert_eq!(mbuf.head(), &frame[..2048]);
    assert_eq!(mbuf.truesize(), 3 * (u32::from(DEFAULT_DATA_ROOM) + 128));

    let mut part = [0; 100];
    for offset in [0, 1, 2000, 2047, 2048, 4095, 4096, 4900] {
        assert_eq!(mbuf.read(offset, &mut part), 100, "from {offset}");
        assert_eq!(part, frame[offset..offset + 100], "from {offset}");
    }
    assert_eq!(mbuf.read(4950, &mut part), 50);
    assert_eq!(part[..50], frame[4950..]);
    assert_eq!(mbuf.read(5000, &mut part), 0);
    assert_eq!(mbuf.read(usize::MAX, &mut part), 0);
    assert_eq!(mbuf.read(0, &mut []), 0);
    let mut whole = vec![0; 6000];
    assert_eq!(mbuf.read(0, &mut whole), 5000);
    assert_eq!(whole[..5000], frame);
}

#[test]
fn an_empty_packet_has_one_empty_segment() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "empty", 7);
    let mbuf = Mbuf::from_bytes(&pool.0, &[]).unwrap();
    assert_eq!((mbuf.pkt_len(), mbuf.nb_segs(), mbuf.head()), (0, 1, &[][..]));
    assert_eq!(mbuf.headroom(), HEADROOM);
    assert_eq!(mbuf.tailroom(), 2048);
}

#[test]
fn bytes_are_added_and_cut_at_both_ends() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "ends", 7);
    let mut mbuf = Mbuf::from_bytes(&pool.0, b"middle").unwrap();
    mbuf.prepend(4).unwrap().copy_from_slice(b"left");
    mbuf.append(5).unwrap().copy_from_slice(b"right");
    assert_eq!(mbuf.head(), b"leftmiddleright");
    assert_eq!(mbuf.pkt_len(), 15);
    mbuf.head_mut().unwrap()[0] = b'L';
    assert!(mbuf.adj(1));
    assert!(mbuf.trim(5));
    assert_eq!(mbuf.head(), b"eftmiddle");
    assert!(!mbuf.adj(10) && !mbuf.trim(10));
    assert_eq!((mbuf.head(), mbuf.pkt_len()), (&b"eftmiddle"[..], 9));
    assert_eq!(mbuf.prepend(usize::from(HEADROOM) + 1).unwrap_err(), MbufError::NoRoom);
    assert_eq!(mbuf.append(70_000).unwrap_err(), MbufError::NoRoom);
    let room = usize::from(mbuf.tailroom());
    assert_eq!(mbuf.append(room).unwrap().len(), room);
    assert_eq!(mbuf.append(1).unwrap_err(), MbufError::NoRoom);
}

#[test]
fn chains_join_and_lie_flat() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "chain", 63);
    let mut mbuf = Mbuf::from_bytes(&pool.0, &pattern(300, 1)).unwrap();
    mbuf.chain(Mbuf::from_bytes(&pool.0, &pattern(400, 2)).unwrap()).unwrap();
    mbuf.append(3).unwrap().copy_from_slice(b"end");
    let whole = [pattern(300, 1), pattern(400, 2), b"end".to_vec()].concat();
    assert_eq!((bytes(&mbuf), mbuf.nb_segs(), mbuf.pkt_len()), (whole.clone(), 2, 703));
    mbuf.linearize().unwrap();
    assert_eq!((mbuf.head(), mbuf.nb_segs()), (&whole[..], 1));
    assert_eq!(pool.0.in_use(), 1);

    let mut long = Mbuf::from_bytes(&pool.0, &pattern(5000, 3)).unwrap();
    assert_eq!(long.linearize().unwrap_err(), MbufError::NoRoom);
    assert_eq!(bytes(&long), pattern(5000, 3));
}

#[test]
fn offload_fields_do_not_touch_one_another() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "offload", 7);
    let mut mbuf = pool.0.alloc().unwrap();
    let wanted = TxOffload {
        l2_len: 127,
        l3_len: 511,
        l4_len: 255,
        tso_segsz: 65535,
        outer_l3_len: 511,
        outer_l2_len: 127,
    };
    mbuf.set_tx_offload(wanted);
    assert_eq!(mbuf.tx_offload(), wanted);
    let tcp = TxOffload { l2_len: 14, l3_len: 40, l4_len: 32, tso_segsz: 1428, ..TxOffload::default() };
    mbuf.set_tx_offload(tcp);
    assert_eq!(mbuf.tx_offload(), tcp);
    mbuf.set_ol_flags(flags::TX_TCP_SEG | flags::TX_IPV6 | flags::OWNERSHIP);
    assert_eq!(mbuf.ol_flags(), flags::TX_TCP_SEG | flags::TX_IPV6, "ownership is not for setting");
    mbuf.set_packet_type(0x111);
    assert_eq!(mbuf.packet_type(), 0x111);
}

#[test]
fn an_empty_pool_is_an_error() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "drained", 40);
    let mut burst = Burst::new();
    assert_eq!(pool.0.alloc_bulk(&mut burst, 41).unwrap_err(), MbufError::Exhausted);
    assert_eq!((burst.len(), pool.0.available()), (0, 40));
    pool.0.alloc_bulk(&mut burst, 39).unwrap();
    assert_eq!(Mbuf::from_bytes(&pool.0, &pattern(3000, 0)).unwrap_err(), MbufError::Exhausted);
    assert_eq!(pool.0.available(), 1, "the segment already taken went back");
    let last = pool.0.alloc().unwrap();
    assert_eq!(pool.0.alloc().unwrap_err(), MbufError::Exhausted);
    assert_eq!(pool.0.in_use(), 40);
    drop(last);
    assert_eq!(pool.0.alloc_bulk(&mut burst, 26).unwrap_err(), MbufError::NoRoom);
    burst.clear();
    assert_eq!(pool.0.available(), 40);
}

#[test]
fn bursts_keep_order_while_they_wrap() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "burst", 127);
    let mut burst = burst_of(&pool.0, 64);
    let extra = burst.push(Mbuf::from_bytes(&pool.0, b"one too many").unwrap()).unwrap_err();
    assert_eq!(extra.head(), b"one too many");
    for seed in 0..10 {
        assert_eq!(burst.pop().unwrap().head(), pattern(100, seed));
    }
    for seed in 64..74 {
        burst.push(Mbuf::from_bytes(&pool.0, &pattern(100, seed)).unwrap()).unwrap();
    }
    assert_eq!(burst.room(), 0);
    burst.prefetch_header(63);
    burst.prefetch(0);
    burst.prefetch(64);
    assert_eq!(burst.retain(|mbuf| mbuf.head()[0] % 2 == 0), 32);
    let seeds: Vec<u8> = burst.as_slice().iter().map(|mbuf| mbuf.head()[0]).collect();
    assert_eq!(seeds, (10..74).filter(|seed| seed % 2 == 0).collect::<Vec<u8>>());
    assert_eq!(burst.drain().take(2).count(), 2);
    assert_eq!(burst.len(), 30);
}

#[test]
fn a_packet_may_outlive_its_pool() {
    let eal = eal();
    let pool = Mempool::create(&eal, &MempoolConfig::new("orphan", 31)).unwrap();
    let mut mbuf = Mbuf::from_bytes(&pool, b"still here").unwrap();
    drop(pool);
    mbuf.append(1).unwrap()[0] = b'!';
    assert_eq!(mbuf.head(), b"still here!");
    let again = || Mempool::create(&eal, &MempoolConfig::new("orphan", 31));
    assert!(matches!(again(), Err(MempoolError::Exists { .. })), "the pool waits for its packet");
    drop(mbuf);
    again().unwrap();
}

#[test]
fn pools_that_cannot_be_say_why() {
    let eal = eal();
    let message = |config| Mempool::create(&eal, &config).unwrap_err().to_string();
    let base = MempoolConfig::new("p", 1023);
    assert_eq!(
        message(MempoolConfig { count: 1 << 20, ..base.clone() }),
        "mempool p: no memory for 1048576 buffers of 2176 bytes (2368 MiB); give the EAL more memory \
         (-m 2368 on top of what it has, or more hugepages), or lower the number of buffers"
    );
    assert_eq!(
        message(MempoolConfig { cache: 683, ..base.clone() }),
        "mempool p: cache = 683 is out of range; accepted: 0 to 512"
    );
    assert_eq!(
        message(MempoolConfig { data_room: 128, ..base.clone() }),
        "mempool p: data_room = 128 is out of range; accepted: 129 to 65535"
    );
    assert_eq!(
        message(MempoolConfig { name: "x".repeat(26), ..base.clone() }),
        format!("mempool {0}: name = {0} is out of range; accepted: 1 to 25 bytes", "x".repeat(26))
    );
    assert_eq!(
        message(MempoolConfig { count: 0, ..base }),
        "mempool p: count = 0 is out of range; accepted: at least 1"
    );
}

/// Parts of a packet, its own and a part of a part, freed in every order.
#[test]
fn parts_by_reference_go_back_in_whatever_order() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "parts", 63);
    let headers = FullAtEnd::new(&eal, "part-heads", 63);
    let frame = pattern(5000, 9);
    for order in 0..24 {
        let packet = Mbuf::from_bytes(&pool.0, &frame).unwrap();
        let mut fresh = Burst::new();
        headers.0.alloc_bulk(&mut fresh, 16).unwrap();
        let mut cursor = packet.cursor(100);
        let mut piece = |len| {
            let mut piece = headers.0.alloc().unwrap();
            piece.append(2).unwrap().copy_from_slice(b"ab");
            let parts = cursor.share(len, &mut piece, &mut fresh).unwrap();
            assert_eq!(piece.nb_segs(), 1 + parts);
            piece
        };
        let (first, second) = (piece(2000), piece(2900));
        assert_eq!(bytes(&first), [b"ab", &frame[100..2100]].concat());
        assert_eq!(bytes(&second), [b"ab", &frame[2100..5000]].concat());
        assert_eq!((first.nb_segs(), second.nb_segs()), (3, 3));
        let mut third = headers.0.alloc().unwrap();
        second.cursor(2).share(2900, &mut third, &mut fresh).unwrap();
        assert_eq!(bytes(&third), frame[2100..5000]);
        let mut all = [Some(packet), Some(first), Some(second), Some(third)];
        let mut rank = order;
        for left in (1..=4).rev() {
            let nth = rank % left;
            rank /= left;
            let at = (0..4).filter(|i| all[*i].is_some()).nth(nth).unwrap();
            all[at] = None;
            for (i, want) in [(1, &frame[100..2100]), (2, &frame[2100..]), (3, &frame[2100..])] {
                let Some(part) = &all[i] else { continue };
                assert!(bytes(part).ends_with(want), "order {order}");
            }
        }
        drop(fresh);
        assert_eq!((pool.0.in_use(), headers.0.in_use()), (0, 0), "order {order}");
    }
}

#[test]
fn a_shared_buffer_is_not_for_writing_and_fresh_means_fresh() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "shared", 31);
    let mut packet = Mbuf::from_bytes(&pool.0, &pattern(1000, 3)).unwrap();
    let mut fresh = Burst::new();
    pool.0.alloc_bulk(&mut fresh, 2).unwrap();
    let mut piece = pool.0.alloc().unwrap();
    assert_eq!(packet.cursor(0).share(1000, &mut piece, &mut fresh), Ok(1));
    assert!(packet.head_mut().is_none());
    assert_eq!(packet.append(1).unwrap_err(), MbufError::Shared);
    assert_eq!(packet.cursor(990).share(11, &mut piece, &mut fresh), Err(MbufError::NoRoom));
    assert_eq!(packet.cursor(0).share(1, &mut piece, &mut Burst::new()), Err(MbufError::Exhausted));
    fresh.clear();
    fresh.push(Mbuf::from_bytes(&pool.0, &pattern(5000, 0)).unwrap()).unwrap();
    assert_eq!(packet.cursor(0).share(1, &mut piece, &mut fresh), Err(MbufError::Shared));
    assert_eq!(packet.refcnt(), 3, "itself and two parts");
    drop(piece);
    packet.head_mut().unwrap()[0] = 1;
}

#[test]
fn payloads_are_strung_together_without_their_headers() {
    let eal = eal();
    let pool = FullAtEnd::new(&eal, "string", 63);
    let mut packet = Mbuf::from_bytes(&pool.0, &pattern(100, 0)).unwrap();
    let header = Mbuf::from_bytes(&pool.0, &pattern(54, 1)).unwrap();
    let mut split = header;
    split.chain(Mbuf::from_bytes(&pool.0, &pattern(200, 2)).unwrap()).unwrap();
    let whole = Mbuf::from_bytes(&pool.0, &pattern(154, 3)).unwrap();
    let tails = [split, whole].map(|tail| tail.without_front(54).unwrap());
    assert_eq!(pool.0.in_use(), 3, "the segment that held headers alone is gone");
    assert!(packet.chain_all(tails.into_iter()).is_none());
    let expected = [&pattern(100, 0)[..], &pattern(200, 2), &pattern(154, 3)[54..]].concat();
    assert_eq!((bytes(&packet), packet.nb_segs(), packet.pkt_len()), (expected, 3, 400));
    let short = Mbuf::from_bytes(&pool.0, &pattern(10, 0)).unwrap().without_front(11).unwrap_err();
    assert_eq!(bytes(&short), pattern(10, 0));
}
