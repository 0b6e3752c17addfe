//! Starts and ends of the EAL, each in a process of its own: this program, run again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::process::{Command, Output};

use dpdk::{Burst, Eal, EalConfig, EalError, Mbuf, Mempool, MempoolConfig, Port, PortConfig, Ring};

#[test]
fn a_refused_start_says_what_dpdk_said() {
    let output = in_a_process("refused");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("rte_eal_init(--file-prefix=dpdk-test "), "{said}");
    assert!(said.contains(" --no-huge --in-memory) failed: EINVAL (-22); "), "{said}");
    assert!(said.contains("\n  EAL: "), "what DPDK logged is missing: {said}");
    assert!(said.contains("`--no-huge` and `--in-memory` exclude each other"), "{said}");
    assert!(!said.contains("Usage:"), "{said}");
    assert!(said.contains("again: the EAL was already started in this process"), "{said}");
}

#[test]
fn a_whole_life_ends_clean() {
    let output = in_a_process("life");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("cleaned up"), "{output:?}");
}

#[test]
fn owners_may_go_in_any_order() {
    let output = in_a_process("disorder");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("in disorder"), "{output:?}");
}

/// Not a test by itself: what the processes above do.
#[test]
fn role() {
    match std::env::var(ROLE).as_deref() {
        Ok("refused") => refused(),
        Ok("life") => life(),
        Ok("disorder") => disorder(),
        Ok(other) => panic!("no role {other}"),
        Err(_) => {}
    }
}

fn in_a_process(role: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture"])
        .env(ROLE, role)
        .output()
        .unwrap()
}

fn refused() {
    let config = EalConfig::new("dpdk-test").arg("--no-huge").arg("--in-memory");
    println!("{}", Eal::init(&config).unwrap_err());
    println!("again: {}", Eal::init(&config).unwrap_err());
}

fn life() {
    let eal = start();
    let pool = Mempool::create(&eal, &MempoolConfig::new("life", 1023)).unwrap();
    let name = eal.attach("net_null0").unwrap();
    let mut port = Port::open(&eal, &name).unwrap();
    port.configure(&PortConfig::default(), &pool).unwrap();
    let mut started = port.start().unwrap();
    let mut burst = Burst::new();
    assert!(started.rx[0].burst(&mut burst) > 0);
    started.tx[0].burst(&mut burst);
    drop((started, burst));
    port.close().unwrap();
    eal.detach(&name).unwrap();
    assert_eq!(pool.in_use(), 0);
    drop((pool, port, eal));
    assert!(matches!(Eal::init(&EalConfig::new("dpdk-test")), Err(EalError::AlreadyStarted)));
    println!("cleaned up");
}

/// The handle of the EAL first, the packets last: nothing may be freed under them.
fn disorder() {
    let eal = start();
    let pool = Mempool::create(&eal, &MempoolConfig::new("disorder", 1023)).unwrap();
    let ring = Ring::create(&eal, "disorder", 64).unwrap();
    let mut port = Ring::port(&eal, "disorder", &ring, &ring).unwrap();
    port.configure(&PortConfig::default(), &pool).unwrap();
    let mut started = port.start().unwrap();
    drop((eal, ring, port));
    let mut burst = Burst::new();
    burst.push(Mbuf::from_bytes(&pool, b"round and round").unwrap()).unwrap();
    drop(pool);
    assert_eq!(started.tx[0].burst(&mut burst), 1);
    assert_eq!(started.rx[0].burst(&mut burst), 1);
    drop(started);
    assert_eq!(burst.pop().unwrap().head(), b"round and round");
    println!("in disorder");
}

fn start() -> Eal {
    let args = ["--no-huge", "-m", "64", "--no-shconf", "--no-pci", "--no-telemetry"];
    let config = args.iter().fold(EalConfig::new("dpdk-test"), |config, arg| config.arg(*arg));
    Eal::init(&config).unwrap()
}

const ROLE: &str = "DPDK_TEST_ROLE";
