//! Catches what DPDK logs while it starts, so that an error can say it; and hushes it afterwards.

use std::ffi::c_char;

use libc::FILE;

/// DPDK logs into a memory stream while this is alive.
pub(crate) struct Capture {
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

impl Capture {
    /// `None` when the stream cannot be made: the log then goes to standard error as usual.
    pub(crate) fn start() -> Option<Self> {
        let mut memory = Box::new(Memory { text: std::ptr::null_mut(), len: 0 });
        // SAFETY: both pointers stay valid for the life of the stream: `memory` is boxed and freed last.
        let stream = unsafe { libc::open_memstream(&mut memory.text, &mut memory.len) };
        if stream.is_null() {
            return None;
        }
        // SAFETY: an open stream; finish() takes it away from DPDK before closing it.
        unsafe { dpdk_sys::rte_openlog_stream(stream.cast()) };
        Some(Self { stream, memory })
    }

    /// Gives DPDK its own stream back and returns what was logged.
    pub(crate) fn finish(self) -> String {
        // SAFETY: NULL restores the default stream. EAL's own threads are idle at the end of
        // rte_eal_init, so that nobody is writing to the old one when it is closed. After fclose
        // the text is `len` bytes allocated by malloc, ours to free.
        unsafe {
            dpdk_sys::rte_openlog_stream(std::ptr::null_mut());
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
