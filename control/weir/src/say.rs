//! Standard output and standard error of a command, either of which may be closed or full.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write, stderr, stdout};

/// Prints to standard output. A reader that has seen enough (`weir show | head -1`) is no error.
///
/// # Errors
/// Standard output takes no more, for example because its disk is full.
pub fn say(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error; nobody can be told when that fails (`eprintln!` would panic).
pub fn complain(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}
