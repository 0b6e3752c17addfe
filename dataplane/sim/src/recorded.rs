//! Recorded vectors: a trace, and what the recorded algorithms made of it. For tests and for the
//! table of the documentation; the replay itself never sees a recorded output.

use crate::replay::hashes::HashSource;
use crate::replay::trace::Trace;
use crate::replay::{Error, Mode, dql, file, replay};
use std::path::{Path, PathBuf};

/// One vector.
#[derive(Debug)]
pub struct Recorded {
    /// Its name, without folder and endings.
    pub name: String,
    /// The input.
    pub trace: String,
    /// The output, line by line.
    pub out: String,
    path: PathBuf,
}

impl Recorded {
    /// Reads the vector whose trace lies at `path` (`NAME.trace.gz`), with `NAME.out.gz` beside it.
    ///
    /// # Errors
    /// One of the two cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let full = path.display().to_string();
        let stem = full.trim_end_matches(".trace.gz");
        let out = file::read(Path::new(&format!("{stem}.out.gz")))?;
        let name = stem.rsplit('/').next().unwrap_or(stem).to_owned();
        Ok(Self { name, trace: file::read(path)?, out, path: path.to_owned() })
    }

    /// All vectors of the repository whose names start with `prefix`, in order.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn all(prefix: &str) -> Result<Vec<Self>, Error> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
        let mut paths = Vec::new();
        for folder in [root.clone(), root.join("extra")] {
            let entries = folder.read_dir().map_err(|error| Error::new(folder.display(), error))?;
            paths.extend(entries.flatten().map(|entry| entry.path()).filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(prefix) && name.ends_with(".trace.gz")
            }));
        }
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// The trace of a queueing discipline, parsed.
    ///
    /// # Errors
    /// It cannot be parsed.
    pub fn parsed(&self) -> Result<Trace, Error> {
        Trace::parse(&self.path.display().to_string(), &self.trace)
    }

    /// What this project makes of the trace, with the recorded hashes.
    ///
    /// # Errors
    /// It cannot be replayed.
    pub fn play(&self, mode: Mode) -> Result<String, Error> {
        let mut printed = Vec::new();
        if dql::is_trace(&self.trace) {
            dql::replay(&self.path.display().to_string(), &self.trace, mode, &mut printed)?;
        } else {
            let hashes = HashSource::parse("recorded", &self.hashes())?;
            replay(&self.parsed()?, mode, &hashes, &mut printed)?;
        }
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    /// Events of the trace: its lines that are neither comment nor configuration.
    pub fn events(&self) -> usize {
        let no_event = |line: &&str| line.starts_with('#') || line.starts_with("cfg ") || line.is_empty();
        self.trace.lines().filter(|line| !no_event(line)).count()
    }

    /// Index of the first line of `printed` that differs from the recorded output.
    pub fn first_difference(&self, printed: &str) -> Option<usize> {
        let (mut recorded, mut printed) = (self.out.lines(), printed.lines());
        for index in 0.. {
            match (recorded.next(), printed.next()) {
                (None, None) => return None,
                (expected, found) if expected == found => {}
                _ => return Some(index),
            }
        }
        None
    }

    /// The vector's row of the table: name, events, lines of output, and whether the replay under
    /// `linux` is identical to the last of them.
    ///
    /// # Errors
    /// It cannot be replayed.
    pub fn row(&self) -> Result<String, Error> {
        let difference = self.first_difference(&self.play(Mode::Linux)?);
        let verdict = difference.map_or("yes".to_owned(), |line| format!("NO, from line {}", line + 1));
        Ok(format!("| `{}` | {} | {} | {verdict} |", self.name, self.events(), self.out.lines().count()))
    }

    /// The `ID FH SH DH` lines of the recorded output.
    fn hashes(&self) -> String {
        let mut lines = String::new();
        for line in self.out.lines().filter(|line| line.starts_with("enq ")) {
            let mut fields = line.split(' ');
            let id = fields.nth(2).unwrap_or_default();
            let mut hash = || fields.find_map(|field| field.split_once("h=")).map_or("", |(_, hash)| hash);
            lines += &format!("{id} {} {} {}\n", hash(), hash(), hash());
        }
        lines
    }
}
