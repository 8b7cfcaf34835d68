//! The runs of one combination as one line: medians over the repeats, storages apart.

use super::benchmark::StorageId;
use super::measure::Run;

/// The median and the range of one figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// The smallest.
    pub min: f64,
    /// The middle, or the mean of the middle two.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Figure {
    /// `None` of nothing.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Self { min: first, median, max: last })
    }
}

/// A combination's row.
#[derive(Clone, Debug)]
pub struct Line {
    /// The storage.
    pub storage: StorageId,
    /// Distinguishes it from others of its storage.
    pub parameters: String,
    /// Its runs.
    pub runs: Vec<Run>,
}

impl Line {
    /// A figure of all runs.
    pub fn figure(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Figure> {
        Figure::of(self.runs.iter().filter_map(of))
    }
}

/// One line by combination, in the order in which they were first run.
pub fn lines(runs: &[Run]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for run in runs {
        let is_its = |line: &&mut Line| {
            (line.storage, &line.parameters) == (run.storage_id, &run.parameters)
        };
        match lines.iter_mut().find(is_its) {
            Some(line) => line.runs.push(run.clone()),
            None => lines.push(Line {
                storage: run.storage_id,
                parameters: run.parameters.clone(),
                runs: vec![run.clone()],
            }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_stands_between_the_ends() {
        let of = |values: &[f64]| Figure::of(values.iter().copied());
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(Figure { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(of(&[4.0, 1.0]), Some(Figure { min: 1.0, median: 2.5, max: 4.0 }));
        assert_eq!(of(&[f64::NAN]), None);
    }
}
