//! Percentile curves as an SVG that follows the reader's light or dark scheme.
//!
//! The abscissa is that of HdrHistogram's plots: each nine takes the same room, so that the slowest packets
//! have as much of it as all others. Both axes are logarithmic. Written by hand: a plotting crate brings
//! more than the 100 lines it would save.

use super::delays::{ALL_TINS, Delay, Delays, Until};
use super::formats::time;
use std::fmt::Write as _;

/// The curves of all histograms that are not empty.
pub fn svg(delays: &Delays) -> String {
    let shown: Vec<_> = delays.histograms.iter().filter(|delay| delay.count > 0).collect();
    let axes = Axes::new(&shown);
    let legend = TOP + 14.0 * shown.len() as f64 + 20.0;
    let height = (BOTTOM + 44.0).max(legend);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{TITLE}\">\n<style>{}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"18\">{TITLE}, {:.1} s</text>\n",
        style(),
        delays.window_s
    );
    axes.draw(&mut svg);
    for (index, delay) in shown.iter().enumerate() {
        let points: Vec<_> = curve(delay).map(|(nines, nanos)| axes.place(nines, nanos)).collect();
        let class = index % COLOURS.len();
        let dashes = ["", " stroke-dasharray=\"5 3\"", " stroke-dasharray=\"1.5 2.5\""];
        let dash = dashes.get(index / COLOURS.len()).copied().unwrap_or_default();
        let _ = writeln!(svg, "<polyline class=\"s{class}\"{dash} points=\"{}\"/>", points.join(" "));
        let (x, y) = (RIGHT + 12.0, TOP + 10.0 + 14.0 * index as f64);
        let _ =
            writeln!(svg, "<text class=\"f{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(&label(delay)));
    }
    if shown.is_empty() {
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{TOP}\">no packets</text>");
    }
    svg + "</svg>\n"
}

/// Nines, and the nanoseconds that this share of the packets took at most. A step up at each bucket.
fn curve(delay: &Delay) -> impl Iterator<Item = (f64, u64)> + '_ {
    let (mut sum, mut from) = (0, 0.0);
    delay.buckets.iter().flat_map(move |(nanos, count)| {
        sum += count;
        // The slowest packet has no nines: it ends where one packet more would be seen.
        let left = (delay.count - sum) as f64;
        let to = -(left.max(0.5) / delay.count as f64).log10();
        let step = [(from, *nanos), (to, *nanos)];
        from = to;
        step
    })
}

fn label(delay: &Delay) -> String {
    let tin = delay.tin.as_deref().unwrap_or(ALL_TINS);
    let until = if delay.until == Until::Submission && delay.kind == super::delays::Kind::Total {
        " to submission"
    } else {
        ""
    };
    format!("{}/{} {tin} {}{until}", delay.link, delay.direction, delay.kind)
}

/// What the axes span.
struct Axes {
    nines: f64,
    /// Powers of ten of nanoseconds.
    low: i32,
    high: i32,
}

impl Axes {
    fn new(shown: &[&Delay]) -> Self {
        let most = shown.iter().map(|delay| delay.count).max().unwrap_or(1) as f64;
        let (low, high) = shown
            .iter()
            .fold((u64::MAX, 1_000), |(low, high), delay| (low.min(delay.min), high.max(delay.max)));
        let low = low.min(high).max(1_000).ilog10() as i32;
        let high = (high as f64).log10().ceil() as i32;
        Self { nines: (2.0 * most).log10().max(2.0), low, high: high.max(low + 1) }
    }

    fn x(&self, nines: f64) -> f64 {
        LEFT + nines / self.nines * (RIGHT - LEFT)
    }

    fn y(&self, nanos: f64) -> f64 {
        let share = (nanos.max(1.0).log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        BOTTOM - share.clamp(0.0, 1.0) * (BOTTOM - TOP)
    }

    fn place(&self, nines: f64, nanos: u64) -> String {
        format!("{:.1},{:.1}", self.x(nines), self.y(nanos as f64))
    }

    fn draw(&self, svg: &mut String) {
        let median = 2_f64.log10();
        let nines = (0..=self.nines as i32).map(f64::from).chain([median]);
        for at in nines {
            let x = self.x(at);
            let _ = writeln!(svg, "<path d=\"M{x:.1} {TOP}V{BOTTOM}\"/>");
            let y = BOTTOM + 15.0;
            let _ =
                writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", percent(at));
        }
        for power in self.low..=self.high {
            let y = self.y(10_f64.powi(power));
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
            let (x, y) = (LEFT - 6.0, y + 4.0);
            let text = round_time(power);
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
        }
        let (x, y) = ((LEFT + RIGHT) / 2.0, BOTTOM + 32.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">of the packets took at most</text>"
        );
    }
}

fn percent(nines: f64) -> String {
    let share = 100.0 * (1.0 - 10_f64.powf(-nines));
    let decimals = (nines as usize).saturating_sub(2);
    format!("{share:.decimals$}%")
}

fn round_time(power: i32) -> String {
    let nanos = 10_f64.powi(power) as u64;
    let text = time(nanos);
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}{unit}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Plain colours, as not every viewer knows variables.
fn style() -> String {
    let scheme = |scheme: usize| {
        let [ink, grey, line, paper] = PAPER[scheme];
        let series: String = COLOURS
            .iter()
            .enumerate()
            .map(|(at, pair)| format!(".s{at}{{stroke:{0}}}.f{at}{{fill:{0}}}", pair[scheme]))
            .collect();
        format!("text{{fill:{grey}}}.title{{fill:{ink}}}path{{stroke:{line}}}.paper{{fill:{paper}}}{series}")
    };
    format!(
        "{}@media(prefers-color-scheme:dark){{{}}}text{{font:11px sans-serif}}.title{{font-weight:bold}}\
         polyline{{fill:none;stroke-width:1.6}}path{{fill:none}}",
        scheme(0),
        scheme(1)
    )
}

const TITLE: &str = "How long packets took";
const WIDTH: f64 = 860.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 330.0;

/// On light and on dark paper (after Okabe and Ito, told apart by colour-blind readers too).
const COLOURS: [[&str; 2]; 8] = [
    ["#0072b2", "#5db4ec"],
    ["#c0392b", "#ff7b6b"],
    ["#00805a", "#35c79a"],
    ["#8e44ad", "#c48ae0"],
    ["#b36b00", "#f0a93a"],
    ["#5c646c", "#aab2ba"],
    ["#a3346f", "#ee82bb"],
    ["#2f6f6f", "#6cc3c3"],
];

/// Ink, grey, lines and paper, light and dark.
const PAPER: [[&str; 4]; 2] =
    [["#22262b", "#5f666e", "#dfe3e7", "#ffffff"], ["#e6e8ea", "#9aa2aa", "#343a40", "#16191c"]];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::delays::tests::document;

    #[test]
    fn each_histogram_with_packets_has_its_curve() {
        let svg = svg(&document());
        assert_eq!(svg.matches("<polyline").count(), 4, "one of five is empty");
        for wanted in
            ["home/down Voice sojourn", "99.9%", "99.99%", "1ms", "50%", "prefers-color-scheme:dark"]
        {
            assert!(svg.contains(wanted), "no {wanted} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let empty = super::svg(&Delays::default());
        assert!(empty.contains("no packets") && !empty.contains("NaN"));
    }

    #[test]
    fn a_curve_rises_and_stays_inside() {
        let document = document();
        let shown: Vec<_> = document.histograms.iter().filter(|delay| delay.count > 0).collect();
        let axes = Axes::new(&shown);
        for delay in shown {
            let points: Vec<_> = curve(delay).collect();
            assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
            let (nines, nanos) = points[points.len() - 1];
            assert!(axes.x(nines) <= RIGHT + 0.1 && nanos == delay.max, "{nines}");
            assert!((TOP..=BOTTOM).contains(&axes.y(nanos as f64)));
        }
    }

    #[test]
    fn what_stands_on_the_axes_is_short() {
        assert_eq!(
            [0.0, 2_f64.log10(), 1.0, 2.0, 3.0, 5.0].map(percent),
            ["0%", "50%", "90%", "99%", "99.9%", "99.999%"]
        );
        assert_eq!([3, 4, 6, 8, 9, 10].map(round_time), ["1us", "10us", "1ms", "100ms", "1s", "10s"]);
    }
}
