//! Links that are lost and come back.

use crate::bench::*;
use hwtests::clock::Interrupt;
use hwtests::netns::Netns;
use hwtests::process::{Signal, run};
use serde_json::Value;

#[test]
fn a_lost_link_holds_packets_back_and_comes_back() {
    let interrupt = Interrupt::install().unwrap();
    let bench = Bench::new("flap");
    // weir sees the state of a tap only in its own namespace: it runs where b is.
    let b = Netns::new("e2fb", None, &interrupt).unwrap();
    let weir = bench.weir_in(&b, &taps("e2fa", "e2fb", "link-down-hold = \"50ms\""));
    let a = Netns::new("e2fa", None, &interrupt).unwrap();
    run(b.command("ip").args(["link", "set", "e2fa", "netns", &a.pid().to_string()])).unwrap();
    a.set_up("e2fa", "192.0.2.1/24").unwrap();
    b.set_up("e2fb", "192.0.2.2/24").unwrap();
    run(a.command("ping").args(["-c", "2", "-W", "5", "192.0.2.2"])).unwrap();
    // Not to be forgotten with the link: what is held back must be more than ARP.
    run(a.command("ip").args([
        "neigh",
        "replace",
        "192.0.2.2",
        "dev",
        "e2fa",
        "lladdr",
        "02:00:00:00:00:01",
    ]))
    .unwrap();
    for _ in 0..3 {
        run(b.command("ip").args(["link", "set", "e2fb", "down"])).unwrap();
        weir.until("link down", |show| show["links"][0]["b"]["link_up"] == false);
        let _ = run(a.command("ping").args(["-c", "3", "-i", "0.1", "-W", "1", "192.0.2.2"]));
        weir.until("given up", |show| show["links"][0]["directions"][0]["backlog"]["packets"] == 0);
        run(b.command("ip").args(["link", "set", "e2fb", "up"])).unwrap();
        weir.until("link up", |show| show["links"][0]["b"]["link_up"] == true);
        let sent = weir.show()["links"][0]["directions"][0]["sent"]["packets"].clone();
        let _ = run(a.command("ping").args(["-c", "3", "-i", "0.1", "-W", "1", "192.0.2.2"]));
        weir.until("traffic resumes", |show| show["links"][0]["directions"][0]["sent"]["packets"] != sent);
    }
    let events: Value =
        serde_json::from_str(&weir.tell(&["history", "--json", &weir.name]).unwrap()).unwrap();
    for state in ["is down", "is up"] {
        let is_told =
            |event: &&Value| event["kind"] == "link" && event["text"].as_str().unwrap().contains(state);
        assert!(events.as_array().unwrap().iter().filter(is_told).count() >= 3, "{state}: {events:#}");
    }
    let show = weir.show();
    assert_conserved(&show);
    let up = &show["links"][0]["directions"][0];
    assert!(up["losses"]["link-down"]["packets"].as_u64().unwrap() >= 3, "{up:#}");
    weir.stop(Signal::INT);
}

#[test]
fn a_deleted_tap_is_a_lost_link() {
    let interrupt = Interrupt::install().unwrap();
    let bench = Bench::new("gone");
    let b = Netns::new("e2lb", None, &interrupt).unwrap();
    let weir = bench.weir_in(&b, &taps("e2la", "e2lb", "link-down-hold = \"50ms\""));
    let a = Netns::new("e2la", None, &interrupt).unwrap();
    run(b.command("ip").args(["link", "set", "e2la", "netns", &a.pid().to_string()])).unwrap();
    a.set_up("e2la", "192.0.2.1/24").unwrap();
    run(a.command("ip").args(["link", "set", "e2la", "name", "e2other"])).unwrap();
    b.set_up("e2lb", "192.0.2.2/24").unwrap();
    run(a.command("ping").args(["-c", "2", "-W", "5", "192.0.2.2"])).unwrap();
    run(b.command("ip").args(["link", "delete", "e2lb"])).unwrap();
    weir.until("link down", |show| show["links"][0]["b"]["link_up"] == false);
    assert_eq!(weir.show()["links"][0]["a"]["link_up"], true, "the other one is only elsewhere");
    let _ = run(a.command("ping").args(["-c", "3", "-i", "0.1", "-W", "1", "192.0.2.2"]));
    weir.until("given up", |show| {
        let up = &show["links"][0]["directions"][0];
        up["backlog"]["packets"] == 0 && up["losses"]["link-down"]["packets"].as_u64() > Some(0)
    });
    assert_conserved(&weir.show());
    weir.stop(Signal::TERM);
}
