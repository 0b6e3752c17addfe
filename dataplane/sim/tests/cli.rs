//! The `replay` binary from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_replay")).args(args).output().unwrap()
}

/// A file of this test's own.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn prints_what_happens_under_either_conformance() {
    let trace = file("ok.trace", TRACE);
    let hashes = file("ok.hashes", "1 80000000 0 0\n2 ff 1 2\n");
    let (trace, hashes) = (trace.to_str().unwrap(), hashes.to_str().unwrap());
    for conformance in ["linux", "weir"] {
        let output = run(&["--conformance", conformance, "--hashes", hashes, trace]);
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), EXPECTED);
    }
    let computed = run(&[trace]);
    assert!(computed.status.success());
    assert_eq!(computed.stdout, run(&[trace]).stdout, "our own hashes are the same in every run");
}

#[test]
fn errors_go_to_stderr_and_name_the_place() {
    let trace = file("bad.trace", "cfg qdisc=fq_codel quantum=2000000\n");
    let good = file("good.trace", TRACE);
    let hashes = file("few.hashes", "1 80000000 0 0\n");
    let (trace, good, hashes) = (trace.to_str().unwrap(), good.to_str().unwrap(), hashes.to_str().unwrap());
    for (args, expected) in [
        (
            vec![trace],
            format!("replay: {trace}:1: quantum = 2000000 bytes is too large: give at most 1048576\n"),
        ),
        (vec!["--hashes", hashes, good], format!("replay: {hashes}: no line for packet 2\n")),
        (vec!["/nowhere"], "replay: /nowhere: No such file or directory (os error 2)\n".to_owned()),
    ] {
        let output = run(&args);
        assert!(!output.status.success());
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    }
}

const TRACE: &str = "# two packets
cfg qdisc=fq_codel flows=4
enq 1000 10.0.0.1 10.0.0.2 udp 1 2 100 2 46 - 1 ts=768
enq 1000 10.0.0.1 10.0.0.2 tcp 1 2 200 0 0 A/1/1 2 ts=768
chg 1500 limit=10
chg 1500 flows=4
deq 2000
deq 2000
deq 3000
";

const EXPECTED: &str = "\
enq 1000 1 ok q=0:2 fh=80000000 sh=00000000 dh=00000000
enq 1000 2 ok q=0:0 fh=000000ff sh=00000001 dh=00000002
chg 1500 0
chg 1500 -22
deq 2000 1 len=100 ds=ba ce=0
deq 2000 2 len=200 ds=00 ce=0
empty 3000 -
stat qlen=0 backlog=0 drops=0 sent_pkts=2 sent_bytes=300 maxpacket=200 drop_overlimit=0 drop_overmemory=0 \
ecn_mark=0 ce_mark=0 new_flow_count=2 new_flows_len=0 old_flows_len=0 memory_usage=0 target=4882 \
interval=97656 ce_threshold=2147483647 mtu=1514 quantum=1514 tree_n=0 tree_len=0
";
