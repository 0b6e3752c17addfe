//! `weir run`: from a file to a running dataplane and back.

use crate::api::desk::{Clerk, Desk, Done, Refusal, Request, Snapshot, desk};
use crate::api::serve::{Door, Server};
use crate::api::socket::Socket;
use crate::check::load;
use crate::events::{self, Kind};
use crate::leftover;
use crate::live::{Live, Running};
use crate::observe::flows::talking;
use crate::observe::{Instance, counts, with_percentiles};
use crate::plan::{Environment, Machine, environment, missing_cpus, plan, too_little_given, too_much_memory};
use crate::progress::Progress;
use crate::say::{complain, wrapped};
use crate::service::capabilities::{Capabilities, Needs};
use crate::service::handover::Handover;
use crate::service::{BAD_CONFIGURATION, Heartbeat, Notify};
use crate::signals::Signals;
use crate::taken;
use crate::telemetry::delays::{Windows, times};
use anyhow::{Context, Result, anyhow, bail};
use config::model::Config;
use dpdk::{Eal, EalConfig};
use engine::line::Line;
use std::fmt::Display;
use std::io::{Read, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

/// Runs until SIGINT or SIGTERM.
///
/// # Errors
/// The configuration, the name, the EAL, a port, the memory; or a worker that died.
pub fn run(file: &Path, name: Option<String>, verbose: bool) -> Result<ExitCode> {
    let config = match load(file) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            complain(&format!("weir: {error:#}"));
            return Ok(ExitCode::from(BAD_CONFIGURATION));
        }
    };
    let name = instance_name(file, name)?;
    let environment = suited(&file.display(), &config)?;
    // Before anything is opened, so that no signal finds us half way.
    let signals = Signals::take()?;
    let progress = Progress::start(&name)?;
    let socket = Socket::claim(&name)?;
    signals.remove_at_end(socket.path().to_owned());
    let door = Door::open(&config.api)?;
    // Before the EAL and the line, so that it goes after them.
    let mut handover = Handover::take_back(&config)?;
    warn_of_missing_capabilities(&config);
    let (_folder, eal) = start_eal(&config, &environment.eal(&name, verbose), &signals, &progress)?;
    let secret = secret()?;
    let mut line = Line::start(&eal, &plan(&config, secret), &mut |step| progress.step(&step))
        .map_err(|error| refused(error, verbose))?;
    drop(progress);
    signals.running();
    handover.disarm();
    // A reload reads it again, from wherever this process may be then.
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    keep_capabilities(&config, &path);
    let notify = Notify::from_environment();
    let mut live = Live::new(path, config.clone(), secret);
    let mut instance = Instance::new(name, file, config);
    let links_up = vec![true; 2 * line.links().len()];
    let mut control = Control {
        live: &mut live,
        running: Running { line: &mut line, instance: &mut instance, signals: &signals, notify: &notify },
        windows: Windows::new(),
        // What is not so at the start is told.
        links_up,
        is_late: false,
    };
    let version = env!("CARGO_PKG_VERSION");
    control.live.note(Kind::Start, &format!("weir {version} with {}", Eal::version()));
    control.warn();
    if verbose {
        for port in control.running.line.links().iter().flat_map(|link| [&link.a, &link.b]) {
            let _ = writeln!(stdout(), "{}\n  completions: {}", port.info, port.completions);
        }
    }
    if let Some(door) = &door {
        let _ = writeln!(stdout(), "weir {}: listens on {}", control.running.instance.name, door.url());
    }
    let mebibytes = environment.packet_memory.div_ceil(1 << 20);
    let memory = if eal.has_hugepages() { "hugepages" } else { "ordinary memory" };
    // Whoever read this may be gone, which is no reason to fall over with the ports open (print! would panic).
    let _ = writeln!(
        stdout(),
        "weir {}: ready ({}, up to {mebibytes} MiB of {memory} for packets); `weir show {}` for statistics, \
         Ctrl-C to stop",
        control.running.instance.name,
        Eal::version(),
        control.running.instance.name
    );
    let (desk, bell) = desk();
    let server = Server::start(socket.listener()?, door, bell)?;
    let failed = control.serve(desk);
    drop(server);
    line.stop();
    let last = with_percentiles(counts(&instance, &line), &times(&instance, &line));
    let _ = write!(stdout(), "{}", wrapped(&last.to_string()));
    if failed {
        bail!("a worker ended by itself: this is a fault of weir, please report it");
    }
    handover.arm(&live.config());
    Ok(ExitCode::SUCCESS)
}

/// The environment, on a machine that has the CPUs for it; a lack of memory is a warning, as the
/// kernel may make room. `source` is what messages call the configuration.
///
/// # Errors
/// CPUs that are not there.
pub fn suited(source: &dyn Display, config: &Config) -> Result<Environment> {
    let machine = Machine::look();
    if let Some(missing) = missing_cpus(config, &machine) {
        bail!("{source}: {missing}");
    }
    let environment = environment(config, &machine);
    let concerns = [too_much_memory(&environment, &machine), too_little_given(&environment)];
    for concern in concerns.into_iter().flatten() {
        complain(&format!("weir: warning: {source}: {concern}"));
    }
    Ok(environment)
}

/// Starts DPDK for the devices of `config`, once nothing is in their way. The folder goes after the EAL.
///
/// # Errors
/// Another process holds a device, or the EAL's.
pub fn start_eal(
    config: &Config,
    eal: &EalConfig,
    signals: &Signals,
    progress: &Progress,
) -> Result<(RuntimeFolder, Eal)> {
    taken::check(config)?;
    let folder = RuntimeFolder::new(eal.runtime_folder());
    signals.remove_at_end(folder.path.clone());
    progress.step(&"starting DPDK");
    let eal = Eal::init(eal)?;
    leftover::sweep(config).into_iter().for_each(|path| signals.remove_at_end(path));
    Ok((folder, eal))
}

/// Tells what a start lacks, before a driver says so in its own words.
fn warn_of_missing_capabilities(config: &Config) {
    let missing = Needs::of(config).missing();
    if !missing.is_empty() {
        complain(&format!(
            "weir: warning: this process lacks {missing}, which its ports need to start: run as root, or give it \
             them (AmbientCapabilities= of a systemd unit, setpriv --ambient-caps)"
        ));
    }
}

/// From here on no thread has more than the ports need, and what is read again: the file, token and certificate.
fn keep_capabilities(config: &Config, file: &Path) {
    let of_api = [&config.api.token_file, &config.api.tls_cert, &config.api.tls_key];
    let read_again: Vec<_> =
        [file].into_iter().chain(of_api.into_iter().flatten().map(PathBuf::as_path)).collect();
    if let Err(error) = (Needs::of(config).kept | Capabilities::to_read(&read_again)).keep_only() {
        complain(&format!("weir: warning: {error}"));
    }
}

/// The control loop.
struct Control<'a> {
    live: &'a mut Live,
    running: Running<'a>,
    /// How long packets took in the last ten seconds.
    windows: Windows,
    /// Whether each port's link was up when it was looked at last.
    links_up: Vec<bool>,
    /// Whether a worker was late with its statistics the last time.
    is_late: bool,
}

impl Control<'_> {
    /// Follows links and does what is asked at the desk until told to stop; `true` if a worker died.
    fn serve(&mut self, mut desk: Desk) -> bool {
        let mut heartbeat = Heartbeat::new(self.running.notify);
        for round in 1_u64.. {
            if self.running.signals.wait(TEND) {
                break;
            }
            self.running.line.tend();
            heartbeat.tend(self.running.line);
            self.live.tend(&mut self.running);
            if self.running.signals.take_hangup() {
                self.hang_up();
            }
            self.tell_news();
            if round.is_multiple_of(COLLECT) {
                self.refresh();
                self.windows.turn(self.running.instance, self.running.line);
            }
            desk.serve(self);
            if self.running.line.has_failed() {
                return true;
            }
        }
        false
    }

    /// SIGHUP: whoever sent it is told on standard error.
    fn hang_up(&mut self) {
        let said = match self.live.reload(&mut self.running, "SIGHUP", false) {
            Ok(done) => done.text,
            Err(refusal) => refusal.text,
        };
        complain(&format!("weir: SIGHUP: {said}"));
    }

    /// Has every worker send its statistics. A worker that is descheduled for longer than
    /// [`PATIENCE_MS`] is not waited for: its last statistics are shown.
    fn refresh(&mut self) {
        let Running { line, signals, .. } = &mut self.running;
        line.ask();
        let mut have_come = line.fetch();
        for _ in 0..PATIENCE_MS {
            if have_come || signals.wait(Duration::from_millis(1)) {
                break;
            }
            have_come = line.fetch();
        }
        if self.is_late == have_come {
            self.is_late = !have_come;
            let text = if have_come {
                "every worker sends its statistics again".to_owned()
            } else {
                format!(
                    "a worker has not sent its statistics within {PATIENCE_MS} ms: the last ones are shown"
                )
            };
            self.live.note(Kind::Worker, &text);
        }
    }

    /// What ports do without, and MTUs that do not fit each other once drivers have had their say.
    fn warn(&mut self) {
        for link in self.running.line.links() {
            for port in [&link.a, &link.b] {
                for warning in &port.warnings {
                    let text = format!("port {}: {warning}", port.port.name());
                    complain(&format!("weir: warning: {text}"));
                    self.live.note(Kind::Port, &text);
                }
            }
        }
        self.tell_news();
    }

    fn tell_news(&mut self) {
        for news in self.running.line.news() {
            complain(&format!("weir: warning: {news}"));
            self.live.note(Kind::Link, &news.to_string());
        }
        let links = self.running.line.links();
        let ports = links.iter().flat_map(|link| [(link, &link.a), (link, &link.b)]);
        for ((link, port), was_up) in ports.zip(&mut self.links_up) {
            let is_up = port.is_up();
            if std::mem::replace(was_up, is_up) != is_up {
                let state = if is_up { "up" } else { "down" };
                let text = format!("link {:?}: port {} is {state}", link.name, port.port.name());
                self.live.note(Kind::Link, &text);
            }
        }
    }
}

impl Clerk for Control<'_> {
    fn snapshot(&mut self) -> Snapshot {
        self.refresh();
        Snapshot {
            talking: talking(self.running.line),
            at: events::now(),
            started: self.windows.started(),
            counts: counts(self.running.instance, self.running.line),
            times: times(self.running.instance, self.running.line),
            recent: self.windows.last(),
            config: self.live.config(),
            generation: self.live.generation(),
            events: self.live.events(),
            report: OnceLock::new(),
        }
    }

    fn carry_out(&mut self, request: &Request, who: &str) -> Result<Done, Refusal> {
        self.live.carry_out(&mut self.running, request, who)
    }
}

/// The folder that DPDK makes for a file prefix. Goes when dropped, after the EAL: a start that failed,
/// or a driver that keeps packets (net_af_xdp) and with them the EAL, would leave it behind.
#[derive(Debug)]
pub struct RuntimeFolder {
    path: PathBuf,
    /// The folder of all prefixes, if this start makes it: in /tmp it would keep other users out.
    made: Option<PathBuf>,
}

impl RuntimeFolder {
    fn new(path: PathBuf) -> Self {
        let made = path.parent().filter(|all| !all.exists()).map(Path::to_owned);
        Self { path, made }
    }
}

impl Drop for RuntimeFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
        // Stays while another has a folder there.
        self.made.take().map(std::fs::remove_dir);
    }
}

/// The name given, else the file's without its extension. It becomes part of file names.
fn instance_name(file: &Path, given: Option<String>) -> Result<String> {
    let name = match given {
        Some(name) => name,
        None => file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || name.starts_with('.') || !name.chars().all(fine) {
        bail!(
            "the name {name:?} cannot be used: give --name with 1 to {NAME_MAX} of the characters \
             a-z A-Z 0-9 - _ . and no dot in front"
        );
    }
    Ok(name)
}

/// Why nothing was started, and how to hear more of the driver.
pub fn refused(error: impl Display, verbose: bool) -> anyhow::Error {
    let more = if verbose {
        ""
    } else {
        "\n  help: --verbose prints all that DPDK and the driver say while they start"
    };
    anyhow!("{error}{more}")
}

/// Sixteen bytes that nobody can know.
fn secret() -> Result<[u8; 16]> {
    let mut secret = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut secret))
        .context("cannot read /dev/urandom for the secret of the flow hash")?;
    Ok(secret)
}

/// How often links are looked at and questions answered: a fifth of the 100 ms that packets are
/// held for a lost link by default.
const TEND: Duration = Duration::from_millis(20);

/// Rounds after which the workers' pages are fetched unasked: every 10 s, before a waiting time's 32-bit
/// count can run full (at 400 Mpps).
const COLLECT: u64 = 500;

/// How long a worker may take to send its statistics, in milliseconds.
const PATIENCE_MS: u32 = 200;

/// Names become part of the EAL's file names and of a socket's path (108 bytes in all).
const NAME_MAX: usize = 40;
