//! Logical cores: the threads that the EAL started and pinned.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use thiserror::Error;

use crate::eal::Eal;
use crate::errno::Errno;

/// A logical core of the running EAL.
#[derive(Clone, Debug)]
pub struct Lcore {
    id: u32,
    eal: Eal,
}

/// Why nothing could be run on an lcore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LcoreError {
    /// The main lcore runs the caller.
    #[error("lcore {0} is the main lcore, which runs this program; launch on a worker lcore")]
    Main(u32),
    /// It runs something already.
    #[error("lcore {id}: cannot launch: {errno}; it is busy, join what runs there first")]
    Busy {
        /// The lcore.
        id: u32,
        /// What the launch returned.
        errno: Errno,
    },
}

/// What runs on an lcore. Dropping it waits for the end, so tell the work to stop first.
#[derive(Debug)]
pub struct LcoreHandle<T> {
    lcore: u32,
    job: *mut Job<T>,
    /// The EAL, and with it the thread, stays as long as work runs on it.
    _eal: Eal,
}

impl Lcore {
    /// All lcores, the main one included, in order of their numbers.
    pub fn all(eal: &Eal) -> Vec<Self> {
        walk(eal, false)
    }

    /// The worker lcores, in order of their numbers.
    pub fn workers(eal: &Eal) -> Vec<Self> {
        walk(eal, true)
    }

    /// The lcore of the thread that started the EAL.
    pub fn main(eal: &Eal) -> Self {
        // SAFETY: reads the EAL's configuration.
        Self { id: unsafe { dpdk_sys::rte_get_main_lcore() }, eal: eal.clone() }
    }

    /// The lcore that runs this thread; `None` for a thread that the EAL does not know.
    pub fn current(eal: &Eal) -> Option<Self> {
        // SAFETY: reads a thread-local variable.
        let id = unsafe { dpdk_sys::shim_lcore_id() };
        (id != dpdk_sys::SHIM_LCORE_ID_ANY).then(|| Self { id, eal: eal.clone() })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its NUMA node.
    pub fn node(&self) -> u32 {
        // SAFETY: reads the EAL's configuration; unknown numbers give 0.
        unsafe { dpdk_sys::rte_lcore_to_socket_id(self.id) }
    }

    /// The CPU it is pinned to; `None` if it is pinned to several.
    pub fn cpu(&self) -> Option<u32> {
        // SAFETY: reads the EAL's configuration.
        u32::try_from(unsafe { dpdk_sys::rte_lcore_to_cpu_id(self.id as c_int) }).ok()
    }

    /// Runs `work` on this worker lcore.
    ///
    /// # Errors
    /// [`LcoreError::Main`] or [`LcoreError::Busy`].
    pub fn launch<T, F>(&self, work: F) -> Result<LcoreHandle<T>, LcoreError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if self.id == Self::main(&self.eal).id {
            return Err(LcoreError::Main(self.id));
        }
        let job = Box::into_raw(Box::new(Job { work: Some(Box::new(work)), result: None }));
        // SAFETY: `job` stays allocated until the handle has waited for the end of run::<T>.
        let ret = unsafe { dpdk_sys::rte_eal_remote_launch(Some(run::<T>), job.cast(), self.id) };
        if ret != 0 {
            // SAFETY: nothing was launched, so the box is still ours.
            drop(unsafe { Box::from_raw(job) });
            return Err(LcoreError::Busy { id: self.id, errno: Errno::new(ret) });
        }
        Ok(LcoreHandle { lcore: self.id, job, _eal: self.eal.clone() })
    }
}

// SAFETY: the job is touched only after its thread is done with it, and T is Send.
unsafe impl<T: Send> Send for LcoreHandle<T> {}

impl<T> LcoreHandle<T> {
    /// Whether the work has ended.
    pub fn is_finished(&self) -> bool {
        // SAFETY: reads the state of an existing lcore.
        unsafe { dpdk_sys::rte_eal_get_lcore_state(self.lcore) == dpdk_sys::SHIM_LCORE_WAIT }
    }

    /// Waits for the end and returns the result.
    ///
    /// # Errors
    /// What the work panicked with.
    pub fn join(mut self) -> Result<T, Box<dyn Any + Send>> {
        self.wait().unwrap_or_else(|| Err(Box::new("the work did not run")))
    }

    fn wait(&mut self) -> Option<Result<T, Box<dyn Any + Send>>> {
        if self.job.is_null() {
            return None;
        }
        // SAFETY: waits until the lcore has left run::<T>, after which the job is ours again; the
        // pointer is cleared, so this happens once.
        let job = unsafe {
            dpdk_sys::rte_eal_wait_lcore(self.lcore);
            Box::from_raw(self.job)
        };
        self.job = std::ptr::null_mut();
        job.result
    }
}

impl<T> Drop for LcoreHandle<T> {
    fn drop(&mut self) {
        self.wait();
    }
}

struct Job<T> {
    work: Option<Box<dyn FnOnce() -> T + Send>>,
    result: Option<Result<T, Box<dyn Any + Send>>>,
}

unsafe extern "C" fn run<T>(job: *mut c_void) -> c_int {
    // SAFETY: launch() passes a boxed Job<T> that lives until the handle has waited for this call.
    let job = unsafe { &mut *job.cast::<Job<T>>() };
    let Some(work) = job.work.take() else { return -1 };
    // A panic must not unwind into C.
    job.result = Some(catch_unwind(AssertUnwindSafe(work)));
    0
}

fn walk(eal: &Eal, skip_main: bool) -> Vec<Lcore> {
    let mut lcores = Vec::new();
    let mut id = u32::MAX;
    loop {
        // SAFETY: walks the EAL's table of lcores; starts at the first for -1.
        id = unsafe { dpdk_sys::rte_get_next_lcore(id, c_int::from(skip_main), 0) };
        if id >= dpdk_sys::SHIM_MAX_LCORE {
            return lcores;
        }
        lcores.push(Lcore { id, eal: eal.clone() });
    }
}
