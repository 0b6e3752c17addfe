//! What can be wrong with a file, and how it is told.
//!
//! Every message names file, line and column, table, key, value, what would be accepted and what to do. A
//! file's mistakes are told together: first all that concern single keys, and when there are none of these,
//! all that concern how values fit together.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use thiserror::Error;

use crate::schema::Table;

/// Why a file could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It could not be read.
    #[error("{path}: cannot be read: {cause}\n  help: {remedy}", path = path.display(), remedy = read_remedy(cause))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// It was read and is wrong.
    #[error(transparent)]
    Invalid(#[from] Errors),
}

/// All mistakes found in a file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Finding<Mistake>>);

/// Where something was found, what it is, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<W> {
    /// File, line and column.
    pub position: Position,
    /// The table: `link[0] "home".down`; empty at top level.
    pub table: String,
    /// The key; empty where the finding concerns no single one.
    pub key: String,
    /// The value as it is in the file, shortened.
    pub value: String,
    /// What it is.
    pub what: W,
    /// What would be accepted; empty where that goes without saying.
    pub accepted: String,
    /// What to do.
    pub remedy: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mistake {
    /// Not TOML.
    #[error("this is not TOML: {0}")]
    Syntax(String),
    /// A key that the table does not have.
    #[error("unknown key")]
    UnknownKey,
    /// A key that must be given and is not.
    #[error("missing")]
    Missing,
    /// A value of another TOML type.
    #[error("is {found}")]
    WrongType {
        /// What it is.
        found: &'static str,
    },
    /// A text that cannot be read as what it should be.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A value beyond its range.
    #[error("is out of range")]
    OutOfRange,
    /// None of the words that can be given.
    #[error("is not known")]
    UnknownWord,
    /// A key of another discipline.
    #[error("is not an option of {0}")]
    NotOfQdisc(String),
    /// A key of which the line of tc speaks.
    #[error("is what tc says already")]
    BesideTc,
    /// NAT.
    #[error("needs connection tracking, which weir has not")]
    Nat,
    /// A rule without effect.
    #[error("says nothing of the packets it applies to")]
    RuleSaysNothing,
    /// More rules than there is room for.
    #[error("there are {0} rules")]
    TooManyRules(usize),
    /// No link at all.
    #[error("there is no link, so there is nothing to do")]
    NoLink,
    /// Two links of one name.
    #[error("the name is already taken in line {0}")]
    NameTaken(usize),
    /// One device twice.
    #[error("the port is already used in line {0}")]
    PortTaken(usize),
    /// Two devices that need the same thing.
    #[error("{0} is already used in line {1}")]
    ResourceTaken(String, usize),
    /// Both directions off.
    #[error("up and down are both \"off\", so nothing is forwarded")]
    NothingForwarded,
    /// A port that the kernel cannot have.
    #[error("port {key} ({device}) is nothing that the kernel could bridge")]
    NotTheKernels {
        /// `a` or `b`.
        key: &'static str,
        /// The port.
        device: String,
    },
    /// A value that must be below another's.
    #[error("is not below {0}")]
    NotBelow(String),
    /// A value that must be above another's.
    #[error("is not above {0}")]
    NotAbove(String),
    /// A key that is of no use without this one.
    #[error("is nothing without {0}")]
    Without(&'static str),
    /// An address that others can reach, without what keeps strangers out.
    #[error("can be reached from other machines, and lacks {0}")]
    Exposed(String),
    /// One CPU named twice.
    #[error("CPU {0} is named twice")]
    CpuTwice(i64),
    /// An EAL argument that weir sets itself.
    #[error("{0} cannot be passed on")]
    EalReserved(String),
    /// Two EAL arguments that exclude each other.
    #[error("{0} and {1} exclude each other")]
    EalConflict(String, String),
    /// An EAL argument that is several words.
    #[error("is several arguments in one string")]
    EalSeveral,
    /// An EAL option without its value, or a value without its option.
    #[error("{0}")]
    EalIncomplete(String),
    /// The reader of the file and its schema disagree: a fault of weir.
    #[error("cannot be taken: {0}")]
    Internal(String),
}

/// What is allowed but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Concern {
    /// The two ports' MTU differ.
    #[error("the ports' MTU differ: a has {a}, b has {b}")]
    MtuMismatch {
        /// Bytes.
        a: u16,
        /// Bytes.
        b: u16,
    },
    /// `Mbps`.
    #[error("is {0}: as in tc, \"bps\" is bytes per second")]
    BytesPerSecond(String),
    /// Overhead where nothing is shaped.
    #[error("has no effect without a bandwidth")]
    WithoutBandwidth,
    /// A selector for nothing.
    #[error("has no effect without ce_threshold")]
    WithoutThreshold,
    /// A budget that nothing keeps to.
    #[error("has no effect unless split-gso = \"auto\"")]
    WithoutAuto,
    /// A bound of a governor that is off.
    #[error("has no effect with complete-on = \"submit\"")]
    WithoutGovernor,
    /// A setting of a server that does not listen.
    #[error("has no effect without listen")]
    WithoutListen,
    /// A mark that chooses nothing.
    #[error("mark = {0:#x} chooses no tin, as fwmark is {1:#x}")]
    MarkIgnored(u32, u32),
    /// A choice among one.
    #[error("chooses nothing, as diffserv = \"besteffort\" has one tin only")]
    OneTin,
    /// One frame alone takes longer than the target.
    #[error("a full frame alone takes {0}")]
    TargetBelowFrame(String),
    /// A driver never tried.
    #[error("weir does not know this driver")]
    UnknownDriver,
    /// EAL may refuse it.
    #[error("DPDK 22.11 has no option {0}")]
    EalUnknown(String),
    /// The main lcore's CPU is a worker's too.
    #[error("CPU {0} is both the main lcore's and a worker's")]
    SharedCpu(i64),
}

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl<W: fmt::Display> fmt::Display for Finding<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.position.file, self.position.line, self.position.column)?;
        if !self.table.is_empty() {
            write!(f, "{}: ", self.table)?;
        }
        match (self.key.is_empty(), self.value.is_empty()) {
            (true, _) => {}
            (false, true) => write!(f, "{}: ", self.key)?,
            (false, false) => write!(f, "{} = {}: ", self.key, self.value)?,
        }
        write!(f, "{}", self.what)?;
        if !self.accepted.is_empty() {
            write!(f, "\n  accepted: {}", self.accepted)?;
        }
        if !self.remedy.is_empty() {
            write!(f, "\n  help: {}", self.remedy)?;
        }
        Ok(())
    }
}

/// The text of a file and what was found in it so far.
#[derive(Debug)]
pub(crate) struct Findings<'t> {
    file: String,
    text: &'t str,
    pub(crate) errors: Vec<Finding<Mistake>>,
    pub(crate) warnings: Vec<Finding<Concern>>,
    /// The line of tc that what follows is about: places in it are not known, so that it stands for them.
    pub(crate) tc: Option<Range<usize>>,
}

/// Where in the file a finding lies.
pub(crate) struct At<'p> {
    pub(crate) table: &'p str,
    pub(crate) key: &'p str,
    pub(crate) span: Range<usize>,
    /// The span is that of the value, which is shown.
    pub(crate) show: bool,
}

impl<'p> At<'p> {
    pub(crate) fn value(table: &'p str, key: &'p str, span: Range<usize>) -> Self {
        Self { table, key, span, show: true }
    }

    pub(crate) fn key(table: &'p str, key: &'p str, span: Range<usize>) -> Self {
        Self { table, key, span, show: false }
    }
}

impl<'t> Findings<'t> {
    pub(crate) fn new(file: &str, text: &'t str) -> Self {
        Self { file: file.to_owned(), text, errors: Vec::new(), warnings: Vec::new(), tc: None }
    }

    pub(crate) fn error(&mut self, at: At<'_>, what: Mistake, accepted: String, remedy: impl Into<String>) {
        let finding = self.finding(at, what, accepted, remedy.into());
        self.errors.push(finding);
    }

    pub(crate) fn warn(&mut self, at: At<'_>, what: Concern, remedy: impl Into<String>) {
        let finding = self.finding(at, what, String::new(), remedy.into());
        self.warnings.push(finding);
    }

    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        self.position(span).line
    }

    /// What the file says there, on one line and shortened.
    pub(crate) fn excerpt(&self, span: &Range<usize>) -> String {
        let span = self.tc.as_ref().unwrap_or(span);
        let text = self.text.get(span.clone()).unwrap_or_default();
        let mut words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        words.retain(|c| !c.is_control());
        match words.char_indices().nth(EXCERPT_MAX) {
            Some((end, _)) => format!("{}...", words.get(..end).unwrap_or_default()),
            None => words,
        }
    }

    fn finding<W>(&self, at: At<'_>, what: W, accepted: String, remedy: String) -> Finding<W> {
        let value = if at.show && self.tc.is_none() { self.excerpt(&at.span) } else { String::new() };
        let position = self.position(self.tc.as_ref().unwrap_or(&at.span));
        let table = if self.tc.is_some() { format!("{}.tc", at.table) } else { at.table.to_owned() };
        Finding { position, table, key: at.key.to_owned(), value, what, accepted, remedy }
    }

    fn position(&self, span: &Range<usize>) -> Position {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Position { file: self.file.clone(), line: before.matches('\n').count() + 1, column }
    }
}

/// The one of `names` that `word` was probably meant to be.
pub(crate) fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    let wanted = plain(word);
    if wanted.len() < 3 {
        return None;
    }
    let scored = names.map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + wanted.len() / 6).then_some(name)
}

/// What to do about `word`, which `table` does not have.
pub(crate) fn unknown_key_remedy(word: &str, table: &Table) -> String {
    if let Some((_, hint)) = table.hints.iter().find(|(wrong, _)| wrong.eq_ignore_ascii_case(word)) {
        return (*hint).to_owned();
    }
    match nearest(word, table.keys.iter().map(|key| key.name)) {
        Some(near) => format!("did you mean {near}?"),
        None => "remove it".to_owned(),
    }
}

fn read_remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "check the name, or start from an example in configs/",
        std::io::ErrorKind::PermissionDenied => "make it readable for the user that runs weir",
        std::io::ErrorKind::InvalidData => "save it as UTF-8 text",
        _ => "check that it is a readable file",
    }
}

/// Longest value shown, in characters.
const EXCERPT_MAX: usize = 60;
