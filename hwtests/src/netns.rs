//! A network namespace that lives exactly as long as a process that sits in it.
//!
//! No name under /run/netns: an anonymous namespace goes, with all interfaces in it, when its last process ends,
//! even when this program is killed. `nsenter --net=/proc/PID/ns/net` gets in from outside.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::clock::Interrupt;
use crate::process::{Process, command, run};

/// Owns a namespace through the process that holds it open.
#[derive(Debug)]
pub struct Netns {
    holder: Process,
    cpus: Option<String>,
}

/// Bytes that an interface received and sent, as its kernel counts them: frames with Ethernet header, without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceBytes {
    /// Received by the kernel.
    pub received: u64,
    /// Sent by the kernel.
    pub sent: u64,
}

impl Netns {
    /// Makes a namespace whose loopback is up; commands inside run on `cpus` (a list as `taskset -c` takes it).
    pub fn new(name: &str, cpus: Option<&str>, interrupt: &Interrupt) -> Result<Self> {
        let mut unshare = command("unshare");
        unshare.args(["--net", "sh", "-c", "ip link set lo up && echo entered && exec sleep infinity"]);
        let mut holder = Process::spawn(name, &mut unshare, None)?;
        holder.wait_for("entered", Duration::from_secs(10), interrupt)?;
        Ok(Self { holder, cpus: cpus.map(str::to_owned) })
    }

    /// The process that holds the namespace, to name it by.
    pub fn pid(&self) -> u32 {
        self.holder.pid()
    }

    /// A command that runs inside; start it with [`Process::spawn`].
    pub fn command(&self, program: &str) -> Command {
        let mut inside = command("nsenter");
        inside.arg(format!("--net=/proc/{}/ns/net", self.holder.pid()));
        if let Some(cpus) = &self.cpus {
            inside.args(["taskset", "--cpu-list", cpus]);
        }
        inside.arg(program);
        inside
    }

    /// Like [`Self::command`], but free to choose its CPUs.
    pub fn command_anywhere(&self, program: impl AsRef<OsStr>) -> Command {
        let mut inside = command("nsenter");
        inside.arg(format!("--net=/proc/{}/ns/net", self.holder.pid())).arg(program);
        inside
    }

    /// Moves an interface in from the namespace of this process, gives it `address` (with prefix length), sets it up.
    pub fn take(&self, interface: &str, address: &str) -> Result<()> {
        run(Command::new("ip").args(["link", "set", interface, "netns", &self.pid().to_string()]))?;
        self.set_up(interface, address)
    }

    /// Gives an interface that is inside `address` (with prefix length) and sets it up.
    pub fn set_up(&self, interface: &str, address: &str) -> Result<()> {
        self.add_address(interface, address)?;
        run(self.command("ip").args(["link", "set", interface, "up"]))?;
        Ok(())
    }

    /// Gives an interface that is inside one more `address` (with prefix length).
    pub fn add_address(&self, interface: &str, address: &str) -> Result<()> {
        run(self.command("ip").args(["address", "add", address, "dev", interface])).map(drop)
    }

    /// Byte counters of an interface inside.
    pub fn bytes(&self, interface: &str) -> Result<InterfaceBytes> {
        let path = format!("/proc/{}/net/dev", self.holder.pid());
        let table = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        parse_bytes(&table, interface).with_context(|| format!("no interface {interface} in {path}"))
    }
}

fn parse_bytes(table: &str, interface: &str) -> Option<InterfaceBytes> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let mut numbers = line.split_whitespace();
    Some(InterfaceBytes { received: numbers.next()?.parse().ok()?, sent: numbers.nth(7)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_those_of_the_named_interface() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
            \x20   lo:       5       1    0    0    0     0          0         0        6       0    0    0    0     0       0          0\n\
            wa12345: 172334742  164954    0    0    0     0          0         0 158676680  160297    0    0    0     0       0          0\n";
        let bytes = InterfaceBytes { received: 172_334_742, sent: 158_676_680 };
        assert_eq!(parse_bytes(table, "wa12345"), Some(bytes));
        assert_eq!(parse_bytes(table, "wa1234"), None);
        assert_eq!(parse_bytes(table, "lo"), Some(InterfaceBytes { received: 5, sent: 6 }));
    }
}
