//! The unix socket of an instance: connect, read one JSON document, done.
//!
//! It lies in a directory that only its owner may enter. What a client sends, curl its request for
//! example, is read and thrown away. A reader that is slow or hostile holds up nobody: nothing here
//! waits for a reader, and what one call does is bounded.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A listening socket that is removed when dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    readers: Vec<Reader>,
}

/// One who has asked and has not taken the whole answer yet, or has not hung up since.
#[derive(Debug)]
struct Reader {
    stream: UnixStream,
    document: Arc<[u8]>,
    sent: usize,
    /// Looks left until it is given up.
    patience: u32,
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
        Ok(Self { listener, path, readers: Vec::new() })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers those who wait, at most [`READERS`] at a time and all with one document, and goes on
    /// with those who had no room for all of theirs or have not hung up.
    pub fn answer(&mut self, document: impl FnOnce() -> Result<String>) {
        self.readers.retain_mut(Reader::is_there);
        let asking: Vec<_> = std::iter::from_fn(|| self.listener.accept().ok())
            .take(READERS - self.readers.len())
            .map(|(stream, _)| stream)
            .collect();
        if asking.is_empty() {
            return;
        }
        let Ok(document) = document() else { return };
        let document: Arc<[u8]> = document.into_bytes().into();
        for stream in asking.into_iter().filter(|stream| stream.set_nonblocking(true).is_ok()) {
            let mut reader = Reader { stream, document: document.clone(), sent: 0, patience: PATIENCE };
            if reader.is_there() {
                self.readers.push(reader);
            }
        }
    }
}

impl Reader {
    /// Goes on with it; `false` once it has hung up, or is too slow to be waited for.
    fn is_there(&mut self) -> bool {
        let heard = self.discard();
        self.patience = self.patience.saturating_sub(1);
        heard && self.patience > 0 && self.send()
    }

    /// Sends what the socket takes now; `false` if whoever asked is gone.
    fn send(&mut self) -> bool {
        while let Some(rest) = self.document.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
            if self.sent == self.document.len() {
                self.patience = LINGER;
                return self.stream.shutdown(Shutdown::Write).is_ok();
            }
        }
        true
    }

    /// Throws away what has come, a bounded part of it: a socket that is closed with bytes unread
    /// resets the connection, and the answer is lost. `false` once the client has hung up.
    fn discard(&mut self) -> bool {
        let mut bytes = [0; 4096];
        for _ in 0..DISCARD_READS {
            match self.stream.read(&mut bytes) {
                // Who sends no more may still want to read.
                Ok(0) => return self.sent < self.document.len(),
                Ok(_) => {}
                Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            }
        }
        true
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
    let (name, mut stream) = connect(name, "sock")?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut document = String::new();
    if let Err(error) = stream.read_to_string(&mut document) {
        match error.kind() {
            ErrorKind::WouldBlock => {
                bail!("instance {name:?} does not answer within {ANSWER_WITHIN:?}: is its process stopped?")
            }
            _ => bail!("instance {name:?} ended before it had answered: {error}"),
        }
    }
    if document.is_empty() {
        bail!("instance {name:?} gave no answer: it is starting or stopping, ask again");
    }
    Ok(document)
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
    (path.extension()? == "sock" && UnixStream::connect(path).is_ok())
        .then(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))?
}

/// Connects to the socket of an instance that ends in `extension`.
///
/// # Errors
/// As with [`ask`].
pub fn connect(name: Option<&str>, extension: &str) -> Result<(String, UnixStream)> {
    let dir = directory();
    let name = match name {
        Some(name) => name.to_owned(),
        None => the_only_one(&dir)?,
    };
    match UnixStream::connect(dir.join(format!("{name}.{extension}"))) {
        Ok(stream) => Ok((name, stream)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(not_the_owner(&dir)),
        Err(_) => bail!("no instance named {name:?} is running; {}", running(&instances(&dir)?)),
    }
}

/// `/run/weir` for root, the user's own run-time directory for others.
fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !nix::unistd::geteuid().is_root() => PathBuf::from(dir).join("weir"),
        _ => PathBuf::from("/run/weir"),
    }
}

/// Most answers under way. More have to wait, in the listener's queue.
const READERS: usize = 64;

/// How often a reader without room is tried again; at fifty looks a second, two seconds.
const PATIENCE: u32 = 100;

/// How many looks a reader that has its answer is left to hang up: long enough for one that connects
/// first and sends its request then, short enough that silent ones do not keep others waiting.
const LINGER: u32 = 10;

/// Reads of 4 KiB that one look throws away at most.
const DISCARD_READS: usize = 4;

/// How long an instance may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

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

    #[test]
    fn one_call_answers_a_bounded_number_and_waits_for_none() {
        let dir = Dir::new("crowd");
        let mut socket = Socket::claim_in(&dir.0, "one").unwrap();
        let long = "x".repeat(4 << 20);
        let connect = || UnixStream::connect(dir.0.join("one.sock")).unwrap();
        let silent: Vec<_> = (0..READERS + 1).map(|_| connect()).collect();
        socket.answer(|| Ok(long.clone()));
        assert_eq!(socket.readers.len(), READERS, "none of them reads");
        for _ in 0..PATIENCE {
            socket.answer(|| Ok("short".to_owned()));
        }
        assert!(socket.readers.len() <= 1, "they were given up");
        drop(silent);
        let mut reader = connect();
        reader.set_nonblocking(true).unwrap();
        let mut got = Vec::new();
        loop {
            socket.answer(|| Ok(long.clone()));
            match reader.read_to_end(&mut got) {
                Ok(_) => break,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert!(got == long.as_bytes(), "a reader that reads gets all, in as many calls as it takes");
    }

    #[test]
    fn a_client_that_sends_something_gets_its_answer() {
        let dir = Dir::new("chatty");
        let mut socket = Socket::claim_in(&dir.0, "one").unwrap();
        let connect = || UnixStream::connect(dir.0.join("one.sock")).unwrap();
        let (mut early, mut late) = (connect(), connect());
        let request = [b'x'; 3 * 4096];
        early.write_all(&request).unwrap();
        socket.answer(|| Ok("document".to_owned()));
        late.write_all(&request).unwrap();
        for mut client in [early, late] {
            let mut got = String::new();
            client.read_to_string(&mut got).unwrap();
            assert_eq!(got, "document");
            client.write_all(b"after the end").unwrap();
            socket.answer(|| panic!("nobody asks"));
        }
        socket.answer(|| panic!("nobody asks"));
        assert!(socket.readers.is_empty(), "both have hung up");
    }

    #[test]
    fn one_that_never_stops_sending_is_given_up() {
        let dir = Dir::new("endless");
        let mut socket = Socket::claim_in(&dir.0, "one").unwrap();
        let mut client = UnixStream::connect(dir.0.join("one.sock")).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut calls = 0;
        loop {
            while client.write(&[0; 4096]).is_ok() {}
            socket.answer(|| Ok("document".to_owned()));
            calls += 1;
            if socket.readers.is_empty() {
                break;
            }
        }
        assert!(calls <= LINGER + 1, "{calls}");
    }
}
