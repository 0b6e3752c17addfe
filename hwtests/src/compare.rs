//! Two results beside each other: what differs, and whether that is more than noise.
//!
//! The difference of the means of two sets of repeats comes with its 95 % confidence interval after Welch (Biometrika
//! 34, 1947): unequal variances, degrees of freedom after Satterthwaite. An interval that holds zero is noise.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::plot::significant;

/// What is read of a `result.json`; that of every program of the project has it.
#[derive(Debug, Deserialize)]
struct Saved {
    date: String,
    commit: String,
    results: Vec<Figure>,
    /// Missing in files without repeats.
    #[serde(default)]
    repeats: BTreeMap<String, Vec<f64>>,
}

#[derive(Debug, Deserialize)]
struct Figure {
    name: String,
    value: Option<f64>,
    unit: String,
    better: String,
}

/// A difference and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Difference {
    mean: f64,
    /// Half the width of the 95 % interval; none with a single run on a side.
    half: Option<f64>,
}

/// A table of all figures that both files hold.
///
/// # Errors
/// A file cannot be read, or is no result; no figure is in both.
pub fn compare(a: &Path, b: &Path) -> Result<String> {
    let (one, other) = (read(a)?, read(b)?);
    let mut text = format!(
        "A: {} ({}, {})\nB: {} ({}, {})\n\n{:<58} {:>10} {:>10} {:>9}   95 % interval of B - A\n",
        a.display(),
        one.date,
        one.commit,
        b.display(),
        other.date,
        other.commit,
        "",
        "A",
        "B",
        "B - A"
    );
    let mut both = 0;
    for figure in &one.results {
        let Some(same) = other.results.iter().find(|found| found.name == figure.name) else { continue };
        let (Some(before), Some(after)) = (figure.value, same.value) else { continue };
        both += 1;
        let samples =
            |saved: &Saved, value| saved.repeats.get(&figure.name).cloned().unwrap_or_else(|| vec![value]);
        let difference = Difference::of(&samples(&one, before), &samples(&other, after));
        let _ = writeln!(
            text,
            "{:<58} {:>10} {:>10} {:>9}   {}",
            format!(
                "{}{}",
                figure.name,
                if figure.unit.is_empty() { String::new() } else { format!(", {}", figure.unit) }
            ),
            significant(before),
            significant(after),
            significant(difference.mean),
            difference.words(&figure.better)
        );
    }
    let only = |from: &Saved, than: &Saved| {
        let of =
            from.results.iter().filter(|figure| than.results.iter().all(|found| found.name != figure.name));
        of.map(|figure| figure.name.clone()).collect::<Vec<_>>()
    };
    for (side, names) in [("A", only(&one, &other)), ("B", only(&other, &one))] {
        if !names.is_empty() {
            let _ = writeln!(text, "\nonly in {side}: {}", names.join(", "));
        }
    }
    anyhow::ensure!(both > 0, "{} and {} have no figure in common", a.display(), b.display());
    Ok(text)
}

fn read(path: &Path) -> Result<Saved> {
    let path = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no result.json", path.display()))
}

impl Difference {
    fn of(a: &[f64], b: &[f64]) -> Self {
        let (of_a, of_b) = (Moments::of(a), Moments::of(b));
        let mean = of_b.mean - of_a.mean;
        let (Some(spread_a), Some(spread_b)) = (of_a.error, of_b.error) else {
            return Self { mean, half: None };
        };
        let sum = spread_a + spread_b;
        if sum == 0.0 {
            return Self { mean, half: Some(0.0) };
        }
        let share = |error: f64, count: usize| error * error / (count - 1) as f64;
        let freedom = sum * sum / (share(spread_a, a.len()) + share(spread_b, b.len()));
        Self { mean, half: Some(student(freedom) * sum.sqrt()) }
    }

    fn words(&self, better: &str) -> String {
        let Some(half) = self.half else { return "one run on a side: no interval".into() };
        let interval = format!("{} to {}", significant(self.mean - half), significant(self.mean + half));
        if self.mean.abs() <= half {
            return format!("{interval}: below the noise");
        }
        let is_better = (self.mean < 0.0) == (better == "lower");
        format!("{interval}: B is {}", if is_better { "better" } else { "worse" })
    }
}

/// Mean and squared standard error of the mean.
struct Moments {
    mean: f64,
    error: Option<f64>,
}

impl Moments {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, error: (values.len() > 1).then(|| squares / (count - 1.0) / count) }
    }
}

/// Two-sided 95 % quantile of Student's t; between whole degrees of freedom the smaller one's, which is the wider.
fn student(freedom: f64) -> f64 {
    let at = (freedom.floor() as usize).clamp(1, STUDENT.len()) - 1;
    if freedom >= 120.0 { 1.980 } else { STUDENT[at] }
}

/// For 1 to 30 degrees of freedom (Fisher and Yates, Statistical Tables).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welchs_interval() {
        // Means 2 and 5, variances 1 and 4, three each: error 5/3, 2.94 degrees of freedom, t of 2.
        let difference = Difference::of(&[1.0, 2.0, 3.0], &[3.0, 5.0, 7.0]);
        assert_eq!(difference.mean, 3.0);
        assert!((difference.half.unwrap() - 4.303 * (5.0_f64 / 3.0).sqrt()).abs() < 1e-9);
        assert!(difference.words("lower").ends_with("below the noise"));
        let clear = Difference::of(&[1.0, 1.1, 0.9], &[9.0, 9.1, 8.9]);
        assert!(
            clear.words("lower").ends_with("B is worse") && clear.words("higher").ends_with("B is better")
        );
        assert_eq!(Difference::of(&[1.0], &[2.0, 3.0]).half, None);
        assert_eq!(Difference::of(&[1.0, 1.0], &[1.0, 1.0]).words("lower"), "0.00 to 0.00: below the noise");
        assert_eq!(student(2.94), 4.303);
    }

    #[test]
    fn files_of_all_programs_are_read() {
        let folder = std::env::temp_dir().join(format!("hwtests-compare-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, values: [f64; 3], other: &str| {
            let path = folder.join(name);
            let text = serde_json::json!({"machine": {}, "date": "d", "commit": "c",
                "results": [{"name": "x.ping", "value": values[1], "unit": "ms", "better": "lower", "bar": null},
                            {"name": other, "value": null, "unit": "", "better": "higher"}],
                "repeats": {"x.ping": values}});
            fs::write(&path, text.to_string()).unwrap();
            path
        };
        let a = write("a.json", [1.0, 1.1, 1.2], "only.a");
        let b = write("b.json", [5.0, 5.1, 5.2], "only.b");
        let text = compare(&a, &b).unwrap();
        assert!(text.contains("x.ping, ms") && text.contains("B is worse"), "{text}");
        assert!(text.contains("only in A: only.a") && text.contains("only in B: only.b"), "{text}");
        let error = format!("{:#}", compare(&a, Path::new("/no/such.json")).unwrap_err());
        assert!(error.contains("/no/such.json"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
