//! A running `weir` that is changed while numbered packets of several flows pass, and files it cannot run by.
//! Needs root (taps, namespaces).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod instance;

use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use hwtests::clock::{Interrupt, nap, now};
use hwtests::netns::Netns;
use hwtests::process::{Process, Signal, command, run};
use instance::{Weir, weir_binary};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

/// Everything that can change, by `weir reload`, SIGHUP and `weir set`, while packets wait.
#[test]
fn a_storm_of_changes_loses_and_reorders_nothing() {
    let interrupt = Interrupt::install().unwrap();
    let bench = Bench::new("storm");
    let ends = ["a", "b"].map(|end| format!("rs{end}{}", std::process::id()));
    let file = |round: usize| {
        let links = |up: &str| {
            format!(
                "[[link]]\nname = \"storm\"\na = \"net_tap0,iface={}\"\nb = {{ device = \"net_tap1,iface={}\", \
                 limit-min = \"{}b\", limit-max = \"{}KiB\" }}\nlink-down-hold = \"{}ms\"\nup = {{ {up} }}\n\
                 down = {{ interval = \"{}s\", target = \"1s\", quantum = {}, ecn = {} }}\n",
                ends[0],
                ends[1],
                64 * (round % 9),
                64 + round,
                100 + round,
                10 + round,
                300 + round,
                round.is_multiple_of(2)
            )
        };
        let any = |words: &[&'static str], every: usize| words[round / every % words.len()];
        let rule = any(
            &[
                "",
                ", rule = [{ destination = \"192.0.2.2/32\", set-dscp = \"CS1\" }, { destination = \"192.0.2.3/32\", mark = 1 }]",
            ],
            1,
        );
        let up = format!(
            "qdisc = \"cake\", rtt = \"{}s\", bandwidth = \"{}Mbit\", diffserv = \"{}\", flowmode = \"{}\", \
             overhead = {}, ack-filter = {}, split-gso = {}, gro = {}, wash = {}, ingress = {}, memlimit = \"{}MiB\", \
             fwmark = {}{rule}",
            20 + round % 3,
            12 + round % 7,
            any(&["besteffort", "diffserv3", "diffserv4", "diffserv8", "precedence"], 1),
            any(&["triple-isolate", "flowblind", "srchost", "flows", "dual-dsthost"], 2),
            any(&["\"ethernet\"", "\"pppoe-ptm\"", "\"docsis\""], 1),
            any(&["\"aggressive\"", "false"], 2),
            any(&["true", "false"], 3),
            any(&["true", "false"], 1),
            any(&["false", "true"], 4),
            any(&["false", "true"], 3),
            3 - round % 2,
            any(&["0", "15"], 5),
        );
        links(&up)
    };
    let mut weir = bench.weir(&file(0));
    let namespaces = [(&ends[0], "192.0.2.1/24"), (&ends[1], "192.0.2.2/24")].map(|(end, address)| {
        let netns = Netns::new(end, None, &interrupt).unwrap();
        netns.take(end, address).unwrap();
        netns
    });
    namespaces[1].add_address(&ends[1], "192.0.2.3/24").unwrap();
    know_each_other(&namespaces, &ends);
    let stream = Stream::start(&namespaces[0], &namespaces[1]);
    weir.until("packets wait", |show| {
        show["links"][0]["directions"][0]["backlog"]["packets"].as_u64() > Some(100)
    });
    let mut least_waiting = u64::MAX;
    for round in 1..=ROUNDS {
        bench.write(&file(round));
        match round % 3 {
            0 => {
                weir.process.signal(Signal::HUP).unwrap();
                // A second one while the first is heeded.
                weir.process.signal(Signal::HUP).unwrap();
                weir.process.wait_for("SIGHUP: generation", Duration::from_secs(30), &interrupt).unwrap();
            }
            _ => {
                let said = weir.tell(&["reload", &weir.name]).unwrap();
                assert!(said.contains("storm.up.diffserv"), "{said}");
            }
        }
        weir.tell(&["set", "up.bandwidth", "11Mbit", "--name", &weir.name]).unwrap();
        if round.is_multiple_of(10) {
            let show = weir.show();
            let up = &show["links"][0]["directions"][0];
            least_waiting = least_waiting.min(up["backlog"]["packets"].as_u64().unwrap());
        }
    }
    let generation = weir.show()["workers"][0]["generation"].as_u64().unwrap();
    assert_eq!(generation, 2 * ROUNDS as u64);
    let Passed { received, overtaken, lost } = stream.stop();
    let show = weir.show();
    let up = &show["links"][0]["directions"][0];
    assert_eq!(up["dropped"]["packets"], 0, "{up:#}");
    assert_eq!((lost, overtaken), (0, 0), "of {received}: {up:#}");
    assert!(received > 5_000 && least_waiting > 0, "{received} {least_waiting}");
    let history = weir.tell(&["history", &weir.name]).unwrap();
    assert!(history.contains(&format!("generation {generation}")) && history.contains("SIGHUP"), "{history}");
    weir.end(Signal::TERM);
}

/// Whatever is wrong with the file, it is told what, and nothing else happens.
#[test]
fn no_wrong_file_changes_anything() {
    let bench = Bench::new("wrong");
    let started = format!("{IDLE}up = {{ qdisc = \"cake\", bandwidth = \"5Mbit\", memlimit = \"4MiB\" }}\n");
    let weir = bench.weir(&started);
    let before = weir.show();
    let other = |from: &str, to: &str| {
        assert!(started.contains(from), "{from}");
        started.replace(from, to).into_bytes()
    };
    let half = started.as_bytes()[..started.len() - 20].to_vec();
    // What the file holds; what must be said of it: the key, the value, what is accepted, what to do.
    let texts: [(Vec<u8>, &[&str]); 11] = [
        (b"[[link".to_vec(), &[":1:7", "not TOML", "help: "]),
        (Vec::new(), &["there is no link", "[[link]]"]),
        (half, &[":5:44", "not TOML", "help: "]),
        (other("bandwidth", "bandwith"), &["bandwith: unknown key", "did you mean bandwidth"]),
        (other("\"5Mbit\"", "5"), &["bandwidth = 5", "bare number", "64Kbit", "help: "]),
        (other("5Mbit", "1bit"), &["bandwidth = \"1bit\"", "out of range", "64Kbit", "help: "]),
        (other("5Mbit", "fast"), &["bandwidth = \"fast\"", "accepted", "help: "]),
        (other("\"4MiB\"", "\"900GiB\""), &["memlimit = \"900GiB\"", "2GiB", "help: "]),
        (other("\"4MiB\"", "\"64MiB\""), &["up.memlimit: \"4MiB\" -> \"64MiB\"", "restart", "memory"]),
        (other("cake", "fq_pie"), &["qdisc = \"fq_pie\"", "fq_codel", "help: "]),
        ([started.as_bytes(), b"# \xff\xfe\n"].concat(), &["UTF-8"]),
    ];
    let mut refusals = 0;
    let mut refused = |said: &[&str], what: &str| {
        let error: String = weir.tell(&["reload", &weir.name]).unwrap_err();
        for said in said.iter().chain(&[bench.file().file_name().unwrap().to_str().unwrap()]) {
            assert!(
                error.contains(said) || error.contains("needs a restart"),
                "{what}: {said:?} not in: {error}"
            );
        }
        refusals += 1;
    };
    for (text, said) in &texts {
        fs::write(bench.file(), text).unwrap();
        refused(said, &String::from_utf8_lossy(text));
    }
    fs::remove_file(bench.file()).unwrap();
    refused(&["cannot be read", "No such file"], "vanished");
    fs::create_dir(bench.file()).unwrap();
    refused(&["cannot be read", "directory"], "a directory");
    fs::remove_dir(bench.file()).unwrap();
    symlink(bench.file(), bench.file()).unwrap();
    refused(&["cannot be read", "symbolic links"], "a link to itself");
    fs::remove_file(bench.file()).unwrap();
    run(Command::new("mkfifo").arg(bench.file())).unwrap();
    refused(&["not a regular file", "weir set"], "a pipe that nobody writes to");
    fs::remove_file(bench.file()).unwrap();

    let after = weir.show();
    assert_eq!(after["workers"][0]["generation"], 0);
    for what in ["bandwidth", "options"] {
        let [before, after] = [&before, &after].map(|show| &show["links"][0]["directions"][0][what]);
        assert_eq!(before, after);
        assert!(!before.is_null(), "{what}");
    }
    let history = weir.tell(&["history", &weir.name]).unwrap();
    let noted = history.lines().filter(|line| line.starts_with("refused")).count();
    assert_eq!(noted, refusals, "{history}");
    bench.write(&started.replace("5Mbit", "6Mbit"));
    let said = weir.tell(&["reload", &weir.name]).unwrap();
    assert!(said.contains("generation 1") && said.contains("\"5Mbit\" -> \"6Mbit\""), "{said}");
    weir.end(Signal::TERM);
}

/// A value that was set for a time, a file that says otherwise, and more changes than are kept in mind.
#[test]
fn what_is_remembered_ends() {
    let bench = Bench::new("memory");
    let file = |rate: &str| format!("{IDLE}up = {{ bandwidth = \"{rate}\" }}\n");
    let weir = bench.weir(&file("5Mbit"));
    let rate = |show: &Value| show["links"][0]["directions"][0]["bandwidth"].clone();
    let set = |rate: &str, more: &[&str]| {
        weir.tell(&[&["set", "up.bandwidth", rate, "--name", &weir.name], more].concat()).unwrap()
    };
    // The file takes over what was set for a time.
    set("7Mbit", &["--for", "1s"]);
    bench.write(&file("7Mbit"));
    assert!(weir.tell(&["reload", &weir.name]).unwrap().contains("nothing differs"));
    // What is set again for a time goes back to what there was before the first.
    set("8Mbit", &["--for", "10m"]);
    set("9Mbit", &["--for", "1s"]);
    weir.until("7 Mbit/s again", |show| rate(show) == 7_000_000);
    let generation = weir.show()["workers"][0]["generation"].as_u64().unwrap();
    assert_eq!(generation, 4, "there, twice, and back: not back to 5");
    let refused =
        weir.tell(&["set", "up.bandwidth", "9Mbit", "--for", "99999999999999d", "--name", &weir.name]);
    assert!(refused.is_err(), "{refused:?}");
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{}/status", weir.show()["pid"])).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let mut before = 0;
    for round in 0..REMEMBERED + 100 {
        set(["5Mbit", "6Mbit"][round % 2], &[]);
        if round == 100 {
            before = resident();
        }
    }
    let after = resident();
    assert!(after < before + 2_048, "resident memory grew from {before} to {after} KiB");
    let history = weir.tell(&["history", &weir.name]).unwrap();
    let changes = history.lines().filter(|line| line.starts_with("generation")).count();
    assert!((REMEMBERED - 8..=REMEMBERED).contains(&changes), "{changes}");
    weir.end(Signal::TERM);
}

/// Whoever asks for a change of an instance that stops is told that it was not done.
#[test]
fn a_change_does_not_keep_it_from_stopping() {
    let bench = Bench::new("stop");
    for _ in 0..5 {
        let mut weir = bench.weir(IDLE);
        let name = weir.name.clone();
        let asking: Vec<_> = (0..4)
            .map(|client| {
                let name = name.clone();
                spawn(move || {
                    for round in 0.. {
                        let rate = format!("{}Mbit", 5 + client + round % 2);
                        let set = ["set", "up.bandwidth", &rate, "--name", &name];
                        let end = now() + Duration::from_secs(20);
                        let said = Command::new(weir_binary()).args(set).output().unwrap();
                        assert!(now() < end, "{said:?}");
                        if !said.status.success() {
                            assert!(!said.stderr.is_empty());
                            return;
                        }
                    }
                })
            })
            .collect();
        weir.until("changes come", |show| show["workers"][0]["generation"].as_u64() > Some(2));
        weir.process.signal(Signal::HUP).unwrap();
        weir.end(Signal::TERM);
        asking.into_iter().for_each(|client| client.join().unwrap());
    }
}

/// Flows of numbered datagrams from one namespace to another, as many on the way as [`WINDOW`].
struct Stream {
    is_over: Arc<AtomicBool>,
    sender: JoinHandle<Vec<u64>>,
    receivers: Vec<JoinHandle<(u64, u64)>>,
}

/// What came of it.
struct Passed {
    received: u64,
    overtaken: u64,
    lost: u64,
}

impl Stream {
    fn start(from: &Netns, to: &Netns) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let received = Arc::new(AtomicU64::new(0));
        let open = Arc::new(Barrier::new(FLOWS + 1));
        let receivers = (0..FLOWS)
            .map(|flow| {
                let (pid, received, open) = (to.pid(), received.clone(), open.clone());
                spawn(move || receive(pid, flow, &open, &received))
            })
            .collect();
        // What comes to a port that is not open yet is lost.
        open.wait();
        let (pid, over) = (from.pid(), is_over.clone());
        Self { is_over, sender: spawn(move || send(pid, &over, &received)), receivers }
    }

    /// Stops sending, and waits for what is on the way.
    fn stop(self) -> Passed {
        self.is_over.store(true, Ordering::Release);
        let sent = self.sender.join().unwrap();
        let seen: Vec<_> = self.receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect();
        let received = seen.iter().map(|(received, _)| received).sum();
        let overtaken = seen.iter().map(|(_, overtaken)| overtaken).sum();
        Passed { received, overtaken, lost: sent.iter().sum::<u64>() - received }
    }
}

/// Tells the sender where the receiver's addresses are. Without, it holds the first datagrams until an answer
/// comes, drops some if there are too many, and sends later ones beside those that it held.
fn know_each_other([from, to]: &[Netns; 2], [near, far]: &[String; 2]) {
    let link = run(to.command("ip").args(["-json", "link", "show", "dev", far])).unwrap();
    let link: Value = serde_json::from_str(&link).unwrap();
    let hardware = link[0]["address"].as_str().unwrap();
    for address in ["192.0.2.2", "192.0.2.3"] {
        let neighbour = ["neigh", "replace", address, "lladdr", hardware, "dev", near, "nud", "permanent"];
        run(from.command("ip").args(neighbour)).unwrap();
    }
}

/// How many datagrams of each flow were sent.
fn send(pid: u32, is_over: &AtomicBool, received: &AtomicU64) -> Vec<u64> {
    enter(pid);
    let sockets: Vec<_> = (0..FLOWS).map(|_| UdpSocket::bind("192.0.2.1:0").unwrap()).collect();
    let mut sent = vec![0; FLOWS];
    let mut all = 0;
    while !is_over.load(Ordering::Acquire) {
        if all - received.load(Ordering::Acquire) >= WINDOW {
            nap(Duration::from_millis(1));
            continue;
        }
        let flow = all as usize % FLOWS;
        let mut datagram = [0; 400];
        datagram[..8].copy_from_slice(&u64::to_be_bytes(sent[flow]));
        sockets[flow].send_to(&datagram, address(flow)).unwrap();
        (sent[flow], all) = (sent[flow] + 1, all + 1);
    }
    sent
}

/// How many datagrams of a flow came, and how many of them after a later one. Ends when none comes any more.
fn receive(pid: u32, flow: usize, open: &Barrier, all: &AtomicU64) -> (u64, u64) {
    enter(pid);
    let socket = UdpSocket::bind(address(flow)).unwrap();
    open.wait();
    let (mut received, mut overtaken, mut next) = (0, 0, 0);
    let mut datagram = [0; 2_048];
    loop {
        // Until the first has come, all may still be on its way up.
        let patience = if received == 0 { 30 } else { 5 };
        socket.set_read_timeout(Some(Duration::from_secs(patience))).unwrap();
        if socket.recv(&mut datagram).is_err() {
            return (received, overtaken);
        }
        let number = u64::from_be_bytes(datagram[..8].try_into().unwrap());
        overtaken += u64::from(number < next);
        (received, next) = (received + 1, next.max(number + 1));
        all.fetch_add(1, Ordering::AcqRel);
    }
}

fn address(flow: usize) -> String {
    format!("192.0.2.{}:{}", 2 + flow % 2, 5_001 + flow)
}

/// Has this thread use the network of that process.
fn enter(pid: u32) {
    let netns = File::open(format!("/proc/{pid}/ns/net")).unwrap();
    move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// A folder for one test's files, and an instance of its own name.
struct Bench {
    name: String,
    folder: PathBuf,
}

impl Bench {
    fn new(test: &str) -> Self {
        let name = format!("reload-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(format!("weir-{name}"));
        fs::create_dir_all(&folder).unwrap();
        Self { name, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.toml", self.name))
    }

    fn write(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
    }

    fn weir(&self, text: &str) -> Weir {
        self.write(text);
        let mut start = command(weir_binary());
        start.arg("run").arg(self.file()).args(["--name", &self.name]);
        let mut process = Process::spawn("weir", &mut start, None).unwrap();
        process.wait_for("ready", Duration::from_secs(30), &Interrupt::install().unwrap()).unwrap();
        Weir { name: self.name.clone(), process }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Ports that receive nothing.
const IDLE: &str = "[[link]]\nname = \"idle\"\na = \"net_null0,no-rx=1\"\nb = \"net_null1,no-rx=1\"\n";

const FLOWS: usize = 8;
/// Datagrams on the way: as many as each queue of the kernel holds, so that it drops none.
const WINDOW: u64 = 400;
/// Changed files in the storm.
const ROUNDS: usize = 60;
/// Entries of the history that are kept.
const REMEMBERED: usize = 256;
