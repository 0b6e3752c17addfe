//! An instance on ports that receive nothing, and a client that can be as odd as it likes.

use crate::ending;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// A running instance; it is stopped, and its folder removed, when dropped.
pub struct Weir {
    pub name: String,
    pub folder: PathBuf,
    /// Where it listens for TCP, if it does.
    pub address: Option<SocketAddr>,
    process: Child,
    _stdout: BufReader<ChildStdout>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Weir {
    /// Runs with these keys of `[api]`; `{folder}` is the folder of the test.
    pub fn start(test: &str, api: &str) -> Self {
        Self::start_in(&Self::folder(test), test, api)
    }

    /// A new folder, for files that an instance is to find.
    pub fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-api-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub fn start_in(folder: &std::path::Path, test: &str, api: &str) -> Self {
        let name = format!("api-{test}-{}", std::process::id());
        let file = folder.join("weir.toml");
        std::fs::write(&file, config(&api.replace("{folder}", folder.to_str().unwrap()))).unwrap();
        let mut process =
            weir(&["run", file.to_str().unwrap(), "--name", &name]).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut address = None;
        loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "weir ended before it was ready");
            if let Some((_, url)) = line.split_once("listens on http") {
                let of = url.trim_start_matches('s').trim_start_matches("://");
                address = Some(of.trim_end().trim_end_matches('/').parse().unwrap());
            }
            if line.contains("ready") {
                break;
            }
        }
        Self { name, folder: folder.to_owned(), address, process, _stdout: stdout }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn socket(&self) -> PathBuf {
        PathBuf::from(format!("/run/weir/{}.sock", self.name))
    }

    pub fn unix(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address.unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Asks over the unix socket.
    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        ask(self.unix(), method, path, headers, body)
    }

    /// Sends a request over the unix socket with the length that the headers give; the answer is still to come.
    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> UnixStream {
        let mut stream = self.unix();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        stream
    }

    /// The document at `path`.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &[], "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Runs `weir` with these arguments and this instance's name.
    pub fn tell(&self, args: &[&str]) -> Output {
        let named: &[&str] = if args[0] == "set" { &["--name", &self.name] } else { &[&self.name] };
        weir(args).args(named).output().unwrap()
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = ending::within(&mut self.process, PATIENCE) || self.process.kill().is_ok();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let of =
            |line: &'_ str| line.split_once(": ").is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        self.head.lines().find(|line| of(line)).and_then(|line| line.split_once(": ")).map(|(_, value)| value)
    }
}

/// One request on a connection of its own.
pub fn ask(mut stream: impl Read + Write, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let host =
        if headers.iter().any(|header| header.starts_with("Host:")) { "" } else { "Host: localhost\r\n" };
    let mut head = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n");
    headers.iter().for_each(|header| head += &format!("{header}\r\n"));
    if !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    // Refused before all of it was sent, which is no fault of this client's.
    let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
    read(stream)
}

/// All that comes until the other end closes, as one answer.
pub fn read(mut stream: impl Read) -> Answer {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    // TLS without a farewell, or a connection reset after the answer, are told as errors.
    while let Ok(length @ 1..) = stream.read(&mut part) {
        bytes.extend_from_slice(&part[..length]);
    }
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}

/// `weir` with these arguments.
pub fn weir(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).stdin(Stdio::null());
    command
}

/// A file with little memory for packets.
pub fn config(api: &str) -> String {
    let port = |index: u32| format!("{{ device = \"net_null{index},no-rx=1\", rx-ring = 64, tx-ring = 64 }}");
    format!(
        "[api]\n{api}\n[[link]]\nname = \"idle\"\na = {}\nb = {}\ndown.limit = 1000\nup.limit = 1000\n",
        port(0),
        port(1)
    )
}

/// How long anything may take before it counts as never.
pub const PATIENCE: Duration = Duration::from_secs(60);
