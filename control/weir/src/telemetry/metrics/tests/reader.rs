//! A reader of the text format, written from its description and not from what writes it here.

use std::collections::{BTreeMap, BTreeSet};

/// A family as read.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub help: String,
    pub samples: Vec<Sample>,
}

/// One line.
#[derive(Debug)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Reads a whole text; panics where it breaks the format.
pub fn read(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line must end with a line feed");
    let mut families = BTreeMap::<String, Family>::new();
    let mut seen = BTreeSet::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            let family = Family { help: help.to_owned(), ..Family::default() };
            assert!(families.insert(name.to_owned(), family).is_none(), "{name} comes twice");
            current = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert_eq!(name, current, "TYPE follows HELP");
            families.get_mut(name).expect(line).kind = kind.to_owned();
        } else {
            let sample = sample(line);
            let family = families.get_mut(&current).expect(line);
            let suffix = sample.name.strip_prefix(&current).unwrap_or_else(|| panic!("{line} in {current}"));
            let allowed: &[_] =
                if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line} in a {}", family.kind);
            assert!(seen.insert((sample.name.clone(), sample.labels.clone())), "{line} comes twice");
            family.samples.push(sample);
        }
    }
    families
}

/// The value of the only sample with this name and these labels, others aside.
pub fn value(families: &BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |sample: &&Sample| {
        sample.name == name
            && labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|v| v == value))
    };
    let mut found = families.values().flat_map(|family| &family.samples).filter(has);
    let sample = found.next().unwrap_or_else(|| panic!("no {name} {labels:?}"));
    assert!(found.next().is_none(), "{name} {labels:?} is not one");
    sample.value
}

fn sample(line: &str) -> Sample {
    let name_end = line.find(['{', ' ']).expect(line);
    let (name, mut rest) = line.split_at(name_end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").expect(line);
            assert!(is_name(label), "{line}");
            let (value, after) = quoted(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').expect(line).parse().expect(line);
    Sample { name: name.to_owned(), labels, value }
}

/// A label's value up to its closing quote, and what follows that.
fn quoted(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().expect("something escaped").1 {
                'n' => value.push('\n'),
                c @ ('\\' | '"') => value.push(c),
                c => panic!("\\{c} means nothing"),
            },
            c => value.push(c),
        }
    }
    panic!("no closing quote in {text}")
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
