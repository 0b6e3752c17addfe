//! `weir setup`: what of this machine helps weir or is in its way, why, and what can be done about it.
//!
//! Everything is read below a root folder and nothing is changed but by `--apply`, which does what can be undone
//! while the machine runs and says how: hugepages, frequency governors, and giving PCI ports to vfio. What takes a
//! reboot is told, never done.

mod apply;
mod cpus;
mod finding;
mod host;
mod memory;
mod ports;

use crate::check::load;
use crate::plan::{Machine, environment, worker_cpus};
use crate::say::{say, wrapped};
use anyhow::Result;
use config::model::{Config, Poll};
use finding::{Finding, Level};
use host::Host;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    /// The configuration that the machine is to be right for.
    pub file: Option<PathBuf>,
    /// Do what can be done now.
    pub apply: bool,
    /// As JSON.
    pub json: bool,
    /// PCI ports that may be taken from the kernel though it uses them.
    pub allowed: Vec<String>,
}

/// What weir will need of the machine.
#[derive(Debug)]
struct Wanted {
    /// CPUs of the workers.
    workers: Vec<u32>,
    /// PCI addresses of the ports.
    ports: Vec<String>,
    /// Bytes of packet memory in hugepages.
    memory: Option<u64>,
    /// Whether workers never sleep.
    busy: bool,
}

/// Looks, tells, and with `apply` does.
///
/// # Errors
/// The configuration is wrong, or something could not be done.
pub fn setup(request: &Request) -> Result<ExitCode> {
    let config = request.file.as_deref().map(|file| load(file).map(|loaded| loaded.config)).transpose()?;
    let host = Host::system();
    let findings = findings(&host, config.as_ref(), &request.allowed);
    let done = if request.apply { apply::apply(&host, &findings) } else { apply::Done::default() };
    say(&if request.json {
        format!(
            "{:#}\n",
            serde_json::json!({ "findings": findings, "applied": request.apply.then_some(&done) })
        )
    } else {
        let told = if request.apply { done.to_string() } else { hint(&findings) };
        format!("{}{told}", text(&findings))
    })?;
    let is_wrong = !done.failed.is_empty() || !request.apply && findings.iter().any(Finding::is_wrong);
    Ok(if is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn findings(host: &Host, config: Option<&Config>, allowed: &[String]) -> Vec<Finding> {
    let wanted = Wanted::by(host, config);
    let mut findings = memory::findings(host, &wanted);
    findings.extend(cpus::findings(host, &wanted));
    findings.extend(ports::findings(host, &wanted, allowed));
    findings
}

impl Wanted {
    fn by(host: &Host, config: Option<&Config>) -> Self {
        let machine = host.machine();
        let Some(config) = config else {
            let workers = machine.cpus.iter().copied().skip(1).collect();
            return Self { workers, ports: Vec::new(), memory: None, busy: false };
        };
        // As much as it would be if there were enough hugepages.
        let roomy = Machine { free_hugepages: u64::MAX, ..machine.clone() };
        let devices = config.links.iter().flat_map(|link| [&link.a.device, &link.b.device]);
        let pci = devices.filter(|device| device.bus() == config::device::Bus::Pci);
        Self {
            workers: worker_cpus(config, &machine),
            ports: pci.map(|device| device.name().to_owned()).collect(),
            memory: Some(environment(config, &roomy).memory_in_all()),
            busy: config.engine.poll == Poll::Busy,
        }
    }
}

fn text(findings: &[Finding]) -> String {
    wrapped(&findings.iter().map(Finding::to_string).collect::<String>())
}

fn hint(findings: &[Finding]) -> String {
    let (mut text, steps) =
        (String::new(), findings.iter().map(|finding| finding.steps.len()).sum::<usize>());
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let _ = write!(
        text,
        "\n{} right, {} could be better, {} in the way",
        count(Level::Right),
        count(Level::Better),
        count(Level::Wrong)
    );
    if steps > 0 {
        let _ =
            write!(text, "; `weir setup --apply` does what is marked with --apply, and says how to undo it");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
