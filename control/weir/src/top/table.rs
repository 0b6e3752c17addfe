//! A pane: a line of titles, and rows of which as many are shown as there is room for.

use crate::top::picture::shorten;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// A table to be drawn. The first column takes the room that the others leave.
#[derive(Debug)]
pub struct Table<'a> {
    /// Its name, above the first column.
    pub title: String,
    /// The other columns.
    pub columns: &'a [Column],
    /// For each row its first cell, given the width, and the others.
    pub rows: Vec<Row<'a>>,
    /// The row to be kept in view.
    pub selected: usize,
    /// Whether that row is marked.
    pub has_focus: bool,
    /// Characters that the first column needs.
    pub needs: usize,
    /// Characters that it is given at most.
    pub most: usize,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Above it.
    pub title: &'static str,
    /// In characters.
    pub width: usize,
    /// Columns of the highest number go first where there is no room; those of 0 stay.
    pub leaves: u8,
}

/// A row.
pub struct Row<'a> {
    /// The first cell, in at most as many characters as it is told.
    pub name: Box<dyn Fn(usize) -> String + 'a>,
    /// The others, each aligned to the right.
    pub cells: Vec<String>,
    /// How it looks.
    pub style: Style,
}

impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("cells", &self.cells).finish_non_exhaustive()
    }
}

impl Table<'_> {
    /// Draws it.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer, title: Style, chosen: Style) {
        let Some(room) = usize::from(area.height).checked_sub(1) else { return };
        let width = usize::from(area.width);
        let shown = self.fitting(width);
        let used: usize = shown.iter().map(|index| self.columns[*index].width + 1).sum();
        let first = width.saturating_sub(used).min(self.most);
        let from = self.first_row(room);
        let line = |name: &str, cells: &[&str]| {
            let mut line = format!("{:<first$}", shorten(name, first));
            for index in &shown {
                let width = self.columns[*index].width;
                line += &format!(" {:>width$}", shorten(cells.get(*index).unwrap_or(&""), width));
            }
            line
        };
        let titles: Vec<_> = self.columns.iter().map(|column| column.title).collect();
        buffer.set_stringn(area.x, area.y, line(&self.heading(from, room), &titles), width, title);
        for (index, row) in self.rows.iter().enumerate().skip(from).take(room) {
            let cells: Vec<_> = row.cells.iter().map(String::as_str).collect();
            let text = line(&(row.name)(first), &cells);
            let is_chosen = self.has_focus && index == self.selected;
            let style = if is_chosen { row.style.patch(chosen) } else { row.style };
            let y = area.y + 1 + (index - from) as u16;
            buffer.set_stringn(area.x, y, text, width, style);
        }
    }

    /// The title, with what part of the rows is seen if not all.
    fn heading(&self, from: usize, room: usize) -> String {
        if self.rows.len() <= room {
            return self.title.clone();
        }
        format!("{} {}-{}/{}", self.title, from + 1, (from + room).min(self.rows.len()), self.rows.len())
    }

    fn first_row(&self, room: usize) -> usize {
        let last = self.rows.len().saturating_sub(room);
        self.selected.saturating_sub(room.saturating_sub(1)).min(last)
    }

    /// The columns that there is room for.
    fn fitting(&self, width: usize) -> Vec<usize> {
        let mut shown: Vec<_> = (0..self.columns.len()).collect();
        loop {
            let used: usize = shown.iter().map(|index| self.columns[*index].width + 1).sum();
            let least = shown.iter().copied().max_by_key(|index| self.columns[*index].leaves);
            match least.filter(|index| self.columns[*index].leaves > 0) {
                Some(least) if used + self.needs > width => shown.retain(|index| *index != least),
                _ => return shown,
            }
        }
    }
}
