//! `weir top` as people see it: in a pseudo-terminal, of an instance that shapes real frames. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]
#![allow(clippy::disallowed_methods, reason = "another process is waited for, within bounds")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

mod ending;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetwinsize};

/// Rate of the direction under test in bit/s.
const RATE: f64 = 10e6;

#[test]
fn live_figures_keys_sizes_and_an_instance_that_comes_back() {
    let bench = Bench::new("live");
    let weir = bench.run();
    let mut top = bench.top((80, 24), &[]);
    top.until("a rate", |screen| {
        let rate = screen.row("home/up").and_then(|row| amount(row.split_whitespace().nth(2)?));
        rate.is_some_and(|rate| (0.9 * RATE..1.1 * RATE).contains(&rate))
    });
    // Frames come as fast as a thread can make them: nearly all are lost, and what is sent has waited.
    top.until("flows with a rate and a delay", |screen| {
        let row = screen.row("192.0.2.11:5001 > 198.51.100.2:443 udp");
        let cells: Vec<_> = row.as_deref().map(|row| row.split_whitespace().collect()).unwrap_or_default();
        let rate = cells.get(5).and_then(|cell| amount(cell));
        cells.get(4) == Some(&"up")
            && rate.is_some_and(|rate| (0.05 * RATE..0.2 * RATE).contains(&rate))
            && cells.last().is_some_and(|delay| delay.ends_with("ms"))
    });
    top.until("a busy lcore", |screen| {
        let busy = screen.row("lcore").and_then(|row| row.split_whitespace().nth(2)?.parse::<f64>().ok());
        busy.is_some_and(|busy| busy > 10.0)
    });
    for tin in ["  Bulk", "  Best Effort", "  Video", "  Voice"] {
        assert!(top.screen().row(tin).is_some(), "{tin}:\n{}", top.screen());
    }

    top.press("h");
    top.until("hosts that send", |screen| {
        screen.row("SENDERS").is_some() && screen.row("192.0.2.12 ").is_some()
    });
    top.press("h");
    top.until("hosts that receive", |screen| {
        screen.row("RECEIVERS").is_some() && screen.row("198.51.100.1 ").is_some()
    });
    top.press("h/2.13\r");
    top.until("a filter", |screen| {
        screen.row("FLOWS /2.13").is_some()
            && screen.row("192.0.2.13:").is_some()
            && screen.row("192.0.2.10:").is_none()
    });
    top.press("\x1b");
    top.until("no filter", |screen| screen.row("192.0.2.10:").is_some());
    top.press("?");
    top.until("help", |screen| screen.row(" h  ").is_some());
    top.press("x\t\t\ts");
    top.until("another order", |screen| screen.row(" q quit").is_some_and(|row| row.contains("mean delay")));

    top.resize((120, 40));
    top.until("a taller screen", |screen| {
        screen.lines.len() == 40 && screen.lines.last().is_some_and(|line| line.starts_with(" q quit"))
    });
    top.until("a wider one", |screen| screen.row("QUEUE").is_some_and(|row| row.contains("pkt/s")));
    top.resize((60, 15));
    top.until("a small one", |screen| {
        screen.lines.len() == 15 && screen.lines.last().is_some_and(|line| line.starts_with(" q quit"))
    });
    top.resize((80, 24));

    weir.stop();
    top.until("that it ended", |screen| screen.lines.first().is_some_and(|line| line.contains("waiting")));
    assert!(top.screen().row("home/up").is_some(), "the last picture stays:\n{}", top.screen());
    let again = bench.run();
    top.until("that it is back", |screen| {
        let row = screen.row("home/up").and_then(|row| amount(row.split_whitespace().nth(2)?));
        !screen.lines.first().is_some_and(|line| line.contains("waiting"))
            && row.is_some_and(|rate| rate > 0.5 * RATE)
    });
    top.press("q");
    let status = top.ended();
    assert!(status.success(), "{status}");
    top.assert_given_back();
    again.stop();
}

#[test]
fn signals_give_the_terminal_back_and_no_colour_is_heeded() {
    let bench = Bench::new("signals");
    let weir = bench.run();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut top = bench.top((80, 24), &[("NO_COLOR", "1")]);
        top.until("a picture", |screen| screen.row("home/up").is_some());
        assert!(top.is_raw(), "keys come one by one");
        assert!(top.screen().is_plain, "there are colours:\n{}", top.screen());
        kill_process(Pid::from_child(&top.child), signal).unwrap();
        assert_eq!(top.ended().signal(), Some(signal.as_raw()));
        top.assert_given_back();
    }
    let mut coloured = bench.top((80, 24), &[("NO_COLOR", "")]);
    coloured.until("colours", |screen| screen.row("home/up").is_some() && !screen.is_plain);
    coloured.press("\x03");
    assert!(coloured.ended().success());
    coloured.assert_given_back();
    weir.stop();
}

#[test]
fn one_picture_for_a_script_and_one_for_paper() {
    let bench = Bench::new("once");
    let weir = bench.run();
    let text = bench.once(&[]);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    let rate =
        lines.iter().find(|line| line.starts_with("home/up")).and_then(|row| row.split_whitespace().nth(2));
    let rate = rate.and_then(amount).unwrap_or_else(|| panic!("{text}"));
    assert!((0.9 * RATE..1.1 * RATE).contains(&rate), "{text}");
    assert!(!text.contains('\x1b') && !text.contains("q quit"), "{text}");
    let svg = bench.folder.join("top.svg");
    bench.once(&["--svg", svg.to_str().unwrap(), "--size", "100x30"]);
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("Best Effort") && svg.contains("192.0.2.1"));
    weir.stop();

    let gone = Command::new(WEIR).args(["top", &bench.name]).output().unwrap();
    let said = String::from_utf8(gone.stderr).unwrap();
    assert!(!gone.status.success() && said.contains("--once"), "standard output is no terminal: {said}");
    let gone = Command::new(WEIR).args(["top", "--once", &bench.name]).output().unwrap();
    let said = String::from_utf8(gone.stderr).unwrap();
    assert!(!gone.status.success() && said.contains("no instance named"), "{said}");
}

/// A folder and the name of an instance, both of this process alone.
struct Bench {
    name: String,
    folder: PathBuf,
}

impl Bench {
    fn new(test: &str) -> Self {
        let name = format!("top-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(format!("weir-{name}"));
        fs::create_dir_all(&folder).unwrap();
        capture(&folder.join("in.pcap"));
        let file = format!(
            "[engine]\npoll = \"adaptive\"\n[[link]]\nname = \"home\"\n\
             a = \"net_pcap0,rx_pcap={}/in.pcap,infinite_rx=1,tx_pcap=/dev/null\"\nb = \"net_null1\"\n\
             up = {{ tc = \"cake bandwidth 10Mbit diffserv4 dual-srchost\" }}\ndown = \"off\"\n",
            folder.display()
        );
        fs::write(folder.join(format!("{name}.toml")), file).unwrap();
        Self { name, folder }
    }

    /// Runs an instance until it says that it is ready.
    fn run(&self) -> Weir {
        let mut weir = Command::new("setpriv");
        weir.args(["--pdeathsig", "TERM", WEIR, "run"]).arg(self.folder.join(format!("{}.toml", self.name)));
        let mut child = weir.stdout(Stdio::piped()).spawn().expect("setpriv of util-linux");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let weir = Weir { child };
        let said: Vec<_> = lines.map_while(Result::ok).take_while(|line| !line.contains("ready")).collect();
        assert!(said.is_empty(), "weir is not ready: {}", said.join("\n"));
        weir
    }

    fn top(&self, size: (u16, u16), environment: &[(&str, &str)]) -> Top {
        Top::start(&["top", &self.name, "--interval", "400ms"], size, environment)
    }

    /// What one picture says.
    fn once(&self, args: &[&str]) -> String {
        let output = Command::new(WEIR).args(["top", &self.name, "--once"]).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running instance, which ends with the thread that started it.
struct Weir {
    child: Child,
}

impl Weir {
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        // Nothing happens to one that has been waited for.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// A running `weir top` and the terminal it draws on.
struct Top {
    child: Child,
    terminal: OwnedFd,
    /// The end of the terminal that programs use, kept open to look at its state.
    line: OwnedFd,
    before: Termios,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
}

/// What the terminal shows.
struct Screen {
    lines: Vec<String>,
    is_plain: bool,
}

impl Top {
    /// Starts it in a session of its own, whose terminal is a new one: so that it is told of another size.
    fn start(args: &[&str], (columns, rows): (u16, u16), environment: &[(&str, &str)]) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let line = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        resize(&terminal, (columns, rows));
        let before = tcgetattr(&line).unwrap();
        let end = || Stdio::from(line.try_clone().unwrap());
        let mut program = Command::new("setsid");
        // Whoever runs the tests may ignore a signal, as nohup does, and that is inherited.
        program
            .args(["--ctty", "env", "--default-signal", WEIR])
            .args(args)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR");
        program.envs(environment.iter().copied()).stdin(end()).stdout(end()).stderr(end());
        let child = program.spawn().expect("setsid of util-linux");
        let mut reader = File::from(terminal.try_clone().unwrap());
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = reader.read(&mut bytes) {
                if count == 0 || sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let parser = vt100::Parser::new(size(rows), size(columns), 0);
        Self { child, terminal, line: line.into(), before, output, parser }
    }

    /// Waits until the screen is as it shall be.
    fn until(&mut self, what: &str, is_there: impl Fn(&Screen) -> bool) {
        let end = now() + Duration::from_secs(30);
        while !is_there(&self.screen()) {
            assert!(now() < end, "the screen never showed {what}:\n{}", self.screen());
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended:\n{}", self.screen());
            self.listen();
        }
    }

    /// Takes what is drawn next, if something is soon.
    fn listen(&mut self) {
        if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(200)) {
            self.parser.process(&bytes);
        }
    }

    fn screen(&mut self) -> Screen {
        self.output.try_iter().for_each(|bytes| self.parser.process(&bytes));
        let screen = self.parser.screen();
        let (rows, columns) = screen.size();
        let mut cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        let is_plain = cells.all(|(row, column)| {
            let plain = |cell: &vt100::Cell| {
                cell.fgcolor() == vt100::Color::Default && cell.bgcolor() == vt100::Color::Default
            };
            screen.cell(row, column).is_none_or(plain)
        });
        Screen { lines: screen.rows(0, columns.get()).collect(), is_plain }
    }

    fn press(&self, keys: &str) {
        File::from(self.terminal.try_clone().unwrap()).write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, (columns, rows): (u16, u16)) {
        self.screen();
        self.parser.screen_mut().set_size(size(rows), size(columns));
        resize(&self.terminal, (columns, rows));
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.line).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    fn ended(&mut self) -> ExitStatus {
        let has_ended = ending::within(&mut self.child, Duration::from_secs(10));
        assert!(has_ended, "it does not end:\n{}", self.screen());
        self.child.wait().unwrap()
    }

    /// The terminal is as it was: its modes, its screen, its cursor.
    fn assert_given_back(&mut self) {
        let after = tcgetattr(&self.line).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        let end = now() + Duration::from_secs(5);
        while self.screen().lines.iter().any(|line| !line.is_empty()) || self.parser.screen().hide_cursor() {
            assert!(now() < end, "not given back:\n{}", self.screen());
            self.listen();
        }
        assert!(!self.parser.screen().alternate_screen());
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Screen {
    /// The first line that starts with `text`, or that has it in it if it is an address.
    fn row(&self, text: &str) -> Option<String> {
        self.lines.iter().find(|line| line.starts_with(text)).cloned()
    }
}

impl std::fmt::Display for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "|{line}"))
    }
}

fn resize(terminal: &OwnedFd, (columns, rows): (u16, u16)) {
    tcsetwinsize(terminal, Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    assert_eq!(tcgetwinsize(terminal).unwrap().ws_col, columns);
}

fn size(side: u16) -> NonZeroU16 {
    NonZeroU16::new(side).unwrap()
}

/// A figure as it stands on the screen.
fn amount(cell: &str) -> Option<f64> {
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((cell.strip_suffix(unit)?, *factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// Eight flows of as many hosts to three.
fn capture(path: &Path) {
    let mut bytes = Vec::new();
    bytes.extend(0xa1b2_c3d4_u32.to_le_bytes());
    bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(65_535_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    for number in 0..8 {
        let frame = frame(number);
        bytes.extend([0; 8]);
        bytes.extend((frame.len() as u32).to_le_bytes());
        bytes.extend((frame.len() as u32).to_le_bytes());
        bytes.extend(frame);
    }
    fs::write(path, bytes).unwrap();
}

/// A UDP datagram of 1514 bytes with its Ethernet header.
fn frame(number: u8) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0x05, 0xdc, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 10 + number];
    ip.extend([198, 51, 100, 1 + number % 3]);
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(ip);
    frame.extend((5_000 + u16::from(number)).to_be_bytes());
    frame.extend([1, 187, 0x05, 0xc8, 0, 0]);
    frame.resize(1_514, b'x');
    frame
}

fn now() -> Instant {
    Instant::now()
}

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
