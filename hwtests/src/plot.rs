//! SVG plots.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Ping over time of one case: a thin line per run, and the median under load written beside it.
#[derive(Clone, Debug)]
pub struct PingSeries {
    /// Name of the case.
    pub label: String,
    /// Colour of its lines.
    pub colour: RGBColor,
    /// Runs of points (seconds since the load began, ms); ascending, negative while idle.
    pub runs: Vec<Vec<(f64, f64)>>,
    /// Median under load in ms.
    pub median: f64,
    /// From where on it was taken, seconds.
    pub median_from: f64,
}

/// Draws all cases over one logarithmic ordinate, under title and subtitle, and writes `path`; `marks` are words on
/// the time axis.
pub fn ping_over_time(
    path: &Path,
    titles: [&str; 2],
    series: &[PingSeries],
    marks: &[(f64, String)],
) -> Result<()> {
    let drawn = draw(path, titles, series, marks);
    drawn.map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(path: &Path, [title, subtitle]: [&str; 2], series: &[PingSeries], marks: &[(f64, String)]) -> Drawn {
    let canvas = SVGBackend::new(path, SIZE).into_drawing_area();
    canvas.fill(&WHITE)?;
    canvas.draw_text(title, &text(32).into_text_style(&canvas).color(&INK), (LEFT as i32, 22))?;
    canvas.draw_text(subtitle, &text(19).into_text_style(&canvas).color(&GREY), (LEFT as i32, 64))?;
    draw_chart(&canvas, series, marks)?;
    canvas.present()?;
    Ok(())
}

fn draw_chart(canvas: &Canvas<'_>, series: &[PingSeries], marks: &[(f64, String)]) -> Drawn {
    let (from, to) = time_range(series);
    let (low, high) = decades(series);
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(104)
        .margin_right(200)
        .margin_bottom(MARGIN)
        .margin_left(MARGIN)
        .x_label_area_size(60)
        .y_label_area_size(LEFT - MARGIN)
        .build_cartesian_2d(from..to, (low..high).log_scale())?;
    let idle = Rectangle::new([(from, low), (0.0_f64.clamp(from, to), high)], SHADE.filled());
    chart.draw_series([idle])?;
    chart
        .configure_mesh()
        .axis_style(GREY)
        .bold_line_style(GREY.mix(0.35))
        .light_line_style(GREY.mix(0.12))
        .max_light_lines(9)
        .x_max_light_lines(1)
        .x_labels(12)
        .x_desc("seconds since the load began (shaded: idle before)")
        .y_desc("ping, ms")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y}"))
        .label_style(text(20).color(&INK))
        .axis_desc_style(text(20).color(&GREY))
        .draw()?;
    for case in series {
        for run in &case.runs {
            chart.draw_series(LineSeries::new(run.iter().copied(), case.colour.mix(0.55).stroke_width(1)))?;
        }
    }
    let mut labelled: Vec<_> = series.iter().filter(|case| case.median.is_finite()).collect();
    labelled.sort_by(|one, other| other.median.total_cmp(&one.median));
    let end = |case: &&PingSeries| chart.backend_coord(&(to, case.median));
    let heights = apart(&labelled.iter().map(|case| end(case).1).collect::<Vec<_>>(), LABEL_HEIGHT);
    let right = chart.backend_coord(&(to, low)).0;
    for (case, y) in labelled.into_iter().zip(heights) {
        let level = [(case.median_from, case.median), (to, case.median)];
        chart.draw_series(DashedLineSeries::new(level, 10, 6, case.colour.stroke_width(3)))?;
        label(canvas, (right + 10, y), case)?;
    }
    for (at, words) in marks {
        let (x, y) = chart.backend_coord(&(*at, low));
        let style = text(20).into_text_style(canvas).color(&INK);
        canvas.draw_text(words, &style.pos(Pos::new(HPos::Left, VPos::Bottom)), (x, y - 8))?;
    }
    Ok(())
}

fn label(canvas: &Canvas<'_>, (x, y): (i32, i32), case: &PingSeries) -> Drawn {
    let beside = |size| text(size).into_text_style(canvas).color(&case.colour);
    canvas.draw_text(&case.label, &beside(26).pos(Pos::new(HPos::Left, VPos::Bottom)), (x, y))?;
    let median = format!("median {} ms", significant(case.median));
    canvas.draw_text(&median, &beside(20).pos(Pos::new(HPos::Left, VPos::Top)), (x, y))?;
    Ok(())
}

/// Ascending heights, moved as evenly up and down as it takes to have `gap` between neighbours.
fn apart(heights: &[i32], gap: i32) -> Vec<i32> {
    let mut groups: Vec<(i32, i32)> = Vec::new(); // middle, members
    for &height in heights {
        let mut group = (height, 1);
        while let Some(&(middle, members)) = groups.last()
            && group.0 - middle < gap * (group.1 + members) / 2
        {
            groups.pop();
            let all = group.1 + members;
            group = ((group.0 * group.1 + middle * members) / all, all);
        }
        groups.push(group);
    }
    let members = |(middle, members): (i32, i32)| {
        (0..members).map(move |member| middle + gap * (2 * member - members + 1) / 2)
    };
    groups.into_iter().flat_map(members).collect()
}

/// Three significant digits without an exponent, from 0.01 up.
pub fn significant(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn points(series: &[PingSeries]) -> impl Iterator<Item = (f64, f64)> + '_ {
    series.iter().flat_map(|case| case.runs.iter().flatten().copied())
}

fn time_range(series: &[PingSeries]) -> (f64, f64) {
    let from = points(series).map(|(x, _)| x).fold(0.0, f64::min);
    let to = points(series).map(|(x, _)| x).fold(1.0, f64::max);
    (from, to)
}

/// The decades that hold every point, at least 0.1 to 10 ms.
fn decades(series: &[PingSeries]) -> (f64, f64) {
    let low = points(series).map(|(_, y)| y).filter(|&y| y > 0.0).fold(0.1, f64::min);
    let high = points(series).map(|(_, y)| y).fold(10.0, f64::max);
    (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()))
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().into()
}

/// Wide enough that a line of one ping per 20 ms still shows its single points.
const SIZE: (u32, u32) = (1400, 760);
const MARGIN: u32 = 20;
const LEFT: u32 = 120;
/// A label's two lines and a little air.
const LABEL_HEIGHT: i32 = 56;
const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const GREY: RGBColor = RGBColor(0x6b, 0x72, 0x7a);
const SHADE: RGBColor = RGBColor(0xf1, 0xf3, 0xf5);

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> PingSeries {
        let run = values.iter().enumerate().map(|(x, &y)| (x as f64 - 1.0, y)).collect();
        PingSeries { label: "case".into(), colour: RED, runs: vec![run], median: 2.0, median_from: 0.0 }
    }

    #[test]
    fn the_axes_hold_every_point() {
        let series = [series(&[0.04, 3.0]), series(&[200.0, 0.0, 250.0])];
        let (low, high) = decades(&series);
        assert!((low - 0.01).abs() < 1e-9 && (high - 1000.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(time_range(&series), (-1.0, 1.0));
        assert_eq!(decades(&[]), (0.1, 10.0));
    }

    #[test]
    fn labels_keep_apart() {
        assert_eq!(apart(&[100, 300], 50), [100, 300]);
        assert_eq!(apart(&[100, 110], 50), [80, 130]);
        assert_eq!(apart(&[100, 100, 100], 50), [50, 100, 150]);
        assert_eq!(apart(&[60, 100, 110], 50), [40, 90, 140]);
        assert_eq!(apart(&[], 50), [0_i32; 0]);
    }

    #[test]
    fn three_digits_are_shown() {
        assert_eq!([0.154_321, 9.94, 12.34, 235.4].map(significant), ["0.15", "9.94", "12.3", "235"]);
    }
}
