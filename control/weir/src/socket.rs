//! The unix socket of an instance: connect, read one JSON document, done.
//!
//! It lies in a directory that only its owner may enter. A reader that is slow or hostile holds
//! up nobody: each answer is one write with a time limit, one connection at a time.

use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A listening socket that is removed when dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Claims the name of an instance.
    ///
    /// # Errors
    /// Another instance answers under this name, or the directory cannot be used.
    pub fn claim(name: &str) -> Result<Self> {
        let dir = directory();
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .with_context(|| format!("cannot create {}", dir.display()))?;
        let path = dir.join(format!("{name}.sock"));
        if UnixStream::connect(&path).is_ok() {
            bail!("an instance named {name:?} is running; stop it, or give this one another --name");
        }
        // Left behind by an instance that was killed.
        let _ = std::fs::remove_file(&path);
        let listener =
            UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path })
    }

    /// Answers everybody who waits.
    pub fn answer(&self, mut document: impl FnMut() -> Result<String>) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            // Whoever asked and went away, or asked for nothing, is no concern of ours.
            let _ = stream
                .set_nonblocking(false)
                .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
                .map_err(anyhow::Error::from)
                .and_then(|()| Ok(stream.write_all(document()?.as_bytes())?));
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Asks an instance for its document.
///
/// # Errors
/// No such instance, several and no name given, or it does not answer.
pub fn ask(name: Option<&str>) -> Result<String> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => the_only_one()?,
    };
    let path = directory().join(format!("{name}.sock"));
    let mut stream = UnixStream::connect(&path)
        .with_context(|| format!("no instance named {name:?} answers at {}", path.display()))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut document = String::new();
    stream.read_to_string(&mut document).with_context(|| format!("instance {name:?} does not answer"))?;
    Ok(document)
}

fn the_only_one() -> Result<String> {
    let dir = directory();
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .map(|entries| entries.flatten().filter_map(|entry| instance(&entry.path())).collect())
        .unwrap_or_default();
    names.sort();
    match names.as_slice() {
        [] => bail!("no instance is running (nothing in {}); start one with `weir run FILE`", dir.display()),
        [name] => Ok(name.clone()),
        several => bail!("several instances are running, name one of them: {}", several.join(", ")),
    }
}

fn instance(path: &Path) -> Option<String> {
    (path.extension()? == "sock" && UnixStream::connect(path).is_ok())
        .then(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))?
}

/// `/run/weir` for root, the user's own run-time directory for others.
fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !nix::unistd::geteuid().is_root() => PathBuf::from(dir).join("weir"),
        _ => PathBuf::from("/run/weir"),
    }
}

/// How long one reader may take for its answer.
const PATIENCE: Duration = Duration::from_millis(500);
