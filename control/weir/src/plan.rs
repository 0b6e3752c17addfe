//! From the configuration to what the engine builds and what the EAL is started with.

use config::model::{self, Config};
use dpdk::{EalConfig, LogLevel};
use engine::plan::{CompleteOn, DirectionPlan, GovernorPlan, LinkPlan, Plan, PortPlan, Toggle};
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
/// nothing but root: hugepages if enough of them are reserved and free, else ordinary memory, as much
/// as the pools need.
pub fn environment(config: &Config, machine: &Machine) -> Environment {
    let given =
        |name: &str| config.eal.args.iter().any(|arg| arg == name || arg.starts_with(&format!("{name}=")));
    let (cores, lcores) = cores(config, machine);
    let mut args = vec!["--lcores".to_owned(), cores];
    let own_choice = ["--no-huge", "--in-memory", "--huge-dir", "--huge-unlink"].into_iter().any(given);
    let enough = machine.free_hugepages >= packet_memory(config, lcores, true) + OWN_MEMORY;
    let ordinary = given("--no-huge") || !own_choice && !enough;
    let packet_memory = packet_memory(config, lcores, !ordinary);
    if !own_choice {
        // In hugepages without files: nothing to mount before, nothing left after.
        let memory: &[&str] =
            if ordinary { &["--no-huge"] } else { &["--in-memory", "--single-file-segments"] };
        args.extend(memory.iter().map(|arg| (*arg).to_owned()));
    }
    if ordinary {
        args.push("--no-shconf".to_owned());
        if !given("-m") && !given("--socket-mem") && !given("--numa-mem") {
            let mebibytes = (packet_memory + OWN_MEMORY).div_ceil(1 << 20);
            args.extend(["-m".to_owned(), mebibytes.to_string()]);
        }
    }
    let mut devices = config.links.iter().flat_map(|link| [&link.a.device, &link.b.device]);
    // Without a list the EAL would take every device that is bound to a driver of its own, whoever uses it.
    args.extend(devices.clone().filter(|d| !d.is_vdev()).flat_map(|d| ["-a".to_owned(), d.devargs()]));
    if devices.all(config::device::Device::is_vdev) && !given("--no-pci") {
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
    /// Bytes of hugepages that are reserved and free, of the default size.
    pub free_hugepages: u64,
    /// Bytes of ordinary memory that can be had without swapping.
    pub memory: u64,
}

impl Machine {
    /// Looks at this machine.
    pub fn look() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let value = |name: &str| -> Option<u64> {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let huge = value("HugePages_Free:").zip(value("Hugepagesize:"));
        let cpus = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).map(|set| {
            (0..nix::sched::CpuSet::count())
                .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
                .map(|cpu| cpu as u32)
                .collect()
        });
        let cpus: Vec<_> = cpus.unwrap_or_else(|_| vec![0]);
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        Self {
            online: online.and_then(|list| cpu_list(&list)).unwrap_or_else(|| cpus.clone()),
            cpus,
            free_hugepages: huge.map_or(0, |(pages, kibibytes)| (pages * kibibytes) << 10),
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

/// What is to be said if packets are to lie in more ordinary memory than is free on this machine. (Without
/// enough hugepages a start fails at once, and says so.)
pub fn too_much_memory(environment: &Environment, machine: &Machine) -> Option<String> {
    let need = environment.packet_memory + OWN_MEMORY;
    (!environment.hugepages && need > machine.memory).then(|| {
        format!(
            "packets need {} MiB, and {} MiB of memory are free on this machine\n  \
             help: lower limit, memory_limit or memlimit of the directions, or the rings of the ports \
             (weir check prints the sum term by term)",
            need.div_ceil(1 << 20),
            machine.memory >> 20
        )
    })
}

/// What is to be said if the file's own `-m` leaves packets less ordinary memory than they need: none can be
/// added later. (Hugepages can be: there it is only what is taken at the start.)
pub fn too_little_given(environment: &Environment) -> Option<String> {
    let given = environment.given_mebibytes().filter(|_| !environment.hugepages)?;
    let need = environment.memory_in_all().div_ceil(1 << 20);
    // What drivers take is an estimate, and how pieces of super-packets are held shows only when ports are open.
    (given < need).then(|| {
        format!(
            "[eal] args: -m {given} gives {given} MiB, and packets, rings and drivers need up to {need} MiB: the start \
             may fail for lack of memory\n  help: give \"-m\", \"{need}\", or leave it out: weir gives as much as is needed"
        )
    })
}

impl Environment {
    /// The last `-m`, which is the one that counts.
    fn given_mebibytes(&self) -> Option<u64> {
        let at = self.args.iter().rposition(|arg| arg.starts_with("-m"))?;
        let value = match self.args.get(at)?.strip_prefix("-m")? {
            "" => self.args.get(at + 1)?,
            inline => inline,
        };
        value.parse().ok()
    }

    /// The EAL's configuration for the instance `name`.
    pub fn eal(&self, name: &str, verbose: bool) -> EalConfig {
        let mut eal = EalConfig::new(format!("weir-{name}"));
        if verbose {
            eal.log_level = LogLevel::Info;
        }
        self.args.iter().fold(eal, |eal, arg| eal.arg(arg))
    }

    /// Memory that packets, rings and drivers need, in bytes.
    pub fn memory_in_all(&self) -> u64 {
        self.packet_memory + OWN_MEMORY
    }
}

/// The value of `--lcores` and the number of lcores. Unless the file says otherwise the control
/// thread may run anywhere, and the workers are the last CPUs, one for each link but never the
/// first CPU, where interrupts are usually served, unless it is the only one.
fn cores(config: &Config, machine: &Machine) -> (String, u32) {
    if let Some(lcores) = &config.eal.lcores {
        return (lcores.eal_argument(), 1 + lcores.workers.len() as u32);
    }
    let workers = worker_cpus(config, machine);
    let all: Vec<_> = machine.cpus.iter().map(u32::to_string).collect();
    let mut value = format!("0@({})", all.join(","));
    for (lcore, cpu) in workers.iter().enumerate() {
        value.push_str(&format!(",{}@{cpu}", lcore + 1));
    }
    (value, 1 + workers.len() as u32)
}

/// The CPUs that the workers are pinned to.
pub fn worker_cpus(config: &Config, machine: &Machine) -> Vec<u32> {
    if let Some(lcores) = &config.eal.lcores {
        return lcores.workers.clone();
    }
    let spare = machine.cpus.len().saturating_sub(1).max(1);
    machine.cpus.iter().rev().take(config.links.len().clamp(1, spare)).copied().collect()
}

/// A list of CPUs as the kernel writes it: `0-3,8`.
pub fn cpu_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

fn packet_memory(config: &Config, lcores: u32, hugepages: bool) -> u64 {
    config.links.iter().map(link).map(|link| link.memory(lcores, hugepages)).sum()
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
    PortPlan {
        devargs: port.device.devargs(),
        mtu: port.mtu,
        rx_ring: port.rx_ring,
        tx_ring: port.tx_ring,
        tso: toggle(port.tso),
        lro: toggle(port.lro),
        governor: Some(governor(port.governor)),
    }
}

fn toggle(offload: model::Offload) -> Toggle {
    match offload {
        model::Offload::Auto => Toggle::Auto,
        model::Offload::On => Toggle::On,
        model::Offload::Off => Toggle::Off,
    }
}

fn governor(governor: Option<model::Governor>) -> GovernorPlan {
    let Some(model::Governor { limit_min, limit_max, hold_time }) = governor else {
        return GovernorPlan { complete_on: CompleteOn::Submit, ..GovernorPlan::default() };
    };
    let limit_max = limit_max.unwrap_or(GovernorPlan::MAX_LIMIT);
    GovernorPlan { complete_on: CompleteOn::Completion, limit_min, limit_max, hold_time }
}

fn direction(direction: &model::Direction) -> DirectionPlan {
    DirectionPlan {
        qdisc: direction.qdisc,
        bandwidth: direction.bandwidth,
        overhead: direction.overhead,
        catch_up: direction.catch_up,
        rules: direction.rules.clone(),
        split: direction.split,
        gro: direction.gro,
    }
}

/// What the EAL and the drivers take beside packets: rings, queues, devices' own pools.
const OWN_MEMORY: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use shaper::gso::Split;
    use shaper::time::Duration;

    fn config(text: &str) -> Config {
        config::parse("test.toml", text).unwrap().config
    }

    fn machine(cpus: &[u32], free_hugepages: u64) -> Machine {
        Machine { cpus: cpus.to_vec(), online: cpus.to_vec(), free_hugepages, memory: 1 << 30 }
    }

    const LINK: &str = "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = \"net_null1\"\n";

    #[test]
    fn keys_of_ports_and_super_packets_reach_the_engine() {
        let text = "[[link]]\nname = \"x\"\n\
            a = { device = \"net_null0\", tso = \"on\", lro = \"off\", limit-min = \"3KiB\", \
            limit-max = \"64KiB\", hold-time = \"50ms\" }\n\
            b = { device = \"net_null1\", complete-on = \"submit\" }\n\
            up = { split-gso = true, gro = true }\ndown = { gso-budget = \"1ms\" }\n";
        let link = plan(&config(text), [0; 16]).links.remove(0);
        let (a, b) = (link.a.governor.unwrap(), link.b.governor.unwrap());
        assert_eq!((link.a.tso, link.a.lro), (Toggle::On, Toggle::Off));
        assert_eq!((a.complete_on, a.limit_min, a.limit_max), (CompleteOn::Completion, 3 << 10, 64 << 10));
        assert_eq!(a.hold_time, Duration::from_millis(50));
        assert_eq!((b.complete_on, link.b.tso, link.b.lro), (CompleteOn::Submit, Toggle::Auto, Toggle::Auto));
        let (up, down) = (link.up.unwrap(), link.down.unwrap());
        assert_eq!((up.split, up.gro), (Split::Always, true));
        assert_eq!((down.split, down.gro), (Split::Auto(Duration::from_millis(1)), false));
        let defaults = plan(&config(LINK), [0; 16]).links.remove(0);
        assert_eq!(defaults.a.governor, Some(GovernorPlan::default()));
    }

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
    fn too_few_hugepages_are_left_alone() {
        let environment = environment(&config(LINK), &machine(&[0, 1], 4 << 20));
        assert!(environment.args.contains(&"--no-huge".to_owned()), "{:?}", environment.args);
    }

    #[test]
    fn hugepages_are_used_where_there_are_enough() {
        let environment = environment(&config(LINK), &machine(&[0, 1], 1 << 30));
        let args = "--lcores 0@(0,1),1@1 --in-memory --single-file-segments --no-pci";
        assert_eq!(environment.args.join(" "), args);
    }

    #[test]
    fn of_the_pci_bus_only_the_links_own_devices_are_taken() {
        let link = "[[link]]\nname = \"x\"\na = \"0000:01:00.0\"\nb = \"0000:02:00.1,rx_vec=1\"\n";
        let environment = environment(&config(link), &machine(&[0, 1], 1 << 30));
        let args = "--lcores 0@(0,1),1@1 --in-memory --single-file-segments -a 0000:01:00.0 -a 0000:02:00.1,rx_vec=1";
        assert_eq!(environment.args.join(" "), args);
    }

    #[test]
    fn the_file_has_the_last_word() {
        let text = format!("[eal]\nargs = [\"--no-huge\", \"-m\", \"100\"]\n{LINK}");
        let environment = environment(&config(&text), &machine(&[3], 1 << 30));
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
    fn an_own_choice_of_memory_is_compared_with_what_packets_need() {
        let said = |args: &str| {
            let config = config(&format!("[eal]\nargs = [{args}]\n{LINK}"));
            too_little_given(&environment(&config, &machine(&[0, 1], 0)))
        };
        let little = said(r#""--no-huge", "-m", "16""#).unwrap();
        let number = little.split("give \"-m\", \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert_eq!(said(r#""--no-huge", "-m16""#), Some(little.clone()));
        assert_eq!(said(&format!(r#""--no-huge", "-m", "{number}""#)), None, "the number that is told works");
        assert_eq!(said(r#""--no-huge""#), None);
        assert_eq!(said(r#""--in-memory", "-m", "16""#), None, "hugepages are added as needed");
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
        assert_eq!(said(&much, machine(&[0, 1], 64 << 30)), None, "it lies in hugepages");
    }
}
