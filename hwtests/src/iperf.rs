//! `iperf3`: parallel TCP streams from one namespace to another, rates as the receiver saw them.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::clock::Interrupt;
use crate::netns::Netns;
use crate::process::Process;

/// A transfer in progress: the server in the namespace that receives, the client in the one that sends.
#[derive(Debug)]
pub struct Transfer {
    client: Process,
    text: String,
    // Held for its Drop; `--one-off` ends it after the transfer.
    _server: Process,
}

/// One end of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Where it lives.
    pub netns: &'a Netns,
    /// Its address there.
    pub address: &'a str,
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Parallel TCP streams.
    pub streams: u32,
    /// Measured time in whole seconds.
    pub seconds: u32,
    /// Seconds before that which do not count: slow start, and as much in flight at the start as at the end.
    pub omit: u32,
    /// Congestion control, by the kernel's name for it.
    pub congestion: &'static str,
}

/// Rates at the receiver, in bit/s of TCP payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// All streams together.
    pub total: f64,
    /// Each stream.
    pub streams: Vec<f64>,
}

impl Transfer {
    /// Starts a server at `to` and a client at `from` that sends to it.
    pub fn start(from: Host<'_>, to: Host<'_>, load: Load, interrupt: &Interrupt) -> Result<Self> {
        let mut server = to.netns.command("iperf3");
        server.args(["--server", "--bind", to.address, "--one-off", "--forceflush"]);
        let mut server = Process::spawn("iperf3 server", &mut server, None)?;
        server.wait_for("listening", Duration::from_secs(10), interrupt)?;
        let mut client = from.netns.command("iperf3");
        client.args(["--bind", from.address, "--client", to.address]);
        load_arguments(&mut client, load);
        let client = Process::spawn("iperf3 client", &mut client, None)?;
        Ok(Self { client, text: String::new(), _server: server })
    }

    /// The result once the client has ended; an error if it failed.
    pub fn result(&mut self) -> Result<Option<Received>> {
        let ended = self.client.ended()?;
        self.text.extend(self.client.ready_lines().map(|line| line + "\n"));
        if ended.is_none() {
            return Ok(None);
        }
        // The pipe closes with the process, but its reader thread may be a moment behind.
        while let Some(line) = self.client.line(Duration::from_secs(1)) {
            self.text += &line;
        }
        parse(&self.text).map(Some)
    }
}

fn load_arguments(client: &mut Command, load: Load) {
    client.args(["--json", "--connect-timeout", "5000"]);
    client.args(["--congestion", load.congestion, "--parallel", &load.streams.to_string()]);
    client.args(["--time", &load.seconds.to_string(), "--omit", &load.omit.to_string()]);
}

#[derive(Deserialize)]
struct Output {
    error: Option<String>,
    end: Option<End>,
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    streams: Vec<Stream>,
    sum_received: Option<Rate>,
}

#[derive(Deserialize)]
struct Stream {
    receiver: Rate,
}

#[derive(Deserialize)]
struct Rate {
    bits_per_second: f64,
}

fn parse(json: &str) -> Result<Received> {
    let output: Output =
        serde_json::from_str(json).with_context(|| format!("iperf3 printed no JSON: {}", json.trim()))?;
    if let Some(error) = output.error {
        bail!("iperf3: {error}");
    }
    let end = output.end.context("iperf3 printed no \"end\"")?;
    ensure!(!end.streams.is_empty(), "iperf3 measured no stream");
    Ok(Received {
        total: end.sum_received.context("iperf3 printed no \"sum_received\"")?.bits_per_second,
        streams: end.streams.iter().map(|stream| stream.receiver.bits_per_second).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_the_receivers() {
        let json = r#"{"start": {}, "intervals": [], "end": {
            "streams": [{"sender": {"bits_per_second": 9.0}, "receiver": {"socket": 5, "bits_per_second": 2.5e7}},
                        {"sender": {"bits_per_second": 9.0}, "receiver": {"socket": 7, "bits_per_second": 3e7}}],
            "sum_sent": {"bits_per_second": 6e7}, "sum_received": {"bits_per_second": 5.5e7}}}"#;
        assert_eq!(parse(json).unwrap(), Received { total: 5.5e7, streams: vec![2.5e7, 3e7] });
    }

    #[test]
    fn a_failed_run_says_why() {
        let json = r#"{"start": {}, "end": {}, "error": "unable to connect to server: Connection refused"}"#;
        assert_eq!(
            parse(json).unwrap_err().to_string(),
            "iperf3: unable to connect to server: Connection refused"
        );
        assert!(parse("iperf3: parameter error").unwrap_err().to_string().contains("parameter error"));
        assert!(parse(r#"{"end": {"streams": []}}"#).is_err());
    }
}
