//! PCI ports: the IOMMU, their drivers, their groups, and what would be lost by taking them.

use super::Wanted;
use super::finding::{Finding, Step};
use super::host::Host;
use crate::pci::is_for_dpdk;

/// What there is to say of PCI ports. Those in `allowed` may be taken though the kernel uses them.
pub fn findings(host: &Host, wanted: &Wanted, allowed: &[String]) -> Vec<Finding> {
    if wanted.ports.is_empty() {
        return Vec::new();
    }
    let mut findings = vec![iommu(host)];
    for port in &wanted.ports {
        findings.push(driver(host, port, allowed));
        findings.extend(group(host, port));
        findings.extend(node(host, port, wanted));
    }
    findings
}

fn iommu(host: &Host) -> Finding {
    let units = host.list("/sys/class/iommu");
    if !units.is_empty() {
        return Finding::right("IOMMU", format!("on ({})", units.join(", ")));
    }
    let why = "vfio gives a device to a program only where an IOMMU keeps it off other memory";
    Finding::wrong("IOMMU", "off", "on", why).by_hand(
        "switch it on in the firmware (VT-d, AMD-Vi) and write intel_iommu=on iommu=pt on the kernel's command line; \
         in a virtual machine without one: modprobe vfio enable_unsafe_noiommu_mode=1, as root, without protection",
    )
}

fn driver(host: &Host, port: &str, allowed: &[String]) -> Finding {
    let (about, bus) = (format!("port {port}"), host.bus());
    if !bus.has(port) {
        let why = "there is nothing to drive";
        return Finding::wrong(about, "no such PCI device", "one that `lspci -D` lists", why);
    }
    let driver = bus.driver(port);
    let name = driver.clone().unwrap_or_else(|| "no driver".to_owned());
    if is_for_dpdk(&name) {
        return Finding::right(about, format!("bound to {name}"));
    }
    if name.starts_with("mlx") {
        return Finding::right(about, format!("bound to {name}, beside which DPDK works"));
    }
    let why = "the kernel drives the port: DPDK cannot";
    let finding = Finding::wrong(about, format!("bound to {name}"), format!("bound to {VFIO}"), why);
    let uses = host.uses_of(port);
    if !uses.is_empty() && !allowed.iter().any(|allowed| allowed == port) {
        return finding.by_hand(format!(
            "{}: taking it may cut this machine off; insist with --apply --yes-this-port {port}",
            uses.join(", ")
        ));
    }
    let mut steps = Vec::new();
    if !bus.has_driver(VFIO) {
        steps.push(Step::Load { module: VFIO });
    }
    steps.push(Step::Bind { port: port.to_owned(), from: driver, to: VFIO });
    finding.steps(steps).by_hand(format!("to keep it over a reboot: driverctl set-override {port} {VFIO}"))
}

/// Devices that cannot be kept apart from the port; all of them must be vfio's, or none can be.
fn group(host: &Host, port: &str) -> Option<Finding> {
    let folder = format!("/sys/bus/pci/devices/{port}/iommu_group");
    let number = host.link(&folder)?;
    let bus = host.bus();
    let others = host.list(&format!("{folder}/devices")).into_iter().filter(|other| other != port);
    let held: Vec<_> = others
        .filter(|other| {
            let class = host.read(&format!("/sys/bus/pci/devices/{other}/class")).unwrap_or_default();
            !class.starts_with(BRIDGE) && bus.driver(other).is_some_and(|driver| !is_for_dpdk(&driver))
        })
        .collect();
    let about = format!("port {port}, IOMMU group {number}");
    if held.is_empty() {
        return Some(Finding::right(about, "no other device of it is the kernel's"));
    }
    let why = "devices of one group reach each other's memory: vfio takes all of them or none";
    let is = format!("the kernel drives {} of the same group", held.join(", "));
    let finding = Finding::wrong(about, is, "the port in a group of its own", why);
    Some(finding.by_hand("give these to vfio-pci too, or put the card in another slot"))
}

fn node(host: &Host, port: &str, wanted: &Wanted) -> Option<Finding> {
    // -1 where there is but one.
    let node = host.number(&format!("/sys/bus/pci/devices/{port}/numa_node"))?;
    let cpus = host.cpus(&format!("/sys/devices/system/node/node{node}/cpulist"));
    let far: Vec<_> = wanted.workers.iter().filter(|cpu| !cpus.contains(cpu)).map(u32::to_string).collect();
    let about = format!("port {port}, NUMA node {node}");
    if far.is_empty() {
        return Some(Finding::right(about, "the workers' CPUs are on it"));
    }
    let why = "every packet crosses between the nodes, twice";
    let is = format!("the workers' CPUs {} are on another", far.join(","));
    let own: Vec<_> = cpus.iter().map(u32::to_string).collect();
    Some(
        Finding::better(about, is, format!("workers of the CPUs {}", own.join(",")), why)
            .by_hand("[eal] lcores"),
    )
}

const VFIO: &str = "vfio-pci";

/// PCI class 06: bridges, which vfio leaves to the kernel.
const BRIDGE: &str = "0x06";
