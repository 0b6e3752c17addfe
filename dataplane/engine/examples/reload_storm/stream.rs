//! Numbered frames of many flows, and whether they come out whole and in order.

use dpdk::{Burst, Mbuf, Mempool, Ring};
use shaper::rng::{Rng, SplitMix};

/// What goes in and comes out.
pub struct Stream {
    pool: Mempool,
    inlet: Ring,
    outlet: Ring,
    frames: Vec<[u8; FRAME]>,
    dice: SplitMix,
    /// The last number of each flow that went in, and that came out.
    fed: Vec<u32>,
    seen: Vec<u32>,
    pub sent: u64,
    /// Found no room in the ring, or never came out ([`Stream::lost`]).
    pub missed: u64,
    pub overtaken: u64,
}

impl Stream {
    pub fn new(pool: Mempool, inlet: Ring, outlet: Ring) -> Self {
        Self {
            pool,
            inlet,
            outlet,
            frames: (0..FLOWS as u8).map(frame).collect(),
            dice: SplitMix::new(7, 8),
            fed: vec![0; FLOWS],
            seen: vec![0; FLOWS],
            sent: 0,
            missed: 0,
            overtaken: 0,
        }
    }

    /// `count` frames of any flows arrive.
    pub fn feed(&mut self, mut count: usize) {
        while count > 0 {
            let mut burst = Burst::new();
            let wanted = count.min(burst.room());
            count -= wanted;
            let mut flows = [0; Burst::CAPACITY];
            for flow in flows.iter_mut().take(wanted) {
                *flow = self.dice.next_u32() as usize % FLOWS;
                let mut frame = self.frames[*flow];
                frame[FRAME - 4..].copy_from_slice(&(self.fed[*flow] + 1).to_be_bytes());
                self.fed[*flow] += 1;
                burst.push(Mbuf::from_bytes(&self.pool, &frame).expect("buffers for all that can wait")).ok();
            }
            let taken = self.inlet.enqueue(&mut burst);
            self.missed += (wanted - taken) as u64;
        }
    }

    /// Looks at all that was sent.
    pub fn drain(&mut self) {
        let mut burst = Burst::new();
        while self.outlet.dequeue(&mut burst) > 0 {
            for packet in burst.drain() {
                let head = packet.head();
                let flow = usize::from(head[35]);
                let number = u32::from_be_bytes(head[FRAME - 4..FRAME].try_into().unwrap());
                self.overtaken += u64::from(number <= self.seen[flow]);
                self.seen[flow] = self.seen[flow].max(number);
                self.sent += 1;
            }
        }
    }

    /// Frames that are still inside, if none is lost.
    pub fn inside(&self) -> u64 {
        let fed: u64 = self.fed.iter().map(|last| u64::from(*last)).sum();
        fed - self.missed - self.sent
    }

    /// What waits for the worker.
    pub fn arriving(&self) -> u64 {
        self.inlet.len().into()
    }
}

/// UDP over IPv4, from one of 16 hosts, in one of three classes. The last byte of the source port is the flow.
fn frame(flow: u8) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let length = (FRAME - 14) as u16;
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..16].copy_from_slice(&[0x45, [0, 46 << 2, 8 << 2][usize::from(flow) % 3]]);
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[192, 0, 2, 1 + flow % 16, 198, 51, 100, 7]);
    frame[34..38].copy_from_slice(&[4, flow, 0x13, 0x89]);
    frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    let sum: u32 = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

pub const FLOWS: usize = 64;
/// Bytes of a frame.
pub const FRAME: usize = 200;
