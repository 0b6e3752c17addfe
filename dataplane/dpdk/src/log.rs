//! What DPDK logs: nothing is printed of it, and what one call logged can be caught, so that an error
//! can tell it.
//!
//! All of it goes into one stream of our own that is never closed, so that DPDK's own threads may log
//! at any time. The stream keeps what comes from a thread that catches, and drops the rest: drivers log
//! their ordinary fallbacks as errors, and what really fails comes back as an error value.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use libc::FILE;

/// Sends what DPDK logs from now on into the stream. Without memory for one it goes where it usually does.
pub(crate) fn hush() {
    let functions = Functions { read: None, write: Some(write), seek: None, close: None };
    // SAFETY: two C strings and functions that live for ever, as does the stream. It has no buffer, so
    // that each message is written by the thread that logs it.
    unsafe {
        let stream = fopencookie(null_mut(), c"w".as_ptr(), functions);
        if !stream.is_null() {
            libc::setvbuf(stream, null_mut(), libc::_IONBF, 0);
            dpdk_sys::rte_openlog_stream(stream.cast());
        }
    }
}

/// Lets DPDK log where it usually does.
pub(crate) fn unhush() {
    // SAFETY: NULL restores the default stream; ours stays open.
    unsafe { dpdk_sys::rte_openlog_stream(null_mut()) };
}

/// What `call` makes this thread log, while DPDK is hushed.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> (T, String) {
    CAUGHT.set(Some(Vec::new()));
    let result = call();
    let caught = CAUGHT.take().unwrap_or_default();
    (result, String::from_utf8_lossy(&caught).into_owned())
}

/// Runs `call` with C's standard output closed: DPDK prints its page of usage for every argument that
/// it does not like.
pub(crate) fn without_stdout<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: two C strings. glibc lets `stdout` be set like any variable, and Rust's own standard output
    // does not use it; a stream that is not used any more is closed.
    unsafe {
        let nowhere = libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr());
        if nowhere.is_null() {
            return call();
        }
        let stdout = std::ptr::replace(&raw mut dpdk_sys::stdout, nowhere.cast());
        let result = call();
        dpdk_sys::stdout = stdout;
        libc::fclose(nowhere);
        result
    }
}

/// The lines that were said, each below the message that they explain.
pub(crate) fn below(said: &str) -> String {
    said.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("\n  {line}")).collect()
}

/// Called by the C library with each message.
unsafe extern "C" fn write(_cookie: *mut c_void, text: *const c_char, len: usize) -> isize {
    // A thread that is ending has nobody who catches.
    let _ = CAUGHT.try_with(|caught| {
        let Ok(mut caught) = caught.try_borrow_mut() else { return };
        if let Some(caught) = caught.as_mut().filter(|caught| caught.len() < MOST) {
            // SAFETY: the C library hands over `len` bytes.
            caught.extend_from_slice(unsafe { std::slice::from_raw_parts(text.cast(), len) });
        }
    });
    len as isize
}

/// `cookie_io_functions_t` of glibc.
#[repr(C)]
struct Functions {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

thread_local! {
    static CAUGHT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Bytes after which no more is caught: some hundred lines. A driver that complains for ever takes no more.
const MOST: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_thread_logs_while_it_catches_is_caught() {
        let log = |text: &str| {
            // SAFETY: a pointer and its length.
            assert_eq!(unsafe { write(null_mut(), text.as_ptr().cast(), text.len()) }, text.len() as isize);
        };
        log("before");
        let ((), caught) = catch(|| {
            log("PMD: one\n\n");
            std::thread::scope(|scope| scope.spawn(|| log("of another thread")).join()).unwrap();
            log("EAL: two\n");
        });
        log("after");
        assert_eq!(below(&caught), "\n  PMD: one\n  EAL: two");
        let ((), caught) = catch(|| (0..100).for_each(|_| log(&"x".repeat(1024))));
        assert_eq!(caught.len(), MOST);
    }
}
