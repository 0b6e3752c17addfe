//! The arguments that are passed on to `rte_eal_init` (DPDK 22.11, EAL parameters).
//!
//! Refused are those that weir sets itself, and combinations that EAL refuses with no more than its usage
//! text (tried one by one with DPDK 22.11.11). An option unknown here is let through with a warning: later
//! versions of DPDK have more.

use toml::Spanned;

use crate::device::{Device, pci_address};
use crate::error::{At, Concern, Findings, Mistake, nearest};

/// Checks `args`, given that links use `devices`.
pub(crate) fn check(args: &[Spanned<String>], devices: &[Device], findings: &mut Findings<'_>) {
    let mut seen: Vec<&'static str> = Vec::new();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let Some((option, inline)) = split(arg, findings) else {
            // An unknown option may take a value, which is none of our business either.
            rest.next_if(|value| arg.get_ref().starts_with('-') && !value.get_ref().starts_with('-'));
            continue;
        };
        let value = match (option.value, inline) {
            (Value::None, Some(_)) => {
                let what = format!("{} takes no value", option.name);
                findings.error(
                    at(arg),
                    Mistake::EalIncomplete(what),
                    String::new(),
                    "remove what follows the \"=\"",
                );
                None
            }
            (Value::Needed, None) => {
                let next = rest.next().map(|value| value.get_ref().as_str());
                if next.is_none() {
                    let remedy = "add it as the next string of the array";
                    let what = format!("the value of {} is missing", option.name);
                    findings.error(at(arg), Mistake::EalIncomplete(what), String::new(), remedy);
                }
                next
            }
            (_, inline) => inline,
        };
        reserved(arg, option, value.unwrap_or_default(), devices, findings);
        conflicts(arg, option, &seen, findings);
        seen.push(option.name);
    }
}

/// The option that `arg` begins, and what follows its `=`; nothing if `arg` was reported.
fn split<'a>(
    arg: &'a Spanned<String>,
    findings: &mut Findings<'_>,
) -> Option<(&'static EalOption, Option<&'a str>)> {
    let text = arg.get_ref().as_str();
    if text.chars().any(char::is_whitespace) && text.starts_with('-') {
        let parts: Vec<_> = text.split_whitespace().map(|part| format!("\"{part}\"")).collect();
        let remedy = format!("write each as a string of its own: {}", parts.join(", "));
        findings.error(at(arg), Mistake::EalSeveral, String::new(), remedy);
        return None;
    }
    if !text.starts_with('-') || text == "-" || text == "--" {
        let what = "is no option and follows none that takes a value".to_owned();
        findings.error(at(arg), Mistake::EalIncomplete(what), String::new(), "remove it");
        return None;
    }
    let (name, inline) = match text.strip_prefix("--") {
        Some(_) => text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value))),
        None => match text.char_indices().nth(2) {
            Some((end, _)) => (text.get(..end)?, text.get(end..)),
            None => (text, None),
        },
    };
    let found = known(name);
    if found.is_none() {
        let near = nearest(name, OPTIONS.iter().flat_map(|option| [option.name, option.long]));
        let hint = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
        let remedy = format!("{hint}It is passed on, and EAL stops if it does not know it");
        findings.warn(at(arg), Concern::EalUnknown(name.to_owned()), remedy);
    }
    found.map(|option| (option, inline))
}

/// The option called `name`; as with getopt_long, a beginning that fits only one long option will do.
fn known(name: &str) -> Option<&'static EalOption> {
    let exact = OPTIONS.iter().find(|option| option.name == name || option.long == name);
    let mut begun = OPTIONS.iter().filter(|option| name.len() > 3 && option.long.starts_with(name));
    exact.or_else(|| begun.next().filter(|_| begun.next().is_none()))
}

fn reserved(
    arg: &Spanned<String>,
    option: &'static EalOption,
    value: &str,
    devices: &[Device],
    findings: &mut Findings<'_>,
) {
    let named = value.split(',').next().unwrap_or_default();
    let named = pci_address(named).unwrap_or_else(|| named.to_owned());
    let remedy = match option.rule {
        Rule::Pass => return,
        Rule::Refuse(remedy) => remedy,
        Rule::NotAPort if devices.iter().any(|device| device.name() == named) => {
            "remove it: weir passes the devices that links name itself"
        }
        Rule::NoPci if devices.iter().any(|device| device.bus() == crate::device::Bus::Pci) => {
            "remove it: a link names a PCI device"
        }
        Rule::NotAPort | Rule::NoPci => return,
    };
    findings.error(at(arg), Mistake::EalReserved(option.name.to_owned()), String::new(), remedy);
}

fn conflicts(
    arg: &Spanned<String>,
    option: &'static EalOption,
    seen: &[&'static str],
    findings: &mut Findings<'_>,
) {
    for (one, other, remedy) in EXCLUSIVE {
        let earlier = match option.name {
            name if name == one => other,
            name if name == other => one,
            _ => continue,
        };
        if seen.contains(&earlier) {
            let what = Mistake::EalConflict(earlier.to_owned(), option.name.to_owned());
            findings.error(at(arg), what, String::new(), remedy);
        }
    }
}

fn at(arg: &Spanned<String>) -> At<'static> {
    At::value("eal", "args", arg.span())
}

#[derive(Debug)]
struct EalOption {
    name: &'static str,
    long: &'static str,
    value: Value,
    rule: Rule,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    None,
    Needed,
    Optional,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Pass,
    Refuse(&'static str),
    /// Refused if it names a device of a link.
    NotAPort,
    /// Refused if a link has a PCI device.
    NoPci,
}

const LCORES: Rule = Rule::Refuse("write lcores = { main = 0, workers = [1] } in [eal]");

static OPTIONS: [EalOption; 42] = [
    option("-a", "--allow", Value::Needed, Rule::NotAPort),
    option(
        "-b",
        "--block",
        Value::Needed,
        Rule::Refuse("remove it: weir opens no device but those that links name"),
    ),
    option("-c", "-c", Value::Needed, LCORES),
    option("-d", "-d", Value::Needed, Rule::Pass),
    option("-h", "--help", Value::None, Rule::Refuse("remove it: EAL would print its usage and stop")),
    option("-l", "-l", Value::Needed, LCORES),
    option("-m", "-m", Value::Needed, Rule::Pass),
    option("-n", "-n", Value::Needed, Rule::Pass),
    option("-r", "-r", Value::Needed, Rule::Pass),
    option("-s", "-s", Value::Needed, Rule::Refuse("remove it: weir runs no service lcores")),
    option("-S", "-S", Value::Needed, Rule::Refuse("remove it: weir runs no service lcores")),
    option("-v", "-v", Value::None, Rule::Pass),
    option("--base-virtaddr", "--base-virtaddr", Value::Needed, Rule::Pass),
    option("--create-uio-dev", "--create-uio-dev", Value::None, Rule::Pass),
    option(
        "--file-prefix",
        "--file-prefix",
        Value::Needed,
        Rule::Refuse("remove it: weir gives each instance its own, so that several can run side by side"),
    ),
    option("--force-max-simd-bitwidth", "--force-max-simd-bitwidth", Value::Needed, Rule::Pass),
    option("--huge-dir", "--huge-dir", Value::Needed, Rule::Pass),
    option("--huge-unlink", "--huge-unlink", Value::Optional, Rule::Pass),
    option("--in-memory", "--in-memory", Value::None, Rule::Pass),
    option("--iova-mode", "--iova-mode", Value::Needed, Rule::Pass),
    option("--lcores", "--lcores", Value::Needed, LCORES),
    option("--legacy-mem", "--legacy-mem", Value::None, Rule::Pass),
    option("--log-level", "--log-level", Value::Needed, Rule::Pass),
    option("--main-lcore", "--main-lcore", Value::Needed, LCORES),
    option("--match-allocations", "--match-allocations", Value::None, Rule::Pass),
    option("--mbuf-pool-ops-name", "--mbuf-pool-ops-name", Value::Needed, Rule::Pass),
    option("--no-hpet", "--no-hpet", Value::None, Rule::Pass),
    option("--no-huge", "--no-huge", Value::None, Rule::Pass),
    option("--no-pci", "--no-pci", Value::None, Rule::NoPci),
    option("--no-shconf", "--no-shconf", Value::None, Rule::Pass),
    option("--no-telemetry", "--no-telemetry", Value::None, Rule::Pass),
    option(
        "--proc-type",
        "--proc-type",
        Value::Needed,
        Rule::Refuse("remove it: weir is always the primary process of its own"),
    ),
    option("--single-file-segments", "--single-file-segments", Value::None, Rule::Pass),
    option("--socket-limit", "--socket-limit", Value::Needed, Rule::Pass),
    option("--socket-mem", "--socket-mem", Value::Needed, Rule::Pass),
    option("--syslog", "--syslog", Value::Needed, Rule::Pass),
    option("--telemetry", "--telemetry", Value::None, Rule::Pass),
    option("--trace", "--trace", Value::Needed, Rule::Pass),
    option("--vdev", "--vdev", Value::Needed, Rule::NotAPort),
    option("--vfio-intr", "--vfio-intr", Value::Needed, Rule::Pass),
    option("--vfio-vf-token", "--vfio-vf-token", Value::Needed, Rule::Pass),
    option("--vmware-tsc-map", "--vmware-tsc-map", Value::None, Rule::Pass),
];

/// Pairs that EAL refuses together.
static EXCLUSIVE: [(&str, &str, &str); 8] = [
    ("--no-huge", "--in-memory", "keep --no-huge alone: memory is private to the process then anyway"),
    ("--no-huge", "--huge-unlink", "keep one of them: without hugepages there is nothing to unlink"),
    ("--no-huge", "--socket-mem", "write \"-m\", \"512\" in place of --socket-mem"),
    ("--no-huge", "--match-allocations", "keep one of them"),
    ("--legacy-mem", "--in-memory", "keep one of them"),
    ("--legacy-mem", "--match-allocations", "keep one of them"),
    ("--single-file-segments", "--huge-unlink", "keep one of them"),
    ("-m", "--socket-mem", "keep one of them"),
];

const fn option(name: &'static str, long: &'static str, value: Value, rule: Rule) -> EalOption {
    EalOption { name, long, value, rule }
}
