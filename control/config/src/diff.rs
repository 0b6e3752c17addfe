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
            (old, new, _) => {
                let [old, new] = match key.kind {
                    Kind::Tables(_) => rows(old, new),
                    _ => [old, new].map(|value| value.map(text)),
                };
                found.push(Difference { path: at, old, new, change: key.change });
            }
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

/// Of two lists of tables the rows that only one has; all rows, if they only moved: the first that matches counts.
fn rows(old: Option<&Value>, new: Option<&Value>) -> [Option<String>; 2] {
    let [old, new] = [old, new].map(|list| list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice));
    let only = |these: &[Value], others: &[Value]| -> Vec<String> {
        these.iter().filter(|row| !others.contains(row)).map(ToString::to_string).collect()
    };
    let mut sides = [only(old, new), only(new, old)];
    if sides.iter().all(Vec::is_empty) {
        sides = [old, new].map(|rows| rows.iter().map(ToString::to_string).collect());
    }
    sides.map(|mut side| {
        let more = side.len().saturating_sub(ROWS);
        side.truncate(ROWS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!side.is_empty()).then(|| format!("{}{more}", side.join(", ")))
    })
}

/// A value on one line.
fn text(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        value => value.to_string(),
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

/// Rows shown of each side: a history of large rule sets stays readable.
const ROWS: usize = 16;

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
    fn of_rules_those_that_came_and_went_are_shown() {
        let cake = |rules: &str| format!("{HOME}up = {{ qdisc = \"cake\", rule = [{rules}] }}\n");
        let [kept, old, new] = [
            "{ dscp = \"EF\", mark = 1 }",
            "{ destination = \"1.2.3.0/24\", mark = 1 }",
            "{ destination = \"9.9.9.0/24\", mark = 2 }",
        ];
        let [before, after] = [old, new].map(|rule| cake(&format!("{kept}, {rule}")));
        let change = |old: &str, new: &str| [(format!("home.up.rule: {old} -> {new}"), Change::Live)];
        assert_eq!(between(&before, &after), change(old, new));
        assert_eq!(between(&before, &cake(kept)), change(old, "(none)"));
        assert_eq!(between(&cake(""), &cake(kept)), change("(none)", kept));
        let moved = between(&before, &cake(&format!("{old}, {kept}")));
        assert_eq!(moved, change(&format!("{kept}, {old}"), &format!("{old}, {kept}")));
        let many: Vec<_> = (1..=20).map(|vlan| format!("{{ vlan = {vlan}, mark = 1 }}")).collect();
        let [(said, _)] = between(&cake(""), &cake(&many.join(", "))).try_into().unwrap();
        assert!(said.ends_with(" and 4 more"), "{said}");
    }
}
