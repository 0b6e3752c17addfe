//! Which ports are open in this process, and which have vanished.
//!
//! Opening, closing, attaching and detaching exclude one another through one lock, so that a device
//! is never removed under an open port. The lock is never taken on the packet path.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::eal::lock;

/// The right to open, close, attach and detach.
pub(crate) struct Control(MutexGuard<'static, BTreeMap<u16, String>>);

/// Waits for the right.
pub(crate) fn control() -> Control {
    Control(lock(&OPEN))
}

impl Control {
    /// Notes that the port is open; `false` if it was already.
    pub(crate) fn claim(&mut self, port: u16, device: &str) -> bool {
        if self.0.contains_key(&port) {
            return false;
        }
        self.0.insert(port, device.to_owned());
        if let Some(flag) = VANISHED.get(usize::from(port)) {
            flag.store(false, Ordering::Relaxed);
        }
        true
    }

    /// Notes that the port is closed.
    pub(crate) fn release(&mut self, port: u16) {
        self.0.remove(&port);
    }

    /// Whether a port of the device is open. Some buses take names in either case, and a needless
    /// refusal does no harm.
    pub(crate) fn device_in_use(&self, device: &str) -> bool {
        self.0.values().any(|open| open.eq_ignore_ascii_case(device))
    }
}

/// Whether the driver has reported the removal of the port since it was opened.
pub(crate) fn vanished(port: u16) -> bool {
    VANISHED.get(usize::from(port)).is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Called by DPDK's interrupt thread when the device is pulled out. It only notes the fact: the
/// queues' memory stays until the port is closed.
pub(crate) unsafe extern "C" fn on_removal(
    port: u16,
    _event: dpdk_sys::rte_eth_event_type,
    _arg: *mut c_void,
    _ret: *mut c_void,
) -> c_int {
    if let Some(flag) = VANISHED.get(usize::from(port)) {
        flag.store(true, Ordering::Relaxed);
    }
    0
}

static OPEN: Mutex<BTreeMap<u16, String>> = Mutex::new(BTreeMap::new());

static VANISHED: [AtomicBool; dpdk_sys::SHIM_MAX_ETHPORTS as usize] =
    [const { AtomicBool::new(false) }; dpdk_sys::SHIM_MAX_ETHPORTS as usize];

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    #[test]
    fn a_port_has_one_owner_and_a_removal_is_remembered_until_the_next() {
        let mut control = control();
        assert!(control.claim(31, "0000:0a:00.0"));
        assert!(!control.claim(31, "0000:0a:00.0"));
        assert!(control.device_in_use("0000:0A:00.0") && !control.device_in_use("0000:0b:00.0"));
        for port in [31, 32, u16::MAX] {
            // SAFETY: touches nothing but the flags above.
            unsafe { on_removal(port, dpdk_sys::RTE_ETH_EVENT_INTR_RMV, null_mut(), null_mut()) };
        }
        assert!(vanished(31) && !vanished(30) && !vanished(32));
        control.release(31);
        assert!(!control.device_in_use("0000:0a:00.0"));
        assert!(control.claim(31, "0000:0a:00.0"));
        assert!(!vanished(31));
        control.release(31);
    }
}
