//! A picture as SVG: one text a run of cells that look alike, on a grid.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use std::fmt::Write;

/// The picture of a terminal.
pub fn svg(buffer: &Buffer) -> String {
    let (width, height) = (buffer.area.width, buffer.area.height);
    let (pixels, lines) = (f64::from(width) * CELL + 2.0 * MARGIN, f64::from(height) * LINE + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {pixels:.1} {lines:.1}\" width=\"{pixels:.0}\" \
         height=\"{lines:.0}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"{FONT}\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACK}\"/>\n"
    );
    for (y, row) in buffer.content.chunks(usize::from(width).max(1)).enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|a, b| a.style() == b.style()) {
            let text: String = run.iter().map(|cell| cell.symbol()).collect();
            let style = run.first().map(|cell| cell.style()).unwrap_or_default();
            write_run(&mut svg, (x, y), &text, run.len(), style);
            x += run.len();
        }
    }
    svg + "</svg>\n"
}

fn write_run(svg: &mut String, (column, line): (usize, usize), text: &str, cells: usize, style: Style) {
    let (x, y) = (MARGIN + column as f64 * CELL, MARGIN + line as f64 * LINE);
    let is = |modifier| style.add_modifier.contains(modifier);
    let ink = colour(style.fg);
    let (ink, back) = if is(Modifier::REVERSED) { (BACK, Some(ink)) } else { (ink, None) };
    let width = cells as f64 * CELL;
    if let Some(back) = back {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{LINE}\" fill=\"{back}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let weight = if is(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
    let line = if is(Modifier::UNDERLINED) { " text-decoration=\"underline\"" } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" fill=\"{ink}\" xml:space=\"preserve\"{weight}{line}>{text}</text>",
        y + BASE
    );
}

fn colour(colour: Option<Color>) -> &'static str {
    match colour {
        Some(Color::Red) => "#ff7b72",
        Some(Color::Yellow) => "#e3b341",
        Some(Color::Cyan) => "#79c0ff",
        _ => "#e6edf3",
    }
}

const BACK: &str = "#0d1117";
const FONT: f64 = 13.0;
/// Width and height of a cell in pixels, and from its upper edge to the line that letters stand on.
const CELL: f64 = 7.9;
const LINE: f64 = 17.0;
const BASE: f64 = 13.0;
const MARGIN: f64 = 8.0;
