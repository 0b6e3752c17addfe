//! Starting, stopping, being killed, side by side.

use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::bench::*;
use hwtests::clock::Interrupt;
use hwtests::process::Signal;

#[test]
fn two_instances_run_side_by_side_and_a_name_is_taken_once() {
    let bench = Bench::new("pair");
    let one = bench.weir_named("pair-one", &taps("e2ga", "e2gb", ""));
    let two = bench.weir_named("pair-two", &taps("e2gc", "e2gd", ""));
    assert_eq!(one.show()["name"], "pair-one");
    assert_eq!(two.show()["name"], "pair-two");
    let refused = bench.refused("pair-one", &taps("e2ge", "e2gf", ""));
    assert!(refused.contains("pair-one") && refused.contains("--name"), "{refused}");
    let refused = bench.refused("pair-three", &taps("e2gb", "e2gf", ""));
    assert!(refused.contains("e2gb") && refused.contains("process"), "{refused}");
    one.stop(Signal::INT);
    assert_eq!(two.show()["name"], "pair-two", "the other one goes on");
    two.stop(Signal::INT);
}

#[test]
fn every_virtual_port_starts_stops_and_starts_again() {
    let bench = Bench::new("vdev");
    let socket = bench.folder.join("vhost.sock").display().to_string();
    let memif = bench.folder.join("memif.sock").display().to_string();
    for (a, b) in [
        ("net_null0".to_owned(), "net_null1".to_owned()),
        ("net_ring0".to_owned(), "net_ring1".to_owned()),
        (format!("net_vhost0,iface={socket},queues=1"), "net_null0".to_owned()),
        (format!("net_memif0,role=server,id=0,socket={memif},socket-abstract=no"), "net_null0".to_owned()),
        ("net_tap0,iface=e2ha".to_owned(), "net_null0,no-rx=1".to_owned()),
    ] {
        for _ in 0..2 {
            let weir = bench.weir(&format!("[[link]]\nname = \"x\"\na = \"{a}\"\nb = \"{b}\"\n"));
            assert_conserved(&weir.show());
            weir.stop(Signal::TERM);
        }
    }
}

#[test]
fn a_killed_instance_does_not_stand_in_the_way_of_the_next() {
    let bench = Bench::new("kill");
    let socket = |name: &str| bench.folder.join(name).display().to_string();
    for port in [
        format!("net_vhost0,iface={},queues=1", socket("vhost.sock")),
        format!("net_memif0,role=server,id=0,socket={},socket-abstract=no", socket("memif.sock")),
        "net_tap0,iface=e2ma".to_owned(),
    ] {
        let file = format!("[[link]]\nname = \"x\"\na = \"{port}\"\nb = \"net_null0,no-rx=1\"\n");
        let killed = bench.weir(&file);
        killed.process.stop(Signal::KILL, Duration::from_secs(5)).unwrap();
        let next = bench.weir(&file);
        assert_conserved(&next.show());
        next.stop(Signal::TERM);
    }
}

/// The driver waits for its peer, which never comes, in a call that nobody can interrupt.
#[test]
fn a_start_that_waits_can_be_stopped_and_leaves_nothing() {
    let bench = Bench::new("wait");
    let socket = bench.folder.join("virtio.sock");
    for signal in [Signal::TERM, Signal::INT] {
        let mut process = bench.spawn(
            &bench.name,
            &format!(
                "[[link]]\nname = \"x\"\na = \"net_virtio_user0,path={},server=1\"\nb = \"net_null0\"\n",
                socket.display()
            ),
        );
        let interrupt = Interrupt::install().unwrap();
        process.wait_for("attaching net_virtio_user0", Duration::from_secs(30), &interrupt).unwrap();
        assert!(socket.exists());
        let (status, lines) = process.stop(signal, Duration::from_secs(20)).unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("stopped while starting")), "{lines:?}");
        assert!(!socket.exists());
        assert_nothing_left(&bench.name);
    }
}

#[test]
fn a_flood_of_questions_does_not_keep_it_from_stopping() {
    let bench = Bench::new("flood");
    let weir = bench.weir(IDLE);
    let path = format!("/run/weir/{}.sock", weir.name);
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert_conserved(&weir.show());
    let go = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let _end = Lowered(&go);
        for _ in 0..4 {
            scope.spawn(|| {
                while go.load(Ordering::Relaxed) {
                    let _ = UnixStream::connect(&path);
                }
            });
        }
        assert_conserved(&weir.show());
        weir.stop(Signal::TERM);
    });
    drop(silent);
}
