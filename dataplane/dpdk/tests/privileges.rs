//! Capabilities are a thing of the whole process: one test in a program of its own. Needs root.

use dpdk::privileges::{effective, keep_only};
use std::fs;
use std::process::Command;
use std::sync::mpsc::channel;

const NET_ADMIN: u64 = 1 << 12;

#[test]
fn every_thread_gives_up_all_but_what_is_kept_and_so_does_what_it_starts() {
    assert_ne!(effective() & NET_ADMIN, 0, "run as root");
    let (end, wait) = channel::<()>();
    let other = std::thread::spawn(move || wait.recv());
    keep_only(NET_ADMIN).unwrap();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for (set, bits) in [("CapPrm", NET_ADMIN), ("CapEff", NET_ADMIN), ("CapInh", 0), ("CapAmb", 0)] {
            assert!(status.contains(&format!("{set}:\t{bits:016x}\n")), "{set}\n{status}");
        }
    }
    assert_eq!(effective(), NET_ADMIN);
    // As uid 0 a program would otherwise get everything back.
    let child = Command::new("cat").arg("/proc/self/status").output().unwrap();
    let child = String::from_utf8(child.stdout).unwrap();
    assert!(child.contains(&format!("CapEff:\t{NET_ADMIN:016x}\n")), "{child}");
    keep_only(0).unwrap();
    assert_eq!(effective(), 0);
    drop(end);
    other.join().unwrap().unwrap_err();
}
