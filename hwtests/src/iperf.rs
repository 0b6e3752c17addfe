//! `iperf3`: parallel TCP streams, or a UDP flow, from one namespace to another.
//!
//! Totals are the receiver's; what a second held is the sender's account of it, with the kernel's own view of the
//! connection (`tcp_info`) at its end.

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

/// A transfer among others between the same hosts.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// TCP port of the server.
    pub port: u16,
    /// TCP port of the first stream at the client; the others have the ones after it.
    pub first: u16,
    /// Windows at both ends, bytes.
    pub window: Option<u32>,
}

/// Rates at the receiver, in bit/s of TCP payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// All streams together.
    pub total: f64,
    /// Each stream.
    pub streams: Vec<f64>,
    /// Each stream, second by second, as its sender saw it.
    pub seconds: Vec<Vec<Second>>,
    /// Of UDP: percent of the datagrams that did not arrive.
    pub lost_percent: Option<f64>,
}

/// One second of one stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// Its end, seconds since the start of the measured time.
    pub at: f64,
    /// Bit/s of payload.
    pub rate: f64,
    /// Congestion window at its end, bytes; 0 for UDP.
    pub cwnd: u64,
    /// Smoothed round trip at its end, ms; 0 for UDP.
    pub rtt_ms: f64,
    /// Segments sent again in it.
    pub retransmits: u64,
}

impl Transfer {
    /// Starts a server at `to` and a client at `from` that sends to it.
    pub fn start(from: Host<'_>, to: Host<'_>, load: Load, interrupt: &Interrupt) -> Result<Self> {
        Self::begin(from, to, &load_arguments(load), interrupt)
    }

    /// As [`Transfer::start`], on ports of its own, so that several run between the same hosts, and with windows of so
    /// many bytes at both ends, if given.
    pub fn start_beside(
        from: Host<'_>,
        to: Host<'_>,
        load: Load,
        Beside { port, first, window }: Beside,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let window = window.map_or(String::new(), |bytes| format!(" --window {bytes}"));
        let arguments = format!("{} --cport {first}{window}", load_arguments(load));
        Self::begin_at(from, to, &arguments, port, interrupt)
    }

    /// Starts a UDP flow of `bits_per_second` and datagrams of 1400 bytes, unresponsive to loss, for whole `seconds`.
    pub fn start_udp(
        from: Host<'_>,
        to: Host<'_>,
        bits_per_second: u64,
        seconds: u32,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let arguments = format!("--udp --length {DATAGRAM} --bitrate {bits_per_second} --time {seconds}");
        Self::begin(from, to, &arguments, interrupt)
    }

    fn begin(from: Host<'_>, to: Host<'_>, arguments: &str, interrupt: &Interrupt) -> Result<Self> {
        Self::begin_at(from, to, arguments, PORT, interrupt)
    }

    fn begin_at(
        from: Host<'_>,
        to: Host<'_>,
        arguments: &str,
        port: u16,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let port = port.to_string();
        let mut server = to.netns.command("iperf3");
        server.args(["--server", "--bind", to.address, "--one-off", "--forceflush", "--port", &port]);
        let mut server = Process::spawn("iperf3 server", &mut server, None)?;
        server.wait_for("listening", Duration::from_secs(10), interrupt)?;
        let mut client = from.netns.command("iperf3");
        client.args(["--bind", from.address, "--client", to.address, "--port", &port]);
        client.args(["--json", "--connect-timeout", "5000"]).args(arguments.split(' '));
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

fn load_arguments(load: Load) -> String {
    let Load { streams, seconds, omit, congestion } = load;
    format!("--congestion {congestion} --parallel {streams} --time {seconds} --omit {omit}")
}

#[derive(Deserialize)]
struct Output {
    error: Option<String>,
    end: Option<End>,
    #[serde(default)]
    intervals: Vec<Interval>,
}

#[derive(Deserialize)]
struct Interval {
    #[serde(default)]
    streams: Vec<Span>,
}

/// One stream in one interval.
#[derive(Deserialize)]
struct Span {
    end: f64,
    bits_per_second: f64,
    #[serde(default)]
    omitted: bool,
    #[serde(default)]
    snd_cwnd: u64,
    /// µs.
    #[serde(default)]
    rtt: f64,
    #[serde(default)]
    retransmits: u64,
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    streams: Vec<Stream>,
    sum_received: Option<Rate>,
    /// Of UDP.
    sum: Option<Datagrams>,
}

#[derive(Deserialize)]
struct Stream {
    receiver: Option<Rate>,
    udp: Option<Rate>,
}

#[derive(Deserialize)]
struct Rate {
    bits_per_second: f64,
}

#[derive(Deserialize)]
struct Datagrams {
    bits_per_second: f64,
    lost_percent: f64,
}

impl Received {
    /// Reads what `iperf3 --json` printed.
    ///
    /// # Errors
    /// It failed, or printed something else.
    pub fn parse(json: &str) -> Result<Self> {
        parse(json)
    }
}

fn parse(json: &str) -> Result<Received> {
    let output: Output =
        serde_json::from_str(json).with_context(|| format!("iperf3 printed no JSON: {}", json.trim()))?;
    if let Some(error) = output.error {
        bail!("iperf3: {error}");
    }
    let end = output.end.context("iperf3 printed no \"end\"")?;
    ensure!(!end.streams.is_empty(), "iperf3 measured no stream");
    let rates = end.streams.iter().map(|stream| stream.receiver.as_ref().or(stream.udp.as_ref()));
    let streams = rates.flatten().map(|rate| rate.bits_per_second).collect();
    let seconds = (0..end.streams.len()).map(|at| seconds_of(&output.intervals, at)).collect();
    // The sum of UDP counts what was sent; what was lost of it is the receiver's.
    let udp = end.sum.filter(|_| end.streams.iter().all(|stream| stream.udp.is_some()));
    let total = match (&udp, end.sum_received) {
        (Some(sum), _) => sum.bits_per_second * (1.0 - sum.lost_percent / 100.0),
        (None, Some(sum)) => sum.bits_per_second,
        (None, None) => bail!("iperf3 printed no \"sum_received\""),
    };
    Ok(Received { total, streams, seconds, lost_percent: udp.map(|sum| sum.lost_percent) })
}

fn seconds_of(intervals: &[Interval], stream: usize) -> Vec<Second> {
    let spans = intervals.iter().filter_map(|interval| interval.streams.get(stream));
    let second = |span: &Span| Second {
        at: span.end,
        rate: span.bits_per_second,
        cwnd: span.snd_cwnd,
        rtt_ms: span.rtt / 1e3,
        retransmits: span.retransmits,
    };
    spans.filter(|span| !span.omitted).map(second).collect()
}

/// iperf3's own.
const PORT: u16 = 5201;
/// Payload of a UDP flow's datagrams, bytes: with all headers a frame of 1442.
pub const DATAGRAM: u32 = 1400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_the_receivers() {
        let json = r#"{"start": {}, "intervals": [
            {"streams": [{"socket": 5, "end": 1.0, "bits_per_second": 1e6, "omitted": true},
                         {"socket": 7, "end": 1.0, "bits_per_second": 1e6, "omitted": true}]},
            {"streams": [{"socket": 5, "end": 1.0, "bits_per_second": 2e6, "omitted": false, "snd_cwnd": 9, "rtt": 1500,
                          "retransmits": 2},
                         {"socket": 7, "end": 1.0, "bits_per_second": 3e6, "omitted": false}]}], "end": {
            "streams": [{"sender": {"bits_per_second": 9.0}, "receiver": {"socket": 5, "bits_per_second": 2.5e7}},
                        {"sender": {"bits_per_second": 9.0}, "receiver": {"socket": 7, "bits_per_second": 3e7}}],
            "sum_sent": {"bits_per_second": 6e7}, "sum_received": {"bits_per_second": 5.5e7}}}"#;
        let received = parse(json).unwrap();
        assert_eq!((received.total, received.streams), (5.5e7, vec![2.5e7, 3e7]));
        let first = Second { at: 1.0, rate: 2e6, cwnd: 9, rtt_ms: 1.5, retransmits: 2 };
        assert_eq!(received.seconds[0], [first], "slow start is left out");
        assert_eq!(received.seconds[1][0].rate, 3e6);
        assert_eq!(received.lost_percent, None);
    }

    #[test]
    fn lost_datagrams_are_not_received() {
        let json = r#"{"end": {"streams": [{"udp": {"bits_per_second": 2e7}}],
            "sum": {"bits_per_second": 2e7, "lost_percent": 25.0}}}"#;
        let received = parse(json).unwrap();
        assert_eq!((received.total, received.lost_percent), (1.5e7, Some(25.0)));
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
