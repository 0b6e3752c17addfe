//! weir's splitter beside the kernel's own segmentation, byte for byte. Needs root (TAPs, a namespace), no DPDK port.
//!
//! The same super-packet goes to the kernel through a TAP with `IFF_VNET_HDR`, is passed on unrouted (`u32`, `mirred`)
//! to a veth that takes neither TSO nor checksums, so that the kernel must cut it, and from the veth's peer to a plain
//! TAP that it is read from, tags and all. What comes out must equal what weir makes of it.
//!
//! Where weir means to differ stands in [`EXCEPTIONS`]; everything else must be the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::io::{Write, stderr};
use std::num::NonZeroU16;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use hwtests::clock::Interrupt;
use hwtests::netns::Netns;
use hwtests::process::{require, require_root, run};
use hwtests::super_packet::{CWR, Draw, ECE, FIN, PSH, RST, SYN, Shape, SuperPacket, Transport, URG, Vxlan};
use hwtests::tap::{Tap, VNET_HEADER_LEN};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use shaper::gso::{Checksums, Cut, Ids, Plan, Refusal, Request, Tunnel};
use shaper::wire::checksum::Sum;

type Frames = Vec<Vec<u8>>;
type FramesOf = fn(&SuperPacket) -> Result<Frames, Refusal>;
type Feature = (&'static str, fn(&SuperPacket) -> bool);

#[test]
fn every_super_packet_is_cut_as_the_kernel_cuts_it() {
    let mut rig = Rig::new("p");
    compare(&mut rig, Shape::Plain, Draw::new(1), FEATURES_OF_PLAIN);
}

#[test]
fn every_super_packet_in_vxlan_is_cut_as_the_kernel_cuts_it() {
    let mut rig = Rig::new("v");
    if !rig.tunnels {
        say("NOT COMPARED: VXLAN. This kernel takes no tunnels from a TAP (Linux 6.17 does)");
        say("VXLAN, like all other tunnels, is covered by the property tests in shaper::gso alone");
        return;
    }
    compare(&mut rig, Shape::Vxlan, Draw::new(2), FEATURES_OF_VXLAN);
    say(
        "NOT COMPARED: GRE, IPIP, 6in4 (no virtio_net_hdr tells of them), PPPoE, MPLS (Linux 6.18 drops them)",
    );
    say("these are covered by the property tests in shaper::gso alone");
}

#[test]
fn weir_differs_where_it_means_to_and_as_it_means_to() {
    let mut rig = Rig::new("e");
    let mut draw = Draw::new(3);
    for Exception { shape, what, holds } in EXCEPTIONS {
        for number in 0..PACKETS_OF_AN_EXCEPTION {
            let packet = draw.packet(*shape);
            let kernel = rig.frames_of(&packet);
            assert!(
                holds(&packet, &kernel, &frames_of(&packet, 1)),
                "{what}: no longer so of {shape:?} {number}"
            );
        }
        say(&format!("{PACKETS_OF_AN_EXCEPTION} super-packets differ: {what}"));
    }
}

/// Something that weir does otherwise than the kernel.
struct Exception {
    shape: Shape,
    what: &'static str,
    holds: fn(&SuperPacket, kernel: &Frames, weir: &Result<Frames, Refusal>) -> bool,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        shape: Shape::Flags(URG),
        what: "the kernel copies an urgent pointer to every segment; weir moves it with the payload it points to",
        holds: |packet, kernel, weir| {
            let same = |frames: &Frames| -> Frames {
                frames.iter().map(|frame| without_urgency(frame, packet.transport_at)).collect()
            };
            weir.as_ref().is_ok_and(|weir| kernel != weir && same(kernel) == same(weir))
        },
    },
    Exception {
        shape: Shape::Flags(SYN),
        what: "the kernel copies SYN to every segment, each of which opens a connection; weir refuses",
        holds: |_, kernel, weir| kernel.len() > 1 && *weir == Err(Refusal::Flags),
    },
    Exception {
        shape: Shape::Flags(RST),
        what: "the kernel copies RST to every segment; weir refuses",
        holds: |_, kernel, weir| kernel.len() > 1 && *weir == Err(Refusal::Flags),
    },
    Exception {
        shape: Shape::Options(&[19, 18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1, 1]),
        what: "the kernel copies the MD5 signature of TCP to every segment, which is right for none; weir refuses",
        holds: |_, kernel, weir| kernel.len() > 1 && *weir == Err(Refusal::Signed),
    },
    Exception {
        shape: Shape::Options(&[29, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        what: "the kernel copies the signature of TCP-AO to every segment, which is right for none; weir refuses",
        holds: |_, kernel, weir| kernel.len() > 1 && *weir == Err(Refusal::Signed),
    },
];

/// All ways to cut that there are; each must give the frames that the kernel gives. The place for one more splitter.
const CUTTERS: &[(&str, FramesOf)] = &[
    ("a segment a piece", |packet| frames_of(packet, 1)),
    ("2 segments a piece, cut again", |packet| frames_of_pieces_of(packet, 2)),
    ("8 segments a piece, cut again", |packet| frames_of_pieces_of(packet, 8)),
    ("whole, cut again", |packet| frames_of_pieces_of(packet, u16::MAX)),
    ("unmarked, cut at the MTU", frames_of_unmarked),
];

/// Has packets of one shape cut by the kernel and by every cutter, and says what they were.
fn compare(rig: &mut Rig, shape: Shape, mut draw: Draw, features: &[Feature]) {
    let packets: Vec<_> = (0..PACKETS).map(|_| draw.packet(shape)).collect();
    let (mut frames, mut zero_sums, mut left_to_nic, mut differences) = (0, 0, 0, Vec::new());
    for (number, packet) in packets.iter().enumerate() {
        let kernel = rig.frames_of(packet);
        frames += kernel.len();
        let udp = packet.transport == Transport::Udp;
        zero_sums += usize::from(udp && kernel[0][packet.transport_at + 6..][..2] == [0xff; 2]);
        let mut all: Vec<_> = CUTTERS.iter().map(|(name, cutter)| (*name, cutter(packet))).collect();
        if let Some(by_nic) = frames_of_nic(rig, packet, 4) {
            left_to_nic += 1;
            all.push(("4 segments a piece, left to a NIC", Ok(by_nic)));
        }
        for (name, weir) in all {
            let what = match weir {
                Ok(weir) => difference(&kernel, &weir),
                Err(refusal) => Some(format!("weir refuses: {}", refusal.name())),
            };
            differences.extend(what.map(|what| format!("packet {number}, {name}: {what}\n{packet}")));
        }
    }
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differences, the first:\n{shown}", differences.len());
    rig.assert_the_veth_carried_all();
    let count = |(name, has): &Feature| (*name, packets.iter().filter(|packet| has(packet)).count());
    let mut counts: Vec<_> = FEATURES.iter().chain(features).map(count).collect();
    counts.extend([("UDP checksum that adds up to zero", zero_sums), ("left to a NIC", left_to_nic)]);
    let seldom: Vec<_> = counts.iter().filter(|(_, count)| *count < PACKETS / 50).collect();
    assert!(seldom.is_empty(), "too few to show anything: {seldom:?}");
    let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    say(&format!(
        "{PACKETS} super-packets ({shape:?}) became the same {frames} frames: {}",
        counts.join(", ")
    ));
}

/// Where the two differ first.
fn difference(kernel: &Frames, weir: &Frames) -> Option<String> {
    let differ = |(kernel, weir): (&Vec<u8>, &Vec<u8>)| kernel != weir;
    let Some(index) = kernel.iter().zip(weir).position(differ) else {
        let counts = (kernel.len(), weir.len());
        return (counts.0 != counts.1).then(|| format!("kernel {} frames, weir {}", counts.0, counts.1));
    };
    let (kernel, weir) = (&kernel[index], &weir[index]);
    let at = kernel.iter().zip(weir).take_while(|(kernel, weir)| kernel == weir).count();
    let show =
        |frame: &[u8]| format!("{:02x?}… of {} bytes", &frame[at..frame.len().min(at + 16)], frame.len());
    Some(format!("frame {index} from byte {at}: kernel {}, weir {}", show(kernel), show(weir)))
}

/// Flags, checksum and pointer blanked.
fn without_urgency(frame: &[u8], transport_at: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[transport_at + 13] &= !URG;
    frame[transport_at + 16..transport_at + 20].fill(0);
    frame
}

/// What weir makes of it.
fn frames_of(packet: &SuperPacket, segs_per_piece: u16) -> Result<Frames, Refusal> {
    Ok(frames_of_plan(packet, &plan(packet, segs_per_piece)?))
}

/// What weir makes of it for a port whose MTU is one of its segments, without its mark; UDP cannot do without.
fn frames_of_unmarked(packet: &SuperPacket) -> Result<Frames, Refusal> {
    if packet.transport == Transport::Udp || packet.gso_size == 0 {
        return frames_of(packet, 1);
    }
    let headers_len = packet.payload_at - packet.outer_network_at();
    let request =
        Request { mtu: headers_len as u32 + u32::from(packet.gso_size), gso_size: 0, ids: Ids::Increment };
    Ok(frames_of_plan(packet, &Plan::new(&packet.frame, packet.frame.len() as u32, &request)?))
}

fn frames_of_plan(packet: &SuperPacket, plan: &Plan<'_>) -> Frames {
    let piece = |(index, cut): (usize, Cut)| {
        let payload = &packet.frame[cut.payload.start as usize..cut.payload.end as usize];
        written(plan, index, payload, Checksums::Software(Sum::default().bytes(payload)))
    };
    plan.cuts().enumerate().map(piece).collect()
}

/// What weir makes of the pieces that it makes.
fn frames_of_pieces_of(packet: &SuperPacket, segs_per_piece: u16) -> Result<Frames, Refusal> {
    let pieces = frames_of(packet, segs_per_piece)?.into_iter();
    let again: Result<Vec<_>, _> =
        pieces.map(|frame| frames_of(&SuperPacket { frame, ..packet.clone() }, 1)).collect();
    Ok(again?.concat())
}

/// What a NIC makes of pieces that weir leaves to it, with the kernel for a NIC; none if weir would not.
fn frames_of_nic(rig: &mut Rig, packet: &SuperPacket, segs_per_piece: u16) -> Option<Frames> {
    let plan = plan(packet, segs_per_piece).ok()?;
    let nic = plan.offload().filter(|offload| offload.segmentation)?;
    let outer_len = usize::from(nic.outer_l2_len + nic.outer_l3_len);
    let network_at = outer_len + usize::from(nic.l2_len);
    let transport_at = network_at + usize::from(nic.l3_len);
    let vxlan = Vxlan { ipv6: !nic.outer_ipv4, summed: false, udp_at: outer_len, network_at };
    let mut frames = Vec::new();
    for (index, cut) in plan.cuts().enumerate() {
        let payload = &packet.frame[cut.payload.start as usize..cut.payload.end as usize];
        let mut piece = SuperPacket {
            frame: written(&plan, index, payload, Checksums::Offload),
            transport: packet.transport,
            ipv6: !nic.ipv4,
            gso_size: cut.gso_size,
            transport_at,
            payload_at: transport_at + usize::from(nic.l4_len),
            tunnel: (nic.tunnel == Tunnel::Vxlan).then_some(vxlan),
        };
        if cut.segs > 1 {
            piece.add_length_to_checksum();
        }
        frames.extend(rig.frames_of(&piece));
    }
    Some(frames)
}

fn plan(packet: &SuperPacket, segs_per_piece: u16) -> Result<Plan<'_>, Refusal> {
    // A frame that lacks but its checksum is a single segment.
    let gso_size = if packet.gso_size == 0 { packet.payload_len() as u16 } else { packet.gso_size };
    let request = Request { mtu: MTU, gso_size, ids: Ids::Increment };
    let plan = Plan::new(&packet.frame, packet.frame.len() as u32, &request)?;
    Ok(plan.with_segs_per_piece(NonZeroU16::new(segs_per_piece).unwrap()))
}

fn written(plan: &Plan<'_>, index: usize, payload: &[u8], checksums: Checksums) -> Vec<u8> {
    let mut piece = vec![0; plan.header_len().into()];
    plan.write(index as u16, checksums, &mut piece).unwrap();
    piece.extend(payload);
    piece
}

/// The kernel's way: a TAP, a veth pair and another TAP in a namespace that goes with them.
struct Rig {
    netns: Netns,
    into: Tap,
    out: Tap,
    /// Whether the kernel takes super-packets in tunnels.
    tunnels: bool,
    /// Bytes of all frames that came out.
    received: usize,
    markers: u32,
}

impl Rig {
    /// `letter` tells the rigs of one process apart.
    fn new(letter: &str) -> Self {
        require_root().unwrap();
        require(&[
            ("ip", "iproute2"),
            ("tc", "iproute2"),
            ("ethtool", "ethtool"),
            ("nsenter", "util-linux"),
            ("perl", "perl-base"),
        ])
        .unwrap();
        // Frames wait in a queue of each CPU between one end of the veth and the other: on one CPU they stay in order.
        let mut cpu = CpuSet::new();
        cpu.set(sched_getcpu());
        sched_setaffinity(None, &cpu).unwrap();
        let netns = Netns::new("kernel", None, &Interrupt::install().unwrap()).unwrap();
        let [into, out] = ["i", "o"].map(|end| format!("k{letter}{end}{}", std::process::id()));
        let (into_tap, tunnels) = Tap::with_vnet_header(&into).unwrap();
        let out_tap = Tap::new(&out).unwrap();
        for tap in [&into, &out] {
            run(Command::new("ip").args(["link", "set", tap, "netns", &netns.pid().to_string()])).unwrap();
        }
        run(netns.command("sh").args(["-c", PATH_THROUGH_THE_KERNEL, "sh", &into, &out, &MTU.to_string()]))
            .expect(
                "the path needs a kernel with CONFIG_VETH, NET_SCH_INGRESS, NET_CLS_U32 and NET_ACT_MIRRED",
            );
        let mut rig = Self { netns, into: into_tap, out: out_tap, tunnels, received: 0, markers: 0 };
        rig.wait_for_the_path();
        rig
    }

    /// The kernel drops what is sent until it has seen, in its own time, that an interface has come up.
    fn wait_for_the_path(&mut self) {
        let found = (0..200).any(|_| {
            self.send_marker();
            self.frames_before_the_marker(Duration::from_millis(50)).is_ok()
        });
        assert!(found, "no frame came through the kernel");
    }

    /// What the kernel makes of it: all that comes out before a marker that is sent after it.
    fn frames_of(&mut self, packet: &SuperPacket) -> Frames {
        self.into
            .send(&[&packet.vnet_header()[..], &packet.frame].concat())
            .unwrap_or_else(|error| panic!("{error:#}: {packet}"));
        self.send_marker();
        self.frames_before_the_marker(Duration::from_secs(10)).unwrap()
    }

    fn send_marker(&mut self) {
        self.markers += 1;
        self.into.send(&[&[0; VNET_HEADER_LEN][..], &marker(self.markers)].concat()).unwrap();
    }

    fn frames_before_the_marker(&mut self, patience: Duration) -> Result<Frames> {
        let marker = marker(self.markers);
        let mut frames = Vec::new();
        loop {
            let frame = self.out.receive(patience)?;
            self.received += frame.len();
            if frame == marker {
                return Ok(frames);
            }
            frames.push(frame.to_vec());
        }
    }

    /// They were cut in front of the veth: it carried every header of theirs.
    fn assert_the_veth_carried_all(&self) {
        let carried = self.netns.bytes("v1").unwrap().received;
        assert_eq!(carried, self.received as u64, "the kernel cut behind the veth");
    }
}

/// An ordinary frame of a protocol for experiments (IEEE 802), each different.
fn marker(number: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Past the test runner, which keeps what a passing test prints; in one write, since tests run side by side.
fn say(line: &str) {
    stderr().write_all(format!("kernel segmentation: {line}\n").as_bytes()).unwrap();
}

/// What must occur often enough among the packets of every shape.
const FEATURES: &[Feature] = &[
    ("IPv4", |packet| !packet.ipv6),
    ("IPv6", |packet| packet.ipv6),
    ("TCP", |packet| packet.transport == Transport::Tcp),
    ("UDP", |packet| packet.transport == Transport::Udp),
    ("one tag", |packet| packet.tags() == 1),
    ("two tags", |packet| packet.tags() == 2),
    ("IPv4 options", |packet| !packet.ipv6 && packet.network_len() > 20),
    ("IPv6 extensions", |packet| packet.ipv6 && packet.network_len() > 40),
    ("DF", |packet| !packet.ipv6 && packet.frame[packet.network_at() + 6] & 0x40 != 0),
    ("no DF", |packet| !packet.ipv6 && packet.frame[packet.network_at() + 6] & 0x40 == 0),
    ("id wraps", |packet| !packet.ipv6 && packet.frame[packet.network_at() + 4..][..2] == [0xff; 2]),
    ("TCP options", |packet| {
        packet.transport == Transport::Tcp && packet.payload_at > packet.transport_at + 20
    }),
    ("PSH", |packet| packet.has_flag(PSH)),
    ("FIN", |packet| packet.has_flag(FIN)),
    ("ECE", |packet| packet.has_flag(ECE)),
    ("CWR", |packet| packet.has_flag(CWR)),
    ("odd size", |packet| packet.gso_size % 2 == 1),
    ("odd length", |packet| packet.payload_len() % 2 == 1),
];
const FEATURES_OF_PLAIN: &[Feature] = &[("checksum alone", |packet| packet.gso_size == 0)];
const FEATURES_OF_VXLAN: &[Feature] = &[
    ("IPv4 outside", |packet| packet.tunnel.is_some_and(|tunnel| !tunnel.ipv6)),
    ("IPv6 outside", |packet| packet.tunnel.is_some_and(|tunnel| tunnel.ipv6)),
    ("checksum outside", |packet| packet.tunnel.is_some_and(|tunnel| tunnel.summed)),
    ("no checksum outside", |packet| packet.tunnel.is_some_and(|tunnel| !tunnel.summed)),
];

/// Of each shape; a few hundred take about a second.
const PACKETS: usize = 400;
const PACKETS_OF_AN_EXCEPTION: usize = 20;
/// Above all segment sizes that are drawn with all headers around them.
const MTU: u32 = 9500;
/// `$1` the TAP that super-packets come from, `$2` the one that frames leave by. Without IPv6 the kernel has nothing of
/// its own to say on these interfaces.
const PATH_THROUGH_THE_KERNEL: &str = r#"
    set -e
    for conf in all default; do
        file=/proc/sys/net/ipv6/conf/$conf/disable_ipv6
        ! [ -e $file ] || echo 1 >$file
    done
    ip link add v0 mtu $3 type veth peer name v1 mtu $3
    ethtool -K v0 tx off tso off gso off sg off txvlan off tx-vlan-stag-hw-insert off
    ethtool -K v1 gro off
    pass_on() {
        tc qdisc add dev $1 handle ffff: ingress
        tc filter add dev $1 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev $2
    }
    pass_on $1 v0
    pass_on v1 $2
    for end in v0 v1 $1 $2; do ip link set $end mtu $3 up; done
"#;
