//! Statistics of a column, in bounded memory.

/// Rows that quantiles are made of, at most, and numbers in them.
const ROWS_MAX: usize = 8192;
const KEPT_MAX: usize = 1 << 22;

/// What LeRobot calls its quantiles.
pub const QUANTILES: [(&str, f64); 5] =
    [("q01", 0.01), ("q10", 0.1), ("q50", 0.5), ("q90", 0.9), ("q99", 0.99)];

/// Of a column whose rows have some numbers each. Least, greatest, mean and deviation are of all rows; quantiles of
/// all, or of every 2nd, 4th, … so that at most 8,192 are kept, fewer of wide rows.
#[derive(Clone)]
pub struct Stats {
    pub count: u64,
    least: Vec<f64>,
    greatest: Vec<f64>,
    mean: Vec<f64>,
    /// Sums of squared deviations (Welford).
    squares: Vec<f64>,
    every: u64,
    rows: Vec<Vec<f64>>,
    rows_max: usize,
}

/// The results.
pub struct Figures {
    pub count: u64,
    /// LeRobot's names, and a number for each of the row's.
    pub values: Vec<(&'static str, Vec<f64>)>,
}

impl Stats {
    pub fn new(width: usize) -> Self {
        Self {
            count: 0,
            least: vec![f64::INFINITY; width],
            greatest: vec![f64::NEG_INFINITY; width],
            mean: vec![0.0; width],
            squares: vec![0.0; width],
            every: 1,
            rows: Vec::new(),
            rows_max: (KEPT_MAX / width.max(1)).clamp(64, ROWS_MAX),
        }
    }

    pub fn add(&mut self, row: &[f64]) {
        if self.count.is_multiple_of(self.every) {
            if self.rows.len() == self.rows_max {
                let mut at = 0;
                self.rows.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.every *= 2;
            }
            if self.count.is_multiple_of(self.every) {
                self.rows.push(row.to_vec());
            }
        }
        self.count += 1;
        for (at, value) in row.iter().copied().enumerate() {
            self.least[at] = self.least[at].min(value);
            self.greatest[at] = self.greatest[at].max(value);
            let away = value - self.mean[at];
            self.mean[at] += away / self.count as f64;
            self.squares[at] += away * (value - self.mean[at]);
        }
    }

    /// Adds the rows of another (Chan's formula); its quantiles count with the rows that it has kept.
    pub fn merge(&mut self, other: &Self) {
        let (mine, theirs) = (self.count as f64, other.count as f64);
        if other.count == 0 {
            return;
        }
        for at in 0..self.mean.len() {
            self.least[at] = self.least[at].min(other.least[at]);
            self.greatest[at] = self.greatest[at].max(other.greatest[at]);
            let away = other.mean[at] - self.mean[at];
            self.mean[at] += away * theirs / (mine + theirs);
            self.squares[at] += other.squares[at] + away * away * mine * theirs / (mine + theirs);
        }
        self.count += other.count;
        // Both samples as coarse as the coarser one.
        let every = self.every.max(other.every);
        let thin = |rows: &[Vec<f64>], from: u64| {
            let step = usize::try_from(every / from).unwrap_or(usize::MAX);
            rows.iter().step_by(step).cloned().collect::<Vec<_>>()
        };
        self.rows = thin(&self.rows, self.every);
        self.rows.extend(thin(&other.rows, other.every));
        self.every = every;
        while self.rows.len() > self.rows_max {
            self.rows = self.rows.iter().step_by(2).cloned().collect();
            self.every *= 2;
        }
    }

    pub fn figures(&self) -> Figures {
        let deviation = |squares: &f64| (squares / self.count.max(1) as f64).sqrt();
        let mut values = vec![
            ("min", self.least.clone()),
            ("max", self.greatest.clone()),
            ("mean", self.mean.clone()),
            ("std", self.squares.iter().map(deviation).collect()),
        ];
        let columns: Vec<Vec<f64>> = (0..self.mean.len())
            .map(|at| {
                let mut column: Vec<f64> = self.rows.iter().map(|row| row[at]).collect();
                column.sort_by(f64::total_cmp);
                column
            })
            .collect();
        for (name, part) in QUANTILES {
            values.push((name, columns.iter().map(|column| quantile(column, part)).collect()));
        }
        Figures { count: self.count, values }
    }
}

/// Between the two nearest rows, as NumPy does.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * sorted.len().saturating_sub(1) as f64;
    let value = |at: f64| sorted.get(at as usize).copied().unwrap_or(0.0);
    value(at.floor()) + (value(at.ceil()) - value(at.floor())) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_give_exact_figures_and_many_give_near_quantiles() {
        let figures = |count: u16| {
            let mut stats = Stats::new(1);
            (0..count).for_each(|at| stats.add(&[f64::from(at)]));
            assert!(stats.rows.len() <= ROWS_MAX);
            stats.figures().values.into_iter().map(|(_, values)| values[0]).collect::<Vec<_>>()
        };
        let close = |found: &[f64], wanted: &[f64], by: f64| {
            let is_close = found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= by);
            assert!(is_close, "{found:?} {wanted:?}");
        };
        close(&figures(101), &[0., 100., 50., 850f64.sqrt(), 1., 10., 50., 90., 99.], 1e-9);
        let many = figures(40_000);
        close(&many[..3], &[0., 39_999., 19_999.5], 1e-6);
        close(&many[4..], &[400., 4000., 20_000., 36_000., 39_600.], 10.0);
        let part = |range: std::ops::Range<u16>| {
            let mut stats = Stats::new(1);
            range.for_each(|at| stats.add(&[f64::from(at)]));
            stats
        };
        let mut merged = part(0..10_000);
        merged.merge(&part(10_000..40_000));
        assert!(merged.count == 40_000 && merged.rows.len() <= ROWS_MAX);
        let merged: Vec<_> =
            merged.figures().values.into_iter().map(|(_, values)| values[0]).collect();
        close(&merged[..4], &many[..4], 1e-6);
        close(&merged[4..], &many[4..], 20.0);
    }
}
