//! What the probe finds out about every software driver, with a peer in the same process where the
//! driver needs one. The frames are real, and so is the time, except over rings.

use crate::ports::{Running, connect, enter_namespace, ip, is_full, pool};
use dpdk::testing::eal;
use dpdk::{Burst, Mbuf, Ring};
use engine::completion::source::{Nudge, Source};
use engine::probe::{self, Verdict};
use shaper::time::Instant;
use std::collections::VecDeque;

fn assert_as_known(verdict: &Verdict) {
    assert!(verdict.is_as_known(), "{verdict}");
    assert_eq!(verdict.evidence.refused, 0, "{verdict}");
}

#[test]
fn drivers_that_copy() {
    let eal = eal();
    enter_namespace();
    let pool = pool(&eal, "copies", 8191);
    ip(&["link", "add", "wprobea", "type", "veth", "peer", "name", "wprobeb"]);
    ip(&["link", "set", "wprobea", "up"]);
    ip(&["link", "set", "wprobeb", "up"]);
    for devargs in ["net_null5", "net_af_packet5,iface=wprobea", "net_tap5,iface=wprobet"] {
        let mut running = Running::attach(&eal, devargs, &pool);
        if devargs.contains("tap") {
            ip(&["link", "set", "wprobet", "up"]);
        }
        let verdict = running.probe(&eal, &pool, || ());
        assert!(verdict.evidence.copies, "{verdict}");
        assert_eq!((verdict.source, verdict.nudge), (Source::Submit, Nudge::None));
        assert_as_known(&verdict);
        running.close(&eal);
    }
    is_full(&pool);
}

/// A consumer that frees each frame 20 us after it was sent.
#[test]
fn a_ring_shows_by_itself() {
    let eal = eal();
    let pool = pool(&eal, "ring", 2047);
    let (to, from) =
        (Ring::create(&eal, "probe-to", 64).unwrap(), Ring::create(&eal, "probe-from", 64).unwrap());
    let mut running = Running::start(Ring::port(&eal, "probe", &to, &from).unwrap(), &pool);
    let (mut micros, mut waiting) = (0, VecDeque::new());
    let verdict = running.probe_at(&pool, || {
        micros += 1;
        let mut burst = Burst::new();
        from.dequeue(&mut burst);
        for mbuf in burst.drain() {
            assert_eq!(mbuf.head()[12..14], probe::ETHERTYPE.to_be_bytes());
            waiting.push_back((micros + 20, mbuf));
        }
        while waiting.front().is_some_and(|(gone, _): &(u64, Mbuf)| *gone <= micros) {
            waiting.pop_front();
        }
        Instant::from_nanos(micros * 1_000)
    });
    assert_eq!((verdict.source, verdict.nudge), (Source::Held, Nudge::None));
    assert_as_known(&verdict);
    let times = verdict.evidence.times.unwrap();
    assert!((18..=23).contains(&times.median.as_micros()), "{verdict}");
    assert!(verdict.evidence.lies().count() == 0 && verdict.evidence.batch <= 2, "{verdict}");
    let text = verdict.to_string();
    assert!(text.contains("done cleanup not offered") && text.contains("completions are real"), "{text}");
    drop(waiting);
    running.close(&eal);
    is_full(&pool);
}

#[test]
fn a_kernel_ring_shows_when_asked() {
    let eal = eal();
    enter_namespace();
    // The driver keeps the buffers of its fill ring (DPDK 22.11).
    let pool = pool(&eal, "xdp", 8191);
    ip(&["link", "add", "wprobec", "type", "veth", "peer", "name", "wprobed"]);
    ip(&["link", "set", "wprobec", "up"]);
    ip(&["link", "set", "wprobed", "up"]);
    let mut running = Running::attach(&eal, "net_af_xdp5,iface=wprobec", &pool);
    let verdict = running.probe(&eal, &pool, std::thread::yield_now);
    assert_eq!((verdict.source, verdict.nudge), (Source::Held, Nudge::EmptyBurst), "{verdict}");
    assert_as_known(&verdict);
    running.close(&eal);
}

#[test]
fn virtio_shows_when_it_wants_room() {
    let eal = eal();
    let pool = pool(&eal, "virtio", 8191);
    for (number, mode) in
        ["", ",in_order=1,mrg_rxbuf=0", ",packed_vq=1", ",packed_vq=1,in_order=1,mrg_rxbuf=0"]
            .iter()
            .enumerate()
    {
        let socket = std::env::temp_dir().join(format!("weir-probe-{}-{number}", std::process::id()));
        // The server first: its socket appears when it is started; and it goes last.
        let mut vhost =
            Running::attach(&eal, &format!("net_vhost{number},iface={}", socket.display()), &pool);
        let mut virtio = Running::attach(
            &eal,
            &format!("net_virtio_user{number},path={},queue_size=1024{mode}", socket.display()),
            &pool,
        );
        assert!(virtio.tx.as_ref().unwrap().wants_nudges() && !vhost.tx.as_ref().unwrap().wants_nudges());
        connect(&mut vhost);
        let mut burst = Burst::new();
        let verdict = virtio.probe(&eal, &pool, || {
            burst.clear();
            vhost.receive(&mut burst, Burst::CAPACITY);
        });
        assert_eq!((verdict.source, verdict.nudge), (Source::Held, Nudge::Refused), "{mode}: {verdict}");
        assert_as_known(&verdict);

        // The other way: vhost copies into the buffers of its peer.
        burst.clear();
        let verdict = vhost.probe(&eal, &pool, || {
            burst.clear();
            virtio.receive(&mut burst, Burst::CAPACITY);
        });
        assert_eq!(verdict.source, Source::Submit, "{mode}: {verdict}");
        assert!(verdict.evidence.copies, "{verdict}");
        burst.clear();
        virtio.close(&eal);
        vhost.close(&eal);
        let _ = std::fs::remove_file(socket);
    }
    is_full(&pool);
}

/// memif without zero copy copies, whatever the table of drivers hopes for; the watch finds out.
#[test]
fn memif_copies_without_zero_copy() {
    let eal = eal();
    let pool = pool(&eal, "memif", 8191);
    let socket = std::env::temp_dir().join(format!("weir-probe-{}-memif", std::process::id()));
    let devargs = |number, role| {
        format!("net_memif{number},role={role},socket-abstract=no,socket={},id=1", socket.display())
    };
    let mut server = Running::attach(&eal, &devargs(5, "server"), &pool);
    let mut client = Running::attach(&eal, &devargs(6, "client"), &pool);
    let mut burst = Burst::new();
    for _ in 0..2_000_000 {
        if client.port.link().unwrap().up && server.port.link().unwrap().up {
            break;
        }
        std::thread::yield_now();
    }
    let verdict = client.probe(&eal, &pool, || {
        burst.clear();
        server.receive(&mut burst, Burst::CAPACITY);
    });
    assert_eq!(verdict.source, Source::Submit, "{verdict}");
    assert!(verdict.evidence.copies && !verdict.is_as_known(), "{verdict}");
    burst.clear();
    client.close(&eal);
    server.close(&eal);
    let _ = std::fs::remove_file(socket);
    is_full(&pool);
}
