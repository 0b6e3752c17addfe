//! Commands to a running instance: a socket beside that of the statistics, on which a client sends one
//! line of JSON, a [`Request`], and is sent one back, an [`Answer`].
//!
//! Only the owner may connect, and who did is told by the kernel. Nothing here waits for a client: one
//! that is slow, silent or says too much is hung up on.

use crate::history::Entry;
use crate::socket;
use anyhow::{Context, Result, bail};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Uid, User};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a client may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Take up the changed file.
    Reload {
        /// Only tell what would change.
        dry_run: bool,
    },
    /// Change one value.
    Set {
        /// The key.
        path: String,
        /// Its value, with or without quotes.
        value: String,
        /// Set it back after this many seconds.
        for_s: Option<u64>,
        /// Only tell what would change.
        dry_run: bool,
    },
    /// Tell what was changed.
    History,
}

/// What it is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub ok: bool,
    /// What was done, or why not, for people.
    pub text: String,
    /// What was changed since the start, if that was asked.
    pub history: Vec<Entry>,
}

/// The listening socket; it is removed when dropped.
#[derive(Debug)]
pub struct Commands {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    who: String,
    heard: Vec<u8>,
    /// Looks left until it is given up.
    patience: u32,
}

/// What a look at a client found.
enum Heard {
    /// Not all yet.
    Part,
    Line,
    /// It is gone, or is not worth waiting for.
    Gone,
}

impl Commands {
    /// Listens beside the statistics' socket, whose name this process holds.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn beside(statistics: &Path) -> Result<Self> {
        let path = statistics.with_extension(EXTENSION);
        let _ = std::fs::remove_file(&path);
        let listener =
            UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path, clients: Vec::new() })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Carries out what has been asked for, with who asked.
    pub fn serve(&mut self, mut carry_out: impl FnMut(Request, &str) -> Answer) {
        let room = CLIENTS - self.clients.len();
        let new = std::iter::from_fn(|| self.listener.accept().ok()).take(room);
        self.clients.extend(new.filter_map(|(stream, _)| Client::new(stream)));
        self.clients.retain_mut(|client| match client.listen() {
            Heard::Part => true,
            Heard::Gone => false,
            Heard::Line => {
                let answer = match serde_json::from_slice(&client.heard) {
                    Ok(request) => carry_out(request, &client.who),
                    Err(error) => Answer::refusal(format!("not a request: {error}")),
                };
                client.tell(&answer);
                false
            }
        });
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Client {
    fn new(stream: UnixStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        let peer = getsockopt(&stream, PeerCredentials).ok()?;
        let user = User::from_uid(Uid::from_raw(peer.uid())).ok().flatten();
        let user = user.map_or_else(|| format!("uid {}", peer.uid()), |user| user.name);
        let who = format!("{user} (pid {})", peer.pid());
        Some(Self { stream, who, heard: Vec::new(), patience: PATIENCE })
    }

    fn listen(&mut self) -> Heard {
        let mut bytes = [0; 4096];
        self.patience -= 1;
        while self.heard.len() < LONGEST_LINE && self.patience > 0 {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Heard::Gone,
                Ok(length) => self.heard.extend_from_slice(bytes.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Part,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Heard::Gone,
            }
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                self.heard.truncate(end);
                return Heard::Line;
            }
        }
        Heard::Gone
    }

    /// What the socket does not take at once is not sent: it holds more than the longest history.
    fn tell(&mut self, answer: &Answer) {
        let Ok(mut line) = serde_json::to_vec(answer) else { return };
        line.push(b'\n');
        let _ = self.stream.write_all(&line);
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

impl Answer {
    /// It was done.
    pub fn done(text: String) -> Self {
        Self { ok: true, text, history: Vec::new() }
    }

    /// It was not.
    pub fn refusal(text: String) -> Self {
        Self { ok: false, text, history: Vec::new() }
    }
}

/// Asks an instance for something.
///
/// # Errors
/// No such instance, or it does not answer.
pub fn ask(name: Option<&str>, request: &Request) -> Result<Answer> {
    let (name, mut stream) = socket::connect(name, EXTENSION)?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).with_context(|| format!("instance {name:?} has hung up"))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut answer = Vec::new();
    if stream.read_to_end(&mut answer).is_err() || answer.is_empty() {
        bail!(
            "instance {name:?} gave no answer within {ANSWER_WITHIN:?}: `weir history` tells whether it was done"
        );
    }
    serde_json::from_slice(&answer)
        .context("the instance's answer cannot be read: is it another version of weir?")
}

/// What the socket's name ends in.
const EXTENSION: &str = "ctl";

/// Clients at a time. More have to wait, in the listener's queue.
const CLIENTS: usize = 16;

/// Looks that a client is given for its line: two seconds at fifty a second.
const PATIENCE: u32 = 100;

/// Bytes of a request at most.
const LONGEST_LINE: usize = 64 << 10;

/// How long an instance may take to answer: longer than it waits for its workers.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(test: &str) -> Commands {
        let name = format!("weir-command-{test}-{}.sock", std::process::id());
        Commands::beside(&std::env::temp_dir().join(name)).unwrap()
    }

    #[test]
    fn a_request_in_parts_is_carried_out_once_and_answered() {
        let mut commands = commands("parts");
        let mode = std::fs::metadata(commands.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = UnixStream::connect(commands.path()).unwrap();
        let mut asked = Vec::new();
        for part in ["{\"reload\":{\"dry", "_run\":true}}\n"] {
            assert!(asked.is_empty());
            client.write_all(part.as_bytes()).unwrap();
            commands.serve(|request, who| {
                asked.push((request, who.to_owned()));
                Answer::done("nothing to do".to_owned())
            });
        }
        let [(request, who)] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(*request, Request::Reload { dry_run: true });
        assert!(who.ends_with(&format!("(pid {})", std::process::id())), "{who}");
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let answer: Answer = serde_json::from_str(&answer).unwrap();
        assert!(answer.ok && answer.text == "nothing to do");
        assert!(commands.clients.is_empty());
    }

    #[test]
    fn whoever_says_nothing_nonsense_or_too_much_is_hung_up_on() {
        let mut commands = commands("nonsense");
        let path = commands.path().to_owned();
        let never = |_: Request, _: &str| -> Answer { panic!("nothing was asked") };
        let _silent = UnixStream::connect(&path).unwrap();
        let mut endless = UnixStream::connect(&path).unwrap();
        endless.set_nonblocking(true).unwrap();
        let mut wrong = UnixStream::connect(&path).unwrap();
        wrong.write_all(b"{\"reboot\":{}}\n").unwrap();
        for _ in 0..=PATIENCE {
            while endless.write(&[b'x'; 4096]).is_ok() {}
            commands.serve(never);
        }
        assert!(commands.clients.is_empty());
        let mut answer = String::new();
        wrong.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("not a request") && answer.contains("\"ok\":false"), "{answer}");
        drop(commands);
        assert!(!path.exists());
    }
}
