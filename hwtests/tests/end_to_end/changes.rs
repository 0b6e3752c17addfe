//! Settings that change while packets flow.

use std::fs;
use std::time::Duration;

use crate::bench::*;
use hwtests::clock::{Interrupt, nap};
use hwtests::iperf::{Host, Load, Transfer};
use hwtests::process::Signal;
use serde_json::Value;

#[test]
fn a_hangup_takes_up_the_changed_file() {
    let bench = Bench::new(&format!("hangup-{}", std::process::id()));
    let mut weir = bench.weir(IDLE);
    let interrupt = Interrupt::install().unwrap();
    weir.process.signal(Signal::HUP).unwrap();
    weir.process
        .wait_for("SIGHUP: nothing differs from what runs", Duration::from_secs(30), &interrupt)
        .unwrap();
    bench.write(&format!("{IDLE}up = {{ bandwidth = \"7Mbit\" }}\n"));
    weir.process.signal(Signal::HUP).unwrap();
    weir.until("7 Mbit/s", |show| show["links"][0]["directions"][0]["bandwidth"] == 7_000_000);
    assert_eq!(weir.show()["workers"][0]["generation"], 1);
    assert_conserved(&weir.show());
    weir.stop(Signal::TERM);
}

/// A rate that rises and falls, other tins, another isolation, while TCP runs: all of it is taken up, and every packet
/// is accounted for.
#[test]
fn settings_change_under_load() {
    let interrupt = Interrupt::install().unwrap();
    let ends = ["e2ra", "e2rb"].map(|end| format!("{end}{}", std::process::id()));
    let bench = Bench::new(&format!("reload-{}", std::process::id()));
    let file = |up: &str| taps(&ends[0], &ends[1], &format!("up = {{ qdisc = \"cake\", {up} }}"));
    let weir = bench.weir(&file("bandwidth = \"20Mbit\""));
    let (a, b) = namespaces(&ends[0], &ends[1], &interrupt);
    let load = Load { streams: 4, seconds: 4, omit: 0, congestion: "cubic" };
    let hosts = [(&a, "192.0.2.1"), (&b, "192.0.2.2")].map(|(netns, address)| Host { netns, address });
    let mut load = Transfer::start(hosts[0], hosts[1], load, &interrupt).unwrap();
    weir.until("load", |show| show["links"][0]["directions"][0]["backlog"]["packets"].as_u64() > Some(5));
    let modes = ["flows", "srchost", "triple-isolate", "flowblind"];
    for round in 0..20 {
        let [mode, tins] = [modes[round % 4], ["besteffort", "diffserv4", "diffserv8"][round % 3]];
        bench.write(&file(&format!(
            "bandwidth = \"{}Mbit\", flowmode = \"{mode}\", diffserv = \"{tins}\"",
            20 + round
        )));
        let said = weir.tell(&["reload", &weir.name]).unwrap();
        assert!(said.starts_with(&format!("generation {} (lcore ", 2 * round + 1)), "{said}");
        assert!(said.contains("e2e.up.flowmode") || round == 2, "{said}");
        weir.tell(&["set", "up.bandwidth", "60Mbit", "--name", &weir.name]).unwrap();
    }
    let show = weir.show();
    assert_eq!(show["workers"][0]["generation"], 40);
    assert_eq!(show["links"][0]["directions"][0]["bandwidth"], 60_000_000);
    assert_conserved(&show);
    while load.result().unwrap().is_none() {
        nap(Duration::from_millis(20));
    }
    let show = weir.show();
    assert_conserved(&show);
    assert!(show["links"][0]["directions"][0]["losses"].get("change").is_none(), "{show:#}");
    let history = weir.tell(&["history", &weir.name]).unwrap();
    assert!(history.contains("generation 40") && history.contains("set up.bandwidth 60Mbit"), "{history}");
    weir.stop(Signal::TERM);
}

#[test]
fn what_is_set_for_a_time_is_set_back() {
    let bench = Bench::new(&format!("revert-{}", std::process::id()));
    let weir = bench.weir(IDLE);
    let rate = |show: &Value| show["links"][0]["directions"][0]["bandwidth"].clone();
    let said = weir.tell(&["set", "up.bandwidth", "5Mbit", "--dry-run", "--name", &weir.name]).unwrap();
    assert!(said.contains("would change") && said.contains("\"unlimited\" -> \"5Mbit\""), "{said}");
    assert_eq!(rate(&weir.show()), Value::Null);
    weir.tell(&["set", "up.bandwidth", "5Mbit", "--for", "1s", "--name", &weir.name]).unwrap();
    assert_eq!(rate(&weir.show()), 5_000_000);
    weir.until("unlimited again", |show| rate(show) == Value::Null);
    let history = weir.tell(&["history", &weir.name]).unwrap();
    assert!(history.contains("its time is over") && history.contains("generation 2"), "{history}");
    weir.stop(Signal::TERM);
}

/// Whatever is wrong with the file: it is told, and what runs stays as it is.
#[test]
fn a_file_that_is_wrong_changes_nothing() {
    let bench = Bench::new(&format!("wrong-{}", std::process::id()));
    let started = format!("{IDLE}up = {{ limit = 1000, bandwidth = \"5Mbit\" }}\n");
    let weir = bench.weir(&started);
    let other = |from: &str, to: &str| started.replace(from, to);
    let more = IDLE.replace("idle", "more").replace("null0", "null2").replace("null1", "null3");
    for (file, said) in [
        ("[[link".to_owned(), "weir: "),
        (String::new(), "there is no link"),
        (other("bandwidth", "bandwith"), "bandwidth"),
        (other("5Mbit", "5"), "the unit is missing"),
        (other("5Mbit", "1bit"), "accepted"),
        (other("limit = 1000", "limit = \"many\""), "number"),
        (
            other("limit = 1000", "limit = 2000"),
            "idle.up.limit: 1000 -> 2000 (more than memory was allocated for",
        ),
        (other("limit = 1000", "qdisc = \"cake\""), "idle.up.qdisc: \"fq_codel\" -> \"cake\""),
        (other("limit = 1000", "flows = 2048"), "idle.up.flows: 1024 -> 2048"),
        (
            other("\"net_null0,no-rx=1\"", "{ device = \"net_null0,no-rx=1\", mtu = 9000 }"),
            "idle.a.mtu: 1500 -> 9000",
        ),
        (other("null1", "null7"), "idle.b.device"),
        (other("\"idle\"", "\"busy\""), "link: [\"idle\"] -> [\"busy\"]"),
        (format!("{started}{more}"), "link: [\"idle\"] -> [\"idle\", \"more\"]"),
        (format!("{started}down = \"off\"\n"), "idle.down: a table -> \"off\""),
        (format!("[eal]\nargs = [\"-m\", \"64\"]\n{started}"), "eal.args"),
    ] {
        bench.write(&format!("[engine]\npoll = \"busy\"\n{file}"));
        let refused = weir.tell(&["reload", &weir.name]).unwrap_err();
        assert!(refused.contains(said), "{said}: {refused}");
    }
    fs::remove_file(bench.folder.join(format!("{}.toml", bench.name))).unwrap();
    assert!(weir.tell(&["reload", &weir.name]).unwrap_err().contains("cannot be read"));
    let show = weir.show();
    assert_eq!(show["workers"][0]["generation"], 0);
    let up = &show["links"][0]["directions"][0];
    assert_eq!(up["bandwidth"], 5_000_000);
    assert!(up["options"].as_str().unwrap().contains("limit 1000p"), "{up}");
    bench.write(&format!("[engine]\npoll = \"busy\"\n{started}"));
    let said = weir.tell(&["reload", &weir.name]).unwrap();
    assert!(
        said.contains("engine.poll: \"adaptive\" -> \"busy\""),
        "what was refused was not half done: {said}"
    );
    weir.stop(Signal::TERM);
}
