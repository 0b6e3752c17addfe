//! `weir probe`: what a port says of the frames that it was given, and how far that can be believed.

use crate::carries::use_of;
use crate::check::load;
use crate::plan::plan;
use crate::progress::Progress;
use crate::run::{refused, start_eal, suited};
use crate::say::{complain, say};
use crate::signals::Signals;
use anyhow::{Context, Result, anyhow, bail};
use config::Loaded;
use config::device::Device;
use config::model::{Config, Port};
use engine::completion::source::Nudge;
use engine::probe::{Answer, Calls, Verdict};
use serde_json::{Value, json};
use shaper::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `weir probe` was asked.
#[derive(Debug)]
pub struct Request {
    /// A device, or `LINK/a`, `LINK/b` of `file`.
    pub port: String,
    /// The configuration that has the port.
    pub file: Option<PathBuf>,
    /// Arguments for the EAL beside those of `file`.
    pub eal: Vec<String>,
    /// Print JSON.
    pub json: bool,
    /// Send although the machine uses the interface.
    pub force: bool,
    /// Let DPDK say what it does.
    pub verbose: bool,
}

/// Sends frames by the port and prints what that tells of its completions. Fails if the port took none.
///
/// # Errors
/// What was asked does not make sense, this machine uses the port, or it cannot be opened.
pub fn probe(request: &Request) -> Result<ExitCode> {
    let config = config(request)?;
    let link = plan(&config, [0; 16]).links.into_iter().next().context("there is no port")?;
    config.links.iter().try_for_each(|link| harmless(&link.a, request.force))?;
    let environment = suited(&COMMAND_LINE, &config)?;
    // Any number of them may run, beside instances too.
    let name = format!("probe-{}", std::process::id());
    let signals = Signals::take()?;
    let progress = Progress::start(&name)?;
    let eal_config = environment.eal(&name, request.verbose);
    let (_folder, eal) = start_eal(&config, &eal_config, &signals, &progress)?;
    let verdict = engine::probe::port(&eal, &link.a, &mut |step| progress.step(&step))
        .map_err(|error| refused(format!("port {}: {error}", link.a.devargs), request.verbose))?;
    drop(progress);
    if request.json {
        say(&format!("{:#}\n", json(&link.a.devargs, &verdict)))?;
    } else {
        say(&format!("port {}: {verdict}\n", link.a.devargs))?;
    }
    Ok(if verdict.evidence.sent > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The verdict for a program: times in microseconds; what a call answered is a number, or words if it
/// gave none.
fn json(port: &str, verdict: &Verdict) -> Value {
    let Verdict { driver, ring, source, nudge, meaning, known, evidence } = verdict;
    let times = evidence.times.map(|times| {
        json!({
            "count": times.count,
            "min_us": micros(times.min),
            "median_us": micros(times.median),
            "max_us": micros(times.max),
        })
    });
    json!({
        "port": port,
        "driver": driver,
        "ring": ring,
        "source": source.to_string(),
        "nudge": nudge.name(),
        "meaning": meaning,
        "as_known": verdict.is_as_known(),
        "known": {
            "source": known.source.to_string(),
            "nudge": known.nudge.name(),
            "basis": known.basis.name(),
            "why": known.why,
        },
        "evidence": {
            "sent": evidence.sent,
            "refused": evidence.refused,
            "copies": evidence.copies,
            "shown_by": evidence.shown_by.map(Nudge::name),
            "took_us": evidence.took.map(micros),
            "shown_after": evidence.shown_after,
            "batch": evidence.batch,
            "times": times,
            "idle": calls(&evidence.idle),
            "busy": calls(&evidence.busy),
            "not_believed": evidence.lies().collect::<Vec<_>>(),
        },
    })
}

fn calls(calls: &Calls) -> Value {
    let answer =
        |answer: Answer| answer.number().map_or_else(|| json!(answer.to_string()), |number| json!(number));
    json!({
        "in_flight": calls.in_flight,
        "descriptor_status_first": answer(calls.first),
        "descriptor_status_last": answer(calls.last),
        "queue_count": answer(calls.in_use),
        "done_cleanup": answer(calls.freed),
        "freed_before_cleanup": calls.was_freed,
    })
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// A configuration of one link that has the port on both sides: nothing else is opened, and what is said
/// of EAL arguments and memory holds for it.
fn config(request: &Request) -> Result<Config> {
    let (mut config, wanted) = match &request.file {
        Some(file) => (load(file)?.config, request.port.as_str()),
        None => (of_device(&request.port)?, "probe/a"),
    };
    let port = find(&config, wanted)?;
    config.links.truncate(1);
    for link in &mut config.links {
        link.a = port.clone();
        link.b.device = Device::parse(NOWHERE).map_err(|error| anyhow!(error))?;
    }
    config.eal.args.extend(request.eal.iter().cloned());
    // Once more as text: the arguments may not suit the device or each other.
    let Loaded { mut config, warnings } = config::parse(COMMAND_LINE, &config.to_toml())?;
    if request.file.is_none() || !request.eal.is_empty() {
        warnings.iter().for_each(|warning| complain(&warning.to_string()));
    }
    config.links.iter_mut().for_each(|link| link.b = port.clone());
    Ok(config)
}

fn of_device(device: &str) -> Result<Config> {
    let a = toml::Value::String(device.to_owned());
    let text = format!("[[link]]\nname = \"probe\"\na = {a}\nb = \"{NOWHERE}\"\n");
    let is_name = device.ends_with("/a") || device.ends_with("/b");
    let hint = if is_name { "name the configuration file behind LINK/a or LINK/b" } else { "" };
    config::parse(COMMAND_LINE, &text).map(|loaded| loaded.config).map_err(|errors| match hint {
        "" => anyhow!(errors),
        hint => anyhow!("{errors}\n  help: {hint}"),
    })
}

/// The port called `LINK/a`, `LINK/b`, or as its device is.
fn find(config: &Config, wanted: &str) -> Result<Port> {
    let ports = || {
        config.links.iter().flat_map(|link| {
            [("a", &link.a), ("b", &link.b)].map(|(side, port)| (format!("{}/{side}", link.name), port))
        })
    };
    let found = ports().find(|(name, port)| {
        name == wanted || port.device.name() == wanted || port.device.devargs() == wanted
    });
    let known = || ports().map(|(name, port)| format!("{name} ({})", port.device)).collect::<Vec<_>>();
    found
        .map(|(_, port)| port.clone())
        .with_context(|| format!("there is no port {wanted:?}\n  help: the file has {}", known().join(", ")))
}

/// Refuses to send by an interface that this machine uses itself.
fn harmless(port: &Port, force: bool) -> Result<()> {
    let uses = use_of(&port.device);
    if !force && !uses.is_empty() {
        bail!(
            "port {}: {}: a probe sends frames by it, and its driver may take it away from the kernel\n  \
             help: probe a port that carries nothing, or give --force",
            port.device,
            uses.join(", ")
        );
    }
    Ok(())
}

/// What messages call the file that the arguments stand for.
const COMMAND_LINE: &str = "(command line)";

/// The other side of a link that has none; never opened.
const NOWHERE: &str = "net_null_of_probe";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(port: &str, file: Option<PathBuf>, eal: &[&str]) -> Request {
        let eal = eal.iter().map(|arg| (*arg).to_owned()).collect();
        Request { port: port.to_owned(), file, eal, json: false, force: false, verbose: false }
    }

    fn example(name: &str) -> Option<PathBuf> {
        Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../configs").join(name))
    }

    #[test]
    fn a_port_is_given_by_its_device_or_by_its_place_in_a_file() {
        let config = config(&request("01:00.0", None, &["-m", "64"])).unwrap();
        assert_eq!(config.eal.args, ["-m", "64"]);
        let link = &config.links[0];
        assert_eq!((link.a.device.name(), &link.a), ("0000:01:00.0", &link.b));
        for name in ["access/b", "0000:01:00.1"] {
            let config = self::config(&request(name, example("pci.toml"), &[])).unwrap();
            let (port, lcores) = (&config.links[0].a, config.eal.lcores.unwrap());
            assert_eq!((port.device.name(), port.mtu, lcores.main), ("0000:01:00.1", 9_000, 0), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_probed_is_told_with_what_can() {
        let said = |request: Request| config(&request).unwrap_err().to_string();
        let unknown = said(request("access/c", example("pci.toml"), &[]));
        assert!(unknown.contains("access/a (0000:01:00.0), access/b (0000:01:00.1)"), "{unknown}");
        let place = said(request("access/a", None, &[]));
        assert!(place.contains("name the configuration file behind"), "{place}");
        assert!(said(request("net_tpa0", None, &[])).contains("net_tap"));
        let argument = said(request("net_null0", None, &["--file-prefix", "x"]));
        assert!(argument.contains("--file-prefix cannot be passed on"), "{argument}");
    }

    #[test]
    fn an_interface_in_use_is_left_alone_unless_told() {
        let port = config(&request("net_af_packet0,iface=lo", None, &[])).unwrap().links[0].a.clone();
        let said = harmless(&port, false).unwrap_err().to_string();
        assert!(said.contains("lo has 127.0.0.1") && said.contains("--force"), "{said}");
        harmless(&port, true).unwrap();
        harmless(&config(&request("net_null0", None, &[])).unwrap().links[0].a, false).unwrap();
    }
}
