//! Child processes that cannot outlive a run.
//!
//! Each child is asked to stop (SIGTERM), then killed, when its [`Process`] is dropped. Should this process die
//! without dropping (SIGKILL, abort), the kernel sends SIGTERM to the child: `setpriv --pdeathsig` sets that up
//! and then becomes the program, so that the pid stays and no `unsafe` hook is needed between fork and exec.
//! The kernel means the parent *thread*: spawn from a thread that lives as long as the child may.
//! A program with file capabilities (Debian's `ping`) loses that wish at exec; it dies of its closed pipe instead.
//! Children have their own session: Ctrl-C at the terminal reaches this process alone, which then stops them in order.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;
pub use rustix::process::Signal;

use crate::clock::{Interrupt, nap, now};

/// A running child and the lines that it prints, standard output and error together.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a command made by [`command`]. Its lines also go into `log`, if given.
    pub fn spawn(name: &str, command: &mut Command, log: Option<&Path>) -> Result<Self> {
        let log =
            log.map(|path| File::create(path).with_context(|| format!("cannot create {}", path.display())));
        let log = log.transpose()?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            forward_lines(stdout, sender.clone(), log.as_ref().and_then(|file| file.try_clone().ok()));
        }
        if let Some(stderr) = child.stderr.take() {
            forward_lines(stderr, sender, log);
        }
        Ok(Self { name: name.to_owned(), child, lines, status: None })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line if one comes within `timeout`.
    pub fn line(&self, timeout: Duration) -> Option<String> {
        self.lines.recv_timeout(timeout).ok()
    }

    /// The lines that are there already.
    pub fn ready_lines(&self) -> impl Iterator<Item = String> + '_ {
        self.lines.try_iter()
    }

    /// Waits for a line that contains `text`; an error with the child's last lines if it ends or `timeout` passes.
    pub fn wait_for(&mut self, text: &str, timeout: Duration, interrupt: &Interrupt) -> Result<()> {
        let end = now() + timeout;
        let mut tail = Vec::new();
        loop {
            interrupt.check()?;
            match self.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) if line.contains(text) => return Ok(()),
                Ok(line) => tail.push(line),
                Err(RecvTimeoutError::Timeout) if now() < end => {}
                Err(reason) => {
                    let what = match reason {
                        RecvTimeoutError::Timeout => format!("did not print \"{text}\" within {timeout:?}"),
                        RecvTimeoutError::Disconnected => "ended too early".to_owned(),
                    };
                    let from = tail.len().saturating_sub(TAIL_LINES);
                    bail!("{} {what}; its last lines:\n  {}", self.name, tail[from..].join("\n  "));
                }
            }
        }
    }

    /// The exit status if the child has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait().with_context(|| format!("cannot wait for {}", self.name))?;
        }
        Ok(self.status)
    }

    /// Sends `signal` and no more; nothing happens if the child has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // An unreaped child keeps its pid, so no signal can hit a stranger.
        if self.ended()?.is_none() {
            rustix::process::kill_process(Pid::from_child(&self.child), signal)
                .with_context(|| format!("cannot signal {}", self.name))?;
        }
        Ok(())
    }

    /// Sends `signal`, waits up to `grace`, kills the child if it still runs; returns its status and last lines.
    pub fn stop(mut self, signal: Signal, grace: Duration) -> Result<(ExitStatus, Vec<String>)> {
        self.terminate(signal, grace)?;
        let lines = self.lines.iter().collect();
        let status = self.status.with_context(|| format!("{} has no exit status", self.name))?;
        Ok((status, lines))
    }

    fn terminate(&mut self, signal: Signal, grace: Duration) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        self.signal(signal)?;
        if self.ended()?.is_none() {
            let end = now() + grace;
            while self.ended()?.is_none() && now() < end {
                nap(Duration::from_millis(5));
            }
        }
        if self.ended()?.is_none() {
            rustix::process::kill_process_group(pid, Signal::KILL)
                .with_context(|| format!("cannot kill {}", self.name))?;
            self.status = Some(self.child.wait()?);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing better is left to do on an error: the parent-death signal still stands behind this.
        let _ = self.terminate(Signal::TERM, Duration::from_secs(3));
    }
}

/// A command for [`Process::spawn`]: gets SIGTERM when its parent dies, comes before other work, speaks English.
///
/// Its priority is what a machine of its own would give it; on a shared one the rig would measure the neighbours.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    wrapped("-20", program)
}

/// As [`command`], but takes its turn with other work: for what has a clock of its own and does not measure ours.
pub fn background(program: impl AsRef<OsStr>) -> Command {
    wrapped("0", program)
}

fn wrapped(nice: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(SETSID);
    command.args(["sh", "-c", RENICE, nice]).args(["setpriv", "--pdeathsig", "TERM"]);
    command.arg(program).env("LC_ALL", "C");
    command
}

/// What [`command`] or [`background`] and its caller made, as one would type it.
pub fn typed(command: &Command) -> String {
    let words = command.get_args().skip(WRAPPER_WORDS).map(OsStr::to_string_lossy);
    words.collect::<Vec<_>>().join(" ")
}

/// Runs a short command to its end and returns its standard output; an error carries its standard error.
pub fn run(command: &mut Command) -> Result<String> {
    // A leader of a group cannot start a session: setsid would fork, and its first half report success at once.
    if command.get_program() != SETSID {
        command.process_group(0);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    ensure!(output.status.success(), "{command:?} failed ({}): {}", output.status, text(&output.stderr));
    Ok(text(&output.stdout))
}

/// An error that names every missing tool and its Debian package; `tools` are pairs of the two.
pub fn require(tools: &[(&str, &str)]) -> Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = |tool: &str| env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    let missing: Vec<_> = tools.iter().filter(|(tool, _)| !found(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(tool, _)| *tool).collect();
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    bail!("not found: {}; install with: apt-get install {}", names.join(", "), packages.join(" "))
}

/// An error that says so unless this process runs as root.
pub fn require_root() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "network namespaces and taps need root: run this with sudo"
    );
    Ok(())
}

fn forward_lines(source: impl Read + Send + 'static, sender: Sender<String>, mut log: Option<File>) {
    thread::spawn(move || {
        for line in BufReader::new(source).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some(log) = &mut log {
                // A full disk must not stop the reader, or the child would block on its pipe.
                let _ = writeln!(log, "{line}");
            }
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}

/// Gives the process a nice value, and its session too where the kernel groups by session (autogroup): nice alone
/// counts only within that group. Without the right to it, everything runs as it did.
const RENICE: &str = r#"{ echo "$0" >/proc/self/autogroup; renice -n "$0" $$; } >/dev/null 2>&1; exec "$@""#;
const SETSID: &str = "setsid";
/// What comes between it and the program in [`wrapped`].
const WRAPPER_WORDS: usize = 7;
/// How much of a failed child's output goes into the error.
const TAIL_LINES: usize = 12;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn alive(pid: u32) -> bool {
        fs::exists(format!("/proc/{pid}")).unwrap()
    }

    #[test]
    fn dropping_ends_even_a_child_that_ignores_sigterm() {
        let mut shell = command("sh");
        shell.args(["-c", "trap '' TERM; echo up; while :; do sleep 0.01; done"]);
        let child = Process::spawn("shell", &mut shell, None).unwrap();
        assert_eq!(child.line(Duration::from_secs(10)).as_deref(), Some("up"));
        let pid = child.pid();
        let (status, _) = child.stop(Signal::TERM, Duration::from_millis(50)).unwrap();
        assert!(!status.success());
        assert!(!alive(pid));
    }

    #[test]
    fn lines_after_the_signal_are_kept() {
        let mut shell = command("sh");
        shell.args(["-c", "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.01; done"]);
        let child = Process::spawn("shell", &mut shell, None).unwrap();
        assert_eq!(child.line(Duration::from_secs(10)).as_deref(), Some("up"));
        let (status, lines) = child.stop(Signal::INT, Duration::from_secs(10)).unwrap();
        assert!(status.success());
        assert_eq!(lines, ["bye"]);
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = require(&[("sh", "dash"), ("no-such-tool", "some-package")]).unwrap_err().to_string();
        assert_eq!(error, "not found: no-such-tool; install with: apt-get install some-package");
    }

    #[test]
    fn a_failing_command_says_why() {
        for mut shell in [Command::new("sh"), command("sh")] {
            let error = run(shell.args(["-c", "echo broken >&2; exit 3"])).unwrap_err().to_string();
            assert!(error.contains("broken") && error.contains("exit status: 3"), "{error}");
        }
    }
}
