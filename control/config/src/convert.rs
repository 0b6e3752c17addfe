//! From the file's types to [`crate::model`]: defaults filled in, and values held against each other.

use std::ops::Range;

use shaper::codel::codel;
use shaper::gso::Split;
use shaper::qdisc::{self, fifo, fq_codel};
use shaper::rate::{Framing, Limiter, Overhead};
use shaper::time::Duration;
use toml::Spanned;

use crate::error::{At, Concern, Findings, Mistake};
use crate::file::{self, FlagOrWord, TextOr};
use crate::model::{self, ETHER_HEADER};
use crate::{device, eal, tc, units};

mod api;
mod cake;

/// Converts a file whose keys were found right one by one. What does not fit together is reported; the
/// result is of use only if nothing was.
pub(crate) fn convert(file: file::File, findings: &mut Findings<'_>) -> model::Config {
    let mut taken = Taken::default();
    let mut links = Vec::new();
    for (index, link) in file.link.into_iter().enumerate() {
        links.extend(self::link(index, link, &mut taken, findings));
    }
    let devices: Vec<_> = links.iter().flat_map(|link| [&link.a.device, &link.b.device]).cloned().collect();
    eal::check(&file.eal.args, &devices, findings);
    let args = file.eal.args.into_iter().map(Spanned::into_inner).collect();
    let lcores = file.eal.lcores.map(|lcores| self::lcores(&lcores, findings));
    let poll = match file.engine.poll {
        Some(file::Poll::Busy) => model::Poll::Busy,
        Some(file::Poll::Adaptive) | None => model::Poll::Adaptive,
    };
    let api = api::api(file.api, findings);
    model::Config { eal: model::Eal { args, lcores }, engine: model::Engine { poll }, api, links }
}

/// What links have taken so far, and where.
#[derive(Default)]
struct Taken {
    names: Vec<(String, Range<usize>)>,
    ports: Vec<(String, Range<usize>)>,
    resources: Vec<((&'static str, String), Range<usize>)>,
    bridges: Vec<(String, Range<usize>)>,
}

fn lcores(lcores: &file::Lcores, findings: &mut Findings<'_>) -> model::Lcores {
    let main = lcores.main;
    let mut workers = Vec::new();
    for worker in &lcores.workers {
        let at = At::value("eal.lcores", "workers", worker.span());
        let cpu = *worker.get_ref();
        if workers.contains(&cpu) {
            findings.error(at, Mistake::CpuTwice(cpu.into()), String::new(), "name each CPU once");
        } else if cpu == main {
            let remedy = "give the workers CPUs of their own: a worker that shares one is late";
            findings.warn(at, Concern::SharedCpu(cpu.into()), remedy);
        }
        workers.push(cpu);
    }
    model::Lcores { main, workers }
}

fn link(
    index: usize,
    link: Spanned<file::Link>,
    taken: &mut Taken,
    findings: &mut Findings<'_>,
) -> Option<model::Link> {
    let span = link.span();
    let link = link.into_inner();
    let path = format!("link[{index}] \"{}\"", link.name.get_ref());
    if let Some(line) = claim(&mut taken.names, link.name.get_ref().clone(), link.name.span(), findings) {
        let at = At::value(&path, "name", link.name.span());
        findings.error(at, Mistake::NameTaken(line), String::new(), "give each link its own name");
    }
    let a = port(&path, "a", &link.a, taken, findings)?;
    let b = port(&path, "b", &link.b, taken, findings)?;
    if a.mtu != b.mtu {
        let what = Concern::MtuMismatch { a: a.mtu, b: b.mtu };
        let remedy = "give both ports the same mtu; frames too long for the port they leave by are dropped and counted";
        findings.warn(At::key(&path, "", span.clone()), what, remedy);
    }
    let up = direction(&format!("{path}.up"), link.up, b.mtu, findings);
    let down = direction(&format!("{path}.down"), link.down, a.mtu, findings);
    if up.is_none() && down.is_none() {
        let remedy = "leave out up or down, or give it a table";
        findings.error(At::key(&path, "", span), Mistake::NothingForwarded, String::new(), remedy);
    }
    let on_stop = link.on_stop.as_ref().map_or(model::OnStop::LinkDown, |word| match word.get_ref() {
        file::OnStop::LinkDown => model::OnStop::LinkDown,
        file::OnStop::Bridge => model::OnStop::Bridge,
    });
    let given = link.on_stop.as_ref().map(Spanned::span);
    let link = model::Link {
        name: link.name.into_inner(),
        a,
        b,
        up,
        down,
        link_down_hold: link.link_down_hold.map_or(model::Link::LINK_DOWN_HOLD, |file::Span(span)| span),
        propagate_link: link.propagate_link.unwrap_or(false),
        on_stop,
    };
    if let (Some(span), model::OnStop::Bridge) = (given, on_stop) {
        bridge(&path, &link, span, taken, findings);
    }
    Some(link)
}

/// Whether the kernel can bridge the ports, under a name that no other link needs.
fn bridge(
    path: &str,
    link: &model::Link,
    span: Range<usize>,
    taken: &mut Taken,
    findings: &mut Findings<'_>,
) {
    let at = || At::value(path, "on-stop", span.clone());
    for (key, port) in [("a", &link.a), ("b", &link.b)] {
        if !port.device.is_the_kernels() {
            let what = Mistake::NotTheKernels { key, device: port.device.name().to_owned() };
            let accepted = "\"bridge\" with PCI ports, net_af_packet and net_af_xdp";
            let remedy = "write on-stop = \"link-down\": without weir nothing can pass between these ports";
            findings.error(at(), what, accepted.to_owned(), remedy);
        }
    }
    if let Some(line) = claim(&mut taken.bridges, link.bridge(), span.clone(), findings) {
        let what = Mistake::ResourceTaken(format!("the bridge's name {}", link.bridge()), line);
        let remedy = "give one of the links another name: its first ten characters name the bridge";
        findings.error(at(), what, String::new(), remedy);
    }
}

fn port(
    link: &str,
    key: &'static str,
    port: &Spanned<TextOr<file::Port>>,
    taken: &mut Taken,
    findings: &mut Findings<'_>,
) -> Option<model::Port> {
    let table = format!("{link}.{key}");
    let (span, at_table, at_key) = match port.get_ref() {
        TextOr::Text(_) => (port.span(), link, key),
        TextOr::Table(port) => (port.device.span(), table.as_str(), "device"),
    };
    let at = || At::value(at_table, at_key, span.clone());
    let device = match device::Device::try_from(port.get_ref()) {
        Ok(device) => device,
        Err(reason) => {
            findings.error(at(), Mistake::Internal(reason), String::new(), REPORT);
            return None;
        }
    };
    if let Some(line) = claim(&mut taken.ports, device.name().to_owned(), span.clone(), findings) {
        let remedy = "a port belongs to one link: name another device";
        findings.error(at(), Mistake::PortTaken(line), String::new(), remedy);
    } else if let Some((driver, owned)) = device.owned()
        && let Some(line) = claim(&mut taken.resources, (driver, owned.clone()), span.clone(), findings)
    {
        let what = Mistake::ResourceTaken(format!("{driver}'s {owned}"), line);
        findings.error(at(), what, String::new(), "give each device its own");
    }
    if device.is_vdev() && device.driver().is_none() {
        let known = device::Device::known_drivers().collect::<Vec<_>>().join(", ");
        findings.warn(at(), Concern::UnknownDriver, format!("it is passed on to DPDK; known are {known}"));
    }
    let port = match port.get_ref() {
        TextOr::Text(_) => None,
        TextOr::Table(port) => Some(port),
    };
    let offload = |key: Option<file::Word<model::Offload>>| key.map_or_else(Default::default, |word| word.0);
    Some(model::Port {
        device,
        mtu: port.and_then(|port| port.mtu).unwrap_or(model::Port::MTU),
        rx_ring: port.and_then(|port| port.rx_ring).unwrap_or(model::Port::RING),
        tx_ring: port.and_then(|port| port.tx_ring).unwrap_or(model::Port::RING),
        tso: offload(port.and_then(|port| port.tso)),
        lro: offload(port.and_then(|port| port.lro)),
        governor: port.map_or_else(|| Some(Default::default()), |port| governor(&table, port, findings)),
    })
}

fn governor(path: &str, port: &file::Port, findings: &mut Findings<'_>) -> Option<model::Governor> {
    if let Some(file::CompleteOn::Submit) = port.complete_on {
        let given = [
            ("limit-min", port.limit_min.as_ref().map(Spanned::span)),
            ("limit-max", port.limit_max.as_ref().map(Spanned::span)),
            ("hold-time", port.hold_time.as_ref().map(Spanned::span)),
        ];
        for (key, span) in given {
            let Some(span) = span else { continue };
            let remedy = "write complete-on = \"completion\", or remove it";
            findings.warn(At::value(path, key, span), Concern::WithoutGovernor, remedy);
        }
        return None;
    }
    let default = model::Governor::default();
    let least = port.limit_min.as_ref().and_then(|size| u32::try_from(size.get_ref().0).ok());
    let governor = model::Governor {
        limit_min: least.unwrap_or(default.limit_min),
        limit_max: port.limit_max.as_ref().map_or(default.limit_max, |size| size.get_ref().0),
        hold_time: port.hold_time.as_ref().map_or(default.hold_time, |span| span.get_ref().0),
    };
    if let Some(most) = governor.limit_max.filter(|most| governor.limit_min > *most) {
        let what = Mistake::NotBelow(setting("limit-max", units::size(most.into())));
        let remedy = "raise limit-max or lower limit-min; both the same: a limit that is fixed";
        let at = At::value(path, "limit-min", span(&port.limit_min));
        findings.error(at, what, "limit-min <= limit-max".to_owned(), remedy);
    }
    Some(governor)
}

/// Notes that `what` is taken; the line where it already was.
fn claim<T: PartialEq>(
    taken: &mut Vec<(T, Range<usize>)>,
    what: T,
    span: Range<usize>,
    findings: &Findings<'_>,
) -> Option<usize> {
    if let Some((_, first)) = taken.iter().find(|(other, _)| *other == what) {
        return Some(findings.line(first));
    }
    taken.push((what, span));
    None
}

fn direction(
    path: &str,
    direction: Option<TextOr<file::Direction>>,
    mtu: u16,
    findings: &mut Findings<'_>,
) -> Option<model::Direction> {
    let mut file = match direction {
        None => file::Direction::default(),
        Some(TextOr::Table(table)) => *table,
        Some(TextOr::Text(_)) => return None,
    };
    let tc = file.tc.take();
    if let Some(line) = &tc {
        file = translated(path, line, file, findings)?;
        findings.tc = Some(line.span());
    }
    let direction = self::options(path, &file, mtu, findings);
    findings.tc = None;
    let rules = match &direction.qdisc {
        qdisc::Params::Cake(params) => cake::rules(path, &file.rule, params, findings),
        qdisc::Params::Fifo(_) | qdisc::Params::FqCodel(_) => Vec::new(),
    };
    Some(model::Direction { rules, ..direction })
}

/// A line of tc's as keys, with the keys beside it that it has no words for.
fn translated(
    path: &str,
    line: &Spanned<String>,
    beside: file::Direction,
    findings: &mut Findings<'_>,
) -> Option<file::Direction> {
    let keys = tc::to_toml(line.get_ref()).and_then(|toml| {
        toml::from_str::<file::Direction>(&toml).map_err(|error| error.message().to_owned())
    });
    match keys {
        Ok(keys) => Some(file::Direction {
            bandwidth: keys.bandwidth.or(beside.bandwidth),
            overhead: keys.overhead.or(beside.overhead),
            mpu: beside.mpu,
            atm: beside.atm,
            catch_up: beside.catch_up,
            split_gso: keys.split_gso.or(beside.split_gso),
            gso_budget: beside.gso_budget,
            gro: beside.gro,
            rule: beside.rule,
            ..keys
        }),
        Err(reason) => {
            findings.error(
                At::value(path, "tc", line.span()),
                Mistake::Internal(reason),
                String::new(),
                REPORT,
            );
            None
        }
    }
}

/// All but the rules.
fn options(path: &str, file: &file::Direction, mtu: u16, findings: &mut Findings<'_>) -> model::Direction {
    let bandwidth = file.bandwidth.as_ref().and_then(|bandwidth| bandwidth.get_ref().0);
    let mut overhead = file.overhead.as_ref().map_or(Overhead::default(), |o| o.get_ref().0);
    overhead.mpu = file.mpu.as_ref().map_or(overhead.mpu, |mpu| *mpu.get_ref());
    overhead.framing = file.atm.as_ref().map_or(overhead.framing, |framing| match framing.get_ref() {
        file::Framing::NoAtm => Framing::None,
        file::Framing::Atm => Framing::Atm,
        file::Framing::Ptm => Framing::Ptm,
    });
    let qdisc = match file.qdisc.unwrap_or_default() {
        file::Qdisc::FqCodel => qdisc::Params::FqCodel(self::fq_codel(path, file, mtu, findings)),
        file::Qdisc::Cake => {
            qdisc::Params::Cake(cake::params(path, file, bandwidth, overhead, mtu, findings))
        }
        file::Qdisc::Fifo => {
            let default = fifo::Params::default();
            qdisc::Params::Fifo(fifo::Params { limit: file.limit.unwrap_or(default.limit), ..default })
        }
    };
    let catch_up = file.catch_up.as_ref().map_or(Limiter::CATCH_UP, |span| span.get_ref().0);
    let split = split(path, file, findings);
    let gro = file.gro.unwrap_or(false);
    let direction = model::Direction { qdisc, bandwidth, overhead, catch_up, split, gro, rules: Vec::new() };
    concerns(path, file, &direction, mtu, findings);
    direction
}

fn split(path: &str, file: &file::Direction, findings: &mut Findings<'_>) -> Split {
    let split = match file.split_gso {
        Some(FlagOrWord::Flag(true)) => Split::Always,
        Some(FlagOrWord::Flag(false)) => Split::Never,
        Some(FlagOrWord::Word(auto)) => auto,
        None => Split::AUTO,
    };
    match (&file.gso_budget, split) {
        (Some(budget), Split::Auto(_)) => Split::Auto(budget.get_ref().0),
        (Some(budget), split) => {
            let at = At::value(path, "gso-budget", budget.span());
            findings.warn(at, Concern::WithoutAuto, "write split-gso = \"auto\", or remove it");
            split
        }
        (None, split) => split,
    }
}

fn fq_codel(path: &str, file: &file::Direction, mtu: u16, findings: &mut Findings<'_>) -> fq_codel::Params {
    let default = fq_codel::Params::for_mtu(u32::from(mtu) + ETHER_HEADER);
    let selector = file.ce_threshold_selector.as_ref().map(Spanned::get_ref);
    let memory_limit = file.memory_limit.as_ref().and_then(|size| u32::try_from(size.get_ref().0).ok());
    let params = fq_codel::Params {
        limit: file.limit.unwrap_or(default.limit),
        flows: file.flows.unwrap_or(default.flows),
        quantum: file.quantum.as_ref().map_or(default.quantum, |quantum| *quantum.get_ref()),
        drop_batch: file.drop_batch.unwrap_or(default.drop_batch),
        memory_limit: memory_limit.unwrap_or(default.memory_limit),
        codel: codel::Params {
            target: file.target.as_ref().map_or(default.codel.target, |span| span.get_ref().0),
            interval: file.interval.as_ref().map_or(default.codel.interval, |span| span.get_ref().0),
            ce_threshold: file.ce_threshold.map_or(default.codel.ce_threshold, |file::Threshold(span)| span),
            ce_selector: selector.map_or(default.codel.ce_selector, |selector| selector.value),
            ce_mask: selector.map_or(default.codel.ce_mask, |selector| selector.mask),
            ecn: file.ecn.unwrap_or(default.codel.ecn),
            ..default.codel
        },
        ..default
    };
    consistent(path, file, &params, findings);
    params
}

/// Values of fq_codel that exclude each other.
fn consistent(path: &str, file: &file::Direction, params: &fq_codel::Params, findings: &mut Findings<'_>) {
    let codel::Params { target, interval, .. } = params.codel;
    if target >= interval {
        let (key, span, what) = match (&file.target, &file.interval) {
            (None, Some(given)) => {
                ("interval", given.span(), Mistake::NotAbove(setting("target", units::time(target))))
            }
            (given, _) => {
                ("target", span(given), Mistake::NotBelow(setting("interval", units::time(interval))))
            }
        };
        let remedy = "RFC 8289 recommends a target of 5 to 10 % of interval";
        findings.error(At::value(path, key, span), what, "target < interval".to_owned(), remedy);
    }
    if params.quantum > params.memory_limit {
        let limit = units::size(params.memory_limit.into());
        let (key, span, what) = match (&file.quantum, &file.memory_limit) {
            (None, Some(given)) => {
                ("memory_limit", given.span(), Mistake::NotAbove(format!("quantum = {}", params.quantum)))
            }
            (given, _) => ("quantum", span(given), Mistake::NotBelow(setting("memory_limit", limit))),
        };
        let remedy = "raise memory_limit, or lower quantum to about the size of a frame";
        findings.error(At::value(path, key, span), what, "quantum <= memory_limit".to_owned(), remedy);
    }
}

fn setting(key: &str, value: impl std::fmt::Display) -> String {
    format!("{key} = \"{value}\"")
}

fn span<T>(given: &Option<Spanned<T>>) -> Range<usize> {
    given.as_ref().map(Spanned::span).unwrap_or_default()
}

/// What is allowed but probably not meant.
fn concerns(
    path: &str,
    file: &file::Direction,
    direction: &model::Direction,
    mtu: u16,
    findings: &mut Findings<'_>,
) {
    if let (Some(bandwidth), Some(rate)) = (&file.bandwidth, direction.bandwidth) {
        if findings.excerpt(&bandwidth.span()).to_ascii_lowercase().contains("bps") {
            let remedy = format!(
                "write \"{}\" if that is meant, else put \"bit\" in place of \"bps\"",
                units::rate(rate)
            );
            let what = Concern::BytesPerSecond(units::rate(rate).to_string());
            findings.warn(At::value(path, "bandwidth", bandwidth.span()), what, remedy);
        }
        frame_time(path, bandwidth.span(), direction, rate.bits_per_sec(), mtu, findings);
    }
    let follows = matches!(direction.qdisc, qdisc::Params::Cake(params) if params.autorate_ingress);
    if direction.bandwidth.is_none() && !follows {
        let counts = direction.overhead != Overhead::default();
        let catches_up = direction.catch_up != Limiter::CATCH_UP;
        let given = [
            ("overhead", counts, file.overhead.as_ref().map(Spanned::span)),
            ("mpu", counts, file.mpu.as_ref().map(Spanned::span)),
            ("atm", counts, file.atm.as_ref().map(Spanned::span)),
            ("catch-up", catches_up, file.catch_up.as_ref().map(Spanned::span)),
        ];
        for (key, _, span) in given.into_iter().filter(|(_, means, _)| *means) {
            let Some(span) = span else { continue };
            findings.warn(
                At::value(path, key, span),
                Concern::WithoutBandwidth,
                "add bandwidth, or remove it",
            );
        }
    }
    if let (Some(selector), qdisc::Params::FqCodel(fq_codel::Params { codel, .. })) =
        (&file.ce_threshold_selector, &direction.qdisc)
        && codel.ce_threshold.is_none()
        && codel.ce_mask != 0
    {
        let at = At::value(path, "ce_threshold_selector", selector.span());
        findings.warn(at, Concern::WithoutThreshold, "add ce_threshold, or remove it");
    }
}

/// RFC 8290 on the target: it must not be below the time that a full frame takes, or CoDel drops without cause.
fn frame_time(
    path: &str,
    span: Range<usize>,
    direction: &model::Direction,
    bits_per_sec: u64,
    mtu: u16,
    findings: &mut Findings<'_>,
) {
    let qdisc::Params::FqCodel(fq_codel::Params { codel, .. }) = direction.qdisc else { return };
    let bits = (u64::from(mtu) + u64::from(ETHER_HEADER)) * 8;
    let micros = (bits * 1_000_000).div_ceil(bits_per_sec.max(1));
    let frame = Duration::from_micros(micros);
    if frame > codel.target {
        let what = Concern::TargetBelowFrame(units::time(frame).to_string());
        let remedy = format!(
            "set target to at least \"{}\", one and a half times that, as target = \"{}\" can never be met",
            units::time(Duration::from_micros(micros.saturating_mul(3).div_ceil(2))),
            units::time(codel.target)
        );
        findings.warn(At::value(path, "bandwidth", span), what, remedy);
    }
}

pub(crate) const REPORT: &str = "this is a fault of weir: please report it";
