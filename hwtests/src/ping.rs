//! `ping -D`: round-trip times with the moment of each.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::clock::{Interrupt, now};
use crate::netns::Netns;
use crate::process::{Process, Signal, run};

/// One answered echo request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When the answer came, seconds since 1970.
    pub received: f64,
    /// Sequence number, from 1.
    pub sequence: u32,
    /// Round-trip time in ms.
    pub rtt_ms: f64,
}

impl Sample {
    /// When the request was sent, seconds since 1970.
    pub fn sent(&self) -> f64 {
        self.received - self.rtt_ms / 1e3
    }
}

/// Waits until `address` answers a host, 10 s at most.
///
/// # Errors
/// Interrupted, or the time is up: `what` lets no packet pass.
pub fn await_answer(from: &Netns, address: &str, what: &str, interrupt: &Interrupt) -> Result<()> {
    let end = now() + PATH_TIMEOUT;
    loop {
        interrupt.check()?;
        match run(from.command("ping").args(["-n", "-c", "1", "-W", "1", address])) {
            Ok(_) => return Ok(()),
            Err(_) if now() < end => {}
            Err(error) => return Err(error).context(format!("no packet passes {what}")),
        }
    }
}

const PATH_TIMEOUT: Duration = Duration::from_secs(10);

/// A running `ping` and the answers that it has had.
#[derive(Debug)]
pub struct Pinger {
    process: Process,
    samples: Vec<Sample>,
}

impl Pinger {
    /// Pings `address` from inside `netns` with the DS field `tos`, which Linux also gives its answers; one request
    /// every `interval` (2 ms or more; root may).
    pub fn start(netns: &Netns, address: &str, tos: u8, interval: Duration) -> Result<Self> {
        Self::start_known(netns, address, tos, interval, &[])
    }

    /// The same, told apart by `identifier`, so that its flow is known beforehand.
    pub fn start_as(
        netns: &Netns,
        address: &str,
        tos: u8,
        interval: Duration,
        identifier: u16,
    ) -> Result<Self> {
        Self::start_known(netns, address, tos, interval, &["-e", &identifier.to_string()])
    }

    fn start_known(netns: &Netns, address: &str, tos: u8, interval: Duration, more: &[&str]) -> Result<Self> {
        let mut ping = netns.command("ping");
        let interval = format!("{:.3}", interval.as_secs_f64());
        ping.args(["-D", "-n", "-Q", &tos.to_string(), "-i", &interval]).args(more).arg(address);
        Ok(Self { process: Process::spawn("ping", &mut ping, None)?, samples: Vec::new() })
    }

    /// The answer in a line of `ping -D`, if it holds one.
    pub fn read(line: &str) -> Option<Sample> {
        parse_line(line)
    }

    /// All answers so far, oldest first.
    pub fn samples(&mut self) -> &[Sample] {
        self.samples.extend(self.process.ready_lines().filter_map(|line| parse_line(&line)));
        &self.samples
    }

    /// Stops pinging. Requests still on their way are neither answered nor lost.
    pub fn stop(self) -> Result<Vec<Sample>> {
        let Self { process, mut samples } = self;
        let (_, lines) = process.stop(Signal::INT, Duration::from_secs(2)).context("ping would not stop")?;
        samples.extend(lines.iter().filter_map(|line| parse_line(line)));
        Ok(samples)
    }
}

/// Requests that were not answered though a later one was.
pub fn lost(samples: &[Sample]) -> u32 {
    let first = samples.iter().map(|sample| sample.sequence).min();
    let last = samples.iter().map(|sample| sample.sequence).max();
    match (first, last) {
        (Some(first), Some(last)) => (last - first + 1).saturating_sub(samples.len() as u32),
        _ => 0,
    }
}

/// Reads a line like `[1700000000.123456] 64 bytes from 192.0.2.2: icmp_seq=3 ttl=64 time=0.150 ms`.
fn parse_line(line: &str) -> Option<Sample> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
    // A duplicate answers a request that was counted already.
    if rest.ends_with("(DUP!)") {
        return None;
    }
    let field = |key: &str| rest.split_whitespace().find_map(|word| word.strip_prefix(key));
    Some(Sample {
        received: stamp.parse().ok()?,
        sequence: field("icmp_seq=")?.parse().ok()?,
        rtt_ms: field("time=")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole() {
        let line = "[1796049018.236472] 64 bytes from 192.0.2.2: icmp_seq=17 ttl=64 time=0.404 ms";
        let sample = parse_line(line).unwrap();
        assert_eq!(sample, Sample { received: 1_796_049_018.236_472, sequence: 17, rtt_ms: 0.404 });
        assert!((sample.sent() - 1_796_049_018.236_068).abs() < 1e-6);
    }

    #[test]
    fn anything_else_is_no_answer() {
        for line in [
            "PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.",
            "[1796049018.236472] From 192.0.2.1 icmp_seq=1 Destination Host Unreachable",
            "[1796049018.236472] 64 bytes from 192.0.2.2: icmp_seq=1 ttl=64 time=0.404 ms (DUP!)",
            "rtt min/avg/max/mdev = 0.150/0.239/0.404/0.116 ms",
            "",
        ] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }

    #[test]
    fn only_gaps_before_the_last_answer_are_losses() {
        let at = |sequence| Sample { received: 0.0, sequence, rtt_ms: 1.0 };
        assert_eq!(lost(&[]), 0);
        assert_eq!(lost(&[at(4), at(5), at(6)]), 0);
        assert_eq!(lost(&[at(4), at(9), at(6)]), 3);
    }
}
