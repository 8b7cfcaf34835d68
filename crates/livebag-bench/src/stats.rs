//! Percentiles and medians.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Three significant digits: a latency is off by at most 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Durations in nanoseconds, of which percentiles are asked.
pub struct Durations(Histogram<u64>);

impl Default for Durations {
    fn default() -> Self {
        // The digits are in the range that the crate takes (0..=5).
        Self(Histogram::new(SIGNIFICANT_DIGITS).unwrap_or_else(|_| unreachable!()))
    }
}

impl Durations {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set of these values.
    pub fn of(values_nanos: impl IntoIterator<Item = u64>) -> Self {
        let mut durations = Self::new();
        for value in values_nanos {
            durations.record(value);
        }
        durations
    }

    /// Adds one.
    pub fn record(&mut self, nanos: u64) {
        // The histogram grows by itself; it refuses only what exceeds its memory's index.
        let _ = self.0.record(nanos);
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        // As above.
        let _ = self.0.add(&other.0);
    }

    /// The mean in microseconds; none where nothing was recorded.
    pub fn mean_us(&self) -> Option<f64> {
        self.filled(|h| h.mean() / 1e3)
    }

    /// The value in microseconds below which `percent` of all lie.
    pub fn percentile_us(&self, percent: f64) -> Option<f64> {
        self.filled(|h| h.value_at_percentile(percent) as f64 / 1e3)
    }

    /// The largest, in microseconds.
    pub fn max_us(&self) -> Option<f64> {
        self.filled(|h| h.max() as f64 / 1e3)
    }

    /// The usual percentiles; none without values.
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles {
            p50_us: self.percentile_us(50.0)?,
            p99_us: self.percentile_us(99.0)?,
            max_us: self.percentile_us(100.0)?,
        })
    }

    fn filled(&self, figure: impl Fn(&Histogram<u64>) -> f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| figure(&self.0))
    }
}

/// Microseconds below which 50, 99 and all per cent lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The median.
    pub p50_us: f64,
    /// One in a hundred is longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// The median (of an even count: the mean of the middle two); none without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The ratio of the medians of two interleaved series, with the smallest and the largest ratio of
/// the pairs that were measured in one repeat.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// Median over median.
    pub of_medians: f64,
    /// The smallest ratio of one repeat.
    pub min: f64,
    /// The largest ratio of one repeat.
    pub max: f64,
}

/// Compares `ours` to `theirs`, value by value measured in the same repeat.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> Option<Ratio> {
    let of_medians = median(ours)? / median(theirs)?;
    let pairs = ours.iter().zip(theirs).map(|(a, b)| a / b).filter(|r| r.is_finite());
    let (min, max) =
        pairs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), r| (low.min(r), high.max(r)));
    of_medians.is_finite().then_some(Ratio { of_medians, min, max })
}

/// A figure with three significant digits, for the JSON and the tables alike.
pub fn round3(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return value.round();
    }
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 5.0]), Some(5.0));
    }

    #[test]
    fn percentiles_of_a_ramp() {
        let ramp = Durations::of((1..=1000).map(|us| us * 1000));
        let close = |value: Option<f64>, expected: f64| {
            let value = value.unwrap();
            assert!((value - expected).abs() / expected < 0.002, "{value} is not {expected}");
        };
        close(ramp.percentile_us(50.0), 500.0);
        close(ramp.percentile_us(99.0), 990.0);
        close(ramp.max_us(), 1000.0);
        close(ramp.mean_us(), 500.5);
        assert_eq!(Durations::new().max_us(), None);
    }

    #[test]
    fn ratios_have_their_spread() {
        let r = ratio(&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0]).unwrap();
        assert_eq!((r.of_medians, r.min, r.max), (1.0, 0.5, 1.5));
        assert_eq!(ratio(&[], &[1.0]), None);
    }

    #[test]
    fn figures_are_cut_to_three_digits() {
        assert_eq!(round3(1234.567), 1235.0);
        assert_eq!(round3(12.3456), 12.3);
        assert_eq!(round3(0.0123456), 0.0123);
        assert_eq!(round3(0.0), 0.0);
    }
}
