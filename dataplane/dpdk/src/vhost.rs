//! A look into the transmit ring of the guest behind a vhost port (Virtual I/O Device 1.3, 2.7
//! "Split Virtqueues" and 5.1.6 "Device Operation").
//!
//! A receive burst of net_vhost takes a frame and tells the guest that it is done with it, both at
//! once. Whoever models a device must know of a frame before that: [`GuestRing`] shows what waits,
//! and changes nothing.
//!
//! The guest's memory is mapped once more for it, so that a guest that goes away leaves it with an
//! old picture, not with a hole. Whatever stands there is checked before it is followed.

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, Ordering};

use thiserror::Error;

use crate::errno::Errno;
use crate::rxq::RxQueue;

/// The transmit ring of a guest, seen from its device.
#[derive(Debug)]
pub struct GuestRing {
    regions: Vec<Region>,
    descriptors: Piece,
    available: Piece,
    used: Piece,
    size: u16,
    header_len: usize,
}

/// What a guest asks for with a frame: `struct virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// Payload bytes per segment; 0 where nothing is to be cut.
    pub gso_size: u16,
    /// The transport checksum is missing.
    pub checksum: bool,
}

/// Why a guest's ring cannot be looked into.
#[derive(Debug, Error)]
pub enum GuestError {
    /// It is not the kind of ring that is understood.
    #[error("the guest negotiated packed virtqueues; start it without packed_vq")]
    Packed,
    /// The library does not say where it is.
    #[error("{call} failed: {errno}")]
    Refused {
        /// The call.
        call: &'static str,
        /// What it returned.
        errno: Errno,
    },
    /// Its memory cannot be mapped.
    #[error("cannot map {bytes} bytes of the guest: {cause}")]
    Map {
        /// Length of the region.
        bytes: u64,
        /// Why.
        cause: io::Error,
    },
    /// It is not in the guest's memory.
    #[error("the guest's ring lies outside its memory")]
    Outside,
}

impl GuestRing {
    /// The ring that `queue` of a vhost port receives from; none while no guest is connected.
    ///
    /// # Errors
    /// [`GuestError`].
    pub fn open(queue: &RxQueue) -> Result<Option<Self>, GuestError> {
        // SAFETY: the port is started; the call reads a table.
        let vid = unsafe { dpdk_sys::rte_eth_vhost_get_vid_from_port_id(queue.port()) };
        if vid < 0 {
            return Ok(None);
        }
        let mut features = 0;
        let mut vring = dpdk_sys::rte_vhost_vring::default();
        // SAFETY: a device number, and locals that outlive the calls.
        let (ret, ring) = unsafe {
            (
                dpdk_sys::rte_vhost_get_negotiated_features(vid, &mut features),
                dpdk_sys::rte_vhost_get_vhost_vring(vid, 2 * queue.queue() + 1, &mut vring),
            )
        };
        check("rte_vhost_get_negotiated_features", ret)?;
        check("rte_vhost_get_vhost_vring", ring)?;
        if features & PACKED != 0 {
            return Err(GuestError::Packed);
        }
        // SAFETY: all members of each union are pointers.
        let starts = unsafe {
            [
                vring.__bindgen_anon_1.desc as u64,
                vring.__bindgen_anon_2.avail as u64,
                vring.__bindgen_anon_3.used as u64,
            ]
        };
        // Not set up yet.
        if vring.size == 0 || starts.contains(&0) {
            return Ok(None);
        }
        let regions = map(vid)?;
        let size = u64::from(vring.size);
        let lens = [size * DESCRIPTOR, 4 + 2 * size, 4 + 8 * size];
        let find = |index: usize| {
            let piece = |region: &Region| region.piece(starts[index].checked_sub(region.host)?, lens[index]);
            regions.iter().find_map(piece).ok_or(GuestError::Outside)
        };
        let (descriptors, available, used) = (find(0)?, find(1)?, find(2)?);
        let header_len = if features & LONG_HEADER != 0 { 12 } else { 10 };
        Ok(Some(Self { regions, descriptors, available, used, size: vring.size, header_len }))
    }

    /// Frames that wait to be received.
    #[inline]
    pub fn waiting(&self) -> u16 {
        self.available.index().wrapping_sub(self.used.index())
    }

    /// Copies the bytes of a frame into `into`, which is emptied first; `nth` others wait before it.
    /// None if there is no such frame, or if what describes it makes no sense.
    pub fn read(&self, nth: u16, into: &mut Vec<u8>) -> Option<Asks> {
        if nth >= self.waiting().min(self.size) {
            return None;
        }
        into.clear();
        let at = u64::from(self.used.index().wrapping_add(nth) % self.size);
        let head = self.available.u16(4 + 2 * at)?;
        let mut header = Header { bytes: [0; 12], wanted: self.header_len, len: 0 };
        self.walk(head, |piece| header.split(piece, into))?;
        header.asks()
    }

    /// Shows each buffer of a frame.
    fn walk(&self, head: u16, mut each: impl FnMut(Piece)) -> Option<()> {
        let mut table = self.descriptors;
        let mut next = head;
        for _ in 0..self.size {
            let descriptor = table.descriptor(next)?;
            let piece = self.find(descriptor.address, descriptor.len.into())?;
            if descriptor.flags & INDIRECT != 0 {
                (table, next) = (piece, 0);
                continue;
            }
            each(piece);
            if descriptor.flags & NEXT == 0 {
                return Some(());
            }
            next = descriptor.next;
        }
        None
    }

    /// Memory at an address of the guest.
    fn find(&self, address: u64, len: u64) -> Option<Piece> {
        self.regions.iter().find_map(|region| region.piece(address.checked_sub(region.guest)?, len))
    }
}

/// A part of the guest's memory.
#[derive(Debug)]
struct Region {
    map: NonNull<u8>,
    map_len: usize,
    /// What of the mapping comes before it.
    before: u64,
    len: u64,
    /// Where it starts for the guest, and for librte_vhost.
    guest: u64,
    host: u64,
}

// SAFETY: memory that is only read, and unmapped once.
unsafe impl Send for Region {}

impl Region {
    fn new(raw: &dpdk_sys::rte_vhost_mem_region) -> Result<Self, GuestError> {
        let failed = |cause| GuestError::Map { bytes: raw.mmap_size, cause };
        let len = usize::try_from(raw.mmap_size).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: a new mapping of a file that librte_vhost has mapped in the same way.
        let map = unsafe { libc::mmap(null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, raw.fd, 0) };
        let mapped = NonNull::new(map.cast()).filter(|_| map != libc::MAP_FAILED);
        Ok(Self {
            map: mapped.ok_or_else(|| failed(io::Error::last_os_error()))?,
            map_len: len,
            before: raw.host_user_addr.saturating_sub(raw.mmap_addr as u64),
            len: raw.size,
            guest: raw.guest_phys_addr,
            host: raw.host_user_addr,
        })
    }

    /// `len` bytes from `offset` on.
    fn piece(&self, offset: u64, len: u64) -> Option<Piece> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len)?;
        let start = usize::try_from(self.before.checked_add(offset)?).ok()?;
        (self.before.checked_add(end)? <= self.map_len as u64).then(|| {
            // SAFETY: inside the mapping, as was just seen.
            Piece { start: unsafe { self.map.add(start) }, len }
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by new(), unmapped here only; every Piece is used through the GuestRing that
        // holds the region.
        unsafe { libc::munmap(self.map.as_ptr().cast::<c_void>(), self.map_len) };
    }
}

/// Bytes inside a [`Region`] of the same [`GuestRing`].
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: NonNull<u8>,
    len: u64,
}

// SAFETY: as for Region.
unsafe impl Send for Piece {}

/// `struct virtq_desc`.
struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Piece {
    /// The running index of an available or used ring. What was written before it is seen after it.
    #[inline]
    fn index(&self) -> u16 {
        // SAFETY: rings are aligned, and four bytes long at least; the other side writes atomically.
        unsafe { self.start.add(2).cast::<AtomicU16>().as_ref() }.load(Ordering::Acquire)
    }

    fn u16(&self, offset: u64) -> Option<u16> {
        let mut bytes = [0; 2];
        self.copy(offset, &mut bytes)?;
        Some(u16::from_le_bytes(bytes))
    }

    fn descriptor(&self, index: u16) -> Option<Descriptor> {
        let mut raw = [0; DESCRIPTOR as usize];
        self.copy(u64::from(index) * DESCRIPTOR, &mut raw)?;
        let [a, b, c, d, e, f, g, h, len @ .., x, y, p, q] = raw;
        Some(Descriptor {
            address: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            len: u32::from_le_bytes(len),
            flags: u16::from_le_bytes([x, y]),
            next: u16::from_le_bytes([p, q]),
        })
    }

    fn copy(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        let end = offset.checked_add(into.len() as u64)?;
        if end > self.len {
            return None;
        }
        // SAFETY: inside the piece, which is mapped; the target is ours. The guest may write there
        // meanwhile: the bytes are then old or new, and any are good.
        unsafe {
            let from = self.start.as_ptr().add(offset as usize);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
        }
        Some(())
    }
}

/// The `virtio_net_hdr` in front of a frame, as far as it was read.
struct Header {
    bytes: [u8; 12],
    wanted: usize,
    len: usize,
}

impl Header {
    /// The next buffer: what is still wanted of it, then the frame's bytes.
    fn split(&mut self, piece: Piece, frame: &mut Vec<u8>) {
        let mine = (self.wanted - self.len).min(piece.len as usize);
        // Inside the piece, so both copies are made.
        let _ = piece.copy(0, &mut self.bytes[self.len..self.len + mine]);
        self.len += mine;
        let old = frame.len();
        let add = (piece.len as usize - mine).min(LONGEST.saturating_sub(old));
        frame.resize(old + add, 0);
        let _ = piece.copy(mine as u64, &mut frame[old..]);
    }

    fn asks(&self) -> Option<Asks> {
        let [flags, gso_type, _, _, low, high, ..] = self.bytes;
        let gso_size = if gso_type == 0 { 0 } else { u16::from_le_bytes([low, high]) };
        (self.len == self.wanted).then_some(Asks { gso_size, checksum: flags & NEEDS_CSUM != 0 })
    }
}

/// Maps all memory of a guest.
fn map(vid: i32) -> Result<Vec<Region>, GuestError> {
    let mut table = null_mut();
    // SAFETY: a local that outlives the call, which puts an allocated table there.
    check("rte_vhost_get_mem_table", unsafe { dpdk_sys::rte_vhost_get_mem_table(vid, &mut table) })?;
    // SAFETY: a table of `nregions` entries, which is ours, and freed once.
    unsafe {
        let count = (*table).nregions as usize;
        let regions = (*table).regions.as_slice(count).iter().map(Region::new).collect();
        libc::free(table.cast());
        regions
    }
}

fn check(call: &'static str, ret: i32) -> Result<(), GuestError> {
    Errno::check(ret).map(drop).map_err(|errno| GuestError::Refused { call, errno })
}

/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;
/// Flags of a descriptor.
const NEXT: u16 = 1;
const INDIRECT: u16 = 4;
/// Flag of a `virtio_net_hdr`.
const NEEDS_CSUM: u8 = 1;
/// VIRTIO_NET_F_MRG_RXBUF, VIRTIO_F_VERSION_1: the header has a field more.
const LONG_HEADER: u64 = 1 << 15 | 1 << 32;
/// VIRTIO_F_RING_PACKED.
const PACKED: u64 = 1 << 34;
/// The longest frame that a guest may send: 64 KB and headers.
const LONGEST: usize = 66_000;
