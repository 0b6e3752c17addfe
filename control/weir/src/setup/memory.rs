//! Hugepages, and memory that may be locked.

use super::Wanted;
use super::finding::{Finding, Step};
use super::host::Host;

/// What there is to say of memory.
pub fn findings(host: &Host, wanted: &Wanted) -> Vec<Finding> {
    [hugepages(host, wanted), memlock(host, wanted)].into_iter().flatten().collect()
}

fn hugepages(host: &Host, wanted: &Wanted) -> Option<Finding> {
    let about = "hugepages";
    let Some(size) = host.meminfo("Hugepagesize").filter(|size| *size > 0) else {
        return Some(Finding::better(
            about,
            "the kernel has none",
            "a kernel with CONFIG_HUGETLBFS",
            WHY_HUGE,
        ));
    };
    let [total, free] = ["HugePages_Total", "HugePages_Free"].map(|name| host.meminfo(name).unwrap_or(0));
    let mebibytes = |pages: u64| (pages * size) >> 10;
    let is = format!("{total} of {size} KiB reserved, {free} free ({} MiB)", mebibytes(free));
    let Some(need) = wanted.memory.map(|bytes| (bytes >> 10).div_ceil(size)) else {
        return Some(match free {
            0 => Finding::better(about, is, "as many as packets need: name a configuration file", WHY_HUGE),
            _ => Finding::right(about, is),
        });
    };
    if free >= need {
        return Some(Finding::right(about, format!("{is}; packets need {need}")));
    }
    let path = format!("/sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages");
    let reserve = total + need - free;
    let better = format!("{need} free ({} MiB), which hold all packets", mebibytes(need));
    let available = host.meminfo("MemAvailable").unwrap_or(u64::MAX);
    // A machine that is left without memory is worse off than one without hugepages.
    let finding = Finding::better(about, is, better, WHY_HUGE);
    if (reserve - total).saturating_mul(size) > available / 2 {
        return Some(finding.by_hand(format!(
            "only {} MiB of memory are free: lower limit or memlimit, or add memory",
            available >> 10
        )));
    }
    let step = Step::Write { path, text: reserve.to_string(), before: total.to_string() };
    Some(
        finding.steps(vec![step]).by_hand(format!(
            "to keep it over a reboot: vm.nr_hugepages = {reserve} in /etc/sysctl.d/weir.conf"
        )),
    )
}

fn memlock(host: &Host, wanted: &Wanted) -> Option<Finding> {
    let limits = host.read("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    let soft = line.split_whitespace().next()?;
    let about = "memory that may be locked";
    let bytes = soft.parse::<u64>().unwrap_or(u64::MAX);
    let is_enough = soft == "unlimited" || wanted.memory.is_some_and(|need| bytes >= need);
    if is_enough || wanted.ports.is_empty() {
        return Some(Finding::right(about, soft.to_owned()));
    }
    let why =
        "vfio locks all that a device may reach; as root without limit, others by LimitMEMLOCK= or ulimit -l";
    let is = format!("{soft} bytes");
    let finding = Finding::better(about, is, "unlimited for whoever runs weir with PCI ports", why);
    Some(finding.by_hand("weir@.service sets it; else in /etc/security/limits.d/weir.conf"))
}

const WHY_HUGE: &str =
    "without them every packet costs more TLB misses, and a PCI port cannot be driven through an IOMMU well";
