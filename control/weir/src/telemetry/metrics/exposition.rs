//! Prometheus' text exposition format 0.0.4: families of samples, each with its HELP and TYPE, label
//! values and help escaped as the format says.

use std::borrow::Borrow;
use std::fmt::Write as _;

/// A text that grows family by family.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// One value of each thing of a sort `T`.
pub(super) struct Metric<T> {
    /// Its name; that of a counter ends in `_total`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// One sentence with the unit, unless the name has it.
    pub(super) help: &'static str,
    /// Nothing: this one has none.
    pub(super) value: fn(&T) -> Option<Number>,
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

/// Labels as they are written between braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(String);

/// How many values lay at or below each bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Buckets {
    /// Bound as it is written, and the count.
    pub(super) below: Vec<(&'static str, u64)>,
    /// All values.
    pub(super) count: u64,
    /// Their sum.
    pub(super) sum: f64,
}

impl Exposition {
    /// Every metric of `table` of all `things`. A family of which nothing has a value is left out.
    pub(super) fn table<T, B: Borrow<T>>(&mut self, table: &[Metric<T>], things: &[(Labels, B)]) {
        for metric in table {
            let values =
                things.iter().filter_map(|(labels, thing)| Some((labels, (metric.value)(thing.borrow())?)));
            let mut values = values.peekable();
            if values.peek().is_some() {
                self.head(metric.name, metric.kind, metric.help);
            }
            for (labels, number) in values {
                self.sample(metric.name, "", &labels.0, number);
            }
        }
    }

    /// A family of histograms.
    pub(super) fn histograms(&mut self, name: &str, help: &str, of: &[(Labels, Buckets)]) {
        if of.is_empty() {
            return;
        }
        self.head(name, Kind::Histogram, help);
        let mut bounded = String::new();
        for (Labels(labels), buckets) in of {
            let all = [("+Inf", buckets.count)];
            for (bound, count) in buckets.below.iter().chain(&all) {
                bounded.clear();
                let comma = if labels.is_empty() { "" } else { "," };
                let _ = write!(bounded, "{labels}{comma}le=\"{bound}\"");
                self.sample(name, "_bucket", &bounded, Number::Whole(*count));
            }
            self.sample(name, "_sum", labels, Number::Real(buckets.sum));
            self.sample(name, "_count", labels, Number::Whole(buckets.count));
        }
    }

    /// What was written.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: &str, number: Number) {
        let text = &mut self.0;
        text.push_str(name);
        text.push_str(suffix);
        if !labels.is_empty() {
            text.push('{');
            text.push_str(labels);
            text.push('}');
        }
        let _ = match number {
            Number::Whole(value) => writeln!(text, " {value}"),
            Number::Real(value) => writeln!(text, " {value}"),
        };
    }
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Labels {
    /// Labels of these names and values.
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        pairs.iter().fold(Self::default(), |labels, (name, value)| labels.and(name, value))
    }

    /// These and one more.
    pub(super) fn and(&self, name: &str, value: &str) -> Self {
        let mut labels = self.0.clone();
        if !labels.is_empty() {
            labels.push(',');
        }
        let _ = write!(labels, "{name}=\"");
        for c in value.chars() {
            match c {
                '\\' => labels.push_str("\\\\"),
                '"' => labels.push_str("\\\""),
                '\n' => labels.push_str("\\n"),
                c => labels.push(c),
            }
        }
        labels.push('"');
        Self(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_help_are_escaped_and_empty_families_left_out() {
        let labels = Labels::of(&[("link", "a\"b\\c\nd"), ("tin", "Best Effort")]);
        let table = [
            Metric::<u64> {
                name: "weir_x_total",
                kind: Kind::Counter,
                help: "One\\two\nthree.",
                value: |value| Some(Number::Whole(*value)),
            },
            Metric { name: "weir_y", kind: Kind::Gauge, help: "Nothing.", value: |_| None },
        ];
        let mut text = Exposition::default();
        text.table(&table, &[(labels, u64::MAX)]);
        let expected = "# HELP weir_x_total One\\\\two\\nthree.\n# TYPE weir_x_total counter\n\
             weir_x_total{link=\"a\\\"b\\\\c\\nd\",tin=\"Best Effort\"} 18446744073709551615\n";
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn a_histogram_ends_with_all_its_sum_and_its_count() {
        let buckets = Buckets { below: vec![("0.001", 2), ("0.01", 5)], count: 7, sum: 0.125 };
        let mut text = Exposition::default();
        text.histograms("weir_z_seconds", "Z.", &[(Labels::of(&[("tin", "all")]), buckets)]);
        let expected = "# HELP weir_z_seconds Z.\n# TYPE weir_z_seconds histogram\n\
             weir_z_seconds_bucket{tin=\"all\",le=\"0.001\"} 2\n\
             weir_z_seconds_bucket{tin=\"all\",le=\"0.01\"} 5\n\
             weir_z_seconds_bucket{tin=\"all\",le=\"+Inf\"} 7\n\
             weir_z_seconds_sum{tin=\"all\"} 0.125\nweir_z_seconds_count{tin=\"all\"} 7\n";
        assert_eq!(text.into_text(), expected);
    }
}
