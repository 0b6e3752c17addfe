//! Shared by the tests: snapshots, and files built around one key.

use config::schema::{CAKE, DIRECTION};
use std::path::{Path, PathBuf};

/// The tables of the schema as a test writes them: heading in the schema, and how to make a file of its keys.
pub(crate) fn file_with(heading: &str, keys: &[(&str, &str)]) -> String {
    let given = |name: &str| keys.iter().any(|(key, _)| *key == name);
    let lines = |defaults: &[(&str, &str)], join: &str| {
        let kept = defaults.iter().filter(|(key, _)| !given(key));
        let all = kept.chain(keys).filter(|(_, value)| !value.is_empty());
        all.map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(join)
    };
    let link = "[[link]]\nname = \"home\"\na = \"net_null0\"\nb = \"net_null1\"\n";
    match heading {
        "(top level)" => {
            lines(&[("link", "[{ name = \"home\", a = \"net_null0\", b = \"net_null1\" }]")], "\n")
        }
        "[eal]" => format!("{link}\n[eal]\n{}\n", lines(&[], "\n")),
        "lcores of [eal]" => {
            format!("{link}\n[eal]\nlcores = {{ {} }}\n", lines(&[("main", "0"), ("workers", "[1]")], ", "))
        }
        "[engine]" => format!("{link}\n[engine]\n{}\n", lines(&[], "\n")),
        "[api]" => format!("{link}\n[api]\n{}\n", lines(&[], "\n")),
        "[[link]]" => {
            let [a, b] = if given("on-stop") {
                ["\"net_af_packet0,iface=lan0\"", "\"net_af_packet1,iface=wan0\""]
            } else {
                ["\"net_null0\"", "\"net_null1\""]
            };
            let defaults = [("name", "\"home\""), ("a", a), ("b", b)];
            format!("[[link]]\n{}\n", lines(&defaults, "\n"))
        }
        "a and b of [[link]], as a table" => {
            let b = lines(&[("device", "\"net_null1\"")], ", ");
            format!("[[link]]\nname = \"home\"\na = \"net_null0\"\nb = {{ {b} }}\n")
        }
        "up and down of [[link]]" => {
            let of_cake = |name: &str| {
                DIRECTION
                    .key(name)
                    .is_some_and(|key| !key.qdiscs.is_empty() && key.qdiscs.iter().all(|q| *q == CAKE))
            };
            let defaults: &[_] =
                if keys.iter().any(|(name, _)| of_cake(name)) { &[("qdisc", "\"cake\"")] } else { &[] };
            format!("{link}\n[link.up]\n{}\n", lines(defaults, "\n"))
        }
        "[[link.up.rule]] and [[link.down.rule]]" => {
            let up = "[link.up]\nqdisc = \"cake\"\nfwmark = 0xff";
            format!("{link}\n{up}\n[[link.up.rule]]\n{}\n", lines(&[("mark", "0x1")], "\n"))
        }
        other => unreachable!("a table that the tests do not know: {other}"),
    }
}

/// Compares `text` with the file `path` below the repository's root; `UPDATE_SNAPSHOTS=1` writes it.
pub(crate) fn snapshot(path: &str, text: &str) {
    let path = root().join(path);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (kept, now))) = kept.lines().zip(text.lines()).enumerate().find(|(_, (a, b))| a != b) {
        panic!(
            "{}:{}\n  kept {kept}\n  now  {now}\nUPDATE_SNAPSHOTS=1 accepts the change",
            path.display(),
            line + 1
        );
    }
    assert_eq!(kept.len(), text.len(), "{}: one is longer; UPDATE_SNAPSHOTS=1 accepts", path.display());
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every example file with its text.
pub(crate) fn examples() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(root().join("configs")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Numbers that only look random.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// One below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}
