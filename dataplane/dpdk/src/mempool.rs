//! Pools of packet buffers.
//!
//! [`Mempool`] is a counted handle; ports and queues hold one, mbufs do not, so that an mbuf stays
//! one pointer. A pool whose last handle goes while mbufs of it are still out waits until they are
//! back: it is freed when a pool is made or dropped after that, and the EAL stays as long.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::burst::Burst;
use crate::eal::{Eal, lock};
use crate::errno::Errno;
use crate::mbuf::{Mbuf, MbufError};

/// A pool of packet buffers, shared by handle.
#[derive(Clone, Debug)]
pub struct Mempool(Arc<Pool>);

/// What a pool shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolConfig {
    /// Name, at most 25 bytes, unique in the process.
    pub name: String,
    /// Number of buffers; a power of two minus one wastes the least memory.
    pub count: u32,
    /// Buffers each lcore keeps for itself, 0..=512 and at most `count` / 1.5.
    pub cache: u32,
    /// Bytes of data per buffer, the headroom of 128 included. 2176 holds any frame of 2048 bytes.
    pub data_room: u16,
    /// NUMA node of the memory; any when `None`.
    pub node: Option<u32>,
}

/// Why a pool could not be made.
#[derive(Debug, Error)]
pub enum MempoolError {
    /// Not enough memory.
    #[error(
        "mempool {name}: no memory for {count} buffers of {data_room} bytes ({need_mib} MiB{}); give the EAL more memory (-m {need_mib} on top of what it has, or more hugepages), or lower the number of buffers",
        node.map_or(String::new(), |node| format!(" on NUMA node {node}"))
    )]
    NoMemory {
        /// Name of the pool.
        name: String,
        /// Buffers asked for.
        count: u32,
        /// Bytes of data per buffer.
        data_room: u16,
        /// Memory needed in MiB, rounded up.
        need_mib: u64,
        /// NUMA node asked for.
        node: Option<u32>,
    },
    /// The name is taken.
    #[error("mempool {name}: the name is taken; use another one")]
    Exists {
        /// Name of the pool.
        name: String,
    },
    /// A value is out of range.
    #[error("mempool {name}: {key} = {value} is out of range; accepted: {accepted}")]
    OutOfRange {
        /// Name of the pool.
        name: String,
        /// The value's name in [`MempoolConfig`].
        key: &'static str,
        /// What was given.
        value: String,
        /// What is accepted.
        accepted: String,
    },
    /// Anything else.
    #[error("mempool {name}: rte_pktmbuf_pool_create failed: {errno}; raise the EAL's log level to see why")]
    Refused {
        /// Name of the pool.
        name: String,
        /// What it returned.
        errno: Errno,
    },
}

impl MempoolConfig {
    /// A pool of `count` buffers for frames of up to 2048 bytes, with a cache of 256 where the
    /// size allows one, on any NUMA node.
    pub fn new(name: impl Into<String>, count: u32) -> Self {
        Self {
            name: name.into(),
            count,
            cache: (count / 4).min(DEFAULT_CACHE),
            data_room: DEFAULT_DATA_ROOM,
            node: None,
        }
    }

    /// Memory the pool takes in bytes: per buffer the mbuf header, the data room and the pool's own
    /// header and padding, as `rte_mempool_calc_obj_size` counts them.
    pub fn memory(&self) -> u64 {
        let element = dpdk_sys::MBUF_SIZE + u32::from(self.data_room);
        // SAFETY: pure arithmetic; the optional out-parameter is not asked for.
        let object = unsafe { dpdk_sys::rte_mempool_calc_obj_size(element, 0, std::ptr::null_mut()) };
        u64::from(object) * u64::from(self.count)
    }

    fn check(&self) -> Result<CString, MempoolError> {
        let wrong = |key, value: String, accepted: String| MempoolError::OutOfRange {
            name: self.name.clone(),
            key,
            value,
            accepted,
        };
        if self.name.is_empty() || self.name.len() > NAME_MAX {
            return Err(wrong("name", self.name.clone(), format!("1 to {NAME_MAX} bytes")));
        }
        if self.count == 0 {
            return Err(wrong("count", "0".into(), "at least 1".into()));
        }
        let cache_max = CACHE_MAX.min((u64::from(self.count) * 2 / 3) as u32);
        if self.cache > cache_max {
            return Err(wrong("cache", self.cache.to_string(), format!("0 to {cache_max}")));
        }
        if self.data_room <= HEADROOM {
            return Err(wrong("data_room", self.data_room.to_string(), format!("{} to 65535", HEADROOM + 1)));
        }
        CString::new(self.name.as_str()).map_err(|_| wrong("name", self.name.clone(), "no NUL byte".into()))
    }
}

impl Mempool {
    /// Makes a pool.
    ///
    /// # Errors
    /// [`MempoolError`]; out of memory says how much is needed.
    pub fn create(eal: &Eal, config: &MempoolConfig) -> Result<Self, MempoolError> {
        let name = config.check()?;
        sweep(&mut lock(&ORPHANS));
        let node =
            config.node.and_then(|node| i32::try_from(node).ok()).unwrap_or(dpdk_sys::SHIM_SOCKET_ID_ANY);
        // SAFETY: a C string that outlives the call, values in range; the EAL runs.
        let pool = unsafe {
            dpdk_sys::rte_pktmbuf_pool_create(
                name.as_ptr(),
                config.count,
                config.cache,
                0,
                config.data_room,
                node,
            )
        };
        match NonNull::new(pool) {
            Some(raw) => Ok(Self(Arc::new(Pool { raw, eal: eal.clone() }))),
            None => Err(refusal(config, Errno::last())),
        }
    }

    /// Takes one buffer: an empty packet.
    ///
    /// # Errors
    /// [`MbufError::Exhausted`] when none is left.
    #[inline]
    pub fn alloc(&self) -> Result<Mbuf, MbufError> {
        // SAFETY: the pool lives as long as this handle; a non-null result is ours alone.
        unsafe { Mbuf::from_raw(dpdk_sys::shim_mbuf_alloc(self.as_ptr())) }.ok_or(MbufError::Exhausted)
    }

    /// Appends `count` empty packets to `burst`: all or none.
    ///
    /// # Errors
    /// [`MbufError::Exhausted`], or [`MbufError::NoRoom`] when the burst cannot take that many.
    pub fn alloc_bulk(&self, burst: &mut Burst, count: usize) -> Result<(), MbufError> {
        burst.alloc_from(self, count)
    }

    /// Buffers in the pool, the lcores' caches included. A momentary value.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as this handle.
        unsafe { dpdk_sys::rte_mempool_avail_count(self.as_ptr()) }
    }

    /// Buffers that are out. A momentary value.
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool lives as long as this handle.
        unsafe { dpdk_sys::rte_mempool_in_use_count(self.as_ptr()) }
    }

    /// Buffers it was made with.
    pub fn size(&self) -> u32 {
        // SAFETY: the pool lives as long as this handle; the size never changes.
        unsafe { dpdk_sys::shim_mempool_size(self.as_ptr()) }
    }

    /// Bytes of data per buffer, the headroom included.
    pub fn data_room(&self) -> u16 {
        // SAFETY: the pool lives as long as this handle, and was made by rte_pktmbuf_pool_create.
        unsafe { dpdk_sys::shim_mbuf_data_room(self.as_ptr()) }
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut dpdk_sys::rte_mempool {
        self.0.raw.as_ptr()
    }
}

/// The owner of the memory.
#[derive(Debug)]
struct Pool {
    raw: NonNull<dpdk_sys::rte_mempool>,
    eal: Eal,
}

// SAFETY: pools are made with the default ring, which takes any number of producers and consumers
// on any thread; per-lcore caches are used by their own lcore only.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        let orphan = Orphan { raw: self.raw, _eal: self.eal.clone() };
        let mut orphans = lock(&ORPHANS);
        orphans.push(orphan);
        sweep(&mut orphans);
    }
}

/// A pool without a handle, whose buffers may still be out.
struct Orphan {
    raw: NonNull<dpdk_sys::rte_mempool>,
    _eal: Eal,
}

// SAFETY: as for Pool.
unsafe impl Send for Orphan {}

/// Frees the pools whose buffers are all back.
fn sweep(orphans: &mut Vec<Orphan>) {
    orphans.retain(|orphan| {
        // SAFETY: freed only below. No handle is left, so nobody can take a buffer any more, and
        // once all are back nobody can give one back. (A worker counts a buffer as given back some
        // nanoseconds before its last store to its own cache in the pool. It would have to hold no
        // handle for that to matter, and queues, through which packets leave, do hold one.)
        unsafe {
            let out = dpdk_sys::rte_mempool_in_use_count(orphan.raw.as_ptr()) > 0;
            if !out {
                dpdk_sys::rte_mempool_free(orphan.raw.as_ptr());
            }
            out
        }
    });
}

fn refusal(config: &MempoolConfig, errno: Errno) -> MempoolError {
    let name = config.name.clone();
    match errno {
        Errno::ENOMEM => MempoolError::NoMemory {
            name,
            count: config.count,
            data_room: config.data_room,
            need_mib: config.memory().div_ceil(1 << 20),
            node: config.node,
        },
        Errno::EEXIST => MempoolError::Exists { name },
        errno => MempoolError::Refused { name, errno },
    }
}

static ORPHANS: Mutex<Vec<Orphan>> = Mutex::new(Vec::new());

/// Bytes in front of the data of a fresh buffer, `RTE_PKTMBUF_HEADROOM`.
pub const HEADROOM: u16 = dpdk_sys::SHIM_PKTMBUF_HEADROOM;

/// What PMDs expect: 2048 bytes of data behind the headroom.
pub const DEFAULT_DATA_ROOM: u16 = 2048 + HEADROOM;

const DEFAULT_CACHE: u32 = 256;
const CACHE_MAX: u32 = dpdk_sys::SHIM_MEMPOOL_CACHE_MAX;
const NAME_MAX: usize = dpdk_sys::SHIM_MEMPOOL_NAME_MAX as usize - 1;
