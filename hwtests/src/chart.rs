//! Small line charts in SVG that follow the reader's light or dark scheme.
//!
//! [`svg`] is made for a page that holds [`STYLE`] once; [`file`] is the same with it, to stand alone.

use std::fmt::Write;

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// Which of [`COLOURS`].
    pub colour: usize,
    /// In the legend; lines of one label share an entry.
    pub label: String,
    /// Ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// What stands around the lines.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Above.
    pub title: String,
    /// Under the abscissa.
    pub x: String,
    /// Beside the ordinate.
    pub y: String,
    /// Logarithmic abscissa.
    pub log_x: bool,
    /// Logarithmic ordinate.
    pub log_y: bool,
}

/// An axis: what it spans and where its ticks are.
#[derive(Clone, Debug, PartialEq)]
struct Axis {
    from: f64,
    to: f64,
    log: bool,
    ticks: Vec<f64>,
}

/// The chart as an element of a page.
pub fn svg(frame: &Frame, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points).filter(|(x, y)| x.is_finite() && y.is_finite());
    let x = Axis::new(all().map(|point| point.0), frame.log_x, false);
    let y = Axis::new(all().map(|point| point.1), frame.log_y, true);
    let mut svg = format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{0}\">\n<text class=\"title\" x=\"{LEFT}\" y=\"16\">{0}</text>\n",
        escape(&frame.title)
    );
    grid(&mut svg, frame, &x, &y);
    for line in lines {
        let points: Vec<_> = thin(&line.points)
            .iter()
            .filter(|(at, value)| (!x.log || *at > 0.0) && (!y.log || *value > 0.0) && value.is_finite())
            .map(|(at, value)| format!("{:.1},{:.1}", x_of(&x, *at), y_of(&y, *value)))
            .collect();
        let class = line.colour % COLOURS.len();
        let _ = writeln!(svg, "<polyline class=\"s{class}\" points=\"{}\"/>", points.join(" "));
    }
    legend(&mut svg, lines);
    svg + "</svg>\n"
}

/// The chart as a file of its own.
pub fn file(frame: &Frame, lines: &[Line]) -> String {
    let svg = svg(frame, lines);
    let paper = format!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>");
    svg.replacen(">\n", &format!(">\n<style>{}</style>\n{paper}\n", style()), 1)
}

/// The style sheet of all charts.
pub fn style() -> String {
    format!("{}@media(prefers-color-scheme:dark){{{}}}{SHAPES}", colours(&LIGHT, 0), colours(&DARK, 1))
}

/// Plain colours, as not every viewer of a file knows variables; the page has them as variables too.
fn colours(paper: &Paper, scheme: usize) -> String {
    let Paper { ink, grey, line, paper } = paper;
    let series: String = COLOURS
        .iter()
        .enumerate()
        .map(|(at, pair)| {
            let colour = pair[scheme];
            format!(".chart .s{at}{{stroke:{colour}}}.chart .f{at}{{fill:{colour}}}")
        })
        .collect();
    format!(
        ":root{{--ink:{ink};--grey:{grey};--line:{line};--paper:{paper};--good:{};--bad:{}}}\
         .chart text{{fill:{grey}}}.chart .title{{fill:{ink}}}.chart path{{stroke:{line}}}.chart .paper{{fill:{paper}}}{series}",
        COLOURS[2][scheme], COLOURS[0][scheme]
    )
}

/// Points of the distribution function of `values`, for a line.
pub fn distribution(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<_> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    sorted.into_iter().enumerate().map(|(at, value)| (value, (at + 1) as f64 / count)).collect()
}

/// Text that is safe between tags and in attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn grid(svg: &mut String, frame: &Frame, x: &Axis, y: &Axis) {
    for tick in &x.ticks {
        let at = x_of(x, *tick);
        let _ = writeln!(svg, "<path d=\"M{at:.1} {TOP}V{BOTTOM}\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 14.0,
            number(*tick)
        );
    }
    for tick in &y.ticks {
        let at = y_of(y, *tick);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{RIGHT}\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 5.0,
            at + 4.0,
            number(*tick)
        );
    }
    let middle = (LEFT + RIGHT) / 2.0;
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        BOTTOM + 30.0,
        escape(&frame.x)
    );
    let height = (TOP + BOTTOM) / 2.0;
    let _ = writeln!(
        svg,
        "<text transform=\"translate(12 {height}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escape(&frame.y)
    );
}

fn legend(svg: &mut String, lines: &[Line]) {
    let mut seen: Vec<&str> = Vec::new();
    let mut y = TOP + 8.0;
    for line in lines {
        if seen.contains(&line.label.as_str()) {
            continue;
        }
        seen.push(&line.label);
        let class = line.colour % COLOURS.len();
        for words in wrapped(&line.label) {
            let x = RIGHT + 8.0;
            let _ = writeln!(svg, "<text class=\"f{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(&words));
            y += 13.0;
        }
        y += 2.0;
    }
}

/// Lines of words that fit beside the axes.
fn wrapped(label: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in label.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= LEGEND => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, log: bool, from_zero: bool) -> Self {
        let values: Vec<_> = values.filter(|value| !log || *value > 0.0).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !low.is_finite() {
            return Self { from: 0.0, to: 1.0, log: false, ticks: vec![0.0, 1.0] };
        }
        if log { Self::decades(low, high) } else { Self::even(low, high, from_zero) }
    }

    fn decades(low: f64, high: f64) -> Self {
        let (from, to) =
            (low.log10().floor() as i32, (high.log10().ceil() as i32).max(low.log10().floor() as i32 + 1));
        let ticks = (from..=to).map(|power| 10_f64.powi(power)).collect();
        Self { from: 10_f64.powi(from), to: 10_f64.powi(to), log: true, ticks }
    }

    fn even(low: f64, high: f64, from_zero: bool) -> Self {
        let low = if from_zero || low > 0.0 && low < high / 3.0 { low.min(0.0) } else { low };
        let span = if high > low { high - low } else { 1.0 };
        let magnitude = 10_f64.powf((span / TICKS).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|digit| digit * magnitude)
            .find(|step| span / step <= TICKS);
        let step = step.unwrap_or(span);
        let (from, to) = ((low / step).floor(), ((low + span) / step).ceil());
        let ticks = (from as i64..=to as i64).map(|tick| tick as f64 * step).collect();
        Self { from: from * step, to: to * step, log: false, ticks }
    }

    /// 0 at its start, 1 at its end.
    fn share(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log { value.log10() } else { value };
        (scale(value) - scale(self.from)) / (scale(self.to) - scale(self.from))
    }
}

fn x_of(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.share(value) * (RIGHT - LEFT)
}

fn y_of(axis: &Axis, value: f64) -> f64 {
    BOTTOM - axis.share(value) * (BOTTOM - TOP)
}

/// At most [`POINTS`] points, evenly taken, the extremes of what lies between them kept.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let chunk = points.len().div_ceil(POINTS / 2).max(1);
    if chunk < 3 {
        return points.to_vec();
    }
    let by_value = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
    let extremes = |chunk: &[(f64, f64)]| {
        let low = chunk.iter().min_by(by_value).copied();
        let high = chunk.iter().max_by(by_value).copied();
        let mut both: Vec<_> = low.into_iter().chain(high).collect();
        both.sort_by(|one, other| one.0.total_cmp(&other.0));
        both
    };
    points.chunks(chunk).flat_map(extremes).collect()
}

/// Short enough for the margin.
fn number(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned() + unit
}

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 470.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 226.0;
const TICKS: f64 = 7.0;
/// Characters of a line of the legend.
const LEGEND: usize = 24;
/// More would not be seen at this width.
const POINTS: usize = 600;
/// On light and on dark paper (after Okabe and Ito, told apart by colour-blind readers too).
const COLOURS: [[&str; 2]; 8] = [
    ["#c0392b", "#ff7b6b"],
    ["#0072b2", "#5db4ec"],
    ["#00805a", "#35c79a"],
    ["#8e44ad", "#c48ae0"],
    ["#b36b00", "#f0a93a"],
    ["#5c646c", "#aab2ba"],
    ["#a3346f", "#ee82bb"],
    ["#2f6f6f", "#6cc3c3"],
];

/// What is not of a case.
struct Paper {
    ink: &'static str,
    grey: &'static str,
    line: &'static str,
    paper: &'static str,
}

const LIGHT: Paper = Paper { ink: "#22262b", grey: "#5f666e", line: "#dfe3e7", paper: "#ffffff" };
const DARK: Paper = Paper { ink: "#e6e8ea", grey: "#9aa2aa", line: "#343a40", paper: "#16191c" };
const SHAPES: &str = ".chart text{font:11px sans-serif}.chart .title{font-weight:bold}\
    .chart polyline{fill:none;stroke-width:1.3;stroke-opacity:.85}.chart path{fill:none}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values_and_end_on_ticks() {
        let axis = Axis::new([3.0, 97.0].into_iter(), false, true);
        assert_eq!((axis.from, axis.to, axis.ticks.len()), (0.0, 100.0, 6));
        let axis = Axis::new([0.04, 120.0].into_iter(), true, false);
        assert_eq!((axis.from, axis.ticks.len()), (0.01, 6));
        assert!((axis.to - 1000.0).abs() < 1e-9 && (axis.share(axis.to) - 1.0).abs() < 1e-12);
        assert_eq!(Axis::new([].into_iter(), true, false).ticks, [0.0, 1.0]);
        assert_eq!(Axis::new([5.0].into_iter(), false, false).share(5.0), 0.0);
    }

    #[test]
    fn words_fit_beside_and_numbers_before_the_axes() {
        let label = "tx-usecs 1024, tx-frames 64, limit fixed";
        assert_eq!(wrapped(label), ["tx-usecs 1024, tx-frames", "64, limit fixed"]);
        assert_eq!([0.01, 250.0, 9_000.0, 40_000.0, 1e7].map(number), ["0.01", "250", "9000", "40k", "10M"]);
    }

    #[test]
    fn thinning_keeps_spikes_and_order() {
        let mut points: Vec<_> = (0..10_000).map(|at| (f64::from(at), 1.0)).collect();
        points[777].1 = 50.0;
        let thinned = thin(&points);
        assert!(thinned.len() <= POINTS && thinned.contains(&(777.0, 50.0)));
        assert!(thinned.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn what_is_drawn_is_escaped_and_inside() {
        let frame = Frame { title: "a < b".into(), x: "x".into(), y: "y".into(), log_x: false, log_y: true };
        let line =
            Line { colour: 9, label: "\"q\"".into(), points: vec![(0.0, 1.0), (1.0, 0.0), (2.0, 10.0)] };
        let svg = svg(&frame, &[line]);
        assert!(svg.contains("a &lt; b") && svg.contains("&quot;q&quot;"));
        assert!(svg.contains("points=\"56.0,226.0 470.0,28.0\""), "zero has no place on a log axis: {svg}");
        assert!(file(&frame, &[]).contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn a_distribution_ends_at_one() {
        assert_eq!(distribution(&[3.0, 1.0, f64::NAN]), [(1.0, 0.5), (3.0, 1.0)]);
    }
}
