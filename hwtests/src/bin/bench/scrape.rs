//! What `GET /metrics` costs a running weir with eight links, eight tins each way, all of them under traffic.
//!
//! Processor time of all of its threads but the workers, less what they take without a scraper: the kernel's account
//! of it, to the nanosecond. Beside it the time that a scraper waits, most of it for the control loop's next look at who
//! asks. One worker has all links: a machine with eight CPUs to spare has one for each, and eight times as many lines
//! about lcores, which are few.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hwtests::clock::{Interrupt, now};
use hwtests::process::{Process, Signal, command};
use hwtests::stats::median;

use crate::sources::Value;

/// Asks for `seconds` as fast as the answers come.
///
/// # Errors
/// weir does not start, or answers otherwise than it should.
pub(crate) fn scrape(name: &str, weir: &Path, seconds: u32, interrupt: &Interrupt) -> Result<Vec<Value>> {
    let (instance, time) = (format!("bench-{}", process::id()), Duration::from_secs(seconds.into()));
    let folder = std::env::temp_dir().join(&instance);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let measured = Bench::start(weir, &folder, &instance, interrupt).and_then(|bench| {
        // Percentiles of an instance that has run for a while.
        interrupt.sleep(time)?;
        let rest = bench.processor_time()?;
        interrupt.sleep(time)?;
        let rest = (bench.processor_time()? - rest).div_f64(time.as_secs_f64());
        let (began, before, end) = (now(), bench.processor_time()?, now() + time);
        let (mut waits, mut bytes) = (Vec::new(), 0);
        while now() < end {
            interrupt.check()?;
            let asked = now();
            bytes = bench.get("/metrics")?.len();
            waits.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        let spent = bench.processor_time()?.saturating_sub(before);
        let own = spent.saturating_sub(rest.mul_f64(began.elapsed().as_secs_f64()));
        let row = |row: &str, value, unit| Value { name: format!("{name}.{row}"), value, unit };
        Ok(vec![
            row("processor_time_of_a_get", own.as_secs_f64() * 1e3 / waits.len() as f64, "ms"),
            row("time_that_a_scraper_waits", median(&waits), "ms"),
            row("size_of_the_text", bytes as f64, "bytes"),
        ])
    });
    let _ = fs::remove_dir_all(&folder);
    measured
}

struct Bench {
    weir: Process,
    socket: String,
}

impl Bench {
    fn start(weir: &Path, folder: &Path, instance: &str, interrupt: &Interrupt) -> Result<Self> {
        let (traffic, file) = (folder.join("tins.pcap"), folder.join("bench.toml"));
        fs::write(&traffic, frames()).with_context(|| format!("cannot write {}", traffic.display()))?;
        fs::write(&file, config(&traffic)).with_context(|| format!("cannot write {}", file.display()))?;
        let mut start = command(weir);
        start.arg("run").arg(&file).args(["--name", instance]);
        let mut weir = Process::spawn("weir", &mut start, None)?;
        weir.wait_for("ready", Duration::from_secs(60), interrupt)?;
        Ok(Self { weir, socket: format!("/run/weir/{instance}.sock") })
    }

    fn get(&self, path: &str) -> Result<String> {
        let mut stream =
            UnixStream::connect(&self.socket).with_context(|| format!("nobody at {}", self.socket))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer in HTTP")?;
        ensure!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}\n{body}");
        Ok(body.to_owned())
    }

    /// Of all threads but the workers, so far.
    fn processor_time(&self) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        for task in fs::read_dir(format!("/proc/{}/task", self.weir.pid()))? {
            let task = task?.path();
            let read = |file: &str| fs::read_to_string(task.join(file));
            // A thread may end meanwhile.
            let (Ok(name), Ok(stat)) = (read("comm"), read("schedstat")) else { continue };
            if !name.contains("worker") {
                let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
                sum += Duration::from_nanos(nanos.context("schedstat of another shape")?);
            }
        }
        Ok(sum)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.weir.signal(Signal::TERM);
    }
}

fn config(traffic: &Path) -> String {
    let mut text = "[eal]\nargs = [\"--no-huge\", \"-m\", \"1024\", \"--no-pci\"]\n".to_owned();
    for link in 0..LINKS {
        let port = |end| format!("net_pcap{},rx_pcap={},infinite_rx=1", 2 * link + end, traffic.display());
        let way = r#"{ qdisc = "cake", diffserv = "diffserv8", bandwidth = "10Mbit", memlimit = "1MiB" }"#;
        let _ = write!(
            text,
            "[[link]]\nname = \"link{link}\"\na = \"{}\"\nb = \"{}\"\nup = {way}\ndown = {way}\n",
            port(0),
            port(1)
        );
    }
    text
}

/// A libpcap file with a UDP packet for each tin of diffserv8.
fn frames() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (number, dscp) in DSCPS.into_iter().enumerate() {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, dscp << 2, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend([0x10, number as u8, 0x20, 0, 0, 26, 0, 0]);
        frame.resize(60, 0);
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

const LINKS: u32 = 8;
/// Of the tins of diffserv8 in turn: LE, AF1x, CS0, AF2x, AF3x, AF4x, CS5, CS6.
const DSCPS: [u8; 8] = [1, 10, 0, 18, 26, 34, 40, 48];
