//! The EAL for tests: one per process, shared by all tests in turn.
//!
//! `cargo test` runs tests as threads of one process, DPDK starts once per process, and its ports
//! and pools have names. So [`eal`] starts it the first time, and the guard it returns lets one
//! test in at a time.

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::burst::Burst;
use crate::eal::{Eal, EalConfig};
use crate::mbuf::Mbuf;
use crate::mempool::Mempool;
use crate::offload::TxOffloads;
use crate::txq::TxQueue;

/// The running EAL, for one test at a time.
pub struct TestEal {
    eal: &'static Eal,
    _turn: MutexGuard<'static, ()>,
}

/// Cuts a packet marked `TX_TCP_SEG` with DPDK's own library (`rte_gso_segment`) into frames of at most
/// `frame_len` bytes, which are appended to `out`: headers out of `direct`, references out of `indirect`.
/// Returns how many; none where it refuses.
pub fn dpdk_gso(
    packet: &mut Mbuf,
    frame_len: u16,
    direct: &Mempool,
    indirect: &Mempool,
    out: &mut Burst,
) -> usize {
    let ctx = dpdk_sys::rte_gso_ctx {
        direct_pool: direct.as_ptr(),
        indirect_pool: indirect.as_ptr(),
        gso_types: TxOffloads::TCP_TSO.bits() as u32,
        gso_size: frame_len,
        ..Default::default()
    };
    let flags = packet.ol_flags();
    // SAFETY: a valid packet of one handle, two pools that outlive the call, and as many slots as are
    // said. The library writes owned chains, as many as it returns; the packet stays ours. It takes
    // TX_TCP_SEG off the packet's flags and counts the holders of its buffers up, nothing else.
    unsafe {
        out.fill(Burst::CAPACITY, |first, room| {
            let raw = std::mem::transmute_copy::<Mbuf, *mut dpdk_sys::rte_mbuf>(packet);
            let count = dpdk_sys::rte_gso_segment(raw, &ctx, first, room);
            let flagged = &raw mut (*raw).ol_flags;
            flagged.write(flags);
            u16::try_from(count).unwrap_or(0)
        })
    }
}

/// Waits for its turn and returns the EAL: no hugepages, no PCI, 256 MiB, main lcore 0 and worker
/// lcore 1, both on any CPU.
///
/// # Panics
/// If the EAL does not start: no test of this kind can say anything then.
#[allow(clippy::panic, reason = "a test helper; the reason must reach the person who runs the test")]
pub fn eal() -> TestEal {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let eal = EAL.get_or_init(|| match Eal::init(&config()) {
        Ok(eal) => eal,
        Err(error) => panic!("{error}"),
    });
    TestEal { eal, _turn: turn }
}

impl Deref for TestEal {
    type Target = Eal;

    fn deref(&self) -> &Eal {
        self.eal
    }
}

/// Somebody else than the driver knows the state of a port's descriptors, as long as it is held.
#[derive(Debug)]
#[must_use]
pub struct Answers(());

impl Answers {
    /// Lets `is_done` answer [`TxQueue::descriptor_status`] for the port of `queue`, whatever its driver
    /// can do: true for done, false for full. One port at a time; afterwards the port shall be stopped.
    pub fn of(queue: &TxQueue, is_done: impl Fn(u16) -> bool + Send + 'static) -> Self {
        *lock_answer() = Some(Box::new(is_done));
        // SAFETY: the port is started, and stopping it takes the function out; it uses none of its
        // arguments but the offset.
        unsafe { dpdk_sys::shim_set_tx_descriptor_status(queue.port(), Some(descriptor_status)) };
        Self(())
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        *lock_answer() = None;
    }
}

fn lock_answer() -> MutexGuard<'static, Option<Answer>> {
    ANSWER.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn descriptor_status(_queue: *mut c_void, offset: u16) -> c_int {
    let is_done = lock_answer().as_ref().is_some_and(|is_done| is_done(offset));
    (if is_done { dpdk_sys::SHIM_TX_DESC_DONE } else { dpdk_sys::SHIM_TX_DESC_FULL }) as c_int
}

/// Test programs may run side by side under one prefix: without a shared configuration and telemetry
/// they leave nothing there but one empty directory.
fn config() -> EalConfig {
    let cpus = allowed_cpus();
    EalConfig::new("dpdk-test")
        .arg("--no-huge")
        .arg("-m")
        .arg("256")
        .arg("--no-shconf")
        .arg("--no-pci")
        .arg("--no-telemetry")
        .arg(format!("--lcores=0@({cpus}),1@({cpus})"))
}

/// The CPUs this process may use, as `/proc` lists them: `0-3,8`.
fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or("0".to_owned(), |list| list.trim().to_owned())
}

/// Says whether the descriptor at an offset is done.
type Answer = Box<dyn Fn(u16) -> bool + Send>;

static ANSWER: Mutex<Option<Answer>> = Mutex::new(None);
static EAL: OnceLock<Eal> = OnceLock::new();
static TURN: Mutex<()> = Mutex::new(());
