//! The workers' CPUs: whether anything else runs there, and how fast they wake.

use super::Wanted;
use super::finding::{Finding, Step};
use super::host::Host;

/// What there is to say of CPUs.
pub fn findings(host: &Host, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = vec![presence(host, wanted), isolation(host, wanted)];
    findings.extend(governor(host, wanted));
    findings.extend(idle_states(host, wanted));
    findings.extend(interrupts(host, wanted));
    findings
}

fn presence(host: &Host, wanted: &Wanted) -> Finding {
    let online = host.cpus("/sys/devices/system/cpu/online");
    let (is, about) = (format!("CPU {}", list(&wanted.workers)), "workers");
    let gone: Vec<_> = wanted.workers.iter().copied().filter(|cpu| !online.contains(cpu)).collect();
    if !gone.is_empty() {
        let why = "a worker is pinned to its CPU";
        return Finding::wrong(
            about,
            is,
            format!("CPUs of {}: {} are not online", list(&online), list(&gone)),
            why,
        )
        .by_hand("name others in [eal] lcores, or leave it out");
    }
    if online.len() < 2 {
        let why = "a worker polls all the time, and what else runs on its CPU makes packets wait";
        return Finding::better(about, is, "a machine of two CPUs or more", why);
    }
    Finding::right(about, format!("{is} of {}", list(&online)))
}

fn isolation(host: &Host, wanted: &Wanted) -> Finding {
    let isolated = host.cpus("/sys/devices/system/cpu/isolated");
    let tickless = host.cpus("/sys/devices/system/cpu/nohz_full");
    let is = format!("isolated: {}, without tick: {}", list(&isolated), list(&tickless));
    let are_all = |set: &[u32]| wanted.workers.iter().all(|cpu| set.contains(cpu));
    if are_all(&isolated) && are_all(&tickless) {
        return Finding::right("isolation", is);
    }
    let cpus = list(&wanted.workers);
    let better = format!("the workers' CPUs {cpus} in both");
    let why = "the kernel's scheduler and tick take a worker off its CPU, for milliseconds on a busy machine";
    Finding::better("isolation", is, better, why).by_hand(format!(
        "isolcpus=managed_irq,domain,{cpus} nohz_full={cpus} rcu_nocbs={cpus} on the kernel's command line \
         (GRUB_CMDLINE_LINUX in /etc/default/grub, update-grub), and a reboot"
    ))
}

fn governor(host: &Host, wanted: &Wanted) -> Option<Finding> {
    let path = |cpu: &u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let known: Vec<_> =
        wanted.workers.iter().filter_map(|cpu| Some((*cpu, path(cpu), host.read(&path(cpu))?))).collect();
    let slow: Vec<_> = known.iter().filter(|(_, _, governor)| governor != BEST).collect();
    match slow.first() {
        None if known.is_empty() => {
            Some(Finding::right("frequency governor", "none: the hypervisor or the firmware decides"))
        }
        None => Some(Finding::right("frequency governor", BEST)),
        Some(_) => {
            let is: Vec<_> = slow.iter().map(|(cpu, _, governor)| format!("CPU {cpu} {governor}")).collect();
            let steps = slow.iter().map(|(_, path, before)| Step::Write {
                path: path.clone(),
                text: BEST.to_owned(),
                before: before.clone(),
            });
            let why = "a CPU that has slowed down takes some 10 us to 1 ms to be fast again";
            let finding = Finding::better("frequency governor", is.join(", "), BEST, why);
            Some(finding.steps(steps.collect()).by_hand(
                "to keep it over a reboot: cpupower frequency-set -g performance in a unit of its own",
            ))
        }
    }
}

fn idle_states(host: &Host, wanted: &Wanted) -> Option<Finding> {
    let cpu = wanted.workers.first()?;
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let slowest = host
        .list(&folder)
        .iter()
        .filter(|state| host.read(&format!("{folder}/{state}/disable")).as_deref() != Some("1"))
        .filter_map(|state| {
            let of = |file| format!("{folder}/{state}/{file}");
            Some((host.number(&of("latency"))?, host.read(&of("name"))?))
        })
        .max();
    let about = "idle states";
    let Some((latency, name)) = slowest else {
        return Some(Finding::right(about, "none: the hypervisor or the firmware decides"));
    };
    let is = format!("down to {name}, {latency} us to leave");
    if latency <= QUICK_US || wanted.busy {
        return Some(Finding::right(about, is));
    }
    let why = "with poll = \"adaptive\" a worker naps 50 us, and wakes that much later";
    let finding = Finding::better(about, is, format!("none slower than {QUICK_US} us"), why);
    Some(finding.by_hand(
        "engine.poll = \"busy\", which never idles; or processor.max_cstate=1 on the kernel's command line",
    ))
}

fn interrupts(host: &Host, wanted: &Wanted) -> Option<Finding> {
    let numbers: Vec<_> =
        host.list("/proc/irq").into_iter().filter(|name| name.parse::<u32>().is_ok()).collect();
    let there: Vec<_> = numbers
        .iter()
        .filter(|irq| {
            // Of lines that nobody uses the kernel keeps the default affinity.
            let is_used = host
                .list(&format!("/proc/irq/{irq}"))
                .iter()
                .any(|name| host.path(&format!("/proc/irq/{irq}/{name}")).is_dir());
            let effective = host.cpus(&format!("/proc/irq/{irq}/effective_affinity_list"));
            is_used && effective.iter().any(|cpu| wanted.workers.contains(cpu))
        })
        .cloned()
        .collect();
    if there.is_empty() {
        return Some(Finding::right("interrupts", "none is served by a worker's CPU"));
    }
    let others: Vec<_> = host
        .cpus("/sys/devices/system/cpu/online")
        .into_iter()
        .filter(|cpu| !wanted.workers.contains(cpu))
        .collect();
    let is = format!("{} served by a worker's CPU: {}", there.len(), there.join(", "));
    let why = "an interrupt holds a worker up for as long as its handler takes";
    let finding = Finding::better("interrupts", is, format!("all on CPU {}", list(&others)), why);
    Some(match others.is_empty() {
        true => finding,
        false => finding.by_hand(format!(
            "echo {} > /proc/irq/N/smp_affinity_list for each; IRQBALANCE_BANNED_CPULIST={} for irqbalance",
            list(&others),
            list(&wanted.workers)
        )),
    })
}

fn list(cpus: &[u32]) -> String {
    if cpus.is_empty() {
        "none".to_owned()
    } else {
        cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

const BEST: &str = "performance";

/// A fifth of the nap that an idle worker takes.
const QUICK_US: u64 = 10;
