//! The program under test: a bump in the wire between two ports.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::clock::Interrupt;
use crate::netns::Netns;
use crate::process::{Process, Signal, command, run};
use crate::record::PortRecord;

/// Which program forwards.
#[derive(Clone, Debug)]
pub enum Program {
    /// `weir run FILE`: this binary.
    Weir(PathBuf),
    /// `dpdk-testpmd` in io mode: no shaping, to see what rig and driver do by themselves.
    Testpmd,
}

/// What to forward between, and how.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The two ports as DPDK names them; up runs from the first to the second.
    pub ports: [&'a str; 2],
    /// Keys of the directions up and down, as inside an inline table.
    pub directions: [&'a str; 2],
    /// More keys of the link, each on a line of its own.
    pub link: &'a str,
    /// CPU for the polling thread; the rest of the program shares CPU 0.
    pub poll_cpu: usize,
    /// Where configuration and log go, as NAME.toml and NAME.log.
    pub folder: &'a Path,
    /// NAME.
    pub name: &'a str,
    /// The network namespace to run in, if not that of this process.
    pub inside: Option<&'a Netns>,
}

/// Device argument of a net_tap port with this interface.
pub fn tap(index: usize, interface: &str) -> String {
    format!("net_tap{index},iface={interface}")
}

/// What weir counted, all directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets dropped, for whatever reason.
    pub drops: u64,
    /// Packets marked CE.
    pub marks: u64,
    /// Packets that wait.
    pub backlog: u64,
    /// Packets lost before they reached a queue.
    pub missed: u64,
    /// Gaps between two polls of more than 1 ms.
    pub poll_gaps: u64,
    /// The longest gap in µs.
    pub poll_gap_max_us: u64,
}

/// A forwarder that is up; ends when dropped.
#[derive(Debug)]
pub struct Forwarder {
    process: Process,
    weir: Option<PathBuf>,
    // After the process: it can only go once nothing uses it.
    _runtime: RuntimeFolder,
}

impl Forwarder {
    /// Starts the program and returns once it forwards and both taps are there.
    pub fn start(program: &Program, setup: &Setup<'_>, interrupt: &Interrupt) -> Result<Self> {
        let config = setup.folder.join(format!("{}.toml", setup.name));
        let log = setup.folder.join(format!("{}.log", setup.name));
        let start_of = |program: &OsStr| match setup.inside {
            Some(inside) => inside.command_anywhere(program),
            None => command(program),
        };
        let (mut start, ready, weir, prefix) = match program {
            Program::Weir(binary) => {
                fs::write(&config, weir_config(setup))
                    .with_context(|| format!("cannot write {}", config.display()))?;
                let mut start = start_of(binary.as_os_str());
                start.arg("run").arg(&config).args(["--name", &instance()]);
                (start, "ready", Some(binary.clone()), format!("weir-{}", instance()))
            }
            Program::Testpmd => {
                // A period of statistics keeps it running without a terminal.
                let options = "--forward-mode=io --stats-period=3600";
                let mut start = start_of(STDBUF.as_ref());
                testpmd_arguments(&mut start, setup.poll_cpu, setup.ports, options);
                (start, "Logical Core", None, instance())
            }
        };
        let runtime = RuntimeFolder::of(&prefix);
        let mut process = Process::spawn("forwarder", &mut start, Some(&log))?;
        process
            .wait_for(ready, Duration::from_secs(30), interrupt)
            .with_context(|| format!("the forwarder did not come up; its log: {}", log.display()))?;
        Ok(Self { process, weir, _runtime: runtime })
    }

    /// How long packets waited up and down so far by weir's own histograms, ms: half, 99 % of them; none of a program
    /// that has none to show.
    pub fn sojourns(&self) -> Result<Option<[[f64; 2]; 2]>> {
        self.show()?.as_deref().map(parse_sojourns).transpose()
    }

    /// The counters so far; none of a program that has none to show.
    pub fn counters(&self) -> Result<Option<Counters>> {
        self.show()?.as_deref().map(parse_counters).transpose()
    }

    /// What it says of its two ports; nothing of another program.
    pub fn ports(&self) -> Result<Vec<PortRecord>> {
        self.show()?.as_deref().map_or(Ok(Vec::new()), parse_ports)
    }

    /// What `weir show --json` prints; nothing of another program.
    pub fn show(&self) -> Result<Option<String>> {
        let Some(weir) = &self.weir else { return Ok(None) };
        run(Command::new(weir).args(["show", "--json", &instance()])).map(Some)
    }

    /// Changes one key of the running instance, as `weir set` does; of weir alone.
    pub fn set(&self, path: &str, value: &str) -> Result<()> {
        let weir = self.weir.as_ref().context("only weir can be changed while it runs")?;
        run(Command::new(weir).args(["set", path, value, "--name", &instance()])).map(drop)
    }

    /// Memory that it holds, KiB, as the kernel counts it.
    pub fn resident_kib(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        value.with_context(|| format!("no VmRSS in {path}"))
    }

    /// Ends it as an operator would; an error unless it exits with 0 in time.
    pub fn stop(self) -> Result<()> {
        let (status, lines) = self.process.stop(Signal::INT, Duration::from_secs(10))?;
        ensure!(status.success(), "the forwarder stopped badly ({status}): {}", lines.join("\n  "));
        Ok(())
    }
}

fn weir_config(setup: &Setup<'_>) -> String {
    let Setup { ports: [a, b], directions: [up, down], link, poll_cpu, .. } = setup;
    let lcores = match poll_cpu {
        0 => String::new(),
        cpu => format!("lcores = {{ main = 0, workers = [{cpu}] }}\n"),
    };
    // A card's memory is for weir to choose: hugepages where there are enough.
    let args = if [a, b].iter().all(|port| is_vdev(port)) { NO_HUGE } else { "" };
    format!(
        "# Written by hwtests: what `weir run` was given.\n\
         [eal]\nargs = [{args}]\n{lcores}\n\
         [[link]]\nname = \"demo\"\na = \"{a}\"\nb = \"{b}\"\n\
         up = {{ {up} }}\ndown = {{ {down} }}\n{link}"
    )
}

/// `dpdk-testpmd` between two devices, without hugepages; [`RuntimeFolder`] must outlive it.
pub fn testpmd(poll_cpu: usize, devices: [&str; 2], options: &str) -> Command {
    let mut testpmd = command(STDBUF);
    testpmd_arguments(&mut testpmd, poll_cpu, devices, options);
    testpmd
}

fn testpmd_arguments(testpmd: &mut Command, poll_cpu: usize, devices: [&str; 2], options: &str) {
    testpmd.args(["-oL", "dpdk-testpmd", "-l", &format!("0,{poll_cpu}"), "--file-prefix", &instance()]);
    testpmd.args("--no-huge -m 256 --no-shconf --no-telemetry".split(' '));
    for device in devices {
        testpmd.args([if is_vdev(device) { "--vdev" } else { "--allow" }, device]);
    }
    if devices.iter().all(|device| is_vdev(device)) {
        testpmd.arg("--no-pci");
    }
    testpmd.args(["--", "--total-num-mbufs=8192"]);
    testpmd.args(options.split(' '));
}

fn is_vdev(device: &str) -> bool {
    device.starts_with("net_")
}

/// The last CPU: the poll loop has it for itself where there is another one for the rest.
pub fn poll_cpu() -> usize {
    available_parallelism().map_or(1, usize::from) - 1
}

/// Name of the instance and of DPDK's runtime folder: one forwarder at a time, any number of rigs side by side.
fn instance() -> String {
    format!("hwtests-{}", std::process::id())
}

/// The parts of `weir show --json` that are read here.
#[derive(Deserialize)]
struct Show {
    links: Vec<Link>,
    workers: Vec<Worker>,
}

/// Other parts.
#[derive(Deserialize)]
struct ShowPorts {
    links: Vec<LinkPorts>,
}

#[derive(Deserialize)]
struct LinkPorts {
    a: PortRecord,
    b: PortRecord,
}

#[derive(Deserialize)]
struct Link {
    a: Port,
    b: Port,
    directions: Vec<Direction>,
}

#[derive(Deserialize)]
struct Port {
    imissed: u64,
    rx_nombuf: u64,
}

#[derive(Deserialize)]
struct Direction {
    #[serde(default)]
    sojourn: Sojourn,
    dropped: Count,
    backlog: Count,
    qdisc: BTreeMap<String, u64>,
    /// Of cake; no other discipline has any.
    tins: Vec<Tin>,
}

/// µs.
#[derive(Default, Deserialize)]
struct Sojourn {
    p50_us: f64,
    p99_us: f64,
}

#[derive(Deserialize)]
struct Tin {
    ecn_mark: u64,
}

#[derive(Deserialize)]
struct Count {
    packets: u64,
}

#[derive(Deserialize)]
struct Worker {
    poll_gaps: PollGaps,
}

#[derive(Deserialize)]
struct PollGaps {
    over_1ms: u64,
    max_us: u64,
}

impl Direction {
    /// cake counts them by tin, fq_codel in one, and a FIFO marks nothing.
    fn marks(&self) -> u64 {
        let whole = self.qdisc.get("ecn_mark").copied().unwrap_or(0);
        whole + self.tins.iter().map(|tin| tin.ecn_mark).sum::<u64>()
    }
}

fn parse_sojourns(show: &str) -> Result<[[f64; 2]; 2]> {
    let show: Show = serde_json::from_str(show).context("weir show --json has another shape")?;
    let directions = show.links.first().map_or(&[][..], |link| &link.directions);
    let mut waits = directions
        .iter()
        .map(|direction| [direction.sojourn.p50_us, direction.sojourn.p99_us].map(|us| us / 1e3));
    Ok([waits.next().unwrap_or_default(), waits.next().unwrap_or_default()])
}

/// The ports in what `weir show --json` printed.
///
/// # Errors
/// It is something else.
pub fn parse_ports(show: &str) -> Result<Vec<PortRecord>> {
    let show: ShowPorts = serde_json::from_str(show).context("weir show --json has another shape")?;
    Ok(show.links.into_iter().flat_map(|link| [link.a, link.b]).collect())
}

fn parse_counters(show: &str) -> Result<Counters> {
    let show: Show = serde_json::from_str(show).context("weir show --json has another shape")?;
    let directions = || show.links.iter().flat_map(|link| &link.directions);
    let ports = show.links.iter().flat_map(|link| [&link.a, &link.b]);
    Ok(Counters {
        drops: directions().map(|direction| direction.dropped.packets).sum(),
        marks: directions().map(Direction::marks).sum(),
        backlog: directions().map(|direction| direction.backlog.packets).sum(),
        missed: ports.map(|port| port.imissed + port.rx_nombuf).sum(),
        poll_gaps: show.workers.iter().map(|worker| worker.poll_gaps.over_1ms).sum(),
        poll_gap_max_us: show.workers.iter().map(|worker| worker.poll_gaps.max_us).max().unwrap_or(0),
    })
}

/// DPDK's folder for this process's forwarder: it leaves it behind empty, or with its sockets when it is killed.
#[derive(Debug)]
pub struct RuntimeFolder(PathBuf);

impl RuntimeFolder {
    /// Of [`testpmd`]; it is removed when this is dropped.
    pub fn of_testpmd() -> Self {
        Self::of(&instance())
    }

    /// Of the file prefix that a program is given.
    pub fn of(prefix: &str) -> Self {
        Self(Path::new("/run/dpdk").join(prefix))
    }
}

impl Drop for RuntimeFolder {
    fn drop(&mut self) {
        // Absent when the program took it away itself.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const NO_HUGE: &str = "\"--no-huge\", \"-m\", \"512\", \"--no-pci\"";
/// testpmd's lines come at once only to a terminal, unless stdbuf says otherwise.
const STDBUF: &str = "stdbuf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_directions_and_workers_are_summed() {
        let show = r#"{"name": "x", "links": [{"name": "demo",
            "a": {"imissed": 1, "rx_nombuf": 2, "mtu": 1500}, "b": {"imissed": 0, "rx_nombuf": 4},
            "directions": [
                {"direction": "up", "sojourn": {"packets": 9, "p50_us": 1500, "p90_us": 1, "p99_us": 2500}, "dropped": {"packets": 10, "bytes": 1}, "backlog": {"packets": 2}, "qdisc": {"ecn_mark": 3, "maxpacket": 9}, "tins": []},
                {"direction": "down", "dropped": {"packets": 20, "bytes": 2}, "backlog": {"packets": 3}, "qdisc": {},
                 "tins": [{"name": "Bulk", "ecn_mark": 1}, {"name": "Voice", "ecn_mark": 4}]}]}],
            "workers": [{"lcore": 1, "poll_gaps": {"over_50us": 9, "over_1ms": 5, "max_us": 1700, "total_us": 4}},
                        {"lcore": 2, "poll_gaps": {"over_50us": 9, "over_1ms": 1, "max_us": 900, "total_us": 4}}]}"#;
        let expected =
            Counters { drops: 30, marks: 8, backlog: 5, missed: 7, poll_gaps: 6, poll_gap_max_us: 1700 };
        assert_eq!(parse_counters(show).unwrap(), expected);
        assert_eq!(parse_sojourns(show).unwrap(), [[1.5, 2.5], [0.0; 2]]);
        assert!(parse_counters(r#"{"links": [{}], "workers": []}"#).is_err());
    }

    #[test]
    fn ports_say_their_link() {
        let port = r#"{"device": "0000:01:00.0", "driver": "net_e1000_igb", "link_up": true, "speed_mbps": 1000,
            "full_duplex": true, "autoneg": true, "firmware": "3.25", "mtu": 1500}"#;
        let tap = r#"{"device": "net_tap0", "driver": "net_tap", "link_up": false, "speed_mbps": null}"#;
        let show = format!(r#"{{"links": [{{"name": "demo", "a": {port}, "b": {tap}}}], "workers": []}}"#);
        let said: Vec<_> = parse_ports(&show).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "port 0000:01:00.0 (net_e1000_igb): link up, 1000 Mbit/s, full duplex, negotiated; firmware 3.25",
                "port net_tap0 (net_tap): link down, speed unknown; no firmware told"
            ]
        );
    }

    #[test]
    fn a_card_is_allowed_and_a_vdev_made() {
        let card = testpmd(1, ["net_tap0,iface=x", "0000:01:00.0"], "--forward-mode=io");
        let typed = crate::process::typed(&card);
        assert!(typed.contains("--vdev net_tap0,iface=x --allow 0000:01:00.0 -- "), "{typed}");
        assert!(crate::process::typed(&testpmd(1, ["net_null0", "net_null1"], "x")).contains("--no-pci -- "));
    }

    #[test]
    fn one_cpu_is_left_to_weir_to_place() {
        let [a, b] = [0, 1].map(|end| tap(end, ["wa1", "wb1"][end]));
        let direction = "qdisc = \"fifo\", limit = 1000, bandwidth = \"100Mbit\"";
        let setup = |poll_cpu| Setup {
            ports: [&a, &b],
            directions: [direction; 2],
            link: "link-down-hold = \"1s\"\n",
            poll_cpu,
            folder: Path::new("."),
            name: "fifo",
            inside: None,
        };
        assert!(!weir_config(&setup(0)).contains("lcores"));
        let two = weir_config(&setup(1));
        assert!(two.contains("lcores = { main = 0, workers = [1] }\n"), "{two}");
        assert!(two.contains("up = { qdisc = \"fifo\", limit = 1000, bandwidth = \"100Mbit\" }\n"), "{two}");
    }
}
