//! `weir` as a service: what the service manager hears, which privileges are left, what becomes of the line when it
//! stops or crashes. This test is the manager (a socket of its own, as systemd is not to be had everywhere). Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

mod children;
#[path = "../ending/mod.rs"]
mod ending;
mod package;

use children::{Netns, Process, now, run};

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

const RINGS: &str = "[[link]]\nname = \"x\"\na = \"net_ring0\"\nb = \"net_ring1\"\n";

#[test]
fn the_manager_hears_ready_alive_reloading_and_stopping() {
    let bench = Bench::new("told");
    let manager = Manager::new(&bench);
    let weir = bench.start(bench.weir(&manager), RINGS);
    manager.hear("READY=1");
    manager.hear("STATUS=x: a up, b up");
    manager.hear("WATCHDOG=1");
    manager.hear("WATCHDOG=1");
    bench.write(&format!("{RINGS}down = {{ bandwidth = \"5Mbit\" }}\n"));
    let mut weir = weir;
    weir.signal(Signal::SIGHUP);
    let told = manager.hear("RELOADING=1\nMONOTONIC_USEC=");
    let at: u64 = told.rsplit('=').next().unwrap().parse().unwrap();
    let up = fs::read_to_string("/proc/uptime").unwrap();
    let up: f64 = up.split(' ').next().unwrap().parse().unwrap();
    assert!((at as f64 / 1e6 - up).abs() < 60.0, "{at} us, up {up} s");
    manager.hear("READY=1");
    let (status, _) = weir.stop(Signal::SIGTERM, Duration::from_secs(20));
    assert!(status.success(), "{status}");
    manager.hear("STOPPING=1");
}

/// One thread alone stands still, as one does that a driver does not let go. The control loop goes on.
#[test]
fn a_worker_that_hangs_is_no_longer_said_to_be_alive() {
    let bench = Bench::new("hangs");
    let manager = Manager::new(&bench);
    let weir = bench.start(bench.weir(&manager), RINGS);
    manager.hear("WATCHDOG=1");
    let worker = thread_of(weir.pid(), "rte-worker-1");
    ptrace::seize(worker, ptrace::Options::empty()).unwrap();
    ptrace::interrupt(worker).unwrap();
    waitpid(worker, Some(WaitPidFlag::__WALL)).unwrap();
    // One that was asked just before it stood still may have answered.
    let last = manager.all_within(WATCHDOG).into_iter().filter(|told| told == "WATCHDOG=1").count();
    let silence = manager.all_within(2 * WATCHDOG);
    assert!(!silence.contains(&"WATCHDOG=1".to_owned()), "{last} before, then {silence:?}");
    let show = Command::new(WEIR).args(["show", &bench.name]).output().unwrap();
    assert!(show.status.success(), "control itself answers");
    ptrace::detach(worker, None).unwrap();
    manager.hear("WATCHDOG=1");
    weir.stop(Signal::SIGTERM, Duration::from_secs(20));
}

/// Restarted as the unit says; prints how long the line was dark.
#[test]
fn after_a_crash_packets_pass_again() {
    let bench = Bench::new("crash");
    let line = Line::new("svk");
    let manager = Manager::new(&bench);
    let start = || bench.start(bench.weir_in(&line.middle, &manager), &line.config(""));
    let mut weir = start();
    manager.hear("READY=1");
    line.pass();
    let mut times = Vec::new();
    for _ in 0..3 {
        let mut ping = line.left.command("ping");
        ping.args(["-D", "-i", "0.01", "192.0.2.2"]);
        let ping = Process::spawn(ping);
        assert!(ping.line(Duration::from_secs(5)).is_some());
        let killed = now();
        weir.signal(Signal::SIGKILL);
        assert!(weir.ends_within(Duration::from_secs(5)));
        // As long as the manager of services waits; meanwhile nobody is there who could tell it anything.
        manager.all_within(restart_after());
        weir = start();
        manager.hear("READY=1");
        let ready = now() - killed;
        let waited = waited_for_cpu(weir.pid());
        line.pass();
        let (_, lines) = ping.stop(Signal::SIGINT, Duration::from_secs(5));
        times.push((ready, waited, longest_silence(&lines)));
    }
    for (ready, waited, dark) in &times {
        let [ready, waited] = [ready, waited].map(Duration::as_millis);
        println!(
            "after SIGKILL: no packet passed for {dark:.0} ms; ready in {ready} ms, for {waited} of which the start \
             waited for a CPU that others used"
        );
    }
    assert!(
        times.iter().all(|(_, _, dark)| *dark > 0.0),
        "a line that was never dark was not weir's: {times:?}"
    );
    weir.stop(Signal::SIGTERM, Duration::from_secs(20));
}

#[test]
fn the_kernel_bridges_the_ports_until_weir_takes_them_back() {
    let bench = Bench::new("bridge");
    let line = Line::new("svb");
    let config = line.config("on-stop = \"bridge\"\n");
    let manager = Manager::new(&bench);
    let stop = |weir: Process| {
        let (status, lines) = weir.stop(Signal::SIGTERM, Duration::from_secs(20));
        assert!(status.success(), "{status}: {lines:?}");
        lines.join("\n")
    };
    let start = |config: &str| {
        let weir = bench.start(bench.weir_in(&line.middle, &manager), config);
        manager.hear("READY=1");
        weir
    };
    let weir = start(&config);
    line.pass();
    let said = stop(weir);
    assert!(said.contains(&format!("bridged by the kernel: {}, {}", line.ends[0], line.ends[1])), "{said}");
    assert!(line.bridge());
    line.pass();

    let weir = start(&config);
    assert!(!line.bridge(), "weir has taken its ports back");
    line.pass();
    stop(weir);
    line.pass();

    let broken = format!("{config}[eal]\nargs = [\"--no-huge\", \"-m\", \"1\"]\n");
    let mut weir = bench.start(bench.weir_in(&line.middle, &manager), &broken);
    assert!(weir.ends_within(Duration::from_secs(30)));
    assert!(!weir.ended().unwrap().success());
    assert!(line.bridge(), "a start that fails leaves the line as it was");
    line.pass();

    let weir = start(&config);
    run(Command::new(WEIR).args(["set", "--name", &bench.name, "on-stop", "link-down"]));
    stop(weir);
    assert!(!line.bridge(), "changed while it ran");

    run(line.middle.command("ip").args(["link", "add", "weir-x", "type", "bridge"]));
    let weir = bench.start(bench.weir_in(&line.middle, &manager), &config);
    let said = ended(weir);
    assert!(said.contains("weir-x is not weir's"), "{said}");
    assert!(line.bridge(), "somebody else's is left alone");
}

#[test]
fn no_thread_keeps_a_capability_that_its_ports_do_not_need() {
    let bench = Bench::new("caps");
    let manager = Manager::new(&bench);
    let id = std::process::id();
    let taps =
        format!("[[link]]\nname = \"x\"\na = \"net_tap0,iface=svca{id}\"\nb = \"net_tap1,iface=svcb{id}\"\n");
    for (config, kept) in [(RINGS, 0), (&taps, NET_ADMIN)] {
        let weir = bench.start(bench.weir(&manager), config);
        manager.hear("READY=1");
        let threads = permitted(weir.pid());
        assert!(threads.len() > 3, "{threads:?}");
        assert!(threads.iter().all(|(_, permitted)| *permitted == kept), "{threads:?}");
        let (status, _) = weir.stop(Signal::SIGTERM, Duration::from_secs(20));
        assert!(status.success(), "{status}");
    }
}

#[test]
fn it_runs_as_nobody_with_one_capability_and_says_so_without_it() {
    let bench = Bench::new("nobody");
    let manager = Manager::new(&bench);
    let id = std::process::id();
    let taps =
        format!("[[link]]\nname = \"x\"\na = \"net_tap0,iface=svna{id}\"\nb = \"net_tap1,iface=svnb{id}\"\n");
    let binary = bench.folder.join("weir-binary");
    fs::copy(WEIR, &binary).unwrap();
    chown(&bench.folder, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(manager.path(), fs::Permissions::from_mode(0o666)).unwrap();
    let as_nobody = |capabilities: &str| {
        let mut start = Command::new("setpriv");
        start.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        start.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]);
        start.arg(&binary).env("XDG_RUNTIME_DIR", &bench.folder);
        manager.environment(&mut start);
        start
    };
    let weir = bench.start(as_nobody("-all,+net_admin"), &taps);
    manager.hear("READY=1");
    let status = fs::read_to_string(format!("/proc/{}/status", weir.pid())).unwrap();
    assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
    assert!(permitted(weir.pid()).iter().all(|(_, permitted)| *permitted == NET_ADMIN));
    let (status, _) = weir.stop(Signal::SIGTERM, Duration::from_secs(20));
    assert!(status.success(), "{status}");
    let said = ended(bench.start(as_nobody("-all"), &taps));
    assert!(said.contains("lacks CAP_NET_ADMIN") && said.contains("AmbientCapabilities"), "{said}");
}

/// A folder and a name of its own.
struct Bench {
    name: String,
    folder: PathBuf,
}

/// What systemd would be: a socket that hears what weir says.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

/// left -- middle, where weir runs -- right.
struct Line {
    left: Netns,
    middle: Netns,
    _right: Netns,
    ends: [String; 2],
}

impl Bench {
    fn new(name: &str) -> Self {
        let name = format!("svc-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).unwrap();
        Self { name, folder }
    }

    fn weir(&self, manager: &Manager) -> Command {
        let mut start = Command::new(WEIR);
        manager.environment(&mut start);
        start
    }

    fn weir_in(&self, netns: &Netns, manager: &Manager) -> Command {
        let mut start = netns.command(WEIR);
        manager.environment(&mut start);
        start
    }

    fn start(&self, mut start: Command, config: &str) -> Process {
        self.write(config);
        start.arg("run").arg(self.file()).args(["--name", &self.name]);
        Process::spawn(start)
    }

    fn write(&self, config: &str) {
        fs::write(self.file(), config).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.join("weir.toml")
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Manager {
    fn new(bench: &Bench) -> Self {
        let path = bench.folder.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Self { socket, path }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn environment(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", &self.path).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    }

    /// The next message that begins like this.
    fn hear(&self, text: &str) -> String {
        let end = now() + Duration::from_secs(30);
        let mut others = Vec::new();
        while let Some(told) = self.next(end) {
            if told.starts_with(text) {
                return told;
            }
            others.push(told);
        }
        panic!("{text} was not told, but {others:?}");
    }

    /// All that is told within this time.
    fn all_within(&self, time: Duration) -> Vec<String> {
        let end = now() + time;
        std::iter::from_fn(|| self.next(end)).collect()
    }

    fn next(&self, end: Instant) -> Option<String> {
        let left = end.saturating_duration_since(now()).max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(left)).unwrap();
        let mut text = [0; 1024];
        let len = self.socket.recv(&mut text).ok()?;
        Some(String::from_utf8(text[..len].to_vec()).unwrap())
    }
}

impl Line {
    fn new(name: &str) -> Self {
        let [left, middle, right] = [(); 3].map(|()| Netns::new());
        let id = std::process::id();
        let ends = ["a", "b"].map(|side| format!("{name}{side}{id}"));
        for ((far, address), end) in
            [(&left, "192.0.2.1/24"), (&right, "192.0.2.2/24")].into_iter().zip(&ends)
        {
            let peer = format!("{end}p");
            let pid = middle.pid().to_string();
            run(Command::new("ip")
                .args(["link", "add", end, "netns", &pid, "type", "veth", "peer", "name", &peer]));
            let pid = far.pid().to_string();
            run(Command::new("ip").args(["link", "set", &peer, "netns", &pid]));
            run(far.command("ip").args(["address", "add", address, "dev", &peer]));
            run(far.command("ip").args(["link", "set", &peer, "up"]));
            run(middle.command("ip").args(["link", "set", end, "up"]));
        }
        Self { left, middle, _right: right, ends }
    }

    fn config(&self, keys: &str) -> String {
        let [a, b] = &self.ends;
        format!(
            "[[link]]\nname = \"x\"\na = \"net_af_packet0,iface={a}\"\nb = \"net_af_packet1,iface={b}\"\n{keys}"
        )
    }

    /// A packet passes there and back, now or soon.
    fn pass(&self) {
        run(self.left.command("ping").args(["-c", "1", "-W", "20", "-i", "0.1", "-w", "20", "192.0.2.2"]));
    }

    /// Whether there is an interface of the bridge's name.
    fn bridge(&self) -> bool {
        self.middle.command("ip").args(["link", "show", "weir-x"]).output().unwrap().status.success()
    }
}

/// Waits for the end of one that fails; what it said.
fn ended(mut weir: Process) -> String {
    assert!(weir.ends_within(Duration::from_secs(30)), "it runs");
    let (status, lines) = weir.stop(Signal::SIGTERM, Duration::ZERO);
    assert!(!status.success(), "{lines:?}");
    lines.join("\n")
}

/// The longest time between two answers in `ping -D`'s lines, in milliseconds.
fn longest_silence(lines: &[String]) -> f64 {
    let answers = lines.iter().filter(|line| line.contains("bytes from"));
    let times: Vec<f64> =
        answers.filter_map(|line| line.strip_prefix('[')?.split(']').next()?.parse().ok()).collect();
    times.windows(2).map(|pair| (pair[1] - pair[0]) * 1e3).fold(0.0, f64::max)
}

/// How long the main thread was ready to run and did not.
fn waited_for_cpu(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap();
    Duration::from_nanos(text.split_whitespace().nth(1).unwrap().parse().unwrap())
}

/// A value of the unit.
fn unit(key: &str) -> &'static str {
    let unit = include_str!("../../package/weir@.service");
    unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap()
}

fn restart_after() -> Duration {
    let millis = unit("RestartSec").strip_suffix("ms").expect("milliseconds");
    Duration::from_millis(millis.parse().unwrap())
}

fn thread_of(process: u32, name: &str) -> Pid {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|task| task.unwrap().path());
    let mut named = tasks.filter(|task| fs::read_to_string(task.join("comm")).unwrap().trim() == name);
    let task = named.next().expect("no such thread");
    Pid::from_raw(task.file_name().unwrap().to_str().unwrap().parse().unwrap())
}

/// Every thread's permitted capabilities, once the start is behind it.
fn permitted(process: u32) -> Vec<(String, u64)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|task| task.unwrap().path());
    let read = |task: PathBuf| {
        let status = fs::read_to_string(task.join("status")).unwrap();
        let bits = status.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap().trim().to_owned();
        let name = fs::read_to_string(task.join("comm")).unwrap().trim().to_owned();
        (name, u64::from_str_radix(&bits, 16).unwrap())
    };
    tasks.map(read).collect()
}

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const NET_ADMIN: u64 = 1 << 12;
const NOBODY: u32 = 65_534;

/// As in the unit.
const WATCHDOG: Duration = Duration::from_secs(1);
