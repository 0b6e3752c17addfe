//! A small house behind weir: downloads, an upload in Bulk, a call in Voice, and a change of the bandwidth.
//!
//! Two instances stand in a row, so that the one that is shown sends into a ring whose completions can be seen: the
//! other one is only the wire from that ring (virtio_user to vhost) to the second tap.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use anyhow::{Context, Result};
use hwtests::clock::Interrupt;
use hwtests::iperf::{Host, Load, Transfer};
use hwtests::netns::Netns;
use hwtests::ping::{Pinger, await_answer};
use hwtests::process::{Process, command, run};

/// Both instances and the namespaces at their ends. Dropped in this order.
pub(crate) struct Bed {
    near: Process,
    _far: Process,
    ends: [Netns; 2],
    weir: PathBuf,
    name: String,
    port: u16,
    folder: PathBuf,
}

/// What is under way; ends when dropped.
pub(crate) struct Traffic {
    _transfers: Vec<Transfer>,
    _more: Vec<Process>,
    _call: Pinger,
}

impl Bed {
    /// Starts all of it and waits until packets pass.
    ///
    /// # Errors
    /// A program that is not there, or does not start.
    pub(crate) fn new(weir: &Path, interrupt: &Interrupt) -> Result<Self> {
        let id = process::id();
        let folder = std::env::temp_dir().join(format!("weir-screenshots-{id}"));
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (taps, socket) = (["sa", "sb"].map(|end| format!("{end}{id}")), folder.join("wire.sock"));
        let start = |name: &str, config: &str| -> Result<Process> {
            let config = config
                .replace("TAP_A", &taps[0])
                .replace("TAP_B", &taps[1])
                .replace("SOCKET", &socket.display().to_string())
                .replace("PORT", &port.to_string());
            let file = folder.join(format!("{name}.toml"));
            fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
            let mut start = command(weir);
            start.arg("run").arg(&file).args(["--name", &format!("{name}-{id}")]);
            let mut process = Process::spawn(name, &mut start, Some(&folder.join(format!("{name}.log"))))?;
            process.wait_for("ready", Duration::from_secs(30), interrupt)?;
            Ok(process)
        };
        let far = start("wire", WIRE)?;
        let near = start("home", HOME)?;
        let ends = [Netns::new("house", None, interrupt)?, Netns::new("world", None, interrupt)?];
        for (end, (tap, address)) in ends.iter().zip(taps.iter().zip([HOUSE, WORLD])) {
            end.take(tap, &format!("{address}/24"))?;
        }
        await_answer(&ends[0], WORLD, "weir", interrupt)?;
        let (weir, name) = (weir.to_owned(), format!("home-{id}"));
        Ok(Self { near, _far: far, ends, weir, name, port, folder })
    }

    /// Where the page is.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// For what belongs to this run alone.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Four downloads and a call at once.
    ///
    /// # Errors
    /// iperf3 or ping does not start.
    pub(crate) fn downloads(&self, seconds: u32, interrupt: &Interrupt) -> Result<Traffic> {
        let load = Load { streams: 4, seconds, omit: 0, congestion: "cubic" };
        let [house, world] =
            [(0, HOUSE), (1, WORLD)].map(|(end, address)| Host { netns: &self.ends[end], address });
        let transfers = vec![Transfer::start(world, house, load, interrupt)?];
        let call = Pinger::start(&self.ends[0], WORLD, EF, Duration::from_millis(20))?;
        Ok(Traffic { _transfers: transfers, _more: Vec::new(), _call: call })
    }

    /// Two uploads of a backup in Bulk (DSCP CS1) beside them.
    ///
    /// # Errors
    /// iperf3 does not start.
    pub(crate) fn backup(&self, traffic: &mut Traffic, seconds: u32, interrupt: &Interrupt) -> Result<()> {
        let mut server = self.ends[1].command("iperf3");
        let mut server =
            Process::spawn("iperf3 server", server.args(["-s", "-1", "-p", "5300", "--forceflush"]), None)?;
        server.wait_for("listening", Duration::from_secs(10), interrupt)?;
        let mut client = self.ends[0].command("iperf3");
        client.args(["-c", WORLD, "-p", "5300", "-P", "2", "--dscp", "cs1", "-t", &seconds.to_string()]);
        traffic._more.extend([server, Process::spawn("iperf3 client", &mut client, None)?]);
        Ok(())
    }

    /// Has `weir top` draw what a terminal shows.
    ///
    /// # Errors
    /// weir does not answer, or the file cannot be written.
    pub(crate) fn top(&self, picture: &Path) -> Result<()> {
        let once = ["top", &self.name, "--once", "--size", "96x30", "--svg"];
        run(Command::new(&self.weir).args(once).arg(picture)).map(drop)
    }

    /// `weir set`, as an operator would.
    ///
    /// # Errors
    /// It was refused.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<()> {
        run(Command::new(&self.weir).args(["set", key, value, "--name", &self.name])).map(drop)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = self.near.signal(hwtests::process::Signal::TERM);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What is shown: a line of 20 and 95 Mbit/s.
const HOME: &str = r#"
[eal]
args = ["--no-huge", "-m", "512", "--no-pci"]

[api]
listen = "127.0.0.1:PORT"

[[link]]
name = "home"
a = "net_tap0,iface=TAP_A"
b = "net_virtio_user0,path=SOCKET,queue_size=256"
up = { qdisc = "cake", diffserv = "diffserv4", bandwidth = "20Mbit" }
down = { qdisc = "cake", diffserv = "diffserv4", bandwidth = "95Mbit" }
"#;

/// The wire behind it: shapes nothing.
const WIRE: &str = r#"
[eal]
args = ["--no-huge", "-m", "512", "--no-pci"]

[[link]]
name = "wire"
a = "net_vhost0,iface=SOCKET,queues=1"
b = "net_tap0,iface=TAP_B"
up = { qdisc = "fifo" }
down = { qdisc = "fifo" }
"#;

/// TEST-NET-1 (RFC 5737); exists inside the namespaces only.
const HOUSE: &str = "192.0.2.1";
const WORLD: &str = "192.0.2.2";
/// DS field of DSCP 46 (EF, RFC 3246).
const EF: u8 = 46 << 2;
