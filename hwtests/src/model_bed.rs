//! The model rig as a scenario sees it: two hosts, the child that is everything between them, and its record.

mod seen;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bed::ADDRESSES;
use crate::clock::{now, unix_seconds};
use crate::forwarder::{RuntimeFolder, poll_cpu};
use crate::iperf::{Beside, Host, Load, Received, Transfer};
use crate::irtt::{self, Irtt};
use crate::model::{Plan, Record, Spec};
use crate::netns::Netns;
use crate::ping::{Pinger, Sample, await_answer, lost};
use crate::process::{Process, Signal, command, typed};
use crate::scenario::Run;
use crate::sockets::{self, Socket};
use crate::traffic::{CONGESTION, IDLE, OMIT, SETTLE};

pub use seen::Seen;

/// A stream, or several of one kind: how many, and the window of each in bytes.
pub type Streams = (u32, Option<u32>);

/// Runs groups of streams through a plan, sparse flows and questions to the kernel beside them.
///
/// # Errors
/// A part that does not start, or ends too early.
pub fn load(run: &mut Run<'_>, plan: &Plan, groups: &[Streams]) -> Result<Seen> {
    let mut bed = ModelBed::new(run, plan)?;
    let ping = Pinger::start_as(&bed.hosts[0], ADDRESSES[1], 0, PING_INTERVAL, PING_ID)?;
    let irtt = bed.irtt(run)?;
    (run.say)("idle ping");
    run.interrupt.sleep(SETTLE)?;
    let idle_from = unix_seconds();
    run.interrupt.sleep(IDLE)?;
    let idle = idle_from..unix_seconds();
    let mut transfers = bed.transfers(run, groups)?;
    (run.say)("slow start");
    run.interrupt.sleep(Duration::from_secs(OMIT.into()))?;
    let sockets = bed.measure(run, groups)?;
    let mut received = Vec::new();
    for transfer in &mut transfers {
        received.push(finish(run, transfer)?);
    }
    let probes = irtt.map(Irtt::stop).transpose()?;
    let samples = ping.stop()?;
    let commands = bed.commands(run.seconds, groups);
    let record = bed.stop()?;
    let loaded = record.from..record.from + record.seconds;
    let within = |span: &Range<f64>| {
        let span = span.clone();
        let within = samples.iter().filter(move |sample: &&Sample| span.contains(&sample.sent()));
        within.map(|sample| (sample.sent() - record.from, sample.rtt_ms)).collect::<Vec<_>>()
    };
    let probes = probes.map(|probes| {
        let within =
            |span: &Range<f64>| probes.iter().copied().filter(|probe| span.contains(&probe.sent)).collect();
        [within(&idle), within(&loaded)]
    });
    let pings = within(&(idle.start..loaded.end));
    let idle = within(&idle).into_iter().map(|(_, rtt)| rtt).collect();
    let loaded = within(&loaded);
    Ok(Seen { idle, loaded, pings, lost: lost(&samples), probes, sockets, record, received, commands })
}

fn finish(run: &Run<'_>, transfer: &mut Transfer) -> Result<Received> {
    let end = now() + LATE;
    loop {
        if let Some(received) = transfer.result()? {
            return Ok(received);
        }
        ensure!(now() < end, "iperf3 did not end within {LATE:?} after its time");
        run.interrupt.sleep(Duration::from_millis(20))?;
    }
}

/// The binary that is the rig, beside this one.
///
/// # Errors
/// It is not there.
pub fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this binary")?;
    let program = own.with_file_name("hwtests");
    ensure!(program.is_file(), "no {}: build it (cargo build --release -p hwtests)", program.display());
    Ok(program)
}

/// Dropped in this order: the child that holds the taps goes first.
struct ModelBed {
    child: Process,
    hosts: [Netns; 2],
    record: PathBuf,
    /// Of irtt.
    probes: PathBuf,
    typed: String,
    _runtime: RuntimeFolder,
}

impl ModelBed {
    fn new(run: &mut Run<'_>, plan: &Plan) -> Result<Self> {
        (run.say)("starting");
        let folder = fs::canonicalize(run.folder).context("cannot find the run's folder")?;
        let file = |end: &str| folder.join(format!("{}{end}", run.case.name));
        let interfaces = ["ma", "mb"].map(|end| format!("{end}{}", std::process::id()));
        let cpu = poll_cpu();
        let spec =
            Spec { interfaces: interfaces.clone(), record: file(".record.json"), cpu, plan: plan.clone() };
        let _ = fs::remove_file(&spec.record);
        fs::write(file(".spec.json"), serde_json::to_string_pretty(&spec)?)?;
        let traffic = cpu.checked_sub(1).map(|last| format!("0-{last}"));
        let host = |name| Netns::new(name, traffic.as_deref(), run.interrupt);
        let hosts = [host("host a")?, host("host b")?];
        let mut child = command(program()?);
        child.arg("model").arg(file(".spec.json"));
        let runtime = RuntimeFolder::of(&format!("hwtests-rig-{}", std::process::id()));
        let typed = typed(&child);
        let mut child = Process::spawn("the model rig", &mut child, Some(&file(".log")))?;
        child.wait_for("ready", Duration::from_secs(30), run.interrupt)?;
        interfaces.iter().try_for_each(|interface| steer(interface, cpu))?;
        for ((host, interface), address) in hosts.iter().zip(&interfaces).zip(ADDRESSES) {
            host.take(interface, &format!("{address}/24"))?;
        }
        let probes = file(".irtt.json");
        let bed = Self { child, hosts, record: spec.record, probes, typed, _runtime: runtime };
        await_answer(&bed.hosts[0], ADDRESSES[1], "the model rig", run.interrupt)?;
        Ok(bed)
    }

    fn host(&self, end: usize) -> Host<'_> {
        Host { netns: &self.hosts[end], address: ADDRESSES[end] }
    }

    fn irtt(&self, run: &Run<'_>) -> Result<Option<Irtt>> {
        if irtt::missing().is_some() {
            return Ok(None);
        }
        // It ends when it is told to.
        let most = Duration::from_secs(u64::from(run.seconds) + 60);
        let ends = [self.host(0), self.host(1)];
        Irtt::start(ends, PING_INTERVAL, most, self.probes.clone(), run.interrupt).map(Some)
    }

    fn transfers(&self, run: &Run<'_>, groups: &[Streams]) -> Result<Vec<Transfer>> {
        let start = |(at, &(streams, window)): (usize, &Streams)| {
            let seconds = run.seconds + TAIL;
            let load = Load { streams, seconds, omit: OMIT, congestion: CONGESTION };
            let beside = Beside { port: FIRST_PORT + at as u16, first: first_of(at), window };
            Transfer::start_beside(self.host(0), self.host(1), load, beside, run.interrupt)
        };
        groups.iter().enumerate().map(start).collect()
    }

    /// The measured time: the child records, the kernel is asked.
    fn measure(
        &mut self,
        run: &mut Run<'_>,
        groups: &[Streams],
    ) -> Result<Vec<(f64, BTreeMap<u16, Socket>)>> {
        self.child.signal(Signal::USR1)?;
        let began = now();
        let ports = FIRST_PORT..FIRST_PORT + groups.len() as u16;
        let mut seen = Vec::new();
        for second in 0..=run.seconds {
            // Not to be late for the second mark, whatever the machine does.
            let end = began + Duration::from_secs(second.into());
            run.interrupt.sleep(end.saturating_duration_since(now()))?;
            if second == run.seconds {
                self.child.signal(Signal::USR1)?;
            } else {
                (run.say)(&format!("load, {} s to go", run.seconds - second));
            }
            let at = now().duration_since(began).as_secs_f64();
            let mut sockets = sockets::look(&self.hosts[0], ports.clone())?;
            sockets.retain(|port, _| *port >= FIRST_STREAM);
            seen.push((at, sockets));
        }
        Ok(seen)
    }

    fn commands(&self, seconds: u32, groups: &[Streams]) -> Vec<String> {
        let mut commands = vec![self.typed.clone()];
        commands.extend(groups.iter().enumerate().map(|(at, (streams, window))| {
            let window = window.map_or(String::new(), |bytes| format!(" --window {bytes}"));
            format!(
                "iperf3 --client PEER --port {} --cport {} --congestion {CONGESTION} --parallel {streams} \
                 --time {} --omit {OMIT}{window} --json",
                FIRST_PORT + at as u16,
                first_of(at),
                seconds + TAIL
            )
        }));
        commands.push(format!("ping -D -n -e {PING_ID} -i {:.3} PEER", PING_INTERVAL.as_secs_f64()));
        commands.push(irtt::typed(PING_INTERVAL));
        commands.push(sockets::TYPED.into());
        commands
    }

    fn stop(self) -> Result<Record> {
        let Self { child, record, .. } = self;
        // It ends by the signal's number, as all that are interrupted do.
        let (_, lines) = child.stop(Signal::INT, Duration::from_secs(10))?;
        let text = fs::read_to_string(&record)
            .with_context(|| format!("the model rig left no record: {}", lines.join("\n  ")))?;
        serde_json::from_str(&text).context("the record is no JSON")
    }
}

/// What the kernel does with frames that it is handed through `interface` is done on other CPUs than `cpu` (receive packet
/// steering): else the thread that hands them over would run the TCP of both hosts. With one CPU there is no other.
fn steer(interface: &str, cpu: usize) -> Result<()> {
    if cpu == 0 {
        return Ok(());
    }
    let path = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
    fs::write(&path, mask_below(cpu)).with_context(|| format!("cannot steer packets: no {path}"))
}

/// CPUs 0 to `cpu` - 1 as the kernel reads them: words of 32 bits, the highest first.
fn mask_below(cpu: usize) -> String {
    let word = |at: usize| match cpu.saturating_sub(at * 32) {
        bits @ 0..32 => (1_u32 << bits) - 1,
        _ => u32::MAX,
    };
    let words: Vec<_> = (0..cpu.div_ceil(32)).rev().map(|at| format!("{:08x}", word(at))).collect();
    words.join(",")
}

/// Port of the first stream of a group at the sender.
const fn first_of(group: usize) -> u16 {
    FIRST_STREAM + 100 * group as u16
}

/// iperf3's servers, one for each group.
const FIRST_PORT: u16 = 5201;
/// Known ports and a known hash put flows into known queues: each into its own, which a test sees to. Two streams of
/// eight in one queue of 1024, as happens to one run in 37, would be 1:2 by rights.
const FIRST_STREAM: u16 = 62_001;
const PING_ID: u16 = 4_711;
const PING_INTERVAL: Duration = Duration::from_millis(10);
/// Seconds that the load outlasts the measured time, so that no group ends within it, whichever began first.
const TAIL: u32 = 1;
/// A full ring and a few retransmissions of iperf3's own control connection.
const LATE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::hasher;
    use shaper::flow::key::{Family, FlowKey, Kind};
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    #[test]
    fn every_flow_of_a_run_has_a_queue_of_its_own() {
        let address = |end: usize| u128::from(u32::from(ADDRESSES[end].parse::<Ipv4Addr>().unwrap()));
        let plain =
            FlowKey { source: address(0), destination: address(1), family: Family::V4, ..FlowKey::EMPTY };
        let ports = |protocol, source_port, destination_port| FlowKey {
            protocol,
            source_port,
            destination_port,
            kind: Kind::Ports,
            ..plain
        };
        let (icmp, tcp, udp) = (1, 6, 17);
        let ping = FlowKey { protocol: icmp, id: PING_ID.into(), kind: Kind::IcmpId, ..plain };
        let mut flows = vec![ping, ports(udp, irtt::PORT, irtt::PORT)];
        for group in 0..2 {
            let bulk = |stream| ports(tcp, first_of(group) + stream, FIRST_PORT + group as u16);
            flows.extend((0..8).map(bulk));
        }
        // fq_codel: the hash scaled to its 1024 queues; cake: the remainder.
        let queues: [BTreeSet<u32>; 2] = [
            flows.iter().map(|flow| ((u64::from(hasher().flow(flow)) * 1_024) >> 32) as u32).collect(),
            flows.iter().map(|flow| hasher().flow(flow) % 1_024).collect(),
        ];
        assert_eq!(queues.map(|queues| queues.len()), [flows.len(); 2]);
    }

    #[test]
    fn cpus_are_masked_in_words() {
        assert_eq!(
            [1, 2, 31, 32, 33].map(mask_below),
            ["00000001", "00000003", "7fffffff", "ffffffff", "00000001,ffffffff"]
        );
    }
}
