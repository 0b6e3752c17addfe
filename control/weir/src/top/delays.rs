//! Percentiles of the time between two readings, from histograms that only grow.

use serde::Deserialize;
use std::collections::HashMap;

/// Histograms since the start, as `GET /v1/histograms` has them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Delays {
    #[serde(default)]
    histograms: Vec<Histogram>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Histogram {
    link: String,
    direction: String,
    /// None: all of them together.
    tin: Option<String>,
    kind: String,
    /// The largest value of each bucket in nanoseconds, and how many values it holds; by value.
    buckets: Vec<(u64, u64)>,
}

/// Half, 99 % and 99.9 % of the values were at most, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Half of them.
    pub p50: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
}

/// Whose.
#[derive(Clone, Copy, Debug)]
pub struct Of<'a> {
    /// Name of the link.
    pub link: &'a str,
    /// `up` or `down`.
    pub direction: &'a str,
    /// Name of the tin, or none for all.
    pub tin: Option<&'a str>,
    /// `sojourn`, `residence` or `total`.
    pub kind: &'a str,
}

impl Delays {
    /// What has been recorded since `before`; none if nothing was.
    pub fn since(&self, before: &Self, of: Of<'_>) -> Option<Percentiles> {
        let now = self.find(of)?;
        let old: HashMap<u64, u64> =
            before.find(of).map(|old| old.buckets.iter().copied().collect()).unwrap_or_default();
        let added = |(value, count): &(u64, u64)| {
            (*value, count.saturating_sub(old.get(value).copied().unwrap_or(0)))
        };
        percentiles(&now.buckets.iter().map(added).collect::<Vec<_>>())
    }

    /// Whether the instance tells of any.
    pub fn is_empty(&self) -> bool {
        self.histograms.is_empty()
    }

    fn find(&self, of: Of<'_>) -> Option<&Histogram> {
        self.histograms.iter().find(|histogram| {
            histogram.link == of.link
                && histogram.direction == of.direction
                && histogram.tin.as_deref() == of.tin
                && histogram.kind == of.kind
        })
    }
}

fn percentiles(buckets: &[(u64, u64)]) -> Option<Percentiles> {
    let count: u64 = buckets.iter().map(|(_, count)| count).sum();
    let at = |per_mille: u64| {
        let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1_000) as u64;
        let mut passed = 0;
        let mut values = buckets.iter().filter(|(_, count)| *count > 0);
        let reached = values.find(|(_, count)| {
            passed += count;
            passed >= rank
        });
        reached.map(|(value, _)| *value)
    };
    Some(Percentiles { p50: at(500)?, p99: at(990)?, p999: at(999)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(buckets: &str) -> Delays {
        let text = format!(
            r#"{{"at": 1.0, "histograms": [{{"link": "home", "direction": "up", "tin": null, "kind": "sojourn",
                "unit": "ns", "count": 1, "buckets": {buckets}}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn only_what_came_in_between_counts() {
        let of = Of { link: "home", direction: "up", tin: None, kind: "sojourn" };
        let before = delays("[[1000, 500], [9000, 7]]");
        let now = delays("[[1000, 500], [2000, 990], [5000, 9], [9000, 8]]");
        assert_eq!(now.since(&before, of), Some(Percentiles { p50: 2_000, p99: 2_000, p999: 5_000 }));
        assert_eq!(now.since(&now, of), None);
        assert_eq!(now.since(&before, Of { tin: Some("Voice"), ..of }), None);
        let all = now.since(&Delays::default(), of).unwrap();
        assert_eq!((all.p50, all.p999), (2_000, 9_000));
    }
}
