//! The file's tree against the schema: every key that is unknown, missing, of the wrong type or out of range.

use std::net::IpAddr;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::device::Device;
use crate::error::{At, Findings, Mistake, unknown_key_remedy};
use crate::schema::{self, Kind, NAME_MAX, Table};
use crate::{file, tc, words};

/// Reports every mistake that concerns a single key of `tree`.
pub(crate) fn check(tree: &Spanned<DeTable<'_>>, findings: &mut Findings<'_>) {
    Walk { findings }.table(&schema::ROOT, tree.get_ref(), &tree.span(), "");
}

struct Walk<'w, 't> {
    findings: &'w mut Findings<'t>,
}

/// What is wrong with a value, and what to do about it if that isn't "write for example ...".
type Verdict = Result<(), (Mistake, Option<String>)>;

impl Walk<'_, '_> {
    fn table(&mut self, schema: &'static Table, tree: &DeTable<'_>, span: &Range<usize>, path: &str) {
        let qdisc = chosen_qdisc(schema, tree);
        let said_by_tc = said_by_tc(schema, tree);
        let mut entries: Vec<_> = tree.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in entries {
            let Some(key) = schema.key(name.get_ref()) else {
                let at = At::key(path, name.get_ref(), name.span());
                let remedy = unknown_key_remedy(name.get_ref(), schema);
                self.findings.error(at, Mistake::UnknownKey, schema::names(schema), remedy);
                continue;
            };
            if said_by_tc.contains(&key.name) {
                let at = At::key(path, key.name, name.span());
                let remedy = "say it in tc, or say all in keys: `weir check --explain` translates";
                self.findings.error(at, Mistake::BesideTc, String::new(), remedy);
            }
            if let Some(qdisc) = qdisc.filter(|qdisc| !key.qdiscs.is_empty() && !key.qdiscs.contains(qdisc)) {
                let at = At::key(path, key.name, name.span());
                let remedy = format!("remove it, or write qdisc = {}", schema::quoted(key.qdiscs));
                self.findings.error(at, Mistake::NotOfQdisc(qdisc.to_owned()), String::new(), remedy);
            }
            self.value(key, value, path);
        }
        for key in schema.keys.iter().filter(|key| key.is_required() && !tree.contains_key(key.name)) {
            let at = At::key(path, key.name, span.clone());
            let remedy = format!("write for example {} = {}", key.name, key.example);
            self.findings.error(at, Mistake::Missing, key.kind.to_string(), remedy);
        }
    }

    fn value(&mut self, key: &'static schema::Key, value: &Spanned<DeValue<'_>>, path: &str) {
        match (key.kind, value.get_ref()) {
            (Kind::Table(t) | Kind::TableOrDevice(t) | Kind::TableOrChoice(t, _), DeValue::Table(table)) => {
                self.table(t, table, &value.span(), &join(path, key.name));
            }
            (Kind::Tables(t), DeValue::Array(array)) => {
                for (index, item) in array.iter().enumerate() {
                    match item.get_ref() {
                        DeValue::Table(table) => {
                            let path = format!("{}[{index}]{}", join(path, key.name), name_of(table));
                            self.table(t, table, &item.span(), &path);
                        }
                        other => self.report(key, path, item.span(), wrong_type(other)),
                    }
                }
            }
            (kind, other) => self.report(key, path, value.span(), leaf(kind, other)),
        }
    }

    fn report(&mut self, key: &schema::Key, path: &str, span: Range<usize>, verdict: Verdict) {
        let Err((mistake, remedy)) = verdict else { return };
        let remedy = remedy.unwrap_or_else(|| match (key.example, key.kind) {
            ("", Kind::Tables(_)) => {
                let within = path.rsplit('.').next().filter(|way| !way.is_empty());
                let within = within.map(|way| format!("link.{way}.")).unwrap_or_default();
                format!("write [[{within}{}]] above its keys, once for each", key.name)
            }
            ("", Kind::TableOrChoice(..)) => {
                format!("write for example {} = {{ bandwidth = \"20Mbit\" }}", key.name)
            }
            ("", _) => format!("write {} = {{ ... }}", key.name),
            (example, _) => format!("write for example {} = {example}", key.name),
        });
        self.findings.error(At::value(path, key.name, span), mistake, key.kind.to_string(), remedy);
    }
}

/// Whether `toml` is a value that `kind` takes.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn value(kind: Kind, toml: &str) -> Result<(), String> {
    let text = format!("x = {toml}");
    let tree = DeTable::parse(&text).map_err(|error| error.message().to_owned())?;
    let value = tree.get_ref().get("x").ok_or("there is nothing")?;
    leaf(kind, value.get_ref()).map_err(|(mistake, remedy)| match remedy {
        Some(remedy) => format!("{mistake}: {remedy}"),
        None => format!("{mistake}; accepted is {kind}"),
    })
}

/// Whether a value that is no table is what `kind` takes.
fn leaf(kind: Kind, value: &DeValue<'_>) -> Verdict {
    match (kind, value) {
        (Kind::Flag | Kind::FlagOrChoice(_), DeValue::Boolean(_)) => Ok(()),
        (Kind::Dscp, DeValue::Integer(_)) => in_range(number(value), 0, 63),
        (Kind::Number(min, max, _), DeValue::Integer(_)) => in_range(number(value), min, max),
        (Kind::Overhead, DeValue::Integer(_)) => {
            in_range(number(value), schema::OVERHEAD_MIN, schema::OVERHEAD_MAX)
        }
        (Kind::Strings, DeValue::Array(items)) => {
            let odd = items.iter().find(|item| !matches!(item.get_ref(), DeValue::String(_)));
            odd.map_or(Ok(()), |item| wrong_element(item.get_ref()))
        }
        (Kind::Hosts, DeValue::Array(items)) => items.iter().try_for_each(|item| match item.get_ref() {
            DeValue::String(host) if is_host(host) => Ok(()),
            DeValue::String(_) => Err(unreadable("a host is a name or an address alone".to_owned())),
            other => wrong_element(other),
        }),
        (Kind::Cpus, DeValue::Array(items)) if !items.is_empty() => {
            items.iter().try_for_each(|item| match item.get_ref() {
                DeValue::Integer(_) => in_range(number(item.get_ref()), 0, schema::CPU_MAX),
                other => wrong_element(other),
            })
        }
        (Kind::Cpus, DeValue::Array(_)) => Err((Mistake::OutOfRange, None)),
        (_, DeValue::String(text)) => word(kind, text),
        (_, other) => wrong_type(other),
    }
}

/// Whether a text is what `kind` takes.
fn word(kind: Kind, text: &str) -> Verdict {
    let owned = text.to_owned();
    match kind {
        Kind::Rate(min, max) => match file::Bandwidth::try_from(owned).map_err(unreadable)? {
            file::Bandwidth(Some(rate)) => in_range(Some(rate), min, max),
            file::Bandwidth(None) => Ok(()),
        },
        Kind::Time(min, max) => {
            let file::Span(span) = file::Span::try_from(owned).map_err(unreadable)?;
            in_range(Some(span), min, max)
        }
        Kind::TimeOrOff(min, max) => match file::Threshold::try_from(owned).map_err(unreadable)? {
            file::Threshold(Some(span)) => in_range(Some(span), min, max),
            file::Threshold(None) => Ok(()),
        },
        Kind::TimeOrPreset(min, max, _) => {
            let file::Rtt(span) = file::Rtt::try_from(owned).map_err(unreadable)?;
            in_range(Some(span), min, max)
        }
        Kind::SizeOr(_, _, word) if text == word => Ok(()),
        Kind::Size(min, max) | Kind::SizeOr(min, max, _) => {
            let file::Size(bytes) = file::Size::try_from(owned).map_err(unreadable)?;
            in_range(Some(bytes), min, max)
        }
        Kind::Choice(words) | Kind::FlagOrChoice(words) | Kind::TableOrChoice(_, words) => {
            choice(words, text)
        }
        Kind::Name if is_name(text) => Ok(()),
        Kind::Name => Err(unreadable("it is empty, too long or has other characters".to_owned())),
        Kind::Device | Kind::TableOrDevice(_) => Device::parse(text).map(drop).map_err(device_error),
        Kind::Overhead => file::Overhead::try_from(text).map(drop).map_err(unreadable),
        Kind::Selector => file::Selector::try_from(owned).map(drop).map_err(unreadable),
        Kind::Prefix => file::Prefix::try_from(owned).map(drop).map_err(unreadable),
        Kind::Dscp => words::dscp(text).map(drop).ok_or((Mistake::UnknownWord, None)),
        Kind::Address => file::Listen::try_from(owned).map(drop).map_err(unreadable),
        Kind::File => file::Path::try_from(owned).map(drop).map_err(unreadable),
        Kind::Tc => tc::check(text).map_err(unreadable),
        Kind::Number(..) if text.trim().parse::<i64>().is_ok() => {
            Err((Mistake::WrongType { found: "a string" }, Some("remove the quotes".to_owned())))
        }
        Kind::Flag
        | Kind::Number(..)
        | Kind::Strings
        | Kind::Hosts
        | Kind::Cpus
        | Kind::Table(_)
        | Kind::Tables(_) => Err((Mistake::WrongType { found: "a string" }, None)),
    }
}

fn choice(words: &'static [&'static str], text: &str) -> Verdict {
    if words.contains(&text) {
        return Ok(());
    }
    let near = crate::error::nearest(text, words.iter().copied());
    Err((Mistake::UnknownWord, near.map(|near| format!("did you mean \"{near}\"?"))))
}

fn in_range<T: PartialOrd>(value: Option<T>, min: T, max: T) -> Verdict {
    match value {
        Some(value) if min <= value && value <= max => Ok(()),
        _ => Err((Mistake::OutOfRange, None)),
    }
}

/// The value of an integer that fits 64 bits.
fn number(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn wrong_type(value: &DeValue<'_>) -> Verdict {
    let found = match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a bare number",
        DeValue::Float(_) => "a bare number with decimals",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    };
    Err((Mistake::WrongType { found }, None))
}

fn wrong_element(value: &DeValue<'_>) -> Verdict {
    let found = match value {
        DeValue::String(_) => "an array with a string in it",
        DeValue::Integer(_) => "an array with a bare number in it",
        _ => "an array with something else in it",
    };
    Err((Mistake::WrongType { found }, None))
}

fn unreadable(reason: String) -> (Mistake, Option<String>) {
    (Mistake::Unreadable(reason), None)
}

fn device_error(reason: String) -> (Mistake, Option<String>) {
    let remedy = "write a PCI address (\"0000:01:00.0\") or a vdev (\"net_tap0,iface=lan0\"); \
                  configs/ has an example for each kind";
    (Mistake::Unreadable(reason), Some(remedy.to_owned()))
}

fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// Whether `text` is what a browser puts before the port of a URL, without brackets.
fn is_host(text: &str) -> bool {
    let is_name = (1..=253).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    is_name || text.parse::<IpAddr>().is_ok()
}

/// The discipline that a direction's keys must belong to; nothing if it is none that is known.
fn chosen_qdisc<'t>(schema: &Table, tree: &'t DeTable<'_>) -> Option<&'t str> {
    let key = schema.key("qdisc")?;
    let Kind::Choice(words) = key.kind else { return None };
    if let Some(line) = tree.get("tc") {
        return tc::qdisc(line.get_ref().as_str()?);
    }
    let chosen = tree.get("qdisc").map_or(Some(schema::FQ_CODEL), |value| value.get_ref().as_str())?;
    words.contains(&chosen).then_some(chosen)
}

/// The keys of a direction that its line of tc speaks for.
fn said_by_tc(schema: &Table, tree: &DeTable<'_>) -> Vec<&'static str> {
    let line = schema.key("tc").and_then(|key| tree.get(key.name));
    line.and_then(|line| line.get_ref().as_str()).map(tc::keys).unwrap_or_default()
}

/// ` "home"`, for the path of a link that has a name.
fn name_of(table: &DeTable<'_>) -> String {
    let name = table.get("name").and_then(|name| name.get_ref().as_str());
    name.filter(|name| is_name(name)).map(|name| format!(" \"{name}\"")).unwrap_or_default()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
