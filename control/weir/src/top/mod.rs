//! `weir top`: what a running instance does, once a second, in a terminal.
//!
//! Reading order: [`picture`] (what two readings of an instance say), [`state`] (what the keys do),
//! [`view`] (how it looks), then `fetch`, which reads the instance in a thread of its own, and `terminal`.
//! State and view know neither the terminal nor the instance nor the time.

mod fetch;
mod picture;
mod state;
mod svg;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod units;
mod view;

use crate::say::say;
use anyhow::{Context, Result, bail};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use state::{Action, State};
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use terminal::{Screen, Stopped};

/// What is to be shown, and how.
#[derive(Debug)]
pub struct Request {
    /// Name of the instance; may be left out while only one runs.
    pub name: Option<String>,
    /// Time between two readings.
    pub interval: Duration,
    /// Print one picture and end.
    pub once: bool,
    /// The size of that picture in columns and rows, if not that of the terminal.
    pub size: Option<(u16, u16)>,
    /// Write that picture to this file as SVG.
    pub svg: Option<PathBuf>,
}

/// Shows an instance until asked to end.
///
/// # Errors
/// No instance answers, or standard output is no terminal.
pub fn top(request: Request) -> Result<ExitCode> {
    if request.once {
        return once(&request);
    }
    if !stdout().is_terminal() {
        bail!("standard output is not a terminal; `weir top --once` prints one picture as text");
    }
    let mut state = State::new(request.interval, terminal::has_colour());
    // Whoever asks for one that does not run is told so, and not shown an empty screen.
    let first = fetch::read(request.name.as_deref())?;
    let name = first.report.name.clone();
    state.take(Ok(first));
    let stopped = Stopped::watch()?;
    let readings = fetch::start(name, request.interval)?;
    let mut screen = Screen::enter()?;
    while !stopped.is_asked() {
        for reading in readings.try_iter() {
            state.take(reading);
        }
        screen.draw(|frame| view::view(&state, frame))?;
        let action = screen.key(LOOK)?.map_or(Action::Stay, |key| state.key(key));
        match action {
            Action::Stay => {}
            Action::Quit => break,
            Action::Suspend => screen.suspend()?,
        }
    }
    drop(screen);
    Ok(stopped.pass_on())
}

/// One picture, of the time between two readings.
fn once(request: &Request) -> Result<ExitCode> {
    let mut state = State::new(request.interval, request.svg.is_some() && terminal::has_colour());
    state.is_still = true;
    state.take(Ok(fetch::read(request.name.as_deref())?));
    fetch::pause(request.interval);
    state.take(Ok(fetch::read(request.name.as_deref())?));
    let (columns, rows) = request.size.or_else(terminal::size).unwrap_or(USUAL);
    let buffer = draw(&state, columns, rows)?;
    match &request.svg {
        Some(path) => {
            std::fs::write(path, svg::svg(&buffer))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => say(&text(&buffer))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The picture, cell by cell.
fn draw(state: &State, columns: u16, rows: u16) -> Result<Buffer> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows))?;
    terminal.draw(|frame| view::view(state, frame))?;
    Ok(terminal.backend().buffer().clone())
}

/// Its characters, without the blanks at the end of each line.
fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width).max(1)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// How long to wait for a key before looking for news.
const LOOK: Duration = Duration::from_millis(50);

/// The size of a terminal that does not tell.
const USUAL: (u16, u16) = (80, 24);
