//! The name of an instance: a unix socket in a directory that only its owner may enter.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

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
        Self::claim_in(&dir, name).map_err(|error| match error.downcast_ref::<std::io::Error>() {
            Some(cause) if cause.kind() == ErrorKind::PermissionDenied => error.context(format!(
                "{} belongs to another user: run as root, or with XDG_RUNTIME_DIR set to a directory of yours",
                dir.display()
            )),
            _ => error,
        })
    }

    fn claim_in(dir: &Path, name: &str) -> Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .with_context(|| format!("cannot create {}", dir.display()))?;
        // Two that start at once look one after the other, or the second would remove the socket
        // of the first as one left behind. Let go at the end of this function.
        let turn = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
        turn.lock().with_context(|| format!("cannot lock {}", dir.display()))?;
        let path = dir.join(format!("{name}.{EXTENSION}"));
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

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What clients connect to. Those who come before it is served wait.
    ///
    /// # Errors
    /// No file descriptor is free.
    pub fn listener(&self) -> Result<UnixListener> {
        Ok(self.listener.try_clone()?)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The name of an instance that runs, and its socket.
///
/// # Errors
/// No such instance; several, and no name is given; or they are another user's.
pub fn find(name: Option<&str>) -> Result<(String, PathBuf)> {
    let dir = directory();
    let name = match name {
        Some(name) => name.to_owned(),
        None => the_only_one(&dir)?,
    };
    let path = dir.join(format!("{name}.{EXTENSION}"));
    match UnixStream::connect(&path) {
        Ok(_) => Ok((name, path)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(not_the_owner(&dir)),
        Err(_) => bail!("no instance named {name:?} is running; {}", running(&instances(&dir)?)),
    }
}

fn the_only_one(dir: &Path) -> Result<String> {
    let names = instances(dir)?;
    match names.as_slice() {
        [name] => Ok(name.clone()),
        [] => bail!("no instance is running (nothing in {}); {}", dir.display(), running(&names)),
        several => bail!("several instances are running, name one of them: {}", several.join(", ")),
    }
}

/// What to do when the one that was asked for is not there.
fn running(names: &[String]) -> String {
    if names.is_empty() {
        return "start one with `weir run FILE`".to_owned();
    }
    format!("running: {}", names.join(", "))
}

/// The names of those that run, sorted.
fn instances(dir: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(not_the_owner(dir)),
        Err(_) => return Ok(Vec::new()),
    };
    let mut names: Vec<_> = entries.flatten().filter_map(|entry| instance(&entry.path())).collect();
    names.sort();
    Ok(names)
}

fn not_the_owner(dir: &Path) -> String {
    format!("{} belongs to another user: ask as the user that runs weir, usually root", dir.display())
}

fn instance(path: &Path) -> Option<String> {
    (path.extension()? == EXTENSION && UnixStream::connect(path).is_ok())
        .then(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))?
}

/// `/run/weir` for root, the user's own run-time directory for others.
fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !nix::unistd::geteuid().is_root() => PathBuf::from(dir).join("weir"),
        _ => PathBuf::from("/run/weir"),
    }
}

/// What a socket's name ends in.
const EXTENSION: &str = "sock";

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of one test, gone with it.
    struct Dir(PathBuf);

    impl Dir {
        fn new(test: &str) -> Self {
            Self(std::env::temp_dir().join(format!("weir-socket-{test}-{}", std::process::id())))
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn of_many_that_claim_a_name_at_once_one_gets_it() {
        let dir = Dir::new("claim");
        let start = std::sync::Barrier::new(8);
        for _ in 0..100 {
            let claim = || {
                start.wait();
                Socket::claim_in(&dir.0, "one")
            };
            let claims: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1);
            for error in claims.iter().filter_map(|claim| claim.as_ref().err()) {
                assert!(error.to_string().contains("\"one\" is running"), "{error:#}");
            }
        }
    }
}
