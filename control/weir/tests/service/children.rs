//! Programs that a test starts, none of which outlives it: each is killed when its owner is dropped, and by the kernel
//! when the test itself is (`setpriv --pdeathsig`).

use crate::ending;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A running program and the lines that it prints.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
}

/// A network namespace that lives as long as a process in it.
pub struct Netns(Process);

impl Process {
    pub fn spawn(command: Command) -> Self {
        let mut wrapped = Command::new("setpriv");
        wrapped.args(["--pdeathsig", "TERM"]).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            wrapped.env(key, value.unwrap());
        }
        let wrapped = wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = wrapped.spawn().unwrap();
        let (sender, lines) = channel();
        forward(child.stdout.take().unwrap(), sender.clone());
        forward(child.stderr.take().unwrap(), sender);
        Self { child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line, if one comes in time.
    pub fn line(&self, timeout: Duration) -> Option<String> {
        self.lines.recv_timeout(timeout).ok()
    }

    pub fn signal(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Whether it has ended, or does so in time.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        ending::within(&mut self.child, time)
    }

    /// Asks it to end, kills it if it takes longer than `grace`; what it printed last.
    pub fn stop(mut self, signal: Signal, grace: Duration) -> (ExitStatus, Vec<String>) {
        if self.ended().is_none() {
            self.signal(signal);
        }
        if !self.ends_within(grace) {
            self.child.kill().unwrap();
        }
        let status = self.child.wait().unwrap();
        (status, self.lines.iter().collect())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Netns {
    pub fn new() -> Self {
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "sh", "-c", "ip link set lo up && echo entered && exec sleep infinity"]);
        let holder = Process::spawn(unshare);
        assert_eq!(holder.line(Duration::from_secs(30)).as_deref(), Some("entered"));
        Self(holder)
    }

    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// A command that runs inside.
    pub fn command(&self, program: &str) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/proc/{}/ns/net", self.pid())).arg(program);
        inside
    }
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

pub fn now() -> Instant {
    #[allow(clippy::disallowed_methods, reason = "a test that waits for programs")]
    Instant::now()
}

fn forward(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        lines.take_while(|line| to.send(line.clone()).is_ok()).count()
    });
}
