//! What cake lets onto a wire, in virtual time: the rate within one frame of the ideal, and the
//! bytes of each link-layer preset counted one by one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use shaper::conformance::{Conformance, Linux, Weir};
use shaper::packet::{Arrival, DsField, Piece};
use shaper::qdisc::cake::{Cake, Diffserv, Params};
use shaper::rng::{Rng, SplitMix};
use shaper::time::Instant;
use shaper::units::Rate;

/// From a random number to the length of a frame in bytes.
type Length = fn(u32) -> u32;

/// A frame that left: when, its length, and the bytes it was charged.
struct Sent {
    at: Instant,
    frame: u32,
    adjusted: u32,
}

/// Sends `frames` frames of the lengths that `length` draws, from a queue that never runs empty,
/// each as soon as cake says that it may.
fn backlog<C: Conformance>(params: &Params, frames: usize, length: impl Fn(u32) -> u32) -> Vec<Sent> {
    let mut cake = Cake::<u32, C>::new(params, 64);
    let (mut dice, mut lengths) = (SplitMix::new(1, 2), SplitMix::new(3, 4));
    let mut now = Instant::from_nanos(1_000_000_007);
    let mut sent = Vec::with_capacity(frames);
    while sent.len() < frames {
        while cake.len() < 30 {
            let len = length(lengths.next_u32());
            let arrival = Arrival {
                flow_hash: lengths.next_u32() % 5,
                ds: DsField::ip(2),
                network_offset: 14,
                len,
                ..Arrival::default()
            };
            let piece = std::iter::once(Piece::single(len, len, 2_304));
            cake.enqueue(now, &mut dice, &arrival, piece, &mut |_, _| panic!("nothing is lost"));
        }
        match cake.dequeue(now, &mut dice, &mut |_, _| ()) {
            Some(it) => sent.push(Sent { at: now, frame: it.packet, adjusted: it.adjusted }),
            None => now = cake.next_wakeup().filter(|&at| at > now).unwrap(),
        }
    }
    sent
}

fn besteffort(rate: u64) -> Params {
    Params {
        bandwidth: Some(Rate::from_bits_per_sec(rate)),
        diffserv: Diffserv::BestEffort,
        ..Params::default()
    }
}

/// How far a frame left before and after its time on an ideal wire at most, in bytes.
fn error(rate: u64, sent: &[Sent]) -> (f64, f64) {
    let (mut early, mut late, mut bytes) = (0.0_f64, 0.0_f64, 0_u64);
    for it in sent {
        let carried = it.at.since(sent[0].at).as_nanos() as f64 * rate as f64 / 8e9;
        early = early.max(bytes as f64 - carried);
        late = late.max(carried - bytes as f64);
        bytes += u64::from(it.adjusted);
    }
    (early, late)
}

const RATES: [u64; 10] = [
    128_000,
    1_000_000,
    10_000_000,
    33_333_333,
    100_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
    25_000_000_000,
    40_000_000_000,
];

/// Of 100,000 frames, none leaves more than one frame before or after its time.
#[test]
fn the_rate_is_within_one_frame_of_the_ideal() {
    let sizes: [(&str, Length); 3] =
        [("full", |_| 1_514), ("small", |_| 60), ("mixed", |draw| 60 + draw % 1_455)];
    for rate in RATES {
        for (name, length) in sizes {
            let sent = backlog::<Weir>(&besteffort(rate), 100_000, length);
            let longest = sent.iter().map(|it| it.adjusted).max().unwrap();
            let (early, late) = error(rate, &sent);
            assert!(
                early <= f64::from(longest) && late <= f64::from(longest),
                "{rate} bit/s, {name}: {early:.1} bytes early, {late:.1} late, frame {longest}"
            );
        }
    }
}

/// Where charges are cut to whole nanoseconds, the line is a quarter of a percent too fast.
#[test]
fn cut_nanoseconds_make_a_fast_line_faster() {
    let full = |_| 1_514;
    let (early, _) = error(40_000_000_000, &backlog::<Linux>(&besteffort(40_000_000_000), 100_000, full));
    let percent = 100.0 * early / (100_000.0 * 1_514.0);
    assert!((0.26..0.27).contains(&percent), "{percent}");
}

/// Frames that come when they come: each leaves when the ideal is through with those before.
#[test]
fn departures_after_gaps_and_bursts_are_those_of_an_ideal_wire() {
    for rate in RATES {
        let frame = 1_514.0 * 8e9 / rate as f64;
        let mut cake = Cake::<u32, Weir>::new(&besteffort(rate), 4_096);
        let (mut dice, mut lengths) = (SplitMix::new(1, 2), SplitMix::new(5, 6));
        let (mut now, mut free) = (Instant::from_nanos(1), 0.0_f64);
        for _ in 0..2_000 {
            let burst = 1 + lengths.next_u32() % 6;
            let arrived = now;
            let lens: Vec<u32> = (0..burst).map(|_| 60 + lengths.next_u32() % 1_455).collect();
            for &len in &lens {
                let arrival = Arrival { ds: DsField::ip(2), network_offset: 14, ..Arrival::default() };
                let piece = std::iter::once(Piece::single(len, len, 2_304));
                cake.enqueue(now, &mut dice, &arrival, piece, &mut |_, _| panic!("nothing is lost"));
            }
            for len in lens {
                free = free.max(arrived.as_nanos() as f64);
                let sent = loop {
                    match cake.dequeue(now, &mut dice, &mut |_, _| panic!("nothing is lost")) {
                        Some(sent) => break sent,
                        None => now = cake.next_wakeup().filter(|&at| at > now).unwrap(),
                    }
                };
                assert_eq!(sent.packet, len);
                let error = now.as_nanos() as f64 - free;
                assert!(error.abs() <= frame, "{rate} bit/s: {error} ns, a frame takes {frame}");
                free += f64::from(sent.adjusted) * 8e9 / rate as f64;
            }
            // Up to a full frame after the last one began: sometimes the wire falls idle, sometimes not.
            let gap = (f64::from(lengths.next_u32() % 256) / 128.0 * 0.5 * frame) as u64;
            now = Instant::from_nanos(now.as_nanos() + gap);
        }
    }
}

/// What follows the words on a wire: the bytes around an IP packet, the shortest frame, and the
/// code of the link.
#[derive(Clone, Copy)]
enum Code {
    Plain,
    /// 48 bytes in each cell of 53; the last one is padded.
    Cells,
    /// A byte before each 64; the last ones may be fewer.
    Blocks,
}

const ETHERNET: &[u32] = &[6, 6, 2];
const FCS: &[u32] = &[4];
const PPP: &[u32] = &[2];
const PPPOE: &[u32] = &[6, 2];
const AAL5: &[u32] = &[8];
/// LLC 3, OUI 3, PID 2, padding 2 before a bridged frame; LLC 3, OUI 3, EtherType 2 before IP.
const SNAP_BRIDGED: &[u32] = &[3, 3, 2, 2];
const SNAP_ROUTED: &[u32] = &[3, 3, 2];
/// Padding before a bridged frame in a channel of its own.
const VC_BRIDGED: &[u32] = &[2];
/// LLC 2, control 1, NLPID 1.
const LLC: &[u32] = &[2, 1, 1];
/// Start and end of a frame, and a checksum.
const PTM: &[u32] = &[1, 1, 2];
/// Preamble and start before a frame, gap behind it.
const LINE: &[u32] = &[7, 1, 12];
const VLAN: &[u32] = &[4];

/// The words of tc-cake(8), what lies around an IP packet on such a link, the shortest frame.
const LINKS: [(&str, &[&[u32]], u32, Code); 16] = [
    ("pppoa-vcmux", &[PPP, AAL5], 0, Code::Cells),
    ("pppoa-llc", &[LLC, PPP, AAL5], 0, Code::Cells),
    ("pppoe-vcmux", &[VC_BRIDGED, ETHERNET, PPPOE, AAL5], 0, Code::Cells),
    ("pppoe-llcsnap", &[SNAP_BRIDGED, ETHERNET, PPPOE, AAL5], 0, Code::Cells),
    ("bridged-vcmux", &[VC_BRIDGED, ETHERNET, AAL5], 0, Code::Cells),
    ("bridged-llcsnap", &[SNAP_BRIDGED, ETHERNET, AAL5], 0, Code::Cells),
    ("ipoa-vcmux", &[AAL5], 0, Code::Cells),
    ("ipoa-llcsnap", &[SNAP_ROUTED, AAL5], 0, Code::Cells),
    ("pppoe-ptm", &[PTM, ETHERNET, PPPOE, FCS], 0, Code::Blocks),
    ("bridged-ptm", &[PTM, ETHERNET, FCS], 0, Code::Blocks),
    ("bridged-ptm ether-vlan", &[PTM, ETHERNET, VLAN, FCS], 0, Code::Blocks),
    ("docsis", &[ETHERNET, FCS], 64, Code::Plain),
    ("ethernet", &[LINE, ETHERNET, FCS], 84, Code::Plain),
    ("ethernet ether-vlan", &[LINE, ETHERNET, VLAN, FCS], 84, Code::Plain),
    ("conservative", &[&[48]], 0, Code::Cells),
    ("raw", &[ETHERNET], 0, Code::Plain),
];

/// Bytes on the wire, counted one by one.
fn on_wire(frame: u32, around: &[&[u32]], shortest: u32, code: Code) -> u32 {
    let packet = frame - 14 + around.iter().flat_map(|part| *part).sum::<u32>();
    let bytes = packet.max(shortest);
    let mut wire = 0;
    for byte in 0..bytes {
        match code {
            Code::Plain => wire += 1,
            Code::Cells if byte % 48 == 0 => wire += 53,
            Code::Cells => (),
            Code::Blocks => wire += 1 + u32::from(byte % 64 == 0),
        }
    }
    wire
}

/// Each frame is charged what it takes on the link, and the link is never asked for more than it
/// carries.
#[test]
fn the_bytes_on_the_wire_of_each_preset_are_exact() {
    for (words, around, shortest, code) in LINKS {
        let rate = 20_000_000;
        let params = Params { overhead: words.parse().unwrap(), ..besteffort(rate) };
        let sent = backlog::<Weir>(&params, 5_000, |draw| 60 + draw % 1_455);
        for it in &sent {
            assert_eq!(it.adjusted, on_wire(it.frame, around, shortest, code), "{words}, {}", it.frame);
        }
        let (early, late) = error(rate, &sent);
        let longest = f64::from(sent.iter().map(|it| it.adjusted).max().unwrap());
        assert!(early <= longest && late <= longest, "{words}: {early} {late}");
    }
}
