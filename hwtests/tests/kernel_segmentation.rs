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

use hwtests::clock::Interrupt;
use hwtests::netns::Netns;
use hwtests::process::{require, require_root, run};
use hwtests::super_packet::{Draw, RST, SYN, Shape, SuperPacket, URG};
use hwtests::tap::{Tap, VNET_HEADER_LEN};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use shaper::gso::{Checksums, Ids, Plan, Refusal, Request};
use shaper::wire::checksum::Sum;

type Frames = Vec<Vec<u8>>;

#[test]
fn every_super_packet_is_cut_as_the_kernel_cuts_it() {
    let mut rig = Rig::new("p");
    let frames = compare(&mut rig, Shape::Plain, Draw::new(1));
    rig.assert_the_veth_carried_all();
    say(&format!("{PACKETS} super-packets, {frames} frames: the same"));
}

#[test]
fn every_super_packet_in_vxlan_is_cut_as_the_kernel_cuts_it() {
    let mut rig = Rig::new("v");
    if !rig.tunnels {
        say("NOT COMPARED: VXLAN. This kernel takes no tunnels from a TAP (Linux 6.17 does)");
        say("VXLAN, like all other tunnels, is covered by the property tests in shaper::gso alone");
        return;
    }
    let frames = compare(&mut rig, Shape::Vxlan, Draw::new(2));
    rig.assert_the_veth_carried_all();
    say(&format!("{PACKETS} super-packets in VXLAN, {frames} frames: the same"));
    say(
        "NOT COMPARED: GRE, IPIP, 6in4, PPPoE, MPLS. A virtio_net_hdr cannot tell of them; shaper::gso has property tests",
    );
}

#[test]
fn weir_differs_where_it_means_to_and_as_it_means_to() {
    let mut rig = Rig::new("e");
    let mut draw = Draw::new(3);
    for Exception { shape, what, holds } in EXCEPTIONS {
        for number in 0..PACKETS_OF_AN_EXCEPTION {
            let packet = draw.packet(*shape);
            let kernel = rig.frames_of(&packet);
            assert!(holds(&packet, &kernel, &cut(&packet, 1)), "{what}: no longer so of {shape:?} {number}");
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

/// All ways to cut that there are; each must give the frames that the kernel gives.
const CUTTERS: &[(&str, fn(&SuperPacket) -> Result<Frames, Refusal>)] = &[
    ("a segment a piece", |packet| cut(packet, 1)),
    ("2 segments a piece, cut again", |packet| cut_twice(packet, 2)),
    ("8 segments a piece, cut again", |packet| cut_twice(packet, 8)),
    ("whole, cut again", |packet| cut_twice(packet, u16::MAX)),
];

/// Has packets of one shape cut by the kernel and by every cutter; the number of frames that the kernel made.
fn compare(rig: &mut Rig, shape: Shape, mut draw: Draw) -> usize {
    let (mut frames, mut differences) = (0, Vec::new());
    for number in 0..PACKETS {
        let packet = draw.packet(shape);
        let kernel = rig.frames_of(&packet);
        frames += kernel.len();
        for (name, cutter) in CUTTERS {
            let difference = match cutter(&packet) {
                Ok(weir) => difference(&kernel, &weir),
                Err(refusal) => Some(format!("refused: {}", refusal.name())),
            };
            differences.extend(difference.map(|what| format!("packet {number}, {name}: {what}\n{packet}")));
        }
    }
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differences, the first:\n{shown}", differences.len());
    frames
}

/// Where the two differ first.
fn difference(kernel: &Frames, weir: &Frames) -> Option<String> {
    for (index, (kernel, weir)) in kernel.iter().zip(weir).enumerate() {
        if kernel != weir {
            let at = kernel.iter().zip(weir).take_while(|(kernel, weir)| kernel == weir).count();
            let show = |frame: &[u8]| {
                format!(
                    "{:02x?} of {} bytes",
                    frame.iter().skip(at).take(16).collect::<Vec<_>>(),
                    frame.len()
                )
            };
            return Some(format!(
                "frame {index} from byte {at}: kernel {}, weir {}",
                show(kernel),
                show(weir)
            ));
        }
    }
    (kernel.len() != weir.len()).then(|| format!("kernel {} frames, weir {}", kernel.len(), weir.len()))
}

/// Flags, checksum and pointer blanked.
fn without_urgency(frame: &[u8], transport_at: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[transport_at + 13] &= !URG;
    frame[transport_at + 16..transport_at + 20].fill(0);
    frame
}

fn cut(packet: &SuperPacket, segs_per_piece: u16) -> Result<Frames, Refusal> {
    // A frame that lacks but its checksum is a single segment.
    let size = if packet.gso_size == 0 { packet.payload_len() as u16 } else { packet.gso_size };
    pieces(&packet.frame, size, segs_per_piece)
}

fn cut_twice(packet: &SuperPacket, segs_per_piece: u16) -> Result<Frames, Refusal> {
    let pieces = cut(packet, segs_per_piece)?;
    let again = pieces.iter().map(|piece| {
        let piece = SuperPacket { frame: piece.clone(), ..packet.clone() };
        cut(&piece, 1)
    });
    Ok(again.collect::<Result<Vec<_>, _>>()?.concat())
}

fn pieces(frame: &[u8], gso_size: u16, segs_per_piece: u16) -> Result<Frames, Refusal> {
    let request = Request { mtu: MTU, gso_size, ids: Ids::Increment };
    let plan = Plan::new(frame, frame.len() as u32, &request)?;
    let plan = plan.with_segs_per_piece(NonZeroU16::new(segs_per_piece).unwrap());
    let piece = |(index, cut): (usize, shaper::gso::Cut)| {
        let payload = &frame[cut.payload.start as usize..cut.payload.end as usize];
        let mut piece = vec![0; plan.header_len().into()];
        let sum = Checksums::Software(Sum::default().bytes(payload));
        plan.write(index as u16, sum, &mut piece).unwrap();
        piece.extend(payload);
        piece
    };
    Ok(plan.cuts().enumerate().map(piece).collect())
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
        Self { netns, into: into_tap, out: out_tap, tunnels, received: 0, markers: 0 }
    }

    /// What the kernel makes of it: all that comes out before a marker that is sent after it.
    fn frames_of(&mut self, packet: &SuperPacket) -> Frames {
        self.into
            .send(&[&packet.vnet_header()[..], &packet.frame].concat())
            .unwrap_or_else(|error| panic!("{error:#}: {packet}"));
        self.markers += 1;
        let marker = marker(self.markers);
        self.into.send(&[&[0; VNET_HEADER_LEN][..], &marker].concat()).unwrap();
        let mut frames = Vec::new();
        loop {
            let frame = self.out.receive(Duration::from_secs(10)).unwrap();
            self.received += frame.len();
            if frame == marker {
                return frames;
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

/// Past the test runner, which keeps what a passing test prints.
fn say(line: &str) {
    writeln!(stderr(), "kernel segmentation: {line}").unwrap();
}

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
