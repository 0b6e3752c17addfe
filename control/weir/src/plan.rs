//! From the configuration to what the engine builds and what the EAL is started with.

use config::model::{self, Config};
use dpdk::{EalConfig, LogLevel};
use engine::plan::{DirectionPlan, LinkPlan, Plan, PortPlan};
use engine::worker::Poll;

/// The engine's plan. `secret` keys the flow hash.
pub fn plan(config: &Config, secret: [u8; 16]) -> Plan {
    let poll = match config.engine.poll {
        model::Poll::Busy => Poll::Busy,
        model::Poll::Adaptive => Poll::Adaptive,
    };
    Plan { links: config.links.iter().map(link).collect(), poll, secret }
}

/// What the EAL is started with, and why where weir chose.
#[derive(Debug)]
pub struct Environment {
    /// Arguments in order: weir's own, then the file's.
    pub args: Vec<String>,
    /// Memory that packets need, in bytes.
    pub packet_memory: u64,
    /// Lcores, the main one included.
    pub lcores: u32,
    /// Whether packet memory is to lie in hugepages.
    pub hugepages: bool,
}

/// Chooses the EAL's arguments: those of the file, and where it leaves a choice what works with
/// nothing but root. Without reserved hugepages that is ordinary memory, as much as the pools need.
pub fn environment(config: &Config, machine: &Machine) -> Environment {
    let given =
        |name: &str| config.eal.args.iter().any(|arg| arg == name || arg.starts_with(&format!("{name}=")));
    let (cores, lcores) = cores(config, machine);
    let mut args = vec!["--lcores".to_owned(), cores];
    let no_huge = given("--no-huge");
    if !no_huge && machine.free_hugepages == 0 && !given("--in-memory") && !given("--huge-dir") {
        args.push("--no-huge".to_owned());
    }
    let ordinary = no_huge || args.iter().any(|arg| arg == "--no-huge");
    let packet_memory = packet_memory(config, lcores, !ordinary);
    if ordinary {
        args.push("--no-shconf".to_owned());
        if !given("-m") && !given("--socket-mem") && !given("--numa-mem") {
            let mebibytes = (packet_memory + OWN_MEMORY).div_ceil(1 << 20);
            args.extend(["-m".to_owned(), mebibytes.to_string()]);
        }
    } else if !given("--huge-unlink") && !given("--in-memory") {
        args.push("--huge-unlink".to_owned());
    }
    let pci = config.links.iter().any(|link| !link.a.device.is_vdev() || !link.b.device.is_vdev());
    if !pci && !given("--no-pci") {
        args.push("--no-pci".to_owned());
    }
    args.extend(config.eal.args.iter().cloned());
    Environment { args, packet_memory, lcores, hugepages: !ordinary }
}

/// What the machine offers, as far as defaults depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// CPUs this process may use.
    pub cpus: Vec<u32>,
    /// CPUs that are online.
    pub online: Vec<u32>,
    /// Hugepages of the default size that are reserved and free.
    pub free_hugepages: u64,
    /// Free hugepages of all sizes, in bytes.
    pub hugepage_memory: u64,
    /// Ordinary memory that can be had without swapping, in bytes.
    pub memory: u64,
}

impl Machine {
    /// Looks at this machine.
    pub fn look() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let value = |name: &str| -> Option<u64> {
            let line = meminfo.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        let cpus: Vec<_> = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).map_or_else(
            |_| vec![0],
            |set| {
                (0..nix::sched::CpuSet::count())
                    .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
                    .map(|cpu| cpu as u32)
                    .collect()
            },
        );
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let online = online.and_then(|list| cpu_list(&list)).unwrap_or_else(|| cpus.clone());
        Self {
            cpus,
            online,
            free_hugepages: value("HugePages_Free:").unwrap_or(0),
            hugepage_memory: hugepage_memory(),
            memory: value("MemAvailable:").map_or(u64::MAX, |kibibytes| kibibytes << 10),
        }
    }
}

/// What is wrong with the CPUs that the file names, on this machine.
pub fn missing_cpus(config: &Config, machine: &Machine) -> Option<String> {
    let lcores = config.eal.lcores.as_ref()?;
    let named =
        std::iter::once(("main", lcores.main)).chain(lcores.workers.iter().map(|cpu| ("workers", *cpu)));
    let mut missing = named.filter(|(_, cpu)| !machine.online.contains(cpu)).peekable();
    missing.peek()?;
    let missing: Vec<_> = missing.map(|(key, cpu)| format!("{key} names CPU {cpu}")).collect();
    let online: Vec<_> = machine.online.iter().map(u32::to_string).collect();
    Some(format!(
        "[eal] lcores: {}, and this machine has the CPUs {}\n  \
         help: name CPUs of these, or leave lcores out: weir chooses some then",
        missing.join(", "),
        online.join(", ")
    ))
}

/// What is to be said if packets need more memory than is free on this machine.
pub fn too_much_memory(environment: &Environment, machine: &Machine) -> Option<String> {
    let (free, kind, more) = match environment.hugepages {
        true => {
            (machine.hugepage_memory, "hugepages", "reserve more hugepages (dpdk-hugepages.py --setup 4G)")
        }
        false => (machine.memory, "memory", "give the machine more memory"),
    };
    let need = environment.packet_memory + OWN_MEMORY;
    (need > free).then(|| {
        format!(
            "packets need {} MiB, and {} MiB of {kind} are free on this machine\n  \
             help: lower limit, memory_limit or memlimit of the directions or the rings of the ports \
             (weir check prints the sum term by term), or {more}",
            need.div_ceil(1 << 20),
            free >> 20
        )
    })
}

impl Environment {
    /// The EAL's configuration for the instance `name`.
    pub fn eal(&self, name: &str, verbose: bool) -> EalConfig {
        let mut eal = EalConfig::new(format!("weir-{name}"));
        if verbose {
            eal.log_level = LogLevel::Info;
        }
        self.args.iter().fold(eal, |eal, arg| eal.arg(arg))
    }
}

/// The value of `--lcores` and the number of lcores. Unless the file says otherwise the control
/// thread may run anywhere, and the workers are the last CPUs, one for each link but never the
/// first CPU, where interrupts are usually served, unless it is the only one.
fn cores(config: &Config, machine: &Machine) -> (String, u32) {
    if let Some(lcores) = &config.eal.lcores {
        return (lcores.eal_argument(), 1 + lcores.workers.len() as u32);
    }
    let spare = machine.cpus.len().saturating_sub(1).max(1);
    let workers = config.links.len().clamp(1, spare);
    let all: Vec<_> = machine.cpus.iter().map(u32::to_string).collect();
    let mut value = format!("0@({})", all.join(","));
    for (lcore, cpu) in machine.cpus.iter().rev().take(workers).enumerate() {
        value.push_str(&format!(",{}@{cpu}", lcore + 1));
    }
    (value, 1 + workers as u32)
}

/// A list of CPUs as the kernel writes it: `0-3,8`.
fn cpu_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// The free hugepages of every size, in bytes.
fn hugepage_memory() -> u64 {
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    sizes
        .filter_map(|size| {
            let name = size.file_name().into_string().ok()?;
            let kibibytes: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let free = std::fs::read_to_string(size.path().join("free_hugepages")).ok()?;
            Some((kibibytes << 10) * free.trim().parse::<u64>().ok()?)
        })
        .sum()
}

fn packet_memory(config: &Config, lcores: u32, hugepages: bool) -> u64 {
    config.links.iter().map(link).flat_map(|link| link.pools(lcores)).map(|sum| sum.bytes(hugepages)).sum()
}

fn link(link: &model::Link) -> LinkPlan {
    LinkPlan {
        name: link.name.clone(),
        a: port(&link.a),
        b: port(&link.b),
        up: link.up.as_ref().map(direction),
        down: link.down.as_ref().map(direction),
        link_down_hold: link.link_down_hold,
        propagate_link: link.propagate_link,
    }
}

fn port(port: &model::Port) -> PortPlan {
    PortPlan { devargs: port.device.devargs(), mtu: port.mtu, rx_ring: port.rx_ring, tx_ring: port.tx_ring }
}

fn direction(direction: &model::Direction) -> DirectionPlan {
    DirectionPlan {
        qdisc: direction.qdisc,
        bandwidth: direction.bandwidth,
        overhead: direction.overhead,
        catch_up: direction.catch_up,
        rules: direction.rules.clone(),
    }
}

/// What the EAL and the drivers take beside packets: rings, queues, devices' own pools.
const OWN_MEMORY: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        config::parse("test.toml", text).unwrap().config
    }

    fn machine(cpus: &[u32], free_hugepages: u64) -> Machine {
        Machine {
            cpus: cpus.to_vec(),
            online: cpus.to_vec(),
            free_hugepages,
            hugepage_memory: free_hugepages << 21,
            memory: 1 << 30,
        }
    }

    const LINK: &str = "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = \"net_null1\"\n";

    #[test]
    fn without_hugepages_ordinary_memory_is_taken_as_much_as_is_needed() {
        let environment = environment(&config(LINK), &machine(&[0, 1], 0));
        let text = environment.args.join(" ");
        assert!(text.starts_with("--lcores 0@(0,1),1@1 --no-huge --no-shconf -m "), "{text}");
        let mebibytes: u64 = environment.args[5].parse().unwrap();
        assert_eq!(mebibytes, (environment.packet_memory + OWN_MEMORY).div_ceil(1 << 20));
        assert!(text.ends_with("--no-pci"), "{text}");
    }

    #[test]
    fn hugepages_are_used_where_there_are_some() {
        let environment = environment(&config(LINK), &machine(&[0, 1], 512));
        assert_eq!(environment.args.join(" "), "--lcores 0@(0,1),1@1 --huge-unlink --no-pci");
    }

    #[test]
    fn the_file_has_the_last_word() {
        let text = format!("[eal]\nargs = [\"--no-huge\", \"-m\", \"100\"]\n{LINK}");
        let environment = environment(&config(&text), &machine(&[3], 512));
        let args = "--lcores 0@(3),1@3 --no-shconf --no-pci --no-huge -m 100";
        assert_eq!(environment.args.join(" "), args);
    }

    #[test]
    fn each_link_gets_a_worker_while_cpus_last() {
        let two = format!(
            "{LINK}{}",
            LINK.replace("\"x\"", "\"y\"").replace("null0", "null2").replace("null1", "null3")
        );
        let lcores = |cpus: &[u32]| environment(&config(&two), &machine(cpus, 0)).args[1].clone();
        assert_eq!(lcores(&[0, 1]), "0@(0,1),1@1");
        assert_eq!(lcores(&[0, 1, 2, 3]), "0@(0,1,2,3),1@3,2@2");
    }

    #[test]
    fn cpus_that_are_not_there_are_named_with_those_that_are() {
        let text = format!("[eal]\nlcores = {{ main = 0, workers = [1, 9] }}\n{LINK}");
        let config = config(&text);
        let said = missing_cpus(&config, &machine(&[0, 1, 2], 0)).unwrap();
        assert!(said.contains("workers names CPU 9, and this machine has the CPUs 0, 1, 2\n"), "{said}");
        let said = missing_cpus(&config, &machine(&[1, 9], 0)).unwrap();
        assert!(said.contains("main names CPU 0, and"), "{said}");
        assert_eq!(missing_cpus(&config, &machine(&[0, 1, 9], 0)), None);
        assert_eq!(missing_cpus(&self::config(LINK), &machine(&[3], 0)), None);
        assert_eq!(cpu_list("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(cpu_list("\n"), None);
    }

    #[test]
    fn memory_is_spoken_of_when_there_is_not_enough() {
        let much = format!("{LINK}up = {{ limit = 4194304, memory_limit = \"2GiB\" }}\n");
        let said =
            |text: &str, machine: Machine| too_much_memory(&environment(&config(text), &machine), &machine);
        assert_eq!(said(LINK, machine(&[0, 1], 0)), None);
        assert_eq!(said(&much, Machine { memory: 64 << 30, ..machine(&[0, 1], 0) }), None);
        let ordinary = said(&much, machine(&[0, 1], 0)).unwrap();
        assert!(ordinary.contains("1024 MiB of memory are free") && ordinary.contains("limit"), "{ordinary}");
        let huge = said(&much, machine(&[0, 1], 10)).unwrap();
        assert!(huge.contains("20 MiB of hugepages are free"), "{huge}");
    }
}
