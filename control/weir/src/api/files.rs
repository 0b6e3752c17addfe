//! Files that are read again when they change: tokens are rotated and certificates renewed while weir runs.

use anyhow::{Context, Result, bail};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Some files, as they were when they were looked at last.
#[derive(Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    seen: Vec<Option<Stamp>>,
}

/// What differs once a file is another one, or was written to.
type Stamp = ([u64; 3], u32, [i64; 4]);

impl Files {
    /// These files, as they are now.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let seen = paths.iter().map(|path| stamp(path)).collect();
        Self { paths, seen }
    }

    /// Whether one has changed since this was asked last.
    pub fn have_changed(&mut self) -> bool {
        let seen: Vec<_> = self.paths.iter().map(|path| stamp(path)).collect();
        let have = seen != self.seen;
        self.seen = seen;
        have
    }
}

/// What is in a file that is kept from those in `others`, bits of its mode; it is short.
///
/// # Errors
/// It cannot be read, is no ordinary file, is too long, is open to others, or belongs to somebody else.
pub fn secret(path: &Path, others: u32) -> Result<Vec<u8>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("{shown}: cannot be opened"))?;
    let about = file.metadata()?;
    let (mode, owner, me) = (about.mode() & 0o7777, about.uid(), nix::unistd::geteuid().as_raw());
    if !about.is_file() {
        bail!("{shown}: is no ordinary file");
    }
    if mode & others != 0 {
        bail!("{shown}: is open to others (mode {mode:04o}): chmod {:04o} {shown}", mode & !others);
    }
    if owner != me && owner != 0 {
        bail!("{shown}: belongs to user {owner}: it must be root's, or that of user {me}, who runs weir");
    }
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text).with_context(|| format!("{shown}: cannot be read"))?;
    if text.len() as u64 > LONGEST {
        bail!("{shown}: is longer than {LONGEST} bytes");
    }
    Ok(text)
}

fn stamp(path: &Path) -> Option<Stamp> {
    let of = |about: Metadata| {
        let times = [about.ctime(), about.ctime_nsec(), about.mtime(), about.mtime_nsec()];
        ([about.dev(), about.ino(), about.size()], about.mode(), times)
    };
    std::fs::metadata(path).ok().map(of)
}

/// Bytes of a secret at most: a private key of 16,384 bits in PEM has 12,700.
const LONGEST: u64 = 64 << 10;
