//! Catches what DPDK says while it starts: what it logs, so that an error can tell it, and the page
//! of usage that it prints for every argument it does not like, so that nothing hides the error;
//! and hushes it afterwards.

use std::ffi::c_char;

use libc::FILE;

/// DPDK logs into memory, and prints into nothing, while this is alive.
pub(crate) struct Capture {
    log: MemoryStream,
    usage: MemoryStream,
    stdout: *mut dpdk_sys::FILE,
}

impl Capture {
    /// `None` when there is no memory for it: everything then goes where it usually does.
    pub(crate) fn start() -> Option<Self> {
        let (log, usage) = (MemoryStream::open()?, MemoryStream::open()?);
        // SAFETY: open streams, taken away from DPDK in finish() before they are closed. glibc lets
        // `stdout` be set like any variable; Rust's own standard output does not use it.
        unsafe {
            dpdk_sys::rte_openlog_stream(log.stream.cast());
            let stdout = std::ptr::replace(&raw mut dpdk_sys::stdout, usage.stream.cast());
            Some(Self { log, usage, stdout })
        }
    }

    /// Gives DPDK its own streams back and returns what was logged.
    pub(crate) fn finish(self) -> String {
        // SAFETY: NULL restores the default stream. EAL's own threads are idle at the end of
        // rte_eal_init, so that nobody is writing to the old ones when they are closed.
        unsafe {
            dpdk_sys::rte_openlog_stream(std::ptr::null_mut());
            dpdk_sys::stdout = self.stdout;
        }
        self.usage.close();
        self.log.close()
    }
}

/// A stream of the C library into memory.
struct MemoryStream {
    stream: *mut FILE,
    memory: Box<Memory>,
}

/// Where the C library keeps pointer and length of the text.
struct Memory {
    text: *mut c_char,
    len: usize,
}

/// Sends what DPDK logs from now on nowhere. Drivers log their ordinary fallbacks as errors; what
/// really fails comes back as an error value.
pub(crate) fn hush() {
    // SAFETY: two C strings; the stream is never closed, so that DPDK may write to it for ever.
    unsafe {
        let nowhere = libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr());
        if !nowhere.is_null() {
            dpdk_sys::rte_openlog_stream(nowhere.cast());
        }
    }
}

impl MemoryStream {
    fn open() -> Option<Self> {
        let mut memory = Box::new(Memory { text: std::ptr::null_mut(), len: 0 });
        // SAFETY: both pointers stay valid for the life of the stream: `memory` is boxed and freed last.
        let stream = unsafe { libc::open_memstream(&mut memory.text, &mut memory.len) };
        (!stream.is_null()).then_some(Self { stream, memory })
    }

    fn close(self) -> String {
        // SAFETY: after fclose the text is `len` bytes allocated by malloc, ours to free.
        unsafe {
            libc::fclose(self.stream);
            if self.memory.text.is_null() {
                return String::new();
            }
            let bytes = std::slice::from_raw_parts(self.memory.text.cast::<u8>(), self.memory.len);
            let text = String::from_utf8_lossy(bytes).into_owned();
            libc::free(self.memory.text.cast());
            text
        }
    }
}
