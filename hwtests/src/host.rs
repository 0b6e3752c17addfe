//! The host side of the model rig: a TAP whose kernel hands over super-packets, as a guest hands them to its host.
//!
//! After `struct virtio_net_hdr` (Virtual I/O Device 1.3, 5.1.6): what the kernel wants cut, and which checksums it left
//! out, become the marks that weir expects of a port, [`flags::RX_LRO`] with the segment size and a partial checksum.
//! What comes back has both done.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};

use anyhow::{Context, Result};
use dpdk::mbuf::flags;
use dpdk::{Burst, Mbuf, Mempool, Ring, TxOffload};

use crate::tap::VNET_HEADER_LEN;

/// The TAP's file between two rings.
#[derive(Debug)]
pub struct Host {
    file: File,
    /// Towards weir.
    inlet: Ring,
    /// From weir.
    outlet: Ring,
    pool: Mempool,
    buffer: Vec<u8>,
    counts: Counts,
}

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames from the kernel.
    pub frames: u64,
    /// Of these with more than one segment.
    pub supers: u64,
    /// Bytes of these.
    pub super_bytes: u64,
    /// Frames that the kernel did not take.
    pub refused: u64,
}

impl Host {
    /// Frames of the kernel go into `inlet`, in buffers of `pool`; those in `outlet` go to the kernel.
    pub fn new(file: File, inlet: Ring, outlet: Ring, pool: Mempool) -> Self {
        Self { file, inlet, outlet, pool, buffer: vec![0; LONGEST], counts: Counts::default() }
    }

    /// Moves what is there, a bounded number of frames each way.
    ///
    /// # Errors
    /// The TAP is gone.
    pub fn step(&mut self) -> Result<()> {
        self.send()?;
        for _ in 0..READS {
            // What is not read waits in the interface's own queue, and is dropped there: the kernel counts it.
            let is_full = self.inlet.len() == self.inlet.capacity() || self.pool.available() < LONGEST_CHAIN;
            if is_full || !self.receive()? {
                break;
            }
        }
        Ok(())
    }

    /// What passed so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn receive(&mut self) -> Result<bool> {
        let len = match self.file.read(&mut self.buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(EIO) => {
                return Ok(false);
            }
            Err(error) => return Err(error).context("cannot read from the host's TAP"),
        };
        let Some((header, frame)) = self.buffer[..len].split_at_checked(VNET_HEADER_LEN) else {
            return Ok(true);
        };
        let mut mbuf = Mbuf::from_bytes(&self.pool, frame)?;
        let marks = Marks::read(header);
        marks.put(&mut mbuf);
        self.counts.frames += 1;
        if marks.gso_size > 0 {
            self.counts.supers += 1;
            self.counts.super_bytes += frame.len() as u64;
        }
        let mut burst = Burst::new();
        let _ = burst.push(mbuf);
        self.inlet.enqueue(&mut burst);
        Ok(true)
    }

    fn send(&mut self) -> Result<()> {
        let mut burst = Burst::new();
        self.outlet.dequeue(&mut burst);
        for mbuf in burst.drain() {
            let header = [0; VNET_HEADER_LEN];
            let written = if mbuf.nb_segs() == 1 {
                self.file.write_vectored(&[IoSlice::new(&header), IoSlice::new(mbuf.head())])
            } else {
                let len = mbuf.read(0, &mut self.buffer);
                self.file.write_vectored(&[IoSlice::new(&header), IoSlice::new(&self.buffer[..len])])
            };
            match written {
                Ok(_) => {}
                Err(error) if matches!(error.raw_os_error(), Some(EIO | EAGAIN)) => self.counts.refused += 1,
                Err(error) => return Err(error).context("the host's TAP does not take a frame"),
            }
        }
        Ok(())
    }
}

/// The marks of a `virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    /// Payload of a segment; 0: nothing to cut.
    gso_size: u16,
    is_udp: bool,
    /// The transport checksum holds the sum of the pseudo header alone.
    partial: bool,
}

impl Marks {
    fn read(header: &[u8]) -> Self {
        let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let gso_type = header[1] & !GSO_ECN;
        Self {
            gso_size: if gso_type == 0 { 0 } else { word(4) },
            is_udp: gso_type == GSO_UDP_L4 || gso_type == 0 && word(8) == UDP_CHECKSUM,
            partial: header[0] & NEEDS_CSUM != 0,
        }
    }

    fn put(self, mbuf: &mut Mbuf) {
        let mut marks = 0;
        if self.partial {
            marks |= flags::RX_L4_CKSUM_NONE;
            marks |= if self.is_udp { flags::TX_UDP_CKSUM } else { flags::TX_TCP_CKSUM };
        }
        if self.gso_size > 0 {
            marks |= if self.is_udp { flags::TX_UDP_SEG } else { flags::RX_LRO };
            mbuf.set_tx_offload(TxOffload { tso_segsz: self.gso_size, ..TxOffload::default() });
        }
        mbuf.set_ol_flags(marks);
    }
}

const NEEDS_CSUM: u8 = 1;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;
/// Where a UDP header has its checksum.
const UDP_CHECKSUM: u16 = 6;
/// A step's share: a super-packet of 64 KB takes some 30 µs, and the wire must not wait for more than one.
const READS: usize = 1;
/// 64 KB in buffers of 2 KiB, and the one after.
const LONGEST_CHAIN: u32 = 64;
const LONGEST: usize = 66_000;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_become_marks() {
        let header = |flags, gso_type, size: u16, offset: u8| {
            let mut header = [0; VNET_HEADER_LEN];
            (header[0], header[1], header[8]) = (flags, gso_type, offset);
            header[4..6].copy_from_slice(&size.to_le_bytes());
            Marks::read(&header)
        };
        assert_eq!(header(0, 0, 0, 0), Marks::default());
        assert_eq!(header(1, 1 | 0x80, 1448, 16), Marks { gso_size: 1448, is_udp: false, partial: true });
        assert_eq!(header(1, 5, 1400, 6), Marks { gso_size: 1400, is_udp: true, partial: true });
        assert_eq!(header(1, 0, 9, 6), Marks { gso_size: 0, is_udp: true, partial: true });
    }
}
