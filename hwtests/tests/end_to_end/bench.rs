//! What the tests share: a folder of files, interfaces, namespaces, captures, and what must hold at the end.

use std::fs;
use std::ops::Sub;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::instance::{Weir, weir_binary};
use hwtests::clock::{Interrupt, nap, now};
use hwtests::iperf::{Host, Load, Received, Transfer};
use hwtests::netns::Netns;
use hwtests::process::{Process, Signal, command, run};
use serde_json::Value;

/// A folder for one test's files; nothing of the test may be left once it is dropped.
pub struct Bench {
    pub name: String,
    pub folder: PathBuf,
}

/// A veth pair: one end here for weir, the other in a namespace, all offloads off.
pub struct Veth {
    pub far: Netns,
    pub outside: String,
}

impl Bench {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-e2e-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self { name: format!("e2e-{name}"), folder }
    }

    pub fn weir(&self, file: &str) -> Weir {
        self.weir_named(&self.name, file)
    }

    /// Changes the file.
    pub fn write(&self, file: &str) {
        fs::write(self.folder.join(format!("{}.toml", self.name)), file).unwrap();
    }

    pub fn weir_named(&self, name: &str, file: &str) -> Weir {
        let interrupt = Interrupt::install().unwrap();
        let mut process = self.spawn(name, file);
        process.wait_for("ready", Duration::from_secs(30), &interrupt).unwrap();
        Weir { name: name.to_owned(), process }
    }

    /// Runs until it is ready; the warnings, wherever they came among other lines.
    pub fn warnings(&self, file: &str) -> Vec<String> {
        let process = self.spawn(&self.name, file);
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.contains("ready")) {
            said.push(process.line(Duration::from_secs(30)).expect("weir is not ready and says nothing"));
        }
        let (status, rest) = process.stop(Signal::TERM, Duration::from_secs(20)).unwrap();
        assert!(status.success(), "{status}: {said:?}");
        said.into_iter().chain(rest).filter(|line| line.contains("warning")).collect()
    }

    /// Runs inside a namespace.
    pub fn weir_in(&self, netns: &Netns, file: &str) -> Weir {
        let mut process = self.start(netns.command(weir_binary().to_str().unwrap()), &self.name, file);
        process.wait_for("ready", Duration::from_secs(30), &Interrupt::install().unwrap()).unwrap();
        Weir { name: self.name.clone(), process }
    }

    /// Runs a file that must be refused; what was said.
    pub fn refused(&self, name: &str, file: &str) -> String {
        let mut process = self.spawn(name, file);
        let end = now() + Duration::from_secs(30);
        while process.ended().unwrap().is_none() {
            assert!(now() < end, "weir neither ran nor refused");
            nap(Duration::from_millis(10));
        }
        let (status, lines) = process.stop(Signal::TERM, Duration::ZERO).unwrap();
        // 78: for its configuration.
        assert!(matches!(status.code(), Some(1 | 78)), "{status}: {}", lines.join("\n"));
        lines.join("\n")
    }

    pub fn spawn(&self, name: &str, file: &str) -> Process {
        self.start(command(weir_binary()), name, file)
    }

    pub fn start(&self, mut start: Command, name: &str, file: &str) -> Process {
        let path = self.folder.join(format!("{name}.toml"));
        fs::write(&path, file).unwrap();
        start.arg("run").arg(&path).args(["--name", name]);
        Process::spawn("weir", &mut start, None).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Weir {
    /// Stops it, and sees to it that all is accounted for and nothing is left.
    pub fn stop(self, signal: Signal) {
        let name = self.name.clone();
        let said = self.end(signal);
        assert!(said.contains("Sent "), "no summary: {said}");
        assert_nothing_left(&name);
    }
}

impl Veth {
    pub fn new(outside: &str, address: &str, interrupt: &Interrupt) -> Self {
        let far = Netns::new(outside, None, interrupt).unwrap();
        let inside = format!("{outside}i");
        run(Command::new("ip").args(["link", "add", outside, "type", "veth", "peer", "name", &inside]))
            .unwrap();
        let veth = Self { far, outside: outside.to_owned() };
        veth.far.take(&inside, address).unwrap();
        // The kernel behind the end that weir drives may have an address of this network too, and must not answer for it.
        run(Command::new("ip").args(["link", "set", outside, "arp", "off", "up"])).unwrap();
        for mut ethtool in [Command::new("ethtool"), veth.far.command("ethtool")] {
            let end = if ethtool.get_program() == "ethtool" { outside } else { &inside };
            run(ethtool.args(["-K", end, "tx", "off", "tso", "off", "gso", "off", "gro", "off"])).unwrap();
        }
        veth
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        let _ = run(Command::new("ip").args(["link", "delete", &self.outside]));
    }
}

/// A namespace whose interface takes frames of 64 KB, with TCP that retransmits only what was lost.
pub struct Jumbo {
    pub netns: Netns,
    pub interface: String,
}

/// What an interface has passed on.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    pub frames: u64,
    pub bytes: u64,
}

impl Jumbo {
    /// `netns` with `interface`, which has its IPv4 address.
    pub fn new(netns: Netns, interface: &str, ipv6: &str) -> Self {
        run(netns.command("sh").args(["-ec", JUMBO, "sh", interface, ipv6])).unwrap();
        Self { netns, interface: interface.to_owned() }
    }

    pub fn frames(&self, way: &str) -> Frames {
        let text = run(self.netns.command("ip").args(["-j", "-s", "link", "show", &self.interface])).unwrap();
        let interface: Value = serde_json::from_str(&text).unwrap();
        let count = |unit: &str| interface[0]["stats64"][way][unit].as_u64().unwrap();
        Frames { frames: count("packets"), bytes: count("bytes") }
    }

    /// No frame that arrived was damaged, out of order or sent a second time.
    pub fn assert_nothing_broke(&self) {
        let text = run(self.netns.command("nstat").args(["-asz", "--json"])).unwrap();
        let counters: Value = serde_json::from_str(&text).unwrap();
        let counters = counters["kernel"].as_object().unwrap();
        for suffix in ["InCsumErrors", "InHdrErrors", "InTruncatedPkts", "InErrs", "RetransSegs", "OFOQueue"]
        {
            let of_it: Vec<_> = counters.iter().filter(|(name, _)| name.ends_with(suffix)).collect();
            assert!(
                of_it.iter().any(|(name, _)| name.contains("Tcp") || name.contains("Ip6")),
                "no {suffix}"
            );
            assert!(of_it.iter().all(|(_, count)| **count == 0), "{}: {of_it:?}", self.interface);
        }
    }
}

impl Frames {
    pub fn mean_len(&self) -> u64 {
        self.bytes / self.frames.max(1)
    }
}

impl Sub for Frames {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { frames: self.frames - before.frames, bytes: self.bytes - before.bytes }
    }
}

/// Moves as much TCP as `load` says, and waits for its end.
pub fn transfer(from: Host<'_>, to: Host<'_>, load: Load, interrupt: &Interrupt) -> Received {
    let mut transfer = Transfer::start(from, to, load, interrupt).unwrap();
    loop {
        match transfer.result().unwrap() {
            Some(received) => return received,
            None => nap(Duration::from_millis(20)),
        }
    }
}

/// Is set to `false` when this is dropped, by a panic too.
pub struct Lowered<'a>(pub &'a AtomicBool);

impl Drop for Lowered<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

pub fn assert_nothing_left(name: &str) {
    for path in [format!("/run/weir/{name}.sock"), format!("/run/dpdk/weir-{name}")] {
        assert!(!Path::new(&path).exists(), "{path} is left");
    }
}

/// received = sent + dropped + backlog, for every direction.
pub fn assert_conserved(show: &Value) {
    for direction in
        show["links"].as_array().unwrap().iter().flat_map(|link| link["directions"].as_array().unwrap())
    {
        for unit in ["packets", "bytes"] {
            let count = |what: &str| direction[what][unit].as_u64().unwrap();
            assert_eq!(
                count("received") + count("added"),
                count("sent") + count("dropped") + count("backlog") + count("removed"),
                "{unit}: {direction:#}"
            );
        }
    }
}

/// Each packet is in the histograms once, in the document and in the log as a reader finds it that is not weir's.
pub fn assert_histograms(weir: &Weir) {
    let log = std::env::temp_dir().join(format!("weir-hist-{}.hlog", std::process::id()));
    let before = weir.show();
    let document = weir.tell(&["hist", &weir.name, "--format", "json"]).unwrap();
    weir.tell(&["hist", &weir.name, "--format", "log", "--out", log.to_str().unwrap()]).unwrap();
    let after = weir.show();
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/hdr-read");
    let read = run(Command::new(reader).arg(&log)).unwrap();
    fs::remove_file(&log).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let read: Vec<Value> = read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (way, name) in ["up", "down"].into_iter().enumerate() {
        let sent = |show: &Value| {
            let direction = &show["links"][0]["directions"][way];
            direction["sent"]["packets"].as_u64().unwrap() - direction["control"]["packets"].as_u64().unwrap()
        };
        let expected = sent(&before)..=sent(&after);
        for kind in ["sojourn", "total"] {
            let histograms = document["histograms"].as_array().unwrap();
            let found = histograms.iter().find(|of| of["direction"] == name && of["kind"] == kind).unwrap();
            let count = found["count"].as_u64().unwrap();
            assert!(expected.contains(&count), "{name} {kind}: {count} of {expected:?}");
            let link = found["link"].as_str().unwrap();
            let tag = format!("{link}.{name}.all.{kind}");
            let line = read.iter().find(|line| line["tag"] == tag.as_str()).unwrap();
            assert!(expected.contains(&line["count"].as_u64().unwrap()), "{line} of {expected:?}");
            assert_eq!(found["until"], "submission", "net_tap shows no completions: {found:#}");
        }
    }
    let refused = weir.tell(&["hist", &weir.name, "--tin", "Voice"]).unwrap_err();
    assert!(refused.contains("there is no such histogram"), "{refused}");
}

/// Ports that receive nothing.
pub const IDLE: &str = "[[link]]\nname = \"idle\"\na = \"net_null0,no-rx=1\"\nb = \"net_null1,no-rx=1\"\n";

/// `$1` the interface, `$2` its IPv6 address. What is on the way fits every queue, and no timer of TCP expires because
/// this machine was busy elsewhere: neither tail loss probe nor retransmission time-out.
pub const JUMBO: &str = r#"
    ip link set $1 mtu 65521
    ip address add $2/64 dev $1 nodad
    echo 0 >/proc/sys/net/ipv4/tcp_early_retrans
    echo 4096 262144 524288 >/proc/sys/net/ipv4/tcp_wmem
    for family in -4 -6; do
        ip $family route show dev $1 proto kernel | while read -r route; do
            ip $family route change $route dev $1 proto kernel rto_min 10s
        done
    done
"#;

pub fn taps(a: &str, b: &str, more: &str) -> String {
    format!("[[link]]\nname = \"e2e\"\na = \"net_tap0,iface={a}\"\nb = \"net_tap1,iface={b}\"\n{more}\n")
}

pub fn namespaces(a: &str, b: &str, interrupt: &Interrupt) -> (Netns, Netns) {
    let one = Netns::new(a, None, interrupt).unwrap();
    let two = Netns::new(b, None, interrupt).unwrap();
    one.take(a, "192.0.2.1/24").unwrap();
    two.take(b, "192.0.2.2/24").unwrap();
    (one, two)
}

/// Frames of every length from 60 to 1514 bytes, of all sorts, each different.
pub fn frame(number: u32) -> Vec<u8> {
    let len = 60 + (number as usize * 379) % 1455;
    let mut bytes: Vec<u8> = (0..len).map(|at| (at as u32).wrapping_mul(number + 7) as u8).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    let kind: [u8; 2] =
        [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x88, 0x64], [0x88, 0xb5]][number as usize % 5];
    bytes[12..14].copy_from_slice(&kind);
    bytes[16..20].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// A libpcap file, little endian, microseconds, Ethernet.
pub fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    fs::write(path, bytes).unwrap();
}

pub fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.get(24..).expect("a pcap header");
    let mut frames = Vec::new();
    while let Some((head, tail)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        frames.push(tail[..len].to_vec());
        rest = &tail[len..];
    }
    frames
}
