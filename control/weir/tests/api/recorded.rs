//! What has happened is told: who changed what, what was refused, and what was set back.

use crate::bench::{PATIENCE, Weir};
use serde_json::{Value, json};
use std::time::Instant;

#[test]
fn changes_and_refusals_are_recorded_with_who_asked() {
    let weir = Weir::start("events", "");
    let events = |after: u64| changes(&weir.get(&format!("/v1/events?after={after}"))["events"]);
    let start = events(0);
    assert_eq!((&start[0]["id"], &start[0]["kind"]), (&json!(1), &json!("start")));
    let last = start.last().unwrap()["id"].as_u64().unwrap();
    assert!(weir.tell(&["set", "down.bandwidth", "5Mbit"]).status.success());
    assert!(weir.tell(&["set", "down.bandwidth", "6Mbit", "--dry-run"]).status.success());
    assert!(!weir.tell(&["set", "down.flows", "7"]).status.success());
    let new = events(last);
    let [change, refused] = new.as_slice() else { panic!("{new:#?}") };
    assert_eq!((&change["kind"], &change["generation"]), (&json!("change"), &json!(1)));
    assert_eq!(change["changes"], json!(["idle.down.bandwidth: \"unlimited\" -> \"5Mbit\""]));
    let by = change["by"].as_str().unwrap();
    assert!(by.contains("(pid ") && by.ends_with("set down.bandwidth 5Mbit"), "{by}");
    assert_eq!((&refused["kind"], &refused["generation"]), (&json!("refused"), &json!(1)));
    assert!(refused["text"].as_str().unwrap().contains("needs a restart"), "{refused}");
    assert!(change["id"].as_u64() < refused["id"].as_u64());
    let printed = String::from_utf8(weir.tell(&["history"]).stdout).unwrap();
    assert!(printed.starts_with("generation 1  20") && printed.contains("\nrefused "), "{printed}");
    let printed: Value = serde_json::from_slice(&weir.tell(&["history", "--json"]).stdout).unwrap();
    assert_eq!(changes(&printed), events(0));
}

#[test]
fn several_values_change_together_or_not_at_all_and_are_set_back_together() {
    let weir = Weir::start("together", "");
    let json = "Content-Type: application/json";
    let patch = |query: &str, body: Value| {
        weir.ask("PATCH", &format!("/v1/config{query}"), &[json], &body.to_string())
    };
    let down = || weir.get("/v1/config")["config"]["link"][0]["down"].clone();
    // Either alone would be refused: target must be below interval.
    let both = json!({ "idle": { "down": { "target": "200ms", "interval": "400ms" } } });
    assert_eq!(patch("", json!({ "down.target": "200ms" })).status, 422);
    let half = json!({ "down.target": "200ms", "down.interval": "400ms", "down.limit": 1_000_000 });
    assert_eq!(patch("", half).status, 409);
    assert_eq!(down()["target"], "5ms");
    let answer = patch("?for=1s", both);
    assert_eq!(answer.json()["changes"].as_array().unwrap().len(), 2, "{answer:?}");
    assert_eq!(down()["target"], "200ms");
    let end = Instant::now() + PATIENCE;
    while down()["target"] != "5ms" {
        assert!(Instant::now() < end, "not set back");
    }
    assert_eq!(down()["interval"], "100ms");
    let events = changes(&weir.get("/v1/events")["events"]);
    let last = events.last().unwrap();
    assert!(last["by"].as_str().unwrap().contains("its time is over"), "{last}");
    assert_eq!(last["changes"].as_array().unwrap().len(), 2, "{last}");
    assert_eq!(patch("", json!({ "down.limit": 500 })).status, 200);
    assert_eq!(patch("", json!({ "down.ecn": false })).status, 200);
    assert_eq!(patch("", json!({ "down.ecn": null })).status, 200, "its default again");
    assert_eq!((&down()["ecn"], &down()["limit"]), (&json!(true), &json!(500)));
}

/// All but what this machine's load does to workers.
fn changes(events: &Value) -> Vec<Value> {
    events.as_array().unwrap().iter().filter(|event| event["kind"] != "worker").cloned().collect()
}
