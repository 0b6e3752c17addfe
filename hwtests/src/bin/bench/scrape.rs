//! What `GET /metrics` costs a running weir.
//!
//! [`scrape`]: with eight links, eight tins each way, all of them under traffic. Processor time of all of its threads but the workers, less what they take without a scraper: the kernel's account
//! of it, to the nanosecond. Beside it the time that a scraper waits, most of it for the control loop's next look at who
//! asks. One worker has all links: a machine with eight CPUs to spare has one for each, and eight times as many lines
//! about lcores, which are few.
//!
//! [`slowed`]: what ten scrapers, each asking once a second, take of the packets that a worker forwards which never has
//! nothing to do. The worker has the last CPU for itself; weir's other threads and the scrapers share the first, as
//! those would come over a network. Packets are counted over the time that the worker had its CPU, so that other work
//! on this machine is not taken for the scrapers'. With and without them in turns.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use hwtests::clock::{Interrupt, now};
use hwtests::forwarder::poll_cpu;
use hwtests::process::{Process, Signal, command};
use hwtests::stats::median;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Deserialize;

use crate::sources::Value;

/// Asks for `seconds` as fast as the answers come.
///
/// # Errors
/// weir does not start, or answers otherwise than it should.
pub(crate) fn scrape(name: &str, weir: &Path, seconds: u32, interrupt: &Interrupt) -> Result<Vec<Value>> {
    let time = Duration::from_secs(seconds.into());
    in_folder(|folder| {
        let traffic = folder.join("tins.pcap");
        fs::write(&traffic, frames()).with_context(|| format!("cannot write {}", traffic.display()))?;
        let bench = Bench::start(weir, folder, &config(&traffic), interrupt)?;
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
            bytes = bench.socket.get("/metrics")?.len();
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
    })
}

/// Measures `seconds` without scrapers and as long with them.
///
/// # Errors
/// As [`scrape`].
pub(crate) fn slowed(name: &str, weir: &Path, seconds: u32, interrupt: &Interrupt) -> Result<Vec<Value>> {
    in_folder(|folder| {
        let bench = Bench::start(weir, folder, &config_of_null(), interrupt)?;
        interrupt.sleep(Duration::from_secs(1))?;
        let (mut without, mut with, mut asked) = (Vec::new(), Vec::new(), 0);
        for _ in 0..seconds.div_ceil(SLICE_S) {
            without.push(bench.packet_rate(interrupt)?);
            let stop = AtomicBool::new(false);
            let (rate, answers) = thread::scope(|scope| {
                let scraper = |number| {
                    let (socket, stop) = (&bench.socket, &stop);
                    scope.spawn(move || socket.ask_once_a_second(number, stop))
                };
                let scrapers: Vec<_> = (0..SCRAPERS).map(scraper).collect();
                let rate = bench.packet_rate(interrupt);
                stop.store(true, Ordering::Relaxed);
                let answers = scrapers
                    .into_iter()
                    .map(|scraper| scraper.join().unwrap_or_else(|_| Err(anyhow!("a scraper panicked"))));
                (rate, answers.sum::<Result<u32>>())
            });
            with.push(rate?);
            asked += answers?;
        }
        let expected = SCRAPERS * SLICE_S * with.len() as u32;
        ensure!(asked * 10 >= expected * 9, "only {asked} of {expected} questions were answered in time");
        let (without, with) = (median(&without), median(&with));
        let row = |row: &str, value, unit| Value { name: format!("{name}.{row}"), value, unit };
        Ok(vec![
            row("throughput_lost_to_10_scrapers", (1.0 - with / without) * 100.0, "%"),
            row("throughput_without_scrapers", without / 1e6, "Mpps"),
        ])
    })
}

/// In a folder of its own that goes afterwards.
fn in_folder<T>(work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let folder = std::env::temp_dir().join(instance());
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let done = work(&folder);
    let _ = fs::remove_dir_all(&folder);
    done
}

fn instance() -> String {
    format!("bench-{}", process::id())
}

struct Bench {
    weir: Process,
    socket: Socket,
}

/// Where it is asked.
struct Socket(String);

/// `GET /v1/lcores`, as far as it is read here.
#[derive(Deserialize)]
struct Lcores {
    lcores: Vec<Lcore>,
}

#[derive(Deserialize)]
struct Lcore {
    packets: u64,
}

impl Bench {
    fn start(weir: &Path, folder: &Path, config: &str, interrupt: &Interrupt) -> Result<Self> {
        let (instance, file) = (&instance(), folder.join("bench.toml"));
        fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
        let mut start = command(weir);
        start.arg("run").arg(&file).args(["--name", instance]);
        let mut weir = Process::spawn("weir", &mut start, None)?;
        weir.wait_for("ready", Duration::from_secs(60), interrupt)?;
        Ok(Self { weir, socket: Socket(format!("/run/weir/{instance}.sock")) })
    }

    /// Packets a second of the worker's processor time, over [`SLICE_S`].
    fn packet_rate(&self, interrupt: &Interrupt) -> Result<f64> {
        let look = || anyhow::Ok((self.packets()?, self.time_of(|name| name.contains("worker"))?));
        let (packets, time) = look()?;
        interrupt.sleep(Duration::from_secs(SLICE_S.into()))?;
        let (packets_then, time_then) = look()?;
        ensure!(packets_then > packets && time_then > time, "the worker stands still");
        Ok((packets_then - packets) as f64 / (time_then - time).as_secs_f64())
    }

    fn packets(&self) -> Result<u64> {
        let Lcores { lcores } = serde_json::from_str(&self.socket.get("/v1/lcores")?)?;
        Ok(lcores.iter().map(|lcore| lcore.packets).sum())
    }

    /// Of all threads but the workers, so far.
    fn processor_time(&self) -> Result<Duration> {
        self.time_of(|name| !name.contains("worker"))
    }

    /// Processor time of the threads that `of` wants by their name.
    fn time_of(&self, of: impl Fn(&str) -> bool) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        for task in fs::read_dir(format!("/proc/{}/task", self.weir.pid()))? {
            let task = task?.path();
            let read = |file: &str| fs::read_to_string(task.join(file));
            // A thread may end meanwhile.
            let (Ok(name), Ok(stat)) = (read("comm"), read("schedstat")) else { continue };
            if of(&name) {
                let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
                sum += Duration::from_nanos(nanos.context("schedstat of another shape")?);
            }
        }
        Ok(sum)
    }
}

impl Socket {
    fn get(&self, path: &str) -> Result<String> {
        let mut stream = UnixStream::connect(&self.0).with_context(|| format!("nobody at {}", self.0))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer in HTTP")?;
        ensure!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}\n{body}");
        Ok(body.to_owned())
    }

    /// Asks until told to stop, and returns how many answers came. The scrapers begin one after the other, within a
    /// second: no two get the same snapshot.
    #[allow(clippy::disallowed_methods, reason = "a scraper waits for its next second, not for a result")]
    fn ask_once_a_second(&self, number: u32, stop: &AtomicBool) -> Result<u32> {
        let mut control = CpuSet::new();
        control.set(0);
        sched_setaffinity(None, &control).context("cannot keep off the worker's CPU")?;
        let (begin, mut answers) = (now() + Duration::from_secs(1) * number / SCRAPERS, 0);
        while !stop.load(Ordering::Relaxed) {
            if now() < begin + Duration::from_secs(answers.into()) {
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            self.get("/metrics")?;
            answers += 1;
        }
        Ok(answers)
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

/// One link whose one end receives without end; cake, so that each tin has its histograms.
fn config_of_null() -> String {
    let worker = poll_cpu();
    format!(
        "[eal]\nlcores = {{ main = 0, workers = [{worker}] }}\nargs = [\"--no-huge\", \"-m\", \"256\", \"--no-pci\"]\n\
         [engine]\npoll = \"busy\"\n\
         [[link]]\nname = \"null\"\na = \"net_null0,size=64\"\nb = \"net_null1,size=64\"\n\
         up = {{ qdisc = \"cake\", diffserv = \"diffserv8\" }}\n"
    )
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
const SCRAPERS: u32 = 10;
/// Time of a measurement of the speed, seconds.
const SLICE_S: u32 = 2;
/// Of the tins of diffserv8 in turn: LE, AF1x, CS0, AF2x, AF3x, AF4x, CS5, CS6.
const DSCPS: [u8; 8] = [1, 10, 0, 18, 26, 34, 40, 48];
