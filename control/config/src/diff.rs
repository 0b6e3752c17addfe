//! What differs between two configurations, key by key, and whether it can change while weir runs.
//!
//! Both are compared with all defaults filled in, so that a key that was left out differs only if its
//! default does. Links are told apart by their names.

use std::fmt;

use toml::{Table as Tree, Value};

use crate::model::Config;
use crate::schema::{self, Change, Kind, Table};

/// One key that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where: `engine.poll`, `home.down.bandwidth`.
    pub path: String,
    /// What it was, as TOML; `None`: it was not there.
    pub old: Option<String>,
    /// What it is to be.
    pub new: Option<String>,
    /// Whether that can be done while weir runs.
    pub change: Change,
}

/// All keys that differ, in the order of the file.
pub fn diff(old: &Config, new: &Config) -> Vec<Difference> {
    let mut found = Vec::new();
    // What is printed can be read: a test holds it to that.
    let [old, new] = [old, new].map(|config| config.to_tree());
    walk(&schema::ROOT, &old, &new, "", &mut found);
    found
}

fn walk(table: &'static Table, old: &Tree, new: &Tree, path: &str, found: &mut Vec<Difference>) {
    // Another discipline has other keys, all of which would be listed.
    let is_other = |key: &&schema::Key| key.name == "qdisc" && old.get(key.name) != new.get(key.name);
    let keys = match table.keys.iter().find(is_other) {
        Some(qdisc) => std::slice::from_ref(qdisc),
        None => table.keys,
    };
    for key in keys {
        let at = join(path, key.name);
        match (old.get(key.name), new.get(key.name), key.table()) {
            (old, new, _) if old == new => {}
            (Some(Value::Array(old)), Some(Value::Array(new)), Some(table)) if key.name == LINK => {
                links(table, old, new, found);
            }
            (Some(Value::Table(old)), Some(Value::Table(new)), Some(table)) => {
                walk(table, old, new, &at, found);
            }
            (old, new, _) => found.push(Difference {
                path: at,
                old: old.map(|value| text(key.kind, value)),
                new: new.map(|value| text(key.kind, value)),
                change: key.change,
            }),
        }
    }
}

fn links(table: &'static Table, old: &[Value], new: &[Value], found: &mut Vec<Difference>) {
    let name = |link: &Value| link.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = |links: &[Value]| links.iter().map(name).collect::<Vec<_>>();
    let [olds, news] = [old, new].map(names);
    if olds != news {
        let change = Change::Restart;
        let [old, new] = [olds, news].map(|names| Some(format!("{names:?}")));
        found.push(Difference { path: LINK.to_owned(), old, new, change });
        return;
    }
    for (old, new) in old.iter().zip(new) {
        if let (Value::Table(before), Value::Table(after)) = (old, new) {
            walk(table, before, after, &name(old), found);
        }
    }
}

/// A value on one line.
fn text(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (Kind::Tables(_), Value::Array(items)) => format!("{} of them", items.len()),
        (_, Value::Table(_)) => "a table".to_owned(),
        (_, value) => value.to_string(),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "(none)".to_owned());
        write!(f, "{}: {} -> {}", self.path, side(&self.old), side(&self.new))
    }
}

/// The key of the links, whose names stand for it in a path.
const LINK: &str = "link";

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        crate::parse("test.toml", text).unwrap().config
    }

    fn between(old: &str, new: &str) -> Vec<(String, Change)> {
        diff(&config(old), &config(new)).into_iter().map(|found| (found.to_string(), found.change)).collect()
    }

    const HOME: &str = "[[link]]\nname = \"home\"\na = \"net_null0\"\nb = \"net_null1\"\n";

    #[test]
    fn a_file_differs_from_itself_in_nothing_and_defaults_are_filled_in() {
        let spelt = format!("[engine]\npoll = \"adaptive\"\n{HOME}link-down-hold = \"100ms\"\n");
        assert_eq!(between(HOME, HOME), []);
        assert_eq!(between(HOME, &spelt), []);
    }

    #[test]
    fn each_key_is_named_with_both_values() {
        let busy = format!("[engine]\npoll = \"busy\"\n{HOME}down = {{ bandwidth = \"5Mbit\" }}\n");
        let expected = [
            ("engine.poll: \"adaptive\" -> \"busy\"".to_owned(), Change::Live),
            ("home.down.bandwidth: \"unlimited\" -> \"5Mbit\"".to_owned(), Change::Live),
        ];
        assert_eq!(between(HOME, &busy), expected);
    }

    #[test]
    fn what_needs_a_restart_is_known() {
        let cake = format!("{HOME}up = {{ qdisc = \"cake\", rtt = \"5ms\" }}\n");
        let expected = ("home.up.qdisc: \"fq_codel\" -> \"cake\"".to_owned(), Change::Restart);
        assert_eq!(between(HOME, &cake), [expected], "and no key that came or went with it");
        let off = format!("{HOME}up = \"off\"\n");
        assert_eq!(between(HOME, &off), [("home.up: a table -> \"off\"".to_owned(), Change::Restart)]);
        let mtu = HOME.replace("\"net_null0\"", "{ device = \"net_null0\", mtu = 9000 }");
        assert_eq!(between(HOME, &mtu)[0], ("home.a.mtu: 1500 -> 9000".to_owned(), Change::Restart));
        let other = HOME.replace("home", "work");
        let expected = ("link: [\"home\"] -> [\"work\"]".to_owned(), Change::Restart);
        assert_eq!(between(HOME, &other), [expected]);
    }

    #[test]
    fn rules_are_counted() {
        let cake = format!("{HOME}up = {{ qdisc = \"cake\" }}\n");
        let rule = format!("{HOME}up = {{ qdisc = \"cake\", rule = [{{ dscp = \"EF\", mark = 1 }}] }}\n");
        let expected = ("home.up.rule: (none) -> 1 of them".to_owned(), Change::Live);
        assert_eq!(between(&cake, &rule), [expected]);
    }
}
