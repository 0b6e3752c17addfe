//! A configuration with all its defaults, written out: as a file that can be read back, and for the eye.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use shaper::flow::rules::{Prefix, Rule};
use shaper::gso::Split;
use shaper::qdisc::cake::AckFilter;
use shaper::qdisc::{self, cake, fq_codel};
use shaper::rate::{Framing, Overhead};
use toml::Value;

use crate::file::{AUTO, NONE, OFF, UNLIMITED};
use crate::model::{Api, Config, Direction, Link, OnStop, Port};
use crate::schema::{CAKE, FIFO, FQ_CODEL};
use crate::tc;
use crate::units::{rate, size, time};
use crate::words::{self, Words as _};

impl Config {
    /// The whole configuration as TOML, every key given. [`crate::parse`] makes the same of it again.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_toml(&mut out);
        out
    }

    /// The same as a tree.
    pub fn to_tree(&self) -> toml::Table {
        self.to_toml().parse().unwrap_or_default()
    }

    fn write_toml(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "[eal]")?;
        writeln!(
            out,
            "args = [{}]",
            self.eal.args.iter().map(|arg| quote(arg)).collect::<Vec<_>>().join(", ")
        )?;
        if let Some(lcores) = &self.eal.lcores {
            writeln!(out, "lcores = {{ main = {}, workers = {:?} }}", lcores.main, lcores.workers)?;
        }
        writeln!(out, "\n[engine]\npoll = \"{}\"", self.engine.poll.name())?;
        self.api.write_toml(out)?;
        self.links.iter().try_for_each(|link| link.write_toml(out))
    }
}

impl Api {
    fn write_toml(&self, out: &mut String) -> fmt::Result {
        let file = |path: Option<&PathBuf>| {
            quote(&path.map_or_else(|| NONE.to_owned(), |path| path.display().to_string()))
        };
        writeln!(out, "\n[api]\nlisten = {}", quote(&self.listen_text()))?;
        writeln!(out, "token-file = {}", file(self.token_file.as_ref()))?;
        writeln!(out, "tls-cert = {}", file(self.tls_cert.as_ref()))?;
        writeln!(out, "tls-key = {}", file(self.tls_key.as_ref()))?;
        let hosts: Vec<_> = self.allow_hosts.iter().map(|host| quote(host)).collect();
        writeln!(out, "allow-hosts = [{}]", hosts.join(", "))
    }

    fn listen_text(&self) -> String {
        self.listen.map_or_else(|| OFF.to_owned(), |address| address.to_string())
    }
}

impl Link {
    fn write_toml(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "\n[[link]]\nname = {}", quote(&self.name))?;
        for (side, port) in [("a", &self.a), ("b", &self.b)] {
            writeln!(out, "{side}.device = {}", quote(&port.device.devargs()))?;
            for (key, value) in port.rows() {
                writeln!(out, "{side}.{key} = {value}")?;
            }
        }
        let (off, on): (Vec<_>, Vec<_>) = [("up", &self.up), ("down", &self.down)]
            .into_iter()
            .partition(|(_, direction)| direction.is_none());
        for (key, _) in off {
            writeln!(out, "{key} = \"off\"")?;
        }
        writeln!(out, "link-down-hold = \"{}\"", time(self.link_down_hold))?;
        writeln!(out, "propagate-link = {}", self.propagate_link)?;
        writeln!(out, "on-stop = \"{}\"", self.on_stop.name())?;
        for (key, direction) in on {
            writeln!(out, "\n[link.{key}]")?;
            for direction in direction.iter() {
                direction.write_toml(key, out)?;
            }
        }
        Ok(())
    }
}

impl Port {
    /// Each key but the device, with its value as TOML; without a governor there are no bounds of it.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("mtu", self.mtu.to_string()),
            ("rx-ring", self.rx_ring.to_string()),
            ("tx-ring", self.tx_ring.to_string()),
            ("tso", quote(self.tso.word())),
            ("lro", quote(self.lro.word())),
        ];
        let Some(governor) = &self.governor else {
            rows.push(("complete-on", quote("submit")));
            return rows;
        };
        let most = governor.limit_max.map_or(UNLIMITED.to_owned(), |bytes| size(bytes.into()).to_string());
        rows.extend([
            ("complete-on", quote("completion")),
            ("limit-min", quote(&size(governor.limit_min.into()).to_string())),
            ("limit-max", quote(&most)),
            ("hold-time", quote(&time(governor.hold_time).to_string())),
        ]);
        rows
    }
}

impl Direction {
    /// The keys of this direction as TOML, those of its rules under `[[link.NAME.rule]]`.
    pub fn to_toml(&self, name: &str) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_toml(name, &mut out);
        out
    }

    /// The keys that hold beside [`Direction::to_tc`], with their values as TOML. Rules are not among them.
    pub fn beside_tc(&self) -> Vec<(&'static str, String)> {
        let said = tc::keys(&self.to_tc());
        self.rows().into_iter().filter(|(key, _)| !said.contains(key)).collect()
    }

    /// What becomes of super-packets in words, each with a space in front, as far as [`Direction::to_tc`]
    /// does not say it: ` split-gso auto gso-budget 100us`.
    pub fn super_packet_words(&self) -> String {
        let said = tc::keys(&self.to_tc());
        let rows = self.super_packet_rows().into_iter().filter(|(key, _)| !said.contains(key));
        let words = Self::words(&rows.collect::<Vec<_>>(), false);
        if words.is_empty() { words } else { format!(" {words}") }
    }

    fn write_toml(&self, name: &str, out: &mut String) -> fmt::Result {
        for (key, value) in self.rows() {
            writeln!(out, "{key} = {value}")?;
        }
        for rule in &self.rules {
            writeln!(out, "\n[[link.{name}.rule]]")?;
            for (key, value) in rule_rows(rule) {
                writeln!(out, "{key} = {value}")?;
            }
        }
        Ok(())
    }

    /// Each key that applies, with its value as TOML.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let bandwidth =
            self.bandwidth.map_or("unlimited".to_owned(), |bandwidth| rate(bandwidth).to_string());
        let shaping = [
            ("bandwidth", quote(&bandwidth)),
            ("overhead", overhead(&self.overhead)),
            ("mpu", self.overhead.mpu.to_string()),
            ("atm", quote(framing(self.overhead.framing))),
        ];
        let catch_up = ("catch-up", quote(&time(self.catch_up).to_string()));
        let (name, options) = match &self.qdisc {
            qdisc::Params::Fifo(params) => (FIFO, vec![("limit", params.limit.to_string())]),
            qdisc::Params::FqCodel(params) => (FQ_CODEL, fq_codel_rows(params)),
            qdisc::Params::Cake(params) => (CAKE, cake_rows(params)),
        };
        let catch_up = Some(catch_up).filter(|_| name != CAKE);
        let rows = std::iter::once(("qdisc", quote(name))).chain(shaping).chain(catch_up);
        rows.chain(self.super_packet_rows()).chain(options).collect()
    }

    fn super_packet_rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = match self.split {
            Split::Always => vec![("split-gso", "true".to_owned())],
            Split::Never => vec![("split-gso", "false".to_owned())],
            Split::Auto(budget) => {
                vec![("split-gso", quote(AUTO)), ("gso-budget", quote(&time(budget).to_string()))]
            }
        };
        rows.push(("gro", self.gro.to_string()));
        rows
    }

    /// What holds in words, for the eye: nothing is said of what is off or has no effect.
    fn words(rows: &[(&'static str, String)], unlimited: bool) -> String {
        let words = rows.iter().filter_map(|(key, value)| match (*key, value.trim_matches('"')) {
            ("qdisc", name) => Some(name.to_owned()),
            ("bandwidth", "unlimited") => Some("unlimited".to_owned()),
            ("overhead" | "mpu" | "atm" | "catch-up", _) if unlimited => None,
            ("overhead", "raw") => Some("raw".to_owned()),
            ("atm", word) => Some(word.to_owned()),
            ("split-gso", "true") => Some("split-gso".to_owned()),
            ("split-gso", "false") => Some("no-split-gso".to_owned()),
            ("gro", value) => (value == "true").then(|| "gro".to_owned()),
            ("ecn", value) => Some(if value == "true" { "ecn" } else { "noecn" }.to_owned()),
            ("ce_threshold", "off") | ("ce_threshold_selector", "0x00/0x00") => None,
            (key, value) => Some(format!("{key} {value}")),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

fn fq_codel_rows(params: &fq_codel::Params) -> Vec<(&'static str, String)> {
    let codel = &params.codel;
    let threshold = codel.ce_threshold.map_or("off".to_owned(), |threshold| time(threshold).to_string());
    vec![
        ("limit", params.limit.to_string()),
        ("flows", params.flows.to_string()),
        ("target", quote(&time(codel.target).to_string())),
        ("interval", quote(&time(codel.interval).to_string())),
        ("quantum", params.quantum.to_string()),
        ("ecn", codel.ecn.to_string()),
        ("ce_threshold", quote(&threshold)),
        ("ce_threshold_selector", quote(&format!("{:#04x}/{:#04x}", codel.ce_selector, codel.ce_mask))),
        ("drop_batch", params.drop_batch.to_string()),
        ("memory_limit", quote(&size(params.memory_limit.into()).to_string())),
    ]
}

fn cake_rows(params: &cake::Params) -> Vec<(&'static str, String)> {
    let memlimit = params.memlimit.map_or(AUTO.to_owned(), |bytes| size(bytes.into()).to_string());
    let ack_filter = match params.ack_filter {
        AckFilter::Off => "false".to_owned(),
        AckFilter::Conservative => "true".to_owned(),
        AckFilter::Aggressive => quote("aggressive"),
    };
    vec![
        ("autorate-ingress", params.autorate_ingress.to_string()),
        ("rtt", quote(&time(params.rtt).to_string())),
        ("diffserv", quote(params.diffserv.word())),
        ("flowmode", quote(params.flow_mode.word())),
        ("nat", "false".to_owned()),
        ("wash", params.wash.to_string()),
        ("ack-filter", ack_filter),
        ("memlimit", quote(&memlimit)),
        ("fwmark", format!("{:#x}", params.fwmark)),
        ("ingress", params.ingress.to_string()),
    ]
}

/// The keys of a rule that are given. A mark of 0 is, where nothing else is said.
fn rule_rows(rule: &Rule) -> Vec<(&'static str, String)> {
    let prefix = |prefix: Option<Prefix>| {
        prefix.map(|prefix| {
            let (address, length) = prefix.parts();
            quote(&format!("{address}/{length}"))
        })
    };
    let dscp = |dscp: Option<u8>| {
        dscp.map(|number| words::dscp_name(number).map_or_else(|| number.to_string(), quote))
    };
    let mark = (rule.mark != 0 || rule.set_dscp.is_none()).then(|| format!("{:#x}", rule.mark));
    let rows = [
        ("source", prefix(rule.source)),
        ("destination", prefix(rule.destination)),
        ("vlan", rule.vlan.map(|id| id.to_string())),
        ("dscp", dscp(rule.dscp)),
        ("pcp", rule.pcp.map(|pcp| pcp.to_string())),
        ("exp", rule.exp.map(|exp| exp.to_string())),
        ("mark", mark),
        ("set-dscp", dscp(rule.set_dscp)),
    ];
    rows.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// The value of the key `overhead`; mpu and framing have keys of their own.
fn overhead(overhead: &Overhead) -> String {
    match (overhead.ip_length, overhead.bytes) {
        (true, bytes) => bytes.to_string(),
        (false, 0) => quote("raw"),
        (false, bytes) => quote(&format!("raw overhead {bytes}")),
    }
}

fn framing(framing: Framing) -> &'static str {
    match framing {
        Framing::None => "noatm",
        Framing::Atm => "atm",
        Framing::Ptm => "ptm",
    }
}

impl fmt::Display for Config {
    /// For the eye; a direction in one line, as `tc qdisc show` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args = if self.eal.args.is_empty() { "none".to_owned() } else { self.eal.args.join(" ") };
        writeln!(f, "eal     args: {args}")?;
        match &self.eal.lcores {
            Some(lcores) => {
                writeln!(f, "        main lcore on CPU {}, workers on CPU {:?}", lcores.main, lcores.workers)?
            }
            None => writeln!(f, "        lcores: what the affinity allows")?,
        }
        writeln!(f, "engine  poll {}", self.engine.poll.name())?;
        writeln!(f, "api     listen {}", self.api.listen_text())?;
        self.links.iter().try_for_each(|link| write!(f, "{link}"))
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "link    {}", self.name)?;
        writeln!(f, "  a     {}", self.a)?;
        writeln!(f, "  b     {}", self.b)?;
        for (name, way, direction) in [("up", "a -> b", &self.up), ("down", "b -> a", &self.down)] {
            match direction {
                Some(direction) => writeln!(f, "  {name:<5} {way}: {direction}")?,
                None => writeln!(f, "  {name:<5} {way}: off, nothing is forwarded")?,
            }
        }
        let propagate = if self.propagate_link { "propagated" } else { "not propagated" };
        writeln!(f, "  link down: queues held {}, {propagate}", time(self.link_down_hold))?;
        match self.on_stop {
            OnStop::LinkDown => writeln!(f, "  stopped: ports closed"),
            OnStop::Bridge => writeln!(f, "  stopped: ports bridged by the kernel as {}", self.bridge()),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.device)?;
        self.rows().iter().try_for_each(|(key, value)| write!(f, " {key} {}", value.trim_matches('"')))
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let qdisc::Params::Cake(_) = self.qdisc {
            write!(f, "{}{}", self.to_tc(), self.super_packet_words())?;
            return match self.rules.len() {
                0 => Ok(()),
                1 => f.write_str(", 1 rule"),
                rules => write!(f, ", {rules} rules"),
            };
        }
        f.write_str(&Self::words(&self.rows(), self.bandwidth.is_none()))
    }
}

/// `text` as a TOML string.
fn quote(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
