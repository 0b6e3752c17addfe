//! Machines made of files, what is told of them (snapshots), and what `--apply` does to them.

use super::finding::Step;
use super::*;
use crate::pci::tests::{Fake, PORT};
use crate::report::snapshot;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const CONFIG: &str = "[eal]\nlcores = { main = 0, workers = [2, 3] }\n\
    [[link]]\nname = \"x\"\na = \"0000:01:00.0\"\nb = \"net_tap0,iface=lan\"\n";

fn config() -> Config {
    config::parse("test.toml", CONFIG).unwrap().config
}

/// Writes `text` to a file of the machine.
fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// Four CPUs, one card on igb; nothing set up.
fn bare(root: &Path) {
    put(root, "sys/devices/system/cpu/online", "0-3");
    put(root, "sys/devices/system/cpu/isolated", "");
    for cpu in 0..4 {
        put(root, &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "powersave");
        put(root, &format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state0/name"), "POLL");
        put(root, &format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state0/latency"), "0");
        put(root, &format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state3/name"), "C6");
        put(root, &format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state3/latency"), "133");
    }
    let meminfo = "MemAvailable: 16000000 kB\nHugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB";
    put(root, "proc/meminfo", meminfo);
    put(root, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0");
    put(
        root,
        "proc/self/limits",
        "Max locked memory         8388608              8388608              bytes",
    );
    put(root, "proc/irq/24/effective_affinity_list", "2");
    fs::create_dir_all(root.join("proc/irq/24/eth7")).unwrap();
    put(root, "proc/irq/9/effective_affinity_list", "3");
    put(root, &format!("sys/bus/pci/devices/{PORT}/numa_node"), "0");
    put(root, "sys/devices/system/node/node0/cpulist", "0-1");
}

/// As it should be.
fn ready(root: &Path) {
    bare(root);
    put(root, "sys/devices/system/cpu/isolated", "2-3");
    put(root, "sys/devices/system/cpu/nohz_full", "2-3");
    for cpu in 0..4 {
        put(root, &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "performance");
        put(root, &format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state3/disable"), "1");
    }
    let meminfo =
        "MemAvailable: 16000000 kB\nHugePages_Total: 512\nHugePages_Free: 500\nHugepagesize: 2048 kB";
    put(root, "proc/meminfo", meminfo);
    put(
        root,
        "proc/self/limits",
        "Max locked memory         unlimited            unlimited            bytes",
    );
    put(root, "proc/irq/24/effective_affinity_list", "0");
    put(root, "sys/devices/system/node/node0/cpulist", "0-3");
    fs::create_dir_all(root.join("sys/class/iommu/dmar0")).unwrap();
    let groups = root.join("sys/kernel/iommu_groups/7");
    fs::create_dir_all(groups.join("devices").join(PORT)).unwrap();
    symlink(&groups, root.join(format!("sys/bus/pci/devices/{PORT}/iommu_group"))).unwrap();
}

fn told(host: &Host, allowed: &[String]) -> (Vec<Finding>, String) {
    let findings = findings(host, Some(&config()), allowed);
    let text = format!("{}{}", text(&findings), hint(&findings));
    (findings, text)
}

#[test]
fn a_machine_as_it_comes() {
    let fake = Fake::new("setup-bare", &["igb"]);
    bare(&fake.root);
    let (findings, text) = told(&Host::with(&fake.root, BTreeMap::new()), &[]);
    snapshot("setup_bare.txt", &text);
    let json = serde_json::to_value(&findings).unwrap();
    assert_eq!(json[0]["level"], "better");
    assert!(json[0]["apply"][0].as_str().unwrap().starts_with("echo "), "{json:#}");
}

#[test]
fn a_machine_that_is_ready_has_nothing_to_apply() {
    let fake = Fake::new("setup-ready", &["igb", "vfio-pci"]);
    ready(&fake.root);
    fake.bus().bind(PORT, Some("vfio-pci")).unwrap();
    let (findings, text) = told(&Host::with(&fake.root, BTreeMap::new()), &[]);
    snapshot("setup_ready.txt", &text);
    assert!(
        findings.iter().all(|finding| finding.level == Level::Right && finding.steps.is_empty()),
        "{text}"
    );
}

#[test]
fn a_port_in_use_is_taken_only_when_it_is_named() {
    let fake = Fake::new("setup-used", &["igb", "vfio-pci"]);
    bare(&fake.root);
    let binds = |host: &Host, allowed: &[String]| {
        let (findings, text) = told(host, allowed);
        let is_bind = |step: &Step| matches!(step, Step::Bind { .. });
        (findings.iter().flat_map(|finding| &finding.steps).any(is_bind), text)
    };
    let addresses = BTreeMap::from([("eth7".to_owned(), vec!["192.0.2.7".to_owned()])]);
    let host = Host::with(&fake.root, addresses);
    let (bound, text) = binds(&host, &[]);
    assert!(!bound && text.contains("eth7 has 192.0.2.7"), "{text}");
    assert!(text.contains("--yes-this-port 0000:01:00.0"), "{text}");
    assert!(binds(&host, &[PORT.to_owned()]).0);

    let host = Host::with(&fake.root, BTreeMap::new());
    assert!(binds(&host, &[]).0, "an interface that nobody uses");
    let route = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
        eth7 00000000 FE0200C0 0003 0 0 0 00000000 0 0 0";
    put(&fake.root, "proc/net/route", route);
    let (bound, text) = binds(&host, &[]);
    assert!(!bound && text.contains("eth7 has the IPv4 default route"), "{text}");
    put(&fake.root, "proc/net/route", "");
    let zeros = "0".repeat(32);
    let route = format!("{zeros} 00 {zeros} 00 fe800000000000000000000000000001 00000400 1 0 00000003 eth7");
    put(&fake.root, "proc/net/ipv6_route", &route);
    assert!(!binds(&host, &[]).0);
    fs::remove_file(fake.root.join("proc/net/ipv6_route")).unwrap();
    fs::create_dir_all(fake.root.join("sys/class/net/eth7")).unwrap();
    symlink("../br0", fake.root.join("sys/class/net/eth7/master")).unwrap();
    let (bound, text) = binds(&host, &[]);
    assert!(!bound && text.contains("eth7 is part of br0"), "{text}");
}

#[test]
fn a_group_that_the_kernel_shares_is_in_the_way() {
    let fake = Fake::new("setup-group", &["igb", "vfio-pci"]);
    ready(&fake.root);
    let devices = fake.root.join("sys/bus/pci/devices");
    for (other, class, driver) in
        [("0000:00:1c.0", "0x060400", "pcieport"), ("0000:01:00.1", "0x020000", "igb")]
    {
        let group = fake.root.join("sys/kernel/iommu_groups/7/devices").join(other);
        fs::create_dir_all(&group).unwrap();
        put(&devices, &format!("{other}/class"), class);
        symlink(format!("/sys/bus/pci/drivers/{driver}"), devices.join(other).join("driver")).unwrap();
    }
    let (_, text) = told(&Host::with(&fake.root, BTreeMap::new()), &[]);
    assert!(
        text.contains("WRONG   port 0000:01:00.0, IOMMU group 7: the kernel drives 0000:01:00.1 of"),
        "{text}"
    );
}

#[test]
fn apply_does_what_it_said_and_its_undo_names_what_was() {
    let fake = Fake::new("setup-apply", &["igb", "vfio-pci"]);
    bare(&fake.root);
    let host = Host::with(&fake.root, BTreeMap::new());
    let (findings, _) = told(&host, &[]);
    let done = apply::apply(&host, &findings);
    assert_eq!(done.failed, Vec::<String>::new());
    let pages: u64 = host.number("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").unwrap();
    assert!(pages > 0);
    let governor = |cpu| host.read(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    assert_eq!(
        [0, 1, 2, 3].map(|cpu| governor(cpu).unwrap()),
        ["powersave", "powersave", "performance", "performance"]
    );
    assert_eq!(host.bus().driver(PORT).as_deref(), Some("vfio-pci"));
    assert_eq!(host.bus().remembered(PORT, crate::pci::Whose::Kernel).as_deref(), Some("igb"));
    assert_eq!(
        done.undo,
        [
            "echo 0000:01:00.0 > /sys/bus/pci/drivers/vfio-pci/unbind; \
             echo > /sys/bus/pci/devices/0000:01:00.0/driver_override; \
             echo 0000:01:00.0 > /sys/bus/pci/drivers/igb/bind",
            "echo powersave > /sys/devices/system/cpu/cpu3/cpufreq/scaling_governor",
            "echo powersave > /sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
            "echo 0 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        ]
    );
}

#[test]
fn what_cannot_be_applied_is_told_and_the_rest_is_done() {
    let fake = Fake::new("setup-failed", &["igb"]);
    fs::create_dir_all(fake.root.join("sys/bus/pci/drivers/vfio-pci")).unwrap();
    bare(&fake.root);
    let host = Host::with(&fake.root, BTreeMap::new());
    let done = apply::apply(&host, &told(&host, &[]).0);
    assert_eq!(done.failed.len(), 1, "{done:?}");
    assert!(done.failed[0].contains("vfio-pci does not take 0000:01:00.0"), "{done:?}");
    assert_eq!(done.done.len(), 3, "{done:?}");
    assert_eq!(host.bus().driver(PORT).as_deref(), Some("igb"), "back where it was");
}

#[test]
fn without_a_file_the_machine_alone_is_told_of() {
    let fake = Fake::new("setup-alone", &["igb"]);
    bare(&fake.root);
    let findings = findings(&Host::with(&fake.root, BTreeMap::new()), None, &[]);
    assert!(findings.iter().any(|finding| finding.about == "hugepages" && finding.steps.is_empty()));
    assert!(!findings.iter().any(|finding| finding.about.contains("port")), "{findings:?}");
}
