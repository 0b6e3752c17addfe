//! `weir hist`: how long packets took, as every percentile.

use crate::api::client::Client;
use crate::say::say_more;
use crate::telemetry::delays::{ALL_TINS, Delays, Filter};
use crate::telemetry::{formats, plot};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What is asked.
#[derive(Debug, Default)]
pub struct Request {
    /// Name of the instance.
    pub name: Option<String>,
    /// Which histograms.
    pub filter: Filter,
    /// How they are written.
    pub format: Format,
    /// Of the last complete window, not since the start.
    pub recent: bool,
    /// What was added in each span of this length.
    pub interval: Option<Duration>,
    /// So many spans; without, until interrupted.
    pub count: Option<u32>,
    /// Where their curves are drawn.
    pub plot: Option<PathBuf>,
    /// Where they are written, instead of standard output.
    pub out: Option<PathBuf>,
}

/// How histograms are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// The document of GET /v1/histograms; with --interval one line for each.
    Json,
    /// A row for each bucket.
    Csv,
    /// HdrHistogram's percentile text, in microseconds; one histogram.
    Hgrm,
    /// HdrHistogram's interval log, in nanoseconds; a tag for each histogram.
    Log,
}

/// Writes the histograms of an instance.
///
/// # Errors
/// No instance answers, it has no such histogram, or a file cannot be written.
pub fn hist(request: &Request) -> Result<ExitCode> {
    let client = Client::find(request.name.as_deref())?;
    let path = if request.recent { "/v1/histograms?window=interval" } else { "/v1/histograms" };
    let fetch = || chosen(client.get(path)?, &request.filter);
    let first = fetch()?;
    let mut writer = Writer::new(request)?;
    let shown = match request.interval {
        None => {
            writer.write(&first)?;
            first
        }
        Some(interval) => {
            // A file that cannot be written shows now, not after the first interval.
            writer.file()?;
            follow(&first, interval, request.count, fetch, |delays| writer.write(delays))?
        }
    };
    if let Some(file) = &request.plot {
        write_file(file, &plot::svg(&shown))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Those of `delays` that `filter` wants, if there are any.
fn chosen(delays: Delays, filter: &Filter) -> Result<Delays> {
    let there: Vec<_> = delays
        .histograms
        .iter()
        .map(|delay| {
            let tin = delay.tin.as_deref().unwrap_or(ALL_TINS);
            format!(
                "--link {} --direction {} --tin {tin:?} --kind {}",
                delay.link, delay.direction, delay.kind
            )
        })
        .collect();
    let chosen = delays.filtered(filter);
    if chosen.histograms.is_empty() && !there.is_empty() {
        bail!("there is no such histogram; there are\n  {}", there.join("\n  "));
    }
    Ok(chosen)
}

/// Has written what is added in each interval, until `write` says that nobody reads on; returns what was added
/// in all of them. The intervals end when they should, however long it takes to ask.
fn follow(
    first: &Delays,
    interval: Duration,
    count: Option<u32>,
    fetch: impl Fn() -> Result<Delays>,
    mut write: impl FnMut(&Delays) -> Result<bool>,
) -> Result<Delays> {
    let (mut before, begun) = (first.clone(), now());
    let mut taken = 0;
    while count.is_none_or(|count| taken < count) {
        taken += 1;
        pause((begun + interval * taken).saturating_duration_since(now()));
        let after = fetch()?;
        let read = write(&after.since(&before))?;
        before = after;
        if !read {
            break;
        }
    }
    Ok(before.since(first))
}

/// Where the text goes.
struct Writer<'a> {
    request: &'a Request,
    file: Option<File>,
    /// When the first interval began, if something was written.
    start: Option<f64>,
}

impl<'a> Writer<'a> {
    fn new(request: &'a Request) -> Result<Self> {
        if request.interval.is_some() && request.format == Format::Hgrm {
            bail!("an hgrm has no intervals: use --format log, and HdrHistogram's tools on it");
        }
        Ok(Self { request, file: None, start: None })
    }

    /// The file, if one was asked for. It is opened, and so emptied, only when there is something to write.
    fn file(&mut self) -> Result<Option<&mut File>> {
        if let (None, Some(path)) = (&self.file, &self.request.out) {
            self.file = Some(File::create(path).with_context(|| cannot(path))?);
        }
        Ok(self.file.as_mut())
    }

    /// Whether somebody still reads.
    fn write(&mut self, delays: &Delays) -> Result<bool> {
        let (first, follows) = (self.start.is_none(), self.request.interval.is_some());
        let start = *self.start.get_or_insert(delays.start);
        let text = match self.request.format {
            Format::Table => formats::table(delays) + if follows { "\n" } else { "" },
            Format::Json if follows => serde_json::to_string(delays)? + "\n",
            Format::Json => serde_json::to_string_pretty(delays)? + "\n",
            Format::Csv => formats::csv(delays, first),
            Format::Hgrm => match &self.request.out {
                Some(folder) if is_folder(folder) => {
                    return write_each(folder, delays).map(|()| true);
                }
                Some(_) | None => formats::hgrm(delays)?,
            },
            Format::Log => {
                let head = if first { formats::log_head(start) } else { String::new() };
                head + &formats::log_lines(delays, start)?
            }
        };
        match self.file()? {
            Some(file) => {
                file.write_all(text.as_bytes()).context("cannot write to the file of --out")?;
                Ok(true)
            }
            None => say_more(&text),
        }
    }
}

/// Only an hgrm has room for one histogram, so that several need a folder.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn write_each(folder: &Path, delays: &Delays) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for delay in delays.histograms.iter().filter(|delay| delay.count > 0) {
        let name = delay.tag().replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "_");
        write_file(&folder.join(name + ".hgrm"), &formats::hgrm_of(delay)?)?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| cannot(path))
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

#[allow(clippy::disallowed_methods, reason = "a command for people, who asked for an interval")]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "a command for people, who asked for an interval")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::delays::Kind;
    use crate::telemetry::delays::tests::{document, recorded};
    use std::cell::Cell;

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let filter = Filter { tin: Some("Video".into()), ..Filter::default() };
        let error = chosen(document(), &filter).unwrap_err().to_string();
        assert!(error.contains("--link home --direction down --tin \"Voice\" --kind sojourn"), "{error}");
        assert_eq!(chosen(document(), &Filter::default()).unwrap(), document());
        assert!(chosen(Delays::default(), &filter).unwrap().histograms.is_empty(), "nothing is there yet");
    }

    #[test]
    fn intervals_are_what_was_added_and_sum_up() {
        let at = Cell::new(0);
        let fetch = || {
            at.set(at.get() + 1);
            let packets = (0..at.get() * 10).map(|packet| 1_000_000 * packet);
            let histograms = vec![recorded(Kind::Total, packets)];
            Ok(Delays { at: at.get() as f64, histograms, ..Delays::default() })
        };
        let first = fetch().unwrap();
        let mut written = Vec::new();
        let all = follow(&first, Duration::ZERO, Some(3), fetch, |delays| {
            written.push((delays.start, delays.window_s, delays.histograms[0].count));
            Ok(true)
        });
        assert_eq!(written, [(1.0, 1.0, 10), (2.0, 1.0, 10), (3.0, 1.0, 10)]);
        let all = all.unwrap();
        assert_eq!((all.histograms[0].count, all.window_s), (30, 3.0));

        let mut asked = 0;
        let gone = follow(&first, Duration::ZERO, None, fetch, |_| {
            asked += 1;
            Ok(asked < 2)
        });
        assert_eq!((asked, gone.unwrap().window_s), (2, 5.0), "they end with their reader");
    }

    #[test]
    fn an_hgrm_of_several_needs_a_folder_and_gets_a_file_for_each() {
        let folder = std::env::temp_dir().join(format!("weir-hist-{}/new/", std::process::id()));
        let request = Request { format: Format::Hgrm, out: Some(folder.clone()), ..Request::default() };
        Writer::new(&request).unwrap().write(&document()).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "home.down.Best-Effort.sojourn.hgrm",
                "home.down.Voice.sojourn.hgrm",
                "home.down.all.sojourn.hgrm",
                "home.down.all.total.hgrm"
            ]
        );
        let file = folder.join("kept");
        std::fs::write(&file, "what was there").unwrap();
        let request = Request { out: Some(file.clone()), ..request };
        let several = Writer::new(&request).unwrap().write(&document()).unwrap_err().to_string();
        assert!(several.contains("5 are asked for"), "{several}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "what was there");
        std::fs::remove_dir_all(folder.parent().unwrap()).unwrap();
        let request =
            Request { format: Format::Hgrm, interval: Some(Duration::from_secs(1)), ..Request::default() };
        assert!(Writer::new(&request).err().unwrap().to_string().contains("--format log"));
    }
}
