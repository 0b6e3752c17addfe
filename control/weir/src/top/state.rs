//! What is shown, and what the keys do to it.

use crate::top::fetch::Reading;
use crate::top::picture::{Picture, TalkerRow};
use anyhow::Result;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Reverse;
use std::time::Duration;

/// Everything that [`super::view`] draws.
#[derive(Debug)]
pub struct State {
    /// The last picture.
    pub picture: Option<Picture>,
    /// Why there is no newer one.
    pub trouble: Option<String>,
    /// Whether this is one picture for paper: no key does anything.
    pub is_still: bool,
    /// Whether the picture stays as it is.
    pub is_paused: bool,
    /// Whether the keys are explained.
    pub is_helping: bool,
    /// Which pane the arrows move in.
    pub focus: Pane,
    /// Which talkers are shown.
    pub kind: Kind,
    /// Their order.
    pub sort: Sort,
    /// Only talkers whose line contains this.
    pub filter: String,
    /// Whether it is being typed.
    pub is_typing: bool,
    /// Whether the terminal shows colours.
    pub has_colour: bool,
    /// Time between two readings.
    pub interval: Duration,
    selected: [usize; 4],
    last: Option<Reading>,
}

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// Directions and tins.
    Queues,
    /// Transmit queues and their governors.
    Rings,
    /// Workers.
    Lcores,
    /// Flows or hosts.
    Talkers,
}

/// Which talkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Flows.
    Flows,
    /// Hosts, by what they sent.
    Senders,
    /// Hosts, by what they received.
    Receivers,
}

/// What talkers are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The largest rate first.
    Rate,
    /// The longest wait first, of the means.
    Mean,
    /// The longest wait first.
    Longest,
    /// Names.
    Name,
}

/// What is to be done about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing more.
    Stay,
    /// End.
    Quit,
    /// Stop as by Ctrl-Z.
    Suspend,
}

impl State {
    /// Nothing known yet.
    pub fn new(interval: Duration, has_colour: bool) -> Self {
        Self {
            picture: None,
            trouble: None,
            is_still: false,
            is_paused: false,
            is_helping: false,
            focus: Pane::Queues,
            kind: Kind::Flows,
            sort: Sort::Rate,
            filter: String::new(),
            is_typing: false,
            has_colour,
            interval,
            selected: [0; 4],
            last: None,
        }
    }

    /// Takes in a reading, or why there is none: then the last picture stays.
    pub fn take(&mut self, reading: Result<Reading>) {
        match reading {
            Ok(reading) => {
                self.trouble = None;
                if !self.is_paused {
                    self.picture = Some(Picture::between(self.last.as_ref(), &reading));
                }
                self.last = Some(reading);
            }
            Err(error) => {
                let text = format!("{error:#}");
                self.trouble = Some(text.split([';', '\n']).next().unwrap_or_default().to_owned());
            }
        }
        self.keep_inside();
    }

    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Quit,
                KeyCode::Char('z') => Action::Suspend,
                _ => Action::Stay,
            };
        }
        if self.is_typing {
            self.type_filter(key.code);
        } else if self.is_helping {
            self.is_helping = false;
        } else {
            return self.command(key.code);
        }
        Action::Stay
    }

    /// Talkers as they are to be shown.
    pub fn talkers(&self) -> Vec<&TalkerRow> {
        let Some(picture) = &self.picture else { return Vec::new() };
        let filter = self.filter.to_lowercase();
        let fits = |row: &&TalkerRow| {
            filter.is_empty()
                || format!("{} {}", row.direction, row.label(usize::MAX)).to_lowercase().contains(&filter)
        };
        let mut rows: Vec<_> = picture.talkers[self.kind as usize].iter().filter(fits).collect();
        match self.sort {
            Sort::Rate => rows.sort_by_key(|row| Reverse(row.load.rate)),
            Sort::Mean => rows.sort_by_key(|row| Reverse(row.load.delay_mean_us)),
            Sort::Longest => rows.sort_by_key(|row| Reverse(row.load.delay_max_us)),
            Sort::Name => rows.sort_by_cached_key(|row| row.label(usize::MAX)),
        }
        rows
    }

    /// The row of a pane that the arrows have come to.
    pub fn selected(&self, pane: Pane) -> usize {
        self.selected[pane as usize]
    }

    /// Rows of a pane.
    pub fn rows(&self, pane: Pane) -> usize {
        let Some(picture) = &self.picture else { return 0 };
        match pane {
            Pane::Queues => picture.queues.len(),
            Pane::Rings => picture.rings.len(),
            Pane::Lcores => picture.lcores.len(),
            Pane::Talkers => self.talkers().len(),
        }
    }

    fn command(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc if self.filter.is_empty() => return Action::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?') | KeyCode::F(1) => self.is_helping = true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('h') => self.kind = self.kind.next(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Tab | KeyCode::Right => self.focus = self.focus.next(),
            KeyCode::BackTab | KeyCode::Left => self.focus = self.focus.next().next().next(),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-PAGE),
            KeyCode::PageDown => self.step(PAGE),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            _ => {}
        }
        self.keep_inside();
        Action::Stay
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(c) if self.filter.len() < LONGEST_FILTER => self.filter.push(c),
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        self.keep_inside();
    }

    fn step(&mut self, by: isize) {
        let row = &mut self.selected[self.focus as usize];
        *row = row.saturating_add_signed(by);
    }

    /// Rows come and go under the one that was chosen.
    fn keep_inside(&mut self) {
        for pane in Pane::ALL {
            let last = self.rows(pane).saturating_sub(1);
            let row = &mut self.selected[pane as usize];
            *row = (*row).min(last);
        }
    }
}

impl Pane {
    /// All, from top to bottom.
    pub const ALL: [Self; 4] = [Self::Queues, Self::Rings, Self::Lcores, Self::Talkers];

    fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }
}

impl Kind {
    fn next(self) -> Self {
        match self {
            Self::Flows => Self::Senders,
            Self::Senders => Self::Receivers,
            Self::Receivers => Self::Flows,
        }
    }
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Rate => Self::Mean,
            Self::Mean => Self::Longest,
            Self::Longest => Self::Name,
            Self::Name => Self::Rate,
        }
    }

    /// As the line at the bottom names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Mean => "mean delay",
            Self::Longest => "longest delay",
            Self::Name => "name",
        }
    }
}

/// Rows that a page is.
const PAGE: isize = 10;

/// Longer than any line to be found.
const LONGEST_FILTER: usize = 60;
