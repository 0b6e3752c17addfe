//! What may be left to a port: its driver's word, what is known of it, and a check at start.
//!
//! A driver that says it cuts frames may cut them wrong, or refuse them for ever. So segmentation is
//! left to it only if no fault of it is on the list below, and if its own `tx_prepare` lets a sample
//! of every kind pass. A refusal in operation takes it back (see the sender).

use crate::plan::Toggle;
use dpdk::mbuf::flags;
use dpdk::{Mbuf, Mempool, PortInfo, TxOffload, TxOffloads, TxQueue};
use shaper::gso::{self, Cut, Transport, Tunnel};
use std::num::NonZeroU16;

/// What may be left to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// It cuts TCP over IPv4.
    pub tso_v4: bool,
    /// It cuts TCP over IPv6.
    pub tso_v6: bool,
    /// It completes TCP checksums.
    pub tcp_checksum: bool,
    /// It completes UDP checksums.
    pub udp_checksum: bool,
    /// It writes IPv4 header checksums, which drivers expect to be asked for with segmentation.
    pub ipv4_checksum: bool,
    /// Most segments of a frame that it cuts. Its limit is one of buffers; a piece has at most one a
    /// segment, where packets were merged, and one for the headers.
    pub max_segs: NonZeroU16,
    /// Most buffers of a frame that it does not cut.
    pub max_buffers: u16,
}

/// What was found out about a port at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is left to it.
    pub offload: Offload,
    /// Why segmentation is not, if it is not.
    pub segmentation: Segmentation,
}

/// Whether a port cuts, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// It does.
    Works,
    /// Nobody wants it to.
    Off,
    /// The driver does not offer it.
    NotOffered,
    /// It does not do it right: the driver's name and what is known.
    KnownFault(&'static str),
    /// Its `tx_prepare` refused a sample of every kind.
    Refused,
}

impl Offload {
    /// Nothing is left to the port.
    pub const NONE: Self = Self {
        tso_v4: false,
        tso_v6: false,
        tcp_checksum: false,
        udp_checksum: false,
        ipv4_checksum: false,
        max_segs: NonZeroU16::MAX,
        max_buffers: u16::MAX,
    };

    /// Whether it cuts anything.
    #[inline]
    pub fn segments(&self) -> bool {
        self.tso_v4 || self.tso_v6
    }

    /// Whether the checksum of a piece of one segment may be left to it.
    #[inline]
    pub(crate) fn completes(&self, frame: &gso::Offload) -> bool {
        frame.tunnel == Tunnel::None
            && frame.checksum
            && match frame.transport {
                Transport::Tcp => self.tcp_checksum,
                Transport::Udp => self.udp_checksum,
            }
    }

    /// Whether all that a frame asks for may be left to it.
    #[inline]
    pub(crate) fn does(&self, ol_flags: u64) -> bool {
        if ol_flags & (flags::TX_UDP_SEG | TUNNELS) != 0 {
            return false;
        }
        if ol_flags & flags::TX_TCP_SEG != 0 {
            return if ol_flags & flags::TX_IPV6 != 0 { self.tso_v6 } else { self.tso_v4 };
        }
        match ol_flags & flags::TX_L4_MASK {
            0 => true,
            flags::TX_TCP_CKSUM => self.tcp_checksum,
            flags::TX_UDP_CKSUM => self.udp_checksum,
            _ => false,
        }
    }

    /// Nothing like what this frame asked for is left to the port any more.
    #[cold]
    pub(crate) fn give_up(&mut self, ol_flags: u64) {
        if ol_flags & (flags::TX_TCP_SEG | flags::TX_UDP_SEG) != 0 {
            (self.tso_v4, self.tso_v6) = (false, false);
        } else {
            (self.tcp_checksum, self.udp_checksum) = (false, false);
        }
    }

    /// Writes into the packet's mbuf what a port must know to complete and to cut it.
    #[inline]
    pub(crate) fn mark(&self, packet: &mut Mbuf, cut: &Cut, frame: &gso::Offload) {
        let mut ol_flags = match frame.tunnel {
            Tunnel::None => 0,
            Tunnel::Vxlan => flags::TX_TUNNEL_VXLAN,
            Tunnel::Gre => flags::TX_TUNNEL_GRE,
            Tunnel::Ip => flags::TX_TUNNEL_IPIP,
        };
        if frame.tunnel != Tunnel::None {
            ol_flags |= if frame.outer_ipv4 { flags::TX_OUTER_IPV4 } else { flags::TX_OUTER_IPV6 };
        }
        ol_flags |= match (frame.transport, cut.segs > 1) {
            (Transport::Tcp, true) => flags::TX_TCP_SEG,
            (Transport::Udp, true) => flags::TX_UDP_SEG,
            (Transport::Tcp, false) => flags::TX_TCP_CKSUM,
            (Transport::Udp, false) => flags::TX_UDP_CKSUM,
        };
        ol_flags |= if frame.ipv4 { flags::TX_IPV4 } else { flags::TX_IPV6 };
        if frame.ipv4 && cut.segs > 1 && self.ipv4_checksum {
            ol_flags |= flags::TX_IP_CKSUM;
        }
        packet.set_ol_flags(ol_flags);
        packet.set_tx_offload(TxOffload {
            l2_len: frame.l2_len,
            l3_len: frame.l3_len,
            l4_len: frame.l4_len,
            tso_segsz: cut.gso_size,
            outer_l3_len: frame.outer_l3_len,
            outer_l2_len: frame.outer_l2_len,
        });
    }
}

/// Transmit offloads to ask a port for.
pub fn wanted(tso: Toggle, driver: &str) -> TxOffloads {
    let checksums = TxOffloads::IPV4_CKSUM | TxOffloads::TCP_CKSUM | TxOffloads::UDP_CKSUM;
    match tso {
        Toggle::Auto if known_fault(driver).is_some() => checksums,
        Toggle::Off => checksums,
        Toggle::Auto | Toggle::On => checksums | TxOffloads::TCP_TSO,
    }
}

impl Verdict {
    /// Nothing is left to the port.
    pub const NONE: Self = Self { offload: Offload::NONE, segmentation: Segmentation::Off };

    /// Looks at a started port. `enabled` are the transmit offloads in force; `pool` lends a buffer for
    /// each sample, and without one nothing can be said, so that nothing is left to the port.
    pub fn new(info: &PortInfo, enabled: TxOffloads, tso: Toggle, tx: &mut TxQueue, pool: &Mempool) -> Self {
        let fault = known_fault(&info.driver);
        let has = |what| enabled.contains(what);
        let mut offload = Offload {
            tcp_checksum: has(TxOffloads::TCP_CKSUM) && passes(Sample::TCP, tx, pool),
            udp_checksum: has(TxOffloads::UDP_CKSUM) && passes(Sample::UDP, tx, pool),
            ipv4_checksum: has(TxOffloads::IPV4_CKSUM),
            max_segs: NonZeroU16::new(info.tso_segs.saturating_sub(1)).unwrap_or(NonZeroU16::MIN),
            max_buffers: info.mtu_segs,
            ..Offload::NONE
        };
        // A driver that passes marks on without saying so can be told to.
        let offered = has(TxOffloads::TCP_TSO) || tso == Toggle::On && info.driver == VHOST;
        let segmentation = match (tso, fault) {
            (Toggle::Off, _) => Segmentation::Off,
            (Toggle::Auto, Some(fault)) => Segmentation::KnownFault(fault),
            _ if !offered => Segmentation::NotOffered,
            _ => {
                let mut sample =
                    |sample| passes(Sample { ipv4_checksum: offload.ipv4_checksum, ..sample }, tx, pool);
                offload.tso_v4 = sample(Sample::TSO_V4) && sample(Sample::TSO_VLAN);
                offload.tso_v6 = sample(Sample::TSO_V6);
                if offload.segments() { Segmentation::Works } else { Segmentation::Refused }
            }
        };
        Self { offload, segmentation }
    }
}

/// What is known to be wrong with a driver's segmentation.
fn known_fault(driver: &str) -> Option<&'static str> {
    FAULTS.iter().find(|(name, _)| *name == driver).map(|(_, fault)| *fault)
}

/// A frame to show to `tx_prepare`.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    v6: bool,
    vlan: bool,
    udp: bool,
    segment: bool,
    ipv4_checksum: bool,
}

impl Sample {
    pub(crate) const TCP: Self =
        Self { v6: false, vlan: false, udp: false, segment: false, ipv4_checksum: false };
    const UDP: Self = Self { udp: true, ..Self::TCP };
    pub(crate) const TSO_V4: Self = Self { segment: true, ..Self::TCP };
    const TSO_V6: Self = Self { v6: true, ..Self::TSO_V4 };
    const TSO_VLAN: Self = Self { vlan: true, ..Self::TSO_V4 };

    /// It as a packet with its marks; none if there is no buffer.
    pub(crate) fn packet(self, pool: &Mempool) -> Option<Mbuf> {
        let mut packet = Mbuf::from_bytes(pool, &self.frame()).ok()?;
        let frame = gso::Offload {
            tunnel: Tunnel::None,
            outer_l2_len: 0,
            outer_l3_len: 0,
            l2_len: if self.vlan { 18 } else { 14 },
            l3_len: if self.v6 { 40 } else { 20 },
            l4_len: if self.udp { 8 } else { 20 },
            transport: if self.udp { Transport::Udp } else { Transport::Tcp },
            outer_ipv4: false,
            ipv4: !self.v6,
            checksum: true,
            segmentation: true,
        };
        let (segs, gso_size) = if self.segment { (2, 1_000) } else { (1, 0) };
        let cut = Cut { payload: 0..0, frame_len: packet.pkt_len(), segs, gso_size, header_len: 0 };
        let port = Offload { ipv4_checksum: self.ipv4_checksum, ..Offload::NONE };
        port.mark(&mut packet, &cut, &frame);
        Some(packet)
    }

    /// The frame: two segments of 1000 bytes, or a small one whose checksum is left to the port.
    fn frame(self) -> Vec<u8> {
        let payload = if self.segment { 2_000 } else { 100 };
        let l4 = if self.udp { 8 } else { 20 };
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if self.vlan {
            frame.extend([0x81, 0, 0, 1]);
        }
        frame.extend(if self.v6 { [0x86, 0xdd] } else { [8, 0] });
        let (protocol, len) = (if self.udp { 17 } else { 6 }, (l4 + payload) as u16);
        if self.v6 {
            let [high, low] = len.to_be_bytes();
            frame.extend([0x60, 0, 0, 0, high, low, protocol, 64]);
            frame.extend([[0xfd; 16], [0xfc; 16]].concat());
        } else {
            let [high, low] = (len + 20).to_be_bytes();
            frame.extend([0x45, 0, high, low, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend([192, 0, 2, 1, 198, 51, 100, 1]);
        }
        frame.extend([0x30, 0, 0, 80]);
        if self.udp {
            frame.extend([len.to_be_bytes(), [0, 0]].concat());
        } else {
            frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        }
        frame.resize(frame.len() + payload, 0);
        frame
    }
}

/// Whether the driver's `tx_prepare` lets a sample pass. It is not sent.
fn passes(sample: Sample, tx: &mut TxQueue, pool: &Mempool) -> bool {
    let Some(mut packet) = sample.packet(pool) else { return false };
    tx.prepare(std::slice::from_mut(&mut packet)).refused.is_none()
}

const TUNNELS: u64 = flags::TX_OUTER_IPV4 | flags::TX_OUTER_IPV6;

const VHOST: &str = "net_vhost";

/// Drivers whose segmentation does not work (DPDK 22.11; of net_tap, 26.03 too).
const FAULTS: [(&str, &str); 2] = [
    (
        "net_tap",
        "it compares segment size and headers with the MTU as if Ethernet were part of it, and then never \
         takes the frame: segments of 1460 bytes at an MTU of 1500 stop it; IPv6 it sends whole",
    ),
    (VHOST, "it passes marks on to its peer even if the peer does not understand them"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_with_a_known_fault_is_asked_only_if_it_is_insisted_on() {
        assert!(!wanted(Toggle::Auto, "net_tap").contains(TxOffloads::TCP_TSO));
        assert!(wanted(Toggle::On, "net_tap").contains(TxOffloads::TCP_TSO));
        assert!(wanted(Toggle::Auto, "net_virtio_user").contains(TxOffloads::TCP_TSO));
        assert!(!wanted(Toggle::Off, "net_virtio_user").contains(TxOffloads::TCP_TSO));
    }

    #[test]
    fn only_what_a_port_does_is_left_to_it() {
        let port = Offload { tso_v4: true, tcp_checksum: true, ..Offload::NONE };
        let v4 = flags::TX_TCP_SEG | flags::TX_IPV4;
        assert!(port.does(v4) && port.does(flags::TX_TCP_CKSUM | flags::TX_IPV6) && port.does(0));
        assert!(!port.does(flags::TX_TCP_SEG | flags::TX_IPV6));
        assert!(!port.does(flags::TX_UDP_CKSUM | flags::TX_IPV4));
        assert!(!port.does(v4 | flags::TX_OUTER_IPV4 | flags::TX_TUNNEL_VXLAN));
        assert!(!port.does(flags::TX_UDP_SEG | flags::TX_IPV4));
        let mut given_up = port;
        given_up.give_up(v4);
        assert!(!given_up.does(v4) && given_up.does(flags::TX_TCP_CKSUM | flags::TX_IPV4));
    }
}
