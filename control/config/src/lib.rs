//! The TOML file: schema, validation, conversion to domain types.
//!
//! Contract: [`parse`] either gives a [`model::Config`] in which every value is within its range and all of
//! them fit together, or tells every mistake that it found. It never panics, whatever the text. No DPDK here:
//! whether a device exists and takes what is asked for shows when it is opened.
//!
//! The way of a file: text -> tree with places (`toml`) -> each key against the [`schema`] (`check`) -> serde types
//! (`file`) -> values against each other, defaults (`convert`) -> [`model::Config`]. A line of tc is translated
//! into keys ([`tc`]) and goes the same way.

mod check;
mod convert;
pub mod device;
pub mod diff;
mod eal;
mod effective;
pub mod error;
mod file;
pub mod model;
pub mod schema;
pub mod tc;
pub mod units;
mod words;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use toml::de::DeTable;

use error::{At, Concern, Errors, Finding, Findings, LoadError, Mistake};
use model::Config;

/// A file that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// What is allowed in it but probably not meant.
    pub warnings: Vec<Finding<Concern>>,
}

/// Reads and checks the file at `path`.
///
/// # Errors
/// It is no regular file, longer than [`LONGEST`], cannot be read, or something in it is wrong.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    Ok(parse(&path.display().to_string(), &read(path)?)?)
}

/// The text of a file. A pipe is not opened: it would be waited for.
fn read(path: &Path) -> Result<String, LoadError> {
    let failed = |cause| LoadError::Read { path: path.to_owned(), cause };
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() && !found.is_dir() {
        return Err(LoadError::NotRegular(path.to_owned()));
    }
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text)).map_err(failed)?;
    if text.len() as u64 > LONGEST {
        return Err(LoadError::TooLong(path.to_owned()));
    }
    String::from_utf8(text).map_err(|cause| failed(io::Error::new(io::ErrorKind::InvalidData, cause)))
}

/// Checks `text`, calling it `name` in messages.
///
/// # Errors
/// All mistakes found.
pub fn parse(name: &str, text: &str) -> Result<Loaded, Errors> {
    let mut findings = Findings::new(name, text);
    let (tree, syntax) = DeTable::parse_recoverable(text);
    for error in syntax {
        let at = At::key("", "", error.span().unwrap_or_default());
        findings.error(at, Mistake::Syntax(error.message().to_owned()), String::new(), SYNTAX);
    }
    if findings.errors.is_empty() {
        check::check(&tree, &mut findings);
        if tree
            .get_ref()
            .get("link")
            .is_none_or(|link| link.get_ref().as_array().is_some_and(|l| l.is_empty()))
        {
            findings.error(
                At::key("", "", 0..0),
                Mistake::NoLink,
                String::new(),
                format!("start with\n{MINIMAL}"),
            );
        }
    }
    if !findings.errors.is_empty() {
        return Err(Errors(findings.errors));
    }
    match file::File::deserialize(toml::de::Deserializer::from(tree)) {
        Ok(file) => {
            let config = convert::convert(file, &mut findings);
            if findings.errors.is_empty() {
                return Ok(Loaded { config, warnings: findings.warnings });
            }
        }
        Err(error) => {
            let at = At::key("", "", error.span().unwrap_or_default());
            findings.error(at, Mistake::Internal(error.message().to_owned()), String::new(), convert::REPORT);
        }
    }
    Err(Errors(findings.errors))
}

/// The smallest file that does something.
pub const MINIMAL: &str = r#"
    [[link]]
    name = "home"
    a = "net_tap0,iface=lan0"
    b = "net_tap1,iface=wan0"
    up = { bandwidth = "20Mbit" }
    down = { bandwidth = "100Mbit" }
"#;

/// Bytes of a file at most, far more than any set of links takes: what is longer was named by mistake.
pub const LONGEST: u64 = 1 << 20;

const SYNTAX: &str = "strings need quotes, tables [brackets]; https://toml.io has the rules";
