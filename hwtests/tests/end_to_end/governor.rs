//! What lies below the scheduler.

use std::fs;
use std::process::Command;

use crate::bench::*;
use crate::instance::weir_binary;
use hwtests::process::{Signal, run};
use serde_json::Value;

/// Nobody takes frames out of the ring, so that all of it fills where no limit holds.
#[test]
fn what_lies_below_the_scheduler_is_shown_with_its_price() {
    let bench = Bench::new("below");
    let link = |complete_on| {
        format!(
            "[[link]]\nname = \"x\"\na = \"net_null0,size=1000\"\n\
             b = {{ device = \"net_ring0\", complete-on = \"{complete_on}\" }}\n\
             up = {{ bandwidth = \"100Mbit\" }}\ndown = \"off\"\n"
        )
    };
    let queue = |show: &Value| show["links"][0]["b"]["tx_queues"][0].clone();
    let weir = bench.weir(&link("submit"));
    weir.until("a full ring", |show| queue(show)["descriptors"] == 1_023);
    let price = queue(&weir.show());
    assert_eq!((&price["complete_on"], &price["binds"]), (&"submit".into(), &false.into()));
    assert_eq!((&price["source"], &price["in_flight"]), (&"held-reference".into(), &1_023_000.into()));
    let text = run(Command::new(weir_binary()).args(["show", &weir.name])).unwrap();
    assert!(text.contains("complete-on submit, 1023000b in 1023 descriptors below the scheduler"), "{text}");
    weir.stop(Signal::TERM);

    let weir = bench.weir(&link("completion"));
    weir.until("a limit that holds", |show| {
        let queue = queue(show);
        queue["binds"] == true && queue["in_flight"].as_u64() > Some(0)
    });
    let held = queue(&weir.show());
    assert!(held["descriptors"].as_u64() < Some(512), "{held:#}");
    assert!(
        weir.show()["links"][0]["a"]["tx_queues"].as_array().unwrap().is_empty(),
        "nothing is sent there"
    );
    weir.stop(Signal::TERM);
}

#[test]
fn probe_tells_what_completions_are_worth_and_leaves_nothing() {
    let probe = |args: &[&str]| Command::new(weir_binary()).arg("probe").args(args).output().unwrap();
    let verdict = |args: &[&str]| -> Value {
        let output = probe(args);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let null = verdict(&["net_null0", "--json"]);
    assert_eq!((&null["source"], &null["driver"]), (&"submit".into(), &"net_null".into()));
    assert_eq!((&null["evidence"]["copies"], &null["as_known"]), (&true.into(), &true.into()));
    assert_eq!(null["evidence"]["idle"]["queue_count"], "not offered");

    // Nobody takes frames out of it.
    let bench = Bench::new("probe");
    let file = bench.folder.join("probe.toml");
    fs::write(
        &file,
        "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = { device = \"net_ring0\", tx-ring = 256 }\n",
    )
    .unwrap();
    let ring = verdict(&["x/b", file.to_str().unwrap(), "--json"]);
    assert_eq!((&ring["ring"], &ring["evidence"]["copies"]), (&256.into(), &false.into()));
    assert!(
        ring["evidence"]["shown_by"].is_null() && ring["evidence"]["sent"].as_u64() > Some(255),
        "{ring:#}"
    );

    let text = String::from_utf8(probe(&["net_null0"]).stdout).unwrap();
    assert!(text.starts_with("port net_null0: driver net_null, ring 1024: submit, nudge none\n"), "{text}");

    let refused = probe(&["net_af_packet0,iface=lo"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("lo has 127.0.0.1") && said.contains("--force"), "{said}");

    let left = fs::read_dir("/run/dpdk").into_iter().flatten().flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("weir-probe-")).collect();
    assert!(left.is_empty(), "{left:?}");
}
