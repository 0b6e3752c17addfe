//! The kernel's side of a rig: two namespaces, and weir (or the bare wire) between them.

use std::process::{self, Command};

use anyhow::{Context, Result, bail, ensure};

use crate::forwarder::{Forwarder, Program, Setup, poll_cpu, tap};
use crate::iperf::Host;
use crate::netns::{InterfaceBytes, Netns};
use crate::ping::await_answer;
use crate::process::run as run_command;
use crate::record::PortRecord;
use crate::rig::pci::{Bus, Lent, Taken};
use crate::rig::{Kind, VethDriver};
use crate::scenario::{Run, With};

/// Two hosts with weir between them. What is dropped goes in the order of the fields: traffic has ended by then.
#[derive(Debug)]
pub struct Bed {
    /// What forwards.
    pub forwarder: Forwarder,
    /// Where it runs, if not beside this process.
    _home: Option<Netns>,
    _pci: Option<(Taken, Lent)>,
    hosts: [Netns; 2],
    interfaces: [String; 2],
}

/// How weir is given its two ports.
struct Wiring {
    ports: [String; 2],
    interfaces: [String; 2],
    home: Option<Netns>,
    pci: Option<(Taken, Lent)>,
}

impl Bed {
    /// Builds it for a run; `link` holds more keys of weir's link. Returns once packets pass.
    pub fn new(run: &mut Run<'_>, link: &str) -> Result<Self> {
        (run.say)("starting");
        let poll_cpu = poll_cpu();
        // Traffic shares what the poll loop leaves.
        let traffic = poll_cpu.checked_sub(1).map(|last| format!("0-{last}"));
        let host = |name| Netns::new(name, traffic.as_deref(), run.interrupt);
        let hosts = [host("host a")?, host("host b")?];
        let Wiring { ports, interfaces, home, pci } = wire(run, &hosts)?;
        let (program, directions) = match &run.case.with {
            With::Weir { up, down } => (Program::Weir(run.weir.to_owned()), [up.as_str(), down]),
            With::Testpmd => (Program::Testpmd, [""; 2]),
            other => bail!("{} runs elsewhere", other.settings()),
        };
        // weir sees a tap's link only from within the same namespace: it runs at b's end.
        let inside = if run.rig.kind == Kind::Tap { Some(&hosts[1]) } else { home.as_ref() };
        let setup = Setup {
            ports: [&ports[0], &ports[1]],
            directions,
            link,
            poll_cpu,
            folder: run.folder,
            name: run.case.name,
            inside,
        };
        let forwarder = Forwarder::start(&program, &setup, run.interrupt)?;
        for (at, (host, interface)) in hosts.iter().zip(&interfaces).enumerate() {
            if at == 0 && matches!(run.rig.kind, Kind::Tap | Kind::Pci) {
                from(inside, interface, host)?;
            }
            host.set_up(interface, &format!("{}/24", ADDRESSES[at]))?;
        }
        let bed = Self { forwarder, _home: home, _pci: pci, hosts, interfaces };
        await_answer(&bed.hosts[0], ADDRESSES[1], "the forwarder", run.interrupt)?;
        run.ports = bed.forwarder.ports()?;
        if run.rig.kind == Kind::Pci {
            run.ports.push(PortRecord::of_kernel(&bed.hosts[1], bed.interface(1))?);
        }
        Ok(bed)
    }

    /// The host at an end, 0 for a and 1 for b, with its address.
    pub fn host(&self, end: usize) -> Host<'_> {
        Host { netns: &self.hosts[end], address: ADDRESSES[end] }
    }

    /// Its interface.
    pub fn interface(&self, end: usize) -> &str {
        &self.interfaces[end]
    }

    /// Bytes that each end has had from its interface.
    pub fn bytes(&self) -> Result<[InterfaceBytes; 2]> {
        Ok([self.hosts[0].bytes(&self.interfaces[0])?, self.hosts[1].bytes(&self.interfaces[1])?])
    }
}

fn wire(run: &Run<'_>, hosts: &[Netns; 2]) -> Result<Wiring> {
    let own = |end: &str| format!("{end}{}", process::id());
    match run.rig.kind {
        Kind::Tap => {
            let interfaces = [own("wa"), own("wb")];
            let ports = [tap(0, &interfaces[0]), tap(1, &interfaces[1])];
            Ok(Wiring { ports, interfaces, home: None, pci: None })
        }
        Kind::Veth => {
            let home = Netns::new("weir's end", None, run.interrupt)?;
            let interfaces = [own("va"), own("vb")];
            for (host, inner) in hosts.iter().zip(&interfaces) {
                veth(&home, host, inner)?;
            }
            let driver = match run.rig.veth_driver {
                Some(VethDriver::AfXdp) => "net_af_xdp",
                _ => "net_af_packet",
            };
            let port = |end: usize| format!("{driver}{end},iface=x{}", interfaces[end]);
            Ok(Wiring { ports: [port(0), port(1)], interfaces, home: Some(home), pci: None })
        }
        Kind::Pci => pci(run, hosts, own("wa")),
        kind => bail!("a {kind} rig has no two hosts"),
    }
}

/// A veth pair from `home` (end `x…`) to a host, every offload off: weir's end hands over what it gets as it is.
fn veth(home: &Netns, host: &Netns, inner: &str) -> Result<()> {
    let outer = format!("x{inner}");
    let host_pid = host.pid().to_string();
    let ip = |args: &[&str]| run_command(home.command("ip").args(args));
    ip(&["link", "add", &outer, "type", "veth", "peer", "name", inner, "netns", &host_pid])?;
    ip(&["link", "set", &outer, "up"])?;
    for (netns, interface) in [(home, outer.as_str()), (host, inner)] {
        let off = "tx off tso off gso off gro off";
        run_command(netns.command("ethtool").args(["-K", interface]).args(off.split(' ')))?;
    }
    Ok(())
}

fn pci(run: &Run<'_>, hosts: &[Netns; 2], host_side: String) -> Result<Wiring> {
    let ports = run.rig.pci.clone().unwrap_or_default();
    let (port, peer) = (ports.port.context("no port named")?, ports.peer.context("no peer named")?);
    let bus = Bus::system();
    bus.check_free(&port, run.allowed_ports)?;
    bus.check_free(&peer, run.allowed_ports)?;
    let interfaces = bus.interfaces(&peer);
    ensure!(interfaces.len() == 1, "peer {peer} has the interfaces {interfaces:?}: exactly one is needed");
    let taken = bus.take(&port, &ports.bind, run.interrupt)?;
    let lent = Lent::to(&interfaces[0], hosts[1].pid())?;
    let interfaces = [host_side.clone(), interfaces[0].clone()];
    Ok(Wiring { ports: [tap(0, &host_side), port], interfaces, home: None, pci: Some((taken, lent)) })
}

/// Moves an interface into a host.
fn from(home: Option<&Netns>, interface: &str, host: &Netns) -> Result<()> {
    let mut ip = home.map_or_else(|| Command::new("ip"), |home| home.command("ip"));
    run_command(ip.args(["link", "set", interface, "netns", &host.pid().to_string()])).map(drop)
}

/// TEST-NET-1 (RFC 5737); exist inside the namespaces only.
pub(crate) const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
