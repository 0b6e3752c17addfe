//! Linux capabilities, given up for good by every thread of the process: those of the EAL and of its drivers too.
//!
//! After capabilities(7), capset(2) and nptl(7). A capability belongs to a thread, and a thread can give up its own
//! only. DPDK starts its threads while ports are opened, when the privileges are still needed. So it is done as
//! nptl does it for setuid(2): every thread gets a signal, and the handler makes the system calls. A
//! thread that was just being made is found when all are looked at again; only when none is left over is it done.

use std::fs;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;

use crate::eal::lock;

/// Why some threads kept what they were to give up.
#[derive(Debug, Error)]
pub enum PrivilegesError {
    /// `/proc` or a signal handler.
    #[error("cannot give up capabilities: {0}; is /proc mounted?")]
    System(#[from] io::Error),
    /// A thread did not run for as long as [`keep_only`] waits.
    #[error("threads {0:?} did not give up their capabilities within two seconds")]
    StillHeld(Vec<i32>),
}

/// Has every thread of this process keep only those of its permitted capabilities that are in `keep` (bit N: the
/// capability with number N), as its effective ones; its inheritable and ambient ones go. Nor can a program that it
/// starts have more (`no_new_privs`), as root either. Takes some milliseconds, at most two seconds.
///
/// # Errors
/// [`PrivilegesError`]: some threads still have what they had.
pub fn keep_only(keep: u64) -> Result<(), PrivilegesError> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = lock(&TURN);
    KEEP.store(keep, Ordering::Release);
    let before = handle(give_up as *const () as libc::sighandler_t)?;
    let mut left = Vec::new();
    for _ in 0..ROUNDS {
        left =
            threads()?.into_iter().filter(|(_, status)| has_more(status, keep)).map(|(id, _)| id).collect();
        if left.is_empty() {
            break;
        }
        left.iter().for_each(|thread| nudge(*thread));
        #[allow(clippy::disallowed_methods, reason = "setup waits for threads to run, no packet does")]
        std::thread::sleep(Duration::from_millis(1));
    }
    handle(before)?;
    if left.is_empty() { Ok(()) } else { Err(PrivilegesError::StillHeld(left)) }
}

/// The effective capabilities of the calling thread, a bit each.
pub fn effective() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    field(&status, "CapEff:").and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0)
}

/// Runs `work` on a thread of its own that has no capability at all.
///
/// # Errors
/// No thread can be started, `work` panicked, or the kernel refused.
pub fn without<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let stripped = || {
        let (mut header, mut sets) = (Header { version: VERSION_3, thread: 0 }, [Sets::default(); 2]);
        // SAFETY: what capset(2) wants for version 3; changes the calling thread alone.
        let ret = unsafe { libc::syscall(libc::SYS_capset, &mut header, sets.as_mut_ptr()) };
        if ret == 0 { Ok(work()) } else { Err(io::Error::last_os_error()) }
    };
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("dpdk-without".to_owned()).spawn_scoped(scope, stripped)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    })
}

/// Every thread with what the kernel says of it; one that has ended meanwhile is left out.
fn threads() -> io::Result<Vec<(i32, String)>> {
    let entries = fs::read_dir("/proc/self/task")?.flatten();
    let status = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        Some((id, fs::read_to_string(entry.path().join("status")).ok()?))
    };
    Ok(entries.filter_map(status).collect())
}

/// Whether a thread still has what it is to give up.
fn has_more(status: &str, keep: u64) -> bool {
    let set =
        |name| field(status, name).and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(u64::MAX);
    let inherits = ["CapInh:", "CapAmb:"].into_iter().any(|name| set(name) != 0);
    set("CapPrm:") & !keep != 0 || inherits || field(status, "NoNewPrivs:") != Some("1")
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Sets the handler of [`SIGNAL`]; returns the one before.
fn handle(handler: libc::sighandler_t) -> io::Result<libc::sighandler_t> {
    // SAFETY: the handler is SIG_DFL, SIG_IGN or `give_up`, which makes system calls only and may run at any
    // point of any thread; both structures are on this stack frame and zero is a valid value of each.
    unsafe {
        let (mut new, mut old): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        if libc::sigaction(SIGNAL, &new, &mut old) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(old.sa_sigaction)
    }
}

fn nudge(thread: i32) {
    // SAFETY: sends a signal to a thread of this process, or to none if it has ended; touches no memory.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
}

/// Runs in the thread that gives up. What fails shows in `/proc`, where [`keep_only`] looks.
extern "C" fn give_up(_: libc::c_int) {
    let keep = KEEP.load(Ordering::Acquire);
    let mut header = Header { version: VERSION_3, thread: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: system calls alone, all of them allowed in a signal handler; `header` and `sets` are what capget(2)
    // and capset(2) want for version 3, and errno is put back as it was.
    unsafe {
        let errno = *libc::__errno_location();
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if libc::syscall(libc::SYS_capget, &mut header, sets.as_mut_ptr()) == 0 {
            for (sets, keep) in sets.iter_mut().zip([keep as u32, (keep >> 32) as u32]) {
                let kept = sets.permitted & keep;
                *sets = Sets { effective: kept, permitted: kept, inheritable: 0 };
            }
            libc::syscall(libc::SYS_capset, &mut header, sets.as_mut_ptr());
        }
        *libc::__errno_location() = errno;
    }
}

/// `struct __user_cap_header_struct`
#[repr(C)]
struct Header {
    version: u32,
    thread: i32,
}

/// `struct __user_cap_data_struct`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

static KEEP: AtomicU64 = AtomicU64::new(0);

/// Nobody uses it, no thread blocks it, and if it comes late it does nothing by default.
const SIGNAL: libc::c_int = libc::SIGURG;

/// `_LINUX_CAPABILITY_VERSION_3`
const VERSION_3: u32 = 0x2008_0522;

/// A millisecond each.
const ROUNDS: u32 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_still_has_is_read_from_its_status() {
        let status = |permitted: &str, ambient: &str, locked: &str| {
            format!(
                "CapInh:\t0000000000000000\nCapPrm:\t{permitted}\nCapAmb:\t{ambient}\nNoNewPrivs:\t{locked}\n"
            )
        };
        let net_admin = 1 << 12;
        assert!(!has_more(&status("0000000000001000", "0000000000000000", "1"), net_admin));
        assert!(!has_more(&status("0000000000000000", "0000000000000000", "1"), net_admin));
        assert!(has_more(&status("0000000000003000", "0000000000000000", "1"), net_admin));
        assert!(has_more(&status("0000000000001000", "0000000000001000", "1"), net_admin));
        assert!(has_more(&status("0000000000001000", "0000000000000000", "0"), net_admin));
        assert!(has_more("", net_admin), "what cannot be read is not believed");
    }
}
