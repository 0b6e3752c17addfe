//! Keeps the drivers' signals away from the threads that work.
//!
//! net_tap asks the kernel for one real-time signal per frame that arrives at an idle queue, and
//! counts them in a handler; without them its receive function never looks. Left alone, they
//! interrupt system calls of whichever thread the kernel picks (EINTR), the polling ones too.
//! When more are pending than RLIMIT_SIGPENDING allows, the kernel sends SIGIO instead, which by
//! default ends the process.
//!
//! So: real-time signals are blocked in the thread that initialises the EAL, hence in all threads
//! started later, and one thread that does nothing else takes them. SIGIO is ignored.

use std::io;

/// To be called once, before the EAL starts its threads.
pub(crate) fn divert() -> io::Result<()> {
    // SAFETY: sets the disposition of SIGIO to "ignore", unless somebody installed a handler.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGIO, std::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_DFL
        {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
        }
    }
    mask(libc::SIG_BLOCK)?;
    std::thread::Builder::new().name("dpdk-signals".into()).spawn(take_signals)?;
    Ok(())
}

fn take_signals() {
    if mask(libc::SIG_UNBLOCK).is_err() {
        return;
    }
    loop {
        // SAFETY: waits for a signal handler to have run; touches no memory.
        unsafe { libc::pause() };
    }
}

fn mask(how: i32) -> io::Result<()> {
    // SAFETY: an initialised set on this stack frame; changes this thread's mask only. The numbers
    // below SIGRTMIN() are kept by the C library for itself and stay as they are.
    let ret = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in libc::SIGRTMIN()..=libc::SIGRTMAX() {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(how, &set, std::ptr::null_mut())
    };
    if ret == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(ret)) }
}
