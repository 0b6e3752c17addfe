//! memif with zero copy, which lends its peer the buffers themselves: the only driver that needs
//! hugepages for it, and thus an EAL of its own. Without free hugepages it says so, and says nothing of
//! the driver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[allow(dead_code, reason = "shared with the other drivers")]
#[path = "completions/ports.rs"]
mod ports;

use dpdk::{Burst, Eal, EalConfig};
use engine::completion::source::{Nudge, Source};
use ports::{Running, pool};

#[test]
fn memif_with_zero_copy_shows_when_asked() {
    let free = free_hugepage_mebibytes();
    if free < MEBIBYTES {
        eprintln!(
            "NOT RUN: memif with zero copy needs {MEBIBYTES} MiB of free hugepages, there are {free}; \
             reserve some (sysctl vm.nr_hugepages=64) and run this test again"
        );
        return;
    }
    let args =
        ["--in-memory", "--single-file-segments", "-m", "64", "--no-pci", "--no-telemetry", "--lcores=0@0"];
    let config = args.into_iter().fold(EalConfig::new("zero-copy"), |config, arg| config.arg(arg));
    let eal = Eal::init(&config).unwrap();
    let pool = pool(&eal, "lent", 8191);
    let socket = std::env::temp_dir().join(format!("weir-zero-copy-{}", std::process::id()));
    let devargs = |number, role, more| {
        format!("net_memif{number},role={role},socket-abstract=no,socket={},id=1{more}", socket.display())
    };
    let mut server = Running::attach(&eal, &devargs(0, "server", ""), &pool);
    let mut client = Running::attach(&eal, &devargs(1, "client", ",zero-copy=yes"), &pool);
    for _ in 0..2_000_000 {
        if client.port.link().unwrap().up && server.port.link().unwrap().up {
            break;
        }
        std::thread::yield_now();
    }
    let mut burst = Burst::new();
    let verdict = client.probe(&eal, &pool, || {
        burst.clear();
        server.receive(&mut burst, Burst::CAPACITY);
    });
    assert_eq!((verdict.source, verdict.nudge), (Source::Held, Nudge::EmptyBurst), "{verdict}");
    assert!(verdict.is_as_known() && !verdict.evidence.copies, "{verdict}");
    burst.clear();
    client.close(&eal);
    server.close(&eal);
    let _ = std::fs::remove_file(socket);
}

fn free_hugepage_mebibytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let value = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    value("HugePages_Free:") * value("Hugepagesize:") / 1024
}

const MEBIBYTES: u64 = 64;
