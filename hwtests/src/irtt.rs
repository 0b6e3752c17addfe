//! `irtt`: round trips of a sparse UDP flow, and each way by itself: both ends have the same clock here.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::clock::Interrupt;
use crate::iperf::Host;
use crate::process::{Process, Signal};
use crate::rig::has_program;

/// A client at one end, a server at the other.
#[derive(Debug)]
pub struct Irtt {
    client: Process,
    file: PathBuf,
    // Held for its Drop.
    _server: Process,
}

/// One probe that came back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// When it was sent, seconds since 1970.
    pub sent: f64,
    /// There, back, and both, ms.
    pub ways_ms: [f64; 3],
}

/// Why there is none, with the remedy; none where there is.
pub fn missing() -> Option<&'static str> {
    (!has_program("irtt")).then_some("apt-get install irtt")
}

impl Irtt {
    /// Starts both; the client sends every `interval` for up to `most`. `file` is where it writes.
    ///
    /// # Errors
    /// One does not start.
    pub fn start(
        [from, to]: [Host<'_>; 2],
        interval: Duration,
        most: Duration,
        file: PathBuf,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let mut server = to.netns.command("irtt");
        server.args(["server", "-b", &format!("{}:{PORT}", to.address)]);
        let mut server = Process::spawn("irtt server", &mut server, None)?;
        server.wait_for("starting IPv4", Duration::from_secs(10), interrupt)?;
        let _ = fs::remove_file(&file);
        let mut client = from.netns.command("irtt");
        client.args(["client", "-Q", "-i", &format!("{}ms", interval.as_millis())]);
        client.args(["-d", &format!("{}s", most.as_secs()), "--wait=100ms", "-o"]).arg(&file);
        client.arg(format!("--local={}:{PORT}", from.address)).arg(format!("{}:{PORT}", to.address));
        let client = Process::spawn("irtt client", &mut client, None)?;
        Ok(Self { client, file, _server: server })
    }

    /// Ends it: what came back.
    ///
    /// # Errors
    /// It does not end, or left nothing that can be read.
    pub fn stop(self) -> Result<Vec<Probe>> {
        let (_, lines) = self.client.stop(Signal::INT, Duration::from_secs(5)).context("irtt goes on")?;
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("irtt left no result: {}", lines.join("\n  ")))?;
        parse(&text)
    }
}

/// [`Irtt`] as one would type it.
pub fn typed(interval: Duration) -> String {
    format!("irtt client -Q -i {}ms -o irtt.json PEER", interval.as_millis())
}

#[derive(Deserialize)]
struct Output {
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct RoundTrip {
    /// Of one that was lost there is no answer's part.
    delay: Delay,
    timestamps: Ends,
}

#[derive(Deserialize)]
struct Delay {
    rtt: Option<f64>,
    send: Option<f64>,
    receive: Option<f64>,
}

#[derive(Deserialize)]
struct Ends {
    client: Times,
}

#[derive(Deserialize)]
struct Times {
    send: Stamp,
}

#[derive(Deserialize)]
struct Stamp {
    /// Nanoseconds since 1970.
    wall: f64,
}

fn parse(json: &str) -> Result<Vec<Probe>> {
    let output: Output = serde_json::from_str(json).context("irtt wrote another shape")?;
    let probe = |trip: &RoundTrip| {
        let Delay { rtt, send, receive } = trip.delay;
        let ways = [send?, receive?, rtt?];
        Some(Probe { sent: trip.timestamps.client.send.wall * 1e-9, ways_ms: ways.map(|nanos| nanos * 1e-6) })
    };
    Ok(output.round_trips.iter().filter_map(probe).collect())
}

/// irtt's own.
pub const PORT: u16 = 2112;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_has_no_delay() {
        let json = r#"{"round_trips": [
            {"seqno": 0, "lost": "false", "delay": {"receive": 73600, "rtt": 198416, "send": 124816},
             "timestamps": {"client": {"receive": {"wall": 1796071730137610500}, "send": {"wall": 1796071730000000000}}}},
            {"seqno": 1, "lost": "true", "delay": {}, "timestamps": {"client": {"send": {"wall": 1796071731000000000}}}}]}"#;
        let probes = parse(json).unwrap();
        assert_eq!(probes.len(), 1);
        assert_eq!(probes[0].sent, 1_796_071_730.0);
        let expected = [0.124_816, 0.0736, 0.198_416];
        assert!(probes[0].ways_ms.iter().zip(expected).all(|(way, expected)| (way - expected).abs() < 1e-9));
    }
}
