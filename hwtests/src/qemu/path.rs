//! The scenario `path` in a machine: weir between two emulated 82576 ports, kernel TCP through both.
//!
//! One machine holds it all: a namespace with an e1000e port of the kernel on either side, each on one wire with a port
//! of weir's. In counted time the figures repeat themselves to the last digit, whatever else this machine does.

use anyhow::{Context, Result};
use serde_json::Value;

use super::machine::{Card, Job, Machine, Model, Outcome};
use super::rig::{FUNCTIONS, MEMORY, PATIENCE, Paths, image};
use crate::clock::Interrupt;
use crate::forwarder::parse_ports;
use crate::record::PortRecord;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Keys of the two directions, as inside an inline table.
    pub directions: [String; 2],
    /// Seconds of load each way, virtual ones.
    pub seconds: u32,
}

/// What was measured, in virtual time.
#[derive(Clone, Debug)]
pub struct Path {
    /// What TCP delivered, Mbit/s of payload.
    pub up: f64,
    /// The other way.
    pub down: f64,
    /// Smallest, mean and largest round trip without load, ms.
    pub idle: [f64; 3],
    /// While TCP went up.
    pub loaded_up: [f64; 3],
    /// While TCP went down.
    pub loaded_down: [f64; 3],
    /// Packets that weir dropped.
    pub dropped: u64,
    /// Packets that the cards dropped before weir saw them.
    pub missed: u64,
    /// The longest time between two looks of weir's at its ports, ms: it shares the one CPU with both ends of TCP, and
    /// what came meanwhile lay before its queue.
    pub poll_gap: f64,
    /// weir's two ports.
    pub ports: Vec<PortRecord>,
    /// QEMU as one would type it.
    pub command: String,
}

/// Boots a machine and measures `plan` in it.
pub fn path(plan: &Plan, paths: &Paths, tell: &mut dyn FnMut(&str), interrupt: &Interrupt) -> Result<Path> {
    let image = image(paths)?;
    let cards = [(Model::Igb, 0), (Model::Igb, 1), (Model::E1000e, 0), (Model::E1000e, 1)];
    let cards = cards.map(|(model, wire)| Card { model, wire }).to_vec();
    let machine = Machine { memory: MEMORY, cards };
    let [a, b] = [0, 1].map(Machine::address);
    let script =
        format!("A={a} B={b} SECONDS_OF_LOAD={}\n{FUNCTIONS}{}", plan.seconds, include_str!("guest/path.sh"));
    let config = config(plan, [&a, &b]);
    let job = Job { script: &script, files: &[("weir.toml", &config)], limit: PATIENCE };
    read(&machine.run(&image, &job, tell, interrupt)?)
}

fn config(plan: &Plan, [a, b]: [&str; 2]) -> String {
    let [up, down] = &plan.directions;
    format!(
        "[eal]\nargs = [\"--in-memory\"]\n[engine]\npoll = \"adaptive\"\n\
         [[link]]\nname = \"vm\"\na = \"{a}\"\nb = \"{b}\"\nup = {{ {up} }}\ndown = {{ {down} }}\n"
    )
}

fn read(outcome: &Outcome) -> Result<Path> {
    let show: Value = serde_json::from_str(&outcome.text("show")?).context("weir show has another shape")?;
    let rate = |way: &str| rate(&outcome.text(&format!("tcp-{way}"))?).with_context(|| format!("TCP {way}"));
    let ping =
        |name: &str| round_trips(&outcome.text(name)?).with_context(|| format!("no answers in {name}"));
    Ok(Path {
        up: rate("up")?,
        down: rate("down")?,
        idle: ping("ping-idle")?,
        loaded_up: ping("ping-up")?,
        loaded_down: ping("ping-down")?,
        dropped: total(&show, "/directions", "/dropped/packets"),
        poll_gap: poll_gap(&show),
        missed: total(&show, "/a", "/imissed") + total(&show, "/b", "/imissed"),
        ports: parse_ports(&outcome.text("show")?)?,
        command: outcome.command.clone(),
    })
}

/// Mbit/s at the receiver, of iperf3's JSON.
fn rate(json: &str) -> Result<f64> {
    let value: Value = serde_json::from_str(json).context("iperf3 printed no JSON")?;
    let rate = value.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
    Ok(rate.with_context(|| format!("iperf3: {}", value["error"]))? / 1e6)
}

/// Smallest, mean and largest of ping's last line, `rtt min/avg/max/mdev = 0.150/0.239/0.404/0.116 ms`.
fn round_trips(text: &str) -> Option<[f64; 3]> {
    let (_, figures) = text.lines().find(|line| line.starts_with("rtt "))?.split_once(" = ")?;
    let mut figures = figures.split(['/', ' ']).map(|figure| figure.parse().ok());
    Some([figures.next()??, figures.next()??, figures.next()??])
}

/// The sum of a number in all places, or in the one place, under each link.
fn total(show: &Value, place: &str, number: &str) -> u64 {
    let links = show["links"].as_array().into_iter().flatten();
    let places = links.filter_map(|link| link.pointer(place));
    let all = places.flat_map(|place| place.as_array().map_or(std::slice::from_ref(place), Vec::as_slice));
    all.filter_map(|value| value.pointer(number)?.as_u64()).sum()
}

/// The longest of all workers, ms.
fn poll_gap(show: &Value) -> f64 {
    let workers = show["workers"].as_array().into_iter().flatten();
    let gaps = workers.filter_map(|worker| worker.pointer("/poll_gaps/max_us")?.as_f64());
    gaps.fold(0.0, f64::max) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_tools_print() {
        let text = "\n--- 192.0.2.2 ping statistics ---\n100 packets transmitted, 100 received\n\
            rtt min/avg/max/mdev = 0.150/0.239/0.404/0.116 ms\n";
        assert_eq!(round_trips(text), Some([0.150, 0.239, 0.404]));
        assert_eq!(round_trips("100 packets transmitted, 0 received"), None);
        assert_eq!(rate(r#"{"end": {"sum_received": {"bits_per_second": 94.5e6}}}"#).unwrap(), 94.5);
        assert!(rate(r#"{"error": "refused"}"#).unwrap_err().to_string().contains("refused"));
        let show = serde_json::json!({"links": [{"a": {"imissed": 3},
            "directions": [{"dropped": {"packets": 2}}, {"dropped": {"packets": 5}}]}]});
        assert_eq!(total(&show, "/directions", "/dropped/packets"), 7);
        assert_eq!(total(&show, "/a", "/imissed"), 3);
        let show =
            serde_json::json!({"workers": [{"poll_gaps": {"max_us": 1700}}, {"poll_gaps": {"max_us": 900}}]});
        assert!((poll_gap(&show) - 1.7).abs() < 1e-9);
    }
}
