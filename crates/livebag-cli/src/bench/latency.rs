//! Latencies and their percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Three significant digits: a latency is off by at most 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Many latencies.
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // The digits are in the range that the crate takes (0..=5).
        Self(Histogram::new(SIGNIFICANT_DIGITS).unwrap_or_else(|_| unreachable!()))
    }
}

impl Latencies {
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

    /// What is told of them; none of none.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let at = |percent| self.0.value_at_percentile(percent) as f64 / 1e3;
        (!self.0.is_empty()).then(|| Percentiles {
            p50_us: at(50.0),
            p99_us: at(99.0),
            max_us: at(100.0),
        })
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
