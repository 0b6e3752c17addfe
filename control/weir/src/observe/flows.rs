//! What is reported of flows and hosts.

use crate::report::{DirectionFlows, FlowReport, FlowsReport, HostReport, Load};
use engine::line::Line;
use engine::talkers::{Side, Talker, Window, is_ip};
use shaper::flow::key::{Family, FlowKey, Kind};
use shaper::wire::link::Scope;
use shaper::wire::protocol::{
    AH, DCCP, ESP, ETHERTYPE_ARP, ETHERTYPE_LLDP, GRE, ICMP, ICMPV6, IPIP, IPV6, SCTP, TCP, UDP, UDP_LITE,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Who sent most in a direction in its last window. Cheap to take; the rest is done for whoever asks.
#[derive(Clone, Debug)]
pub struct Talking {
    link: String,
    direction: &'static str,
    window: Arc<Window>,
}

/// That of each direction.
pub fn talking(line: &Line) -> Vec<Talking> {
    let mut all = Vec::new();
    for link in line.links() {
        for (way, place) in &link.ways {
            let watch =
                line.workers().get(place.worker).and_then(|worker| worker.talkers.get(place.direction));
            let window = watch.and_then(|watch| watch.last()).cloned().unwrap_or_default();
            all.push(Talking { link: link.name.clone(), direction: way.name(), window });
        }
    }
    all
}

/// The largest flows and hosts of each direction.
pub fn flows(at: f64, talking: &[Talking]) -> FlowsReport {
    let of = |talking: &Talking| direction(&talking.link, talking.direction, &talking.window);
    FlowsReport { at, directions: talking.iter().map(of).collect() }
}

fn direction(link: &str, name: &str, window: &Window) -> DirectionFlows {
    let hosts = |side| {
        let top = window.top(side, MOST);
        top.iter().map(|(key, talker)| host(key, load(talker, window))).collect()
    };
    DirectionFlows {
        link: link.to_owned(),
        direction: name.to_owned(),
        window_s: window.span.as_nanos() as f64 / 1e9,
        sent: window.sent.into(),
        step: window.step,
        flows: window
            .top(Side::Flow, MOST)
            .iter()
            .map(|(key, talker)| flow(key, load(talker, window)))
            .collect(),
        senders: hosts(Side::Sender),
        receivers: hosts(Side::Receiver),
    }
}

fn load(talker: &Talker, window: &Window) -> Load {
    let rate = |bytes: u64| {
        let nanos = u128::from(window.span.as_nanos().max(1));
        (u128::from(bytes) * 8 * 1_000_000_000 / nanos) as u64
    };
    Load {
        rate: rate(talker.bytes),
        error: rate(talker.error),
        share: (talker.bytes as f64 / window.sent.bytes.max(1) as f64).min(1.0),
        samples: talker.samples,
        delay_mean_us: talker.mean.as_micros(),
        delay_max_us: talker.longest.as_micros(),
    }
}

fn flow(key: &FlowKey, load: Load) -> FlowReport {
    let has_ports = key.kind == Kind::Ports;
    FlowReport {
        source: address(key.source, key.family),
        source_port: has_ports.then_some(key.source_port),
        destination: address(key.destination, key.family),
        destination_port: has_ports.then_some(key.destination_port),
        protocol: if is_ip(key) { protocol(key) } else { ethertype(key.ethertype) },
        id: matches!(key.kind, Kind::FlowLabel | Kind::Spi | Kind::IcmpId).then_some(key.id),
        scope: scope(key.scope),
        load,
    }
}

fn host(key: &FlowKey, load: Load) -> HostReport {
    HostReport { host: address(key.source, key.family), scope: scope(key.scope), load }
}

fn address(bits: u128, family: Family) -> String {
    match family {
        Family::V4 => Ipv4Addr::from_bits(bits as u32).to_string(),
        Family::V6 => Ipv6Addr::from_bits(bits).to_string(),
        Family::Mac => {
            let [_, _, bytes @ ..] = (bits as u64).to_be_bytes();
            bytes.map(|byte| format!("{byte:02x}")).join(":")
        }
    }
}

fn protocol(key: &FlowKey) -> String {
    let name = match key.protocol {
        TCP => "tcp",
        UDP => "udp",
        UDP_LITE => "udplite",
        ICMP => "icmp",
        ICMPV6 => "icmpv6",
        ESP => "esp",
        AH => "ah",
        GRE => "gre",
        SCTP => "sctp",
        DCCP => "dccp",
        IPIP => "ipip",
        IPV6 => "6in4",
        number => return number.to_string(),
    };
    name.to_owned()
}

fn ethertype(number: u16) -> String {
    match number {
        ETHERTYPE_ARP => "arp".to_owned(),
        ETHERTYPE_LLDP => "lldp".to_owned(),
        _ => format!("{number:#06x}"),
    }
}

/// As people write them: `vlan 100.7`, outermost first.
fn scope(scope: Scope) -> String {
    let [links, tunnels] = scope.words();
    let mut parts = Vec::new();
    let vlans = (0..4).rev().map(|place| links >> (16 + 12 * place) & 0xfff).filter(|id| *id > 0);
    let vlans: Vec<_> = vlans.map(|id| id.to_string()).collect();
    if !vlans.is_empty() {
        parts.push(format!("vlan {}", vlans.join(".")));
    }
    if links & 0xffff > 0 {
        parts.push(format!("pppoe {}", links & 0xffff));
    }
    if tunnels >> 40 > 0 {
        parts.push(format!("mpls {}", tunnels >> 40));
    }
    if tunnels >> 32 & 0xff > 0 {
        parts.push(format!("tunnel {}", tunnels as u32));
    }
    parts.join(" ")
}

/// Of each kind in each direction; a document of some 20 KiB then.
const MOST: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_people_write_them() {
        let v6 = FlowKey {
            source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).to_bits(),
            destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).to_bits(),
            source_port: 443,
            destination_port: 50_000,
            protocol: UDP,
            family: Family::V6,
            kind: Kind::Ports,
            scope: Scope::GLOBAL.vlan(100).vlan(7).session(12),
            ..FlowKey::EMPTY
        };
        let report = flow(&v6, Load::default());
        assert_eq!((report.source.as_str(), report.source_port), ("2001:db8::1", Some(443)));
        assert_eq!((report.protocol.as_str(), report.id), ("udp", None));
        assert_eq!(report.scope, "vlan 100.7 pppoe 12");
        let esp = FlowKey {
            source: 0xc000_0201,
            protocol: ESP,
            kind: Kind::Spi,
            id: 77,
            family: Family::V4,
            scope: Scope::GLOBAL.label(99).tunnel(Some(5)),
            ..FlowKey::EMPTY
        };
        let report = flow(&esp, Load::default());
        assert_eq!((report.source.as_str(), report.source_port, report.id), ("192.0.2.1", None, Some(77)));
        assert_eq!(report.scope, "mpls 99 tunnel 5");
        let arp = FlowKey { source: 0x0200_0000_0001, ethertype: ETHERTYPE_ARP, ..FlowKey::EMPTY };
        let report = flow(&arp, Load::default());
        assert_eq!((report.source.as_str(), report.protocol.as_str()), ("02:00:00:00:00:01", "arp"));
        let json = serde_json::to_value(host(&arp, Load { rate: 5, ..Load::default() })).unwrap();
        assert_eq!((&json["host"], &json["rate"]), (&"02:00:00:00:00:01".into(), &5.into()));
    }
}
