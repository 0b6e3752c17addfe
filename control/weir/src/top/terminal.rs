//! The terminal: taken over, and given back whatever happens.
//!
//! It is given back at the end, at a panic (by a hook, as a release aborts without unwinding), and on SIGTERM,
//! SIGHUP and SIGINT, which a thread of their own waits for.

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal, raise};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::prelude::CrosstermBackend;
use ratatui::{Frame, Terminal};
use std::io::{IsTerminal, Stdout, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The terminal while it is ours.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Signals that end it.
#[derive(Debug)]
pub struct Stopped {
    /// 0 until one comes.
    signal: Arc<AtomicI32>,
    signals: SigSet,
}

/// Whether colours are wanted (<https://no-color.org>).
pub fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns and rows of the terminal, if standard output is one.
pub fn size() -> Option<(u16, u16)> {
    if !stdout().is_terminal() {
        return None;
    }
    ratatui::crossterm::terminal::size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// The terminal's.
    pub fn enter() -> Result<Self> {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            told(panic);
        }));
        take_over().context("cannot use the terminal")?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).context("cannot use the terminal")?;
        Ok(Self { terminal })
    }

    /// Draws a picture; only what has changed is sent.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        self.terminal.draw(draw).context("cannot draw on the terminal")?;
        Ok(())
    }

    /// The next key, if one is pressed within `span`.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&mut self, span: Duration) -> Result<Option<KeyEvent>> {
        if !event::poll(span).context("cannot read from the terminal")? {
            return Ok(None);
        }
        Ok(match event::read().context("cannot read from the terminal")? {
            Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
            _ => None,
        })
    }

    /// Stops this process as the shell's Ctrl-Z does, and draws anew once it goes on.
    ///
    /// # Errors
    /// The terminal's.
    pub fn suspend(&mut self) -> Result<()> {
        give_back();
        raise(Signal::SIGTSTP).context("cannot stop")?;
        take_over().context("cannot use the terminal")?;
        self.terminal.clear().context("cannot draw on the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

impl Stopped {
    /// Takes SIGTERM, SIGHUP and SIGINT from here on, for all threads that are started later too.
    ///
    /// # Errors
    /// The system's.
    pub fn watch() -> Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block().context("cannot block SIGINT, SIGTERM and SIGHUP")?;
        let signal = Arc::new(AtomicI32::new(0));
        let came = signal.clone();
        let wait = move || {
            if let Ok(signal) = signals.wait() {
                came.store(signal as i32, Ordering::Release);
            }
        };
        std::thread::Builder::new()
            .name("weir-signals".to_owned())
            .spawn(wait)
            .context("cannot start the thread that takes SIGINT, SIGTERM and SIGHUP")?;
        Ok(Self { signal, signals })
    }

    /// Whether one has come.
    pub fn is_asked(&self) -> bool {
        self.signal.load(Ordering::Acquire) != 0
    }

    /// Ends this process by the signal that has come, if one has, so that its parent sees it. Whoever was told to
    /// ignore that signal, as by nohup, ends as a shell would tell of it.
    pub fn pass_on(&self) -> ExitCode {
        let Ok(signal) = Signal::try_from(self.signal.load(Ordering::Acquire)) else {
            return ExitCode::SUCCESS;
        };
        let _ = self.signals.thread_unblock().and_then(|()| raise(signal));
        ExitCode::from(128 + signal as u8)
    }
}

fn take_over() -> std::io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| give_back())
}

/// Nobody can be told when that fails.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
