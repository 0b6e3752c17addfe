//! Sums over samples: percentiles, mean, spread, Jain's fairness index.

/// The `q`-quantile, 0 ≤ `q` ≤ 1, linear between the two nearest ranks; NaN for no samples.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let rank = q.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (rank.floor() as usize, rank.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * rank.fract()
}

/// The middle of the samples; NaN for none.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// Largest minus smallest; NaN for no samples.
pub fn spread(samples: &[f64]) -> f64 {
    quantile(samples, 1.0) - quantile(samples, 0.0)
}

/// Jain's fairness index, (Σx)² ÷ (n Σx²): 1 when all have the same, 1/n when one has everything. NaN for no
/// samples or all zero. (Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC TR-301, 1984.)
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_ranks() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&samples, 0.0), 1.0);
        assert_eq!(median(&samples), 2.5);
        assert!((quantile(&samples, 0.95) - 3.85).abs() < 1e-12);
        assert_eq!(quantile(&samples, 1.0), 4.0);
        assert_eq!(spread(&samples), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn jain_runs_from_one_over_n_to_one() {
        assert_eq!(jain(&[5.0; 4]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert!((jain(&[1.0, 2.0, 3.0]) - 36.0 / 42.0).abs() < 1e-12);
        assert!(jain(&[0.0, 0.0]).is_nan());
        assert!(jain(&[]).is_nan());
    }
}
