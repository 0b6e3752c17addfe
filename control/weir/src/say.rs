//! Standard output and standard error of a command, either of which may be closed or full.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write, stderr, stdout};

/// Prints to standard output. A reader that has seen enough (`weir show | head -1`) is no error.
///
/// # Errors
/// Standard output takes no more, for example because its disk is full.
pub fn say(text: &str) -> Result<()> {
    say_more(text).map(drop)
}

/// The same for who would go on: whether somebody still reads.
///
/// # Errors
/// As [`say`].
pub fn say_more(text: &str) -> Result<bool> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Prints a line to standard error; nobody can be told when that fails (`eprintln!` would panic).
pub fn complain(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}
