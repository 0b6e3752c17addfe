//! Kernel interfaces behind a port, and what this machine uses them for: probing a port sends frames, and giving it
//! to vfio takes it away, which must not happen by accident where people work.

use crate::pci;
use config::device::{Bus, Device};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use std::fs;
use std::path::Path;

/// Why it would be rash to send test frames by `device`: the interfaces of the kernel that it sends by, or
/// that are built on these, and the addresses and default routes they have. None: as far as can be known it
/// carries nothing of this machine. (A NIC bound to vfio-pci has no interface.)
pub fn use_of(device: &Device) -> Vec<String> {
    uses_of(behind(device), Path::new("/"), &addresses)
}

/// The same of kernel interfaces, as /proc and /sys below `root` show them.
pub fn uses_of(
    mut interfaces: Vec<String>,
    root: &Path,
    addresses: &dyn Fn(&str) -> Vec<String>,
) -> Vec<String> {
    let mut next = 0;
    while let Some(interface) = interfaces.get(next) {
        let above: Vec<_> =
            built_on(root, interface).into_iter().filter(|name| !interfaces.contains(name)).collect();
        interfaces.extend(above);
        next += 1;
    }
    let table = |name| fs::read_to_string(root.join("proc/net").join(name)).unwrap_or_default();
    let routes =
        [("IPv4", default_routes_v4(&table("route"))), ("IPv6", default_routes_v6(&table("ipv6_route")))];
    let mut uses = Vec::new();
    for interface in &interfaces {
        uses.extend(addresses(interface).into_iter().map(|address| format!("{interface} has {address}")));
        for (family, by) in &routes {
            if by.contains(interface) {
                uses.push(format!("{interface} has the {family} default route"));
            }
        }
    }
    uses
}

/// The interfaces of the kernel that the device sends by.
fn behind(device: &Device) -> Vec<String> {
    if device.bus() == Bus::Pci {
        // A driver that leaves the device to the kernel too (mlx5, mlx4).
        return pci::Bus::system().interfaces(device.name());
    }
    let given = ["iface", "tx_iface", "rx_iface", "remote"].map(|key| device.argument(key));
    let mut names: Vec<String> = given.into_iter().flatten().map(str::to_owned).collect();
    names.dedup();
    names
}

/// Bridges, bonds, VLANs and the like on top of `interface`.
fn built_on(root: &Path, interface: &str) -> Vec<String> {
    names_in(&root.join("sys/class/net").join(interface), "upper_")
}

/// Entries of `folder` whose name begins with `prefix`, without it; none if there is no such folder.
fn names_in(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix).map(str::to_owned)).collect()
}

/// Addresses but those that the kernel gives to every interface that is up (fe80::/10).
pub fn addresses(interface: &str) -> Vec<String> {
    let all = getifaddrs().into_iter().flatten().filter(|found| found.interface_name == interface);
    all.filter_map(|found| found.address.as_ref().and_then(address)).collect()
}

fn address(address: &SockaddrStorage) -> Option<String> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(v4.ip().to_string());
    }
    let v6 = address.as_sockaddr_in6()?.ip();
    (!v6.is_unicast_link_local()).then(|| v6.to_string())
}

/// Interfaces with a default route, from `/proc/net/route`: name, destination, ..., mask in the 8th column.
fn default_routes_v4(table: &str) -> Vec<String> {
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&"00000000") && row.get(7) == Some(&"00000000"))
        .filter_map(|row| row.first().map(|name| (*name).to_owned()))
        .collect()
}

/// The same from `/proc/net/ipv6_route`: destination, its length, ..., name in the last column.
fn default_routes_v6(table: &str) -> Vec<String> {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| {
        row.first().is_some_and(|to| to.bytes().all(|b| b == b'0')) && row.get(1) == Some(&"00")
    })
    .filter_map(|row| row.last().map(|name| (*name).to_owned()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(devargs: &str) -> Device {
        Device::parse(devargs).unwrap()
    }

    #[test]
    fn interfaces_are_found_in_the_arguments() {
        assert_eq!(behind(&device("net_af_packet0,iface=eth7,qpairs=1")), ["eth7"]);
        assert_eq!(behind(&device("net_pcap0,rx_iface=r,tx_iface=t")), ["t", "r"]);
        assert_eq!(behind(&device("net_tap0,iface=t,remote=eth0")), ["t", "eth0"]);
        assert_eq!(behind(&device("net_null0")), [""; 0]);
        assert_eq!(behind(&device("ffff:ff:1f.7")), [""; 0], "no such device here");
    }

    #[test]
    fn an_address_is_a_use_and_no_interface_is_none() {
        // The only interface that is everywhere.
        let uses = use_of(&device("net_af_packet0,iface=lo"));
        assert!(uses.iter().any(|what| what == "lo has 127.0.0.1"), "{uses:?}");
        assert_eq!(use_of(&device("net_null0")), [""; 0]);
        assert_eq!(use_of(&device("net_tap0,iface=weir-none")), [""; 0]);
    }

    #[test]
    fn default_routes_are_told_from_others() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n\
                  eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(default_routes_v4(v4), ["eth0"]);
        let (zero, via) = ("0".repeat(32), "fe800000000000000000000000000001");
        let v6 = format!(
            "{zero} 00 {zero} 00 {via} 00000400 00000001 00000000 00000003 eth0\n\
             fe800000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001 eth1\n\
             {zero} 03 {zero} 00 {via} 00000400 00000001 00000000 00000003 eth2\n"
        );
        assert_eq!(default_routes_v6(&v6), ["eth0"]);
    }
}
